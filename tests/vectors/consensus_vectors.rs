//! Consensus rules that decide on blocks and between chains, on the published vectors and on recorded chains.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::common::{recorded, shared, vector_group};
use flate2::read::GzDecoder;
use nisd::chain::chain_comparer::{ChainComparer, ComparisonResult, ComparisonStep, Decision, TipInfo, decide};
use nisd::chain::proof::{block_score, effective_importance, generation_hash, hit, is_hit, target};
use nisd::chain::{DifficultyWindow, nemesis_block};
use nisd::config::{self, Override};
use nisd::crypto::PublicKey;
use nisd::model::network::{ChainParameters, Forks, NAMESPACE_SINK};
use nisd::model::transaction::LinkMode;
use nisd::model::{Address, Amount, Hash256, Height, Network, NetworkByte, Timestamp};
use nisd::state::{Account, LinkRole, RemoteLink};
use serde_json::Value;

/// Returns a group of the vectors.
fn vectors(group: &str) -> Value {
    vector_group("consensus", group)
}

/// Returns the elements of a list that must not be empty.
fn list(value: &Value) -> &[Value] {
    let list = value.as_array().expect("a list");
    assert!(!list.is_empty());
    list
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

fn hash(value: &Value) -> Hash256 {
    Hash256::from_hex(text(value)).expect("a hash")
}

fn key(value: &Value) -> PublicKey {
    PublicKey::from_hex(text(value)).expect("a key")
}

/// Returns a number, which may be written as a string.
fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| text(value).parse().expect("a number"))
}

fn unsigned(value: &Value) -> u64 {
    u64::try_from(number(value)).expect("a number that is not negative")
}

fn timestamp(value: &Value) -> Timestamp {
    Timestamp(i32::try_from(number(value)).expect("a time stamp"))
}

/// Returns a double given by its bits.
fn double(bits: &Value) -> f64 {
    f64::from_bits(u64::from_str_radix(text(bits), 16).expect("the bits of a double"))
}

/// Returns the network of these settings.
fn network(settings: &[(&str, &str)]) -> Network {
    let flag = |(key, value): &(&str, &str)| Override {
        key: (*key).to_owned(),
        value: (*value).to_owned().into(),
        flag: "--set",
    };
    config::load(None, settings.iter().map(flag).collect(), Some(Path::new("/"))).expect("valid settings").network
}

#[test]
fn generation_hashes_follow_from_the_parent_and_the_signer() {
    let group = vectors("generation_hash");
    for case in list(&group["cases"]) {
        let found = generation_hash(&hash(&case["previous_generation_hash"]), &key(&case["signer_public_key"]));
        assert_eq!(found, hash(&case["generation_hash"]), "{case}");
    }
}

#[test]
fn difficulties_follow_from_their_windows() {
    let group = vectors("difficulty");
    for case in list(&group["cases"]) {
        let mut window = DifficultyWindow::default();
        let blocks = case["difficulties"].as_array().unwrap().iter().zip(case["timestamps"].as_array().unwrap());
        blocks.for_each(|(difficulty, time)| window.push(unsigned(difficulty), timestamp(time)));
        let expected = text(&case["result"]).parse().ok();
        assert!(expected.is_some() || case["result"] == "error: division by zero");
        let target_time = u32::try_from(unsigned(&case["target_time"])).unwrap();
        assert_eq!(window.difficulty(target_time), expected, "{}", case["name"]);
    }
}

#[test]
fn a_chain_from_the_nemesis_block_has_its_difficulties_and_scores() {
    let group = vectors("difficulty_sequence_from_nemesis");
    let mut window = DifficultyWindow::default();
    let (mut parent, mut chain_score) = (Timestamp(0), 0);
    for block in list(&group) {
        let (difficulty, time) = (window.difficulty(60).unwrap(), timestamp(&block["timestamp"]));
        assert_eq!(difficulty, unsigned(&block["difficulty"]), "{block}");
        if block["height"] != 1 {
            let score = block_score(difficulty, time.0 - parent.0);
            chain_score += score;
            assert_eq!((score, chain_score), (number(&block["block_score"]), number(&block["chain_score"])), "{block}");
        }
        window.push(difficulty, time);
        parent = time;
    }
}

#[test]
fn hits_follow_from_generation_hashes() {
    let group = vectors("hit");
    for case in list(&group["cases"]) {
        assert_eq!(hit(&hash(&case["generation_hash"])), unsigned(&case["hit"]), "{case}");
    }
}

#[test]
fn targets_follow_from_importance_time_and_difficulty() {
    let group = vectors("target");
    let mainnet = network(&[("nem.network", "mainnet")]).chain;
    for case in list(&group["cases"]) {
        let total = Amount::whole(unsigned(&case["nemesis_amount_xem"]));
        let effective = effective_importance(double(&case["importance"]["bits"]), total);
        assert_eq!(effective, unsigned(&case["effective_importance"]), "{case}");
        let target_time = u32::try_from(unsigned(&case["target_time"])).unwrap();
        let stabilize_block_times = case["stabilize"].as_bool().unwrap();
        let chain = ChainParameters { target_time, stabilize_block_times, ..mainnet.clone() };
        let elapsed = i32::try_from(number(&case["time_difference"])).unwrap();
        let found = target(elapsed, effective, unsigned(&case["difficulty"]), &chain);
        assert_eq!(found.to_string(), text(&case["target"]), "{case}");
    }
}

#[test]
fn a_block_hits_from_its_first_second_on() {
    let group = vectors("first_hit");
    let chain = network(&[("nem.network", "mainnet")]).chain;
    for case in list(&group) {
        let hit = hit(&hash(&case["generation_hash"]));
        assert_eq!(hit, unsigned(&case["hit"]), "{case}");
        let first = i32::try_from(number(&case["first_time_difference_that_hits"])).unwrap();
        for (elapsed, hits, expected) in
            [(first - 1, false, &case["target_one_second_before"]), (first, true, &case["target_at_that_time"])]
        {
            let target =
                target(elapsed, unsigned(&case["effective_importance"]), unsigned(&case["difficulty"]), &chain);
            assert_eq!((target.to_string().as_str(), is_hit(hit, &target)), (text(expected), hits), "{case}");
        }
    }
}

#[test]
fn network_time_is_rounded_to_seconds() {
    let group = vectors("network_time");
    for case in list(&group) {
        assert_eq!(Timestamp::from_unix_millis(number(&case["unix_millis"])), timestamp(&case["seconds"]), "{case}");
    }
}

#[test]
fn remote_links_decide_which_account_is_credited() {
    const MADE: u64 = 1000;
    const REWRITE_LIMIT: u64 = 360;
    let group = vectors("remote_status");
    for case in list(&group) {
        let other = Address::from_public_key(&NAMESPACE_SINK, NetworkByte::TESTNET);
        let role = if case["side"] == "owner" { LinkRole::Owner } else { LinkRole::Remote };
        let mode = if case["mode"] == "Activate" { LinkMode::Activate } else { LinkMode::Deactivate };
        let link = RemoteLink { role, linked_address: other, height: Height(MADE), mode };
        let account = Account { links: vec![link], ..Account::default() };
        let height = Height(MADE + unsigned(&case["blocks_since_link"]));
        // `Owner(Active)` is OWNER_ACTIVE.
        let status = format!("{:?}", account.remote_status(height, REWRITE_LIMIT)).to_uppercase();
        assert_eq!(status.replace('(', "_").replace(')', ""), text(&case["status"]), "{case}");
        let credited = account.forwarded(height, REWRITE_LIMIT);
        assert_eq!(credited, (case["block_credited_to"] == "owner").then_some(other), "{case}");
        assert_eq!(account.forwarded(Height(MADE - 1), REWRITE_LIMIT), None);
    }
}

#[test]
fn the_chain_with_more_score_above_the_fork_wins() {
    let group = vectors("fork_resolution");
    for case in list(&group) {
        let partial_score = |blocks: &Value| {
            let mut parent = timestamp(&case["common_parent_timestamp"]);
            let score = |block: &Value| {
                let elapsed = timestamp(&block["timestamp"]).0 - parent.0;
                parent = timestamp(&block["timestamp"]);
                block_score(unsigned(&block["difficulty"]), elapsed)
            };
            list(blocks).iter().map(score).sum::<i64>()
        };
        let (ours, peers) = (partial_score(&case["our_blocks"]), partial_score(&case["peer_blocks"]));
        assert_eq!((ours, peers), (number(&case["our_partial_score"]), number(&case["peer_partial_score"])), "{case}");
        assert_eq!(decide(ours, peers) == Decision::Switch, case["switch"].as_bool().unwrap(), "{case}");
    }
}

#[test]
fn hash_chains_reveal_the_fork_height() {
    let group = vectors("hash_chain_comparison");
    let chain = network(&[("nem.network", "mainnet")]).chain;
    for case in list(&group) {
        let height = Height(unsigned(&case["local_height"]));
        let last = TipInfo { height, hash: Hash256::default(), signature: None };
        let comparison = ChainComparer::new(0, last, &chain);
        let start = comparison.first_hash();
        if let Some(expected) = case["start_height"].as_u64() {
            assert_eq!(start, Height(expected), "{case}");
        }
        let hashes = |count: u64, branch: u64| -> Vec<Hash256> {
            let hash = |index: u64| {
                let mut hash = [0; 32];
                hash[..8].copy_from_slice(&index.to_be_bytes());
                hash[31] = u8::from(index >= branch);
                Hash256(hash)
            };
            (0..count).map(hash).collect()
        };
        let local = hashes(height.0 - start.0 + 1, u64::MAX);
        let mismatch = case["first_mismatching_index"].as_u64().unwrap_or(u64::MAX);
        let remote = hashes(unsigned(&case["remote_hashes"]), mismatch);
        let outcome = match comparison.on_hashes(&local, &remote) {
            ComparisonStep::AskBlockAfter(fork) => {
                assert!(!fork.consistent, "{case}");
                comparison.on_block_after(fork, true)
            }
            step => step,
        };
        let ComparisonStep::Done(outcome) = outcome else { panic!("{case}: {outcome:?}") };
        assert_eq!(outcome.name(), text(&case["code"]), "{case}");
        if let ComparisonResult::RemoteIsNotSynced(fork) = outcome {
            assert_eq!(case["common_height"], fork.common.0, "{case}");
            assert_eq!(case["chains_consistent"], fork.consistent, "{case}");
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
    for (index, name) in list(&group["keys"]).iter().enumerate() {
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
    let hashes = |value| list(value).iter().map(hash).collect::<Vec<_>>();
    assert_eq!(hashes(&group["preferred_transaction_hashes"]), forks.treasury_hashes);
    assert_eq!(hashes(&group["fallback_transaction_hashes"]), forks.treasury_fallback_hashes);
}

#[test]
fn the_public_networks_have_their_identities_and_nemesis_blocks() {
    let group = vectors("networks");
    for (name, file) in
        [("mainnet", "nemesis.bin"), ("testnet", "nemesis-testnet.bin"), ("mijinnet", "nemesis-mijinnet.bin")]
    {
        let Some(nemesis) = shared(&format!("data/{file}")) else { return };
        let (expected, network) = (&group[name], network(&[("nem.network", name)]));
        assert_eq!(text(&expected["version_byte"]), format!("{:#04x}", network.byte.0));
        assert_eq!(hash(&expected["nemesis_generation_hash"]), network.generation_hash);
        assert_eq!(text(&expected["nemesis_address"]), network.nemesis_signer.as_str());
        assert_eq!(Amount::whole(unsigned(&expected["nemesis_amount_xem"])), network.total_amount);
        let nemesis = nemesis_block(&std::fs::read(nemesis).unwrap(), &network).unwrap();
        assert_eq!(nemesis.signer, key(&expected["nemesis_public_key"]));
        assert_eq!(nemesis.hash(), hash(&expected["nemesis_block_hash"]));
    }
}

#[test]
fn the_namespace_fee_sink_has_its_addresses() {
    let group = vectors("fee_sinks");
    let sink = &group["namespace_rental"];
    assert_eq!(key(&sink["public_key"]), NAMESPACE_SINK);
    for name in ["mainnet", "testnet", "mijinnet"] {
        let address = Address::from_public_key(&NAMESPACE_SINK, network(&[("nem.network", name)]).byte);
        assert_eq!(address.as_str(), text(&sink[name]), "{name}");
    }
}

/// Reads the lines of a recorded file.
fn lines(path: &Path) -> Vec<Value> {
    let mut text = String::new();
    GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns effective importances by importance height and address, each checked against the double beside it.
fn effective_importances(path: &Path, total: Amount) -> BTreeMap<u64, BTreeMap<String, u64>> {
    let entry = |account: &Value| {
        let effective = unsigned(&account["effectiveImportance"]);
        assert_eq!(effective_importance(double(&account["importanceBits"]), total), effective, "{account}");
        (text(&account["address"]).to_owned(), effective)
    };
    let calculation =
        |line: &Value| (unsigned(&line["groupedHeight"]), list(&line["importances"]).iter().map(entry).collect());
    lines(path).iter().map(calculation).collect()
}

fn every_block_of_a_recorded_chain_hits(name: &str) {
    let folder = recorded(&format!("chains/{name}"));
    let settings = config::load(Some(&folder.join("config.json")), Vec::new(), Some(&folder)).unwrap();
    let (chain, total) = (settings.network.chain, settings.network.total_amount);
    let importances = effective_importances(&folder.join("importances.jsonl.gz"), total);
    let blocks = lines(&folder.join("blocks.jsonl.gz"));
    assert!(blocks.len() > 1);
    for (parent, block) in blocks.iter().zip(&blocks[1..]) {
        let height = unsigned(&block["height"]);
        let found = generation_hash(&hash(&parent["generationHash"]), &key(&block["signer"]));
        assert_eq!(found, hash(&block["generationHash"]), "height {height}");
        let grouped = Height(height).importance_height().0;
        let beneficiary = block["lessor"].as_str().unwrap_or(text(&block["signerAddress"]));
        let importance = importances[&grouped]
            .get(beneficiary)
            .unwrap_or_else(|| panic!("{beneficiary} has no importance at {grouped}, height {height}"));
        let elapsed = timestamp(&block["timeStamp"]).0 - timestamp(&parent["timeStamp"]).0;
        let difficulty = unsigned(&block["difficulty"]);
        let (hit, target) = (hit(&found), target(elapsed, *importance, difficulty, &chain));
        assert!(is_hit(hit, &target), "height {height}: hit {hit}, target {target}");
        let score = number(&block["chainScore"]) - number(&parent["chainScore"]);
        assert_eq!(block_score(difficulty, elapsed), score, "height {height}");
    }
}

#[test]
fn every_block_of_tiny_hits() {
    every_block_of_a_recorded_chain_hits("tiny");
}

#[test]
fn every_block_of_all_forks_hits() {
    every_block_of_a_recorded_chain_hits("all-forks");
}

#[test]
fn every_block_of_one_year_hits() {
    every_block_of_a_recorded_chain_hits("one-year");
}
