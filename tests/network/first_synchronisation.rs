//! Initial block download: a new node fetches blocks from several peers that have a long chain, ahead of processing
//! them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::daemon::{Node, run};
use crate::common::http::Client;
use crate::common::recorded;
use tempfile::TempDir;

/// Maximum wait.
const MAX_WAIT: Duration = Duration::from_secs(120);
/// The tip, and the tip of some peers that have fewer blocks.
const TIP: u64 = 4010;
const SHORT_TIP: u64 = 2_000;
/// A clock shortly after the last block.
const CLOCK: &str = "241500+";

/// The chain `all-forks`, and stores with all or the first part of it.
struct Chain {
    config: PathBuf,
    blocks: PathBuf,
    folder: TempDir,
}

impl Chain {
    /// Opens it.
    fn open() -> Chain {
        let config = recorded("chains/all-forks/config.json");
        let blocks = config.with_file_name("blocks.bin.gz");
        Chain { config, blocks, folder: tempfile::tempdir().expect("a folder") }
    }

    fn store(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Fills a store up to a height.
    fn import(&self, name: &str, last: u64) {
        let (last, store) = (last.to_string(), self.store(name));
        let [config, store, blocks] = [&self.config, &store, &self.blocks].map(|path| text(path));
        let options = ["import", "--config", config, "--data", store, "--stop-at", &last, blocks];
        run(options).expect_success();
    }

    /// Starts a node on a store.
    fn run(&self, name: &str, peers: &[SocketAddr], more: &[&str]) -> Node {
        let store = self.store(name);
        let mut arguments = vec!["--config", text(&self.config), "--data", text(&store), "--clock", CLOCK];
        arguments.extend(["--set", "nis.ipDetectionMode=Disabled", "--set", "nem.host=127.0.0.1"]);
        let peers: Vec<String> = peers.iter().map(SocketAddr::to_string).collect();
        peers.iter().for_each(|peer| arguments.extend(["--peer", peer]));
        arguments.extend(more);
        Node::start(arguments)
    }

    fn digest(&self, name: &str) -> String {
        run(["digest", "--config", text(&self.config), "--data", text(&self.store(name))]).expect_success().text()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path that is text")
}

fn height(node: &Node) -> u64 {
    Client::connect(node.http).height()
}

fn wait_for_height(node: &Node, least: u64) {
    let begun = Instant::now();
    while height(node) < least {
        assert!(begun.elapsed() < MAX_WAIT, "height {least} is not reached");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_new_node_downloads_the_chain_despite_kills_and_a_shorter_peer() {
    let chain = Chain::open();
    chain.import("first", TIP);
    std::fs::create_dir(chain.store("second")).expect("a folder");
    std::fs::copy(chain.store("first").join("data.mdb"), chain.store("second").join("data.mdb")).expect("a copy");
    chain.import("short", SHORT_TIP);
    let others = ["short", "first", "second"].map(|name| chain.run(name, &[], &[]));
    let peers = [0, 1, 2].map(|place| others[place].http);
    for least in [200, 1_500, SHORT_TIP + 500] {
        let mut node = chain.run("new", &peers, &[]);
        wait_for_height(&node, least);
        let catches_up = node.process.log().contains("downloading blocks up to height");
        assert!(catches_up || least > SHORT_TIP, "{}", node.process.log());
        node.process.kill();
    }
    let mut node = chain.run("new", &peers, &[]);
    wait_for_height(&node, TIP);
    node.process.kill();
    others.into_iter().for_each(|mut other| other.process.kill());
    assert_eq!(chain.digest("new"), chain.digest("first"));
}

#[test]
fn downloaded_blocks_are_imported_only_if_they_lead_to_the_checkpoint() {
    let chain = Chain::open();
    chain.import("first", TIP);
    let other = chain.run("first", &[], &[]);
    let block = Client::connect(other.http).block(3_000).json();
    let next = Client::connect(other.http).block(3_001).json();
    let (hash, wrong) = (&next["prevBlockHash"]["data"], &block["prevBlockHash"]["data"]);
    let vouch = |hash: &serde_json::Value| format!("3000:{}", hash.as_str().expect("a hash"));

    let liar = chain.run("liar", &[other.http], &["--trust-below", &vouch(wrong)]);
    let begun = Instant::now();
    while !liar.process.log().contains("its block at the height of --trust-below has another hash") {
        assert!(begun.elapsed() < MAX_WAIT, "{}", liar.process.log());
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(height(&liar), 1);
    drop(liar);

    let mut node = chain.run("new", &[other.http], &["--trust-below", &vouch(hash)]);
    wait_for_height(&node, TIP);
    assert!(node.process.log().contains("hashes are verified first"), "{}", node.process.log());
    node.process.kill();
    drop(other);
    assert_eq!(chain.digest("new"), chain.digest("first"));
}
