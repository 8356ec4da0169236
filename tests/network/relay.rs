//! Nodes as processes that form one network: they find each other, share one chain, and relay what one of them
//! receives.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::common::daemon::{Process, nisd};
use crate::common::http::Client;
use crate::common::members::{announcement, loopback, wait_for};
use crate::common::private_network::{Genesis, TOTAL, address, key_pair, now, private_key, transfer};
use nisd::model::Amount;
use serde_json::Value;
use tempfile::TempDir;

/// Key numbers of the harvester and of a sender; an account never harvests its own transactions.
const HARVESTER: u64 = 1;
const SENDER: u64 = 5;

/// A node of the network in its own folder.
struct Member {
    folder: TempDir,
    config: PathBuf,
    http: SocketAddr,
    peers: Vec<SocketAddr>,
    process: Process,
}

impl Member {
    /// Starts a node with the endpoints of its peers; number 1 harvests.
    fn start(genesis: &Genesis, number: u64, peers: &[SocketAddr]) -> Member {
        let (folder, http) = (tempfile::tempdir().expect("a folder"), loopback(1));
        let key = private_key(number).printed();
        let harvests = (number == HARVESTER).to_string();
        let more = [("nem.httpPort", &*http.port().to_string()), ("nis.shouldAutoHarvestOnBoot", &*harvests)];
        let config = genesis.write_hasty(folder.path(), &key, &more);
        let process = Member::run(&config, folder.path(), peers);
        Member { folder, config, http, peers: peers.to_vec(), process }
    }

    fn run(config: &Path, folder: &Path, peers: &[SocketAddr]) -> Process {
        let mut command = nisd(["run", "--bind", "127.0.0.1", "--websocket-port", "0"]);
        command.arg("--config").arg(config).arg("--data").arg(folder.join("store"));
        for peer in peers {
            command.args(["--peer", &peer.to_string()]);
        }
        Process::start(command)
    }

    fn restart(&mut self) {
        self.process.kill();
        self.process = Member::run(&self.config, self.folder.path(), &self.peers);
    }

    /// Retries until the node answers.
    fn client(&self) -> Client {
        wait_for("an answer", || std::net::TcpStream::connect(self.http).ok().map(Client::from_stream))
    }

    fn height(&self) -> u64 {
        self.client().height()
    }

    /// Waits for the block at a height.
    fn block(&self, height: u64) -> Value {
        wait_for("a block", || (self.height() >= height).then(|| self.client().block(height).json()))
    }

    /// Returns the number of active peers.
    fn active_peers(&self) -> usize {
        let nodes = self.client().get("/node/peer-list/all").json();
        nodes["active"].as_array().map_or(0, Vec::len)
    }
}

#[test]
fn nodes_find_each_other_share_one_chain_and_relay_transactions() {
    let shares = [(HARVESTER, TOTAL - 1_000), (SENDER, 1_000)];
    let funded = shares.map(|(number, share)| (address(&key_pair(number)), Amount::whole(share)));
    let genesis = Genesis::new(now(), &funded);
    let first = Member::start(&genesis, HARVESTER, &[]);
    first.client();
    let mut second = Member::start(&genesis, 2, &[first.http]);
    let third = Member::start(&genesis, 3, &[first.http]);
    let expected = first.block(8);
    for member in [&second, &third] {
        assert_eq!(member.block(8), expected);
    }
    // The first node knew no peers; the others have announced themselves.
    wait_for("two others", || (first.active_peers() == 2).then_some(()));

    let payment = transfer(&key_pair(SENDER), address(&key_pair(9)), Amount(1_000_000), Amount(500_000), now());
    let answer = third.client().post("/transaction/announce", &announcement(&payment)).json();
    assert_eq!(answer["message"], "SUCCESS", "{answer}");
    let path = format!("/transaction/get?hash={}", payment.hash());
    for member in [&first, &second, &third] {
        wait_for("the transaction", || (member.client().get(&path).status == 200).then_some(()));
    }

    second.restart();
    let height = first.height() + 3;
    assert_eq!(second.block(height), first.block(height));
    for member in [&first, &second, &third] {
        assert!(!member.process.log().contains("panicked"), "{}", member.process.log());
    }
}
