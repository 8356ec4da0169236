//! A private network as the settings that every node of it must have.

use super::table::BLOCK_CHAIN_FEATURES;
use crate::model::hash::Hash256;
use crate::model::network::{ChainParameters, Forks, ImportanceScheme, Network, Vesting};

/// The settings, a line each, in the form of a properties file. `nemesis_file` is the name of the nemesis block's file,
/// which lies beside it.
pub fn network_properties(network: &Network, nemesis_file: &str) -> String {
    let identity = [
        ("nem.network", network.name.clone()),
        ("nem.network.version", network.byte.0.to_string()),
        ("nem.network.addressStartChar", network.nemesis_signer.as_str().chars().take(1).collect()),
        ("nem.network.generationHash", network.generation_hash.to_string()),
        ("nem.network.nemesisSignerAddress", network.nemesis_signer.to_string()),
        ("nem.network.totalAmount", (network.total_amount.0 / 1_000_000).to_string()),
        ("nem.network.nemesisFilePath", nemesis_file.to_owned()),
    ];
    let all = identity.into_iter().chain(chain(&network.chain)).chain(forks(&network.chain.forks));
    all.map(|(key, value)| format!("{}\n", format!("{key} = {value}").trim_end())).collect()
}

fn chain(chain: &ChainParameters) -> [(&'static str, String); 7] {
    [
        ("nis.blockGenerationTargetTime", chain.target_time.to_string()),
        ("nis.blockChainRewriteLimit", chain.rewrite_limit.to_string()),
        ("nis.maxTransactionsPerBlock", chain.max_transactions_per_block.to_string()),
        ("nis.maxTransactions", chain.max_transactions.to_string()),
        ("nis.blockChainFeatures", features(chain)),
        ("nis.ignoreFees", chain.ignore_fees.to_string()),
        ("nis.transactionHashRetentionTime", chain.hash_retention_hours.map_or("-1".to_owned(), |h| h.to_string())),
    ]
}

fn features(chain: &ChainParameters) -> String {
    let [by_importance, by_stake, with_time, at_once, stabilized] = [0, 1, 2, 3, 4].map(|at| BLOCK_CHAIN_FEATURES[at]);
    let consensus = match chain.importance {
        ImportanceScheme::ProofOfImportance => by_importance,
        ImportanceScheme::ProofOfStake => by_stake,
    };
    let vesting = match chain.vesting {
        Vesting::TimeBased => with_time,
        Vesting::Immediate => at_once,
    };
    let stabilized = if chain.stabilize_block_times { format!("|{stabilized}") } else { String::new() };
    format!("{consensus}|{vesting}{stabilized}")
}

fn forks(forks: &Forks) -> [(&'static str, String); 9] {
    [
        ("nis.treasuryReissuanceForkHeight", forks.treasury_reissuance.to_string()),
        ("nis.treasuryReissuanceForkTransactionHashes", joined(&forks.treasury_hashes)),
        ("nis.treasuryReissuanceForkFallbackTransactionHashes", joined(&forks.treasury_fallback_hashes)),
        ("nis.multisigMOfNForkHeight", forks.multisig_m_of_n.to_string()),
        ("nis.mosaicsForkHeight", forks.mosaics.to_string()),
        ("nis.firstFeeForkHeight", forks.first_fee.to_string()),
        ("nis.remoteAccountForkHeight", forks.remote_account.to_string()),
        ("nis.mosaicRedefinitionForkHeight", forks.mosaic_redefinition.to_string()),
        ("nis.secondFeeForkHeight", forks.second_fee.to_string()),
    ]
}

fn joined(hashes: &[Hash256]) -> String {
    hashes.iter().map(Hash256::to_string).collect::<Vec<_>>().join("|")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::build;
    use super::*;
    use crate::model::network::ChainParameters;
    use crate::model::{Address, Amount, NetworkByte};

    #[test]
    fn what_is_written_is_read_back_as_the_same_network() {
        let mut network = Network {
            name: "of my own".to_owned(),
            byte: NetworkByte::TESTNET,
            generation_hash: Hash256([7; 32]),
            nemesis_signer: Address::from_public_key(&crate::model::network::MOSAIC_SINK, NetworkByte::TESTNET),
            total_amount: Amount::whole(8_999_999_999),
            chain: ChainParameters::after_all_forks(),
        };
        let mut other = network.clone();
        other.chain = ChainParameters {
            target_time: 10,
            rewrite_limit: 11,
            max_transactions_per_block: 500,
            max_transactions: 501,
            ignore_fees: true,
            hash_retention_hours: None,
            importance: ImportanceScheme::ProofOfStake,
            vesting: Vesting::Immediate,
            stabilize_block_times: true,
            forks: Forks {
                multisig_m_of_n: 2,
                mosaics: 3,
                first_fee: 4,
                remote_account: 5,
                mosaic_redefinition: 6,
                second_fee: 7,
                treasury_reissuance: 8,
                treasury_hashes: vec![Hash256([1; 32]), Hash256([2; 32])],
                treasury_fallback_hashes: vec![Hash256([3; 32])],
            },
        };
        network.byte = NetworkByte(0x60);
        network.nemesis_signer = Address::from_public_key(&crate::model::network::MOSAIC_SINK, network.byte);
        for network in [network, other] {
            let text = network_properties(&network, "first.bin");
            let read = build(Some((Path::new("conf/a"), text.as_bytes())), Vec::new(), Some(Path::new("/")));
            let read = read.unwrap();
            assert_eq!(read.network, network);
            assert_eq!(read.nemesis.0, Path::new("conf/first.bin"));
            assert!(read.notices.is_empty(), "{:?}", read.notices);
        }
    }
}
