//! Streams of events: many, of many addresses, unread, dropped, and resumed nowhere.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use socket2::{Domain, Socket, Type};

use super::payer::announce;
use super::published::{ATTACKER, remote_address};
use super::stage::{AttackStage, Bar, Outcome};
use crate::common::http::{get, post};
use crate::common::private_network::{NETWORK, address, key_pair};
use crate::support::in_millis;
use nisd::crypto::PublicKey;
use nisd::model::Address;

/// Number of streams with one address each.
const STREAMS: usize = 5_000;
/// Streams of one attacker, and addresses of each.
const GREEDY_STREAMS: usize = 250;
const GREEDY_ADDRESSES: u32 = 10_000;
/// Transactions in a full block.
const FULL_BLOCK: usize = 120;
const MAX_WAIT: Duration = Duration::from_secs(15);
/// Connections opened at a time.
const BURST: usize = 100;
/// What a stream sends for each transaction.
const TRANSACTION: &[u8] = b"\nevent: transaction\n";

/// A stream as a client sees it.
struct Stream {
    socket: TcpStream,
    /// The end of what was read, which may be the start of [`TRANSACTION`].
    tail: Vec<u8>,
    status: u16,
    transactions: usize,
    last: Instant,
    is_closed: bool,
}

/// Many streams, read by one thread.
struct Streams {
    poll: Poll,
    events: Events,
    to: SocketAddr,
    all: Vec<Stream>,
    reads: bool,
    buffer: Vec<u8>,
}

impl Streams {
    fn new(to: SocketAddr, reads: bool) -> Streams {
        let (poll, events) = (Poll::new().expect("a poll"), Events::with_capacity(4096));
        Streams { poll, events, to, all: Vec::new(), reads, buffer: vec![0; 64 * 1024] }
    }

    /// Opens a stream; the request is small enough for the kernel.
    fn open(&mut self, from: Ipv4Addr, request: &[u8]) {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.bind(&SocketAddr::from((from, 0)).into()).expect("an address of this machine");
        socket.connect(&self.to.into()).expect("a connection");
        let mut socket = std::net::TcpStream::from(socket);
        socket.write_all(request).expect("a request");
        socket.set_nonblocking(true).expect("a socket that does not block");
        let mut socket = TcpStream::from_std(socket);
        if self.reads {
            let token = Token(self.all.len());
            self.poll.registry().register(&mut socket, token, Interest::READABLE).expect("a place in the poll");
        }
        let (tail, last) = (Vec::new(), Instant::now());
        self.all.push(Stream { socket, tail, status: 0, transactions: 0, last, is_closed: false });
        if self.all.len() % BURST == 0 {
            self.run(Duration::from_millis(20), |_| false);
        }
    }

    fn run(&mut self, limit: Duration, mut done: impl FnMut(&Streams) -> bool) -> bool {
        let begun = Instant::now();
        while !done(self) {
            let left = limit.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return false;
            }
            self.poll.poll(&mut self.events, Some(left.min(Duration::from_millis(5)))).expect("events");
            for event in &self.events {
                self.all[event.token().0].read(&mut self.buffer);
            }
        }
        true
    }

    fn transactions(&self) -> usize {
        self.all.iter().map(|stream| stream.transactions).sum()
    }

    fn count(&self, status: u16) -> usize {
        self.all.iter().filter(|stream| stream.status == status && !stream.is_closed).count()
    }
}

impl Stream {
    fn read(&mut self, buffer: &mut [u8]) {
        loop {
            match self.socket.read(buffer) {
                Ok(0) => return self.is_closed = true,
                Ok(count) => self.take(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => return self.is_closed = true,
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        if self.status == 0 {
            self.status =
                self.tail.get(9..12).and_then(|code| std::str::from_utf8(code).ok()?.parse().ok()).unwrap_or(0);
        }
        let found = self.tail.windows(TRANSACTION.len()).filter(|window| *window == TRANSACTION).count();
        if found > 0 {
            (self.transactions, self.last) = (self.transactions + found, Instant::now());
        }
        let kept = self.tail.len().min(TRANSACTION.len() - 1);
        self.tail.drain(..self.tail.len() - kept);
    }
}

/// Each stream is for an account of its own; 120 of them are paid in each block.
pub fn streams(binary: &str) -> Outcome {
    const BLOCKS: usize = 3;
    let mut stage = AttackStage::new(binary);
    let owners: Vec<Address> = (0..STREAMS as u64).map(|number| address(&key_pair(1_000_000 + number))).collect();
    let transfers: Vec<_> = owners.iter().take(BLOCKS * FULL_BLOCK).map(|owner| stage.payer.sign_to(*owner)).collect();
    stage.begin();
    let mut streams = Streams::new(stage.node.http, true);
    for (number, owner) in owners.iter().enumerate() {
        streams.open(remote_address(number), get(&format!("/events?address={owner}")).as_bytes());
    }
    streams.run(MAX_WAIT, |streams| streams.count(200) == STREAMS);
    let processor = stage.cpu_seconds();
    let mut spreads = Vec::new();
    for (round, transfers) in (1..).zip(transfers.chunks(FULL_BLOCK)) {
        announce(&mut stage.client, transfers);
        streams.run(MAX_WAIT, |streams| streams.transactions() >= round * FULL_BLOCK);
        let told = &streams.all[(round - 1) * FULL_BLOCK..round * FULL_BLOCK];
        let (first, last) = (told.iter().map(|one| one.last).min(), told.iter().map(|one| one.last).max());
        spreads.extend(first.zip(last).map(|(first, last)| (last - first).as_secs_f64()));
    }
    let processor = (stage.cpu_seconds() - processor) / BLOCKS as f64 * 1e3;
    let (told, open) = (streams.transactions(), streams.count(200));
    let notes = vec![
        format!("{open} of {STREAMS} streams open, {told} payments told"),
        format!("first to last {}", in_millis(&mut spreads)),
        format!("processor {processor:.0} ms a round of announcements and a block"),
    ];
    let all = Bar::Is("each is told of its payment", told == BLOCKS * FULL_BLOCK && open == STREAMS);
    let fast = Bar::Is("first to last <= 100 ms", spreads.last().is_some_and(|longest| *longest <= 0.1));
    // 2 KiB each, and what the connections and their table take.
    stage.end(notes, &[Bar::Memory(32.0), Bar::Others(20.0), fast, all])
}

/// One attacker has as many streams as it may, each of as many addresses as it may, while blocks are full.
pub fn addresses(binary: &str) -> Outcome {
    let mut stage = AttackStage::new(binary);
    let key =
        |number: u32| PublicKey([number.to_be_bytes().as_slice(), &[9; 28]].concat().try_into().expect("32 bytes"));
    let name = |number| format!("\"{}\"", Address::from_public_key(&key(number), NETWORK));
    let names: Vec<_> = (0..GREEDY_ADDRESSES).map(name).collect();
    let request = post("/events?from=1", &format!("{{\"addresses\":[{}]}}", names.join(",")));
    let transfers = stage.payer.sign(2 * FULL_BLOCK, 0);
    stage.begin();
    let processor = stage.cpu_seconds();
    let mut streams = Streams::new(stage.node.http, true);
    (0..GREEDY_STREAMS).for_each(|_| streams.open(ATTACKER, request.as_bytes()));
    streams.run(MAX_WAIT, |streams| streams.all.iter().all(|one| one.status > 0 || one.is_closed));
    let opened = (stage.cpu_seconds() - processor) * 1e3 / GREEDY_STREAMS as f64;
    announce(&mut stage.client, &transfers);
    streams.run(Duration::from_secs(4), |_| false);
    let notes = vec![
        format!("{} of {GREEDY_STREAMS} streams open", streams.count(200)),
        format!("processor {opened:.1} ms for opening one"),
    ];
    stage.end(notes, &[Bar::Memory(144.0), Bar::Others(20.0)])
}

/// Streams of the whole chain that nobody reads, from twelve addresses.
pub fn unread(binary: &str) -> Outcome {
    const ADDRESSES: usize = 12;
    const EACH: usize = 200;
    let mut stage = AttackStage::new(binary);
    let transfers = stage.payer.sign(4 * FULL_BLOCK, 1_000);
    announce(&mut stage.client, &transfers);
    std::thread::sleep(Duration::from_secs(5));
    stage.begin();
    let mut streams = Streams::new(stage.node.http, false);
    for number in 0..ADDRESSES * EACH {
        let from = Ipv4Addr::new(127, 2, 0, 1 + (number % ADDRESSES) as u8);
        streams.open(from, get("/events?from=1&kinds=block,transaction").as_bytes());
    }
    std::thread::sleep(Duration::from_secs(8));
    stage.end(vec![format!("{} streams", streams.all.len())], &[Bar::Memory(144.0), Bar::Others(20.0)])
}

/// Streams that are opened and dropped, as many as the rate limits allow, from forty addresses.
pub fn dropped(binary: &str) -> Outcome {
    repeated(binary, |_| get("/events?from=1&confirmations=0"), 200)
}

/// Streams that are to go on after blocks that no chain has.
pub fn nowhere(binary: &str) -> Outcome {
    repeated(binary, |number| get(&format!("/events?after=1.end.{:016x}", number * 7 + 1)), 400)
}

/// Sends a request on new connections over and over, and drops each connection soon.
fn repeated(binary: &str, request: impl Fn(usize) -> String, status: u16) -> Outcome {
    const ADDRESSES: usize = 40;
    const PER_SECOND: f64 = 1_800.0;
    const OPEN: usize = 400;
    let mut stage = AttackStage::new(binary);
    let transfers = stage.payer.sign(FULL_BLOCK, 0);
    announce(&mut stage.client, &transfers);
    std::thread::sleep(Duration::from_secs(2));
    stage.begin();
    let (begun, processor) = (Instant::now(), stage.cpu_seconds());
    let mut streams = Streams::new(stage.node.http, true);
    let (mut opened, mut good) = (0, 0);
    while begun.elapsed() < Duration::from_secs(8) {
        while (opened as f64) < begun.elapsed().as_secs_f64() * PER_SECOND {
            if streams.all.len() >= OPEN {
                good += streams.all.iter().filter(|one| one.status == status).count();
                let to = streams.to;
                streams = Streams::new(to, true);
            }
            let from = Ipv4Addr::new(127, 2, 0, 1 + (opened % ADDRESSES) as u8);
            streams.open(from, request(opened).as_bytes());
            opened += 1;
        }
        streams.run(Duration::from_millis(1), |_| false);
    }
    let each = (stage.cpu_seconds() - processor) * 1e3 / opened as f64;
    let notes = vec![format!("{opened} opened, {good} with {status}, processor {each:.2} ms each")];
    let is_served = Bar::Is("most are answered as they should be", good * 10 > opened * 6);
    stage.end(notes, &[Bar::Memory(64.0), Bar::Others(20.0), is_served])
}
