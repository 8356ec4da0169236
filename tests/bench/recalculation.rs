//! Duration of importance calculations in a node, and response times of queries during one.
//!
//! `cargo bench --bench recalculation` creates a chain of 10,000 accounts with 200,000 payments, imports it except for
//! the last block, and then imports that block several times: once within this process, timing every step, and once by
//! `nisd run`, while requesting 200 accounts per second on a fixed schedule, whatever the node does. A response time
//! starts when its query is due. NISD_ACCOUNTS and NISD_PAYMENTS change the size.

mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use common::synthetic::{LAST, SyntheticChain};
use common::{Client, Node};
use nisd::codec::block_file::BlockFile;
use nisd::commands;
use nisd::config::{self, Settings};
use nisd::model::Height;

const BINARY: &str = env!("CARGO_BIN_EXE_nisd");
const ROUNDS: usize = 10;
const PER_SECOND: u64 = 200;

fn main() {
    println!("{}", common::machine());
    let number = |name: &str, usual| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (accounts, payments) = (number("NISD_ACCOUNTS", 10_000), number("NISD_PAYMENTS", 200_000));
    let folder = common::folder();
    let begun = Instant::now();
    let chain = SyntheticChain::create(folder.path(), accounts, payments);
    let made = begun.elapsed().as_secs_f64();
    println!("{accounts} accounts, {payments} payments: the chain was made in {made:.1} s");
    let settings = config::load(Some(&chain.config), Vec::new(), Some(folder.path())).expect("settings");
    let pristine = folder.path().join("pristine");
    let store = commands::open_store(&settings, &pristine).expect("a store");
    let files = || commands::open_block_files(std::slice::from_ref(&chain.blocks)).expect("blocks");
    let seconds = common::import_timed(&store, &settings, files(), Some(Height(LAST - 1))).iter().sum::<f64>();
    println!("blocks 1 to {}: {seconds:.1} s", LAST - 1);
    drop(store);

    let (mut all, mut steps, mut waits) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let place = common::folder();
        copy(&pristine, &place.path().join("store"));
        steps.push(in_process(&settings, place.path(), files(), &mut all));
        let place = common::folder();
        copy(&pristine, &place.path().join("store"));
        waits.extend(query_node_during_calculation(&chain, place.path()));
    }
    println!("importances after block {LAST}: {:.3} s (median of {ROUNDS})", common::median(&mut all));
    // Every round performs the same steps, so the difference between their times is due to the machine.
    let mut least: Vec<f64> =
        (0..steps[0].len()).map(|step| steps.iter().map(|s| s[step]).fold(1.0, f64::min)).collect();
    println!("{} steps, each the shortest of {ROUNDS}: {}", least.len(), common::in_millis(&mut least));
    println!("all of them: {}", common::in_millis(&mut steps.concat()));
    println!("{} queries meanwhile: {}", waits.len(), common::in_millis(&mut waits));
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for file in std::fs::read_dir(from).expect("a store") {
        let file = file.expect("a file");
        std::fs::copy(file.path(), to.join(file.file_name())).expect("room");
    }
}

/// Imports the last block; returns the time of every step except commits. Adds the time of the importance calculation
/// to `all`.
fn in_process(settings: &Settings, place: &Path, files: Vec<BlockFile<'static>>, all: &mut Vec<f64>) -> Vec<f64> {
    let store = commands::open_store(settings, &place.join("store")).expect("a store");
    let mut steps = common::import_timed(&store, settings, files, None);
    // Before them: skipping known blocks, then decoding the empty block, its signature, proof and rewards.
    let steps = steps.split_off((LAST - 2) as usize + 5);
    all.push(steps.iter().sum());
    steps
}

/// Returns the response times of queries from the first answer of a node until it has the last block.
fn query_node_during_calculation(chain: &SyntheticChain, place: &Path) -> Vec<f64> {
    let node = Node::with(BINARY, place, &chain.config, &chain.blocks);
    let mut client = node.first_answer();
    let (begun, mut waits) = (Instant::now(), Vec::new());
    let mut watcher = Client::connect(node.http).expect("a connection");
    for number in 0.. {
        let due = begun + Duration::from_micros(1_000_000 / PER_SECOND * (number + 1));
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let address = chain.addresses[number as usize % chain.addresses.len()];
        let (status, _) = client.get(&format!("/account/get?address={address}")).expect("an answer");
        assert_eq!(status, 200);
        waits.push(due.elapsed().as_secs_f64());
        if number % 20 == 0 && watcher.height() >= LAST {
            break;
        }
        assert!(begun.elapsed() < common::MAX_WAIT, "the log says: {}", node.log());
    }
    waits
}
