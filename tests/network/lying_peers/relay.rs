//! An attacker that impersonates nodes of the operator's list: it announces them at its own address, forwards the
//! requests it gets to them, and returns their proofs with its own endpoint, time and height.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nisd::codec::Format;
use nisd::peer::wire::{CommunicationTimeStamps, Endpoint, NodeInfo};
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use crate::common::daemon::Node;
use crate::common::http::Client;
use crate::common::private_network::{key_pair, private_key};
use crate::common::scripted_peer::{
    HonestPeer, ReceivedRequest, ScriptedPeer, ScriptedResponse, answer, read, read_request,
};
use crate::network::lying_peers::{HonestNode, SHARED, VICTIM, becomes_true, peer, start};

/// Key numbers of the listed nodes.
const LISTED: [u64; 3] = [301, 302, 303];
/// Source address of the relay.
const RELAY: Ipv4Addr = Ipv4Addr::new(127, 66, 0, 1);
/// Interval between two signs of life: 43 per second, below the rate limit.
const SIGN_INTERVAL: Duration = Duration::from_micros(23_256);
/// Connections that the relay keeps open.
const KEPT_CONNECTIONS: usize = 60;
/// Its lie about the time, in milliseconds.
const AHEAD: i64 = 3_600_000;

/// A forwarder to a node that can be closed.
struct Forwarder {
    here: SocketAddr,
    is_open: Arc<AtomicBool>,
    /// Number of accepted connections.
    accepted: Arc<AtomicUsize>,
}

impl Forwarder {
    fn new(number: u8, to: SocketAddr, is_open: bool) -> Forwarder {
        let listener = TcpListener::bind((Ipv4Addr::new(127, 67, 0, number), 0)).expect("a port");
        let gate = Forwarder {
            here: listener.local_addr().expect("an address"),
            is_open: Arc::new(AtomicBool::new(is_open)),
            accepted: Arc::default(),
        };
        let (is_open, came) = (gate.is_open.clone(), gate.accepted.clone());
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                came.fetch_add(1, Ordering::Relaxed);
                if is_open.load(Ordering::Relaxed)
                    && let Ok(other) = TcpStream::connect(to)
                {
                    let (Ok(back), Ok(forth)) = (stream.try_clone(), other.try_clone()) else { return };
                    thread::spawn(move || copy(forth, back));
                    thread::spawn(move || copy(stream, other));
                }
            }
        });
        gate
    }
}

/// Copies bytes until one side closes.
fn copy(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
}

/// Listens under a node's identity, forwards requests to that node, and returns its proofs.
struct Relay {
    here: SocketAddr,
    request_count: Arc<AtomicUsize>,
}

impl Relay {
    fn new(real: &ScriptedPeer) -> Relay {
        let listener = TcpListener::bind((RELAY, 0)).expect("a port");
        let relay = Relay { here: listener.local_addr().expect("an address"), request_count: Arc::default() };
        let (here, asked, real) = (relay.here, relay.request_count.clone(), HonestPeer(real.endpoint()));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let asked = asked.clone();
                thread::spawn(move || drop(forward(stream, real, here, &asked)));
            }
        });
        relay
    }
}

fn forward(mut stream: TcpStream, real: HonestPeer, here: SocketAddr, count: &AtomicUsize) -> io::Result<()> {
    let mut received = Vec::new();
    while let Some(asked) = read_request(&mut stream, &mut received)? {
        count.fetch_add(1, Ordering::Relaxed);
        let body = real.post(&asked.path, &asked.body)?;
        stream.write_all(&answer(&falsified(&asked, body, here)))?;
    }
    Ok(())
}

/// Replaces the entity of an answer: the signature covers only the challenge, so the proof remains valid.
fn falsified(asked: &ReceivedRequest, body: Vec<u8>, here: SocketAddr) -> Vec<u8> {
    let length = body.first_chunk().map_or(0, |length| u32::from_le_bytes(*length) as usize);
    let Some((entity, proof)) = body.get(4..).and_then(|rest| rest.split_at_checked(length)) else { return body };
    let entity = match asked.path.as_str() {
        "/node/info" => {
            let endpoint = Endpoint::http(here.ip().to_string(), here.port());
            Format::Binary.to_bytes(&NodeInfo { endpoint, ..read(entity) })
        }
        "/time-sync/network-time" => {
            let CommunicationTimeStamps { send, receive } = read(entity);
            Format::Binary.to_bytes(&CommunicationTimeStamps { send: send + AHEAD, receive: receive + AHEAD })
        }
        _ => return body,
    };
    [&(entity.len() as u32).to_le_bytes(), &entity[..], proof].concat()
}

/// Sends a request from the relay's address.
fn send(to: SocketAddr, path: &str, headers: &str, body: &[u8]) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((RELAY, 0)).into())?;
    socket.connect_timeout(&to.into(), Duration::from_secs(1))?;
    let mut stream = TcpStream::from(socket);
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\n{headers}Content-Type: application/binary\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat())?;
    Ok(stream)
}

/// Returns the listed nodes as the victim knows them.
fn known(victim: &Node) -> Vec<Value> {
    let report = Client::connect(victim.http).get("/local/peers").json();
    let peers = report["peers"].as_array().expect("peers").clone();
    let key = |number: &u64| json!(key_pair(*number).public().to_string());
    let is_it = |peer: &&Value, number| peer["node"]["identity"]["public-key"] == key(number);
    LISTED.iter().map(|number| peers.iter().find(|peer| is_it(peer, number)).expect("it is listed").clone()).collect()
}

/// Checks that the listed nodes are known at the operator's addresses only; returns their states.
fn states(victim: &Node, gates: &[Forwarder]) -> Vec<String> {
    let known = known(victim);
    for (peer, gate) in known.iter().zip(gates) {
        let endpoint = &peer["node"]["endpoint"];
        let place = (endpoint["host"].as_str().map(str::to_owned), endpoint["port"].as_u64());
        assert_eq!(place, (Some(gate.here.ip().to_string()), Some(gate.here.port().into())), "taken over");
        assert_eq!(peer["isPreTrusted"], 1);
    }
    known.iter().map(|peer| peer["state"].as_str().expect("a state").to_owned()).collect()
}

/// Requests the height on one connection until the end; returns the median and the 99th percentile of the response
/// times.
fn calm_client(node: SocketAddr, is_over: &AtomicBool) -> [Duration; 2] {
    let (mut client, mut times) = (Client::connect(node), Vec::new());
    while !is_over.load(Ordering::Relaxed) {
        let asked = Instant::now();
        client.height();
        times.push(asked.elapsed());
        thread::sleep(Duration::from_millis(5));
    }
    times.sort_unstable();
    [times.len() / 2, times.len() * 99 / 100].map(|place| times.get(place).copied().unwrap_or_default())
}

#[test]
fn relaying_proofs_does_not_take_over_pre_trusted_peers() {
    let honest = HonestNode::start();
    let truth = |_: &ReceivedRequest, _: &HonestPeer| ScriptedResponse::Truthful;
    let nodes = LISTED.map(|key| {
        ScriptedPeer::start(key_pair(key), Ipv4Addr::new(127, 68, 0, 1), HonestPeer(honest.node.http), truth)
    });
    // The last one is unreachable at first.
    let gates = [1, 2, 3].map(|number| Forwarder::new(number, nodes[usize::from(number) - 1].endpoint(), number < 3));
    let relays = nodes.each_ref().map(Relay::new);
    let folder = tempfile::tempdir().expect("a folder");
    let own = [("nis.shouldAutoHarvestOnBoot", "false"), ("nem.host", "127.99.99.99")];
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let config =
        honest.genesis.write_hasty(folder.path(), &private_key(VICTIM).printed(), &[&SHARED[..], &own].concat());
    let peers: Vec<_> = LISTED.iter().zip(&gates).map(|(key, gate)| peer(*key, gate.here)).collect();
    let peers = json!({ "knownPeers": peers }).to_string();
    std::fs::write(folder.path().join("peers-config_synthetic.json"), peers).expect("room");

    let signs = nodes.iter().zip(&relays).map(|(node, relay)| {
        let endpoint = Endpoint::http(RELAY.to_string(), relay.here.port());
        Format::Binary.to_bytes(&NodeInfo { endpoint, ..node.info() })
    });
    let signs: Vec<Vec<u8>> = signs.collect();
    let (is_over, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut open, mut next) = (VecDeque::new(), Instant::now());
            for sign in signs.iter().cycle() {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                if let Ok(stream) = send(port, "/node/sign-of-life", "", sign) {
                    sent.fetch_add(1, Ordering::Relaxed);
                    open.push_back(stream);
                    open.drain(..open.len().saturating_sub(KEPT_CONNECTIONS));
                }
                next += SIGN_INTERVAL;
                thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        });
        let attacked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let victim = start(&config, folder.path(), &["--http-port", &port.port().to_string()]);
            let (http, is_over) = (victim.http, &is_over);
            let calm = scope.spawn(move || calm_client(http, is_over));
            let is = |expected: [&str; 3]| becomes_true(|| states(&victim, &gates) == expected);
            assert!(is(["active", "active", "failure"]), "at the start: {:?}", states(&victim, &gates));
            // It is down for more than a minute; by then it has been contacted again at its listed address.
            let begun = gates[2].accepted.load(Ordering::Relaxed);
            assert!(becomes_true(|| {
                states(&victim, &gates);
                gates[2].accepted.load(Ordering::Relaxed) > begun
            }));
            assert_eq!(states(&victim, &gates), ["active", "active", "failure"]);
            gates[2].is_open.store(true, Ordering::Relaxed);
            assert!(is(["active"; 3]), "after its silence: {:?}", states(&victim, &gates));
            let asked: usize = relays.iter().map(|relay| relay.request_count.load(Ordering::Relaxed)).sum();
            assert_eq!(asked, 0, "the relay was called");
            assert!(sent.load(Ordering::Relaxed) > 500, "hardly any signs of life were given");
            assert!(!victim.process.log().contains("panicked"), "{}", victim.process.log());
            is_over.store(true, Ordering::Relaxed);
            let [median, last] = calm.join().expect("a calm client that is answered");
            println!("a calm client was answered within {median:?}, 99 % within {last:?}");
        }));
        is_over.store(true, Ordering::Relaxed);
        attacked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[test]
fn a_sender_behind_an_untrusted_proxy_is_not_called_back() {
    let honest = HonestNode::start();
    let listener = TcpListener::bind((RELAY, 0)).expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let port = listener.local_addr().expect("an address").port();
    let stranger = crate::common::scripted_peer::info(&key_pair(310), (RELAY, port).into());
    let sign = Format::Binary.to_bytes(&stranger);
    // A node paired with an empty list of experiences.
    let ping = [&(sign.len() as u32).to_le_bytes(), &sign[..], &[0; 4]].concat();
    let status = |path: &str, headers: &str, body: &[u8]| {
        let mut stream = send(honest.node.http, path, headers, body).expect("a connection");
        let mut head = [0; 12];
        stream.set_read_timeout(Some(Duration::from_millis(500))).expect("a time limit");
        stream.read_exact(&mut head).map(|()| String::from_utf8_lossy(&head[9..]).into_owned()).ok()
    };
    for header in ["X-Forwarded-For: 8.8.8.8\r\n", "Forwarded: for=8.8.8.8\r\n", "X-Forwarded-For: unknown\r\n"] {
        assert_eq!(status("/node/sign-of-life", header, &sign).as_deref(), Some("200"), "{header}");
        assert_eq!(status("/node/ping", header, &ping).as_deref(), Some("200"), "{header}");
    }
    assert!(listener.accept().is_err(), "somebody was called");
    // Without a header the node calls it back and waits as long as it does not answer.
    assert_eq!(status("/node/sign-of-life", "", &sign), None);
    assert!(listener.accept().is_ok(), "nobody was called");
}
