//! Attacks by what sessions send.

use std::net::Ipv4Addr;
use std::time::Duration;

use nisd::crypto::PublicKey;
use nisd::model::Address;

use super::payer::announce;
use super::published::ATTACKER;
use super::reader::{MAX_MESSAGE, messages_of};
use super::stage::{AttackStage, Bar, Outcome, Setup};
use super::swarm::{ConnectionScript, Swarm};
use crate::common::Random;
use crate::common::private_network::{NETWORK, private_key};
use crate::common::websocket::{TEXT, encode};

const CONNECT: &str = "CONNECT\naccept-version:1.2\n\n\0";
const LOCAL: Ipv4Addr = Ipv4Addr::LOCALHOST;

fn subscribe(id: &str, topic: &str) -> String {
    format!("SUBSCRIBE\nid:{id}\ndestination:{topic}\nreceipt:done\n\n\0")
}

/// Returns a request about an account.
fn request(name: &str, account: &Address) -> String {
    format!("SEND\ndestination:/w/api/{name}\n\n{{\"account\":\"{account}\"}}\0")
}

/// Opens a session that has sent frames; the last one is acknowledged by a receipt.
fn session(stage: &AttackStage, from: Ipv4Addr, frames: impl IntoIterator<Item = String>) -> Swarm {
    let mut swarm = Swarm::new(stage.node.websocket, 16 * 1024);
    let first = messages_of(std::iter::once(CONNECT.to_owned()).chain(frames));
    swarm.open(1, |_| from, ConnectionScript::session(first));
    let is_there = swarm.run(Duration::from_secs(5), |swarm| swarm.connections[0].receipts > 0);
    assert!(is_there, "a session cannot subscribe");
    swarm
}

/// More requests at once than a session may have pending; measures the effect on a remote client.
pub fn overflow(binary: &str) -> Outcome {
    const REQUESTS: usize = 600;
    let mut stage = AttackStage::new(binary);
    let mut stranger = session(&stage, LOCAL, [subscribe("errors", "/errors")]);
    let mut hog = session(&stage, ATTACKER, [subscribe("errors", "/errors")]);
    stage.begin();
    let bad = "SEND\ndestination:/w/api/account/get\n\n{}\0";
    hog.send(0, &messages_of(std::iter::repeat_n(bad.to_owned(), REQUESTS)));
    hog.run_until_silence(Duration::from_millis(500), Duration::from_secs(5));
    stranger.run(Duration::from_secs(1), |_| false);
    let (told, told_stranger) = (hog.connections[0].messages + hog.connections[0].errors, stranger.messages);
    let notes = vec![format!("the one who asked is told {told} times, the stranger {told_stranger} times")];
    let bars = [Bar::Is("the stranger is told nothing", told_stranger == 0), Bar::Others(20.0)];
    stage.end(notes, &bars)
}

/// Frames as fast as the node accepts them, from sessions with many subscriptions.
pub fn frames(binary: &str) -> Outcome {
    const SUBSCRIPTIONS: usize = 990;
    let mut stage = AttackStage::new(binary);
    let mut swarm = Swarm::new(stage.node.websocket, 16 * 1024);
    let many = (0..SUBSCRIPTIONS).map(|number| subscribe(&number.to_string(), &format!("/blocks/{number}")));
    let pair = "SUBSCRIBE\nid:x\ndestination:/errors\n\n\0UNSUBSCRIBE\nid:x\n\n\0";
    let forever = encode(true, TEXT, pair.repeat(MAX_MESSAGE / pair.len()).as_bytes());
    let first = messages_of(std::iter::once(CONNECT.to_owned()).chain(many));
    stage.begin();
    swarm.open(40, |_| ATTACKER, ConnectionScript { upgrades: true, first, forever, reconnects: true });
    swarm.run(Duration::from_secs(10), |_| false);
    let (frames, closed) = (swarm.rounds * (MAX_MESSAGE / pair.len() * 2), swarm.closed);
    let notes = vec![format!("{} messages, {frames} frames in 10 s, {closed} times closed", swarm.rounds)];
    stage.end(notes, &[Bar::Others(20.0)])
}

/// Returns an address that nobody has the key of.
fn random_address(number: u64) -> Address {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&Random(number).next().to_le_bytes());
    Address::from_public_key(&PublicKey(key), NETWORK)
}

/// One client fills the registry; then another one wants to be notified of its payments.
pub fn registrations(binary: &str) -> Outcome {
    const ADDRESSES: u64 = 1_050_000;
    let all = messages_of((0..ADDRESSES).map(|number| request("account/subscribe", &random_address(number))));
    let mut stage = AttackStage::new(binary);
    stage.begin();
    let mut hog = session(&stage, ATTACKER, [subscribe("errors", "/errors")]);
    hog.send(0, &all);
    hog.run(Duration::from_secs(15), |swarm| swarm.connections[0].unsent() == 0 || swarm.connections[0].is_closed);
    let share = 1.0 - hog.connections[0].unsent() as f64 / all.len() as f64;
    hog.run_until_silence(Duration::from_millis(500), Duration::from_secs(5));
    let (own, mut other) = (random_address(ADDRESSES), session(&stage, LOCAL, [subscribe("errors", "/errors")]));
    let frames = [request("account/subscribe", &own), subscribe("own", &format!("/unconfirmed/{own}"))];
    other.send(0, &messages_of(frames));
    other.run(Duration::from_secs(2), |swarm| swarm.connections[0].receipts > 1);
    let transfer = stage.payer.sign_to(own);
    announce(&mut stage.client, &[transfer]);
    let is_told = other.run(Duration::from_secs(3), |swarm| messages_on(swarm, "/unconfirmed/") > 0);
    let (messages, errors) = (hog.connections[0].messages, hog.connections[0].errors);
    let notes = vec![
        format!("{:.0} registrations sent", share * ADDRESSES as f64),
        format!("{messages} messages and {errors} errors to the one who did, {} closed", hog.closed),
    ];
    stage.end(notes, &[Bar::Is("another one is told of its payment", is_told), Bar::Others(20.0)])
}

/// Returns the number of messages on topics with this prefix.
fn messages_on(swarm: &Swarm, topic: &str) -> usize {
    swarm.deliveries_on(topic).map(|delivery| delivery.times).sum()
}

/// A remote client requests a payment repeatedly, before and after its confirmation; a subscriber of the recipient must
/// be notified of each once.
pub fn repeated_requests(binary: &str) -> Outcome {
    const TIMES: usize = 10;
    let setup = Setup { settings: &[("nis.shouldAutoHarvestOnBoot", "false")], limit: None };
    let mut stage = AttackStage::with(binary, &setup);
    let own = random_address(7);
    let topics = ["/unconfirmed".to_owned(), format!("/unconfirmed/{own}"), format!("/transactions/{own}")];
    let frames = topics.iter().enumerate().map(|(number, topic)| subscribe(&number.to_string(), topic));
    let mut victim = session(&stage, LOCAL, std::iter::once(request("account/subscribe", &own)).chain(frames));
    let mut stranger = session(&stage, ATTACKER, [subscribe("errors", "/errors")]);
    stage.begin();
    let transfer = stage.payer.sign_to(own);
    announce(&mut stage.client, &[transfer]);
    stranger.send(0, &messages_of(std::iter::repeat_n(request("account/transfers/unconfirmed", &own), TIMES)));
    stranger.run(Duration::from_millis(500), |_| false);
    harvest(&mut stage);
    victim.run(Duration::from_secs(5), |swarm| messages_on(swarm, "/transactions/") > 0);
    let last = "SEND\ndestination:/w/api/block/last\n\n\0".to_owned();
    stranger.send(0, &messages_of(std::iter::repeat_n(last, TIMES)));
    stranger.run(Duration::from_millis(100), |_| false);
    victim.run(Duration::from_secs(1), |_| false);
    let told: Vec<usize> = topics.iter().map(|topic| messages_on(&victim, &format!("{topic} "))).collect();
    let notes = vec![format!("told {} times unconfirmed, {} confirmed", told[1], told[2])];
    stage.end(notes, &[Bar::Is("once each", told == [1, 1, 1])])
}

/// Starts harvesting on a node that did not harvest so far.
pub fn harvest(stage: &mut AttackStage) {
    let body = format!("{{\"value\":\"{}\"}}", *private_key(super::payer::HARVESTER).printed());
    let answer = stage.client.post("/account/unlock", &body);
    assert_eq!(answer.status, 200, "{answer:?}");
}
