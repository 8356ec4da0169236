//! The client: connections to other servers, their requests and timers.
//!
//! Each connection serves one request at a time, from the name of the host to the response, and is kept for the next one of
//! the same host while it is idle. A request has a connection from its start: whoever sends requests limits them, and one
//! too many fails. As in the reactor, sockets are registered once, edge-triggered; readiness is remembered until the
//! socket is exhausted, and a socket that has used its budget of a call is queued for the next. The slot of a connection
//! is the offset of its token.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use slab::Slab;

use super::names::{Names, Resolution};
use super::response::ResponseReader;
use super::{
    CONNECT_TIME, Endpoint, FetchError, FetchId, FetchLimits, FetchRequest, FetchResponse, MAX_ATTEMPTS, Response,
    request_head,
};
use crate::ip::scope;
use crate::socket::{Readiness, SHORT_IS_EXHAUSTED};

/// Time after which an idle connection is closed. Shorter than the 30 s after which servers close theirs, so that a
/// request rarely meets a closing connection.
const IDLE_TIME: Duration = Duration::from_secs(25);
/// Expired timers handled in one call of [`Fetcher::work`].
const MAX_TIMEOUTS_PER_CALL: usize = 16;
/// Size of the shared read buffer.
const READ_BYTES: usize = 64 * 1024;
/// Approximate limit on bytes read, and limit on sockets handled, per call of [`Fetcher::work`].
const BYTES_PER_CALL: usize = 128 * 1024;
const SOCKETS_PER_CALL: usize = 8;
/// Connections opened per call of [`Fetcher::work`].
const NEW_SOCKETS_PER_CALL: usize = 2;

/// A completed request.
pub type FetchOutcome = (FetchId, Result<FetchResponse, FetchError>);

/// A request in progress.
#[derive(Debug)]
struct Request {
    id: FetchId,
    request: FetchRequest,
    head: Vec<u8>,
    deadline: Duration,
    /// When the minimum number of bytes must have been received; set once the connection is open.
    min_rate_due: Option<Duration>,
    /// Bytes received towards that minimum.
    recent_bytes: usize,
}

impl Request {
    /// Returns what is left to send after the first `sent` bytes, in two parts.
    fn unsent(&self, sent: usize) -> [&[u8]; 2] {
        let (head, body) = (&self.head, &self.request.body);
        [head.get(sent..).unwrap_or_default(), body.get(sent.saturating_sub(head.len())..).unwrap_or_default()]
    }
}

/// A connection, opened for a request.
#[derive(Debug)]
struct Connection {
    /// Name in lower case.
    host: Endpoint,
    /// The request; `None` between requests.
    request: Option<Request>,
    stage: Stage,
    /// `None` while it is not being connected.
    socket: Option<TcpStream>,
    ready: Readiness,
    /// Its timer: the end of its idle time, or the earliest timeout of its request.
    due: Duration,
    /// An earlier request was answered on it.
    is_reused: bool,
}

#[derive(Debug)]
enum Stage {
    /// The addresses of the host are not known yet.
    Resolving,
    /// The first of the addresses is being tried, or is to be.
    Connecting { addresses: VecDeque<SocketAddr> },
    /// The connection is established.
    Open { from: IpAddr, sent: usize, reader: ResponseReader },
}

/// Metrics of a fetcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchStats {
    /// Connections, those being opened and idle ones included.
    pub connections: usize,
    /// Idle connections.
    pub idle: usize,
    /// Bytes of responses in progress or not taken yet.
    pub held_bytes: usize,
    /// Connection attempts.
    pub attempts: u64,
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
    limits: FetchLimits,
    first_token: usize,
    connections: Slab<Connection>,
    /// Connections whose next address is to be tried.
    to_connect: VecDeque<usize>,
    /// Addresses of the hosts of connections; the slot of a connection is the requester.
    pub names: Names,
    /// Token offsets of sockets with something to do.
    ready: VecDeque<usize>,
    completed: VecDeque<FetchOutcome>,
    stats: FetchStats,
    buffer: Box<[u8]>,
}

impl Fetcher {
    /// Returns a fetcher that uses tokens from `first_token` on.
    pub fn new(limits: FetchLimits, first_token: usize) -> Self {
        Self {
            names: Names::default(),
            limits,
            first_token,
            connections: Slab::new(),
            to_connect: VecDeque::new(),
            ready: VecDeque::new(),
            completed: VecDeque::new(),
            stats: FetchStats::default(),
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
        }
    }

    /// Returns the range of its tokens.
    pub fn tokens(&self) -> Range<usize> {
        self.first_token..self.first_token + self.limits.connections
    }

    /// Starts a request. Nothing is sent before the next [`work`](Self::work).
    pub fn start(&mut self, id: FetchId, request: FetchRequest, now: Duration) {
        self.stats.started += 1;
        let FetchRequest { endpoint, method, target, media_type, .. } = &request;
        let head = match request_head(endpoint, *method, target, media_type, request.body.len(), true) {
            Ok(head) => head,
            Err(error) => return self.completed.push_back((id, Err(error))),
        };
        if self.slot_of(id).is_some() {
            return self.completed.push_back((id, Err(FetchError::Busy)));
        }
        let host = Endpoint { host: endpoint.host.to_ascii_lowercase(), port: endpoint.port };
        let deadline = now + request.timeout;
        self.assign(host, Request { id, request, head, deadline, min_rate_due: None, recent_bytes: 0 }, now);
    }

    /// Cancels a request; its outcome is not delivered.
    pub fn cancel(&mut self, id: FetchId) {
        match self.slot_of(id) {
            Some(slot) => drop(self.close(slot)),
            None => self.completed.retain(|(done, _)| *done != id),
        }
    }

    /// Records the readiness reported by an event.
    pub fn set_readiness(&mut self, event: &Event) {
        let Some(index) = event.token().0.checked_sub(self.first_token) else { return };
        // An event of an earlier socket in this slot is harmless: the socket reports `WouldBlock`.
        if let Some(connection) = self.connections.get_mut(index) {
            connection.ready.add(event.into());
        }
        self.enqueue(index);
    }

    /// Handles ready sockets and expired timers, about half a millisecond of work per call.
    pub fn work(&mut self, registry: &Registry, now: Duration) {
        self.handle_timeouts(now);
        let mut bytes_left = BYTES_PER_CALL;
        for _ in 0..self.ready.len().min(SOCKETS_PER_CALL) {
            let Some(index) = self.ready.pop_front_if(|_| bytes_left > 0) else { break };
            bytes_left = bytes_left.saturating_sub(self.drive_connection(index, now).max(1));
        }
        while let Some((slot, addresses)) = self.names.resolved.pop_front() {
            self.resolved(slot, addresses, now);
        }
        for _ in 0..NEW_SOCKETS_PER_CALL {
            let Some((slot, address)) = self.next_attempt() else { break };
            self.stats.attempts += 1;
            match connect(address, registry, Token(self.first_token + slot)) {
                Ok(socket) => {
                    if let Some(connection) = self.connections.get_mut(slot) {
                        (connection.socket, connection.ready) = (Some(socket), Readiness::default());
                    }
                }
                Err(error) => self.attempt_failed(slot, error, now),
            }
        }
    }

    /// Returns when [`work`](Self::work) must be called at the latest. Linear in connections, of which there are few.
    pub fn next_due(&self) -> Option<Duration> {
        self.connections.iter().map(|(_, connection)| connection.due).min()
    }

    /// Returns whether there is work that needs no event.
    pub fn has_work(&self) -> bool {
        let is_waiting = self.ready.is_empty() && self.to_connect.is_empty() && self.completed.is_empty();
        !is_waiting || !self.names.resolved.is_empty()
    }

    /// Returns a completed request.
    pub fn next_completed(&mut self) -> Option<FetchOutcome> {
        let done = self.completed.pop_front()?;
        self.stats.ended += 1;
        Some(done)
    }

    /// Returns the bytes of responses in progress or not taken yet.
    pub fn held_bytes(&self) -> usize {
        let bodies = self.completed.iter().filter_map(|(_, result)| result.as_ref().ok());
        self.unfinished_bytes() + bodies.map(|answer| answer.response.body.capacity()).sum::<usize>()
    }

    /// Returns the current metrics.
    pub fn stats(&self) -> FetchStats {
        FetchStats {
            connections: self.connections.len(),
            idle: self.idle().count(),
            held_bytes: self.held_bytes(),
            ..self.stats
        }
    }

    /// Returns the bytes of responses in progress.
    fn unfinished_bytes(&self) -> usize {
        self.connections.iter().map(|(_, connection)| connection.held_bytes()).sum()
    }

    /// Returns the idle connections, each after the end of its idle time and its slot.
    fn idle(&self) -> impl Iterator<Item = (Duration, usize, &Connection)> {
        let idle = self.connections.iter().filter(|(_, connection)| connection.request.is_none());
        idle.map(|(slot, connection)| (connection.due, slot, connection))
    }

    /// Returns the slot of the connection of a request.
    fn slot_of(&self, id: FetchId) -> Option<usize> {
        let is_it = |connection: &Connection| connection.request.as_ref().is_some_and(|request| request.id == id);
        self.connections.iter().find(|(_, connection)| is_it(connection)).map(|(slot, _)| slot)
    }

    /// Handles expired timers, up to a limit per call.
    fn handle_timeouts(&mut self, now: Duration) {
        for _ in 0..MAX_TIMEOUTS_PER_CALL {
            let first = self.connections.iter().min_by_key(|(_, connection)| connection.due);
            let Some((slot, connection)) = first.filter(|(_, connection)| connection.due <= now) else { return };
            let Some(request) = &connection.request else {
                self.close(slot);
                continue;
            };
            let error = if request.deadline <= now {
                FetchError::TimedOut(request.request.timeout)
            } else if matches!(connection.stage, Stage::Connecting { .. }) {
                self.attempt_failed(slot, ErrorKind::TimedOut.into(), now);
                continue;
            } else if request.min_rate_due.is_some_and(|due| due <= now) {
                FetchError::TooSlow(self.limits.min_rate_window)
            } else {
                FetchError::Silent(request.request.read_timeout)
            };
            self.fail(slot, error);
        }
    }

    /// Assigns a request to an idle connection of its host, the one used last, or to a new one, for which the longest idle
    /// one of another host gives way.
    fn assign(&mut self, host: Endpoint, request: Request, now: Duration) {
        let own = self.idle().filter(|(.., connection)| connection.host == host);
        if let Some((_, slot, _)) = own.max_by_key(|(due, slot, _)| (*due, *slot))
            && let Some(connection) = self.connections.get_mut(slot)
        {
            if let Stage::Open { sent, reader, .. } = &mut connection.stage {
                (*sent, *reader) = (0, ResponseReader::new(request.request.body_limit));
            }
            (connection.request, connection.is_reused) = (Some(request), true);
            self.enqueue(slot);
            return self.restart_read_timeout(slot, 0, now);
        }
        if self.connections.len() >= self.limits.connections {
            let oldest = self.idle().min_by_key(|(due, slot, _)| (*due, *slot)).map(|(_, slot, _)| slot);
            let Some(oldest) = oldest else {
                return self.completed.push_back((request.id, Err(FetchError::Busy)));
            };
            self.close(oldest);
        }
        let entry = self.connections.vacant_entry();
        self.names.resolve(&host.host, entry.key(), now);
        let (due, stage, ready) = (request.deadline, Stage::Resolving, Readiness::default());
        entry.insert(Connection { host, request: Some(request), stage, socket: None, ready, due, is_reused: false });
    }

    /// Sets the addresses of a connection's host, or why it has none.
    fn resolved(&mut self, slot: usize, addresses: Resolution, now: Duration) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let Some(request) = &connection.request else { return };
        let least = request.request.least_scope;
        match addresses {
            Err(reason) => self.fail(slot, FetchError::UnknownHost(reason.to_string())),
            Ok(addresses) => {
                let in_scope = addresses.iter().filter(|address| scope(**address) >= least);
                let addresses = in_scope.map(|address| SocketAddr::new(*address, connection.host.port));
                let addresses: VecDeque<_> = addresses.take(MAX_ATTEMPTS).collect();
                if addresses.is_empty() {
                    return self.fail(slot, FetchError::OutOfScope(least));
                }
                connection.stage = Stage::Connecting { addresses };
                self.attempt(slot, now);
            }
        }
    }

    /// Has the next address of a host tried.
    fn attempt(&mut self, slot: usize, now: Duration) {
        let Some(Connection { request: Some(request), due, .. }) = self.connections.get_mut(slot) else { return };
        *due = request.deadline.min(now + CONNECT_TIME);
        if !self.to_connect.contains(&slot) {
            self.to_connect.push_back(slot);
        }
    }

    /// Returns the next connection to open, and its address.
    fn next_attempt(&mut self) -> Option<(usize, SocketAddr)> {
        let slot = self.to_connect.pop_front()?;
        match &self.connections.get(slot)?.stage {
            Stage::Connecting { addresses } => Some((slot, *addresses.front()?)),
            _ => None,
        }
    }

    /// Handles an address that could not be connected to: tries the next one, or fails the request.
    fn attempt_failed(&mut self, slot: usize, error: io::Error, now: Duration) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        connection.socket = None;
        self.names.on_failed_connection(&connection.host.host);
        if let Stage::Connecting { addresses } = &mut connection.stage {
            addresses.pop_front();
            if !addresses.is_empty() {
                return self.attempt(slot, now);
            }
        }
        self.fail(slot, FetchError::Unreachable(error));
    }

    /// Handles an established connection: it sends its request.
    fn connected(&mut self, slot: usize, now: Duration) {
        let Some(Connection { host, request: Some(request), stage, .. }) = self.connections.get_mut(slot) else {
            return;
        };
        let Stage::Connecting { addresses } = stage else { return };
        let Some(from) = addresses.front().map(SocketAddr::ip) else { return };
        self.names.on_connection(&host.host, from);
        *stage = Stage::Open { from, sent: 0, reader: ResponseReader::new(request.request.body_limit) };
        self.restart_read_timeout(slot, 0, now);
    }

    /// Writes and reads once for a connection. Returns the bytes read.
    fn drive_connection(&mut self, slot: usize, now: Duration) -> usize {
        let Some(connection) = self.connections.get(slot) else { return 0 };
        if let (Stage::Connecting { .. }, Some(socket)) = (&connection.stage, &connection.socket) {
            match is_connected(socket) {
                Ok(false) => return 0,
                Ok(true) => self.connected(slot, now),
                Err(error) => {
                    self.attempt_failed(slot, error, now);
                    return 0;
                }
            }
        }
        let Some(connection) = self.connections.get_mut(slot) else { return 0 };
        self.stats.sent_bytes += connection.write() as u64;
        let Some(socket) = connection.socket.as_mut().filter(|_| connection.ready.readable) else { return 0 };
        let result = connection.ready.read(socket, &mut self.buffer);
        if connection.ready.readable {
            self.enqueue(slot);
        }
        match result {
            Ok(None) => 0,
            Ok(Some(count @ 1..)) => {
                self.stats.received_bytes += count as u64;
                let buffer = std::mem::take(&mut self.buffer);
                self.received(slot, buffer.get(..count).unwrap_or_default(), now);
                self.buffer = buffer;
                count
            }
            ended => {
                self.closed_by_server(slot, ended.err(), now);
                0
            }
        }
    }

    /// Handles bytes received on a connection.
    fn received(&mut self, slot: usize, bytes: &[u8], now: Duration) {
        let result = match self.connections.get_mut(slot) {
            Some(Connection { request: Some(_), stage: Stage::Open { reader, .. }, .. }) => reader.receive(bytes),
            _ => Err(FetchError::NotHttp("it came without a request")),
        };
        match result {
            Err(error) => self.fail(slot, error),
            Ok(Some(response)) => self.complete(slot, response, now),
            Ok(None) if self.unfinished_bytes() > self.limits.held_bytes => {
                let largest = self.connections.iter().max_by_key(|(_, connection)| connection.held_bytes());
                if let Some((largest, _)) = largest {
                    self.fail(largest, FetchError::Busy);
                }
            }
            Ok(None) => self.restart_read_timeout(slot, bytes.len(), now),
        }
    }

    /// Completes a request with its response, and keeps the connection if it can be used again.
    fn complete(&mut self, slot: usize, response: Response, now: Duration) {
        let Some(Connection { request, stage: Stage::Open { from, sent, reader }, due, .. }) =
            self.connections.get_mut(slot)
        else {
            return;
        };
        let Some(request) = request.take() else { return };
        self.completed.push_back((request.id, Ok(FetchResponse { from: *from, response })));
        if reader.keep_alive() && request.unsent(*sent).iter().all(|part| part.is_empty()) {
            *due = now + IDLE_TIME;
        } else {
            self.close(slot);
        }
    }

    /// Handles the end of a connection by the server, with or without an error.
    fn closed_by_server(&mut self, slot: usize, cause: Option<io::Error>, now: Duration) {
        let Some(Connection { host, request: Some(request), stage, is_reused, .. }) = self.close(slot) else { return };
        let has_begun = matches!(&stage, Stage::Open { reader, .. } if reader.has_begun());
        // The server may have closed a reused connection before it received the request.
        if is_reused && !has_begun && request.request.is_idempotent {
            // It will close the other idle ones too.
            let others = self.idle().filter(|(.., other)| other.host == host).map(|(_, slot, _)| slot);
            for slot in others.collect::<Vec<_>>() {
                self.close(slot);
            }
            return self.assign(host, Request { min_rate_due: None, recent_bytes: 0, ..request }, now);
        }
        let result = match (stage, cause) {
            (Stage::Open { from, mut reader, .. }, None) if has_begun => {
                reader.close().map(|response| FetchResponse { from, response })
            }
            (_, cause) => Err(FetchError::Broken(cause.unwrap_or_else(|| ErrorKind::UnexpectedEof.into()))),
        };
        self.completed.push_back((request.id, result));
    }

    /// Closes a connection and fails its request.
    fn fail(&mut self, slot: usize, error: FetchError) {
        if let Some(request) = self.close(slot).and_then(|connection| connection.request) {
            self.completed.push_back((request.id, Err(error)));
        }
    }

    /// Closes a connection, which also deregisters its socket.
    fn close(&mut self, slot: usize) -> Option<Connection> {
        self.names.cancel(slot);
        self.to_connect.retain(|other| *other != slot);
        self.connections.try_remove(slot)
    }

    /// Counts received bytes and restarts the read timeout.
    fn restart_read_timeout(&mut self, slot: usize, count: usize, now: Duration) {
        let Some(Connection { request: Some(request), due, .. }) = self.connections.get_mut(slot) else { return };
        request.recent_bytes += count;
        if request.min_rate_due.is_none() || request.recent_bytes >= self.limits.min_rate_bytes {
            (request.min_rate_due, request.recent_bytes) = (Some(now + self.limits.min_rate_window), 0);
        }
        let read_due = now + request.request.read_timeout;
        *due = request.deadline.min(read_due).min(request.min_rate_due.unwrap_or(read_due));
    }

    /// Queues a socket to be handled.
    fn enqueue(&mut self, index: usize) {
        if !self.ready.contains(&index) {
            self.ready.push_back(index);
        }
    }
}

impl Connection {
    /// Returns the allocated bytes of a response in progress.
    fn held_bytes(&self) -> usize {
        if let Stage::Open { reader, .. } = &self.stage { reader.held_bytes() } else { 0 }
    }

    /// Writes as much as the socket takes and returns the bytes written. Errors are left to the next read, which
    /// returns them after a response that may have come first.
    fn write(&mut self) -> usize {
        let Connection { request: Some(request), stage: Stage::Open { sent, .. }, socket: Some(socket), ready, .. } =
            self
        else {
            return 0;
        };
        let before = *sent;
        while ready.writable {
            let parts = request.unsent(*sent).map(IoSlice::new);
            let wanted: usize = parts.iter().map(|part| part.len()).sum();
            if wanted == 0 {
                break;
            }
            match socket.write_vectored(&parts) {
                Ok(count) => {
                    *sent += count;
                    ready.writable = count == wanted || !SHORT_IS_EXHAUSTED;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    ready.writable = false;
                    ready.readable |= error.kind() != ErrorKind::WouldBlock;
                }
            }
        }
        *sent - before
    }
}

fn connect(address: SocketAddr, registry: &Registry, token: Token) -> io::Result<TcpStream> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    registry.register(&mut socket, token, Interest::READABLE | Interest::WRITABLE)?;
    Ok(socket)
}

/// Returns whether a connection is established; an error if it failed.
fn is_connected(socket: &TcpStream) -> io::Result<bool> {
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    match socket.peer_addr() {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::NotConnected | ErrorKind::WouldBlock) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
