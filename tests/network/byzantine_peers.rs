//! A node between an honest and a byzantine peer: whatever the byzantine peer does, the node follows the honest chain,
//! answers its clients, and stays within the memory limit given here. The peer is penalized only for misbehaviour that
//! no honest peer shows.
//!
//! Each attack runs against its own node process. NISD_HOSTILE_SECONDS sets the minimum duration of each attack.

mod attacks;
mod chain;
mod floods;
mod gossip;
mod query_monitor;
mod transport;

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::daemon::{Node, closed_port, nisd};
use crate::common::http::Client;
use crate::common::node_network::write_peers;
use crate::common::print_notice;
use crate::common::private_network::{Genesis, TOTAL, address, key_pair, now, private_key};
use crate::network::scripted_peer::{HonestPeer, ScriptedPeer};
use attacks::{Attack, ExpectedOpinion};
use nisd::model::Amount;
use query_monitor::{Observations, QueryMonitor};
use serde_json::Value;
use tempfile::TempDir;

/// Key numbers of the participants.
const HARVESTER: u64 = 1;
pub const VICTIM: u64 = 2;
pub const BYZANTINE: u64 = 100;
/// Number of a key that owns nothing and may not make blocks.
pub const POOR: u64 = 150;
const ACCOMPLICES: u64 = 200;
/// Settings of both nodes: the rewrite limit is low, so that the chain soon exceeds it; a node sends 40 blocks more
/// than that, with as many transactions as on mainnet.
pub const SHARED: [(&str, &str); 3] = [
    ("nis.blockChainRewriteLimit", "10"),
    ("nis.maxTransactionsPerBlock", "1000"),
    ("nis.ipDetectionMode", "Disabled"),
];
/// Attacks at a time; each has its own node, which is mostly idle.
const AT_ONCE: usize = 16;
/// Maximum time until a byzantine peer is detected and the honest chain is followed again. Sync peers are drawn at
/// random: one that keeps a request for 20 s is drawn six times in a row once in sixty runs.
const MAX_WAIT: Duration = Duration::from_secs(300);
/// Maximum response times of a query in seconds: 99th percentile and maximum. A dozen nodes share this machine.
const MAX_P99: f64 = 0.25;
const MAX_RESPONSE_TIME: f64 = 2.0;

/// The node that harvests.
pub struct HonestNode {
    _folder: TempDir,
    pub node: Node,
    pub genesis: Genesis,
}

impl HonestNode {
    pub fn start() -> HonestNode {
        let shares = [(HARVESTER, TOTAL - 2_000_000_000), (BYZANTINE, 2_000_000_000)];
        let genesis = Genesis::new(now(), &shares.map(|(key, share)| (address(&key_pair(key)), Amount::whole(share))));
        let folder = tempfile::tempdir().expect("a folder");
        // It listens at the address that it advertises. All byzantine peers relay from one address.
        let (port, host) = (closed_port().port().to_string(), ("nem.host", "127.0.0.1"));
        let own = [&SHARED[..], &[host, ("nem.httpPort", &port), ("nem.useDosFilter", "false")]].concat();
        let config = genesis.write_hasty(folder.path(), &private_key(HARVESTER).printed(), &own);
        let node = start(&config, folder.path(), &["--http-port", &port]);
        HonestNode { _folder: folder, node, genesis }
    }

    fn client(&self) -> Client {
        Client::connect(self.node.http)
    }
}

/// An attacked node and its surroundings.
pub struct AttackScene {
    _folder: TempDir,
    pub node: Node,
    pub byzantine: ScriptedPeer,
    accomplices: Vec<ScriptedPeer>,
    pub honest: HonestPeer,
    /// Number of the address block 127.NUMBER.0.0/16, which only this scene uses.
    pub number: u8,
}

impl AttackScene {
    fn start(attack: &Attack, honest: &HonestNode, number: u8) -> AttackScene {
        let source = HonestPeer(honest.node.http);
        let scripted = |key: u64| {
            let (keys, script) = (key_pair(key), attack.script.clone());
            let address = (Ipv4Addr::new(127, number, 0, 1), 0).into();
            ScriptedPeer::start(keys, address, source, move |request, honest| script(request, honest))
        };
        let accomplices: Vec<_> = (1..=attack.accomplices).map(|number| scripted(ACCOMPLICES + number)).collect();
        let byzantine = scripted(BYZANTINE);
        let folder = tempfile::tempdir().expect("a folder");
        let own = [
            ("nis.shouldAutoHarvestOnBoot", "false"),
            // A wrong address: the honest node does not learn of the victim and does not gossip it.
            ("nem.host", "127.99.99.99"),
        ];
        let more = [&SHARED[..], &own, attack.settings].concat();
        let config = honest.genesis.write_hasty(folder.path(), &private_key(VICTIM).printed(), &more);
        let own = [(HARVESTER, honest.node.http), (BYZANTINE, byzantine.endpoint())];
        let others = (ACCOMPLICES + 1..).zip(accomplices.iter().map(ScriptedPeer::endpoint));
        write_peers(folder.path(), own.into_iter().chain(others));
        let node = start(&config, folder.path(), &["--http-port", "0"]);
        AttackScene { _folder: folder, node, byzantine, accomplices, honest: source, number }
    }

    /// Connects a client to the node.
    pub fn client(&self) -> Client {
        Client::connect(self.node.http)
    }

    /// Returns the node's trust record of a key: successes and failures.
    pub fn trust_record(&self, key: u64) -> (u64, u64) {
        let all = self.client().get("/node/experiences").json();
        let key = key_pair(key).public().to_string();
        let of_key = |entry: &&Value| entry["node"]["identity"]["public-key"] == *key;
        let found = all["data"].as_array().and_then(|entries| entries.iter().find(of_key));
        let number = |name: &str| found.and_then(|entry| entry["experience"][name].as_u64()).unwrap_or(0);
        (number("s"), number("f"))
    }

    /// Returns the state of a key in the node's peer table.
    pub fn state(&self, key: u64) -> String {
        let all = self.client().get("/node/peer-list/all").json();
        let key = key_pair(key).public().to_string();
        let holds = |nodes: &Value| {
            nodes.as_array().is_some_and(|nodes| nodes.iter().any(|node| node["identity"]["public-key"] == *key))
        };
        let states = ["active", "busy", "inactive", "failure"];
        states.into_iter().find(|state| holds(&all[state])).unwrap_or("unknown").to_owned()
    }

    fn has_expected_state(&self, attack: &Attack) -> bool {
        let (_, failures) = self.trust_record(BYZANTINE);
        match attack.expected {
            ExpectedOpinion::Penalized => failures > 0,
            ExpectedOpinion::NotPenalized => {
                self.accomplices.iter().chain([&self.byzantine]).any(|byzantine| byzantine.count(attack.path) > 0)
            }
            ExpectedOpinion::InState(state) => self.state(BYZANTINE) == state,
        }
    }
}

fn start(config: &Path, folder: &Path, more: &[&str]) -> Node {
    let mut command = nisd(["run", "--bind", "127.0.0.1", "--websocket-port", "0"]);
    command.args(more).arg("--config").arg(config).arg("--data").arg(folder.join("store"));
    Node::from_command(command)
}

/// Polls a condition; returns whether it became true in time.
pub fn becomes_true(mut look: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !look() {
        if begun.elapsed() > MAX_WAIT {
            return false;
        }
        thread::sleep(Duration::from_millis(100));
    }
    true
}

/// Runs an attack; returns what was observed and what is wrong.
fn run(attack: &Attack, honest: &HonestNode, number: u8) -> (String, Vec<String>) {
    let begun = Instant::now();
    let scene = AttackScene::start(attack, honest, number);
    let watch = QueryMonitor::start(scene.node.http, scene.node.process.id());
    let mut wrong = (attack.act)(&scene);
    if !becomes_true(|| scene.has_expected_state(attack)) {
        wrong.push(format!("the byzantine peer did not become {:?}", attack.expected));
    }
    let least: u64 = crate::common::from_environment("NISD_HOSTILE_SECONDS").unwrap_or(0);
    thread::sleep(Duration::from_secs(least).saturating_sub(begun.elapsed()));
    wrong.extend(check_follows(&scene, honest));
    wrong.extend((attack.final_check)(&scene));
    wrong.extend(check_penalties(&scene, attack));
    let seen = watch.stop();
    wrong.extend(check_costs(&seen, attack));
    if scene.node.process.log().contains("panicked") {
        wrong.push("it has panicked".to_owned());
    }
    let (state, (_, failures)) = (scene.state(BYZANTINE), scene.trust_record(BYZANTINE));
    let line = format!("{:44} {seen}; {state}, {failures} failures; {:.1?}", attack.name, begun.elapsed());
    (line, wrong.into_iter().map(|what| format!("{}: {what}", attack.name)).collect())
}

/// Checks that the node soon has the present tip of the honest node.
fn check_follows(scene: &AttackScene, honest: &HonestNode) -> Vec<String> {
    let aim = honest.client().height();
    if !becomes_true(|| scene.client().height() >= aim) {
        return vec!["the honest chain is not followed".to_owned()];
    }
    let is_same = scene.client().block(aim).body == honest.client().block(aim).body;
    messages_if([(!is_same, "it is on another chain than the honest node")])
}

/// Checks that only byzantine peers are penalized, and only for lies.
fn check_penalties(scene: &AttackScene, attack: &Attack) -> Vec<String> {
    let ((_, of_byzantine), (_, of_honest)) = (scene.trust_record(BYZANTINE), scene.trust_record(HARVESTER));
    messages_if([
        (of_honest > 0, "the honest node is penalized"),
        (scene.state(HARVESTER) != "active", "the honest node is not active"),
        (
            attack.expected != ExpectedOpinion::Penalized && of_byzantine > 0,
            "the byzantine peer is penalized for what happens to honest nodes too",
        ),
    ])
}

fn check_costs(seen: &Observations, attack: &Attack) -> Vec<String> {
    // With few queries, the slowest one would be the 99th percentile.
    let is_late = (seen.queries >= 300 && seen.p99 > MAX_P99) || seen.slowest > MAX_RESPONSE_TIME;
    messages_if([
        (seen.queries < 30, "clients were not asking"),
        (seen.memory > attack.memory, &format!("more than {} MiB of memory: {seen}", attack.memory)),
        (is_late, &format!("queries wait: {seen}")),
    ])
}

fn messages_if<const N: usize>(all: [(bool, &str); N]) -> Vec<String> {
    all.into_iter().filter(|(is_so, _)| *is_so).map(|(_, what)| what.to_owned()).collect()
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn byzantine_peers_do_not_keep_a_node_from_the_honest_chain_or_its_clients() {
    let honest = HonestNode::start();
    // So that there is something to lie about.
    assert!(becomes_true(|| honest.client().height() > 15));
    let only = std::env::var("NISD_HOSTILE_ONLY").unwrap_or_default();
    let attacks = attacks::all().into_iter().filter(|attack| attack.name.contains(&only));
    let waiting: Mutex<VecDeque<_>> = Mutex::new((1..).zip(attacks).collect());
    let found = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().expect("no thread panics").pop_front();
                    let Some((number, attack)) = next else { return };
                    let (line, wrong) = run(&attack, &honest, number);
                    print_notice(&line);
                    found.lock().expect("no thread panics").extend(wrong);
                }
            });
        }
    });
    let found = found.into_inner().expect("no thread panics");
    assert!(found.is_empty(), "{}", found.join("\n"));
}
