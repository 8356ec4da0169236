//! Many connections driven by one thread.

use std::collections::{BTreeMap, HashMap};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use rustix::net::{RecvFlags, recv};
use socket2::{Domain, Socket, Type};

use super::reader::{Arrival, Delivery, Reader, message_length, message_name};
use crate::common::websocket::upgrade_request;

/// Connections opened at a time, so that they fit into the queue of the listening socket.
const BURST: usize = 100;
/// System calls on one connection before the next one's turn.
const CALLS_PER_TURN: usize = 8;
/// Interval between two reconnections after closes.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(20);

/// What a connection does.
#[derive(Clone, Default)]
pub struct ConnectionScript {
    /// It starts with an upgrade.
    pub upgrades: bool,
    /// What it then sends once.
    pub first: Vec<u8>,
    /// What it sends repeatedly after that.
    pub forever: Vec<u8>,
    /// It reconnects when the node has closed it.
    pub reconnects: bool,
}

impl ConnectionScript {
    /// Returns the script of a client that sends something once.
    pub fn request(first: impl Into<Vec<u8>>) -> ConnectionScript {
        ConnectionScript { first: first.into(), ..ConnectionScript::default() }
    }

    /// Returns the script of a websocket that then sends something once.
    pub fn session(first: impl Into<Vec<u8>>) -> ConnectionScript {
        ConnectionScript { upgrades: true, ..ConnectionScript::request(first) }
    }

    /// Returns the script of a client that reconnects, and sends something over and over.
    pub fn endless(first: &[u8], forever: Vec<u8>) -> ConnectionScript {
        ConnectionScript { forever, reconnects: true, ..ConnectionScript::request(first) }
    }
}

/// A connection.
pub struct Connection {
    part: Rc<ConnectionScript>,
    from: Ipv4Addr,
    stream: TcpStream,
    reader: Reader,
    out: Vec<u8>,
    sent: usize,
    /// Bytes of `forever` sent in this round.
    forever_sent: usize,
    /// What follows the upgrade is in `out`.
    has_started: bool,
    readable: bool,
    writable: bool,
    is_queued: bool,
    pub answers: usize,
    pub messages: usize,
    pub receipts: usize,
    pub errors: usize,
    /// Status of the last answer.
    pub status: u16,
    /// The node has closed it.
    pub is_closed: bool,
}

/// All connections.
pub struct Swarm {
    poll: Poll,
    events: Events,
    to: SocketAddr,
    /// Buffer for one read; what follows the start of a message is discarded unread.
    piece: Vec<u8>,
    discard_buffer: Vec<u8>,
    queue: Vec<usize>,
    pub connections: Vec<Connection>,
    pub deliveries: HashMap<Vec<u8>, Delivery>,
    pub statuses: BTreeMap<u16, usize>,
    pub codes: BTreeMap<u16, usize>,
    /// Messages of all sessions.
    pub messages: usize,
    /// Number of connections closed by the node, including those that reconnected.
    pub closed: usize,
    /// How often `forever` was sent completely.
    pub rounds: usize,
    last_reconnect: Instant,
}

impl Swarm {
    /// Creates an empty swarm that will connect to one address and read `piece` bytes at a time.
    pub fn new(to: SocketAddr, piece: usize) -> Swarm {
        Swarm {
            poll: Poll::new().expect("a poll"),
            events: Events::with_capacity(4096),
            to,
            piece: vec![0; piece],
            discard_buffer: vec![0; 1 << 20],
            queue: Vec::new(),
            connections: Vec::new(),
            deliveries: HashMap::new(),
            statuses: BTreeMap::new(),
            codes: BTreeMap::new(),
            messages: 0,
            closed: 0,
            rounds: 0,
            last_reconnect: Instant::now(),
        }
    }

    /// Opens `count` connections, each from the address for its number, several at a time, and drives them meanwhile.
    pub fn open(&mut self, count: usize, from: impl Fn(usize) -> Ipv4Addr, part: ConnectionScript) {
        let part = Rc::new(part);
        for number in 0..count {
            let (token, from) = (Token(self.connections.len()), from(number));
            let peer = Connection::connect(part.clone(), from, self.to, token, &self.poll);
            self.connections.push(peer);
            if number % BURST == BURST - 1 {
                self.run(Duration::from_millis(20), |_| false);
            }
        }
        self.drive_once(Duration::ZERO);
    }

    /// Sends something on a connection.
    pub fn send(&mut self, index: usize, bytes: &[u8]) {
        let peer = &mut self.connections[index];
        peer.out.extend_from_slice(bytes);
        if !std::mem::replace(&mut peer.is_queued, true) {
            self.queue.push(index);
        }
    }

    /// Iterates over the messages on topics with this prefix.
    pub fn deliveries_on(&self, topic: &str) -> impl Iterator<Item = &Delivery> {
        let found = self.deliveries.iter().filter(move |(name, _)| name.starts_with(topic.as_bytes()));
        found.map(|(_, delivery)| delivery)
    }

    /// Returns how often each status was answered.
    pub fn answers(&self) -> String {
        let all: Vec<_> = self.statuses.iter().map(|(status, count)| format!("{count} x {status}")).collect();
        if all.is_empty() { "no answer".to_owned() } else { all.join(" ") }
    }

    /// Returns how often a status was answered.
    pub fn count(&self, status: u16) -> usize {
        self.statuses.get(&status).copied().unwrap_or(0)
    }

    /// Drives all connections until `done` or the time limit; returns whether it is done.
    pub fn run(&mut self, limit: Duration, mut done: impl FnMut(&Swarm) -> bool) -> bool {
        let begun = Instant::now();
        while !done(self) {
            let left = limit.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return false;
            }
            self.drive_once(left.min(Duration::from_millis(5)));
        }
        true
    }

    /// Drives all connections until no message has arrived for `silence`.
    pub fn run_until_silence(&mut self, silence: Duration, limit: Duration) {
        let (begun, mut before, mut since) = (Instant::now(), self.messages, Instant::now());
        while since.elapsed() < silence && begun.elapsed() < limit {
            self.drive_once(Duration::from_millis(5));
            if std::mem::replace(&mut before, self.messages) != before {
                since = Instant::now();
            }
        }
    }

    /// Does what can be done now, or waits for an event.
    pub fn drive_once(&mut self, wait: Duration) {
        let wait = if self.queue.is_empty() { wait } else { Duration::ZERO };
        self.poll.poll(&mut self.events, Some(wait)).expect("events");
        for event in &self.events {
            let peer = &mut self.connections[event.token().0];
            peer.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
            peer.writable |= event.is_writable();
            if !std::mem::replace(&mut peer.is_queued, true) {
                self.queue.push(event.token().0);
            }
        }
        for index in std::mem::take(&mut self.queue) {
            self.connections[index].is_queued = false;
            self.write(index);
            self.read(index);
            let peer = &mut self.connections[index];
            peer.is_queued = !peer.is_closed && (peer.readable || peer.writable && peer.has_output());
            if peer.is_queued {
                self.queue.push(index);
            }
        }
        self.reconnect_one();
    }

    fn write(&mut self, index: usize) {
        let peer = &mut self.connections[index];
        for _ in 0..CALLS_PER_TURN {
            if peer.is_closed || !peer.writable || !peer.has_output() {
                return;
            }
            match peer.write_some() {
                Ok(is_round) => self.rounds += usize::from(is_round),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => {
                    peer.writable = false;
                }
                Err(_) => return self.close(index),
            }
        }
    }

    fn read(&mut self, index: usize) {
        for _ in 0..CALLS_PER_TURN {
            let peer = &mut self.connections[index];
            if peer.is_closed || !peer.readable {
                return;
            }
            let count = match peer.reader.skippable() {
                0 => peer.stream.read(&mut self.piece),
                // The system discards them, which costs neither side a copy.
                bytes => {
                    let waste = &mut self.discard_buffer[..bytes.min(1 << 20)];
                    recv(&peer.stream, waste, RecvFlags::TRUNC).map(|(_, count)| count).map_err(std::io::Error::from)
                }
            };
            match count {
                Ok(0) => return self.close(index),
                Ok(count) if peer.reader.skippable() > 0 => {
                    if let Some(text) = peer.reader.record_skipped(count) {
                        self.messages += usize::from(peer.record_text(&text, &mut self.deliveries));
                    }
                }
                Ok(count) => self.take(index, count),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => {
                    peer.readable = false;
                }
                Err(_) => return self.close(index),
            }
        }
    }

    /// Counts what the first bytes of the buffer mean for a connection.
    fn take(&mut self, index: usize, count: usize) {
        let Swarm { connections: peers, piece, deliveries: told, statuses, codes, .. } = self;
        let peer = &mut peers[index];
        let mut reader = std::mem::take(&mut peer.reader);
        reader.take(&piece[..count], |arrival| match arrival {
            Arrival::Answer(status) => {
                *statuses.entry(status).or_default() += 1;
                (peer.answers, peer.status) = (peer.answers + 1, status);
            }
            Arrival::Close(code) => *codes.entry(code).or_default() += 1,
            Arrival::Text(text) => self.messages += usize::from(peer.record_text(text, told)),
        });
        peer.reader = reader;
        if peer.part.upgrades && peer.reader.is_websocket() && !std::mem::replace(&mut peer.has_started, true) {
            peer.out.extend_from_slice(&peer.part.first);
        }
    }

    fn close(&mut self, index: usize) {
        self.connections[index].is_closed = true;
        self.closed += 1;
    }

    /// Reconnects one of the returning connections if it is time.
    fn reconnect_one(&mut self) {
        if self.closed == 0 || self.last_reconnect.elapsed() < RECONNECT_INTERVAL {
            return;
        }
        self.last_reconnect = Instant::now();
        if let Some(index) = self.connections.iter().position(|peer| peer.is_closed && peer.part.reconnects) {
            let (part, from) = (self.connections[index].part.clone(), self.connections[index].from);
            self.connections[index] = Connection::connect(part, from, self.to, Token(index), &self.poll);
        }
    }
}

impl Connection {
    fn connect(part: Rc<ConnectionScript>, from: Ipv4Addr, to: SocketAddr, token: Token, poll: &Poll) -> Connection {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket; see ulimit -n");
        socket.set_nonblocking(true).expect("a socket that does not block");
        socket.set_tcp_nodelay(true).expect("no delay");
        socket.bind(&SocketAddr::from((from, 0)).into()).expect("an address of this machine");
        // Connecting continues in the background; its result is seen at the next read or write.
        let _ = socket.connect(&to.into());
        let mut stream = TcpStream::from_std(socket.into());
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut stream, token, interest).expect("a place in the poll");
        let out = if part.upgrades { upgrade_request().into_bytes() } else { part.first.clone() };
        Connection {
            has_started: !part.upgrades,
            part,
            from,
            stream,
            reader: Reader::default(),
            out,
            sent: 0,
            forever_sent: 0,
            readable: false,
            writable: false,
            is_queued: false,
            answers: 0,
            messages: 0,
            receipts: 0,
            errors: 0,
            status: 0,
            is_closed: false,
        }
    }

    /// Records a text; returns whether it was a message.
    fn record_text(&mut self, text: &[u8], told: &mut HashMap<Vec<u8>, Delivery>) -> bool {
        let Some(name) = message_name(text) else {
            self.receipts += usize::from(text.starts_with(b"RECEIPT"));
            self.errors += usize::from(text.starts_with(b"ERROR"));
            return false;
        };
        self.messages += 1;
        let now = Instant::now();
        let new = || Delivery { first: now, last: now, times: 0, bytes: message_length(text) };
        let delivery = told.entry(name).or_insert_with(new);
        (delivery.last, delivery.times) = (now, delivery.times + 1);
        true
    }

    fn has_output(&self) -> bool {
        self.sent < self.out.len() || self.has_started && !self.part.forever.is_empty()
    }

    /// Returns the bytes of its single sends that are not sent yet.
    pub fn unsent(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Writes once; returns whether this completed `forever`.
    fn write_some(&mut self) -> std::io::Result<bool> {
        if self.sent < self.out.len() {
            self.sent += self.stream.write(&self.out[self.sent..])?;
            if self.sent == self.out.len() {
                self.out.clear();
                self.sent = 0;
            }
        } else {
            let forever = &self.part.forever;
            self.forever_sent += self.stream.write(&forever[self.forever_sent..])?;
            self.forever_sent %= forever.len();
            return Ok(self.forever_sent == 0);
        }
        Ok(false)
    }
}
