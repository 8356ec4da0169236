//! The client: requests, the servers they go to, connections and timers.
//!
//! Each connection serves one request at a time, from the name of the host to the response, and is kept for the next one of the same host
//! while it is idle. As in the reactor, sockets are registered once, edge-triggered; readiness is remembered until the
//! socket is exhausted, and a socket that has used its budget of a call is queued for the next. The slot of a connection
//! is the offset of its token.

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind, IoSlice, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use slab::Slab;

use super::names::{Names, Resolution};
use super::response::{CompleteResponse, ResponseReader};
use super::{Endpoint, FetchError, FetchId, FetchLimits, FetchRequest, FetchResponse, Response, request_head};
use crate::ip::{Scope, scope};
use crate::net::socket::{Readiness, SHORT_IS_EXHAUSTED};

/// Addresses of a host to try for one request.
const MAX_ADDRESSES: usize = 4;
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
    request: FetchRequest,
    head: Vec<u8>,
    deadline: Duration,
    /// Its timer: the earliest of deadline, read timeout and minimum rate.
    due: Duration,
    /// When the minimum number of bytes must have been received; set once there is a connection.
    min_rate_due: Option<Duration>,
    /// Bytes received towards that minimum.
    recent_bytes: usize,
    /// A reused connection was closed before its response, and it waits for another.
    is_retry: bool,
}

/// A connection, opened for a request.
#[derive(Debug)]
struct Connection {
    host: Endpoint,
    /// The request; `None` between requests.
    request: Option<FetchId>,
    stage: Stage,
    /// `None` while it is not being connected.
    socket: Option<TcpStream>,
    ready: Readiness,
    /// Its timer: the timeout of the connection attempt, or of the idle connection.
    due: Option<Duration>,
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
    Open { address: SocketAddr, sent: usize, reader: ResponseReader },
}

/// What a timer belongs to: a request, or the connection in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Request(FetchId),
    Connection(usize),
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
    requests: HashMap<FetchId, Request>,
    /// Requests without a connection, in the order in which they get one.
    waiting: VecDeque<FetchId>,
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
            names: Names::new(limits.cached_names),
            limits,
            first_token,
            requests: HashMap::new(),
            waiting: VecDeque::new(),
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
    pub fn start(&mut self, id: FetchId, mut request: FetchRequest, now: Duration) {
        self.stats.started += 1;
        let FetchRequest { endpoint, method, target, media_type, .. } = &request;
        let head = match request_head(endpoint, *method, target, media_type, request.body.len(), true) {
            Ok(head) => head,
            Err(error) => return self.completed.push_back((id, Err(error))),
        };
        request.endpoint.host.make_ascii_lowercase();
        let queued = self.waiting.iter().filter(|other| self.host_of(**other) == Some(&request.endpoint)).count();
        let is_full = queued >= self.limits.waiting_per_host || self.waiting.len() >= self.limits.waiting;
        if is_full || self.requests.contains_key(&id) {
            return self.completed.push_back((id, Err(FetchError::Busy)));
        }
        self.waiting.push_back(id);
        let (deadline, min_rate_due) = (now + request.timeout, None);
        let request =
            Request { request, head, deadline, due: deadline, min_rate_due, recent_bytes: 0, is_retry: false };
        self.requests.insert(id, request);
        self.dispatch(now);
    }

    /// Cancels a request; its outcome is not delivered.
    pub fn cancel(&mut self, id: FetchId, now: Duration) {
        if self.remove_request(id, now).is_none() {
            self.completed.retain(|(done, _)| *done != id);
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
        while let Some((slot, addresses)) = self.names.next_resolved() {
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

    /// Returns when [`work`](Self::work) must be called at the latest.
    pub fn next_due(&self) -> Option<Duration> {
        self.next_timer().map(|(due, _)| due)
    }

    /// Returns whether there is work that needs no event.
    pub fn has_work(&self) -> bool {
        let is_waiting = self.ready.is_empty() && self.to_connect.is_empty() && self.completed.is_empty();
        !is_waiting || self.names.has_resolved()
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
            waiting: self.waiting.len(),
            held_bytes: self.held_bytes(),
            ..self.stats
        }
    }

    /// Returns the server of a request.
    fn host_of(&self, id: FetchId) -> Option<&Endpoint> {
        self.requests.get(&id).map(|request| &request.request.endpoint)
    }

    /// Returns the connections to a server, by their slots.
    fn connections_to(&self, host: &Endpoint) -> impl Iterator<Item = (usize, &Connection)> {
        self.connections.iter().filter(move |(_, connection)| connection.host == *host)
    }

    /// Returns the bytes of responses in progress.
    fn unfinished_bytes(&self) -> usize {
        self.connections.iter().map(|(_, connection)| connection.held_bytes()).sum()
    }

    /// Returns the slots of idle connections, each after the end of its idle time.
    fn idle(&self) -> impl Iterator<Item = (Duration, usize)> {
        let idle = self.connections.iter().filter(|(_, connection)| connection.request.is_none());
        idle.filter_map(|(slot, connection)| Some((connection.due?, slot)))
    }

    /// Returns the timer that expires first. Linear in requests and connections, of which there are few.
    fn next_timer(&self) -> Option<(Duration, Timer)> {
        let requests = self.requests.iter().map(|(id, request)| (request.due, Timer::Request(*id)));
        let connections = self.connections.iter();
        let connections = connections.filter_map(|(slot, known)| Some((known.due?, Timer::Connection(slot))));
        requests.chain(connections).min()
    }

    /// Handles expired timers, up to a limit per call.
    fn handle_timeouts(&mut self, now: Duration) {
        for _ in 0..MAX_TIMEOUTS_PER_CALL {
            let Some((_, timer)) = self.next_timer().filter(|(due, _)| *due <= now) else { return };
            match timer {
                Timer::Request(id) => {
                    if let Some(Request { request, deadline, min_rate_due, .. }) = self.remove_request(id, now) {
                        let error = match min_rate_due {
                            _ if deadline <= now => FetchError::TimedOut(request.timeout),
                            Some(due) if due <= now => FetchError::TooSlow(self.limits.min_rate_window),
                            _ => FetchError::Silent(request.read_timeout),
                        };
                        self.completed.push_back((id, Err(error)));
                    }
                }
                Timer::Connection(slot) => match self.connections.get(slot) {
                    Some(connection) if connection.request.is_none() => {
                        self.close(slot);
                        self.dispatch(now);
                    }
                    _ => self.attempt_failed(slot, ErrorKind::TimedOut.into(), now),
                },
            }
        }
    }

    /// Gives connections to the waiting requests that may have one, in their order.
    fn dispatch(&mut self, now: Duration) {
        let mut place = 0;
        while let Some(id) = self.waiting.get(place).copied() {
            match self.connection_for(id, now) {
                Some(slot) => {
                    self.waiting.remove(place);
                    self.assign(slot, id, now);
                }
                None => place += 1,
            }
        }
    }

    /// Returns the slot of an idle connection to the server of a request, or of a new one if there may be another.
    fn connection_for(&mut self, id: FetchId, now: Duration) -> Option<usize> {
        let Request { request, is_retry, .. } = self.requests.get(&id)?;
        let (host, is_retry) = (request.endpoint.clone(), *is_retry);
        while let Some((_, slot)) = self.idle().filter(|(_, slot)| self.connections[*slot].host == host).max() {
            if !is_retry {
                return Some(slot);
            }
            // The server just closed its connection, so it will close other idle ones too.
            self.close(slot);
        }
        let (own, busy) = (self.connections_to(&host).count(), self.connections.len() - self.idle().count());
        if own >= self.limits.connections_per_host || own > 0 && busy >= self.limits.connections / 2 {
            return None;
        }
        if self.connections.len() >= self.limits.connections {
            let (_, oldest) = self.idle().min()?;
            self.close(oldest);
        }
        let slot = self.connections.insert(Connection::new(host.clone()));
        self.names.resolve(&host.host, slot, now);
        Some(slot)
    }

    /// Assigns a request to a connection: a new one, or an idle one, which sends it.
    fn assign(&mut self, slot: usize, id: FetchId, now: Duration) {
        let Some((connection, request)) = self.connections.get_mut(slot).zip(self.requests.get(&id)) else { return };
        (connection.request, connection.due) = (Some(id), None);
        if let Stage::Open { sent, reader, .. } = &mut connection.stage {
            (*sent, *reader) = (0, ResponseReader::new(request.request.body_limit));
            connection.is_reused = true;
            self.enqueue(slot);
            self.restart_read_timeout(id, 0, now);
        }
    }

    /// Sets the addresses of a connection's host, or why it has none.
    fn resolved(&mut self, slot: usize, addresses: Resolution, now: Duration) {
        let Some(Connection { host, request, .. }) = self.connections.get(slot) else { return };
        let addresses = match addresses {
            Ok(addresses) => addresses,
            Err(reason) => return self.fail(slot, FetchError::UnknownHost(reason.to_string()), now),
        };
        let request = request.and_then(|id| self.requests.get(&id));
        let least = request.map_or(Scope::Global, |request| request.request.least_scope);
        let in_scope = addresses.iter().filter(|address| scope(**address) >= least);
        let mut addresses: Vec<_> = in_scope.map(|address| SocketAddr::new(*address, host.port)).collect();
        if addresses.is_empty() {
            return self.fail(slot, FetchError::OutOfScope(least), now);
        }
        // The address of another connection to the server works.
        let working: Vec<_> = self.connections_to(host).filter_map(|(_, connection)| connection.address()).collect();
        addresses.sort_by_key(|address| !working.contains(address));
        addresses.truncate(MAX_ADDRESSES);
        self.connections[slot].stage = Stage::Connecting { addresses: addresses.into() };
        self.attempt(slot, now);
    }

    /// Has the next address of a host tried.
    fn attempt(&mut self, slot: usize, now: Duration) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        connection.due = Some(now + self.limits.connect_time);
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
        (connection.socket, connection.due) = (None, None);
        self.names.on_failed_connection(&connection.host.host);
        if let Stage::Connecting { addresses } = &mut connection.stage {
            addresses.pop_front();
            if !addresses.is_empty() {
                return self.attempt(slot, now);
            }
        }
        self.fail(slot, FetchError::Unreachable(error), now);
    }

    /// Handles an established connection: it sends its request.
    fn connected(&mut self, slot: usize, now: Duration) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        connection.due = None;
        let Some(id) = connection.request else { return };
        let Stage::Connecting { addresses } = &connection.stage else { return };
        let Some(address) = addresses.front().copied() else { return };
        let body_limit = self.requests.get(&id).map_or(0, |request| request.request.body_limit);
        connection.stage = Stage::Open { address, sent: 0, reader: ResponseReader::new(body_limit) };
        self.restart_read_timeout(id, 0, now);
    }

    /// Writes and reads once for a connection. Returns the bytes read.
    fn drive_connection(&mut self, slot: usize, now: Duration) -> usize {
        let Some(connection) = self.connections.get_mut(slot) else { return 0 };
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
        let request = connection.request.and_then(|id| self.requests.get(&id));
        self.stats.sent_bytes += request.map_or(0, |request| connection.write(request));
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
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let result = match (&mut connection.stage, connection.request) {
            (Stage::Open { reader, .. }, Some(id)) => reader.receive(bytes).map(|complete| (id, complete)),
            _ => Err(FetchError::NotHttp("it came without a request")),
        };
        match result {
            Err(error) => self.fail(slot, error, now),
            Ok((_, Some(complete))) => self.complete(slot, complete, now),
            Ok((_, None)) if self.unfinished_bytes() > self.limits.held_bytes => {
                let largest = self.connections.iter().max_by_key(|(_, connection)| connection.held_bytes());
                if let Some((largest, _)) = largest {
                    self.fail(largest, FetchError::Busy, now);
                }
            }
            Ok((id, None)) => self.restart_read_timeout(id, bytes.len(), now),
        }
    }

    /// Completes a request with its response, and keeps the connection if it can be used again.
    fn complete(&mut self, slot: usize, complete: CompleteResponse, now: Duration) {
        let Some(connection) = self.connections.get(slot) else { return };
        let (Some(id), from) = (connection.request, connection.address()) else { return };
        let is_sent = |request| connection.unsent(request).iter().all(|part| part.is_empty());
        let is_sent = self.requests.get(&id).is_some_and(is_sent);
        // A host that has no connection and waits for one has priority over reuse of this one.
        let has_none = |id: &FetchId| self.host_of(*id).is_some_and(|host| self.connections_to(host).next().is_none());
        let is_wanted = self.waiting.iter().any(has_none);
        if complete.keep_alive && is_sent && !is_wanted {
            let connection = &mut self.connections[slot];
            (connection.request, connection.due) = (None, Some(now + self.limits.idle_time));
        } else {
            self.close(slot);
        }
        self.finish(id, from, Ok(complete.response));
        self.dispatch(now);
    }

    /// Handles the end of a connection by the server, with or without an error.
    fn closed_by_server(&mut self, slot: usize, cause: Option<io::Error>, now: Duration) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let (from, is_reused) = (connection.address(), connection.is_reused);
        let has_begun = matches!(&connection.stage, Stage::Open { reader, .. } if reader.has_begun());
        let result = match (&mut connection.stage, cause) {
            (Stage::Open { reader, .. }, None) if has_begun => reader.close(),
            (_, cause) => Err(FetchError::Broken(cause.unwrap_or_else(|| ErrorKind::UnexpectedEof.into()))),
        };
        if let Some(id) = self.close(slot) {
            // The server may have closed a reused connection before it received the request.
            let request =
                self.requests.get_mut(&id).filter(|request| request.request.is_idempotent && !request.is_retry);
            match request.filter(|_| is_reused && !has_begun) {
                Some(request) => {
                    (request.is_retry, request.due) = (true, request.deadline);
                    (request.min_rate_due, request.recent_bytes) = (None, 0);
                    self.waiting.push_front(id);
                }
                None => self.finish(id, from, result),
            }
        }
        self.dispatch(now);
    }

    /// Closes a connection and fails its request.
    fn fail(&mut self, slot: usize, error: FetchError, now: Duration) {
        if let Some(id) = self.close(slot) {
            self.finish(id, None, Err(error));
        }
        self.dispatch(now);
    }

    /// Closes a connection, which also deregisters its socket. Returns its request.
    fn close(&mut self, slot: usize) -> Option<FetchId> {
        self.names.cancel(slot);
        self.to_connect.retain(|other| *other != slot);
        self.connections.try_remove(slot)?.request
    }

    /// Removes a request, wherever it is.
    fn remove_request(&mut self, id: FetchId, now: Duration) -> Option<Request> {
        let request = self.requests.remove(&id)?;
        match self.connections.iter().find(|(_, connection)| connection.request == Some(id)) {
            Some((slot, _)) => _ = self.close(slot),
            None => self.waiting.retain(|other| *other != id),
        }
        self.dispatch(now);
        Some(request)
    }

    /// Ends a request with its outcome.
    fn finish(&mut self, id: FetchId, from: Option<SocketAddr>, result: Result<Response, FetchError>) {
        if self.requests.remove(&id).is_some() {
            let from = from.map_or(Ipv4Addr::UNSPECIFIED.into(), |address| address.ip());
            self.completed.push_back((id, result.map(|response| FetchResponse { from, response })));
        }
    }

    /// Counts received bytes and restarts the read timeout.
    fn restart_read_timeout(&mut self, id: FetchId, count: usize, now: Duration) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        request.recent_bytes += count;
        if request.min_rate_due.is_none() || request.recent_bytes >= self.limits.min_rate_bytes {
            (request.min_rate_due, request.recent_bytes) = (Some(now + self.limits.min_rate_window), 0);
        }
        let read_due = now + request.request.read_timeout;
        request.due = request.deadline.min(read_due).min(request.min_rate_due.unwrap_or(read_due));
    }

    /// Queues a socket to be handled.
    fn enqueue(&mut self, index: usize) {
        if !self.ready.contains(&index) {
            self.ready.push_back(index);
        }
    }
}

impl Connection {
    /// Returns a connection to open.
    fn new(host: Endpoint) -> Self {
        let (stage, ready) = (Stage::Resolving, Readiness::default());
        Self { host, request: None, stage, socket: None, ready, due: None, is_reused: false }
    }

    /// Returns the address of the server; `None` before it is connected.
    fn address(&self) -> Option<SocketAddr> {
        match self.stage {
            Stage::Open { address, .. } => Some(address),
            _ => None,
        }
    }

    /// Returns the allocated bytes of a response in progress.
    fn held_bytes(&self) -> usize {
        match &self.stage {
            Stage::Open { reader, .. } => reader.held_bytes(),
            _ => 0,
        }
    }

    /// Returns the bytes of the request that are left to send, in two parts.
    fn unsent<'r>(&self, request: &'r Request) -> [&'r [u8]; 2] {
        let Stage::Open { sent, .. } = self.stage else { return [&[], &[]] };
        let (head, body) = (&request.head, &request.request.body);
        [head.get(sent..).unwrap_or_default(), body.get(sent.saturating_sub(head.len())..).unwrap_or_default()]
    }

    /// Writes as much as the socket takes and returns the bytes written. Errors are left to the next read, which
    /// returns them after a response that may have come first.
    fn write(&mut self, request: &Request) -> u64 {
        let mut written = 0;
        while self.ready.writable {
            let parts = self.unsent(request).map(IoSlice::new);
            let wanted: usize = parts.iter().map(|part| part.len()).sum();
            let Some(socket) = self.socket.as_mut().filter(|_| wanted > 0) else { break };
            match socket.write_vectored(&parts) {
                Ok(count) => {
                    if let Stage::Open { sent, .. } = &mut self.stage {
                        *sent += count;
                    }
                    written += count as u64;
                    self.ready.writable = count == wanted || !SHORT_IS_EXHAUSTED;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.ready.writable = false;
                    self.ready.readable |= error.kind() != ErrorKind::WouldBlock;
                }
            }
        }
        written
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
