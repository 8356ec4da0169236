//! Chains recorded from NIS1: every block is accepted, every dumped state is equal, and the export is byte for byte the
//! input.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::print_notice;
use crate::common::recorded_chain::{Chain, FAR_FUTURE, digest_of, dump_of, tip_of};
use nisd::chain::{BlockImporter, ImportError, ImportOptions, ImportProgress, proof};
use nisd::codec::block_file::{self, BlockFile};
use nisd::model::{Address, Height};
use nisd::state;
use nisd::store::{ChainIdentity, Options, Store, block_row, read_block_bytes};
use serde_json::Value;

/// Doubles of importances, which differ between nodes of the network, and the text forms of them.
const DOUBLES: [&str; 2] = ["scoreBits", "pageRankBits"];
const TEXTS: [&str; 2] = ["score", "pageRank"];
/// Tolerance relative to the value.
const TOLERANCE: f64 = 1e-14;

fn double_from_bits(bits: &Value) -> f64 {
    f64::from_bits(u64::from_str_radix(bits.as_str().unwrap(), 16).unwrap())
}

fn is_close(a: f64, b: f64) -> bool {
    (a - b).abs() <= TOLERANCE * a.abs().max(b.abs())
}

/// Collects the paths at which two values differ.
fn differences(path: &str, expected: &Value, found: &Value, out: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                let value = |object: &serde_json::Map<String, Value>| object.get(key).cloned().unwrap_or_default();
                let (a, b) = (value(a), value(b));
                let is_same = match key.as_str() {
                    key if DOUBLES.contains(&key) => is_close(double_from_bits(&a), double_from_bits(&b)),
                    key if TEXTS.contains(&key) => {
                        let number = |value: &Value| value.as_str().unwrap().parse().unwrap();
                        is_close(number(&a), number(&b))
                    }
                    _ => false,
                };
                if !is_same {
                    differences(&format!("{path}/{key}"), &a, &b, out);
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                differences(&format!("{path}/{index}"), a, b, out);
            }
        }
        (a, b) if a == b => {}
        (a, b) => out.push(format!("{path}: expected {a:.200}, found {b:.200}")),
    }
}

fn assert_same_state(chain: &Chain, store: &Store, expected: &Value) {
    let mut list = Vec::new();
    differences("", expected, &dump_of(&store.snapshot().unwrap(), &chain.network, &tip_of(store)), &mut list);
    assert!(
        list.is_empty(),
        "height {}: {} differences, first {:#?}",
        expected["height"],
        list.len(),
        &list[..list.len().min(8)]
    );
}

/// Imports a chain; compares every dumped state, every recalculation and every block.
fn every_state_and_block_is_as_recorded(name: &str) {
    let chain = Chain::open(name);
    let folder = tempfile::tempdir().unwrap();
    let store = chain.store(folder.path());
    let by_height = |file: &str, height: &str| -> BTreeMap<u64, Value> {
        chain.lines(file).into_iter().map(|line| (line[height].as_u64().unwrap(), line)).collect()
    };
    let dumps = by_height("states.jsonl.gz", "height");
    let recalculations = by_height("importances.jsonl.gz", "groupedHeight");
    assert!(!dumps.is_empty() && !recalculations.is_empty());
    let (mut equal, mut all) = (0, 0);
    for height in dumps.keys().chain(recalculations.keys()).collect::<BTreeSet<_>>() {
        chain.import(&store, *height);
        if let Some(expected) = dumps.get(height) {
            assert_same_state(&chain, &store, expected);
        }
        if let Some(recorded) = recalculations.get(height) {
            let [same, compared] = check_recalculation(&chain, &store, recorded);
            (equal, all) = (equal + same, all + compared);
        }
    }
    print_notice(&format!("{name}: {equal} of {all} importances and page ranks are equal to the last bit"));
    chain.import(&store, u64::MAX);
    assert_blocks_equal(&chain, &store);
}

for_each_chain!(states_importances_and_blocks_are_as_recorded, every_state_and_block_is_as_recorded);

/// Compares the stored data of every block, and the blocks themselves.
fn assert_blocks_equal(chain: &Chain, store: &Store) {
    let snapshot = store.snapshot().unwrap();
    let mut exported = Vec::new();
    for expected in chain.lines("blocks.jsonl.gz") {
        let height = Height(expected["height"].as_u64().unwrap());
        let row = block_row(&snapshot, height).unwrap().unwrap();
        let header = row.header;
        let mut bytes = Vec::new();
        assert!(read_block_bytes(&snapshot, height, &mut bytes).unwrap());
        assert_eq!(expected["hash"], header.hash.to_string());
        assert_eq!(expected["generationHash"], header.generation_hash.to_string(), "height {height}");
        assert_eq!(expected["difficulty"], header.difficulty, "height {height}");
        assert_eq!(expected["chainScore"], header.score.to_string(), "height {height}");
        assert_eq!(expected["totalFee"], header.total_fee.0, "height {height}");
        assert_eq!(expected["lessor"].as_str(), header.beneficiary.as_ref().map(|lessor| lessor.as_str()));
        if height > Height::NEMESIS {
            block_file::write_block(&mut exported, &bytes).unwrap();
        }
    }
    let mut recorded = chain.file();
    let mut again = Vec::new();
    let mut block = Vec::new();
    while recorded.next(&mut block).unwrap() {
        block_file::write_block(&mut again, &block).unwrap();
    }
    assert!(exported == again, "the exported blocks differ from the recorded ones");
}

/// Compares the importances after a recalculation; returns how many doubles are equal to the last bit, and of how many.
fn check_recalculation(chain: &Chain, store: &Store, recorded: &Value) -> [u32; 2] {
    let number = |name: &str| recorded[name].as_u64().unwrap();
    let grouped = Height(number("groupedHeight"));
    let snapshot = store.snapshot().unwrap();
    let last = state::last_recalculation(&snapshot).unwrap().unwrap();
    assert_eq!((last.height, last.accounts_counted), (grouped, number("accountsHandedOver")));
    assert_eq!(last.eligible, number("eligibleAccounts"), "height {grouped}");
    let (mut equal, mut all) = (0, 0);
    for account in recorded["importances"].as_array().unwrap() {
        let address = Address::parse(account["address"].as_str().unwrap(), chain.network.byte).unwrap();
        let found = state::importance(&snapshot, &address).unwrap().unwrap();
        assert_eq!(found.height, grouped, "{address}");
        for (bits, value) in [("importanceBits", found.importance), ("pageRankBits", found.page_rank)] {
            let expected = double_from_bits(&account[bits]);
            assert!(is_close(expected, value), "height {grouped}, {address}: {expected:e}, found {value:e}");
            all += 1;
            equal += u32::from(expected == value);
        }
        let effective = proof::effective_importance(found.importance, chain.network.total_amount);
        assert_eq!(account["effectiveImportance"], effective, "height {grouped}, {address}");
    }
    [equal, all]
}

fn losing_branch(fork: &Value) -> Vec<u8> {
    let mut file = Vec::new();
    for block in fork["losingBranch"].as_array().unwrap() {
        block_file::write_block(&mut file, &hex::decode(block["block"].as_str().unwrap()).unwrap()).unwrap();
    }
    file
}

#[test]
fn a_file_of_another_branch_is_rejected_and_changes_nothing() {
    let chain = Chain::open("tiny");
    let folder = tempfile::tempdir().unwrap();
    let store = chain.store(folder.path());
    chain.import(&store, u64::MAX);
    let before = digest_of(&store);
    let losing = losing_branch(&chain.lines("forks.jsonl.gz")[0]);
    let rejected = chain.import_files(&store, vec![BlockFile::new(losing.as_slice()).unwrap()], None);
    assert!(matches!(rejected, Err(ImportError::OtherChain(_))), "{rejected:?}");
    assert_eq!(digest_of(&store), before);
}

/// Some bits, such as those in the name of an unknown mosaic property, are lost when a block is normalized; changing
/// them does not change the block.
#[test]
fn a_flipped_bit_in_a_block_is_rejected_and_earlier_blocks_stay() {
    let chain = Chain::open("tiny");
    let folder = tempfile::tempdir().unwrap();
    let store = chain.store(folder.path());
    chain.import(&store, 20);
    let before = digest_of(&store);
    let recorded = chain.lines("blocks.jsonl.gz")[20]["hash"].clone();
    let mut file = chain.file();
    let mut block = Vec::new();
    for _ in 2..=21 {
        assert!(file.next(&mut block).unwrap());
    }
    let mut rejected = 0;
    for place in 0..block.len() {
        let mut changed = block.clone();
        changed[place] ^= 1 << (place % 8);
        let mut bytes = Vec::new();
        block_file::write_block(&mut bytes, &changed).unwrap();
        match chain.import_files(&store, vec![BlockFile::new(bytes.as_slice()).unwrap()], None) {
            Err(_) => rejected += 1,
            Ok(()) if tip_of(&store).height.0 == 20 => {}
            Ok(()) => {
                let hash = tip_of(&store).hash.to_string();
                assert_eq!(recorded, hash, "byte {place}");
                chain.roll_back(&store, 20).unwrap();
            }
        }
        assert_eq!(digest_of(&store), before, "byte {place}");
    }
    assert!(rejected * 10 > block.len() * 9, "{rejected} of {} changes were rejected", block.len());
}

#[test]
fn a_full_store_keeps_committed_blocks_and_continues_with_a_larger_map() {
    let chain = Chain::open("tiny");
    let folders = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let options = ImportOptions { batch_blocks: 5, ..ImportOptions::DEFAULT };
    let identity = ChainIdentity::of(&chain.network);
    let committed = {
        let small = Store::open(folders.0.path(), &identity, Options { map_size: 256 << 10 }).unwrap();
        let file = chain.file();
        let mut intake =
            BlockImporter::new(&small, &chain.network, chain.nemesis.clone(), vec![file], options).unwrap();
        let error = loop {
            match intake.step(FAR_FUTURE) {
                Ok(progress) => assert_ne!(progress, ImportProgress::Done, "the store is large enough"),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("nisd.mapSize"), "{error}");
        intake.committed().0
    };
    let store = chain.store(folders.0.path());
    assert!((1..60).contains(&committed), "{committed}");
    assert_eq!(tip_of(&store).height.0, committed);
    chain.import(&store, u64::MAX);
    let straight = chain.store(folders.1.path());
    chain.import(&straight, u64::MAX);
    assert_eq!(digest_of(&store), digest_of(&straight));
}
