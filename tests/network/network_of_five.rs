//! Nodes as processes with the same list of peers: they make blocks together, and each is killed once.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use nisd::model::{Amount, Transaction};
use serde_json::Value;

use crate::common::daemon::{Node, nisd, wait_for};
use crate::common::data_folder::DataFolder;
use crate::common::http::{Client, Response};
use crate::common::node_network::{announcement, name, write_peers};
use crate::common::print_notice;
use crate::common::private_network::{Genesis, TOTAL, address, key_pair, now, private_key, transfer};

/// Key numbers of the nodes and of the paying accounts.
const NODES: [u64; 5] = [1, 2, 3, 4, 5];
const PAYERS: [u64; 2] = [6, 7];
/// Together the nodes make a block every two seconds at first, later every ten seconds if they need not be faster.
const BLOCKS_PER_MINUTE: u64 = 30;
/// Maximum time for a node to stop.
const MAX_WAIT: Duration = Duration::from_secs(90);
/// Status of a response to a client that exceeds its rate limit.
const TOO_MANY_REQUESTS: u16 = 429;

/// A node with its own folder.
struct Member {
    http: SocketAddr,
    folder: DataFolder,
    config: PathBuf,
    node: Option<Node>,
}

/// Lays out the nodes, which know each other.
fn network() -> Vec<Member> {
    let free_port = |number: u64| {
        let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 0, number as u8 + 1), 0));
        (number, listener.and_then(|listener| listener.local_addr()).expect("a port"))
    };
    let addresses = NODES.map(free_port);
    let (share, payment) = (TOTAL / 5 - 10_000, 25_000);
    let balance = |number: u64| match number {
        1 => TOTAL - 4 * share - 2 * payment,
        2..=5 => share,
        _ => payment,
    };
    let funded =
        NODES.iter().chain(&PAYERS).map(|number| (address(&key_pair(*number)), Amount::whole(balance(*number))));
    let funded: Vec<_> = funded.collect();
    let genesis = Genesis::new(now(), &funded);
    let member = |(number, http): (u64, SocketAddr)| {
        let folder = DataFolder::new();
        let settings = [
            ("nem.network.totalAmount", &*(TOTAL * BLOCKS_PER_MINUTE).to_string()),
            ("nis.blockChainFeatures", "PROOF_OF_STAKE|WB_IMMEDIATE_VESTING"),
            ("nis.blockGenerationTargetTime", "10"),
            ("nis.bootKey", &private_key(number).printed()),
            ("nis.bootName", &name(number)),
            ("nis.ipDetectionMode", "Disabled"),
            ("nem.host", &http.ip().to_string()),
            ("nem.httpPort", &http.port().to_string()),
        ];
        let config = genesis.write(folder.0.path(), &settings);
        write_peers(folder.0.path(), addresses);
        Member { http, folder, config, node: None }
    };
    addresses.into_iter().map(member).collect()
}

impl Member {
    /// Starts the node and waits until it listens.
    fn start(&mut self) {
        let mut command = nisd(["run", "--websocket-port", "0", "--bind", &self.http.ip().to_string()]);
        command.arg("--config").arg(&self.config).arg("--data").arg(self.folder.path());
        self.node = Some(Node::from_command(command));
    }

    /// Kills the node without warning.
    fn kill(&mut self) {
        self.node.take().expect("a running node").process.kill();
    }

    fn stop(&mut self) {
        let process = self.node.take().expect("a running node").process;
        process.signal("TERM");
        let ended = process.wait_with_timeout(MAX_WAIT).expect_success();
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    }

    /// Sends a request; repeats it while the node answers that the rate limit is exceeded.
    #[track_caller]
    fn request(&self, ask: impl Fn(&mut Client) -> Response) -> Response {
        let answer = || Some(ask(&mut Client::connect(self.http))).filter(|answer| answer.status != TOO_MANY_REQUESTS);
        wait_for("an answer", answer)
    }

    fn height(&self) -> u64 {
        self.request(|client| client.get("/chain/height")).json()["height"].as_u64().expect("a height")
    }

    /// Waits for the block at a height.
    #[track_caller]
    fn block(&self, height: u64) -> Value {
        let block = || Some(self.request(|client| client.block(height))).filter(|answer| answer.status == 200);
        wait_for("a block", block).json()
    }

    /// Announces a transaction, which the node must accept.
    #[track_caller]
    fn announce(&self, transaction: &Transaction) {
        let body = announcement(transaction);
        let answer = self.request(|client| client.post("/transaction/announce", &body)).json();
        assert_eq!(answer["message"], "SUCCESS", "{answer}");
    }

    /// Waits until a transaction is in the chain.
    #[track_caller]
    fn confirm(&self, transaction: &Transaction) {
        let path = format!("/transaction/get?hash={}", transaction.hash());
        wait_for("the payment", || (self.request(|client| client.get(&path)).status == 200).then_some(()));
    }
}

/// Waits until all nodes have the same block one above the first node's present height.
fn wait_for_one_chain(members: &[Member]) {
    let height = members[0].height() + 1;
    wait_for("one chain", || {
        let blocks: Vec<_> = members.iter().map(|member| member.block(height)).collect();
        blocks.iter().all(|block| *block == blocks[0]).then_some(())
    });
}

/// Announces a payment at each node and waits until all nodes have confirmed it.
fn pay_at_each_node(members: &[Member]) {
    let payments = PAYERS.iter().cycle().zip(1_000_000..).zip(members).map(|((payer, amount), member)| {
        let payment = transfer(&key_pair(*payer), address(&key_pair(9)), Amount(amount), Amount(500_000), now());
        member.announce(&payment);
        payment
    });
    for payment in payments.collect::<Vec<_>>() {
        members.iter().for_each(|member| member.confirm(&payment));
    }
}

#[test]
fn five_nodes_of_one_peer_list_make_one_chain_though_each_is_killed_once() {
    let mut members = network();
    members[..2].iter_mut().for_each(Member::start);
    members[1].block(3);
    wait_for_one_chain(&members[..2]);
    members[2..].iter_mut().for_each(Member::start);
    pay_at_each_node(&members);
    for number in 0..members.len() {
        members[number].kill();
        let others = if number == 0 { &members[1] } else { &members[0] };
        others.block(others.height() + 1);
        members[number].start();
    }
    wait_for_one_chain(&members);
    pay_at_each_node(&members);
    let harvesters = harvesters(&members[0]);
    let (height, digest) = stop_and_compare(&mut members);
    print_notice(&format!(
        "five nodes, {} of which have made blocks: height {height}, digest {digest}",
        harvesters.len()
    ));
    assert!(harvesters.len() >= 2, "they harvest together: {harvesters:?}");
}

/// Returns the keys that harvested the blocks of a chain.
fn harvesters(member: &Member) -> BTreeSet<String> {
    let signer = |height| member.block(height)["signer"].as_str().expect("a key").to_owned();
    (2..=member.height()).map(signer).collect()
}

/// Stops all nodes and checks that their common state is identical: rolls back blocks that only some have and compares
/// the state digests. Returns the height and the digest.
fn stop_and_compare(members: &mut [Member]) -> (u64, String) {
    members.iter_mut().for_each(Member::stop);
    let common = members.iter().map(|member| member.folder.digest().0).min().expect("a node");
    for member in members.iter().filter(|member| member.folder.digest().0 > common) {
        member.folder.run("rollback", &["--to", &common.to_string()]).expect_success();
    }
    let digests: Vec<_> = members.iter().map(|member| member.folder.digest()).collect();
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
    digests.into_iter().next().expect("a node")
}
