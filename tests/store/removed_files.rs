//! Files of a running node that somebody removes, replaces or moves.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::common::daemon::{Node, Process, args, run, wait_for};
use crate::common::data_folder::{hasty_network, text};
use crate::common::http::Client;

/// Maximum time until a node has ended.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// What the log says once the data file is gone.
const GONE: &str = "data.mdb cannot be used: it was removed, replaced or moved while it was in use";

#[test]
#[ignore = "slow: a program on a real disk"]
fn a_node_whose_data_file_is_removed_replaced_or_moved_ends_with_a_failure_that_names_it() {
    let remove_file = |store: &Path| fs::remove_file(store.join("data.mdb"));
    let remove_folder = |store: &Path| fs::remove_dir_all(store);
    let move_folder = |store: &Path| fs::rename(store, store.with_file_name("moved"));
    let replace = |store: &Path| {
        let (data, copy) = (store.join("data.mdb"), store.join("copy"));
        fs::copy(&data, &copy)?;
        fs::rename(copy, data)
    };
    let changes: [&dyn Fn(&Path) -> std::io::Result<()>; 4] = [&remove_file, &remove_folder, &move_folder, &replace];
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
