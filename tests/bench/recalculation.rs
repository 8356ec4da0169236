//! Duration of importance calculations in a node, and response times of queries during one. A chain of 10,000 accounts
//! with 200,000 payments is imported except for the last block, and then that block several times: once within this
//! process, timing every step, and once by `nisd run`, while 200 accounts per second are requested. NISD_ACCOUNTS and
//! NISD_PAYMENTS change the size.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use super::chains::{Files, Plan, generate};
use super::load::{Load, ResponseTimes};
use super::support::{folder, import_timed, in_millis, median, print_machine};
use crate::common::daemon::{Node, args};
use crate::common::from_environment;
use crate::common::http::{Client, get};
use crate::common::private_network::{address, key_pair};
use crate::common::recorded_chain::copy_store;
use nisd::codec::block_file::BlockFile;
use nisd::commands::{self, Stop};
use nisd::config::{self, Settings};
use nisd::model::Height;

const ROUNDS: usize = 10;
/// The last block, which is empty and triggers the second calculation.
const LAST: u64 = 359;

pub fn run(_: &[String]) -> ExitCode {
    print_machine();
    let accounts = from_environment("NISD_ACCOUNTS").unwrap_or(10_000);
    let payments: usize = from_environment("NISD_PAYMENTS").unwrap_or(200_000);
    let (transactions, folder) = (payments / LAST as usize, folder());
    let plan = Plan { plain: true, ends_empty: true, ..Plan::new(LAST, transactions, accounts) };
    let (chain, _) = generate(&plan, folder.path(), |_| {}).expect("a chain");
    let settings = config::load(Some(&chain.config), Vec::new(), Some(folder.path())).expect("settings");
    let pristine = folder.path().join("pristine");
    let store = commands::store::open_store(&settings, &pristine).expect("a store");
    let files =
        || commands::store::open_block_files(std::slice::from_ref(&chain.blocks), &Stop::default()).expect("blocks");
    let seconds = import_timed(&store, &settings, files(), Some(Height(LAST - 1))).iter().sum::<f64>();
    println!("{accounts} accounts, {payments} payments, blocks 1 to {}: {seconds:.1} s", LAST - 1);
    drop(store);

    let (mut steps, mut samples) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let place = folder_with(&pristine);
        steps.push(in_process(&settings, place.path(), files()));
        let place = folder_with(&pristine);
        let node = start(&chain, place.path());
        let (begun, mut watcher) = (Instant::now(), Client::connect(node.http));
        let load = Load::local(200, 1).start(node.http, move |number| {
            get(&format!("/account/get?address={}", address(&key_pair(1 + number % 1_000))))
        });
        watcher.wait_for_height(LAST);
        samples.extend(load.stop(begun, Instant::now()));
    }
    let mut all: Vec<f64> = steps.iter().map(|steps| steps.iter().sum()).collect();
    println!("importances after block {LAST}: {:.3} s (median of {ROUNDS})", median(&mut all));
    // Every round performs the same steps, so the difference between their times is due to the machine.
    let mut least: Vec<f64> =
        (0..steps[0].len()).map(|step| steps.iter().map(|s| s[step]).fold(1.0, f64::min)).collect();
    println!("{} steps, each the shortest of {ROUNDS}: {}", least.len(), in_millis(&mut least));
    println!("all of them: {}", in_millis(&mut steps.concat()));
    println!("meanwhile: {}", ResponseTimes::of(&samples));
    ExitCode::SUCCESS
}

fn folder_with(store: &Path) -> tempfile::TempDir {
    let place = folder();
    std::fs::create_dir(place.path().join("store")).expect("a folder");
    copy_store(store, &place.path().join("store"));
    place
}

fn start(chain: &Files, place: &Path) -> Node {
    Node::start(args!["--config", chain.config, "--data", place.join("store"), "--import", chain.blocks])
}

/// Imports the last block; returns the time of every step of the calculation.
fn in_process(settings: &Settings, place: &Path, files: Vec<BlockFile<'static>>) -> Vec<f64> {
    let store = commands::store::open_store(settings, &place.join("store")).expect("a store");
    // Before them: skipping known blocks, then decoding the empty block, its signature, proof and rewards.
    import_timed(&store, settings, files, None).split_off((LAST - 2) as usize + 5)
}
