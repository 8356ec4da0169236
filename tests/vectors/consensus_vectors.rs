//! Consensus rules that decide on blocks and between chains, on the published vectors and on recorded chains.

use std::cell::Cell;

use super::state_vectors::PUBLIC_NETWORKS;
use super::values::{bits, cases, hash, integer, network, number, public_key, text};
use crate::common::remote_node::{OwnChain, compare};
use crate::common::{load_settings, vector_group};
use nisd::chain::proof::{block_score, effective_importance, generation_hash, hit, is_hit, target};
use nisd::chain::{DifficultyWindow, is_better, nemesis_block};
use nisd::codec::SigningForm;
use nisd::crypto::{KeyPair, PrivateKey};
use nisd::model::network::{ChainParameters, Forks};
use nisd::model::{Amount, Block, BlockKind, Hash256, Height, Timestamp};
use nisd::peer::io::OwnTip;
use nisd::peer::wire::{HashChain, List, Query, Score};
use serde_json::Value;

/// Returns a group of the vectors.
pub fn vectors(group: &str) -> Value {
    vector_group("consensus", group)
}

/// Returns the cases of a group.
pub fn cases_of(group: &str) -> Vec<Value> {
    cases(&vectors(group)).to_vec()
}

fn timestamp(value: &Value) -> Timestamp {
    Timestamp(i32::try_from(integer(value)).expect("a time stamp"))
}

#[test]
fn generation_hashes_follow_from_the_parent_and_the_signer() {
    for case in &cases_of("generation_hash") {
        let found = generation_hash(&hash(&case["previous_generation_hash"]), &public_key(&case["signer_public_key"]));
        assert_eq!(found, hash(&case["generation_hash"]), "{case}");
    }
}

#[test]
fn difficulties_follow_from_their_windows() {
    for case in &cases_of("difficulty") {
        let mut window = DifficultyWindow::default();
        let blocks = case["difficulties"].as_array().unwrap().iter().zip(case["timestamps"].as_array().unwrap());
        blocks.for_each(|(difficulty, time)| window.push(number(difficulty), timestamp(time)));
        let expected = text(&case["result"]).parse().ok();
        assert!(expected.is_some() || case["result"] == "error: division by zero");
        let target_time = u32::try_from(number(&case["target_time"])).unwrap();
        assert_eq!(window.difficulty(target_time), expected, "{}", case["name"]);
    }
}

#[test]
fn a_chain_from_the_nemesis_block_has_its_difficulties_and_scores() {
    let mut window = DifficultyWindow::default();
    let (mut parent, mut chain_score) = (Timestamp(0), 0);
    for block in &cases_of("difficulty_sequence_from_nemesis") {
        let (difficulty, time) = (window.difficulty(60).unwrap(), timestamp(&block["timestamp"]));
        assert_eq!(difficulty, number(&block["difficulty"]), "{block}");
        if block["height"] != 1 {
            let score = block_score(difficulty, time.0 - parent.0);
            chain_score += score;
            assert_eq!(
                (score, chain_score),
                (integer(&block["block_score"]), integer(&block["chain_score"])),
                "{block}"
            );
        }
        window.push(difficulty, time);
        parent = time;
    }
}

#[test]
fn hits_follow_from_generation_hashes() {
    for case in &cases_of("hit") {
        assert_eq!(hit(&hash(&case["generation_hash"])), number(&case["hit"]), "{case}");
    }
}

#[test]
fn targets_follow_from_importance_time_and_difficulty() {
    let mainnet = network(&[("nem.network", "mainnet")]).chain;
    for case in &cases_of("target") {
        let total = Amount::whole(number(&case["nemesis_amount_xem"]));
        let effective = effective_importance(f64::from_bits(bits(&case["importance"]["bits"])), total);
        assert_eq!(effective, number(&case["effective_importance"]), "{case}");
        let target_time = u32::try_from(number(&case["target_time"])).unwrap();
        let stabilize_block_times = case["stabilize"].as_bool().unwrap();
        let chain = ChainParameters { target_time, stabilize_block_times, ..mainnet.clone() };
        let elapsed = i32::try_from(integer(&case["time_difference"])).unwrap();
        let found = target(elapsed, effective, number(&case["difficulty"]), &chain);
        assert_eq!(found.to_string(), text(&case["target"]), "{case}");
    }
}

#[test]
fn a_block_hits_from_its_first_second_on() {
    let chain = network(&[("nem.network", "mainnet")]).chain;
    for case in &cases_of("first_hit") {
        let hit = hit(&hash(&case["generation_hash"]));
        assert_eq!(hit, number(&case["hit"]), "{case}");
        let first = i32::try_from(integer(&case["first_time_difference_that_hits"])).unwrap();
        for (elapsed, hits, expected) in
            [(first - 1, false, &case["target_one_second_before"]), (first, true, &case["target_at_that_time"])]
        {
            let target = target(elapsed, number(&case["effective_importance"]), number(&case["difficulty"]), &chain);
            assert_eq!((target.to_string().as_str(), is_hit(hit, &target)), (text(expected), hits), "{case}");
        }
    }
}

#[test]
fn network_time_is_rounded_to_seconds() {
    for case in &cases_of("network_time") {
        assert_eq!(Timestamp::from_unix_millis(integer(&case["unix_millis"])), timestamp(&case["seconds"]), "{case}");
    }
}

#[test]
fn the_chain_with_more_score_above_the_fork_wins() {
    for case in &cases_of("fork_resolution") {
        let partial_score = |blocks: &Value| {
            let mut parent = timestamp(&case["common_parent_timestamp"]);
            let score = |block: &Value| {
                let elapsed = timestamp(&block["timestamp"]).0 - parent.0;
                parent = timestamp(&block["timestamp"]);
                block_score(number(&block["difficulty"]), elapsed)
            };
            cases(blocks).iter().map(score).sum::<i64>()
        };
        let (ours, peers) = (partial_score(&case["our_blocks"]), partial_score(&case["peer_blocks"]));
        assert_eq!(
            (ours, peers),
            (integer(&case["our_partial_score"]), integer(&case["peer_partial_score"])),
            "{case}"
        );
        assert_eq!(is_better(ours, peers), case["switch"].as_bool().unwrap(), "{case}");
    }
}

/// Returns a signed block at a height.
fn signed_block(height: Height) -> Block {
    let signer = KeyPair::new(&PrivateKey::from_seed(&[7; 32]));
    let mut block = Block {
        kind: BlockKind::Regular,
        version: 1,
        timestamp: Timestamp(1),
        signer: signer.public(),
        signature: None,
        previous_hash: Hash256::default().into(),
        height,
        transactions: Vec::new(),
    };
    block.signature = Some(signer.sign(&block.to_bytes(SigningForm::NonVerifiable)));
    block
}

#[test]
fn hash_chains_reveal_the_fork_height() {
    let network = network(&[("nem.network", "mainnet")]);
    for case in &cases_of("hash_chain_comparison") {
        let height = Height(number(&case["local_height"]));
        let hash = |index: u64, branch: u64| {
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&index.to_be_bytes());
            hash[31] = u8::from(index >= branch);
            Hash256(hash)
        };
        let start = Cell::new(Height(0));
        let tip = OwnTip { height, hash: Hash256::default(), signature: None, score: 0 };
        let own = OwnChain { tip, hash_at: |height: Height| hash(height.0 - start.get().0, u64::MAX) };
        let mismatch = case["first_mismatching_index"].as_u64().unwrap_or(u64::MAX);
        let (name, common) = compare(&own, &network, |query, signer| match query {
            Query::Score => signer.sign(Score(1)),
            Query::LastBlock => signer.sign(signed_block(height.next())),
            Query::HashesFrom(first) => {
                start.set(*first);
                let hashes = (0..number(&case["remote_hashes"])).map(|index| hash(index, mismatch));
                signer.sign(HashChain(hashes.collect()))
            }
            Query::BlockAt(height) => signer.sign(signed_block(*height)),
            _ => signer.sign(List::<Block>(Vec::new())),
        });
        if let Some(expected) = case["start_height"].as_u64() {
            assert_eq!(start.get(), Height(expected), "{case}");
        }
        assert_eq!(name, text(&case["code"]), "{case}");
        if let Some(common) = common {
            assert_eq!(case["common_height"], common.0, "{case}");
            assert_eq!(case["chains_consistent"], common == height, "{case}");
        }
    }
}

/// Returns the heights of the six forks that depend on the network.
fn fork_heights(forks: &Forks) -> [u64; 6] {
    [
        forks.multisig_m_of_n,
        forks.mosaics,
        forks.first_fee,
        forks.remote_account,
        forks.mosaic_redefinition,
        forks.second_fee,
    ]
}

/// Settings of a private network that set only its identity.
const PRIVATE: [(&str, &str); 6] = [
    ("nem.network", "devnet"),
    ("nem.network.version", "-104"),
    ("nem.network.generationHash", "16ed3d69d3ca67132aace4405aa122e5e041e58741a4364255b15201f5aaf6e4"),
    ("nem.network.nemesisSignerAddress", "TAUKHZ5VAUMJ7WG6CZLTVEJERBUZ3Y5EL7SXZVJP"),
    ("nem.network.totalAmount", "9000000000"),
    ("nem.network.nemesisFilePath", "nemesis.bin"),
];

#[test]
fn forks_have_the_heights_of_their_network() {
    let group = vectors("fork_heights");
    let mut other = PRIVATE;
    other[1].1 = "96";
    other[3].1 = "MAMIJINSVHBIPKT5XCFHJYGWL7WVRZQ6U7JG7LLN";
    let networks: [(&str, &[(&str, &str)]); 4] = [
        ("mainnet", &[("nem.network", "mainnet")]),
        ("testnet", &PRIVATE),
        ("other", &[("nem.network", "mijinnet")]),
        ("other", &other),
    ];
    for (name, settings) in networks {
        let forks = network(settings).chain.forks;
        assert_eq!(group[name], Value::from(fork_heights(&forks).to_vec()), "{settings:?}");
        assert_eq!(group["treasury"]["shipped_configuration"], forks.treasury_reissuance);
    }
    // The table's testnet is an earlier one. The current testnet, which has this name, started after all forks.
    let forks = network(&[("nem.network", "testnet")]).chain.forks;
    assert_eq!((fork_heights(&forks), forks.treasury_reissuance), ([1; 6], 1));
    for (index, name) in cases(&group["keys"]).iter().enumerate() {
        let forks = network(&[("nem.network", "mainnet"), (text(name), "7")]).chain.forks;
        assert_eq!(fork_heights(&forks)[index], 7, "{name}");
    }
    let treasury = (text(&group["treasury"]["key"]), "7");
    assert_eq!(network(&[("nem.network", "mainnet"), treasury]).chain.forks.treasury_reissuance, 7);
}

#[test]
fn the_treasury_block_holds_the_listed_transactions() {
    let group = vectors("treasury_reissuance");
    let forks = network(&[("nem.network", "mainnet")]).chain.forks;
    assert_eq!(group["height"], forks.treasury_reissuance);
    let hashes = |value| cases(value).iter().map(hash).collect::<Vec<_>>();
    assert_eq!(hashes(&group["preferred_transaction_hashes"]), forks.treasury_hashes);
    assert_eq!(hashes(&group["fallback_transaction_hashes"]), forks.treasury_fallback_hashes);
}

#[test]
fn the_public_networks_have_their_identities_and_nemesis_blocks() {
    let group = vectors("networks");
    for name in PUBLIC_NETWORKS {
        let settings = load_settings(None, &[("nem.network", name)]);
        let (expected, network) = (&group[name], settings.network);
        assert_eq!(text(&expected["version_byte"]), format!("{:#04x}", network.byte.0));
        assert_eq!(hash(&expected["nemesis_generation_hash"]), network.generation_hash);
        assert_eq!(text(&expected["nemesis_address"]), network.nemesis_signer.as_str());
        assert_eq!(Amount::whole(number(&expected["nemesis_amount_xem"])), network.total_amount);
        let nemesis = nemesis_block(&settings.nemesis.read().unwrap(), &network).unwrap();
        assert_eq!(nemesis.signer, public_key(&expected["nemesis_public_key"]));
        assert_eq!(nemesis.hash(), hash(&expected["nemesis_block_hash"]));
    }
}
