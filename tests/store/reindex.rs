//! Stores rebuilt from their own blocks, on the chain that is part of the project.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::daemon::{CommandOutput, Process, nisd};
use crate::common::data_folder::{ChainFiles, DataFolder, text};
use crate::common::http::Client;
use crate::common::tiny;
use nisd::store::{AccessMode, Read, Table, Write as _};

const TIP: u64 = 60;
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Returns a store with the whole chain `tiny`.
fn full() -> DataFolder {
    DataFolder::full(&ChainFiles::of("tiny"))
}

/// Imports the rest of the chain.
#[track_caller]
fn extend(place: &DataFolder) {
    ChainFiles::of("tiny").import(&place.path(), &[]).expect_success();
}

/// Returns the state, its dump and the exported blocks.
#[track_caller]
fn outputs(place: &DataFolder) -> ((u64, String), Vec<u8>, Vec<u8>) {
    let output = |command: &str| place.run(command, &[]).expect_success().stdout;
    (place.digest(), output("dump"), output("export"))
}

/// Returns the responses of a node on the store.
fn answers(place: &DataFolder) -> Vec<String> {
    let node = ChainFiles::of("tiny").node(&place.path(), &["--clock", "3600"]);
    let mut client = Client::connect(node.http);
    let last = client.get("/chain/last-block");
    let signer = last.json()["signer"].as_str().expect("a key").to_owned();
    let mut answers = vec![client.get("/chain/score").text().to_owned(), last.text().to_owned()];
    let account = client.get(&format!("/account/get/from-public-key?publicKey={signer}"));
    let address = account.json()["account"]["address"].as_str().expect("an address").to_owned();
    answers.push(account.text().to_owned());
    for path in ["transfers/all", "transfers/outgoing", "harvests", "mosaic/owned", "namespace/page"] {
        answers.push(client.get(&format!("/account/{path}?address={address}")).text().to_owned());
    }
    answers.push(client.get("/namespace/root/page").text().to_owned());
    answers
}

/// Returns the names of the files in the folder, without the secret that a killed node has left.
fn files(place: &DataFolder) -> Vec<String> {
    let files = fs::read_dir(place.path()).expect("a folder");
    let mut names: Vec<_> = files.map(|file| file.expect("a file").file_name().into_string().expect("text")).collect();
    names.retain(|name| name != "local-cookie");
    names.sort();
    names
}

/// Puts a copy of the store into the folder in which a new one is built.
fn prepare_rebuild(place: &DataFolder, with_readers: bool) {
    let folder = place.path().join("reindex");
    fs::create_dir(&folder).expect("a folder");
    let names = ["data.mdb", "nisd.lock", "lock.mdb"];
    for name in &names[..if with_readers { 3 } else { 2 }] {
        fs::copy(place.path().join(name), folder.join(name)).expect("a copy");
    }
}

/// Changes the last value of a table, or the stored height of the block at height 30.
fn corrupt(place: &DataFolder, table: Table) {
    place.change(|batch| {
        let (key, mut value) = {
            let mut cursor = batch.cursor(table).unwrap();
            let entry = if table == Table::Blocks { cursor.seek(&30u64.to_be_bytes()) } else { cursor.last() };
            let (key, value) = entry.unwrap().expect("an entry");
            (key.to_vec(), value.to_vec())
        };
        let height = value.windows(8).rposition(|bytes| table == Table::Blocks && bytes == 30u64.to_le_bytes());
        let at = height.unwrap_or(value.len() - 1);
        value[at] ^= 1;
        batch.put_unjournaled(table, &key, &value).expect("room");
    });
}

const FILES: [&str; 4] = ["data.mdb", "lock.mdb", "nisd.lock", "settled"];

#[test]
#[ignore = "slow: a program on a real disk"]
fn a_reindexed_store_has_the_same_digest_and_answers() {
    let place = full();
    let (before, told) = (outputs(&place), answers(&place));
    let size = place.data_file().len();
    let said = place.run("reindex", &[]).expect_success().stderr;
    assert!(said.contains("needs about") && said.contains("height 60"), "{said}");
    assert_eq!(outputs(&place), before);
    assert_eq!(answers(&place), told);
    assert_eq!(files(&place), FILES);
    assert!(place.data_file().len() <= 2 * size);
    place.run("check", &[]).expect_success();
    // The undo records exist, and the chain can be extended.
    place.run("rollback", &["--to", "1"]).expect_success();
    extend(&place);
    assert_eq!(outputs(&place), before);
}

#[test]
#[ignore = "slow: a program on a real disk"]
fn a_reindex_repairs_a_corrupt_state() {
    let place = full();
    let digest = place.digest();
    corrupt(&place, Table::Accounts);
    assert_ne!(place.digest(), digest);
    place.run("check", &[]).expect_failure(1, &["table accounts", "nisd reindex"]);
    place.run("reindex", &[]).expect_success();
    assert_eq!(place.digest(), digest);
}

#[test]
fn a_check_names_each_corrupt_range_of_rows() {
    let place = full();
    place.change(|batch| {
        for table in [Table::Accounts, Table::Namespaces, Table::Mosaics] {
            // The checksum of other rows.
            batch.put_unjournaled(Table::Checksums, &[table as u8], &[9; 16]).expect("room");
        }
    });
    let named = ["table accounts", "table namespaces", "table mosaics", "3 ranges"];
    place.run("check", &[]).expect_failure(1, &named);
}

#[test]
fn a_corrupt_block_is_named_and_the_old_store_stays() {
    let place = full();
    let digest = place.digest();
    corrupt(&place, Table::Blocks);
    let damaged = place.data_file();
    place.run("reindex", &[]).expect_failure(1, &["height 30"]);
    assert!(place.data_file() == damaged);
    assert_eq!(place.digest(), digest, "the state is as it was");
}

#[test]
#[ignore = "slow: a program on a real disk"]
fn an_interrupted_reindex_is_continued_from_any_state() {
    let place = full();
    let digest = place.digest();
    // Complete but not yet in place, before and after the first of two files was renamed.
    for with_readers in [true, false] {
        prepare_rebuild(&place, with_readers);
        corrupt(&place, Table::Accounts);
        place.run("reindex", &[]).expect_success();
        assert_eq!((place.digest(), files(&place)), (digest.clone(), FILES.map(str::to_owned).to_vec()));
    }
    // A part of the chain.
    place.run("rollback", &["--to", "40"]).expect_success();
    prepare_rebuild(&place, true);
    extend(&place);
    let said = place.run("reindex", &[]).expect_success().stderr;
    assert!(said.contains("from height 40 on"), "{said}");
    assert_eq!(place.digest(), digest);
    // More than the chain, which was rolled back.
    prepare_rebuild(&place, true);
    place.run("rollback", &["--to", "50"]).expect_success();
    let at_50 = place.digest();
    place.run("reindex", &[]).expect_success();
    assert_eq!(place.digest(), at_50);
    // No store at all, and a truncated one.
    for bytes in [b"this is not a store".repeat(1000), place.data_file()[..9000].to_vec()] {
        prepare_rebuild(&place, true);
        fs::write(place.path().join("reindex/data.mdb"), bytes).expect("a file");
        place.run("reindex", &[]).expect_success();
        assert_eq!((place.digest(), files(&place)), (at_50.clone(), FILES.map(str::to_owned).to_vec()));
    }
}

#[test]
#[ignore = "slow: a program on a real disk"]
fn a_reader_during_a_reindex_keeps_its_snapshot_and_later_ones_read_the_new_store() {
    let place = full();
    let digest = place.digest();
    let reader = place.open(AccessMode::Shared);
    let snapshot = reader.snapshot().expect("a snapshot");
    let before = nisd::state::digest(&snapshot).expect("a digest");
    place.run("reindex", &[]).expect_success();
    // Changes the new store, so that pages the reader still uses would be reused.
    for _ in 0..4 {
        place.run("rollback", &["--to", "30"]).expect_success();
        extend(&place);
    }
    assert_eq!(nisd::state::digest(&snapshot).expect("a digest"), before);
    assert_eq!(place.digest(), digest);
    place.run("check", &[]).expect_success();
}

#[test]
fn a_used_foreign_or_missing_store_is_not_reindexed() {
    let place = full();
    let digest = place.digest();
    let store = place.open(AccessMode::Exclusive);
    place.run("reindex", &[]).expect_failure(1, &["another nisd uses the data folder"]);
    drop(store);
    let config = fs::read_to_string(tiny("network.properties")).expect("the configuration");
    let other = place.file("other.json", config.replace("golden-tiny", "somewhere-else"));
    fs::copy(tiny("nemesis.bin"), place.beside("nemesis.bin")).expect("a copy");
    let words = ["the chain of golden-tiny", "somewhere-else"];
    place.run("reindex", &["--config", text(&other)]).expect_failure(2, &words);
    assert_eq!(place.digest(), digest);
    let nowhere = DataFolder::new();
    nowhere.run("reindex", &[]).expect_failure(1, &["no chain in the data folder"]);
    assert!(!nowhere.path().exists());
}

/// Runs a reindex whose files may not exceed this many KiB.
fn limited(place: &DataFolder, kib: u64) -> CommandOutput {
    let program = nisd([""; 0]).get_program().to_owned();
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("trap '' XFSZ; ulimit -f {kib}; exec \"$@\""), "bash"]).arg(program);
    shell.args(["reindex", "--data", text(&place.path())]);
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Process::start(shell).wait_with_timeout(MAX_WAIT)
}

#[test]
#[ignore = "slow: a program on a real disk"]
fn a_failed_write_ends_the_reindex_and_a_second_call_completes_it() {
    let place = full();
    let digest = place.digest();
    let size = place.data_file().len() as u64 >> 10;
    let mut failed = 0;
    for part in 1..8 {
        let ended = limited(&place, size * part / 8);
        if ended.code != Some(0) {
            ended.expect_failure(1, &["cannot"]);
            failed += 1;
        }
        assert_eq!(place.digest(), digest, "{part} of 8");
    }
    assert!(failed > 0, "nothing failed");
    place.run("reindex", &[]).expect_success();
    assert_eq!((place.digest(), files(&place)), (digest, FILES.map(str::to_owned).to_vec()));
    assert_eq!(place.digest().0, TIP);
}
