//! How fast one client can announce, and the effect on other clients.
//!
//! A node is on a private network with a block every ten seconds. In each round a client announces 20,000 previously
//! signed transfers on one connection, once waiting for every answer and once with 32 requests in flight; every answer
//! must be SUCCESS. Meanwhile, and until all are confirmed, another client sends 200 queries per second, and a session
//! subscribed to `/unconfirmed` must be notified of every transfer exactly once. In the same round this process
//! verifies the same signatures back to back, before and after. NISD_TRANSACTIONS, NISD_ROUNDS and NISD_BLOCK (maximum
//! transactions per block) change the size.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::load::{Load, ResponseTimes, Sample};
use super::support::{Memory, cpu_seconds, folder, median, print_machine, seconds, wait_for_blocks};
use crate::common::daemon::{Node, args};
use crate::common::from_environment;
use crate::common::http::{Client, authorization, get, post_with};
use crate::common::node_network::announcement;
use crate::common::private_network::{self, Genesis, NETWORK, address, key_pair, now, transfer};
use crate::common::websocket::Socket;
use nisd::crypto::{KeyPair, PublicKey, Signature, Verifier, verify};
use nisd::model::{Address, Amount, Transaction};

/// Number of senders; their keys have the numbers from 2 on.
const SENDERS: u64 = 2_000;
/// Key number of the harvester.
const HARVESTER: u64 = 1;
/// Balances of the harvester and of each sender in whole units.
const SHARES: [u64; 2] = [8_000_000_000, 100_000];
const WINDOWS: [usize; 2] = [1, 32];
/// Blocks are made every ten seconds: the next one after a block of this age falls into the announcements.
const BLOCK_AGE: Duration = Duration::from_millis(8_500);
/// Maximum wait.
const MAX_WAIT: Duration = Duration::from_secs(300);

/// Measurements of a round.
struct Round {
    window: usize,
    begun: Instant,
    announced: f64,
    /// Processor time of the node during the announcements.
    processor: f64,
    /// Seconds of plain verification, and of verification with a key cache.
    verified: [f64; 2],
}

pub fn run(_: &[String]) -> ExitCode {
    print_machine();
    let count = from_environment("NISD_TRANSACTIONS").unwrap_or(20_000);
    let rounds = from_environment("NISD_ROUNDS").unwrap_or(3);
    let per_block: u32 = from_environment("NISD_BLOCK").unwrap_or(2_500);
    let folder = folder();
    let [harvesting, other] = SHARES.map(Amount::whole);
    let amount = |number| if number == HARVESTER { harvesting } else { other };
    let funded: Vec<_> = (1..SENDERS + 2).map(|number| (address(&key_pair(number)), amount(number))).collect();
    let key = private_network::private_key(HARVESTER).printed();
    let settings = [
        ("nis.bootKey", key.as_str()),
        ("nis.blockGenerationTargetTime", "10"),
        ("nis.blockChainFeatures", "PROOF_OF_STAKE|WB_IMMEDIATE_VESTING|STABILIZE_BLOCK_TIMES"),
        ("nis.maxTransactionsPerBlock", &per_block.to_string()),
        ("nis.maxTransactions", &(per_block * 10).to_string()),
    ];
    let node = Node::start(args!["--config", Genesis::new(now(), &funded).write(folder.path(), &settings)]);
    let memory = || Memory::of(node.process.id());
    println!("{count} transfers of {SENDERS} accounts, at most {per_block} in a block; at the start: {}", memory());
    let mut watcher = Client::connect(node.http);
    let senders: Vec<KeyPair> = (2..SENDERS + 2).map(key_pair).collect();
    let (mut found, mut samples) = (Vec::new(), Vec::new());
    for round in 0..rounds * WINDOWS.len() {
        let recipient = address(&key_pair(1_000_000 + round as u64));
        let transfers = sign(&senders, count, recipient);
        let before = time_verification(&transfers);
        wait_for_blocks(&mut watcher, 1);
        std::thread::sleep(BLOCK_AGE);
        let window = WINDOWS[round % WINDOWS.len()];
        let (mut one, those) = run_round(&node, &mut watcher, &transfers, window, &recipient);
        let after = time_verification(&transfers);
        one.verified = [0, 1].map(|kind| (before[kind] + after[kind]) / 2.0);
        one.report(&those);
        println!("  {}", memory());
        found.push(one);
        samples.extend(those);
    }
    println!();
    WINDOWS.iter().for_each(|window| summarise(found.iter().filter(|round| round.window == *window)));
    println!("{}", ResponseTimes::of(&samples));
    println!("memory at the end: {}", memory());
    ExitCode::SUCCESS
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
    let mut verifier = Verifier::default();
    [
        seconds(|| assert!(signed.iter().all(|(key, data, signature)| verify(key, data, signature) == Ok(true)))),
        seconds(|| {
            assert!(signed.iter().all(|(key, data, signature)| verifier.verify(key, data, signature) == Ok(true)));
        }),
    ]
}

/// Runs one round until all transfers are confirmed.
fn run_round(
    node: &Node,
    watcher: &mut Client,
    transfers: &[Transaction],
    window: usize,
    recipient: &Address,
) -> (Round, Vec<Sample>) {
    let local = authorization(node.http);
    let announce = |transfer| post_with("/transaction/announce", &announcement(transfer), &local);
    let requests: Vec<String> = transfers.iter().map(announce).collect();
    let mut client = Client::connect(node.http);
    let mut socket = Socket::connected(node.websocket);
    socket.subscribe("all", "/unconfirmed");
    let (count, process) = (transfers.len() as u64, node.process.id());
    let signers: Vec<Address> = transfers.iter().map(|transfer| transfer.signer_address(NETWORK)).collect();
    let (begun, processor) = (Instant::now(), cpu_seconds(process));
    let load = Load::local(200, 1).start(node.http, move |number| match number % 2 {
        0 => get("/chain/height"),
        _ => get(&format!("/account/get?address={}", signers[number as usize % signers.len()])),
    });
    let told = std::thread::spawn(move || received_numbers(&mut socket, count));
    announce_all(&mut client, &requests, window);
    let (announced, processor) = (begun.elapsed().as_secs_f64(), cpu_seconds(process) - processor);
    watch_blocks(watcher, recipient, count, begun);
    let samples = load.stop(begun, Instant::now());
    assert_eq!(told.join().expect("a subscriber"), (0..count).collect(), "told of every transfer exactly once");
    (Round { window, begun, announced, processor, verified: [0.0; 2] }, samples)
}

/// Announces all transfers with at most `window` unanswered requests.
fn announce_all(client: &mut Client, requests: &[String], window: usize) {
    let mut sent = 0;
    for answered in 0..requests.len() {
        if sent - answered <= window / 2 {
            let next = requests.len().min(answered + window);
            client.send(requests[sent..next].concat());
            sent = next;
        }
        let answer = client.answer();
        assert!(answer.status == 200 && answer.text().contains("\"message\":\"SUCCESS\""), "{answered}: {answer:?}");
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
    let total: u64 = (0..count).map(|number| 1_000_000 + number).sum();
    loop {
        let account = watcher.get(&format!("/account/get?address={recipient}")).json();
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

impl Round {
    fn report(&self, samples: &[Sample]) {
        let Round { window, begun, announced, processor, verified: [plain, remembering] } = self;
        println!(
            "window {window}: announced in {announced:.2} s ({processor:.2} s of processor time), \
             signatures verified in {plain:.2} s, with a memory for keys {remembering:.2} s: ratio {:.2}, {:.2}",
            plain / announced,
            remembering / announced,
        );
        let due = |sample: &Sample| (sample.due - *begun).as_secs_f64();
        for (name, early) in [("while announcing", true), ("after that", false)] {
            let those = samples.iter().filter(|sample| (due(sample) < *announced) == early);
            println!("  {name}: {}", ResponseTimes::of(those));
        }
        let slow: Vec<_> = samples.iter().filter(|sample| sample.took > 0.02).collect();
        let show = |sample: &&&Sample| format!(" {:.2}:{:.0}ms", due(sample), sample.took * 1e3);
        let times: String = slow.iter().take(12).map(|sample| show(&sample)).collect();
        println!("  slower than 20 ms: {} of {}{times}", slow.len(), samples.len());
    }
}

fn summarise<'a>(rounds: impl Iterator<Item = &'a Round> + Clone) {
    let Some(first) = rounds.clone().next() else { return };
    let print = |name: &str, of: &dyn Fn(&Round) -> f64| {
        let mut values: Vec<f64> = rounds.clone().map(of).collect();
        let middle = median(&mut values);
        println!("  {name}: {middle:.2} ({:.2} to {:.2})", values[0], values[values.len() - 1]);
    };
    println!("window {}, median and range of the rounds", first.window);
    print("seconds to announce", &|round| round.announced);
    print("processor time of the node meanwhile", &|round| round.processor);
    print("ratio to plain verification", &|round| round.verified[0] / round.announced);
    print("ratio to verification that remembers keys", &|round| round.verified[1] / round.announced);
}
