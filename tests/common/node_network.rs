//! Nodes of one private network as processes, all with the same list of peers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
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
/// Key numbers of the paying accounts start here; smaller numbers belong to the nodes.
const FIRST_PAYER: u64 = 100;
/// Balance of each paying account, in whole units.
const PAYER_BALANCE: u64 = 10_000;

/// Returns the JSON announcement of a transaction.
pub fn announcement(transaction: &Transaction) -> String {
    let signature = transaction.signature.expect("a signature").to_string();
    json!({"data": hex::encode(transaction.to_bytes(SigningForm::NonVerifiable)), "signature": signature}).to_string()
}

/// Returns the loopback address that ends in `number`, with a port that is free there.
pub fn loopback(number: u8) -> SocketAddr {
    let ip = IpAddr::V4(Ipv4Addr::new(127, 0, 0, number));
    TcpListener::bind((ip, 0)).and_then(|listener| listener.local_addr()).expect("a port")
}

/// A node of the network with its own folder and the key of its number.
pub struct Member {
    /// Its number, from 1.
    number: u64,
    http: SocketAddr,
    folder: DataFolder,
    config: PathBuf,
    node: Option<Node>,
}

/// Lays out nodes of which the first `harvesters` harvest in equal shares: together one block every `1 / haste` minutes
/// at first, later every ten seconds if they need not be faster. All know each other.
pub fn network(addresses: &[SocketAddr], harvesters: u64, haste: u64, payers: u64) -> Vec<Member> {
    let reserved = payers * PAYER_BALANCE;
    let share = (TOTAL - reserved) / harvesters;
    let rest = TOTAL - reserved - share * harvesters;
    let nodes = (1..=harvesters).map(|number| (number, if number == 1 { share + rest } else { share }));
    let payers = (0..payers).map(|number| (FIRST_PAYER + number, PAYER_BALANCE));
    let funded = nodes.chain(payers).map(|(number, owns)| (address(&key_pair(number)), Amount::whole(owns)));
    let genesis = Genesis::new(now(), &funded.collect::<Vec<_>>());
    let total = (TOTAL * haste).to_string();
    let members = (1..).zip(addresses).map(|(number, http)| Member::create(number, *http, &genesis, &total));
    let members: Vec<Member> = members.collect();
    members.iter().for_each(|member| member.set_peers(&members));
    members
}

/// Returns the key number of a paying account.
pub fn payer(number: u64) -> u64 {
    FIRST_PAYER + number
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

fn name(number: u64) -> String {
    format!("node {number}")
}

impl Member {
    fn create(number: u64, http: SocketAddr, genesis: &Genesis, total: &str) -> Member {
        let folder = DataFolder::new();
        let (host, port) = (http.ip().to_string(), http.port().to_string());
        let settings = [
            ("nem.network.totalAmount", total),
            ("nis.blockChainFeatures", "PROOF_OF_STAKE|WB_IMMEDIATE_VESTING"),
            ("nis.blockGenerationTargetTime", "10"),
            ("nis.bootKey", &private_key(number).printed()),
            ("nis.bootName", &name(number)),
            ("nis.ipDetectionMode", "Disabled"),
            ("nem.host", &host),
            ("nem.httpPort", &port),
        ];
        let config = genesis.write(folder.0.path(), &settings);
        Member { number, http, folder, config, node: None }
    }

    /// Starts the node and waits until it listens.
    pub fn start(&mut self) {
        let mut command = nisd(["run", "--websocket-port", "0", "--bind", &self.http.ip().to_string()]);
        command.arg("--config").arg(&self.config).arg("--data").arg(self.folder.path());
        self.node = Some(Node::from_command(command));
    }

    /// Sets the node's list of peers.
    pub fn set_peers<'m>(&self, peers: impl IntoIterator<Item = &'m Member>) {
        write_peers(self.folder.0.path(), peers.into_iter().map(|peer| (peer.number, peer.http)));
    }

    /// Kills the node without warning.
    pub fn kill(&mut self) {
        self.node().process.kill();
        self.node = None;
    }

    /// Stops the node.
    pub fn stop(&mut self) {
        let process = self.node.take().expect("a running node").process;
        process.signal("TERM");
        let ended = process.wait_with_timeout(MAX_WAIT).expect_success();
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    }

    fn node(&mut self) -> &mut Node {
        self.node.as_mut().expect("a running node")
    }

    /// Sends a request; repeats it while the node answers that the rate limit is exceeded.
    #[track_caller]
    fn request(&self, ask: impl Fn(&mut Client) -> Response) -> Response {
        let answer = || Some(ask(&mut Client::connect(self.http))).filter(|answer| answer.status != TOO_MANY_REQUESTS);
        wait_for("an answer", answer)
    }

    /// Requests the chain height.
    pub fn height(&self) -> u64 {
        self.request(|client| client.get("/chain/height")).json()["height"].as_u64().expect("a height")
    }

    /// Requests the block at a height; `None` if it does not exist.
    pub fn block_if_any(&self, height: u64) -> Option<Value> {
        let answer = self.request(|client| client.block(height));
        (answer.status == 200).then(|| answer.json())
    }

    /// Waits for the block at a height.
    #[track_caller]
    pub fn block(&self, height: u64) -> Value {
        wait_for("a block", || self.block_if_any(height))
    }

    /// Announces a transaction, which the node must accept.
    #[track_caller]
    pub fn announce(&self, transaction: &Transaction) {
        let body = announcement(transaction);
        let answer = self.request(|client| client.post("/transaction/announce", &body)).json();
        assert_eq!(answer["message"], "SUCCESS", "{answer}");
    }

    /// Returns the number of active peers.
    pub fn active_peers(&self) -> usize {
        let nodes = self.request(|client| client.get("/node/peer-list/all")).json();
        nodes["active"].as_array().map_or(0, Vec::len)
    }

    /// Returns whether a transaction is in the chain.
    pub fn has_confirmed(&self, transaction: &Transaction) -> bool {
        let path = format!("/transaction/get?hash={}", transaction.hash());
        self.request(|client| client.get(&path)).status == 200
    }
}

/// Returns, in order, one text field, given by its JSON pointer, of every node that the node at `at` lists as active.
pub fn active_peers(at: SocketAddr, what: &str) -> Vec<String> {
    let nodes = Client::connect(at).get("/node/peer-list/all").json();
    let active = nodes["active"].as_array().into_iter().flatten();
    let mut texts: Vec<_> = active.filter_map(|node| Some(node.pointer(what)?.as_str()?.to_owned())).collect();
    texts.sort();
    texts
}

/// Stops all nodes and checks that their common state is identical: rolls back blocks that only some have and compares
/// the state digests. Returns the height and the digest.
pub fn stop_and_compare(members: &mut [Member]) -> (u64, String) {
    members.iter_mut().for_each(Member::stop);
    let common = members.iter().map(|member| member.folder.digest().0).min().expect("a node");
    for member in members.iter().filter(|member| member.folder.digest().0 > common) {
        member.folder.run("rollback", &["--to", &common.to_string()]).expect_success();
    }
    let digests: Vec<_> = members.iter().map(|member| member.folder.digest()).collect();
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
    digests.into_iter().next().expect("a node")
}
