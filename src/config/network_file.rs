//! The settings that all nodes of a private network must share.

use crate::model::Network;

/// Returns the settings as a properties file, one per line. `nemesis_file` is the name of the nemesis block's file in
/// the same folder.
pub fn network_properties(network: &Network, nemesis_file: &str) -> String {
    let first_character = network.nemesis_signer.as_str().chars().take(1).collect();
    let further =
        [("nem.network.addressStartChar", first_character), ("nem.network.nemesisFilePath", nemesis_file.to_owned())];
    let all = network.parameters().chain(further);
    all.map(|(key, value)| format!("{}\n", format!("{key} = {value}").trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::build;
    use super::*;
    use crate::model::network::{ChainParameters, Forks, ImportanceScheme, Vesting};
    use crate::model::{Address, Hash256, NetworkByte};

    #[test]
    fn a_network_file_round_trips() {
        let mut network = Network::example();
        let mut other = network.clone();
        other.chain = ChainParameters {
            target_time: 10,
            rewrite_limit: 11,
            max_transactions_per_block: 500,
            max_transactions: 501,
            ignore_fees: true,
            hash_retention_hours: None,
            history_from: None,
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
            assert!(read.diagnostics.is_empty(), "{:?}", read.diagnostics);
        }
    }
}
