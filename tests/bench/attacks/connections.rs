//! Attacks with many connections.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use super::crowds::{connect, send_request};
use super::published::{ATTACKER, remote_address};
use super::stage::{AttackStage, Bar, Outcome, Setup};
use super::swarm::{ConnectionScript, Swarm};
use crate::common::http::Client;
use crate::common::websocket::upgrade_request;
use crate::support::in_millis;

const MIB: usize = 1 << 20;
/// Maximum bytes that a node buffers for all its connections.
const MAX_BUFFERED: usize = 128 * MIB;
/// Maximum connections of one attack.
const MAX_CONNECTIONS: usize = 4_000;

/// Endless pipelined requests on many connections of one address.
pub fn pipeline(binary: &str) -> Outcome {
    let mut stage = AttackStage::new(binary);
    let mut swarm = Swarm::new(stage.node.http, 16 * 1024);
    let forever = "GET /chain/height HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(20).into_bytes();
    stage.begin();
    swarm.open(5_000, |_| ATTACKER, ConnectionScript::endless(b"", forever));
    swarm.run(Duration::from_secs(8), |_| false);
    let notes = vec![format!("answers {}, {} times closed", swarm.answers(), swarm.closed)];
    stage.end(notes, &[Bar::Others(20.0)])
}

/// More connections than the node may have files.
pub fn few_files(binary: &str, limit: &str, connections: usize) -> Outcome {
    const NEWCOMERS: usize = 20;
    let mut stage = AttackStage::with(binary, &Setup { settings: &[], limit: Some(limit) });
    let mut swarm = Swarm::new(stage.node.http, 16 * 1024);
    let first = b"GET /chain/height HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec();
    stage.begin();
    swarm.open(connections, remote_address, ConnectionScript::request(first));
    swarm.run(Duration::from_secs(1), |_| false);
    let (mut answers, mut upgrades, mut took) = (Vec::new(), Vec::new(), Vec::new());
    while answers.len() < NEWCOMERS && stage.started_at().elapsed() < Duration::from_secs(14) {
        let begun = Instant::now();
        answers.push(newcomer(stage.node.http, "GET /chain/height HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        took.push(begun.elapsed().as_secs_f64());
        upgrades.push(newcomer(stage.node.websocket, &upgrade_request()));
        swarm.run(Duration::from_millis(50), |_| false);
    }
    let count = |wanted: u16| answers.iter().filter(|status| **status == wanted).count();
    let (served, refused, silent) = (count(200), count(503), count(0));
    let upgraded = upgrades.iter().filter(|status| **status == 101).count();
    let notes = vec![
        format!("attackers: {}, {} closed", swarm.answers(), swarm.closed),
        format!("newcomers: {served} served, {refused} read 503, {silent} nothing, {}", in_millis(&mut took)),
        format!("{upgraded} of {} websockets open", upgrades.len()),
    ];
    let websockets = Bar::Is("websockets open", upgraded == upgrades.len());
    let is_answered = Bar::Is("each newcomer is answered", served == answers.len());
    stage.end(notes, &[is_answered, websockets, Bar::Others(20.0)])
}

/// Returns the status of the answer to a client without a connection; 0 if there is none in time.
fn newcomer(address: SocketAddr, request: &str) -> u16 {
    send_request(Ipv4Addr::LOCALHOST, address, request).map_or(0, |(status, _)| status)
}

/// Returns the head of a request with a body of this length.
fn head(path: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    )
}

/// Returns the maximum body that a route accepts; the node rejects longer ones at once.
fn longest_body(stage: &AttackStage, path: &str) -> usize {
    let mut lengths = std::iter::successors(Some(MIB), |length| (*length > 64).then_some(length / 2));
    let is_taken = |length: &usize| {
        let mut swarm = Swarm::new(stage.node.http, 1024);
        swarm.open(1, |_| ATTACKER, ConnectionScript::request(head(path, *length)));
        !swarm
            .run(Duration::from_millis(200), |swarm| swarm.connections[0].answers > 0 || swarm.connections[0].is_closed)
    };
    lengths.find(is_taken).expect("a body that is short enough")
}

/// Bodies that are never completed, and two clients that slowly send a small one: one connected before the attackers,
/// the other after them.
pub fn unfinished_bodies(binary: &str, path: &str, addresses: u8) -> Outcome {
    let mut stage = AttackStage::new(binary);
    let length = longest_body(&stage, path);
    let mut honest = vec![SlowClient::begin(stage.node.http)];
    stage.begin();
    let mut swarm = Swarm::new(stage.node.http, 1024);
    let from = |number: usize| Ipv4Addr::new(127, 0, 0, 2 + number as u8 % addresses);
    let is_said = |swarm: &Swarm| swarm.connections.iter().all(|peer| peer.unsent() == 0 || peer.is_closed);
    // The short ones fill what the long ones leave.
    let shorter = std::iter::successors(Some(length / 4), |length| (*length > 64).then_some(length / 4));
    let waves = std::iter::once((length, (2 * MAX_BUFFERED / length).min(MAX_CONNECTIONS)))
        .chain(shorter.map(|length| (length, 40)));
    for (length, count) in waves {
        let mut first = head(path, length).into_bytes();
        first.resize(first.len() + length - 1, b' ');
        swarm.open(count, from, ConnectionScript::request(first));
        swarm.run(Duration::from_secs(3), is_said);
    }
    honest.push(SlowClient::begin(stage.node.http));
    swarm.run(Duration::from_secs(2), |_| false);
    let statuses_of_honest: Vec<u16> = honest.into_iter().map(SlowClient::end).collect();
    let notes = vec![
        format!(
            "{} bodies of up to {length} bytes, {addresses} addresses: {}",
            swarm.connections.len(),
            swarm.answers()
        ),
        format!("{} closed, honest clients get {statuses_of_honest:?}", swarm.closed),
    ];
    let honest = Bar::Is("honest clients are answered", statuses_of_honest == [200, 200]);
    stage.end(notes, &[honest, Bar::Memory(144.0), Bar::Others(20.0)])
}

/// A client that sends its request slowly.
struct SlowClient(std::io::Result<Client>);

impl SlowClient {
    const BODY: &'static str = "{\"height\":1}";

    fn begin(address: SocketAddr) -> SlowClient {
        let begin = || {
            let mut client = connect(Ipv4Addr::LOCALHOST, address)?;
            client.try_send(head("/block/at/public", SlowClient::BODY.len()) + &SlowClient::BODY[..4])?;
            Ok(client)
        };
        SlowClient(begin())
    }

    /// Returns the status of the answer, 0 if none comes.
    fn end(self) -> u16 {
        let end = |mut client: Client| client.try_send(&SlowClient::BODY[4..]).and_then(|()| client.try_answer());
        self.0.and_then(end).map_or(0, |answer| answer.status)
    }
}
