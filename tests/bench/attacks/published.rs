//! Attacks by what the node publishes: one event becomes a message for each subscription.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use super::bare;
use super::payer::announce;
use super::reader::{Delivery, messages_of};
use super::stage::{AttackStage, Bar, Outcome};
use super::swarm::{ConnectionScript, Swarm};
use crate::common::private_network::{address, key_pair};
use crate::support::in_millis;
use nisd::model::Address;

/// Number of sessions with the maximum number of subscriptions, and that number.
const GREEDY_SESSIONS: usize = 20;
const GREEDY_SUBSCRIPTIONS: usize = 1_000;
/// Number of sessions with one subscription.
const SUBSCRIBERS: usize = 5_000;
/// Number of these per address.
const PER_ADDRESS: usize = 20;
/// Address of an attacker.
pub const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// Maximum wait during an attack.
const MAX_WAIT: Duration = Duration::from_secs(12);
/// Time without messages after which none is expected.
const SILENCE: Duration = Duration::from_millis(1_200);
/// Maximum transactions in a block.
const FULL_BLOCK: usize = 120;
/// Minimum size of a full block in bytes.
const FULL_BLOCK_BYTES: usize = 40_000;
/// Bytes read of a long message before the rest is discarded.
pub const PIECE: usize = 512;

/// Returns the address of one of many remote clients.
pub fn remote_address(number: usize) -> Ipv4Addr {
    let number = (number / PER_ADDRESS) as u16;
    Ipv4Addr::new(127, 1, (number >> 8) as u8, number as u8 + 1)
}

/// Returns bytes that connect a session and subscribe it to topics; the last subscription requests a receipt.
pub fn subscribe(topics: &[String]) -> Vec<u8> {
    let one = |(number, topic): (usize, &String)| {
        let receipt = if number + 1 == topics.len() { "receipt:done\n" } else { "" };
        format!("SUBSCRIBE\nid:{number}\ndestination:{topic}\n{receipt}\n\0")
    };
    let connect = "CONNECT\naccept-version:1.2\n\n\0".to_owned();
    messages_of(std::iter::once(connect).chain(topics.iter().enumerate().map(one)))
}

/// Opens sessions with the maximum number of subscriptions; returns them and what prevented subscriptions.
fn open_greedy_sessions(stage: &AttackStage, topic: &str, piece: usize) -> (Swarm, String) {
    let mut swarm = Swarm::new(stage.node.websocket, piece);
    let part = ConnectionScript::session(subscribe(&vec![topic.to_owned(); GREEDY_SUBSCRIPTIONS]));
    swarm.open(GREEDY_SESSIONS, |_| ATTACKER, part);
    swarm.run(Duration::from_secs(3), |swarm| swarm.connections.iter().all(|peer| peer.receipts > 0 || peer.is_closed));
    let count =
        |what: fn(&super::swarm::Connection) -> bool| swarm.connections.iter().filter(|peer| what(peer)).count();
    let note = format!("subscribed {}, refused {}", count(|peer| peer.receipts > 0), count(|peer| peer.errors > 0));
    (swarm, note)
}

/// Bars for sessions with the maximum number of subscriptions.
const GREEDY_BARS: [Bar; 2] = [Bar::Memory(64.0), Bar::Others(20.0)];

/// Such a session sends something that makes the node publish.
fn provoked_messages(binary: &str, topic: &str, frame: &str, times: usize) -> Outcome {
    let mut stage = AttackStage::new(binary);
    if topic == "/blocks" {
        let transfers = stage.payer.sign(FULL_BLOCK, 0);
        let height = stage.client.height();
        announce(&mut stage.client, &transfers);
        while stage.client.height() < height + 2 {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    stage.begin();
    let (mut swarm, subscribed) = open_greedy_sessions(&stage, topic, 16 * 1024);
    // Each in its own message: the node accepts only the first requests of one message.
    (0..times).for_each(|_| swarm.send(0, &messages_of([frame.to_owned()])));
    swarm.run_until_silence(SILENCE, MAX_WAIT);
    let notes = vec![subscribed, format!("{} messages", swarm.messages), format!("{} closed", swarm.closed)];
    stage.end(notes, &GREEDY_BARS)
}

/// Errors of bad requests are published on `/errors`.
pub fn errors(binary: &str) -> Outcome {
    provoked_messages(binary, "/errors", "SEND\ndestination:/w/api/account/get\n\n{}\0", 256)
}

/// Requests of the last block, which was full.
pub fn last_block(binary: &str) -> Outcome {
    provoked_messages(binary, "/blocks", "SEND\ndestination:/w/api/block/last\n\n\0", 32)
}

/// Only payments, without any attack.
pub fn next_block(binary: &str) -> Outcome {
    let mut stage = AttackStage::new(binary);
    let transfers = stage.payer.sign(FULL_BLOCK, 0);
    stage.begin();
    let (mut swarm, subscribed) = open_greedy_sessions(&stage, "/blocks", PIECE);
    announce(&mut stage.client, &transfers);
    swarm.run(MAX_WAIT / 2, |swarm| full_blocks(swarm).next().is_some());
    swarm.run(Duration::from_secs(3), |_| false);
    let notes = vec![subscribed, format!("{} messages", swarm.messages), format!("{} closed", swarm.closed)];
    stage.end(notes, &GREEDY_BARS)
}

/// Iterates over the full blocks that were published.
fn full_blocks(swarm: &Swarm) -> impl Iterator<Item = &Delivery> {
    swarm.deliveries.values().filter(|delivery| delivery.bytes > FULL_BLOCK_BYTES)
}

/// Returns the seconds between the first and the last session that got each message.
pub fn spreads<'d>(deliveries: impl Iterator<Item = &'d Delivery>) -> Vec<f64> {
    deliveries.map(|delivery| (delivery.last - delivery.first).as_secs_f64()).collect()
}

/// Opens many sessions of many addresses, subscribed to a topic.
fn open_subscribers(stage: &AttackStage, topic: &str) -> Swarm {
    let mut swarm = Swarm::new(stage.node.websocket, PIECE);
    let part = ConnectionScript::session(subscribe(&[topic.to_owned()]));
    swarm.open(SUBSCRIBERS, remote_address, part);
    swarm.run(MAX_WAIT, |swarm| swarm.connections.iter().all(|peer| peer.receipts > 0 || peer.is_closed));
    let count = swarm.connections.iter().filter(|peer| peer.receipts > 0).count();
    assert!(count * 10 > SUBSCRIBERS * 9, "only {count} sessions could subscribe");
    swarm
}

/// Blocks without and with messages.
pub fn subscribers(binary: &str) -> Outcome {
    published_blocks(binary, 0)
}

pub fn subscribers_of_messages(binary: &str) -> Outcome {
    published_blocks(binary, 1_000)
}

/// Publishes three full blocks one after another.
fn published_blocks(binary: &str, message: usize) -> Outcome {
    const BLOCKS: usize = 3;
    let mut stage = AttackStage::new(binary);
    let mut swarm = open_subscribers(&stage, "/blocks");
    let transfers = stage.payer.sign(BLOCKS * FULL_BLOCK, message);
    stage.begin();
    announce(&mut stage.client, &transfers);
    swarm.run(MAX_WAIT, |swarm| full_blocks(swarm).filter(|block| block.times == SUBSCRIBERS).count() >= BLOCKS);
    let mut spreads = spreads(full_blocks(&swarm));
    let least = full_blocks(&swarm).map(|block| block.times).min().unwrap_or(0);
    let bytes = full_blocks(&swarm).map(|block| block.bytes).max().unwrap_or(0);
    let notes = vec![
        format!("{} full blocks of up to {bytes} bytes to at least {least} of {SUBSCRIBERS}", spreads.len()),
        format!("first to last {}", in_millis(&mut spreads)),
        format!("{} closed", swarm.closed),
    ];
    let all = Bar::Is("each gets every block", least == SUBSCRIBERS);
    let fast = Bar::Is("first to last <= 100 ms", spreads.last().is_some_and(|longest| *longest <= 0.1));
    drop(swarm);
    let mut outcome = stage.end(notes, &[Bar::Memory(16.0), Bar::Others(20.0), fast, all]);
    outcome.notes.push(format!("bare writes {}", in_millis(&mut bare::delivery_times(SUBSCRIBERS, bytes))));
    outcome
}

/// Each session is subscribed to the height, and to the account and the transactions of an address of its own; some of
/// these are paid in each round.
pub fn owners(binary: &str) -> Outcome {
    const ROUNDS: usize = 5;
    let mut stage = AttackStage::new(binary);
    let mut swarm = Swarm::new(stage.node.websocket, PIECE);
    let owners: Vec<Address> = (0..SUBSCRIBERS as u64).map(|number| address(&key_pair(1_000_000 + number))).collect();
    for (number, owner) in owners.iter().enumerate() {
        let topics = ["/blocks/new".to_owned(), format!("/account/{owner}"), format!("/transactions/{owner}")];
        swarm.open(1, |_| remote_address(number), ConnectionScript::session(subscribe(&topics)));
    }
    swarm.run(MAX_WAIT, |swarm| swarm.connections.iter().all(|peer| peer.receipts > 0 || peer.is_closed));
    let transfers: Vec<_> = owners.iter().take(ROUNDS * FULL_BLOCK).map(|owner| stage.payer.sign_to(*owner)).collect();
    stage.begin();
    let confirmed = |swarm: &Swarm| swarm.deliveries_on("/transactions/").count();
    for (round, transfers) in (1..).zip(transfers.chunks(FULL_BLOCK)) {
        announce(&mut stage.client, transfers);
        swarm.run(MAX_WAIT, |swarm| confirmed(swarm) >= round * FULL_BLOCK);
    }
    swarm.run_until_silence(SILENCE, MAX_WAIT / 2);
    let mut spreads = spreads(swarm.deliveries_on("/blocks/new"));
    let (told, closed) = (confirmed(&swarm), swarm.closed);
    let notes = vec![format!("heights, first to last {}", in_millis(&mut spreads)), format!("{closed} closed")];
    let all = Bar::Is("each is told of its payment", told == ROUNDS * FULL_BLOCK);
    stage.end(notes, &[Bar::Others(20.0), all])
}

/// Transfers one after another, each published to all.
pub fn unconfirmed(binary: &str) -> Outcome {
    const ANNOUNCEMENTS: usize = 60;
    const BETWEEN: Duration = Duration::from_millis(100);
    let mut stage = AttackStage::new(binary);
    let mut swarm = open_subscribers(&stage, "/unconfirmed");
    let transfers = stage.payer.sign(ANNOUNCEMENTS, 0);
    stage.begin();
    let processor = stage.cpu_seconds();
    for transfer in &transfers {
        let next = Instant::now() + BETWEEN;
        announce(&mut stage.client, std::slice::from_ref(transfer));
        swarm.run(next.saturating_duration_since(Instant::now()), |_| false);
    }
    swarm.run_until_silence(SILENCE, MAX_WAIT / 2);
    let processor = (stage.cpu_seconds() - processor) / ANNOUNCEMENTS as f64 * 1e3;
    let mut spreads = spreads(swarm.deliveries.values());
    let least = swarm.deliveries.values().map(|one| one.times).min().unwrap_or(0);
    let notes = vec![
        format!("{} transfers to at least {least} of {SUBSCRIBERS}", spreads.len()),
        format!("first to last {}", in_millis(&mut spreads)),
        format!("processor {processor:.1} ms each"),
    ];
    let all = Bar::Is("each is told of all", least == SUBSCRIBERS && spreads.len() == ANNOUNCEMENTS);
    stage.end(notes, &[Bar::Memory(16.0), Bar::Others(20.0), all])
}
