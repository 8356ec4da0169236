//! A node whose store is of an older schema: it rebuilds it while it answers with its progress, and may be stopped or
//! killed meanwhile.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::daemon::{Node, assert_contains, run, wait_for};
use crate::common::data_folder::{ChainFiles, DataFolder, text};
use crate::common::http::{self, Client};
use crate::common::recorded_chain::Chain;
use crate::common::simulated_node::{SimulatedNode, WallClock};
use nisd::commands::reindex::Rebuild;
use nisd::config::{self, Settings};
use nisd::metrics::Scrape;
use nisd::model::{Height, Timestamp};
use nisd::node::Import;
use nisd::store::{AccessMode, EARLIER_SCHEMAS, Read as _, Store, Table, Write as _, block_key, tip};
use nisd::{chain::ImportProgress, state};
use serde_json::json;

const LOADING: &str = "NIS_ILLEGAL_STATE_LOADING_CHAIN: the store is rebuilt, height ";

/// Returns a data folder with a chain up to a height, in a store of an older schema, and the digest of the chain.
fn older_store(chain: &ChainFiles, height: u64) -> (DataFolder, (u64, String)) {
    let place = DataFolder::with(chain, height);
    let digest = place.digest();
    make_older(&place);
    (place, digest)
}

/// Marks a store as one of an older schema.
fn make_older(place: &DataFolder) {
    place.change(|batch| batch.put_unjournaled(Table::Meta, b"schema", EARLIER_SCHEMAS[0].as_bytes()).expect("room"));
}

/// Checks that a node answers with its progress alone. Returns the height that it has reached.
#[track_caller]
fn assert_loading(mut get: impl FnMut(&str) -> http::Response, target: u64) -> u64 {
    assert_eq!(get("/status").json(), json!({"type": 4, "code": 8, "message": "status"}));
    let height = get("/chain/height").json()["height"].as_u64().expect("a height");
    assert!(height < target, "{height}");
    for path in ["/chain/last-block", "/heartbeat", "/node/info", "/events", "/namespace/root/page"] {
        let response = get(path);
        assert_eq!(response.status, 503, "{path}");
        let message = response.json()["message"].as_str().expect("a message").to_owned();
        assert!(message.starts_with(LOADING) && message.ends_with(&format!(" of {target}")), "{path}: {message}");
    }
    assert_eq!(get("/unknown").status, 404);
    height
}

#[test]
fn a_node_on_an_older_store_rebuilds_it_in_ticks_and_answers_with_its_progress() {
    const TARGET: u64 = 60;
    let (place, digest) = older_store(&ChainFiles::of("tiny"), TARGET);
    let chain = Chain::tiny();
    let loaded = config::load(Some(&chain.folder.join("network.properties")), Vec::new(), Some(place.0.path()));
    let settings = Settings { data: place.path(), ..loaded.expect("settings") };
    let begin = || Rebuild::begin_if_outdated(&settings.data, Some(&settings.network), &settings).expect("a store");
    let rebuild = begin().expect("it is outdated");
    // A clock that is behind does not matter to blocks that were verified before.
    let clock = WallClock { started: 0, drift: 0 };
    let ticks = rebuild.with_importer(&settings, |mut importer, store| {
        while importer.height() < Height::NEMESIS {
            assert!(importer.step(Timestamp(0)).expect("the nemesis block") != ImportProgress::Done);
        }
        importer.commit()?;
        let node = SimulatedNode::importing(
            store,
            &settings,
            clock,
            [1; 32],
            Some(Vec::new()),
            Vec::new(),
            Some(Import::new(importer)),
        );
        let mut node = node?;
        let mut ticks = 0;
        while !node.is_rebuilt() {
            assert_loading(|path| node.get(path), TARGET);
            node.tick(Duration::ZERO);
            ticks += 1;
        }
        // It has not joined its network.
        assert!(node.recorder.outgoing_requests.as_ref().is_some_and(|requests| requests.is_empty()));
        Ok(ticks)
    });
    assert!(ticks.expect("no error") > Some(10), "it is done in steps");
    let (store, _) = rebuild.install().expect("a complete store");
    assert_eq!(state::digest(&store.snapshot().expect("a snapshot")).expect("a digest").to_string(), digest.1);
    drop(store);
    assert!(begin().is_none());
}

/// A node that rebuilds its store and cannot finish, since the process that waits for the disk is stopped.
struct StuckNode {
    node: Node,
    helper: u32,
}

impl StuckNode {
    fn start(chain: &ChainFiles, place: &DataFolder) -> StuckNode {
        let mut command = Node::command(["--config", text(&chain.config), "--data", text(&place.path())]);
        // So that its children can be inspected.
        command.env("NISD_CORE_DUMPS", "1");
        let node = Node::from_command(command);
        let start = Instant::now();
        let helper = loop {
            if let Some(helper) = disk_helper(node.process.id()) {
                break helper;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "no process waits for the disk");
            sleep(Duration::from_millis(1));
        };
        signal(helper, "STOP");
        StuckNode { node, helper }
    }

    /// Lets it go on.
    fn resume(&self) {
        signal(self.helper, "CONT");
    }
}

impl Drop for StuckNode {
    fn drop(&mut self) {
        // It ends with the node once it goes on.
        self.node.process.kill();
        signal(self.helper, "CONT");
    }
}

/// Returns the process that waits for the disk for a node.
fn disk_helper(node: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{node}/task/{node}/children")).ok()?;
    let is_helper = |child: &u32| {
        fs::read_to_string(format!("/proc/{child}/cmdline")).is_ok_and(|line| line.contains("helper-disk-sync"))
    };
    children.split_whitespace().filter_map(|child| child.parse().ok()).find(is_helper)
}

/// Sends a signal; the process may be gone.
fn signal(process: u32, name: &str) {
    let mut kill = Command::new("kill");
    let _ = kill.args(["-s", name, &process.to_string()]).output().expect("a program");
}

/// Returns a metric of a node.
fn metric(node: SocketAddr, name: &str) -> Option<f64> {
    Scrape::parse(Client::connect(node).get("/metrics").text()).expect("metrics").value(name)
}

/// Waits until a node serves its chain.
#[track_caller]
fn until_ready(node: SocketAddr, height: u64) {
    wait_for("the end of the rebuild", || {
        let mut client = Client::connect(node);
        let status = client.get("/status").json()["code"].as_u64().expect("a code");
        (status != 8).then(|| assert_eq!(client.get("/chain/last-block").json()["height"], height))
    });
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn the_ports_are_open_while_a_store_is_rebuilt_and_answer_with_its_progress() {
    const TARGET: u64 = 2_500;
    let chain = ChainFiles::of("all-forks");
    let (place, digest) = older_store(&chain, TARGET);
    let stuck = StuckNode::start(&chain, &place);
    let (address, websocket) = (stuck.node.http, stuck.node.websocket);
    let mut client = Client::connect(address);
    assert_loading(|path| client.get(path), TARGET);
    assert_eq!(metric(address, "nisd_rebuild_target_height"), Some(2_500.0));
    assert_eq!(metric(address, "nisd_status"), Some(8.0));
    for path in ["/w/messages/info", "/w/messages/websocket"] {
        let upgrade = format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: AQIDBAUGBwgJCgsMDQ4PEA==\r\n\r\n"
        );
        assert_eq!(Client::connect(websocket).request(upgrade).status, 503, "{path}");
    }
    let shown = run(["status", "--node", &format!("http://{address}")]).expect_success().text();
    assert_contains(&shown, &[" of 2,500, last block ", ", rebuilding the store"]);
    stuck.resume();
    until_ready(address, TARGET);
    // The connection of before is served on.
    assert_eq!(client.get("/chain/height").json()["height"], TARGET);
    assert_eq!(metric(address, "nisd_rebuild_target_height"), None);
    drop(stuck);
    assert_eq!(place.digest(), digest);
    assert!(!place.path().join("reindex").exists());
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn a_rebuild_that_is_stopped_or_killed_in_the_middle_goes_on_at_the_next_start() {
    const TARGET: u64 = 2_500;
    let chain = ChainFiles::of("all-forks");
    let (place, digest) = older_store(&chain, TARGET);
    let before = place.data_file();
    drop(StuckNode::start(&chain, &place));
    assert!(place.data_file() == before, "a killed node has left the old store as it was");
    let mut stuck = StuckNode::start(&chain, &place);
    let reached = Client::connect(stuck.node.http).height();
    stuck.node.process.signal("TERM");
    let status = wait_for("the end of the node", || stuck.node.process.exit());
    assert_eq!(status.code(), Some(0));
    assert_contains(
        &stuck.node.process.log(),
        &["the rebuild of the store is incomplete; the next start continues it"],
    );
    drop(stuck);
    assert!(place.data_file() == before, "so has a stopped one");
    let begun = Store::open_existing(&place.path().join("reindex"), AccessMode::Shared, Default::default());
    let tip = tip(&begun.expect("a store").0.snapshot().expect("a snapshot")).expect("a tip");
    let reached = tip.map_or(0, |tip| tip.height.0).max(reached);
    let node = chain.node(&place.path(), &[]);
    until_ready(node.http, TARGET);
    assert_contains(&node.process.log(), &[&format!("from height {reached} on")]);
    drop(node);
    assert_eq!(place.digest(), digest);
}

#[test]
fn a_node_ends_with_the_height_of_a_block_that_it_cannot_rebuild_from() {
    let chain = ChainFiles::of("tiny");
    let place = DataFolder::full(&chain);
    place.change(|batch| {
        let (key, mut value) = {
            let mut blocks = batch.cursor(Table::Blocks).expect("a table");
            let (key, value) = blocks.seek(&block_key(Height(30))).expect("a row").expect("a row");
            (key.to_vec(), value.to_vec())
        };
        // Rows of blocks have checksums of their own.
        let middle = value.len() / 2;
        value[middle] ^= 1;
        batch.put_unjournaled(Table::Blocks, &key, &value).expect("room");
    });
    make_older(&place);
    let before = place.data_file();
    let output = run(["run", "--bind", "127.0.0.1", "--http-port", "0", "--websocket-port", "0", "--config"]
        .into_iter()
        .chain([text(&chain.config), "--data", text(&place.path())]));
    output.expect_failure(1, &["at height ", "restore the folder from a backup"]);
    assert!(place.data_file() == before);
}
