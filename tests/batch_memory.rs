//! Memory use of a write transaction. This is the only test of its binary, so that nothing else affects the
//! measurement.

use std::path::Path;

use nisd::config;
use nisd::model::Height;
use nisd::store::{ChainIdentity, Options, Read, Store, Table, Write, block_key};

/// Number of rows, and bytes of each value: more than three times what is kept in memory.
const ROWS: u64 = 120_000;
const VALUE: usize = 900;
/// 2^13 pages, plus LMDB's own memory and that of this test.
const MAX_MEMORY: u64 = 44 << 20;

/// Returns the private memory of this process in bytes.
fn own_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("what the system tells of a process");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("its memory");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") << 10
}

/// Scatters the rows over the table, so that each page is changed repeatedly.
fn key(number: u64) -> [u8; 8] {
    block_key(Height(number.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
}

fn value(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(VALUE / 8)
}

#[test]
fn a_write_transaction_of_any_size_takes_bounded_memory_and_is_discarded_on_drop() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings =
        config::build(Some((Path::new("a.properties"), b"nem.network=testnet")), Vec::new(), Some(Path::new("/")));
    let identity = ChainIdentity::of(&settings.expect("settings").network);
    let store = Store::open(folder.path(), &identity, Options { map_size: 4 << 30 }).expect("a store");
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
