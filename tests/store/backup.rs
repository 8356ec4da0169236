//! `nisd backup` beside nodes that download or harvest blocks: the copy is a store as of one commit, and an interrupted
//! copy is not a store.

use std::path::Path;
use std::time::Duration;

use crate::common::daemon::{CommandOutput, Node, Process, args, assert_contains, in_container, nisd, run, wait_for};
use crate::common::data_folder::{ChainFiles, DataFolder, digest, hasty_network, height_and_digest, text};
use crate::common::http::Client;
use crate::common::slow_disk::SlowDisk;
use crate::common::{Random, print_notice};
use nisd::store::{EARLIER_SCHEMAS, Table, WorkFolder, Write as _};

/// Number of copies that are killed before one may complete.
const KILLED: usize = 4;
/// Maximum run time of a killed copy.
const MAX_RUN_BEFORE_KILL: Duration = Duration::from_millis(150);

fn backup(data: &Path, copy: &Path) -> CommandOutput {
    run(["backup", "--data", text(data), text(copy)])
}

#[test]
fn a_backup_reports_its_state_and_can_replace_the_store() {
    let tiny = ChainFiles::of("tiny");
    let folder = DataFolder::with(&tiny, 40);
    let (data, copy) = (folder.path(), folder.beside("copies/first"));
    assert_eq!(height_and_digest(backup(&data, &copy)), folder.digest());
    assert!(std::fs::metadata(copy.join("data.mdb")).expect("a file").len() > 0);
    // The copy can be extended like any store.
    tiny.import_to(&copy, 60);
    tiny.import_to(&data, 60);
    assert_eq!(digest(&copy), folder.digest());

    // It is no longer only a copy, so it is not replaced.
    backup(&data, &copy).expect_failure(1, &["not part of a backup", text(&copy)]);
    backup(&data, &data).expect_failure(2, &["another folder"]);
    backup(&folder.beside("nothing"), &folder.beside("second")).expect_failure(1, &["no chain"]);
    backup(&data, &tiny.config).expect_failure(1, &["cannot be used", text(&tiny.config)]);
}

#[test]
#[ignore = "slow: a program on a real disk"]
fn repeated_backups_replace_the_previous_one_or_are_kept_beside_it() {
    let (tiny, folder) = (ChainFiles::of("tiny"), DataFolder::new());
    let (data, copy, copies) = (folder.path(), folder.beside("copy"), folder.beside("copies"));
    for height in [20, 40, 60] {
        tiny.import_to(&data, height);
        assert_eq!(height_and_digest(backup(&data, &copy)), folder.digest());
        assert_eq!(digest(&copy), folder.digest());
        assert_eq!(height_and_digest(folder.run("backup", &["--keep", "2", text(&copies)])), folder.digest());
        // Names have a resolution of seconds.
        std::thread::sleep(Duration::from_millis(1_100));
    }
    let entries = std::fs::read_dir(&copies).expect("a folder");
    let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    names.sort();
    let heights: Vec<u64> = names.iter().map(|copy| digest(copy).0).collect();
    assert_eq!(heights, [40, 60], "{names:?}");
}

#[test]
fn a_backup_in_another_container_than_the_node_says_where_to_run_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let [data, copy] = ["store", "copy"].map(|name| folder.path().join(name));
    let backup = nisd(args!["backup", "--data", data, copy]);
    let [Some(node), Some(backup)] = [&Node::command(args!["--data", data]), &backup].map(in_container) else { return };
    let _node = Node::from_command(node);
    let ended = Process::start(backup).wait_with_timeout(Duration::from_secs(60));
    ended.expect_failure(1, &["in another container", "docker exec", "--pid=container:NODE"]);
}

#[test]
fn an_older_or_corrupt_backup_is_replaced() {
    let folder = DataFolder::with(&ChainFiles::of("tiny"), 20);
    let (data, copy, expected) = (folder.path(), folder.beside("copy"), folder.digest());
    assert_eq!(height_and_digest(backup(&data, &copy)), expected);
    let file = copy.join("data.mdb");
    // Too old, older, and unknown.
    for schema in ["9", EARLIER_SCHEMAS[0], "~"] {
        let other = DataFolder::with(&ChainFiles::of("tiny"), 5);
        other.change(|batch| batch.put_unjournaled(Table::Meta, b"schema", schema.as_bytes()).expect("room"));
        std::fs::remove_dir_all(&copy).and_then(|()| std::fs::create_dir(&copy)).expect("a folder");
        std::fs::copy(other.path().join("data.mdb"), &file).expect("room");
        let rejection = run(["digest", "--data", text(&copy)]).stderr;
        assert!(rejection.contains(&format!("schema {schema}")), "{rejection}");
        assert_eq!(height_and_digest(backup(&data, &copy)), expected, "{schema}");
        assert_eq!(digest(&copy), expected);
    }
    let whole = std::fs::read(&file).expect("a file");
    let damaged = [Vec::new(), whole[..whole.len() / 2].to_vec(), [&[0; 8192], &whole[8192..]].concat()];
    for content in damaged {
        std::fs::write(&file, content).expect("room");
        assert_ne!(run(["digest", "--data", text(&copy)]).code, Some(0));
        let replaced = backup(&data, &copy).expect_success();
        assert!(replaced.stderr.contains("which cannot be read"), "{}", replaced.stderr);
        assert_eq!((height_and_digest(replaced), digest(&copy)), (expected.clone(), expected.clone()));
    }
}

#[test]
fn interrupted_backups_are_removed_first_and_a_failed_removal_prevents_no_backup() {
    let folder = DataFolder::with(&ChainFiles::of("tiny"), 5);
    let copies = folder.beside("copies");
    let named = |name: &str, file: &str| {
        let place = copies.join(name);
        std::fs::create_dir_all(place.join(file).parent().expect("a folder")).expect("a folder");
        std::fs::write(place.join(file), "a").expect("room");
        place
    };
    let interrupted = named("2026-01-01T000000Z", "unfinished/data.mdb");
    let used = named("2026-01-02T000000Z", "data.mdb");
    named("2026-01-02T000000Z", "settled");
    let older = named("2026-01-03T000000Z", "data.mdb");
    let kept = folder.run("backup", &["--keep", "1", text(&copies)]).expect_success();
    assert!(!interrupted.exists() && !older.exists() && used.join("data.mdb").exists());
    let place = |line: &str| kept.stderr.lines().position(|logged| logged.contains(line)).expect(line);
    assert!(place("removed the interrupted copy") < place("copying the store"));
    assert!(place(&format!("the older copy {} is not removed", text(&used))) > place("holds a copy"));
    assert_eq!(height_and_digest(kept), folder.digest());
}

#[test]
fn the_copy_that_was_just_made_stays_although_others_have_a_later_date() {
    let folder = DataFolder::with(&ChainFiles::of("tiny"), 5);
    let copies = folder.beside("copies");
    let later = [2998, 2999].map(|year| copies.join(format!("{year}-01-01T000000Z")));
    for copy in &later {
        backup(&folder.path(), copy).expect_success();
    }
    let names = || {
        let entries = std::fs::read_dir(&copies).expect("a folder");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
        names.sort();
        names
    };
    let kept = folder.run("backup", &["--keep", "2", text(&copies)]).expect_success();
    assert_contains(&kept.stderr, &["WARN", "the clock", "a later date", text(&later[0]), text(&later[1])]);
    let left = names();
    assert_eq!((left.len(), &left[1]), (2, &later[1]));
    assert_eq!(digest(&left[0]), folder.digest());
    folder.run("backup", &["--keep", "1", text(&copies)]).expect_success();
    let left = names();
    assert!(left.len() == 1 && left[0] < later[0], "{left:?}");
    let kept = folder.run("backup", &["--keep", "1", text(&copies)]).expect_success();
    assert!(!kept.stderr.contains("WARN") && names().len() == 1, "{}", kept.stderr);
}

#[test]
fn copies_of_another_network_and_links_are_neither_removed_nor_counted() {
    let folder = DataFolder::with(&ChainFiles::of("tiny"), 5);
    let (config, other) = (hasty_network(folder.0.path(), 0, &[]), folder.beside("other"));
    drop(Node::start(["--config", text(&config), "--data", text(&other)]));
    let (copies, elsewhere) = (folder.beside("copies"), folder.beside("elsewhere"));
    let (of_other, link) = (copies.join("2026-01-02T000000Z"), copies.join("2026-01-03T000000Z"));
    backup(&other, &of_other).expect_success();
    backup(&folder.path(), &elsewhere).expect_success();
    std::os::unix::fs::symlink(&elsewhere, &link).expect("a link");
    let kept = folder.run("backup", &["--keep", "1", text(&copies)]).expect_success();
    assert_contains(&kept.stderr, &["WARN", text(&of_other), "of another network: it is kept"]);
    assert_eq!((digest(&of_other), digest(&elsewhere), link.is_symlink()), (digest(&other), folder.digest(), true));
}

#[test]
fn a_running_backup_is_neither_removed_nor_written_by_another_one() {
    let folder = DataFolder::with(&ChainFiles::of("tiny"), 5);
    let (data, copies) = (folder.path(), folder.beside("copies"));
    let copy = copies.join("2026-01-01T000000Z");
    std::fs::create_dir_all(&copy).expect("a folder");
    // As the other process has it.
    let running = WorkFolder::take(&copy.join("unfinished")).expect("a folder");
    std::fs::write(running.path().join("data.mdb"), "a part").expect("room");
    let said = format!("another backup to {} is running", text(&copy));
    folder.run("backup", &["--keep", "1", text(&copies)]).expect_failure(1, &[&said]);
    backup(&data, &copy).expect_failure(1, &[&said]);
    assert_eq!(std::fs::read(running.path().join("data.mdb")).expect("a file"), b"a part");
    drop(running);
    // Another test may have started a process, which inherits the lock until it executes its program.
    wait_for("the end of the other backup", || (backup(&data, &copy).code == Some(0)).then_some(()));
    assert_eq!(digest(&copy), folder.digest());
    assert_eq!(std::fs::read_dir(&copy).expect("a folder").filter(is_own_entry).count(), 1);
}

/// Returns whether an entry is not of LMDB, which a reader of the copy leaves.
fn is_own_entry(entry: &std::io::Result<std::fs::DirEntry>) -> bool {
    entry.as_ref().is_ok_and(|entry| entry.file_name() != "lock.mdb")
}

#[test]
fn what_a_killed_check_has_left_hinders_no_backup_and_goes_with_the_next_check() {
    let folder = DataFolder::with(&ChainFiles::of("tiny"), 5);
    let (data, copy) = (folder.path(), folder.beside("copy"));
    backup(&data, &copy).expect_success();
    let left = copy.join("check-7");
    std::fs::create_dir(&left).expect("a folder");
    for name in ["data.mdb", "lock.mdb", "nisd.lock"] {
        std::fs::write(left.join(name), "a part").expect("room");
    }
    assert_eq!(height_and_digest(backup(&data, &copy)), folder.digest());
    assert!(left.exists());
    let checked = run(["check", "--data", text(&copy)]).expect_success();
    assert_contains(&checked.stderr, &["removing", text(&left)]);
    assert_eq!(std::fs::read_dir(&copy).expect("a folder").filter(is_own_entry).count(), 1);
}

#[test]
fn the_store_of_another_network_is_not_replaced() {
    let folder = DataFolder::with(&ChainFiles::of("tiny"), 5);
    let (copy, other) = (folder.beside("copy"), folder.beside("other"));
    let config = hasty_network(folder.0.path(), 0, &[]);
    drop(Node::start(["--config", text(&config), "--data", text(&other)]));
    backup(&other, &copy).expect_success();
    let before = digest(&copy);
    backup(&folder.path(), &copy).expect_failure(2, &["the chain of", text(&copy)]);
    assert_eq!(digest(&copy), before);
}

#[test]
#[ignore = "slow: a program on a real disk"]
fn backups_during_an_import_are_stores_of_one_commit_despite_kills() {
    let (chain, folder) = (ChainFiles::of("all-forks"), DataFolder::new());
    let (data, copy, whole) = (folder.path(), folder.beside("copy"), folder.beside("whole"));
    let node = chain.node(&data, &["--import", text(&chain.blocks)]);
    let mut client = Client::connect(node.http);
    wait_for("height 100", || (client.height() >= 100).then_some(()));
    let mut random = Random(20_261_123);
    for killed in 0..KILLED {
        let mut process = Process::start(nisd(["backup", "--data", text(&data), text(&copy)]));
        std::thread::sleep(MAX_RUN_BEFORE_KILL.mul_f64(random.below(100) as f64 / 100.0));
        process.kill();
        let is_complete = copy.join("data.mdb").exists();
        print_notice(&format!("copy {killed} killed at height {}, complete: {is_complete}", client.height()));
        if is_complete {
            digest(&copy);
            std::fs::remove_dir_all(&copy).expect("a folder");
        }
    }
    let copied = height_and_digest(backup(&data, &copy));
    print_notice(&format!("copied at height {}, and the node is at {}", copied.0, client.height()));
    assert_eq!(digest(&copy), copied);
    assert_eq!(height_and_digest(run(["check", "--no-signatures", "--data", text(&copy)])), copied);
    chain.import_to(&whole, copied.0);
    assert_eq!(digest(&whole), copied);
}

#[test]
fn a_backup_that_the_disk_rejects_says_that_the_store_is_unchanged() {
    let Some(disk) = SlowDisk::new() else { return };
    let folder = DataFolder::with(&ChainFiles::of("tiny"), 20);
    let mut command = nisd(["backup", "--data", text(&folder.path()), text(&folder.beside("copy"))]);
    disk.for_program(&mut command);
    disk.fail();
    let ended = Process::start(command).wait_with_timeout(Duration::from_secs(60));
    let ended = ended.expect_failure(1, &["the copy of the store", "the store itself is unchanged"]);
    assert!(!ended.stderr.contains("start nisd again") && !ended.stderr.contains("back up"), "{}", ended.stderr);
}
