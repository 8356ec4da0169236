//! Memory leaked by write transactions that were too large to be kept in memory. This is the only test of its binary,
//! so that nothing else affects the measurement.
//!
//! `BATCHES=2000 TMPDIR=/dev/shm cargo test --test spilled_batches -- --nocapture` runs that many.
#![cfg(target_os = "linux")]

use std::path::Path;

use nisd::config;
use nisd::model::Height;
use nisd::store::{ChainIdentity, Options, Store, Table, block_key};

/// Rows of a write transaction, each of which fills a page: more than the 2^13 kept in memory.
const ROWS: u64 = 12_000;
const VALUE: [u8; 3000] = [7; 3000];
/// Write transactions until memory use is stable, and default number after that (`BATCHES=2000` changes it).
const WARM_UP_BATCHES: u32 = 6;
const MEASURED_BATCHES: u32 = 24;
/// LMDB 0.9.24 lost at least 64 KiB with each.
const MAX_GROWTH: u64 = 512 << 10;

/// Returns the private memory of this process in bytes.
fn own_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("what the system tells of a process");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

#[test]
fn write_transactions_spilled_before_their_commit_release_their_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings =
        config::build(Some((Path::new("a.properties"), b"nem.network=testnet")), Vec::new(), Some(Path::new("/")));
    let identity = ChainIdentity::of(&settings.expect("settings").network);
    let store = Store::open(folder.path(), &identity, Options { map_size: 1 << 30 }).expect("a store");
    let more = std::env::var("BATCHES").map_or(MEASURED_BATCHES, |number| number.parse().expect("a number"));
    let mut after_first = 0;
    for number in 0..WARM_UP_BATCHES + more {
        if number == WARM_UP_BATCHES {
            after_first = own_memory();
        }
        let mut batch = store.begin_write().expect("a batch");
        (0..ROWS)
            .for_each(|row| batch.put_unjournaled(Table::ListingIndex, &block_key(Height(row)), &VALUE).expect("room"));
        batch.commit_deferred_sync().expect("room");
    }
    let grown = own_memory().saturating_sub(after_first);
    let kib = [after_first, after_first + grown].map(|bytes| bytes >> 10);
    eprintln!("{} KiB after {WARM_UP_BATCHES} batches of {ROWS} pages, {} KiB after {more} more", kib[0], kib[1]);
    assert!(grown < MAX_GROWTH, "{} KiB more after {more} batches", grown >> 10);
}
