//! Nodes of one private network as processes, all with the same list of peers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nisd::codec::SigningForm;
use nisd::model::{Amount, Transaction};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::daemon::{Node, nisd, run};
use super::http::{Client, Response};
use super::private_network::{Genesis, TOTAL, address, key_pair, now, private_key};

/// Default maximum wait.
pub const MAX_WAIT: Duration = Duration::from_secs(90);
/// Interval between requests to a node while the test waits.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Status of a response to a client that exceeds its rate limit.
const TOO_MANY_REQUESTS: u16 = 429;
/// Key numbers of the paying accounts start here; smaller numbers belong to the nodes.
const FIRST_PAYER: u64 = 100;
/// Balance of each paying account, in whole units.
const PAYER_BALANCE: u64 = 10_000;

/// Polls `look` until it returns a value.
#[track_caller]
pub fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_with_timeout(what, MAX_WAIT, look)
}

/// Like [`wait_for`], with a given maximum wait.
#[track_caller]
pub fn wait_with_timeout<T>(what: &str, patience: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < patience, "{what} does not come");
        std::thread::sleep(POLL_INTERVAL);
    }
}

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

/// Where a node runs.
pub struct NodeLocation {
    /// Address at which other nodes reach it.
    pub http: SocketAddr,
    /// Address it listens on; `None` means only its own.
    pub bind: Option<&'static str>,
    /// Address at which the test reaches it.
    pub test_address: IpAddr,
    /// Command prefix that starts a program there.
    pub command_prefix: Vec<String>,
}

impl NodeLocation {
    /// Returns an address of this machine.
    pub fn on_loopback(number: u8) -> NodeLocation {
        let http = loopback(number);
        NodeLocation { http, bind: None, test_address: http.ip(), command_prefix: Vec::new() }
    }
}

/// A node of the network with its own folder and the key of its number, from 1; it harvests.
pub struct Member {
    place: NodeLocation,
    folder: TempDir,
    config: PathBuf,
    node: Option<Node>,
}

/// Lays out nodes that harvest in equal shares: together one block every `1 / haste` minutes at first, later every ten
/// seconds if they need not be faster.
pub fn network(places: Vec<NodeLocation>, haste: u64, payers: u64) -> Vec<Member> {
    let reserved = payers * PAYER_BALANCE;
    let share = (TOTAL - reserved) / places.len() as u64;
    let rest = TOTAL - reserved - share * places.len() as u64;
    let nodes = (1..=places.len() as u64).map(|number| (number, if number == 1 { share + rest } else { share }));
    let payers = (0..payers).map(|number| (FIRST_PAYER + number, PAYER_BALANCE));
    let funded = nodes.chain(payers).map(|(number, owns)| (address(&key_pair(number)), Amount::whole(owns)));
    let genesis = Genesis::new(now(), &funded.collect::<Vec<_>>());
    let peers = peers_file(&places);
    let total = (TOTAL * haste).to_string();
    let member = |(number, place)| Member::create(number, place, &genesis, &total, &peers);
    (1..).zip(places).map(member).collect()
}

/// Returns the key number of a paying account.
pub fn payer(number: u64) -> u64 {
    FIRST_PAYER + number
}

/// Returns the list of peers that all nodes have.
fn peers_file(places: &[NodeLocation]) -> String {
    let peer = |(number, place): (u64, &NodeLocation)| {
        let (host, port) = (place.http.ip().to_string(), place.http.port());
        json!({
            "endpoint": {"protocol": "http", "host": host, "port": port},
            "identity": {"name": name(number), "public-key": key_pair(number).public().to_string()},
        })
    };
    json!({"knownPeers": (1..).zip(places).map(peer).collect::<Vec<_>>()}).to_string()
}

fn name(number: u64) -> String {
    format!("node {number}")
}

impl Member {
    fn create(number: u64, place: NodeLocation, genesis: &Genesis, total: &str, peers: &str) -> Member {
        let folder = tempfile::tempdir().expect("a folder");
        let (host, port) = (place.http.ip().to_string(), place.http.port().to_string());
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
        let config = genesis.write(folder.path(), &settings);
        std::fs::write(folder.path().join("peers-config_synthetic.json"), peers).expect("room");
        Member { place, folder, config, node: None }
    }

    /// Starts the node and waits until it listens.
    pub fn start(&mut self) {
        let own = self.place.http.ip().to_string();
        let bind = self.place.bind.unwrap_or(&own);
        let mut command = nisd(["run", "--websocket-port", "0", "--bind", bind]);
        command.arg("--config").arg(&self.config).arg("--data").arg(self.store());
        self.node = Some(Node::from_command(wrap_command(&self.place.command_prefix, command)));
    }

    /// Removes the node's list of peers.
    pub fn remove_peer_list(&self) {
        let list = self.folder.path().join("peers-config_synthetic.json");
        std::fs::write(list, json!({"knownPeers": []}).to_string()).expect("room");
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

    fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// Returns the websocket address as the test reaches it.
    pub fn websocket(&self) -> SocketAddr {
        let node = self.node.as_ref().expect("a running node");
        SocketAddr::new(self.place.test_address, node.websocket.port())
    }

    /// Sends a request; repeats it while the node answers that the rate limit is exceeded.
    #[track_caller]
    fn request(&self, ask: impl Fn(&mut Client) -> Response) -> Response {
        let address = SocketAddr::new(self.place.test_address, self.place.http.port());
        let answer = || Some(ask(&mut Client::connect(address))).filter(|answer| answer.status != TOO_MANY_REQUESTS);
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

    /// Returns whether a transaction is in the chain.
    pub fn has_confirmed(&self, transaction: &Transaction) -> bool {
        let path = format!("/transaction/get?hash={}", transaction.hash());
        self.request(|client| client.get(&path)).status == 200
    }

    /// Returns the memory of the process in KiB: resident, and the anonymous part of it.
    pub fn memory(&self) -> [u64; 2] {
        let id = self.node.as_ref().expect("a running node").process.id();
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("a running process");
        let of = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).expect("a line");
            line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
        };
        [of("VmRSS:"), of("RssAnon:")]
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

/// Wraps a command in another one that executes it in its own process.
pub fn wrap_command(before: &[String], command: Command) -> Command {
    let [first, rest @ ..] = before else { return command };
    let mut outer = Command::new(first);
    outer.args(rest).arg(command.get_program()).args(command.get_args());
    outer.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    outer
}

/// Stops all nodes and checks that their common state is identical: rolls back blocks that only some have and compares
/// the state digests. Returns the height and the digest.
pub fn stop_and_compare(members: &mut [Member]) -> (u64, String) {
    members.iter_mut().for_each(Member::stop);
    let digest = |member: &Member| -> (u64, String) {
        let text = run(["digest".as_ref(), "--data".as_ref(), member.store().as_os_str()]).expect_success().text();
        let (height, digest) = text.trim().split_once(' ').expect("a height and a digest");
        (height.parse().expect("a height"), digest.to_owned())
    };
    let common = members.iter().map(|member| digest(member).0).min().expect("a node");
    for member in members.iter().filter(|member| digest(member).0 > common) {
        roll_back(&member.store(), common);
    }
    let digests: Vec<_> = members.iter().map(digest).collect();
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
    digests.into_iter().next().expect("a node")
}

fn roll_back(store: &Path, to: u64) {
    let to = to.to_string();
    run(["rollback".as_ref(), "--data".as_ref(), store.as_os_str(), "--to".as_ref(), to.as_ref()]).expect_success();
}
