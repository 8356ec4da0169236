//! Lies about other nodes, about the peer itself, and about the time.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nisd::codec::Format;
use nisd::crypto::KeyPair;
use nisd::peer::trust::Experience;
use nisd::peer::wire::{CommunicationTimeStamps, ExperiencePair, Identity, NodeExperiences, NodeInfo, NodeList};

use super::attacks::{Attack, ExpectedOpinion, truth};
use super::{AttackScene, BYZANTINE};
use crate::common::private_network::key_pair;
use crate::network::scripted_peer::{HonestPeer, ReceivedRequest, ScriptedResponse, info};

const LIST: &str = "/node/peer-list/active";
const EXPERIENCES: &str = "/node/experiences";
const TIME: &str = "/time-sync/network-time";
/// Maximum number of nodes of one list that are contacted.
const MAX_CONTACTED: usize = 16;
/// Start of network time, in milliseconds of Unix time.
const NEMESIS: i64 = 1_427_587_585_000;
/// Tolerated error of a node's clock, in milliseconds.
const TOLERANCE: i64 = 2_000;

/// Returns `count` nodes that do not exist.
fn nonexistent_nodes(count: usize, endpoint: impl Fn(usize) -> SocketAddr) -> Vec<NodeInfo> {
    let keys = key_pair(BYZANTINE + 2);
    let node = |number: usize| {
        let mut node = info(&keys, endpoint(number));
        node.identity.key.0[..8].copy_from_slice(&(number as u64).to_le_bytes());
        node
    };
    (0..count).map(node).collect()
}

fn at_closed_ports(number: usize) -> SocketAddr {
    let [_, _, high, low] = (number as u32).to_be_bytes();
    (Ipv4Addr::new(127, 200, high, low), 9).into()
}

fn peer_list_attack(name: &'static str, list: Vec<NodeInfo>) -> Attack {
    let list = NodeList(list);
    Attack::new(name, ExpectedOpinion::InState("active"), LIST, truth, move |_, _| ScriptedResponse::entity(&list))
}

/// Encodes a node with a name of this many bytes, which our own encoder refuses.
fn with_long_name(keys: &KeyPair, endpoint: SocketAddr, bytes: usize) -> Vec<u8> {
    let length = |bytes: usize| (bytes as u32).to_le_bytes();
    let key = keys.public().0;
    let mut node = [&length(4 + key.len() + 4 + bytes)[..], &length(key.len()), &key, &length(bytes)].concat();
    node.resize(node.len() + bytes, b'x');
    // The rest equals that of a node with any other name.
    let plain = Format::Binary
        .to_bytes(&NodeInfo { identity: Identity { key: keys.public(), name: None }, ..info(keys, endpoint) });
    node.extend_from_slice(&plain[4 + 4 + key.len() + 4..]);
    node
}

fn long_names() -> Vec<u8> {
    let nodes = (0..10).map(|number| with_long_name(&key_pair(BYZANTINE + 2 + number), at_closed_ports(1), 90_000));
    let elements = nodes.flat_map(|node| [(node.len() as u32).to_le_bytes().to_vec(), node].concat());
    10_u32.to_le_bytes().into_iter().chain(elements).collect()
}

fn is_known_in_bounds(scene: &AttackScene) -> Vec<String> {
    let all = scene.client().get("/node/peer-list/all").json();
    let count: usize =
        ["active", "busy", "inactive", "failure"].iter().filter_map(|state| Some(all[state].as_array()?.len())).sum();
    if count <= 4 { Vec::new() } else { vec![format!("{count} nodes are known by hearsay alone")] }
}

/// A list of a thousand nodes that all point to one uninvolved address.
fn one_bystander() -> Attack {
    let (bystander, calls) = bystander();
    peer_list_attack("peer list: all are one bystander", nonexistent_nodes(1_000, |_| bystander)).with_final_check(
        move |scene| {
            let (mut wrong, calls) = (is_known_in_bounds(scene), calls.load(Ordering::Relaxed));
            if calls == 0 || calls > MAX_CONTACTED {
                wrong.push(format!("a bystander was called {calls} times"));
            }
            wrong
        },
    )
}

/// Starts a listener that counts connections and never answers.
fn bystander() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = std::net::TcpListener::bind("127.201.0.1:0").expect("a port");
    let (endpoint, count) = (listener.local_addr().expect("an address"), Arc::new(AtomicUsize::new(0)));
    let counted = count.clone();
    std::thread::spawn(move || {
        listener.incoming().for_each(|_| {
            counted.fetch_add(1, Ordering::Relaxed);
        })
    });
    (endpoint, count)
}

fn experiences(name: &'static str, count: usize) -> Attack {
    let pair = |node| ExperiencePair { node, experience: Experience::new(i64::MAX, 0) };
    let pairs: Vec<_> = nonexistent_nodes(count, at_closed_ports).into_iter().map(pair).collect();
    // Only one node is queried per minute.
    let attack = Attack::new(name, ExpectedOpinion::NotPenalized, EXPERIENCES, truth, move |_, _| {
        let node = info(&key_pair(BYZANTINE), at_closed_ports(1));
        ScriptedResponse::entity(&NodeExperiences { node, experiences: pairs.clone() })
    });
    Attack { accomplices: 20, ..attack }
}

fn network_time() -> i64 {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    unix.as_millis() as i64 - NEMESIS
}

/// An important node whose clock is ten years ahead.
fn wrong_network_time(_: &ReceivedRequest, _: &HonestPeer) -> ScriptedResponse {
    let time = network_time() + 10 * 365 * 24 * 3_600_000;
    ScriptedResponse::entity(&CommunicationTimeStamps { send: time, receive: time })
}

fn keeps_its_time(scene: &AttackScene) -> Vec<String> {
    let time = scene.client().get(TIME).json()["receiveTimeStamp"].as_i64().expect("a time");
    let difference = time - network_time();
    if difference.abs() <= TOLERANCE { Vec::new() } else { vec![format!("its clock is {difference} ms ahead")] }
}

pub fn attacks() -> Vec<Attack> {
    let long = long_names();
    vec![
        one_bystander(),
        peer_list_attack("peer list: a thousand", nonexistent_nodes(1_000, at_closed_ports))
            .with_final_check(is_known_in_bounds),
        Attack {
            expected: ExpectedOpinion::InState("failure"),
            ..peer_list_attack("peer list: thousands", nonexistent_nodes(5_000, at_closed_ports))
        }
        .with_final_check(is_known_in_bounds),
        peer_list_attack("peer list: all at one address", nonexistent_nodes(1_000, |_| at_closed_ports(7)))
            .with_final_check(is_known_in_bounds),
        Attack::new("peer list: enormous names", ExpectedOpinion::InState("active"), LIST, truth, move |_, _| {
            ScriptedResponse::Entity(long.clone())
        })
        .with_final_check(is_known_in_bounds),
        Attack::new("who it is: an enormous name", ExpectedOpinion::InState("failure"), "/node/info", truth, |_, _| {
            ScriptedResponse::Entity(with_long_name(&key_pair(BYZANTINE), at_closed_ports(1), 1 << 20))
        }),
        experiences("experiences: one too many", 101),
        experiences("experiences: thousands", 10_000),
        Attack::new("time: ten years ahead", ExpectedOpinion::NotPenalized, TIME, truth, wrong_network_time)
            .with_final_check(keeps_its_time),
    ]
}
