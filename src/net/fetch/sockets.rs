//! Sockets of requests to other servers.
//!
//! As in the reactor, sockets are registered once, edge-triggered. Readiness is remembered until the socket is
//! exhausted; a socket that has used its budget of a call is queued for the next.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::time::Instant;

use mio::event::Event;
use mio::net::{TcpStream, UdpSocket};
use mio::{Interest, Registry, Token};

use super::names::{Datagram, Resolver};
use super::pool::{ConnectionPool, Fetched};
use super::{Fetch, FetchId, Fetching};

/// Size of the shared read buffer.
const READ_BYTES: usize = 64 * 1024;
/// Approximate limit on bytes read, and limit on sockets handled, per call of [`Fetcher::work`].
const BYTES_PER_CALL: usize = 128 * 1024;
const SOCKETS_PER_CALL: usize = 8;
/// Sockets opened per call of [`Fetcher::work`].
const NEW_SOCKETS_PER_CALL: usize = 2;
/// Messages read from a DNS socket per turn.
const MESSAGES_PER_TURN: usize = 4;
/// Whether a short read or write means that the socket is exhausted, which saves the call that would return
/// `WouldBlock`. epoll(7) guarantees it for edge-triggered stream sockets.
const SHORT_IS_EXHAUSTED: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// Socket of a connection.
struct ConnectionSocket {
    socket: TcpStream,
    may_read: bool,
    may_write: bool,
    /// The server has closed its side; read until the end is seen.
    read_closed: bool,
    is_queued: bool,
}

/// Socket of a DNS query.
struct QuestionSocket {
    socket: UdpSocket,
    is_queued: bool,
}

/// Metrics of a fetcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchStats {
    /// Connections, those being opened and idle ones included.
    pub connections: usize,
    /// Idle connections.
    pub idle: usize,
    /// Requests that wait for a connection.
    pub waiting: usize,
    /// Bytes of responses in progress or not taken yet.
    pub held_bytes: usize,
    /// Connection attempts.
    pub attempts: u64,
    /// DNS queries sent.
    pub questions: u64,
    /// Requests started.
    pub started: u64,
    /// Requests whose outcome was delivered; cancelled ones are not counted.
    pub ended: u64,
    /// Bytes read from connections.
    pub received_bytes: u64,
    /// Bytes written to connections.
    pub sent_bytes: u64,
}

/// Sends requests to other servers, driven by an event loop.
///
/// The loop passes events with a token in [`tokens`](Self::tokens) to [`notice`](Self::notice), then calls
/// [`work`](Self::work) and takes the outcomes from [`next_done`](Self::next_done). It waits at most until
/// [`next_due`](Self::next_due), and not at all while [`has_work`](Self::has_work).
pub struct Fetcher {
    pool: ConnectionPool,
    resolver: Resolver,
    first_token: usize,
    /// Connections have the first tokens, DNS queries the following ones.
    max_lines: usize,
    max_questions: usize,
    lines: Vec<Option<ConnectionSocket>>,
    questions: Vec<Option<QuestionSocket>>,
    /// Token offsets of sockets with something to do.
    ready: VecDeque<usize>,
    last_id: u64,
    stats: FetchStats,
    buffer: Box<[u8]>,
}

impl Fetcher {
    /// Returns a fetcher that uses tokens from `first_token` on.
    pub fn new(fetching: Fetching, first_token: usize) -> Self {
        let Fetching { limits, names, seed } = fetching;
        let (max_lines, max_questions) = (limits.connections, limits.queries);
        Self {
            resolver: Resolver::new(names, &seed, limits.queries, limits.cached_names),
            pool: ConnectionPool::new(limits),
            first_token,
            max_lines,
            max_questions,
            lines: std::iter::repeat_with(|| None).take(max_lines).collect(),
            questions: std::iter::repeat_with(|| None).take(max_questions).collect(),
            ready: VecDeque::new(),
            last_id: 0,
            stats: FetchStats::default(),
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
        }
    }

    /// Returns the range of its tokens.
    pub fn tokens(&self) -> Range<usize> {
        self.first_token..self.first_token + self.max_lines + self.max_questions
    }

    /// Starts a request. Nothing is sent before the next [`work`](Self::work).
    pub fn start(&mut self, fetch: Fetch, now: Instant) -> FetchId {
        self.last_id += 1;
        self.stats.started += 1;
        let id = FetchId(self.last_id);
        self.pool.start(id, fetch, now);
        self.close_lines(now);
        id
    }

    /// Cancels a request; its outcome is not delivered.
    pub fn cancel(&mut self, id: FetchId, now: Instant) {
        self.pool.cancel(id);
        self.close_lines(now);
    }

    /// Records the readiness reported by an event.
    pub fn notice(&mut self, event: &Event) {
        let Some(index) = event.token().0.checked_sub(self.first_token) else { return };
        // An event of an earlier socket in this slot is harmless: the socket reports `WouldBlock`.
        if let Some(Some(line)) = self.lines.get_mut(index) {
            line.read_closed |= event.is_read_closed() || event.is_error();
            line.may_read |= event.is_readable() || line.read_closed;
            line.may_write |= event.is_writable();
        }
        self.queue(index);
    }

    /// Handles ready sockets and expired timers, about half a millisecond of work per call.
    pub fn work(&mut self, registry: &Registry, now: Instant) {
        self.pool.deal_with_due(now);
        self.close_lines(now);
        self.resolver.deal_with_due(now);
        self.close_questions();
        let mut left = BYTES_PER_CALL;
        for _ in 0..self.ready.len().min(SOCKETS_PER_CALL) {
            if left == 0 {
                break;
            }
            let Some(index) = self.ready.pop_front() else { break };
            let read = match index.checked_sub(self.max_lines) {
                None => self.drive_line(index, now),
                Some(question) => self.drive_question(question, now),
            };
            left = left.saturating_sub(read);
        }
        self.exchange_names(now);
        self.open_questions(registry, now);
        self.open_lines(registry, now);
    }

    /// Returns when [`work`](Self::work) must be called at the latest.
    pub fn next_due(&self) -> Option<Instant> {
        self.pool.next_due().into_iter().chain(self.resolver.next_due()).min()
    }

    /// Returns whether there is work that needs no event.
    pub fn has_work(&self) -> bool {
        !self.ready.is_empty() || self.pool.has_wishes() || self.resolver.has_wishes()
    }

    /// Returns a completed request.
    pub fn next_done(&mut self) -> Option<Fetched> {
        let done = self.pool.next_done()?;
        self.stats.ended += 1;
        Some(done)
    }

    /// Returns the bytes of responses in progress or not taken yet.
    pub fn held_bytes(&self) -> usize {
        self.pool.held_bytes()
    }

    /// Returns the current metrics.
    pub fn stats(&self) -> FetchStats {
        let (connections, idle) = self.pool.connections();
        FetchStats { connections, idle, waiting: self.pool.waiting(), held_bytes: self.held_bytes(), ..self.stats }
    }

    /// Passes DNS queries and their results between pool and resolver.
    fn exchange_names(&mut self, now: Instant) {
        while let Some((slot, name)) = self.pool.next_question() {
            self.resolver.ask(name, slot, now);
        }
        while let Some((slot, known)) = self.resolver.next_found() {
            self.pool.named(slot, known.as_deref().map_err(|reason| *reason), now);
            self.close_lines(now);
        }
    }

    /// Sends DNS queries.
    fn open_questions(&mut self, registry: &Registry, now: Instant) {
        for _ in 0..NEW_SOCKETS_PER_CALL {
            let Some(asked) = self.resolver.next_question() else { return };
            let slot = asked.slot;
            let token = Token(self.first_token + self.max_lines + slot);
            self.stats.questions += 1;
            match send_question(&asked, registry, token) {
                Ok(socket) => {
                    if let Some(place) = self.questions.get_mut(slot) {
                        *place = Some(QuestionSocket { socket, is_queued: false });
                    }
                }
                Err(error) => {
                    log::debug!("cannot ask the name server {}: {error}", asked.server);
                    self.resolver.unreachable(slot, now);
                    self.close_questions();
                }
            }
        }
    }

    /// Starts connection attempts.
    fn open_lines(&mut self, registry: &Registry, now: Instant) {
        while let Some(slot) = self.pool.next_assigned(now) {
            self.queue(slot);
        }
        for _ in 0..NEW_SOCKETS_PER_CALL {
            let Some((slot, address)) = self.pool.next_attempt() else { return };
            self.stats.attempts += 1;
            match connect(address, registry, Token(self.first_token + slot)) {
                Ok(socket) => {
                    if let Some(place) = self.lines.get_mut(slot) {
                        let (may_read, may_write, read_closed, is_queued) = (false, false, false, false);
                        *place = Some(ConnectionSocket { socket, may_read, may_write, read_closed, is_queued });
                    }
                }
                Err(error) => {
                    self.pool.attempt_failed(slot, error, now);
                    self.close_lines(now);
                }
            }
        }
    }

    /// Queues a socket to be handled.
    fn queue(&mut self, index: usize) {
        let is_queued = match index.checked_sub(self.max_lines) {
            None => self.lines.get_mut(index).and_then(Option::as_mut).map(|line| &mut line.is_queued),
            Some(slot) => self.questions.get_mut(slot).and_then(Option::as_mut).map(|socket| &mut socket.is_queued),
        };
        if let Some(is_queued) = is_queued
            && !std::mem::replace(is_queued, true)
        {
            self.ready.push_back(index);
        }
    }

    /// Writes and reads once for a connection. Returns the bytes read, at least 1.
    fn drive_line(&mut self, slot: usize, now: Instant) -> usize {
        let Some(Some(line)) = self.lines.get_mut(slot) else { return 1 };
        line.is_queued = false;
        if self.pool.is_connecting(slot) {
            match line.is_connected() {
                Ok(false) => return 1,
                Ok(true) => self.pool.connected(slot, now),
                Err(error) => {
                    self.pool.attempt_failed(slot, error, now);
                    self.close_lines(now);
                    return 1;
                }
            }
        }
        self.stats.sent_bytes += line.write(&mut self.pool, slot);
        let read = line.read(&mut self.buffer);
        let wants_more = line.may_read;
        let count = *read.as_ref().ok().and_then(Option::as_ref).unwrap_or(&0);
        self.stats.received_bytes += count as u64;
        match read {
            Ok(None) => {}
            Ok(Some(0)) => self.pool.ended(slot, None),
            Ok(Some(count)) => self.pool.received(slot, self.buffer.get(..count).unwrap_or_default(), now),
            Err(error) => self.pool.ended(slot, Some(error)),
        }
        self.close_lines(now);
        if wants_more {
            self.queue(slot);
        }
        count.max(1)
    }

    /// Reads the responses to a DNS query. Returns the bytes read, at least 1.
    fn drive_question(&mut self, slot: usize, now: Instant) -> usize {
        let mut bytes = 1;
        for _ in 0..MESSAGES_PER_TURN {
            let Some(Some(question)) = self.questions.get_mut(slot) else { return bytes };
            question.is_queued = false;
            match question.socket.recv(&mut self.buffer) {
                Ok(count) => {
                    bytes += count;
                    self.resolver.received(slot, self.buffer.get(..count).unwrap_or_default(), now);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.resolver.unreachable(slot, now),
            }
            self.close_questions();
        }
        self.queue(self.max_lines + slot);
        bytes
    }

    /// Closes the sockets of closed connections, which also deregisters them.
    fn close_lines(&mut self, now: Instant) {
        while let Some(slot) = self.pool.next_closed() {
            self.resolver.forget(slot, now);
            if let Some(line) = self.lines.get_mut(slot) {
                *line = None;
            }
        }
        self.close_questions();
    }

    fn close_questions(&mut self) {
        while let Some(slot) = self.resolver.next_closed() {
            if let Some(question) = self.questions.get_mut(slot) {
                *question = None;
            }
        }
    }
}

impl ConnectionSocket {
    /// Returns whether the connection is established; an error if it failed.
    fn is_connected(&self) -> io::Result<bool> {
        if let Some(error) = self.socket.take_error()? {
            return Err(error);
        }
        match self.socket.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::NotConnected | ErrorKind::WouldBlock) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes as much as the socket takes and returns the bytes written. Errors are left to the next read, which
    /// returns them after a response that may have come first.
    fn write(&mut self, pool: &mut ConnectionPool, slot: usize) -> u64 {
        let mut written = 0;
        while self.may_write {
            let parts = pool.unsent(slot).map(IoSlice::new);
            let wanted: usize = parts.iter().map(|part| part.len()).sum();
            if wanted == 0 {
                break;
            }
            match self.socket.write_vectored(&parts) {
                Ok(count) => {
                    pool.sent(slot, count);
                    written += count as u64;
                    self.may_write = count == wanted || !SHORT_IS_EXHAUSTED;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.may_write = false;
                    self.may_read |= error.kind() != ErrorKind::WouldBlock;
                }
            }
        }
        written
    }

    /// Reads once. `None` if there is nothing now, 0 at the end.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if !self.may_read {
            return Ok(None);
        }
        match self.socket.read(buffer) {
            Ok(count) => {
                // The end of the stream is reported only once, perhaps together with these bytes, so it must be read
                // too.
                if count < buffer.len() && SHORT_IS_EXHAUSTED && !self.read_closed {
                    self.may_read = false;
                }
                Ok(Some(count))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.may_read = false;
                Ok(None)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn connect(address: SocketAddr, registry: &Registry, token: Token) -> io::Result<TcpStream> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    registry.register(&mut socket, token, Interest::READABLE | Interest::WRITABLE)?;
    Ok(socket)
}

/// Sends a DNS query on a socket of its own, with a random port from the system, connected so that only the server can
/// answer.
fn send_question(asked: &Datagram, registry: &Registry, token: Token) -> io::Result<UdpSocket> {
    let any: SocketAddr = match asked.server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let mut socket = UdpSocket::bind(any)?;
    socket.connect(asked.server)?;
    registry.register(&mut socket, token, Interest::READABLE)?;
    socket.send(&asked.bytes)?;
    Ok(socket)
}
