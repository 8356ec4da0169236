//! Measurements of the program: `cargo bench --bench measure -- NAME` runs one of them, and without a name they are
//! listed.

mod announce;
mod attacks;
mod chains;
#[allow(dead_code)] // not everything that tests share is used here
#[path = "../common/mod.rs"]
mod common;
mod first_synchronisation;
mod footprint;
mod generate_chain;
mod import;
mod importance;
mod in_step;
mod latency;
mod load;
mod progress;
mod random_transactions;
mod recalculation;
#[allow(dead_code)] // not everything that tests of the network need is used here
#[path = "../network/scripted_peer.rs"]
mod scripted_peer;
mod serving;
mod slow_disk;
mod slow_reads;
mod subscribers;
mod support;
mod trust;

use std::process::ExitCode;

/// A name, what is measured, and the function that measures it; it is handed further arguments.
type Measurement = (&'static str, &'static str, fn(&[String]) -> ExitCode);

const MEASUREMENTS: [Measurement; 18] = [
    ("import", "a whole import against verifying its signatures only", import::run),
    ("first_synchronisation", "block download from one and three peers against an import", first_synchronisation::run),
    ("progress", "blocks a minute alone and beside peers that prove nothing", progress::run),
    ("latency", "queries while blocks are imported at full speed", latency::run),
    ("slow_disk", "waiting time of clients while a disk takes 5, 50 and 200 ms", slow_disk::run),
    (
        "slow_reads",
        "reads of cold accounts, and waiting time of clients while a disk reads slowly; needs root",
        slow_reads::run,
    ),
    (
        "slow_blocks",
        "the time that blocks take in step with the network on such a disk; needs root",
        slow_reads::run_blocks,
    ),
    ("importance", "importances of large graphs: time, longest step, memory", importance::run),
    ("recalculation", "the same within a node, and the waiting time of queries meanwhile", recalculation::run),
    ("trust", "trust calculation: time, longest step", trust::run),
    ("announce", "one client announces at full speed; waiting time of others", announce::run),
    ("serving", "50 peers request blocks at once; waiting time of clients, memory of the node", serving::run),
    ("subscribers", "2,000 sessions, and readers beside 50 that do not read; needs ulimit -n 20000", subscribers::run),
    ("footprint", "time to the first answer, memory, size of the program", footprint::run),
    ("attacks", "hostile clients: their cost, and the effect on others; needs ulimit -n 20000", attacks::run),
    ("random_transactions", "whether each rule rejects what breaks it, and how often", random_transactions::run),
    ("in_step", "bytes that blocks write to the disk when each is committed alone", in_step::run),
    ("chains", "makes long chains of all kinds of transactions, to measure imports with", generate_chain::run),
];

fn main() -> ExitCode {
    // The bench harness passes an option of its own.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let Some(name) = words.first() else {
        MEASUREMENTS.iter().for_each(|(name, about, _)| println!("{name:22} {about}"));
        return ExitCode::SUCCESS;
    };
    match MEASUREMENTS.iter().find(|measurement| measurement.0 == name) {
        Some((_, _, run)) => run(&words[1..]),
        None => {
            eprintln!("there is no measurement {name:?}");
            ExitCode::FAILURE
        }
    }
}
