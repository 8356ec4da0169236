//! Initial block download: a new node fetches blocks from several peers that have a long chain, ahead of processing
//! them.

use std::net::SocketAddr;

use crate::common::daemon::{Node, wait_for};
use crate::common::data_folder::{ChainFiles, DataFolder, digest};
use crate::common::http::Client;

/// The tip, and the tip of some peers that have fewer blocks.
const TIP: u64 = 4010;
const SHORT_TIP: u64 = 2_000;
/// A chain is downloaded from several peers if it is ahead by more than this many blocks; the first so many blocks come
/// from one peer.
const FAR_AHEAD: u64 = 1_600;
const FIRST_BLOCKS: u64 = 400;
/// A clock shortly after the last block.
const CLOCK: &str = "241500+";

/// The chain `all-forks`, and data folders with all or the first part of it.
struct Chain {
    files: ChainFiles,
    folder: DataFolder,
}

impl Chain {
    fn open() -> Chain {
        Chain { files: ChainFiles::of("all-forks"), folder: DataFolder::new() }
    }

    /// Fills a store up to a height.
    fn import(&self, name: &str, last: u64) {
        self.files.import_to(&self.folder.beside(name), last);
    }

    /// Starts a node on a store.
    fn run(&self, name: &str, peers: &[SocketAddr], more: &[&str]) -> Node {
        let mut arguments = vec!["--clock", CLOCK, "--set", "nis.ipDetectionMode=Disabled"];
        arguments.extend(["--set", "nem.host=127.0.0.1"]);
        let peers: Vec<String> = peers.iter().map(SocketAddr::to_string).collect();
        peers.iter().for_each(|peer| arguments.extend(["--peer", peer]));
        self.files.node(&self.folder.beside(name), &[&arguments, more].concat())
    }

    fn digest(&self, name: &str) -> (u64, String) {
        digest(&self.folder.beside(name))
    }
}

fn height(node: &Node) -> u64 {
    Client::connect(node.http).height()
}

fn wait_for_height(node: &Node, least: u64) {
    wait_for("the height", || (height(node) >= least).then_some(()));
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn a_new_node_downloads_the_chain_despite_kills_and_a_shorter_peer() {
    let chain = Chain::open();
    chain.import("first", TIP);
    let [first, second] = ["first", "second"].map(|name| chain.folder.beside(name));
    std::fs::create_dir(&second).expect("a folder");
    std::fs::copy(first.join("data.mdb"), second.join("data.mdb")).expect("a copy");
    chain.import("short", SHORT_TIP);
    let others = ["short", "first", "second"].map(|name| chain.run(name, &[], &[]));
    let peers = [0, 1, 2].map(|place| others[place].http);
    let mut tip = 1;
    let mut interrupted = 0;
    for least in [200, 1_500, SHORT_TIP + 500] {
        let mut node = chain.run("new", &peers, &[]);
        wait_for_height(&node, least);
        // The first blocks come from one peer, before the download from several. A chain that is not far ahead of them
        // is not downloaded, and how far a node gets before it is killed depends on the machine.
        if tip + FIRST_BLOCKS + FAR_AHEAD < TIP {
            wait_for("a download", || node.process.log().contains("downloading blocks up to height").then_some(()));
            interrupted += 1;
        }
        node.process.kill();
        tip = chain.digest("new").0;
    }
    assert!(interrupted > 0);
    let mut node = chain.run("new", &peers, &[]);
    wait_for_height(&node, TIP);
    node.process.kill();
    others.into_iter().for_each(|mut other| other.process.kill());
    assert_eq!(chain.digest("new"), chain.digest("first"));
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn downloaded_blocks_are_imported_only_if_they_lead_to_the_checkpoint() {
    let chain = Chain::open();
    chain.import("first", TIP);
    let other = chain.run("first", &[], &[]);
    let block = Client::connect(other.http).block(3_000).json();
    let next = Client::connect(other.http).block(3_001).json();
    let (hash, wrong) = (&next["prevBlockHash"]["data"], &block["prevBlockHash"]["data"]);
    let checkpoint = |hash: &serde_json::Value| format!("3000:{}", hash.as_str().expect("a hash"));

    let misled = chain.run("misled", &[other.http], &["--trust-below", &checkpoint(wrong)]);
    let warning = "its block at the height of --trust-below has another hash";
    wait_for("the warning", || misled.process.log().contains(warning).then_some(()));
    assert_eq!(height(&misled), 1);
    drop(misled);

    let mut node = chain.run("new", &[other.http], &["--trust-below", &checkpoint(hash)]);
    wait_for_height(&node, TIP);
    assert!(node.process.log().contains("hashes are verified first"), "{}", node.process.log());
    node.process.kill();
    drop(other);
    assert_eq!(chain.digest("new"), chain.digest("first"));
}
