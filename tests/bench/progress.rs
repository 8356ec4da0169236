//! Blocks a minute of a node that makes one every second, alone and beside peers that prove nothing.
//!
//! The peers claim to have a chain far ahead of the node's and never deliver it, or push siblings of its tip. NISD names
//! another program to measure; NISD_SECONDS sets the time for each line, and a word on the command line selects lines.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nisd::codec::{Format, Readable};
use nisd::model::{Amount, Block, Hash256, Timestamp};
use nisd::peer::wire::{CHALLENGE_BYTES, Challenge, HashChain, List, Score, SecureEntity};

use super::support::{folder, print_machine};
use crate::common::daemon::{Node, closed_port, nisd, wait_for};
use crate::common::http::{Client, post_binary};
use crate::common::node_network::write_peers;
use crate::common::private_network::{Genesis, TOTAL, address, block, key_pair, now, private_key};
use crate::common::{Random, from_environment};
use crate::scripted_peer::{
    AfterResponse, HonestPeer, ReceivedRequest, ScriptedPeer, ScriptedResponse, read, start_height,
};

/// Keys of the node, of the first peer, and of an account that owns nothing.
const OWN: u64 = 1;
const FIRST_PEER: u64 = 100;
const POOR: u64 = 150;
/// How many blocks the peers claim to be ahead, and by how much their score is better.
const CLAIMED_LEAD: u64 = 3_000;
const CLAIMED_SCORE_LEAD: i128 = 1 << 60;
/// Number of hashes that an answer may have.
const MAX_HASHES: usize = 400;
/// Delay of an answer within the time limit of a request.
const SLOW: Duration = Duration::from_secs(8);
/// Interval between pushes.
const PUSH_INTERVAL: Duration = Duration::from_millis(100);
/// Default time for each line in seconds.
const SECONDS: u64 = 60;

/// What a peer does when its blocks are requested.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stall {
    NoBlocks,
    Silent,
    Trickle,
    Fails,
    /// Blocks that it may not make.
    Unentitled,
    /// Such blocks, and every answer is slow.
    Slow,
    /// The truth and a lie in turn.
    Alternates,
}

const STALLS: [(Stall, &str); 7] = [
    (Stall::NoBlocks, "that sends no blocks"),
    (Stall::Silent, "that does not answer requests for blocks"),
    (Stall::Trickle, "that sends a byte of its blocks a second"),
    (Stall::Fails, "that answers requests for blocks with an error"),
    (Stall::Unentitled, "that sends blocks it may not make"),
    (Stall::Slow, "whose every answer takes 8 s"),
    (Stall::Alternates, "that tells the truth every second time"),
];

impl Stall {
    /// Answers a request; with the truth what it does not lie about, and if the node has ended.
    fn answer(self, request: &ReceivedRequest, node: &HonestPeer, scores: &AtomicUsize) -> ScriptedResponse {
        let path = request.path.as_str();
        let is_true = path == "/chain/score" && scores.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
        if is_true && self == Stall::Alternates {
            return ScriptedResponse::Truthful;
        }
        if self == Stall::Slow && path.starts_with("/chain/") {
            thread::sleep(SLOW);
        }
        let lie = match path {
            "/chain/score" => {
                ask(node, request).map(|Score(score)| ScriptedResponse::entity(&Score(score + CLAIMED_SCORE_LEAD)))
            }
            "/chain/last-block" => ask(node, request).map(|last: Block| {
                let height = last.height.0 + CLAIMED_LEAD;
                ScriptedResponse::entity(&block(&key_pair(FIRST_PEER), height, now(), invented_hash(), Vec::new()))
            }),
            "/chain/hashes-from" => ask(node, request).map(|HashChain(mut hashes)| {
                hashes.resize_with(MAX_HASHES, invented_hash);
                ScriptedResponse::entity(&HashChain(hashes))
            }),
            "/chain/blocks-after" => self.blocks(request, node),
            _ => None,
        };
        lie.unwrap_or(ScriptedResponse::Truthful)
    }

    fn blocks(self, request: &ReceivedRequest, node: &HonestPeer) -> Option<ScriptedResponse> {
        const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/binary\r\nContent-Length: 100000\r\n\r\n";
        const ERROR: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";
        let raw = |text: &str, after| ScriptedResponse::Raw(text.as_bytes().to_vec(), after);
        Some(match self {
            Stall::NoBlocks | Stall::Alternates => ScriptedResponse::entity(&List::<Block>(Vec::new())),
            Stall::Silent => raw("", AfterResponse::Hang),
            Stall::Trickle => raw(HEAD, AfterResponse::Drip(0)),
            Stall::Fails => raw(ERROR, AfterResponse::KeepOpen),
            Stall::Unentitled | Stall::Slow => {
                let (last, height) = (last_block(node)?, start_height(request) + 1);
                let block = block(&key_pair(POOR), height, now(), last.hash(), Vec::new());
                ScriptedResponse::entity(&List(vec![block]))
            }
        })
    }
}

/// Returns the node's own answer to a request.
fn ask<T: Readable>(node: &HonestPeer, request: &ReceivedRequest) -> Option<T> {
    node.entity(request).ok().map(|entity| read(&entity))
}

fn last_block(node: &HonestPeer) -> Option<Block> {
    let (method, path) = ("POST".to_owned(), "/chain/last-block".to_owned());
    let body = Format::Binary.to_bytes(&Challenge([1; CHALLENGE_BYTES]));
    ask(node, &ReceivedRequest { method, path, head: String::new(), body })
}

fn invented_hash() -> Hash256 {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let mut random = Random(NUMBER.fetch_add(1, Ordering::Relaxed) as u64);
    let mut hash = Hash256([7; 32]);
    hash.0[..8].copy_from_slice(&random.next().to_le_bytes());
    hash
}

/// Measures a node beside these peers, each at the address of its number; returns blocks a minute.
fn blocks_a_minute(stalls: &[(Stall, Ipv4Addr)], with_siblings: bool, seconds: u64) -> f64 {
    let (http, folder) = (closed_port(), folder());
    let start = |(number, (stall, ip)): (u64, &(Stall, Ipv4Addr))| {
        let (stall, scores) = (*stall, AtomicUsize::new(0));
        let script = move |request: &ReceivedRequest, node: &HonestPeer| stall.answer(request, node, &scores);
        ScriptedPeer::start(key_pair(FIRST_PEER + number), (*ip, 0).into(), HonestPeer(http), script)
    };
    let peers: Vec<_> = (0..).zip(stalls).map(start).collect();
    let genesis = Genesis::new(now(), &[(address(&key_pair(OWN)), Amount::whole(TOTAL))]);
    let port = http.port().to_string();
    let settings = [("nis.ipDetectionMode", "Disabled"), ("nem.host", "127.0.0.1"), ("nem.httpPort", &port)];
    let config = genesis.write_hasty(folder.path(), &private_key(OWN).printed(), &settings);
    write_peers(folder.path(), (FIRST_PEER..).zip(peers.iter().map(ScriptedPeer::endpoint)));
    let mut command = nisd(["run", "--bind", "127.0.0.1", "--http-port", &port, "--websocket-port", "0"]);
    command.arg("--config").arg(config).arg("--data").arg(folder.path().join("store"));
    let node = Node::from_command(command);
    let height = || wait_for("the last block", || last_block(&HonestPeer(node.http))).height.0;
    wait_for("a chain", || (height() >= 5).then_some(()));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        if with_siblings {
            scope.spawn(|| push_siblings(http, &is_over));
        }
        let (begun, first) = (Instant::now(), height());
        thread::sleep(Duration::from_secs(seconds));
        let made = height() - first;
        is_over.store(true, Ordering::Relaxed);
        made as f64 * 60.0 / begun.elapsed().as_secs_f64()
    })
}

/// Pushes siblings of the tip whose signer may not make them.
fn push_siblings(node: SocketAddr, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let Some(last) = last_block(&HonestPeer(node)) else { return };
        let parent = last.previous_hash.0.first_chunk().copied().unwrap_or_default();
        let sibling = block(
            &key_pair(POOR),
            last.height.0,
            Timestamp(last.timestamp.0 - 1),
            Hash256(parent),
            last.transactions.clone(),
        );
        let pushed = Format::Binary.to_bytes(&SecureEntity::sign(sibling, &key_pair(FIRST_PEER), None));
        if let Ok(stream) = TcpStream::connect(node) {
            let mut client = Client::from_stream(stream);
            let _ = client.try_send(post_binary("/push/block", &pushed)).and_then(|()| client.try_answer().map(drop));
        }
        thread::sleep(PUSH_INTERVAL);
    }
}

pub fn run(words: &[String]) -> ExitCode {
    print_machine();
    let seconds = from_environment("NISD_SECONDS").unwrap_or(SECONDS);
    let alone = blocks_a_minute(&[], false, seconds);
    println!("{:64} {alone:5.1} blocks a minute", "alone");
    let print = |what: &str, stalls: &[(Stall, Ipv4Addr)], with_siblings| {
        if words.iter().all(|word| what.contains(word)) {
            let beside = blocks_a_minute(stalls, with_siblings, seconds);
            println!("{what:64} {beside:5.1} blocks a minute, ratio {:.2}", beside / alone);
        }
    };
    let one: Ipv4Addr = [127, 0, 1, 1].into();
    for (stall, what) in STALLS {
        print(&format!("beside one {what}"), &[(stall, one)], false);
    }
    print("beside one that pushes siblings of the tip", &[(Stall::NoBlocks, one)], true);
    let of_each_kind = |number: usize| STALLS[number % STALLS.len()].0;
    let group: Vec<_> = (0..7).map(|number| (of_each_kind(number), [127, 0, 1 + number as u8, 1].into())).collect();
    print("beside seven, one of each kind", &group, false);
    let group: Vec<_> = (0..14).map(|number| (of_each_kind(number), one)).collect();
    print("beside fourteen at one address, and siblings", &group, true);
    ExitCode::SUCCESS
}
