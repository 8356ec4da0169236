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
use std::rc::Rc;
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
    host: Rc<Endpoint>,
    /// Slot of its connection; `None` while it waits for one.
    connection: Option<usize>,
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

/// A server with requests or connections.
#[derive(Debug, Default)]
struct Host {
    /// Requests without a connection.
    queued: VecDeque<FetchId>,
    /// The address last connected to; tried first.
    good_address: Option<SocketAddr>,
}

/// A connection, opened for a request.
#[derive(Debug)]
struct Connection {
    host: Rc<Endpoint>,
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
    hosts: HashMap<Rc<Endpoint>, Host>,
    /// Hosts with requests but no connection because all are in use, in the order in which they get one.
    hosts_wanting_connection: VecDeque<Rc<Endpoint>>,
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
            hosts: HashMap::new(),
            hosts_wanting_connection: VecDeque::new(),
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
        let host = Rc::new(Endpoint { host: endpoint.host.to_ascii_lowercase(), port: endpoint.port });
        let queued = self.hosts.get(&host).map_or(0, |host| host.queued.len());
        let is_full = queued >= self.limits.waiting_per_host || self.waiting() >= self.limits.waiting;
        if is_full || self.requests.contains_key(&id) {
            return self.completed.push_back((id, Err(FetchError::Busy)));
        }
        self.hosts.entry(host.clone()).or_default().queued.push_back(id);
        let deadline = now + request.timeout;
        let request = Request {
            request,
            head,
            host: host.clone(),
            connection: None,
            deadline,
            due: deadline,
            min_rate_due: None,
            recent_bytes: 0,
            is_retry: false,
        };
        self.requests.insert(id, request);
        self.dispatch(&host, now);
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

    /// Returns when [`work`](Self::work) must be called at the latest.
    pub fn next_due(&self) -> Option<Duration> {
        self.next_timer().map(|(due, _)| due)
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
            waiting: self.waiting(),
            held_bytes: self.held_bytes(),
            ..self.stats
        }
    }

    /// Returns the number of requests that wait for a connection.
    fn waiting(&self) -> usize {
        self.requests.len().saturating_sub(self.connections.len() - self.idle().count())
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
                        let host = connection.host.clone();
                        self.close(slot);
                        self.dispatch(&host, now);
                    }
                    _ => self.attempt_failed(slot, ErrorKind::TimedOut.into(), now),
                },
            }
        }
    }

    /// Assigns connections to the waiting requests of a host, after the hosts that have none.
    fn dispatch(&mut self, host: &Rc<Endpoint>, now: Duration) {
        while self.connections.len() < self.limits.connections
            && let Some(first) = self.hosts_wanting_connection.pop_front()
        {
            self.dispatch_host(&first, now);
        }
        self.dispatch_host(host, now);
    }

    fn dispatch_host(&mut self, host: &Rc<Endpoint>, now: Duration) {
        while let Some(id) = self.hosts.get(host).and_then(|host| host.queued.front().copied()) {
            let is_retry = self.requests.get(&id).is_some_and(|request| request.is_retry);
            let is_own = |slot: &usize| self.connections.get(*slot).is_some_and(|connection| connection.host == *host);
            match self.idle().filter(|(_, slot)| is_own(slot)).max() {
                // The server just closed its connection, so it will close other idle ones too.
                Some((_, slot)) if is_retry => drop(self.close(slot)),
                Some((_, slot)) => self.assign(slot, now),
                None if self.may_open_for(host) => {
                    let slot = self.connections.insert(Connection::new(host.clone()));
                    self.assign(slot, now);
                    self.names.resolve(&host.host, slot, now);
                }
                None => break,
            }
        }
        self.forget_if_unused(host);
    }

    /// Returns whether a host may have another connection. A host without any is queued if all are in use.
    fn may_open_for(&mut self, host: &Rc<Endpoint>) -> bool {
        let own = self.connections.iter().filter(|(_, connection)| connection.host == *host).count();
        let busy = self.connections.len() - self.idle().count();
        if own >= self.limits.connections_per_host || own > 0 && busy >= self.limits.connections / 2 {
            return false;
        }
        if self.connections.len() < self.limits.connections {
            return true;
        }
        if let Some((_, oldest)) = self.idle().min() {
            let other = self.connections.get(oldest).map(|connection| connection.host.clone());
            self.close(oldest);
            if let Some(other) = other {
                self.forget_if_unused(&other);
            }
            return true;
        }
        if own == 0 && !self.hosts_wanting_connection.contains(host) {
            self.hosts_wanting_connection.push_back(host.clone());
        }
        false
    }

    fn forget_if_unused(&mut self, host: &Rc<Endpoint>) {
        let has_connection = self.connections.iter().any(|(_, connection)| connection.host == *host);
        if !has_connection && self.hosts.get(host).is_some_and(|host| host.queued.is_empty()) {
            self.hosts.remove(host);
            self.hosts_wanting_connection.retain(|other| other != host);
        }
    }

    /// Assigns the next request of a host to a connection: a new one, or an idle one, which sends it.
    fn assign(&mut self, slot: usize, now: Duration) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        connection.due = None;
        let Some(host) = self.hosts.get_mut(&connection.host) else { return };
        connection.request = host.queued.pop_front();
        let Some((id, request)) = connection.request.and_then(|id| Some((id, self.requests.get_mut(&id)?))) else {
            return;
        };
        request.connection = Some(slot);
        if let Stage::Open { sent, reader, .. } = &mut connection.stage {
            (*sent, *reader) = (0, ResponseReader::new(request.request.body_limit));
            connection.is_reused = true;
            self.enqueue(slot);
            self.restart_read_timeout(id, 0, now);
        }
    }

    /// Sets the addresses of a connection's host, or why it has none.
    fn resolved(&mut self, slot: usize, addresses: Resolution, now: Duration) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        match addresses {
            Err(reason) => self.fail(slot, FetchError::UnknownHost(reason.to_string()), now),
            Ok(addresses) => {
                let port = connection.host.port;
                let good = self.hosts.get(&connection.host).and_then(|host| host.good_address);
                let request = connection.request.and_then(|id| self.requests.get(&id));
                let least = request.map_or(Scope::Global, |request| request.request.least_scope);
                let in_scope = addresses.iter().filter(|address| scope(**address) >= least);
                let mut addresses: Vec<_> = in_scope.map(|address| SocketAddr::new(*address, port)).collect();
                if addresses.is_empty() {
                    return self.fail(slot, FetchError::OutOfScope(least), now);
                }
                addresses.sort_by_key(|address| good != Some(*address));
                addresses.truncate(MAX_ADDRESSES);
                connection.stage = Stage::Connecting { addresses: addresses.into() };
                self.attempt(slot, now);
            }
        }
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
        if let Some(host) = self.hosts.get_mut(&connection.host) {
            host.good_address = Some(address);
        }
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
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let (host, from) = (connection.host.clone(), connection.address());
        let Some(id) = connection.request else { return };
        let is_sent = |request| connection.unsent(request).iter().all(|part| part.is_empty());
        let is_sent = self.requests.get(&id).is_some_and(is_sent);
        // A host that waits for a connection has priority over reuse of this one.
        if complete.keep_alive && is_sent && self.hosts_wanting_connection.is_empty() {
            (connection.request, connection.due) = (None, Some(now + self.limits.idle_time));
        } else {
            self.close(slot);
        }
        self.finish(id, from, Ok(complete.response));
        self.dispatch(&host, now);
    }

    /// Handles the end of a connection by the server, with or without an error.
    fn closed_by_server(&mut self, slot: usize, cause: Option<io::Error>, now: Duration) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let (host, from, is_reused) = (connection.host.clone(), connection.address(), connection.is_reused);
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
                    (request.connection, request.is_retry) = (None, true);
                    (request.min_rate_due, request.recent_bytes) = (None, 0);
                    request.due = request.deadline;
                    self.hosts.entry(host.clone()).or_default().queued.push_front(id);
                }
                None => self.finish(id, from, result),
            }
        }
        self.dispatch(&host, now);
    }

    /// Closes a connection and fails its request.
    fn fail(&mut self, slot: usize, error: FetchError, now: Duration) {
        let Some(host) = self.connections.get(slot).map(|connection| connection.host.clone()) else { return };
        if let Some(id) = self.close(slot) {
            self.finish(id, None, Err(error));
        }
        self.dispatch(&host, now);
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
        match (request.connection, self.hosts.get_mut(&request.host)) {
            (Some(slot), _) => _ = self.close(slot),
            (None, Some(host)) => host.queued.retain(|other| *other != id),
            (None, None) => {}
        }
        self.dispatch(&request.host, now);
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
    fn new(host: Rc<Endpoint>) -> Self {
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
