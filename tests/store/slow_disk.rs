//! A slow disk and the helper process that waits for it: nothing else waits, and nothing is reported before it is on
//! the disk.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::daemon::{Node, wait_for, wait_with_timeout};
use crate::common::data_folder::{ChainFiles, DataFolder, hasty_network, text};
use crate::common::http::{Client, Response, get};
use crate::common::print_notice;
use crate::common::slow_disk::{Faults, SlowDisk};

const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Log text about a helper that has ended.
const LOST: &str = "the node waits itself until it has another one";

/// A network of one node that finds a block every second.
struct Network {
    folder: DataFolder,
    config: PathBuf,
}

impl Network {
    fn new() -> Network {
        let folder = DataFolder::new();
        Network { config: hasty_network(folder.0.path(), 0, &[]), folder }
    }

    fn command(&self) -> Command {
        let mut command = Node::command(["--config", text(&self.config)]);
        // So that the open files of the helper can be inspected.
        command.env("NISD_CORE_DUMPS", "1");
        command
    }

    fn start(&self, disk: &SlowDisk) -> Node {
        let mut command = self.command();
        disk.for_program(&mut command);
        Node::from_command(command)
    }

    /// Starts a node and waits until it has made some blocks.
    fn start_at(&self, disk: &SlowDisk, height: u64) -> (Node, Client) {
        let node = self.start(disk);
        let mut client = Client::connect(node.http);
        until_height(&mut client, height);
        (node, client)
    }

    /// Checks that a node continues the chain.
    fn assert_continues(&self, disk: &SlowDisk, least: u64) {
        let (_node, mut client) = self.start_at(disk, 1);
        let height = client.height();
        assert!(height >= least, "{height} of {least}");
        until_height(&mut client, height + 1);
    }

    fn check(&self) {
        self.folder.run("check", &[]).expect_success();
    }
}

/// Returns the helper of a node.
fn helper(node: &Node) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", node.process.id())).unwrap_or_default();
    children.split_whitespace().next().and_then(|number| number.parse().ok())
}

fn is_running(process: u32) -> bool {
    // A zombie counts as gone.
    fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn kill(process: u32) {
    assert!(Command::new("kill").args(["-s", "KILL", &process.to_string()]).status().expect("a program").success());
}

fn until_height(client: &mut Client, height: u64) {
    wait_for("the chain grows", || (client.height() >= height).then_some(()));
}

/// Returns the durations of requests until there are this many more blocks, the longest last.
fn response_times(client: &mut Client, blocks: u64) -> Vec<Duration> {
    let (first, mut times) = (client.height(), Vec::new());
    let begun = Instant::now();
    loop {
        let asked = Instant::now();
        let height = client.height();
        times.push(asked.elapsed());
        if height >= first + blocks {
            times.sort();
            return times;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "the chain does not grow");
        sleep(POLL_INTERVAL);
    }
}

#[test]
#[ignore = "slow: a disk that fails or loses its power"]
fn requests_do_not_wait_for_the_disk_and_no_block_is_published_before_it_is_durable() {
    let Some(disk) = SlowDisk::new() else { return };
    let network = Network::new();
    let (_node, mut client) = network.start_at(&disk, 2);
    // Two syncs precede the report of a block: the data, and the durable meta record.
    let delay = Duration::from_millis(1500);
    disk.set_millis(delay.as_millis() as u32);
    let times = response_times(&mut client, 2);
    let longest = times.last().expect("answers");
    print_notice(&format!(
        "{} answers while two blocks waited {delay:?} twice each: the longest took {longest:?}",
        times.len()
    ));
    assert!(*longest < delay / 2, "an answer took {longest:?}");
    assert!(times.len() > 100, "{} answers", times.len());

    disk.set_millis(20_000);
    // A block whose last sync was in progress may still arrive.
    sleep(delay + Duration::from_millis(100));
    let (height, begun) = (client.height(), Instant::now());
    while begun.elapsed() < Duration::from_secs(3) {
        assert_eq!(client.height(), height, "a block is published that is not on the disk");
        let status = client.get(&format!("/block/get?hash={}", "00".repeat(32))).status;
        assert!(status < 500, "{status}");
        sleep(POLL_INTERVAL);
    }
    assert!(client.block(height + 1).status != 200);
}

#[test]
#[ignore = "slow: a disk that fails or loses its power"]
fn a_killed_sync_helper_loses_nothing_and_the_node_syncs_itself() {
    let Some(disk) = SlowDisk::new() else { return };
    let network = Network::new();
    let (node, mut client) = network.start_at(&disk, 2);
    disk.set_millis(3000);
    // By then it is working on a block.
    sleep(Duration::from_millis(1500));
    let killed = helper(&node).expect("a helper");
    kill(killed);
    disk.set_millis(0);
    wait_for("the log line", || node.process.log().contains(LOST).then_some(()));
    let height = client.height();
    until_height(&mut client, height + 2);
    assert!(helper(&node).is_none_or(|other| other != killed));
    drop(node);
    network.check();
}

#[test]
#[ignore = "slow: a disk that fails or loses its power"]
fn after_a_sync_failure_in_the_helper_the_node_ends_and_a_restart_continues_behind_every_shown_block() {
    let Some(disk) = SlowDisk::new() else { return };
    let network = Network::new();
    let (node, mut client) = network.start_at(&disk, 2);
    let height = client.height();
    disk.fail();
    let ended = node.process.wait_with_timeout(Duration::from_secs(60));
    ended.expect_failure(1, &["the disk rejected data", "start nisd again"]);
    disk.set_millis(0);
    network.assert_continues(&disk, height);
}

#[test]
#[ignore = "slow: a disk that fails or loses its power"]
fn a_disk_that_does_not_answer_is_reported_once_and_the_chain_goes_on_when_it_does() {
    const LATE: &str = "the disk has not confirmed a write for 30 s";
    let Some(disk) = SlowDisk::new() else { return };
    let network = Network::new();
    let (node, _) = network.start_at(&disk, 2);
    let helper = helper(&node).expect("a helper");
    let signal = |name: &str| Command::new("kill").args(["-s", name, &helper.to_string()]).status().expect("a program");
    assert!(signal("STOP").success());
    wait_with_timeout("the warning", Duration::from_secs(90), || node.process.log().contains(LATE).then_some(()));
    // The other connection was idle for too long.
    let mut client = Client::connect(node.http);
    let height = client.height();
    let metrics = client.get("/metrics").text().to_owned();
    let line = metrics.lines().find_map(|line| line.strip_prefix("nisd_disk_sync_waiting_seconds "));
    let seconds: f64 = line.expect("the metric").parse().expect("a number");
    assert!((30.0..100.0).contains(&seconds), "{seconds}");
    assert!(signal("CONT").success());
    until_height(&mut client, height + 2);
    let log = node.process.log();
    assert_eq!(
        (log.matches(LATE).count(), log.matches("the disk has confirmed a write after").count()),
        (1, 1),
        "{log}"
    );
}

/// Returns the answer to a request; `None` if the node has ended.
fn ask(client: &mut Client, target: &str) -> Option<Response> {
    client.try_send(get(target)).ok()?;
    client.try_answer().ok()
}

#[test]
#[ignore = "slow: a disk that fails or loses its power"]
fn on_a_disk_that_fails_at_random_the_node_goes_on_or_ends_with_an_error_and_no_shown_block_is_lost() {
    const ROUNDS: u64 = 6;
    let Some(disk) = SlowDisk::new() else { return };
    let network = Network::new();
    // The signatures of the shown blocks by height.
    let (mut shown, mut ends) = (BTreeMap::new(), 0);
    for round in 0..ROUNDS {
        let mut node = network.start(&disk);
        let mut client = Client::connect(node.http);
        for (height, signature) in &shown {
            assert_eq!(&client.block(*height).json()["signature"], signature, "block {height} of round {round}");
        }
        let height = client.height();
        until_height(&mut client, height + 1);
        disk.set_faults(Faults { seed: round + 1, permille: if round % 2 == 0 { 300 } else { 60 }, ..Faults::NONE });
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(6)
            && let Some(last) = ask(&mut client, "/chain/last-block")
        {
            if last.status == 200 {
                let last = last.json();
                shown.insert(last["height"].as_u64().expect("a height"), last["signature"].clone());
            }
            for target in ["/status", "/metrics", "/heartbeat"] {
                let status = ask(&mut client, target).map_or(200, |answer| answer.status);
                assert_eq!(status, 200, "{target}: {}", node.process.log());
            }
            // Slower than the rate limit.
            sleep(Duration::from_millis(200));
        }
        if begun.elapsed() >= Duration::from_secs(6) {
            node.process.kill();
        } else {
            ends += 1;
            let ended = node.process.wait_with_timeout(Duration::from_secs(30)).expect_failure(1, &["start"]);
            print_notice(ended.stderr.lines().last().unwrap_or_default());
        }
        disk.set_faults(Faults::NONE);
    }
    print_notice(&format!("{} blocks were shown, and the node ended {ends} times by itself", shown.len()));
    assert!(ends > 0 && shown.len() > 2);
    network.assert_continues(&disk, *shown.keys().last().expect("a block"));
}

#[test]
#[ignore = "slow: a disk that fails or loses its power"]
fn the_sync_helper_ends_with_the_node_and_holds_no_lock() {
    let Some(disk) = SlowDisk::new() else { return };
    let network = Network::new();
    for is_killed in [true, false] {
        let mut node = network.start(&disk);
        let mut client = Client::connect(node.http);
        let height = client.height();
        until_height(&mut client, height + 1);
        let helper = helper(&node).expect("a helper");
        // Signals to all processes of a terminal or a service reach it too.
        assert!(Command::new("kill").args(["-s", "INT", &helper.to_string()]).status().expect("a program").success());
        until_height(&mut client, height + 2);
        assert!(is_running(helper), "{}", node.process.log());
        // It has open the data file, the meta record and the socket, but neither LMDB's lock file nor the store's lock.
        let open = fs::read_dir(format!("/proc/{helper}/fd")).expect("its files");
        let open: Vec<_> = open.flatten().filter_map(|one| fs::read_link(one.path()).ok()).collect();
        let is_of_lock = |path: &PathBuf| path.ends_with("lock.mdb") || path.ends_with("nisd.lock");
        assert!(!open.iter().any(is_of_lock), "{open:?}");
        if is_killed {
            node.process.kill()
        } else {
            node.process.signal("TERM");
            node.process.wait_with_timeout(Duration::from_secs(30)).expect_success();
        }
        wait_for("the helper ends", || (!is_running(helper)).then_some(()));
    }
    network.check();
}

#[test]
#[ignore = "slow: a disk that fails or loses its power"]
fn a_shutdown_during_a_sync_ends_in_time_and_keeps_published_blocks() {
    let Some(disk) = SlowDisk::new() else { return };
    let network = Network::new();
    let (node, mut client) = network.start_at(&disk, 2);
    let delay = Duration::from_secs(3);
    disk.set_millis(delay.as_millis() as u32);
    // By then it is working on a block and has not reported it.
    sleep(Duration::from_millis(1500));
    let (reported, helper) = (client.height(), helper(&node).expect("a helper"));
    let begun = Instant::now();
    node.process.signal("TERM");
    node.process.wait_with_timeout(Duration::from_secs(60)).expect_success();
    print_notice(&format!("the node has ended after {:?} where the disk takes {delay:?}", begun.elapsed()));
    // Only pending work is waited for: the data of a block and the meta record.
    assert!(begun.elapsed() < 5 * delay, "{:?}", begun.elapsed());
    wait_for("the helper ends", || (!is_running(helper)).then_some(()));
    disk.set_millis(0);
    network.check();
    network.assert_continues(&disk, reported);
}

#[test]
#[ignore = "slow: a disk that fails or loses its power"]
fn a_node_without_a_sync_helper_syncs_itself_and_logs_it_once() {
    let network = Network::new();
    let node = network.command();
    // Without /proc a process cannot start itself.
    let mut inside = Command::new("unshare");
    inside.args(["-rm", "sh", "-c", "mount -t tmpfs nothing /proc || exit 99; exec \"$@\"", "sh"]);
    inside.arg(node.get_program()).args(node.get_args());
    let may = Command::new("unshare").args(["-rm", "mount", "-t", "tmpfs", "nothing", "/proc"]).status();
    if !may.is_ok_and(|status| status.success()) {
        return print_notice("SKIPPED: no folder can be hidden here");
    }
    inside.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let node = Node::from_command(inside);
    let mut client = Client::connect(node.http);
    until_height(&mut client, 3);
    assert_eq!(node.process.log().matches("no helper process can wait for the disk").count(), 1);
}

#[test]
#[ignore = "slow: a disk that fails or loses its power"]
fn an_import_shows_no_block_before_it_is_durable() {
    let Some(disk) = SlowDisk::new() else { return };
    let tiny = ChainFiles::of("tiny");
    let folder = DataFolder::with(&tiny, 20);
    let data = folder.path();
    let arguments = ["--config", text(&tiny.config), "--data", text(&data)];
    let mut command = Node::command(arguments);
    command.args(["--import", text(&tiny.blocks)]);
    disk.for_program(&mut command);
    disk.set_millis(400);
    let mut node = Node::from_command(command);
    let mut client = Client::connect(node.http);
    assert_eq!(client.height(), 20, "the commit waits for the disk");
    let shown = wait_for("an imported block", || Some(client.height()).filter(|height| *height > 20));
    node.process.kill();
    let node = Node::from_command(Node::command(arguments));
    assert!(Client::connect(node.http).height() >= shown);
}
