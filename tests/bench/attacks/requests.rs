//! Attacks by requests that cost more than others.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use super::frames::harvest;
use super::payer::{RICH, announce};
use super::published::{ATTACKER, remote_address};
use super::reader::messages_of;
use super::stage::{AttackStage, Bar, Outcome, Setup};
use super::swarm::{ConnectionScript, Swarm};
use crate::common::http::{post, post_binary};
use crate::common::private_network::{address, block, key_pair, now, transfer_with_message};
use crate::support::{quantile, wait_for_blocks};
use nisd::codec::Format;
use nisd::model::network::ChainParameters;
use nisd::model::{Amount, Hash256};
use nisd::peer::wire::{SecureEntity, limits};

const MIB: usize = 1 << 20;
const MAX_WAIT: Duration = Duration::from_secs(15);

/// Requests of remote clients, each on a connection that waits for the answer.
pub struct RequestRun {
    swarm: Swarm,
    /// Seconds until the answers arrived.
    response_times: Vec<f64>,
}

impl RequestRun {
    pub fn new(stage: &AttackStage, count: usize, from: impl Fn(usize) -> Ipv4Addr) -> RequestRun {
        let mut swarm = Swarm::new(stage.node.http, 16 * 1024);
        swarm.open(count, from, ConnectionScript::endless(b"", Vec::new()));
        RequestRun { swarm, response_times: Vec::new() }
    }

    /// Sends a request on each connection once its previous answer has arrived, at a total rate, until the limit.
    pub fn send_requests(&mut self, request: impl AsRef<[u8]>, per_second: f64, limit: Duration) {
        let begun = Instant::now();
        let mut asked: Vec<Option<(usize, Instant)>> = vec![None; self.swarm.connections.len()];
        let mut sent = 0;
        while begun.elapsed() < limit || asked.iter().any(Option::is_some) && begun.elapsed() < 2 * limit {
            // All take turns, because each may have its own address.
            let count = asked.len();
            for index in (0..count).map(|index| (index + sent) % count) {
                let (peer, slot) = (&self.swarm.connections[index], &mut asked[index]);
                if let Some((answers, since)) = *slot
                    && (peer.answers != answers || peer.is_closed)
                {
                    self.response_times.extend((peer.answers > answers).then(|| since.elapsed().as_secs_f64()));
                    *slot = None;
                }
                let due = begun.elapsed().as_secs_f64() * per_second;
                if slot.is_none() && (sent as f64) < due && begun.elapsed() < limit && !peer.is_closed {
                    *slot = Some((peer.answers, Instant::now()));
                    sent += 1;
                    self.swarm.send(index, request.as_ref());
                    break;
                }
            }
            self.swarm.drive_once(Duration::from_micros(500));
        }
    }

    /// Sends one request; returns the status of the answer.
    fn send_one(&mut self, request: &str) -> u16 {
        self.swarm.run(Duration::from_secs(1), |swarm| !swarm.connections[0].is_closed);
        let before = self.swarm.connections[0].answers;
        self.swarm.send(0, request.as_bytes());
        self.swarm.run(MAX_WAIT, |swarm| swarm.connections[0].answers > before || swarm.connections[0].is_closed);
        if self.swarm.connections[0].answers > before { self.swarm.connections[0].status } else { 0 }
    }

    pub fn notes(&mut self) -> Vec<String> {
        let (count, longest) = (self.response_times.len(), quantile(&mut self.response_times, 1.0) * 1e3);
        vec![format!("{count} answers ({}), the longest after {longest:.0} ms", self.swarm.answers())]
    }
}

/// Number of mosaics of the account that batches ask about.
const MOSAICS: usize = 20;

/// Lets an account define mosaics, which it then owns.
fn define_mosaics(stage: &mut AttackStage) {
    let (rent, definitions) = stage.payer.sign_mosaics(MOSAICS);
    announce(&mut stage.client, &[rent]);
    wait_for_blocks(&mut stage.client, 2);
    announce(&mut stage.client, &definitions);
    wait_for_blocks(&mut stage.client, 2);
}

/// Returns a list of one repeated account that fits into this many bytes.
fn batch_of(bytes: usize) -> String {
    let element = format!("{{\"account\":\"{}\"}}", address(&key_pair(RICH)));
    let count = (bytes - "{\"data\":[]}".len()) / (element.len() + 1);
    format!("{{\"data\":[{}]}}", vec![element; count].join(","))
}

/// Returns the largest body up to 1 MiB that is not rejected for its length, by halving.
fn largest(asking: &mut RequestRun, path: &str, refused: &[u16], body: fn(usize) -> String) -> String {
    let mut lengths = std::iter::successors(Some(MIB), |length| (*length > 64).then_some(length / 2));
    let length = lengths.find(|length| !refused.contains(&asking.send_one(&post(path, &body(*length)))));
    body(length.expect("a body that is short enough"))
}

/// One account as often as fits.
pub fn batch(binary: &str, is_largest: bool) -> Outcome {
    const PATH: &str = "/account/mosaic/owned/definition/batch";
    let mut stage = AttackStage::new(binary);
    define_mosaics(&mut stage);
    let body = if is_largest {
        largest(&mut RequestRun::new(&stage, 1, |_| ATTACKER), PATH, &[0, 400, 413], batch_of)
    } else {
        batch_of(MIB)
    };
    let mut asking = RequestRun::new(&stage, 4, |_| ATTACKER);
    stage.begin();
    asking.send_requests(post(PATH, &body), 10.0, Duration::from_secs(4));
    let notes = [vec![format!("{} bytes", body.len())], asking.notes()].concat();
    stage.end(notes, &[Bar::Others(5.0)])
}

/// Returns an object with as many keys as fit.
fn keys_of(bytes: usize) -> String {
    const DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let mut body = String::from("{");
    for number in 0..(bytes - 16) / 8 {
        let key = [number / 62 / 62 % 62, number / 62 % 62, number % 62].map(|digit| char::from(DIGITS[digit]));
        body.extend(['"', key[0], key[1], key[2], '"', ':', '1', ',']);
    }
    body.push_str("\"height\":1}");
    body
}

/// Long objects at the rate limit of a remote client.
pub fn keys(binary: &str, path: &str) -> Outcome {
    let mut stage = AttackStage::new(binary);
    let mut probe = RequestRun::new(&stage, 1, |_| ATTACKER);
    let body = match path {
        "/block/at/public" => keys_of(MIB),
        _ => largest(&mut probe, path, &[0, 413], keys_of),
    };
    let mut asking = RequestRun::new(&stage, 20, |_| ATTACKER);
    stage.begin();
    asking.send_requests(post(path, &body), 45.0, Duration::from_secs(6));
    let notes = [vec![format!("{} bytes", body.len())], asking.notes()].concat();
    stage.end(notes, &[Bar::Others(20.0)])
}

/// Remote clients push a block of maximum size that does not follow any of the node's blocks: it is decoded and hashed
/// all the same.
pub fn pushed_blocks(binary: &str) -> Outcome {
    /// Minimum size of a transfer with a long message in bytes.
    const TRANSFER: usize = 1_210;
    let mut stage = AttackStage::new(binary);
    let most = limits::pushed(&ChainParameters::after_all_forks(), Format::Binary);
    let (keys, fee) = (key_pair(RICH), Amount(1));
    let transfer = |_| transfer_with_message(&keys, address(&keys), fee, &[7; 1_000], fee, now());
    let transfers: Vec<_> = (0..most / TRANSFER).map(transfer).collect();
    let block = block(&keys, 2, now(), Hash256([9; 32]), transfers);
    let body = Format::Binary.to_bytes(&SecureEntity::sign(block, &keys, None));
    assert!(body.len() <= most, "{} of {most} bytes", body.len());
    let mut asking = RequestRun::new(&stage, 10, |number| Ipv4Addr::new(127, 0, 0, 2 + number as u8));
    stage.begin();
    asking.send_requests(post_binary("/push/block", &body), 50.0, Duration::from_secs(6));
    let notes = [vec![format!("{} bytes", body.len())], asking.notes()].concat();
    stage.end(notes, &[Bar::Others(20.0), Bar::Memory(32.0)])
}

/// Starts a node with this many transfers that does not harvest yet.
fn with_big_mempool(binary: &str) -> AttackStage {
    const TRANSFERS: usize = 2_500;
    let settings = [
        ("nis.shouldAutoHarvestOnBoot", "false"),
        ("nis.maxTransactionsPerBlock", "2500"),
        ("nis.maxTransactions", "25000"),
    ];
    let mut stage = AttackStage::with(binary, &Setup { settings: &settings, limit: None });
    let transfers = stage.payer.sign(TRANSFERS, 0);
    announce(&mut stage.client, &transfers);
    stage
}

/// The block is made, processed, and published to some.
pub fn big_block(binary: &str) -> Outcome {
    let mut stage = with_big_mempool(binary);
    let mut swarm = Swarm::new(stage.node.websocket, 512);
    let first = messages_of(["CONNECT\n\n\0SUBSCRIBE\nid:x\ndestination:/blocks\n\n\0".to_owned()]);
    swarm.open(50, remote_address, ConnectionScript::session(first));
    swarm.run(Duration::from_secs(1), |_| false);
    stage.begin();
    harvest(&mut stage);
    swarm.run(MAX_WAIT, |swarm| swarm.messages >= 50);
    swarm.run(Duration::from_secs(1), |_| false);
    let bytes = swarm.deliveries.values().map(|block| block.bytes).max().unwrap_or(0);
    stage.end(vec![format!("{bytes} bytes told to 50")], &[Bar::Longest(20.0)])
}

/// Remote clients request it within their rate limits.
pub fn big_block_requests(binary: &str) -> Outcome {
    let mut stage = with_big_mempool(binary);
    harvest(&mut stage);
    wait_for_blocks(&mut stage.client, 1);
    let mut asking = RequestRun::new(&stage, 10, |number| Ipv4Addr::new(127, 0, 0, 2 + number as u8));
    stage.begin();
    asking.send_requests(post("/block/at/public", "{\"height\":2}"), 450.0, Duration::from_secs(6));
    let notes = asking.notes();
    stage.end(notes, &[Bar::Others(20.0)])
}
