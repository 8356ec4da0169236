//! A network as the settings that describe it.

use super::hash::Hash256;
use super::network::{ChainParameters, Forks, ImportanceScheme, Network, Vesting};

/// Values of `nis.blockChainFeatures`: importance scheme, vesting scheme, and stabilised block times.
pub const BLOCK_CHAIN_FEATURES: [&str; 5] =
    ["PROOF_OF_IMPORTANCE", "PROOF_OF_STAKE", "WB_TIME_BASED_VESTING", "WB_IMMEDIATE_VESTING", "STABILIZE_BLOCK_TIMES"];

/// Settings that do not affect the validity of blocks: how long transaction hashes are kept (those that may still be in
/// a block always are), and the transactions per synchronisation attempt.
const NON_CONSENSUS_SETTINGS: [&str; 2] = ["nis.transactionHashRetentionTime", "nis.maxTransactions"];

/// A setting in which two networks differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingDifference {
    /// Name of the setting.
    pub key: &'static str,
    /// The two values.
    pub values: [String; 2],
}

impl Network {
    /// Returns the settings that describe the network, with their values as in a configuration file.
    pub fn parameters(&self) -> impl Iterator<Item = (&'static str, String)> {
        let identity = [
            ("nem.network", self.name.clone()),
            ("nem.network.version", self.byte.0.to_string()),
            ("nem.network.generationHash", self.generation_hash.to_string()),
            ("nem.network.nemesisSignerAddress", self.nemesis_signer.to_string()),
            ("nem.network.totalAmount", (self.total_amount.0 / 1_000_000).to_string()),
        ];
        identity.into_iter().chain(chain(&self.chain)).chain(forks(&self.chain.forks))
    }

    /// Returns the settings whose difference makes the chains of two networks incompatible.
    pub fn differences(&self, other: &Network) -> Vec<SettingDifference> {
        let pairs = self.parameters().zip(other.parameters());
        let differ = pairs.filter(|((key, left), (_, right))| left != right && !NON_CONSENSUS_SETTINGS.contains(key));
        differ.map(|((key, left), (_, right))| SettingDifference { key, values: [left, right] }).collect()
    }
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
    let [by_importance, by_stake, with_time, at_once, stabilized] = BLOCK_CHAIN_FEATURES;
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
    use super::*;

    #[test]
    fn networks_differ_in_consensus_parameters() {
        let (ours, mut theirs) = (Network::example(), Network::example());
        assert_eq!(ours.differences(&theirs), []);
        theirs.chain.target_time += 1;
        theirs.chain.forks.mosaics += 1;
        let differ: Vec<_> = ours.differences(&theirs).into_iter().map(|difference| difference.key).collect();
        assert_eq!(differ, ["nis.blockGenerationTargetTime", "nis.mosaicsForkHeight"]);
        assert_eq!(ours.differences(&theirs)[0].values, ["60", "61"]);
    }

    #[test]
    fn local_parameters_are_no_network_difference() {
        let (ours, mut theirs) = (Network::example(), Network::example());
        theirs.chain.hash_retention_hours = None;
        theirs.chain.max_transactions += 1;
        assert_eq!(ours.differences(&theirs), []);
    }
}
