//! Attacks on limited slots: sessions, and responses written in steps.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use super::super::support::with_secret;
use super::stage::{AttackStage, Bar, Outcome};
use super::swarm::{ConnectionScript, Swarm};
use crate::common::http::post;
use crate::common::private_network::NETWORK;
use nisd::crypto::PublicKey;
use nisd::model::Address;

/// Addresses of the attacker, and websockets of each: more than there are places for sessions.
const ADDRESSES: usize = 42;
const WEBSOCKETS: usize = 250;
const NEWCOMERS: u8 = 20;
const BETWEEN_NEWCOMERS: Duration = Duration::from_millis(200);

/// Websockets that do nothing, more than there are places.
pub fn sessions(binary: &str) -> Outcome {
    let mut stage = AttackStage::new(binary);
    let mut swarm = Swarm::new(stage.node.websocket, 16 * 1024);
    let from = |number: usize| Ipv4Addr::new(127, 2, 0, 1 + (number % ADDRESSES) as u8);
    let mut newcomers = Swarm::new(stage.node.websocket, 16 * 1024);
    stage.begin();
    swarm.open(ADDRESSES * WEBSOCKETS, from, ConnectionScript::session(""));
    for came in 0..NEWCOMERS {
        newcomers.open(1, |_| Ipv4Addr::new(127, 3, 0, 1 + came), ConnectionScript::session(""));
        let next = Instant::now() + BETWEEN_NEWCOMERS;
        while Instant::now() < next {
            swarm.drive_once(Duration::from_millis(1));
            newcomers.drive_once(Duration::ZERO);
        }
    }
    newcomers.run(Duration::from_millis(300), |_| false);
    let came = newcomers.connections.len();
    let refused: usize = newcomers.codes.values().sum();
    let upgraded = newcomers.count(101);
    let notes = vec![
        format!("{} websockets asked for, {} opened", swarm.connections.len(), swarm.count(101)),
        format!("{came} newcomers: {upgraded} websockets open, {refused} closed with {:?}", newcomers.codes),
    ];
    let is_in = Bar::Is("each newcomer has a session", upgraded == came && refused == 0);
    stage.end(notes, &[is_in, Bar::Others(20.0), Bar::Memory(64.0)])
}

/// Batches of very many accounts at once: from a client of this machine, then from eight remote ones. The well-behaved
/// client is of this machine too, so it is measured during the remote ones.
pub fn long_answers(binary: &str) -> Outcome {
    const PATH: &str = "/account/mosaic/owned/definition/batch";
    const ACCOUNTS: u16 = 512;
    const ROUNDS: usize = 5;
    const REMOTE_CLIENTS: usize = 8;
    /// Within the rate limit of each per second.
    const REQUESTS_PER_CLIENT: usize = 45;
    let key =
        |number: u16| PublicKey([number.to_be_bytes().as_slice(), &[9; 30]].concat().try_into().expect("32 bytes"));
    let account = |number| format!("{{\"account\":\"{}\"}}", Address::from_public_key(&key(number), NETWORK));
    let accounts: Vec<_> = (0..ACCOUNTS).map(account).collect();
    let request = post(PATH, &format!("{{\"data\":[{}]}}", accounts.join(",")));
    let mut stage = AttackStage::new(binary);
    let local = at_once(stage.node.http, |_| Ipv4Addr::LOCALHOST, 64, ROUNDS, &with_secret(stage.node.http, &request));
    std::thread::sleep(Duration::from_secs(1));
    stage.begin();
    let stranger = |number: usize| Ipv4Addr::new(127, 2, 0, 1 + (number % REMOTE_CLIENTS) as u8);
    let strangers = at_once(stage.node.http, stranger, REMOTE_CLIENTS * REQUESTS_PER_CLIENT, 1, &request);
    let notes = vec![format!("this machine: {}", local.0), format!("strangers: {}", strangers.0)];
    stage.end(notes, &[Bar::Is("all are answered", local.1 && strangers.1), Bar::Others(20.0)])
}

/// Sends the same request on this many connections at once, `rounds` times. Returns the statuses, and whether all
/// answers were good.
fn at_once(
    to: SocketAddr,
    from: impl Fn(usize) -> Ipv4Addr,
    connections: usize,
    rounds: usize,
    request: &str,
) -> (String, bool) {
    let mut swarm = Swarm::new(to, 64 * 1024);
    swarm.open(connections, from, ConnectionScript::default());
    let mut longest = Duration::ZERO;
    for round in 1..=rounds {
        let begun = Instant::now();
        (0..connections).for_each(|index| swarm.send(index, request.as_bytes()));
        let is_over = |swarm: &Swarm| swarm.connections.iter().all(|peer| peer.answers >= round || peer.is_closed);
        swarm.run(Duration::from_secs(20), is_over);
        longest = longest.max(begun.elapsed());
    }
    let is_good = swarm.count(200) == connections * rounds;
    (format!("{}, all of a round after {} ms", swarm.answers(), longest.as_millis()), is_good)
}
