//! Sockets of requests to other servers.
//!
//! As in the reactor, sockets are registered once, edge-triggered. Readiness is remembered until the socket is
//! exhausted; a socket that has used its budget of a call is queued for the next.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

use mio::event::Event;
use mio::net::{TcpStream, UdpSocket};
use mio::{Interest, Registry, Token};

use super::dns::{Datagram, Resolver};
use super::pool::{ConnectionPool, FetchOutcome};
use super::{FetchConfig, FetchId, FetchRequest};

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
struct DnsSocket {
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
    pub dns_queries: u64,
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
/// The loop passes events with a token in [`tokens`](Self::tokens) to [`set_readiness`](Self::set_readiness), then calls
/// [`work`](Self::work) and takes the outcomes from [`next_completed`](Self::next_completed). It waits at most until
/// [`next_due`](Self::next_due), and not at all while [`has_work`](Self::has_work).
pub struct Fetcher {
    pool: ConnectionPool,
    resolver: Resolver,
    first_token: usize,
    /// Connections have the first tokens, DNS queries the following ones.
    max_connections: usize,
    max_dns_queries: usize,
    connections: Vec<Option<ConnectionSocket>>,
    dns_sockets: Vec<Option<DnsSocket>>,
    /// Token offsets of sockets with something to do.
    ready: VecDeque<usize>,
    stats: FetchStats,
    buffer: Box<[u8]>,
}

impl Fetcher {
    /// Returns a fetcher that uses tokens from `first_token` on.
    pub fn new(config: FetchConfig, first_token: usize) -> Self {
        let FetchConfig { limits, dns: names, seed } = config;
        let (max_lines, max_questions) = (limits.connections, limits.queries);
        Self {
            resolver: Resolver::new(names, &seed, limits.queries, limits.cached_names),
            pool: ConnectionPool::new(limits),
            first_token,
            max_connections: max_lines,
            max_dns_queries: max_questions,
            connections: std::iter::repeat_with(|| None).take(max_lines).collect(),
            dns_sockets: std::iter::repeat_with(|| None).take(max_questions).collect(),
            ready: VecDeque::new(),
            stats: FetchStats::default(),
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
        }
    }

    /// Returns the range of its tokens.
    pub fn tokens(&self) -> Range<usize> {
        self.first_token..self.first_token + self.max_connections + self.max_dns_queries
    }

    /// Starts a request. Nothing is sent before the next [`work`](Self::work).
    pub fn start(&mut self, id: FetchId, request: FetchRequest, now: Duration) {
        self.stats.started += 1;
        self.pool.start(id, request, now);
        self.close_connections(now);
    }

    /// Cancels a request; its outcome is not delivered.
    pub fn cancel(&mut self, id: FetchId, now: Duration) {
        self.pool.cancel(id);
        self.close_connections(now);
    }

    /// Records the readiness reported by an event.
    pub fn set_readiness(&mut self, event: &Event) {
        let Some(index) = event.token().0.checked_sub(self.first_token) else { return };
        // An event of an earlier socket in this slot is harmless: the socket reports `WouldBlock`.
        if let Some(Some(line)) = self.connections.get_mut(index) {
            line.read_closed |= event.is_read_closed() || event.is_error();
            line.may_read |= event.is_readable() || line.read_closed;
            line.may_write |= event.is_writable();
        }
        self.queue(index);
    }

    /// Handles ready sockets and expired timers, about half a millisecond of work per call.
    pub fn work(&mut self, registry: &Registry, now: Duration) {
        self.pool.handle_timeouts(now);
        self.close_connections(now);
        self.resolver.handle_timeouts(now);
        self.close_dns_sockets();
        let mut left = BYTES_PER_CALL;
        for _ in 0..self.ready.len().min(SOCKETS_PER_CALL) {
            if left == 0 {
                break;
            }
            let Some(index) = self.ready.pop_front() else { break };
            let read = match index.checked_sub(self.max_connections) {
                None => self.drive_connection(index, now),
                Some(question) => self.drive_dns_query(question, now),
            };
            left = left.saturating_sub(read);
        }
        self.exchange_dns(now);
        self.send_dns_queries(registry, now);
        self.open_connections(registry, now);
    }

    /// Returns when [`work`](Self::work) must be called at the latest.
    pub fn next_due(&self) -> Option<Duration> {
        self.pool.next_due().into_iter().chain(self.resolver.next_due()).min()
    }

    /// Returns whether there is work that needs no event.
    pub fn has_work(&self) -> bool {
        !self.ready.is_empty() || self.pool.has_pending_work() || self.resolver.has_pending_work()
    }

    /// Returns a completed request.
    pub fn next_completed(&mut self) -> Option<FetchOutcome> {
        let done = self.pool.next_completed()?;
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
    fn exchange_dns(&mut self, now: Duration) {
        while let Some((slot, name)) = self.pool.next_dns_query() {
            self.resolver.resolve(name, slot, now);
        }
        while let Some((slot, known)) = self.resolver.next_resolved() {
            self.pool.resolved(slot, known.as_deref().map_err(|reason| *reason), now);
            self.close_connections(now);
        }
    }

    /// Sends DNS queries.
    fn send_dns_queries(&mut self, registry: &Registry, now: Duration) {
        for _ in 0..NEW_SOCKETS_PER_CALL {
            let Some(query) = self.resolver.next_query() else { return };
            let slot = query.slot;
            let token = Token(self.first_token + self.max_connections + slot);
            self.stats.dns_queries += 1;
            match send_dns_query(&query, registry, token) {
                Ok(socket) => {
                    if let Some(place) = self.dns_sockets.get_mut(slot) {
                        *place = Some(DnsSocket { socket, is_queued: false });
                    }
                }
                Err(error) => {
                    log::debug!("cannot query the name server {}: {error}", query.server);
                    self.resolver.unreachable(slot, now);
                    self.close_dns_sockets();
                }
            }
        }
    }

    /// Starts connection attempts.
    fn open_connections(&mut self, registry: &Registry, now: Duration) {
        while let Some(slot) = self.pool.next_assigned(now) {
            self.queue(slot);
        }
        for _ in 0..NEW_SOCKETS_PER_CALL {
            let Some((slot, address)) = self.pool.next_attempt() else { return };
            self.stats.attempts += 1;
            match connect(address, registry, Token(self.first_token + slot)) {
                Ok(socket) => {
                    if let Some(place) = self.connections.get_mut(slot) {
                        let (may_read, may_write, read_closed, is_queued) = (false, false, false, false);
                        *place = Some(ConnectionSocket { socket, may_read, may_write, read_closed, is_queued });
                    }
                }
                Err(error) => {
                    self.pool.attempt_failed(slot, error, now);
                    self.close_connections(now);
                }
            }
        }
    }

    /// Queues a socket to be handled.
    fn queue(&mut self, index: usize) {
        let is_queued = match index.checked_sub(self.max_connections) {
            None => self.connections.get_mut(index).and_then(Option::as_mut).map(|line| &mut line.is_queued),
            Some(slot) => self.dns_sockets.get_mut(slot).and_then(Option::as_mut).map(|socket| &mut socket.is_queued),
        };
        if let Some(is_queued) = is_queued
            && !std::mem::replace(is_queued, true)
        {
            self.ready.push_back(index);
        }
    }

    /// Writes and reads once for a connection. Returns the bytes read, at least 1.
    fn drive_connection(&mut self, slot: usize, now: Duration) -> usize {
        let Some(Some(line)) = self.connections.get_mut(slot) else { return 1 };
        line.is_queued = false;
        if self.pool.is_connecting(slot) {
            match line.is_connected() {
                Ok(false) => return 1,
                Ok(true) => self.pool.connected(slot, now),
                Err(error) => {
                    self.pool.attempt_failed(slot, error, now);
                    self.close_connections(now);
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
            Ok(Some(0)) => self.pool.closed_by_server(slot, None),
            Ok(Some(count)) => self.pool.received(slot, self.buffer.get(..count).unwrap_or_default(), now),
            Err(error) => self.pool.closed_by_server(slot, Some(error)),
        }
        self.close_connections(now);
        if wants_more {
            self.queue(slot);
        }
        count.max(1)
    }

    /// Reads the responses to a DNS query. Returns the bytes read, at least 1.
    fn drive_dns_query(&mut self, slot: usize, now: Duration) -> usize {
        let mut bytes = 1;
        for _ in 0..MESSAGES_PER_TURN {
            let Some(Some(question)) = self.dns_sockets.get_mut(slot) else { return bytes };
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
            self.close_dns_sockets();
        }
        self.queue(self.max_connections + slot);
        bytes
    }

    /// Closes the sockets of closed connections, which also deregisters them.
    fn close_connections(&mut self, now: Duration) {
        while let Some(slot) = self.pool.next_closed() {
            self.resolver.cancel(slot, now);
            if let Some(line) = self.connections.get_mut(slot) {
                *line = None;
            }
        }
        self.close_dns_sockets();
    }

    fn close_dns_sockets(&mut self) {
        while let Some(slot) = self.resolver.next_closed() {
            if let Some(question) = self.dns_sockets.get_mut(slot) {
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
fn send_dns_query(query: &Datagram, registry: &Registry, token: Token) -> io::Result<UdpSocket> {
    let any: SocketAddr = match query.server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let mut socket = UdpSocket::bind(any)?;
    socket.connect(query.server)?;
    registry.register(&mut socket, token, Interest::READABLE)?;
    socket.send(&query.bytes)?;
    Ok(socket)
}
