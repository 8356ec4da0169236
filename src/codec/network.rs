//! Networks as text, in which a store keeps the network of its chain.

use serde_json::{Map, Value};

use crate::model::Network;

/// Returns the text of a network: a JSON object.
pub fn network_to_text(network: &Network) -> String {
    serde_json::to_string(network).unwrap_or_default()
}

/// Parses the text of a network. Returns `None` if it is not valid, has members that are not known, or a member twice.
pub fn network_from_text(text: &str) -> Option<Network> {
    let network: Network = serde_json::from_str(text).ok()?;
    let (members, known) =
        (serde_json::from_str::<Map<String, Value>>(text).ok()?, serde_json::to_value(&network).ok()?);
    let is_known = members.keys().all(|key| known.get(key).is_some());
    // The map keeps one of two equal members.
    let is_whole = serde_json::to_string(&members).ok()?.len() == text.len();
    (is_known && is_whole && network.nemesis_signer.to_raw()[0] == network.byte.0).then_some(network)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::network::ChainParameters;
    use crate::model::{Address, Amount, Hash256, Height, NetworkByte};

    #[test]
    fn a_network_round_trips_through_its_text() {
        let byte = NetworkByte::TESTNET;
        let chain = ChainParameters {
            ignore_fees: true,
            hash_retention_hours: None,
            history_from: Some(Height(7)),
            proof_of_stake: true,
            immediate_vesting: true,
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

    #[test]
    fn the_text_is_a_flat_object_in_a_fixed_order() {
        let text = network_to_text(&Network::example());
        let signer = Network::example().nemesis_signer;
        let expected = format!(
            r#"{{"name":"of my own","byte":152,"generationHash":"{}","nemesisSigner":"{signer}","totalAmount":"#,
            "07".repeat(32)
        ) + r#"8999999999000000,"targetTime":60,"rewriteLimit":360,"maxTransactionsPerBlock":120,"ignoreFees":false,"#
            + r#""proofOfStake":false,"immediateVesting":false,"stabilizeBlockTimes":false,"multisigMOfN":1,"#
            + r#""mosaics":1,"firstFee":1,"remoteAccount":1,"mosaicRedefinition":1,"secondFee":1,"#
            + r#""treasuryReissuance":1,"treasuryHashes":[],"treasuryFallbackHashes":[],"hashRetentionHours":36,"#
            + r#""maxTransactions":10000,"historyFrom":null}"#;
        assert_eq!(text, expected);
        assert_eq!(network_from_text(&text), Some(Network::example()));
        // A text of an earlier version has no history; one of a later version has other members.
        let earlier = text.replace(r#","historyFrom":null"#, "");
        assert_eq!(network_from_text(&earlier), Some(Network::example()));
        assert_eq!(network_from_text(&text.replace("historyFrom", "futureFrom")), None);
        assert_eq!(network_from_text(&text.replace(r#""byte":152"#, r#""byte":104"#)), None);
        assert_eq!(network_from_text(&text.replace(r#""mosaics":1,"#, "")), None);
        assert_eq!(network_from_text(&text.replace(r#""mosaics":1,"#, r#""mosaics":2,"mosaics":1,"#)), None);
    }
}
