//! Files of a running node that somebody removes, replaces or moves.

use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use crate::common::daemon::{Node, Process, args, run, wait_for};
use crate::common::data_folder::{ChainFiles, DataFolder, hasty_network, text};
use crate::common::http::Client;
use nisd::store::AccessMode;

/// Maximum time until a node has ended.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// What the log says once the data file is gone.
const GONE: &str = "data.mdb cannot be used: it was removed, replaced or moved while it was in use";

#[test]
#[ignore = "slow: a program on a real disk"]
fn a_node_whose_data_file_is_removed_replaced_or_moved_ends_with_a_failure_that_names_it() {
    let changes: [fn(&Path) -> io::Result<()>; 4] = [
        |store| fs::remove_file(store.join("data.mdb")),
        |store| fs::remove_dir_all(store),
        |store| fs::rename(store, store.with_file_name("moved")),
        |store| {
            let (data, copy) = (store.join("data.mdb"), store.join("copy"));
            fs::copy(&data, &copy)?;
            fs::rename(copy, data)
        },
    ];
    for change in changes {
        // One makes a block every second, the other only answers.
        for harvests in [true, false] {
            let folder = tempfile::tempdir().expect("a folder");
            let node = if harvests {
                let config = hasty_network(folder.path(), 0, &[]);
                Node::start(["--config", text(&config)])
            } else {
                Node::on_tiny(1, &[])
            };
            let own = node.folder.as_ref().unwrap_or(&folder).path().join("store");
            let mut client = Client::connect(node.http);
            wait_for("blocks", || (!harvests || client.height() > 2).then_some(()));
            change(&own).expect("a change");
            let ended = node.process.wait_with_timeout(MAX_WAIT).expect_failure(1, &[GONE, "start nisd again"]);
            assert_eq!(ended.stderr.matches("data.mdb").count(), 1, "it is said once:\n{}", ended.stderr);
            assert!(!ended.stderr.contains("cannot be removed"), "{}", ended.stderr);
        }
    }
}

#[test]
#[ignore = "slow: a program on a real disk"]
fn a_node_whose_lock_file_is_removed_keeps_its_store_to_itself_and_readers_are_let_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = hasty_network(folder.path(), 0, &[]);
    let (own, copy) = (folder.path().join("store"), folder.path().join("copy"));
    let node = Node::start(["--config", text(&config)]);
    let mut client = Client::connect(node.http);
    wait_for("blocks", || (client.height() > 2).then_some(()));
    fs::remove_file(own.join("nisd.lock")).expect("a lock file");
    let number = format!("the process {}", node.process.id());
    // The first one creates another lock file.
    for _ in 0..2 {
        let second = Process::start(Node::command(["--config", text(&config)])).wait_with_timeout(MAX_WAIT);
        second.expect_failure(1, &["another nisd uses the data folder", &number]);
    }
    run(args!["reindex", "--config", config, "--data", own]).expect_failure(1, &["another nisd uses the data folder"]);
    for command in ["check", "digest"] {
        run(args![command, "--data", own]).expect_success();
    }
    run(args!["backup", "--data", own, copy]).expect_success();
    run(args!["check", "--data", copy]).expect_success();
    let height = client.height();
    wait_for("further blocks", || (client.height() > height).then_some(()));
    node.stop();
    Node::start(["--config", text(&config)]).stop();
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn a_local_cookie_that_is_removed_under_a_running_node_is_written_again() {
    let node = Node::on_tiny(1, &[]);
    let (own, file) = (node.path("store"), node.path("store/local-cookie"));
    let secret = fs::read_to_string(&file).expect("a secret");
    let peers = || run(args!["peers", "--data", own]);
    peers().expect_success();
    for _ in 0..2 {
        fs::remove_file(&file).expect("a file");
        wait_for("another file", || file.exists().then_some(()));
    }
    assert_eq!(fs::read_to_string(&file).expect("a secret"), secret);
    peers().expect_success();
    // One that cannot be written is reported once, and written once that is possible.
    fs::remove_file(&file).expect("a file");
    fs::create_dir_all(file.join("full")).expect("a folder");
    const FAILED: &str = "the secret of local requests cannot be written";
    wait_for("the report", || node.process.log().contains(FAILED).then_some(()));
    std::thread::sleep(Duration::from_secs(3));
    fs::remove_dir_all(&file).expect("a folder");
    wait_for("another file", || file.is_file().then_some(()));
    assert_eq!(node.process.log().matches(FAILED).count(), 1);
    node.stop();
    assert!(!file.exists());
}

#[test]
fn commands_tell_a_running_node_without_a_local_cookie_from_none() {
    let folder = DataFolder::full(&ChainFiles::of("tiny"));
    let path = folder.path();
    let [peers, status] = [&["peers"][..], &["status", "--once"]].map(|command| {
        move |path: &Path| {
            let own = ["--data", text(path)];
            run(command.iter().chain(&own).map(|part| part.to_string()))
        }
    });
    const MISSING: &[&str] = &["in use by another nisd, but has no file local-cookie", "--node URL", "restart it"];
    peers(&path).expect_failure(1, &["no node runs on"]);
    assert_eq!(status(&path).expect_success().stderr, "");
    let store = folder.open(AccessMode::Exclusive);
    for remains_locked in [true, false] {
        peers(&path).expect_failure(1, MISSING);
        let shown = status(&path).expect_success();
        assert!(shown.text().starts_with("The store of") && MISSING.iter().all(|said| shown.stderr.contains(said)));
        if remains_locked {
            // The data file is locked as well.
            fs::remove_file(path.join("nisd.lock")).expect("a lock file");
        }
    }
    drop(store);
    peers(&path).expect_failure(1, &["no node runs on"]);
}
