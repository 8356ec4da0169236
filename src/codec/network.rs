//! Networks as text, in which a store keeps the network of its chain.

use serde::{Deserialize, Serialize};

use crate::model::network::{ChainParameters, Forks, ImportanceScheme, Vesting};
use crate::model::{Address, Amount, Hash256, Height, Network, NetworkByte};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NetworkText {
    name: String,
    byte: u8,
    generation_hash: String,
    nemesis_signer: String,
    total_amount: u64,
    target_time: u32,
    rewrite_limit: u64,
    max_transactions_per_block: u32,
    ignore_fees: bool,
    proof_of_stake: bool,
    immediate_vesting: bool,
    stabilize_block_times: bool,
    multisig_m_of_n: u64,
    mosaics: u64,
    first_fee: u64,
    remote_account: u64,
    mosaic_redefinition: u64,
    second_fee: u64,
    treasury_reissuance: u64,
    treasury_hashes: Vec<String>,
    treasury_fallback_hashes: Vec<String>,
    hash_retention_hours: Option<u32>,
    max_transactions: u32,
    history_from: Option<u64>,
}

/// Returns the text of a network: a JSON object.
pub fn network_to_text(network: &Network) -> String {
    let texts = |hashes: &[Hash256]| hashes.iter().map(Hash256::to_string).collect();
    let chain = &network.chain;
    let text = NetworkText {
        name: network.name.clone(),
        byte: network.byte.0,
        generation_hash: network.generation_hash.to_string(),
        nemesis_signer: network.nemesis_signer.to_string(),
        total_amount: network.total_amount.0,
        target_time: chain.target_time,
        rewrite_limit: chain.rewrite_limit,
        max_transactions_per_block: chain.max_transactions_per_block,
        ignore_fees: chain.ignore_fees,
        proof_of_stake: chain.importance == ImportanceScheme::ProofOfStake,
        immediate_vesting: chain.vesting == Vesting::Immediate,
        stabilize_block_times: chain.stabilize_block_times,
        multisig_m_of_n: chain.forks.multisig_m_of_n,
        mosaics: chain.forks.mosaics,
        first_fee: chain.forks.first_fee,
        remote_account: chain.forks.remote_account,
        mosaic_redefinition: chain.forks.mosaic_redefinition,
        second_fee: chain.forks.second_fee,
        treasury_reissuance: chain.forks.treasury_reissuance,
        treasury_hashes: texts(&chain.forks.treasury_hashes),
        treasury_fallback_hashes: texts(&chain.forks.treasury_fallback_hashes),
        hash_retention_hours: chain.hash_retention_hours,
        max_transactions: chain.max_transactions,
        history_from: chain.history_from.map(|height| height.0),
    };
    serde_json::to_string(&text).unwrap_or_default()
}

/// Parses the text of a network. Returns `None` if it is not valid.
pub fn network_from_text(text: &str) -> Option<Network> {
    let text: NetworkText = serde_json::from_str(text).ok()?;
    let hashes = |texts: &[String]| texts.iter().map(|text| Hash256::from_hex(text)).collect::<Option<Vec<_>>>();
    let byte = NetworkByte(text.byte);
    let forks = Forks {
        multisig_m_of_n: text.multisig_m_of_n,
        mosaics: text.mosaics,
        first_fee: text.first_fee,
        remote_account: text.remote_account,
        mosaic_redefinition: text.mosaic_redefinition,
        second_fee: text.second_fee,
        treasury_reissuance: text.treasury_reissuance,
        treasury_hashes: hashes(&text.treasury_hashes)?,
        treasury_fallback_hashes: hashes(&text.treasury_fallback_hashes)?,
    };
    let chain = ChainParameters {
        target_time: text.target_time,
        rewrite_limit: text.rewrite_limit,
        max_transactions_per_block: text.max_transactions_per_block,
        max_transactions: text.max_transactions,
        ignore_fees: text.ignore_fees,
        hash_retention_hours: text.hash_retention_hours,
        history_from: text.history_from.map(Height),
        importance: match text.proof_of_stake {
            true => ImportanceScheme::ProofOfStake,
            false => ImportanceScheme::ProofOfImportance,
        },
        vesting: if text.immediate_vesting { Vesting::Immediate } else { Vesting::TimeBased },
        stabilize_block_times: text.stabilize_block_times,
        forks,
    };
    Some(Network {
        name: text.name,
        byte,
        generation_hash: Hash256::from_hex(&text.generation_hash)?,
        nemesis_signer: Address::parse(&text.nemesis_signer, byte)?,
        total_amount: Amount(text.total_amount),
        chain,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::network::ChainParameters;

    #[test]
    fn a_network_round_trips_through_its_text() {
        let byte = NetworkByte::TESTNET;
        let chain = ChainParameters {
            ignore_fees: true,
            hash_retention_hours: None,
            history_from: Some(Height(7)),
            importance: ImportanceScheme::ProofOfStake,
            vesting: Vesting::Immediate,
            stabilize_block_times: true,
            ..ChainParameters::after_all_forks()
        };
        let network = Network {
            name: "devnet".to_owned(),
            byte,
            generation_hash: Hash256([7; 32]),
            nemesis_signer: Address::from_public_key(&crate::model::network::NAMESPACE_SINK, byte),
            total_amount: Amount::whole(8_999_999_999),
            chain,
        };
        assert_eq!(network_from_text(&network_to_text(&network)), Some(network.clone()));
        let usual = Network { chain: ChainParameters::after_all_forks(), ..network };
        assert_eq!(network_from_text(&network_to_text(&usual)), Some(usual));
    }
}
