//! Many subscribers, each of its own account, and full blocks.
//!
//! `bash -c 'ulimit -n 20000 && cargo bench --bench owners'` opens 5,000 sessions, each subscribed to `/blocks/new` and
//! to the account and the transactions of its own address. In each round, 120 of these addresses receive a transfer,
//! all confirmed by one block. It reports the time from the first answer with that height to another client until the
//! last resulting message, and until the last transfer message. This client reads all sessions in one thread, so the
//! time includes its own work. NISD_ROUNDS and NISD_SESSIONS change the size.

mod common;

use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use tungstenite::protocol::Role;
use tungstenite::{Message, WebSocket};

use common::data::from_environment;
use common::data::private_network::{self, Genesis, address, key_pair, now, transfer};
use common::sessions::open;
use common::{Client, MAX_WAIT, Node};
use nisd::codec::SigningForm;
use nisd::model::{Amount, Transaction};

const BINARY: &str = env!("CARGO_BIN_EXE_nisd");
/// Transfers in a block.
const TRANSFERS: u64 = 120;
/// Key number of the harvester; the senders follow.
const HARVESTER: u64 = 1;
/// Key number of the first subscribed address.
const FIRST_OWNER: u64 = 1_000_000;

/// A received message.
struct ReceivedMessage {
    /// Index of its subscription.
    subscription: u8,
    at: Instant,
}

fn main() {
    println!("{}", common::machine());
    let sessions = from_environment("NISD_SESSIONS").unwrap_or(5_000);
    let rounds = from_environment("NISD_ROUNDS").unwrap_or(5);
    let folder = common::folder();
    let funded: Vec<_> = (HARVESTER..=HARVESTER + TRANSFERS)
        .map(|number| {
            (address(&key_pair(number)), Amount::whole(if number == HARVESTER { 8_000_000_000 } else { 100_000 }))
        })
        .collect();
    let key = private_network::private_key(HARVESTER).printed();
    let more = [
        ("nis.bootKey", key.as_str()),
        ("nis.blockGenerationTargetTime", "10"),
        ("nis.blockChainFeatures", "PROOF_OF_STAKE|WB_IMMEDIATE_VESTING|STABILIZE_BLOCK_TIMES"),
    ];
    let node = Node::private(BINARY, folder.path(), &Genesis::new(now(), &funded).write(folder.path(), &more));
    node.first_answer();
    let mut crowd = SubscriberSet::of(sessions, &node);
    println!("{sessions} sessions, {} subscriptions: {}", 3 * sessions, node.memory());
    let (mut all, mut transfers) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let (last, last_transfer) = run_round(&node, &mut crowd, round, sessions);
        println!(
            "round {round}: last message {:.1} ms after the commit, last transfer {:.1} ms",
            last * 1e3,
            last_transfer * 1e3
        );
        all.push(last);
        transfers.push(last_transfer);
    }
    println!("commit to last message: {}", common::in_millis(&mut all));
    println!("commit to last transfer: {}", common::in_millis(&mut transfers));
    println!("{}", node.memory());
}

/// Runs a round; returns the seconds from the commit to the last message and to the last transfer.
fn run_round(node: &Node, crowd: &mut SubscriberSet, round: u64, sessions: u64) -> (f64, f64) {
    let mut client = Client::connect(node.http).expect("a connection");
    wait_for_new_block(&mut client);
    let owner = |number| FIRST_OWNER + (round * TRANSFERS + number) % sessions;
    for number in 0..TRANSFERS {
        let sender = key_pair(HARVESTER + 1 + number);
        let recipient = address(&key_pair(owner(number)));
        announce(&mut client, &transfer(&sender, recipient, Amount(1_000_000), Amount(500_000), now()));
    }
    let height = client.height();
    let committed = AtomicU64::new(0);
    let begun = Instant::now();
    let told = std::thread::scope(|scope| {
        scope.spawn(|| {
            while client.height() == height && begun.elapsed() < MAX_WAIT {
                std::thread::sleep(Duration::from_micros(300));
            }
            committed.store(begun.elapsed().as_micros() as u64, Ordering::Relaxed);
        });
        crowd.listen(TRANSFERS as usize, begun)
    });
    let committed = begun + Duration::from_micros(committed.load(Ordering::Relaxed));
    let after = |told: &ReceivedMessage| told.at.saturating_duration_since(committed).as_secs_f64();
    let latest =
        |kinds: &[u8]| told.iter().filter(|told| kinds.contains(&told.subscription)).map(after).fold(0.0, f64::max);
    (latest(&[0, 1, 2]), latest(&[2]))
}

fn wait_for_new_block(client: &mut Client) {
    let (height, begun) = (client.height(), Instant::now());
    while client.height() == height {
        std::thread::sleep(Duration::from_millis(10));
        assert!(begun.elapsed() < MAX_WAIT, "no blocks come");
    }
}

fn announce(client: &mut Client, transfer: &Transaction) {
    let (data, signature) =
        (hex::encode(transfer.to_bytes(SigningForm::NonVerifiable)), transfer.signature.expect("signed"));
    let body = format!("{{\"data\":\"{data}\",\"signature\":\"{}\"}}", hex::encode(signature.0));
    let request = format!(
        "POST /transaction/announce HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: \
         {}\r\n\r\n{body}",
        body.len()
    );
    let (status, answer) = client.send_request(&request).expect("an answer");
    let text = String::from_utf8_lossy(answer);
    assert!(status == 200 && text.contains("SUCCESS"), "{status} {text}");
}

/// Sessions read by one thread.
struct SubscriberSet {
    poll: Poll,
    sessions: Vec<WebSocket<TcpStream>>,
}

impl SubscriberSet {
    fn of(sessions: u64, node: &Node) -> SubscriberSet {
        let poll = Poll::new().expect("a poll");
        let mut crowd = SubscriberSet { poll, sessions: Vec::new() };
        for number in 0..sessions {
            let owner = address(&key_pair(FIRST_OWNER + number));
            let topics = ["/blocks/new", &format!("/account/{owner}"), &format!("/transactions/{owner}")];
            for socket in open(1, node.websocket, &topics) {
                let stream = socket.get_ref().try_clone().expect("a socket");
                stream.set_nonblocking(true).expect("a socket that does not block");
                let mut stream = TcpStream::from_std(stream);
                let token = Token(crowd.sessions.len());
                crowd.poll.registry().register(&mut stream, token, Interest::READABLE).expect("a place in the poll");
                crowd.sessions.push(WebSocket::from_raw_socket(stream, Role::Client, None));
            }
        }
        crowd
    }

    /// Reads until all sessions were notified of a block and `owners` of them of their account and a transfer that it
    /// confirms; returns the messages about that block.
    fn listen(&mut self, owners: usize, begun: Instant) -> Vec<ReceivedMessage> {
        let wanted = HashMap::from([(0, self.sessions.len()), (1, owners), (2, owners)]);
        let mut counts: HashMap<u8, usize> = HashMap::new();
        let (mut told, mut events) = (Vec::new(), Events::with_capacity(4096));
        while wanted.iter().any(|(subscription, count)| counts.get(subscription).copied().unwrap_or(0) < *count) {
            assert!(begun.elapsed() < MAX_WAIT, "told of {counts:?} instead of {wanted:?}");
            self.poll.poll(&mut events, Some(Duration::from_millis(200))).expect("events");
            for event in &events {
                let session = &mut self.sessions[event.token().0];
                loop {
                    match session.read() {
                        Ok(Message::Text(text)) => {
                            let Some(subscription) = subscription(text.as_str()) else { continue };
                            *counts.entry(subscription).or_default() += 1;
                            told.push(ReceivedMessage { subscription, at: Instant::now() });
                        }
                        Ok(_) => {}
                        Err(tungstenite::Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => break,
                        Err(error) => panic!("a session was closed: {error}"),
                    }
                }
            }
        }
        told
    }
}

/// Returns the index of the subscription that a message is for.
fn subscription(frame: &str) -> Option<u8> {
    frame.starts_with("MESSAGE").then_some(())?;
    frame.split_once("\nsubscription:")?.1.split('\n').next()?.parse().ok()
}
