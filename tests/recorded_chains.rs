//! Chains recorded from the real network software: every block is taken in, every dumped state is equal, and
//! the blocks come out again byte for byte.

mod common;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use common::shared;
use flate2::read::GzDecoder;
use nisd::chain::{Intake, IntakeError, IntakeOptions, Progress, stored_header, tip};
use nisd::codec::block_file::{self, BlockFile};
use nisd::config::{self, Settings};
use nisd::model::{Height, Network};
use nisd::state::dump;
use nisd::store::{Identity, Options, Store};
use serde_json::Value;

/// Members of a dump that come from the importance calculation.
const FROM_IMPORTANCE: [&str; 3] = ["importance", "lastRecalculationHeight", "accountsHandedOver"];

/// A recorded chain.
struct Chain {
    folder: PathBuf,
    network: Network,
    nemesis: Vec<u8>,
}

impl Chain {
    fn open(name: &str) -> Option<Chain> {
        let folder = shared(&format!("data/chains/{name}"))?;
        let Settings { network, nemesis, .. } =
            config::load(Some(&folder.join("config.json")), Vec::new(), Some(&folder)).expect("the recorded configuration");
        let nemesis = nemesis.read().expect("the recorded nemesis block").into_owned();
        Some(Chain { folder, network, nemesis })
    }

    fn blocks(&self) -> PathBuf {
        let plain = self.folder.join("blocks.bin");
        if plain.exists() { plain } else { self.folder.join("blocks.bin.gz") }
    }

    fn lines(&self, file: &str) -> Vec<Value> {
        let mut text = String::new();
        GzDecoder::new(File::open(self.folder.join(file)).unwrap()).read_to_string(&mut text).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn store(&self, folder: &Path) -> Store {
        let identity = Identity::of(&self.network);
        Store::open(folder, &identity, Options::default()).unwrap()
    }

    /// Takes in the recorded blocks up to a height.
    fn import(&self, store: &Store, stop_at: u64) {
        let file = BlockFile::new(File::open(self.blocks()).unwrap()).unwrap();
        self.take_in(store, vec![file], Some(Height(stop_at))).unwrap();
    }

    fn take_in(&self, store: &Store, files: Vec<BlockFile<'_>>, stop_at: Option<Height>) -> Result<(), IntakeError> {
        let options = IntakeOptions { batch_steps: 20_000, batch_blocks: 1_000, stop_at };
        let mut intake = Intake::new(store, &self.network, self.nemesis.clone(), files, options).unwrap();
        while intake.step()? != Progress::Done {}
        Ok(())
    }

    fn dump(&self, store: &Store) -> Value {
        let snapshot = store.snapshot().unwrap();
        let tip = tip(&snapshot).unwrap().unwrap();
        let mut text = Vec::new();
        dump(&snapshot, &self.network, &tip, &mut text).unwrap();
        serde_json::from_slice(&text).unwrap()
    }
}

/// Where two values differ, as paths; members that come from the importance calculation aside.
fn differences(path: &str, expected: &Value, found: &Value, out: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                if !FROM_IMPORTANCE.contains(&key.as_str()) {
                    let value = |object: &serde_json::Map<String, Value>| object.get(key).cloned().unwrap_or_default();
                    differences(&format!("{path}/{key}"), &value(a), &value(b), out);
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
    differences("", expected, &chain.dump(store), &mut list);
    assert!(list.is_empty(), "height {}: {} differences, first {:#?}", expected["height"], list.len(), &list[..list.len().min(8)]);
}

fn every_dump_is_equal_and_the_export_is_the_input(name: &str) {
    let Some(chain) = Chain::open(name) else { return };
    let folder = tempfile::tempdir().unwrap();
    let store = chain.store(folder.path());
    for expected in chain.lines("states.jsonl.gz") {
        chain.import(&store, expected["height"].as_u64().unwrap());
        assert_same_state(&chain, &store, &expected);
    }
    chain.import(&store, u64::MAX);
    assert_blocks_equal(&chain, &store);
}

/// Compares what is known of every block, and the blocks themselves.
fn assert_blocks_equal(chain: &Chain, store: &Store) {
    let snapshot = store.snapshot().unwrap();
    let mut exported = Vec::new();
    for expected in chain.lines("blocks.jsonl.gz") {
        let height = Height(expected["height"].as_u64().unwrap());
        let (header, bytes) = stored_header(&snapshot, height).unwrap().unwrap();
        assert_eq!(expected["hash"], header.hash.to_string());
        assert_eq!(expected["generationHash"], header.generation_hash.to_string(), "height {height}");
        assert_eq!(expected["difficulty"], header.difficulty, "height {height}");
        assert_eq!(expected["chainScore"], header.score.to_string(), "height {height}");
        assert_eq!(expected["totalFee"], header.total_fee.0, "height {height}");
        assert_eq!(expected["lessor"].as_str(), header.lessor.as_ref().map(|lessor| lessor.as_str()));
        if height > Height::NEMESIS {
            block_file::write_block(&mut exported, bytes).unwrap();
        }
    }
    let mut recorded = BlockFile::new(File::open(chain.blocks()).unwrap()).unwrap();
    let mut again = Vec::new();
    let mut block = Vec::new();
    while recorded.next(&mut block).unwrap() {
        block_file::write_block(&mut again, &block).unwrap();
    }
    assert!(exported == again, "the exported blocks differ from the recorded ones");
}

#[test]
fn tiny_has_the_recorded_state_at_every_dump_and_comes_out_as_it_went_in() {
    every_dump_is_equal_and_the_export_is_the_input("tiny");
}

#[test]
fn all_forks_has_the_recorded_state_at_every_dump_and_comes_out_as_it_went_in() {
    every_dump_is_equal_and_the_export_is_the_input("all-forks");
}

#[test]
fn one_year_has_the_recorded_state_at_every_dump_and_comes_out_as_it_went_in() {
    every_dump_is_equal_and_the_export_is_the_input("one-year");
}
