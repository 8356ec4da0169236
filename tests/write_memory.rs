//! Memory use of write transactions. These are the only tests of their binary and run one after another, so that
//! nothing else affects the measurements.
//!
//! `BATCHES=2000 TMPDIR=/dev/shm cargo test --test write_memory -- --ignored --nocapture` runs that many.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::sync::Mutex;

use nisd::config;
use nisd::model::Height;
use nisd::store::{ChainIdentity, Options, Read, Store, Table, Write, block_key};

static ALONE: Mutex<()> = Mutex::new(());

/// Number of rows, and bytes of each value: more than three times what is kept in memory.
const ROWS: u64 = 120_000;
const VALUE: usize = 900;
/// 2^13 pages, plus LMDB's own memory and that of this test.
const MAX_MEMORY: u64 = 44 << 20;

/// Rows of a write transaction, each of which fills a page: more than the 2^13 kept in memory.
const PAGES: u64 = 12_000;
const PAGE_VALUE: [u8; 3000] = [7; 3000];
/// Write transactions until memory use is stable, and default number after that (`BATCHES=2000` changes it).
const WARM_UP_BATCHES: u32 = 6;
const MEASURED_BATCHES: u32 = 24;
/// LMDB 0.9.24 lost at least 64 KiB with each.
const MAX_GROWTH: u64 = 512 << 10;

/// Returns the private memory of this process in bytes.
fn own_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("what the system tells of a process");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("its memory");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") << 10
}

/// Runs a test on an empty store.
fn on_store(map_size: usize, test: impl FnOnce(&Store)) {
    let _alone = ALONE.lock();
    let folder = tempfile::tempdir().expect("a folder");
    let settings =
        config::build(Some((Path::new("a.properties"), b"nem.network=testnet")), Vec::new(), Some(Path::new("/")));
    let identity = ChainIdentity::of(&settings.expect("settings").network);
    test(&Store::open(folder.path(), &identity, Options { map_size }).expect("a store"));
}

/// Scatters the rows over the table, so that each page is changed repeatedly.
fn key(number: u64) -> [u8; 8] {
    block_key(Height(number.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
}

fn value(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(VALUE / 8)
}

#[test]
#[ignore = "slow: writes hundreds of megabytes"]
fn a_write_transaction_of_any_size_takes_bounded_memory_and_is_discarded_on_drop() {
    on_store(4 << 30, write_and_discard);
}

fn write_and_discard(store: &Store) {
    let (before, mut most) = (own_memory(), 0);
    for is_kept in [false, true] {
        let mut batch = store.begin_write().expect("a batch");
        for number in 0..ROWS {
            batch.put_unjournaled(Table::ListingIndex, &key(number), &value(number)).expect("room");
            if number % 1000 == 0 {
                most = most.max(own_memory().saturating_sub(before));
                let earlier = number / 2;
                assert_eq!(
                    batch.get(Table::ListingIndex, &key(earlier)).expect("a row"),
                    Some(value(earlier).as_slice())
                );
            }
        }
        // Half of them are deleted again, including rows on pages already written.
        for number in (0..ROWS).step_by(2) {
            batch.delete(Table::ListingIndex, &key(number)).expect("room");
            batch.take_journal();
        }
        if is_kept {
            batch.commit().expect("room");
        }
    }
    assert!(most < MAX_MEMORY, "{} MiB", most >> 20);
    let snapshot = store.snapshot().expect("a snapshot");
    for number in 0..ROWS {
        let expected = (number % 2 == 1).then(|| value(number));
        assert_eq!(snapshot.get(Table::ListingIndex, &key(number)).expect("a row"), expected.as_deref(), "{number}");
    }
}

#[test]
#[ignore = "slow: writes hundreds of megabytes"]
fn write_transactions_spilled_before_their_commit_release_their_memory() {
    on_store(1 << 30, spill_repeatedly);
}

fn spill_repeatedly(store: &Store) {
    let more = std::env::var("BATCHES").map_or(MEASURED_BATCHES, |number| number.parse().expect("a number"));
    let mut after_first = 0;
    for number in 0..WARM_UP_BATCHES + more {
        if number == WARM_UP_BATCHES {
            after_first = own_memory();
        }
        let mut batch = store.begin_write().expect("a batch");
        (0..PAGES).for_each(|row| {
            batch.put_unjournaled(Table::ListingIndex, &block_key(Height(row)), &PAGE_VALUE).expect("room")
        });
        batch.commit_deferred_sync().expect("room");
    }
    let grown = own_memory().saturating_sub(after_first);
    let kib = [after_first, after_first + grown].map(|bytes| bytes >> 10);
    eprintln!("{} KiB after {WARM_UP_BATCHES} batches of {PAGES} pages, {} KiB after {more} more", kib[0], kib[1]);
    assert!(grown < MAX_GROWTH, "{} KiB more after {more} batches", grown >> 10);
}
