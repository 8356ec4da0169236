//! `nisd backup` beside nodes that download or harvest blocks: the copy is a store as of one commit, and an interrupted
//! copy is not a store.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::daemon::{CommandOutput, Node, Process, nisd, run};
use crate::common::http::Client;
use crate::common::private_network::{Genesis, address, key_pair, now, private_key};
use crate::common::{Random, older_store, print_notice, recorded, tiny};
use nisd::model::Amount;

/// Number of copies that are killed before one may complete.
const KILLED: usize = 4;
/// Maximum run time of a killed copy.
const MAX_RUN_BEFORE_KILL: Duration = Duration::from_millis(150);
/// Maximum time for a node to make its blocks.
const MAX_WAIT: Duration = Duration::from_secs(60);

fn path(path: &Path) -> &str {
    path.to_str().expect("a path")
}

fn backup(data: &Path, copy: &Path) -> CommandOutput {
    run(["backup", "--data", path(data), path(copy)])
}

/// Returns height and digest from the output of a command.
fn state(told: CommandOutput) -> (u64, String) {
    let line = told.expect_success().text();
    let (height, digest) = line.trim_end().split_once(' ').expect("a height and a digest");
    (height.parse().expect("a height"), digest.to_owned())
}

fn digest(data: &Path) -> (u64, String) {
    state(run(["digest", "--data", path(data)]))
}

#[test]
fn a_backup_reports_its_state_and_can_replace_the_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, copy) = (folder.path().join("store"), folder.path().join("copies/first"));
    let config = tiny("config.json");
    let import = |data: &Path, stop_at: &str| {
        let blocks = tiny("blocks.bin");
        run(["import", "--config", path(&config), "--data", path(data), "--stop-at", stop_at, path(&blocks)])
            .expect_success();
    };
    import(&data, "40");
    assert_eq!(state(backup(&data, &copy)), digest(&data));
    assert!(std::fs::metadata(copy.join("data.mdb")).expect("a file").len() > 0);
    // The copy can be extended like any store.
    import(&copy, "60");
    import(&data, "60");
    assert_eq!(digest(&copy), digest(&data));

    // It is no longer only a copy, so it is not replaced.
    backup(&data, &copy).expect_failure(1, &["not part of a backup", path(&copy)]);
    backup(&data, &data).expect_failure(2, &["another folder"]);
    backup(&folder.path().join("nothing"), &folder.path().join("second")).expect_failure(1, &["no chain"]);
    backup(&data, &config).expect_failure(1, &["cannot be used", path(&config)]);
}

#[test]
fn repeated_backups_replace_the_previous_one_or_are_kept_beside_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, copy, copies) = (folder.path().join("store"), folder.path().join("copy"), folder.path().join("copies"));
    let config = tiny("config.json");
    for stop_at in ["20", "40", "60"] {
        let blocks = tiny("blocks.bin");
        run(["import", "--config", path(&config), "--data", path(&data), "--stop-at", stop_at, path(&blocks)])
            .expect_success();
        assert_eq!(state(backup(&data, &copy)), digest(&data));
        assert_eq!(digest(&copy), digest(&data));
        let kept = || run(["backup", "--data", path(&data), "--keep", "2", path(&copies)]);
        assert_eq!(state(kept()), digest(&data));
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
fn an_older_or_corrupt_backup_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, copy) = (folder.path().join("store"), folder.path().join("copy"));
    let (config, blocks) = (tiny("config.json"), tiny("blocks.bin"));
    run(["import", "--config", path(&config), "--data", path(&data), "--stop-at", "20", path(&blocks)])
        .expect_success();
    let (file, expected) = (copy.join("data.mdb"), digest(&data));
    assert_eq!(state(backup(&data, &copy)), expected);
    for schema in ["2", "5", "9"] {
        // A version without a checksum of the store's metadata.
        let mut bytes = older_store(5);
        let place = (0..bytes.len()).find(|at| bytes[*at..].starts_with(b"schema5")).expect("the schema");
        bytes[place..place + 7].copy_from_slice(format!("schema{schema}").as_bytes());
        std::fs::remove_dir_all(&copy).and_then(|()| std::fs::create_dir(&copy)).expect("a folder");
        std::fs::write(&file, bytes).expect("room");
        let refused = run(["digest", "--data", path(&copy)]).stderr;
        assert!(refused.contains(&format!("schema {schema}")), "{refused}");
        assert_eq!(state(backup(&data, &copy).expect_success()), expected, "{schema}");
        assert_eq!(digest(&copy), expected);
    }
    let whole = std::fs::read(&file).expect("a file");
    let damaged = [Vec::new(), whole[..whole.len() / 2].to_vec(), [&[0; 8192], &whole[8192..]].concat()];
    for content in damaged {
        std::fs::write(&file, content).expect("room");
        assert_ne!(run(["digest", "--data", path(&copy)]).code, Some(0));
        let replaced = backup(&data, &copy).expect_success();
        assert!(replaced.stderr.contains("which cannot be read"), "{}", replaced.stderr);
        assert_eq!((state(replaced), digest(&copy)), (expected.clone(), expected.clone()));
    }
}

#[test]
fn interrupted_backups_are_removed_first_and_a_failed_removal_prevents_no_backup() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, copies) = (folder.path().join("store"), folder.path().join("copies"));
    let (config, blocks) = (tiny("config.json"), tiny("blocks.bin"));
    run(["import", "--config", path(&config), "--data", path(&data), "--stop-at", "5", path(&blocks)]).expect_success();
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
    let kept = run(["backup", "--data", path(&data), "--keep", "1", path(&copies)]).expect_success();
    assert!(!interrupted.exists() && !older.exists() && used.join("data.mdb").exists());
    let place = |line: &str| kept.stderr.lines().position(|said| said.contains(line)).expect(line);
    assert!(place("removed the interrupted copy") < place("copying the store"));
    assert!(place(&format!("the older copy {} is not removed", path(&used))) > place("holds a copy"));
    assert_eq!(state(kept), digest(&data));
}

#[test]
fn the_store_of_another_network_is_not_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, copy) = (folder.path().join("store"), folder.path().join("copy"));
    let (config, blocks) = (tiny("config.json"), tiny("blocks.bin"));
    run(["import", "--config", path(&config), "--data", path(&data), "--stop-at", "5", path(&blocks)]).expect_success();
    let funded = [(address(&key_pair(1)), Amount::whole(8_999_999_999))];
    let other = Genesis::new(now(), &funded).write_hasty(folder.path(), &private_key(1).printed(), &[]);
    drop(Node::start(["--config", path(&other), "--data", path(&folder.path().join("other"))]));
    backup(&folder.path().join("other"), &copy).expect_success();
    let before = digest(&copy);
    backup(&data, &copy).expect_failure(1, &["the chain of", path(&copy)]);
    assert_eq!(digest(&copy), before);
}

#[test]
fn backups_during_an_import_are_stores_of_one_commit_despite_kills() {
    let chain = recorded("chains/all-forks");
    let folder = tempfile::tempdir().expect("a folder");
    let (data, copy, whole) = (folder.path().join("store"), folder.path().join("copy"), folder.path().join("whole"));
    let (config, blocks) = (chain.join("config.json"), chain.join("blocks.bin.gz"));
    let node = Node::start(["--config", path(&config), "--data", path(&data), "--import", path(&blocks)]);
    let mut client = Client::connect(node.http);
    while client.height() < 100 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut random = Random(20_261_123);
    for killed in 0..KILLED {
        let mut process = Process::start(nisd(["backup", "--data", path(&data), path(&copy)]));
        std::thread::sleep(MAX_RUN_BEFORE_KILL.mul_f64(random.below(100) as f64 / 100.0));
        process.kill();
        let is_complete = copy.join("data.mdb").exists();
        print_notice(&format!("copy {killed} killed at height {}, complete: {is_complete}", client.height()));
        if is_complete {
            digest(&copy);
            std::fs::remove_dir_all(&copy).expect("a folder");
        }
    }
    let copied = state(backup(&data, &copy));
    print_notice(&format!("copied at height {}, and the node is at {}", copied.0, client.height()));
    assert_eq!(digest(&copy), copied);
    assert_eq!(state(run(["check", "--no-signatures", "--data", path(&copy)])), copied);
    let stop_at = copied.0.to_string();
    run(["import", "--config", path(&config), "--data", path(&whole), "--stop-at", &stop_at, path(&blocks)])
        .expect_success();
    assert_eq!(digest(&whole), copied);
}

#[test]
fn a_node_continues_from_a_backup_of_a_harvesting_node() {
    let folder = tempfile::tempdir().expect("a folder");
    let funded = [(address(&key_pair(1)), Amount::whole(8_999_999_999))];
    let config = Genesis::new(now(), &funded).write_hasty(folder.path(), &private_key(1).printed(), &[]);
    let (data, copy) = (folder.path().join("store"), folder.path().join("copy"));
    let reach = |node: &Node, height: u64| {
        let (mut client, start) = (Client::connect(node.http), Instant::now());
        while client.height() < height {
            assert!(start.elapsed() < MAX_WAIT, "no blocks are made");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let mut node = Node::start(["--config", path(&config)]);
    reach(&node, 3);
    let copied = state(backup(&data, &copy));
    assert!(copied.0 >= 3);
    reach(&node, copied.0 + 1);
    node.process.kill();
    assert_eq!(state(run(["check", "--data", path(&copy)])), copied);
    let node = Node::start(["--config", path(&config), "--data", path(&copy)]);
    reach(&node, copied.0 + 2);
}
