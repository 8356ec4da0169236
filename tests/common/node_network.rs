//! Nodes of one private network as processes.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nisd::codec::SigningForm;
use nisd::model::{Amount, Transaction};
use serde_json::{Value, json};

use super::daemon::{Node, nisd, wait_for};
use super::data_folder::DataFolder;
use super::http::{Client, Response};
use super::private_network::{Genesis, TOTAL, address, key_pair, now, private_key};

/// Maximum time for a node to stop.
const MAX_WAIT: Duration = Duration::from_secs(90);
/// Status of a response to a client that exceeds its rate limit.
const TOO_MANY_REQUESTS: u16 = 429;

/// A node with its own folder.
pub struct Member {
    pub http: SocketAddr,
    pub folder: DataFolder,
    config: PathBuf,
    node: Option<Node>,
    is_paused: bool,
}

/// Lays out nodes that have the keys of these numbers and know each other, in a new network in which accounts have these
/// whole units. Together the nodes make this number of blocks in a minute at first.
pub fn network(nodes: &[u64], funded: &[(u64, u64)], blocks_per_minute: u64) -> Vec<Member> {
    let free_port = |number: &u64| {
        let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 0, *number as u8 + 1), 0));
        (*number, listener.and_then(|listener| listener.local_addr()).expect("a port"))
    };
    let addresses: Vec<_> = nodes.iter().map(free_port).collect();
    let funded = funded.iter().map(|(number, units)| (address(&key_pair(*number)), Amount::whole(*units)));
    let genesis = Genesis::new(now(), &funded.collect::<Vec<_>>());
    let member = |(number, http): &(u64, SocketAddr)| {
        let folder = DataFolder::new();
        let settings = [
            ("nem.network.totalAmount", &*(TOTAL * blocks_per_minute).to_string()),
            ("nis.blockChainFeatures", "PROOF_OF_STAKE|WB_IMMEDIATE_VESTING"),
            ("nis.blockGenerationTargetTime", "10"),
            ("nis.bootKey", &private_key(*number).printed()),
            ("nis.bootName", &name(*number)),
            ("nis.ipDetectionMode", "Disabled"),
            ("nem.host", &http.ip().to_string()),
            ("nem.httpPort", &http.port().to_string()),
        ];
        let config = genesis.write(folder.0.path(), &settings);
        write_peers(folder.0.path(), addresses.iter().copied());
        Member { http: *http, folder, config, node: None, is_paused: false }
    };
    addresses.iter().map(member).collect()
}

impl Member {
    /// Starts the node and waits until it listens.
    pub fn start(&mut self) {
        let mut command = nisd(["run", "--websocket-port", "0", "--bind", &self.http.ip().to_string()]);
        command.arg("--config").arg(&self.config).arg("--data").arg(self.folder.path());
        self.node = Some(Node::from_command(command));
    }

    /// Kills the node without warning.
    pub fn kill(&mut self) {
        self.node.take().expect("a running node").process.kill();
    }

    /// Stops the node as an operator does.
    pub fn stop(&mut self) {
        let process = self.node.take().expect("a running node").process;
        process.signal("TERM");
        let ended = process.wait_with_timeout(MAX_WAIT).expect_success();
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    }

    /// Lets the process stand still.
    pub fn pause(&mut self) {
        self.node.as_ref().expect("a running node").process.signal("STOP");
        self.is_paused = true;
    }

    /// Lets the process go on.
    pub fn resume(&mut self) {
        self.node.as_ref().expect("a running node").process.signal("CONT");
        self.is_paused = false;
    }

    /// Ends the harvesting of the account whose key has this number.
    pub fn end_harvesting(&self, key: u64) {
        let body = json!({ "value": private_key(key).printed().as_str() }).to_string();
        let answer = self.request(|client| client.post("/account/lock", &body));
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    /// Returns whether the process runs and does not stand still.
    pub fn is_serving(&self) -> bool {
        self.node.is_some() && !self.is_paused
    }

    /// Sends a request; repeats it while the node answers that the rate limit is exceeded.
    #[track_caller]
    pub fn request(&self, ask: impl Fn(&mut Client) -> Response) -> Response {
        let answer = || Some(ask(&mut Client::connect(self.http))).filter(|answer| answer.status != TOO_MANY_REQUESTS);
        wait_for("an answer", answer)
    }

    /// Returns the height of the chain.
    pub fn height(&self) -> u64 {
        self.request(|client| client.get("/chain/height")).json()["height"].as_u64().expect("a height")
    }

    /// Waits for the block at a height.
    #[track_caller]
    pub fn block(&self, height: u64) -> Value {
        let block = || Some(self.request(|client| client.block(height))).filter(|answer| answer.status == 200);
        wait_for("a block", block).json()
    }

    /// Announces a transaction, which the node must accept.
    #[track_caller]
    pub fn announce(&self, transaction: &Transaction) {
        let body = announcement(transaction);
        let answer = self.request(|client| client.post("/transaction/announce", &body)).json();
        assert_eq!(answer["message"], "SUCCESS", "{answer}");
    }

    /// Waits until a transaction is in the chain.
    #[track_caller]
    pub fn confirm(&self, transaction: &Transaction) {
        let path = format!("/transaction/get?hash={}", transaction.hash());
        wait_for("the payment", || (self.request(|client| client.get(&path)).status == 200).then_some(()));
    }
}

/// Returns the JSON announcement of a transaction.
pub fn announcement(transaction: &Transaction) -> String {
    let signature = transaction.signature.expect("a signature").to_string();
    json!({"data": hex::encode(transaction.to_bytes(SigningForm::NonVerifiable)), "signature": signature}).to_string()
}

/// Writes a list of peers, given by their key numbers and addresses, beside a configuration.
pub fn write_peers(folder: &Path, peers: impl IntoIterator<Item = (u64, SocketAddr)>) {
    let peer = |(number, address): (u64, SocketAddr)| {
        json!({
            "endpoint": {"protocol": "http", "host": address.ip().to_string(), "port": address.port()},
            "identity": {"name": name(number), "public-key": key_pair(number).public().to_string()},
        })
    };
    let list = json!({"knownPeers": peers.into_iter().map(peer).collect::<Vec<_>>()});
    std::fs::write(folder.join("peers-config_synthetic.json"), list.to_string()).expect("room");
}

/// Returns the name of the node with a key number.
pub fn name(number: u64) -> String {
    format!("node {number}")
}

/// Returns, in order, one text field, given by its JSON pointer, of every node that the node at `at` lists as active.
pub fn active_peers(at: SocketAddr, what: &str) -> Vec<String> {
    let nodes = Client::connect(at).get("/node/peer-list/all").json();
    let active = nodes["active"].as_array().into_iter().flatten();
    let mut texts: Vec<_> = active.filter_map(|node| Some(node.pointer(what)?.as_str()?.to_owned())).collect();
    texts.sort();
    texts
}
