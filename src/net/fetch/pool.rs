//! Assignment of requests to connections, and their limits.
//!
//! The pool returns what it needs (DNS queries, connections to open and close) and is given the results. Connections
//! are identified by slot. A slot is reused only after [`ConnectionPool::next_closed`] returned it, so that method must
//! be called before anything else after each call that may close a connection.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use slab::Slab;

use super::connection::{OutboundConnection, PendingRequest};
use super::response::CompleteResponse;
use super::{Endpoint, FetchError, FetchId, FetchLimits, FetchRequest, FetchResponse, RequestHead, Response};
use crate::metrics::subtract;

/// Addresses of a host to try for one request.
const MAX_ADDRESSES: usize = 4;

/// Expired timers handled in one call.
const MAX_TIMEOUTS_PER_CALL: usize = 16;

/// A completed request.
pub type FetchOutcome = (FetchId, Result<FetchResponse, FetchError>);

/// A server with requests or connections.
#[derive(Debug)]
struct Host {
    endpoint: Endpoint,
    /// Requests without a connection.
    queued: VecDeque<PendingRequest>,
    /// Connections, idle ones and those being opened included.
    connections: usize,
    /// Slots of connections without a request, the last used one at the end.
    idle: Vec<usize>,
    /// The address last connected to; tried first.
    good_address: Option<SocketAddr>,
    wants_connection: bool,
}

/// Where a request is.
#[derive(Clone, Copy, Debug)]
enum Location {
    Waiting { host: usize },
    Connection { slot: usize },
}

/// All requests to other servers and their connections.
#[derive(Debug)]
pub struct ConnectionPool {
    limits: FetchLimits,
    hosts: Slab<Host>,
    hosts_by_endpoint: HashMap<Endpoint, usize>,
    connections: Slab<OutboundConnection>,
    locations: HashMap<FetchId, Location>,
    /// Requests that wait for a connection.
    waiting: usize,
    /// Hosts with requests but no connection because all are in use, in the order in which they get one.
    hosts_wanting_connection: VecDeque<usize>,
    /// Timeouts of requests.
    deadlines: BTreeSet<(Duration, FetchId)>,
    /// Timeouts of connection attempts, by slot.
    attempts: BTreeSet<(Duration, usize)>,
    /// Timeouts of idle connections, by slot.
    idle: BTreeSet<(Duration, usize)>,
    dns_queries: VecDeque<usize>,
    pending_attempts: VecDeque<usize>,
    assigned: VecDeque<usize>,
    closed: VecDeque<usize>,
    completed: VecDeque<FetchOutcome>,
    /// Bytes of responses in progress, and of completed ones not taken yet.
    held_bytes: usize,
    completed_bytes: usize,
}

impl ConnectionPool {
    pub fn new(limits: FetchLimits) -> Self {
        Self {
            limits,
            hosts: Slab::new(),
            hosts_by_endpoint: HashMap::new(),
            connections: Slab::new(),
            locations: HashMap::new(),
            waiting: 0,
            hosts_wanting_connection: VecDeque::new(),
            deadlines: BTreeSet::new(),
            attempts: BTreeSet::new(),
            idle: BTreeSet::new(),
            dns_queries: VecDeque::new(),
            pending_attempts: VecDeque::new(),
            assigned: VecDeque::new(),
            closed: VecDeque::new(),
            completed: VecDeque::new(),
            held_bytes: 0,
            completed_bytes: 0,
        }
    }

    /// Starts a request.
    pub fn start(&mut self, id: FetchId, request: FetchRequest, now: Duration) {
        let FetchRequest {
            endpoint,
            method,
            target,
            media_type,
            body,
            body_limit,
            timeout: time,
            read_timeout: silence,
            is_idempotent,
        } = request;
        let head = RequestHead { endpoint: &endpoint, method, target: &target, media_type, keep_alive: true };
        let head = match head.to_bytes(body.len()) {
            Ok(head) => head,
            Err(error) => return self.completed.push_back((id, Err(error))),
        };
        let slot = self.host_slot(endpoint);
        let Some(host) = self.hosts.get_mut(slot) else { return };
        let is_taken = self.locations.contains_key(&id);
        if is_taken || host.queued.len() >= self.limits.waiting_per_host || self.waiting >= self.limits.waiting {
            self.forget_if_unused(slot);
            return self.completed.push_back((id, Err(FetchError::Busy)));
        }
        let (deadline, is_repeated) = (now + time, false);
        let due = deadline;
        host.queued.push_back(PendingRequest {
            id,
            head,
            body,
            body_limit,
            timeout: time,
            deadline,
            read_timeout: silence,
            due,
            min_rate_due: None,
            recent_bytes: 0,
            is_idempotent,
            is_retry: is_repeated,
        });
        self.waiting += 1;
        self.deadlines.insert((deadline, id));
        self.locations.insert(id, Location::Waiting { host: slot });
        self.dispatch(slot);
    }

    /// Cancels a request; its outcome is not delivered.
    pub fn cancel(&mut self, id: FetchId) {
        if self.remove_request(id).is_none()
            && let Some(index) = self.completed.iter().position(|(done, _)| *done == id)
        {
            self.completed.remove(index).iter().for_each(|done| subtract(&mut self.completed_bytes, body_bytes(done)));
        }
    }

    /// Returns a connection that needs its host resolved, and the host's name. Answer with [`resolved`](Self::resolved),
    /// unless the connection is closed first.
    pub fn next_dns_query(&mut self) -> Option<(usize, &str)> {
        while let Some(slot) = self.dns_queries.pop_front() {
            let Some(connection) = self.connections.get_mut(slot) else { continue };
            if connection.take_dns_query() {
                return self.hosts.get(connection.host).map(|host| (slot, host.endpoint.host.as_str()));
            }
        }
        None
    }

    /// Sets the addresses of a connection's host, or why it has none.
    pub fn resolved(&mut self, slot: usize, addresses: Result<&[IpAddr], &str>, now: Duration) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let Some(host) = self.hosts.get(connection.host) else { return };
        match addresses {
            Ok([]) => self.fail(slot, FetchError::UnknownHost("it has no address".to_owned())),
            Err(reason) => self.fail(slot, FetchError::UnknownHost(reason.to_owned())),
            Ok(addresses) => {
                let port = host.endpoint.port;
                let mut addresses: Vec<_> = addresses.iter().map(|address| SocketAddr::new(*address, port)).collect();
                addresses.sort_by_key(|address| host.good_address != Some(*address));
                addresses.truncate(MAX_ADDRESSES);
                connection.resolved(addresses.into());
                self.attempt(slot, now);
            }
        }
    }

    /// Returns a connection to open, and its address. Answer with [`connected`](Self::connected) or
    /// [`attempt_failed`](Self::attempt_failed), unless the connection is closed first.
    pub fn next_attempt(&mut self) -> Option<(usize, SocketAddr)> {
        while let Some(slot) = self.pending_attempts.pop_front() {
            if let Some(address) = self.connections.get_mut(slot).and_then(OutboundConnection::take_attempt) {
                return Some((slot, address));
            }
        }
        None
    }

    /// Reports that a connection is established.
    pub fn connected(&mut self, slot: usize, now: Duration) {
        self.forget_timer(slot);
        if let Some(connection) = self.connections.get_mut(slot)
            && let Some(address) = connection.connected()
            && let Some(host) = self.hosts.get_mut(connection.host)
        {
            host.good_address = Some(address);
        }
        self.restart_read_timeout(slot, 0, now);
    }

    /// Counts received bytes and restarts the read timeout.
    fn restart_read_timeout(&mut self, slot: usize, count: usize, now: Duration) {
        let pending = self.connections.get_mut(slot).and_then(|connection| connection.pending.as_mut());
        if let Some(pending) = pending {
            self.deadlines.remove(&(pending.due, pending.id));
            pending.recent_bytes += count;
            if pending.min_rate_due.is_none() || pending.recent_bytes >= self.limits.min_rate_bytes {
                (pending.min_rate_due, pending.recent_bytes) = (Some(now + self.limits.min_rate_window), 0);
            }
            let read_due = now + pending.read_timeout;
            pending.due = pending.deadline.min(read_due).min(pending.min_rate_due.unwrap_or(read_due));
            self.deadlines.insert((pending.due, pending.id));
        }
    }

    /// Reports that an address could not be connected to. [`next_closed`](Self::next_closed) returns the slot, so that
    /// its socket is closed.
    pub fn attempt_failed(&mut self, slot: usize, error: io::Error, now: Duration) {
        self.forget_timer(slot);
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if connection.attempt_failed() {
            self.closed.push_back(slot);
            self.attempt(slot, now);
        } else {
            self.fail(slot, FetchError::Unreachable(error));
        }
    }

    /// Returns an established connection that has a new request to send.
    pub fn next_assigned(&mut self, now: Duration) -> Option<usize> {
        let slot = self.assigned.pop_front()?;
        self.restart_read_timeout(slot, 0, now);
        Some(slot)
    }

    /// Returns whether a connection is being established.
    pub fn is_connecting(&self, slot: usize) -> bool {
        self.connections.get(slot).is_some_and(OutboundConnection::is_connecting)
    }

    /// Returns the bytes that a connection has to send, in two parts.
    pub fn unsent(&self, slot: usize) -> [&[u8]; 2] {
        self.connections.get(slot).map_or([&[], &[]], OutboundConnection::unsent)
    }

    /// Records bytes as sent.
    pub fn sent(&mut self, slot: usize, count: usize) {
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.sent(count);
        }
    }

    /// Handles bytes received on a connection.
    pub fn received(&mut self, slot: usize, bytes: &[u8], now: Duration) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let before = connection.held_bytes();
        let result = connection.receive(bytes);
        self.held_bytes = self.held_bytes + connection.held_bytes() - before;
        match result {
            Err(error) => self.fail(slot, error),
            Ok(Some(complete)) => self.complete(slot, complete, now),
            Ok(None) if self.held_bytes > self.limits.held_bytes => {
                let largest = self.connections.iter().max_by_key(|(_, connection)| connection.held_bytes());
                if let Some((hog, _)) = largest {
                    self.fail(hog, FetchError::Busy);
                }
            }
            Ok(None) => self.restart_read_timeout(slot, bytes.len(), now),
        }
    }

    /// Handles the end of a connection by the server, with or without an error.
    pub fn closed_by_server(&mut self, slot: usize, cause: Option<io::Error>) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let (host, may_repeat, from) = (connection.host, connection.may_retry(), connection.address());
        let before = connection.held_bytes();
        let result = connection.end(cause);
        self.held_bytes = self.held_bytes + connection.held_bytes() - before;
        let pending = self.close(slot);
        match pending {
            Some(pending) if may_repeat => self.retry(host, pending),
            Some(pending) => self.finish(pending, from, result),
            None => {}
        }
        self.dispatch(host);
    }

    /// Returns a slot whose socket is to be closed, if it has one.
    pub fn next_closed(&mut self) -> Option<usize> {
        self.closed.pop_front()
    }

    /// Returns a completed request.
    pub fn next_completed(&mut self) -> Option<FetchOutcome> {
        let done = self.completed.pop_front()?;
        subtract(&mut self.completed_bytes, body_bytes(&done));
        Some(done)
    }

    /// Handles expired timers, up to a limit per call.
    pub fn handle_timeouts(&mut self, now: Duration) {
        for _ in 0..MAX_TIMEOUTS_PER_CALL {
            if let Some((_, id)) = self.deadlines.first().copied().filter(|(due, _)| *due <= now) {
                if let Some(pending) = self.remove_request(id) {
                    self.completed.push_back((id, Err(self.timeout_error(&pending, now))));
                }
            } else if let Some((_, slot)) = self.attempts.first().copied().filter(|(due, _)| *due <= now) {
                self.attempt_failed(slot, io::ErrorKind::TimedOut.into(), now);
            } else if let Some((_, slot)) = self.idle.first().copied().filter(|(due, _)| *due <= now) {
                let host = self.connections.get(slot).map_or(usize::MAX, |connection| connection.host);
                self.close(slot);
                self.dispatch(host);
            } else {
                return;
            }
        }
    }

    /// Returns which timeout of a request has expired.
    fn timeout_error(&self, pending: &PendingRequest, now: Duration) -> FetchError {
        match pending.min_rate_due {
            _ if pending.deadline <= now => FetchError::TimedOut(pending.timeout),
            Some(due) if due <= now => FetchError::TooSlow(self.limits.min_rate_window),
            _ => FetchError::Silent(pending.read_timeout),
        }
    }

    /// Returns when the next timer expires.
    pub fn next_due(&self) -> Option<Duration> {
        let deadline = self.deadlines.first().map(|(due, _)| *due);
        let attempt = self.attempts.first().map(|(due, _)| *due);
        let idle = self.idle.first().map(|(due, _)| *due);
        [deadline, attempt, idle].into_iter().flatten().min()
    }

    /// Returns whether an action or an outcome is waiting to be taken.
    pub fn has_pending_work(&self) -> bool {
        let wanted = [&self.dns_queries, &self.pending_attempts, &self.assigned];
        !self.completed.is_empty() || wanted.iter().any(|slots| !slots.is_empty())
    }

    /// Returns the bytes of responses in progress or not taken yet.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes + self.completed_bytes
    }

    /// Returns the number of connections, and how many are idle.
    pub fn connections(&self) -> (usize, usize) {
        (self.connections.len(), self.idle.len())
    }

    /// Returns the number of requests that wait for a connection.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns the slot of a host, adding it if needed.
    fn host_slot(&mut self, endpoint: Endpoint) -> usize {
        let key = Endpoint { host: endpoint.host.to_ascii_lowercase(), port: endpoint.port };
        *self.hosts_by_endpoint.entry(key).or_insert_with_key(|key| {
            self.hosts.insert(Host {
                endpoint: key.clone(),
                queued: VecDeque::new(),
                connections: 0,
                idle: Vec::new(),
                good_address: None,
                wants_connection: false,
            })
        })
    }

    /// Assigns connections to the waiting requests of a host, after the hosts that have none.
    fn dispatch(&mut self, slot: usize) {
        while self.connections.len() < self.limits.connections
            && let Some(starving) = self.hosts_wanting_connection.pop_front()
        {
            if let Some(host) = self.hosts.get_mut(starving) {
                host.wants_connection = false;
            }
            self.dispatch_host(starving);
        }
        self.dispatch_host(slot);
    }

    fn dispatch_host(&mut self, slot: usize) {
        while let Some(host) = self.hosts.get_mut(slot)
            && let Some(first) = host.queued.front()
        {
            let is_repeated = first.is_retry;
            match host.idle.pop() {
                // The server just closed its connection, so it will close other idle ones too.
                Some(idle) if is_repeated => drop(self.close(idle)),
                Some(idle) => self.assign(slot, idle),
                None if self.may_open_for(slot) => self.open(slot),
                None => break,
            }
        }
        self.forget_if_unused(slot);
    }

    /// Returns whether a host may have another connection. A host without any is queued if all are in use.
    fn may_open_for(&mut self, slot: usize) -> bool {
        let Some(host) = self.hosts.get_mut(slot) else { return false };
        let busy = self.connections.len() - self.idle.len();
        let is_first = host.connections == 0;
        if host.connections >= self.limits.connections_per_host || !is_first && busy >= self.limits.connections / 2 {
            return false;
        }
        if self.connections.len() < self.limits.connections {
            return true;
        }
        if let Some((_, oldest)) = self.idle.first().copied() {
            let other = self.connections.get(oldest).map_or(usize::MAX, |connection| connection.host);
            self.close(oldest);
            self.forget_if_unused(other);
            return true;
        }
        if is_first && !host.wants_connection {
            host.wants_connection = true;
            self.hosts_wanting_connection.push_back(slot);
        }
        false
    }

    fn forget_if_unused(&mut self, slot: usize) {
        let is_used = |host: &Host| host.connections > 0 || !host.queued.is_empty() || host.wants_connection;
        if self.hosts.get(slot).is_some_and(|host| !is_used(host)) {
            let host = self.hosts.remove(slot);
            self.hosts_by_endpoint.remove(&host.endpoint);
        }
    }

    /// Takes the next request of a host from its queue.
    fn next_waiting(&mut self, host: usize, slot: usize) -> Option<PendingRequest> {
        let pending = self.hosts.get_mut(host)?.queued.pop_front()?;
        subtract(&mut self.waiting, 1);
        self.locations.insert(pending.id, Location::Connection { slot });
        Some(pending)
    }

    /// Opens a connection for the next request of a host.
    fn open(&mut self, host: usize) {
        let slot = self.connections.vacant_key();
        if let Some(pending) = self.next_waiting(host, slot) {
            self.connections.insert(OutboundConnection::new(host, pending));
            self.dns_queries.push_back(slot);
            if let Some(host) = self.hosts.get_mut(host) {
                host.connections += 1;
            }
        }
    }

    /// Assigns the next request of a host to an idle connection.
    fn assign(&mut self, host: usize, slot: usize) {
        self.forget_timer(slot);
        if let Some(pending) = self.next_waiting(host, slot)
            && let Some(connection) = self.connections.get_mut(slot)
        {
            connection.assign(pending);
            self.assigned.push_back(slot);
        }
    }

    /// Starts an attempt to connect to the next address of a host.
    fn attempt(&mut self, slot: usize, now: Duration) {
        let due = now + self.limits.connect_time;
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.due = Some(due);
            self.attempts.insert((due, slot));
            self.pending_attempts.push_back(slot);
        }
    }

    /// Completes a request with its response.
    fn complete(&mut self, slot: usize, complete: CompleteResponse, now: Duration) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let (host, pending, from) = (connection.host, connection.pending.take(), connection.address());
        // A host that waits for a connection has priority over reuse of this one.
        if complete.keep_alive && self.hosts_wanting_connection.is_empty() {
            let due = now + self.limits.idle_time;
            connection.due = Some(due);
            self.idle.insert((due, slot));
            if let Some(host) = self.hosts.get_mut(host) {
                host.idle.push(slot);
            }
        } else {
            self.close(slot);
        }
        if let Some(pending) = pending {
            self.finish(pending, from, Ok(complete.response));
        }
        self.dispatch(host);
    }

    /// Closes a connection and fails its request.
    fn fail(&mut self, slot: usize, error: FetchError) {
        let Some(connection) = self.connections.get(slot) else { return };
        let host = connection.host;
        if let Some(pending) = self.close(slot) {
            self.finish(pending, None, Err(error));
        }
        self.dispatch(host);
    }

    /// Requeues a request first, for a new connection.
    fn retry(&mut self, host: usize, pending: PendingRequest) {
        if let Some(place) = self.hosts.get_mut(host) {
            self.locations.insert(pending.id, Location::Waiting { host });
            self.waiting += 1;
            self.deadlines.remove(&(pending.due, pending.id));
            self.deadlines.insert((pending.deadline, pending.id));
            let (due, slow_due) = (pending.deadline, None);
            place.queued.push_front(PendingRequest {
                is_retry: true,
                due,
                min_rate_due: slow_due,
                recent_bytes: 0,
                ..pending
            });
        }
    }

    fn finish(&mut self, pending: PendingRequest, from: Option<SocketAddr>, result: Result<Response, FetchError>) {
        self.forget(&pending);
        let answer = |response| {
            let from = from.map_or(Ipv4Addr::UNSPECIFIED.into(), |address| address.ip());
            FetchResponse { from, response }
        };
        let result = result.map(answer);
        let done = (pending.id, result);
        self.completed_bytes += body_bytes(&done);
        self.completed.push_back(done);
    }

    fn forget(&mut self, pending: &PendingRequest) {
        self.locations.remove(&pending.id);
        self.deadlines.remove(&(pending.due, pending.id));
    }

    /// Removes a request, wherever it is.
    fn remove_request(&mut self, id: FetchId) -> Option<PendingRequest> {
        let (host, pending) = match *self.locations.get(&id)? {
            Location::Connection { slot } => (self.connections.get(slot)?.host, self.close(slot)?),
            Location::Waiting { host } => {
                let waiting = &mut self.hosts.get_mut(host)?.queued;
                let index = waiting.iter().position(|pending| pending.id == id)?;
                subtract(&mut self.waiting, 1);
                (host, waiting.remove(index)?)
            }
        };
        self.forget(&pending);
        self.dispatch(host);
        Some(pending)
    }

    /// Closes a connection and returns its request.
    fn close(&mut self, slot: usize) -> Option<PendingRequest> {
        self.forget_timer(slot);
        let connection = self.connections.try_remove(slot)?;
        subtract(&mut self.held_bytes, connection.held_bytes());
        self.closed.push_back(slot);
        if let Some(host) = self.hosts.get_mut(connection.host) {
            subtract(&mut host.connections, 1);
            host.idle.retain(|idle| *idle != slot);
        }
        connection.pending
    }

    fn forget_timer(&mut self, slot: usize) {
        if let Some(due) = self.connections.get_mut(slot).and_then(|connection| connection.due.take()) {
            self.attempts.remove(&(due, slot));
            self.idle.remove(&(due, slot));
        }
    }
}

fn body_bytes((_, result): &FetchOutcome) -> usize {
    result.as_ref().map_or(0, |answer| answer.response.body.capacity())
}

#[cfg(test)]
mod tests;
