//! Floods: what unknown clients and byzantine peers send unprompted, at or above the rate limit.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nisd::codec::{Format, Writable};
use nisd::crypto::{KeyPair, Signature};
use nisd::model::{Amount, Block, Timestamp, Transaction};
use nisd::peer::wire::{List, NodeExperiences, NodeInfo, SecureEntity};
use socket2::{Domain, Socket, Type};

use super::attacks::{Attack, ExpectedOpinion, truth};
use super::{AttackScene, BYZANTINE, HonestNode, POOR, becomes_true};
use crate::common::http::post_binary;
use crate::common::private_network::{address, block, key_pair, now, transfer};
use crate::network::scripted_peer::{HonestPeer, ScriptedPeer, ScriptedResponse, info};

/// Number of source addresses, so that no per-address limit stops the flood.
const SOURCES: u8 = 8;
/// Interval between requests of the sources that keep to the rate limit.
const PAUSE: Duration = Duration::from_millis(25);
/// Duration of a flood.
const TIME: Duration = Duration::from_secs(6);
/// Maximum number of known nodes at private addresses, plus those of the operator's list.
const MAX_KNOWN: usize = 250 + 2;

/// Connects to the node from one of many addresses of this machine; the first one is the byzantine peer's own.
fn connect(scene: &AttackScene, source: u8) -> TcpStream {
    connect_from(Ipv4Addr::new(127, scene.number, u8::from(source > 1), source), scene.node.http)
}

/// Connects from an address; a client that exceeds its budget is reset, and retries until it is admitted.
fn connect_from(address: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let begun = Instant::now();
    loop {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.bind(&SocketAddr::from((address, 0)).into()).expect("an address of this machine");
        match socket.connect(&to.into()) {
            Err(error) if error.kind() == ErrorKind::ConnectionReset && begun.elapsed() < TIME => thread::sleep(PAUSE),
            result => {
                result.expect("the node takes connections");
                let stream: TcpStream = socket.into();
                stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time limit");
                return stream;
            }
        }
    }
}

fn post(path: &str, entity: &impl Writable) -> Vec<u8> {
    post_binary(path, &Format::Binary.to_bytes(entity))
}

/// Sends requests from all addresses and reads the answers. Half of the sources keep to the rate limit; the others are
/// rejected most of the time.
fn flood(scene: &AttackScene, request: impl Fn(u64) -> Vec<u8> + Sync) -> Vec<String> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for source in 1..=SOURCES {
            let (request, is_over) = (&request, &is_over);
            scope.spawn(move || {
                let mut number = u64::from(source) << 32;
                while !is_over.load(Ordering::Relaxed) {
                    // A disconnected source reconnects.
                    let mut stream = connect(scene, source);
                    let mut answer = [0; 4096];
                    while !is_over.load(Ordering::Relaxed) {
                        number += 1;
                        let is_sent = stream.write_all(&request(number)).is_ok();
                        if !is_sent || stream.read(&mut answer).unwrap_or(0) == 0 {
                            thread::sleep(PAUSE);
                            break;
                        }
                        thread::sleep(PAUSE * u32::from(source % 2));
                    }
                }
            });
        }
        thread::sleep(TIME);
        is_over.store(true, Ordering::Relaxed);
    });
    Vec::new()
}

fn last_block(scene: &AttackScene) -> Block {
    HonestPeer(scene.node.http).query("/chain/last-block", &[])
}

fn pushed<T: Writable>(entity: T) -> SecureEntity<T> {
    SecureEntity::sign(entity, &key_pair(BYZANTINE), None)
}

/// Waits until the node has met the byzantine peer: pushes of strangers count for nobody.
fn wait_until_active(scene: &AttackScene) {
    assert!(becomes_true(|| scene.state(BYZANTINE) == "active"), "the byzantine peer is not met");
}

/// Pushes correctly signed successors of our tip whose harvesters have no right to make them.
fn unentitled_blocks(scene: &AttackScene) -> Vec<String> {
    let keys = key_pair(POOR);
    wait_until_active(scene);
    flood(scene, |number| {
        let (last, time) = (last_block(scene), Timestamp(now().0 + number as i32));
        post("/push/block", &pushed(block(&keys, last.height.0 + 1, time, last.hash(), Vec::new())))
    })
}

fn payment(keys: &KeyPair, number: u64) -> Transaction {
    transfer(keys, address(&key_pair(1)), Amount(number), Amount::whole(1), now())
}

fn forged_transactions(scene: &AttackScene) -> Vec<String> {
    let keys = key_pair(BYZANTINE);
    wait_until_active(scene);
    flood(scene, |number| {
        let forged = Transaction { signature: Some(Signature([number as u8; 64])), ..payment(&keys, number) };
        post("/push/transactions", &List(vec![pushed(forged); 20]))
    })
}

/// Sends signs of life of as many nodes as there are addresses; each answers correctly and claims to have the best
/// chain.
fn many_identities(scene: &AttackScene) -> Vec<String> {
    let nodes: Vec<ScriptedPeer> = (0..=255_u8)
        .flat_map(|low| [(2, low), (3, low)])
        .map(|(high, low)| {
            let keys = key_pair(1_000 + u64::from(high) * 256 + u64::from(low));
            let address = (Ipv4Addr::new(127, scene.number, high, low), 0).into();
            ScriptedPeer::start(keys, address, scene.honest, super::chain::ahead)
        })
        .collect();
    for node in &nodes {
        let std::net::IpAddr::V4(address) = node.endpoint().ip() else { continue };
        let mut stream = connect_from(address, scene.node.http);
        let _ = stream.write_all(&post("/node/sign-of-life", &node.info())).and_then(|()| stream.read(&mut [0; 512]));
    }
    let all = scene.client().get("/node/peer-list/all").json();
    let known = all["active"].as_array().map_or(0, Vec::len);
    if known <= MAX_KNOWN && known > 200 { Vec::new() } else { vec![format!("{known} nodes are known")] }
}

/// Announces other nodes' names at addresses that are not the sender's.
fn signs_of_other_nodes(scene: &AttackScene) -> Vec<String> {
    let keys = key_pair(BYZANTINE + 2);
    flood(scene, |number| {
        let [.., high, low] = number.to_be_bytes();
        let mut node: NodeInfo = info(&keys, (Ipv4Addr::new(127, 202, high, low), 9).into());
        node.identity.key.0[..8].copy_from_slice(&number.to_le_bytes());
        post("/node/sign-of-life", &node)
    })
}

fn attack(name: &'static str, expected: ExpectedOpinion, act: fn(&AttackScene) -> Vec<String>) -> Attack {
    let attack = Attack::new(name, expected, "/node/info", truth, |_, _| ScriptedResponse::Truthful);
    Attack { act: Box::new(act), ..attack }
}

pub fn attacks() -> Vec<Attack> {
    use ExpectedOpinion::{InState, Penalized};
    vec![
        attack("signs of life: many identities", InState("active"), many_identities),
        attack("signs of life: of others", InState("active"), signs_of_other_nodes),
        attack("pushes: blocks that nobody may make", Penalized, unentitled_blocks),
        attack("pushes: forged transactions", Penalized, forged_transactions),
    ]
}

#[test]
fn a_sender_behind_an_untrusted_proxy_is_not_called_back() {
    const SENDER: Ipv4Addr = Ipv4Addr::new(127, 66, 0, 1);
    let honest = HonestNode::start();
    let listener = TcpListener::bind((SENDER, 0)).expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let sender = info(&key_pair(310), listener.local_addr().expect("an address"));
    let ping = NodeExperiences { node: sender.clone(), experiences: Vec::new() };
    let requests = [post("/node/sign-of-life", &sender), post("/node/ping", &ping)];
    let status = |request: &[u8], header: &str| {
        let mut stream = connect_from(SENDER, honest.node.http);
        stream.set_read_timeout(Some(Duration::from_millis(500))).expect("a time limit");
        let line = request.windows(2).position(|end| end == b"\r\n").expect("a line") + 2;
        let request = [&request[..line], header.as_bytes(), &request[line..]].concat();
        stream.write_all(&request).expect("the node reads");
        let mut head = [0; 12];
        stream.read_exact(&mut head).map(|()| String::from_utf8_lossy(&head[9..]).into_owned()).ok()
    };
    for header in ["X-Forwarded-For: 8.8.8.8\r\n", "Forwarded: for=8.8.8.8\r\n", "X-Forwarded-For: unknown\r\n"] {
        for request in &requests {
            assert_eq!(status(request, header).as_deref(), Some("200"), "{header}");
        }
    }
    assert!(listener.accept().is_err(), "the node has called the sender");
    // Without a header the node calls it back and waits as long as it does not answer.
    assert_eq!(status(&requests[0], ""), None);
    assert!(listener.accept().is_ok(), "the node has not called the sender");
}
