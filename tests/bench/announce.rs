//! How fast one client can announce, and the effect on other clients.
//!
//! `cargo bench --bench announce` runs a node on a private network with a block every ten seconds. In each round a
//! client announces 20,000 previously signed transfers on one connection, once waiting for every answer and once with
//! 32 requests in flight; every answer must be SUCCESS. Meanwhile, and until all are confirmed, another client sends
//! 200 queries per second on a fixed schedule, and a session subscribed to `/unconfirmed` must be notified of every
//! transfer exactly once. A thread that only wakes up on the same schedule measures the delay of the machine itself. In
//! the same round this process verifies the same signatures back to back, before and after. NISD_TRANSACTIONS,
//! NISD_ROUNDS and NISD_BLOCK (maximum transactions per block) change the size.

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::data::from_environment;
use common::data::private_network::{self, Genesis, address, key_pair, now, transfer};
use common::data::websocket::Socket;
use common::{Client, Node};
use nisd::codec::SigningForm;
use nisd::crypto::{KeyPair, PublicKey, Signature, Verifier, verify};
use nisd::model::{Address, Amount, Transaction};

const BINARY: &str = env!("CARGO_BIN_EXE_nisd");
/// Number of senders; their keys have the numbers from 2 on.
const SENDERS: u64 = 2_000;
/// Key number of the harvester.
const HARVESTER: u64 = 1;
/// Balances of the harvester and of each sender in whole units.
const SHARES: [u64; 2] = [8_000_000_000, 100_000];
const WINDOWS: [usize; 2] = [1, 32];
const PER_SECOND: u64 = 200;
/// Blocks are made every ten seconds: the next one after a block of this age falls into the announcements.
const BLOCK_AGE: Duration = Duration::from_millis(8_500);
/// Maximum wait.
const MAX_WAIT: Duration = Duration::from_secs(300);

/// Measurements of a round.
struct Round {
    window: usize,
    announced: f64,
    /// Processor time of the node during the announcements.
    processor: f64,
    /// Seconds of plain verification, and of verification with a key cache.
    verified: [f64; 2],
}

/// A query: its scheduled time after the first announcement, and the time from then to its answer.
struct QueryTime {
    due: f64,
    response_time: f64,
}

fn main() {
    println!("{}", common::machine());
    let count = from_environment("NISD_TRANSACTIONS").unwrap_or(20_000);
    let rounds = from_environment("NISD_ROUNDS").unwrap_or(3);
    let per_block: u32 = from_environment("NISD_BLOCK").unwrap_or(2_500);
    let folder = common::folder();
    let node = start(folder.path(), per_block);
    let mut watcher = node.first_answer();
    println!(
        "{count} transfers of {SENDERS} accounts, at most {per_block} in a block; at the start: {}",
        node.memory()
    );
    let senders: Vec<KeyPair> = (2..SENDERS + 2).map(key_pair).collect();
    let (mut found, mut waits, mut late) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds * WINDOWS.len() {
        let recipient = address(&key_pair(1_000_000 + round as u64));
        let transfers = sign(&senders, count, recipient);
        let before = time_verification(&transfers);
        wait_for_old_block(&mut watcher);
        let (mut one, mut those, mut woken) =
            run_round(&node, &mut watcher, &transfers, WINDOWS[round % WINDOWS.len()], &recipient);
        let after = time_verification(&transfers);
        one.verified = [0, 1].map(|kind| (before[kind] + after[kind]) / 2.0);
        report(&one, &mut those, &node);
        println!("  a thread that only wakes up is late by: {}", common::in_millis(&mut woken));
        found.push(one);
        waits.append(&mut those);
        late.append(&mut woken);
    }
    println!();
    WINDOWS.iter().for_each(|window| summarise(found.iter().filter(|round| round.window == *window)));
    let mut all: Vec<f64> = waits.iter().map(|wait| wait.response_time).collect();
    println!("{} queries in all: {}", all.len(), common::in_millis(&mut all));
    println!("a thread that only wakes up is late by: {}", common::in_millis(&mut late));
    println!("memory at the end: {}", node.memory());
}

/// Starts a node on a network that begins now.
fn start(folder: &Path, per_block: u32) -> Node {
    let amount = |number| Amount::whole(SHARES[usize::from(number != HARVESTER)]);
    let funded: Vec<_> = (1..SENDERS + 2).map(|number| (address(&key_pair(number)), amount(number))).collect();
    let key = private_network::private_key(HARVESTER).printed();
    let more = [
        ("nis.bootKey", key.as_str()),
        ("nis.blockGenerationTargetTime", "10"),
        ("nis.blockChainFeatures", "PROOF_OF_STAKE|WB_IMMEDIATE_VESTING|STABILIZE_BLOCK_TIMES"),
        ("nis.maxTransactionsPerBlock", &per_block.to_string()),
        ("nis.maxTransactions", &(per_block * 10).to_string()),
    ];
    Node::private(BINARY, folder, &Genesis::new(now(), &funded).write(folder, &more))
}

/// Signs transfers that are numbered by their amounts.
fn sign(senders: &[KeyPair], count: u64, recipient: Address) -> Vec<Transaction> {
    let (time, fee) = (now(), Amount(500_000));
    let senders = senders.iter().cycle().zip(0..count);
    senders.map(|(from, number)| transfer(from, recipient, Amount(1_000_000 + number), fee, time)).collect()
}

/// Returns the seconds needed to verify all signatures, without and with a key cache.
fn time_verification(transfers: &[Transaction]) -> [f64; 2] {
    let signed = transfers.iter().map(|one| (one.signer, one.signed_bytes(), one.signature.expect("signed")));
    let signed: Vec<(PublicKey, Vec<u8>, Signature)> = signed.collect();
    let begun = Instant::now();
    assert!(signed.iter().all(|(signer, data, signature)| verify(signer, data, signature) == Ok(true)));
    let plain = begun.elapsed().as_secs_f64();
    let (mut verifier, begun) = (Verifier::default(), Instant::now());
    assert!(signed.iter().all(|(signer, data, signature)| verifier.verify(signer, data, signature) == Ok(true)));
    [plain, begun.elapsed().as_secs_f64()]
}

fn wait_for_old_block(watcher: &mut Client) {
    let begun = Instant::now();
    let height = watcher.height();
    while watcher.height() == height {
        std::thread::sleep(Duration::from_millis(10));
        assert!(begun.elapsed() < MAX_WAIT, "no blocks come");
    }
    std::thread::sleep(BLOCK_AGE);
}

/// Runs one round until all transfers are confirmed.
fn run_round(
    node: &Node,
    watcher: &mut Client,
    transfers: &[Transaction],
    window: usize,
    recipient: &Address,
) -> (Round, Vec<QueryTime>, Vec<f64>) {
    let requests: Vec<String> = transfers.iter().map(request).collect();
    let mut client = Client::connect(node.http).expect("a connection");
    let mut socket = Socket::open(node.websocket);
    socket.text("CONNECT\n\n\0");
    socket.next_text();
    socket.subscribe("all", "/unconfirmed");
    let (done, count) = (&AtomicBool::new(false), transfers.len() as u64);
    std::thread::scope(|scope| {
        let (begun, processor) = (Instant::now(), node.cpu_seconds());
        let queries = scope.spawn(move || query_on_schedule(node, transfers, begun, done));
        let woken = scope.spawn(move || wake_on_schedule(begun, done));
        let told = scope.spawn(move || received_numbers(&mut socket, count));
        announce(&mut client, &requests, window);
        let announced = begun.elapsed().as_secs_f64();
        let processor = node.cpu_seconds() - processor;
        watch_blocks(watcher, recipient, count, begun);
        done.store(true, Ordering::Relaxed);
        assert_eq!(told.join().expect("a subscriber"), (0..count).collect(), "told of every transfer exactly once");
        let waits = queries.join().expect("a client");
        let woken = woken.join().expect("a thread");
        (Round { window, announced, processor, verified: [0.0; 2] }, waits, woken)
    })
}

fn request(transfer: &Transaction) -> String {
    let (data, signature) =
        (hex::encode(transfer.to_bytes(SigningForm::NonVerifiable)), transfer.signature.expect("signed"));
    let body = format!("{{\"data\":\"{data}\",\"signature\":\"{}\"}}", hex::encode(signature.0));
    let length = body.len();
    format!(
        "POST /transaction/announce HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
}

/// Announces all transfers with at most `window` unanswered requests.
fn announce(client: &mut Client, requests: &[String], window: usize) {
    let mut sent = 0;
    for answered in 0..requests.len() {
        if sent - answered <= window / 2 {
            let next = requests.len().min(answered + window);
            client.send(&requests[sent..next].concat()).expect("a connection");
            sent = next;
        }
        let (status, body) = client.answer().expect("an answer");
        let text = String::from_utf8_lossy(body);
        assert!(status == 200 && text.contains("\"message\":\"SUCCESS\""), "announcement {answered}: {status} {text}");
    }
}

/// Returns the numbers of the transfers that a subscriber is notified of; each must arrive once.
fn received_numbers(socket: &mut Socket, count: u64) -> BTreeSet<u64> {
    let mut told = BTreeSet::new();
    for _ in 0..count {
        let message = socket.next_stomp().json("/unconfirmed", "all");
        let number = message["amount"].as_u64().expect("an amount") - 1_000_000;
        assert!(told.insert(number), "told twice of transfer {number}");
    }
    let more = socket.next_within(Duration::from_secs(1));
    assert!(more.is_none(), "told of more than was announced: {more:?}");
    told
}

/// Waits until all are confirmed and prints the blocks.
fn watch_blocks(watcher: &mut Client, recipient: &Address, count: u64, begun: Instant) {
    let (mut height, mut text) = (watcher.height(), String::new());
    let target = format!("/account/get?address={recipient}");
    let total: u64 = (0..count).map(|number| 1_000_000 + number).sum();
    loop {
        let (_, body) = watcher.get(&target).expect("an answer");
        let account: serde_json::Value = serde_json::from_slice(body).expect("JSON");
        let balance = account["account"]["balance"].as_u64().expect("a balance");
        let now = watcher.height();
        if now > height {
            height = now;
            text += &format!(" {:.1}", begun.elapsed().as_secs_f64());
        }
        if balance == total {
            break;
        }
        assert!(begun.elapsed() < MAX_WAIT, "{balance} of {total} are confirmed");
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("blocks after (seconds):{text}");
}

/// Sends queries on a fixed schedule, whatever the node does.
fn query_on_schedule(node: &Node, transfers: &[Transaction], begun: Instant, done: &AtomicBool) -> Vec<QueryTime> {
    let mut client = Client::connect(node.http).expect("a connection");
    let mut waits = Vec::new();
    for ((number, due), transfer) in (1u64..).zip(schedule(begun, done)).zip(transfers.iter().cycle()) {
        let target = match number % 2 {
            0 => "/chain/height".to_owned(),
            _ => format!("/account/get?address={}", transfer.signer_address(private_network::NETWORK)),
        };
        let (status, _) = client.get(&target).expect("an answer");
        assert_eq!(status, 200);
        waits.push(QueryTime { due: due.as_secs_f64(), response_time: (begun.elapsed() - due).as_secs_f64() });
    }
    waits
}

/// Sleeps until each query is due and yields its scheduled time; ends once everything is done.
fn schedule(begun: Instant, done: &AtomicBool) -> impl Iterator<Item = Duration> {
    let due = (1..).map(|number| Duration::from_micros(1_000_000 / PER_SECOND * number));
    due.take_while(move |due| {
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
        !done.load(Ordering::Relaxed)
    })
}

/// Returns the wakeup delays of a thread that has nothing to do with the node.
fn wake_on_schedule(begun: Instant, done: &AtomicBool) -> Vec<f64> {
    schedule(begun, done).map(|due| (begun.elapsed() - due).as_secs_f64()).collect()
}

fn report(round: &Round, waits: &mut [QueryTime], node: &Node) {
    let Round { window, announced, processor, verified } = round;
    let [plain, remembering] = verified;
    println!(
        "window {window}: announced in {announced:.2} s ({processor:.2} s of processor time), \
         signatures verified in {plain:.2} s, with a memory for keys {remembering:.2} s: ratio {:.2}, {:.2}",
        plain / announced,
        remembering / announced,
    );
    for (name, early) in [("while announcing", true), ("after that", false)] {
        let those = waits.iter().filter(|wait| (wait.due < *announced) == early);
        println!(
            "  queries {name}: {}",
            common::in_millis(&mut those.map(|wait| wait.response_time).collect::<Vec<_>>())
        );
    }
    let slow: Vec<_> = waits.iter().filter(|wait| wait.response_time > 0.02).collect();
    let times: String =
        slow.iter().take(12).map(|wait| format!(" {:.2}:{:.0}ms", wait.due, wait.response_time * 1e3)).collect();
    println!("  slower than 20 ms: {} of {}{times}", slow.len(), waits.len());
    println!("  {}", node.memory());
}

fn summarise<'a>(rounds: impl Iterator<Item = &'a Round> + Clone) {
    let Some(first) = rounds.clone().next() else { return };
    let figure = |name: &str, of: &dyn Fn(&Round) -> f64| {
        let mut values: Vec<f64> = rounds.clone().map(of).collect();
        let middle = common::median(&mut values);
        println!("  {name}: {middle:.2} ({:.2} to {:.2})", values[0], values[values.len() - 1]);
    };
    println!("window {}, median and range of the rounds", first.window);
    figure("seconds to announce", &|round| round.announced);
    figure("processor time of the node meanwhile", &|round| round.processor);
    figure("ratio to plain verification", &|round| round.verified[0] / round.announced);
    figure("ratio to verification that remembers keys", &|round| round.verified[1] / round.announced);
}
