//! Snapshots of other processes: their pages are kept while they read, and no longer.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nisd::store::{AccessMode, ChainIdentity, Options, Store, Table, Write as _};

const OPTIONS: Options = Options { map_size: 64 << 20 };
/// Set for a process that reads the store in this folder.
const FOLDER: &str = "NISD_SNAPSHOT_STORE";
/// What that process prints once it has a snapshot.
const READY: &str = "has a snapshot";

/// Entry point of the process that the tests below start. It keeps a snapshot until its standard input ends.
#[test]
fn reader() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let (store, _) = Store::open_existing(Path::new(&folder), AccessMode::Shared, OPTIONS).expect("a store");
    let _snapshot = store.snapshot().expect("a snapshot");
    println!("{READY}");
    std::io::stdin().read_to_end(&mut Vec::new()).expect("input");
}

/// Starts a process that has a snapshot of the store.
fn start_reader(folder: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["store::snapshots::reader", "--exact", "--nocapture"]).env(FOLDER, folder);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process");
    let lines = BufReader::new(child.stdout.as_mut().expect("its output")).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains(READY)));
    child
}

/// Replaces some rows again and again. Returns the pages by which the store has grown.
fn growth(store: &Store) -> u64 {
    let before = store.used_bytes();
    for round in 0..50u8 {
        let mut batch = store.begin_write().expect("a batch");
        for key in 0..10u8 {
            batch.put(Table::Harvests, &[key], &[round; 3000]).expect("room");
        }
        batch.commit().expect("room");
    }
    (store.used_bytes() - before) / 4096
}

#[test]
fn a_store_grows_while_another_process_reads_it_and_no_longer_once_that_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let identity = ChainIdentity { name: "test".to_owned(), text: String::new() };
    let store = Store::open(folder.path(), &identity, OPTIONS).expect("a store");
    let readers = || store.metrics().expect("metrics").readers;
    growth(&store);
    assert!(growth(&store) < 20, "its pages are used again");
    let mut child = start_reader(folder.path());
    assert!(growth(&store) > 400 && readers() == Some(1));
    child.kill().expect("a process");
    child.wait().expect("an end");
    // Its pages are free now, and the store needs no more of them.
    growth(&store);
    assert!(growth(&store) < 20 && readers() == Some(0));
}
