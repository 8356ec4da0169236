//! Assignment of requests to connections, and their limits.
//!
//! The pool returns what it needs (DNS queries, connections to open and close) and is given the results. Connections
//! are identified by slot. A slot is reused only after [`ConnectionPool::next_closed`] returned it, so that method must
//! be called before anything else after each call that may close a connection.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;

use slab::Slab;

use super::connection::{ClientConnection, Pending};
use super::response::Complete;
use super::{Answer, Endpoint, Fetch, FetchError, FetchId, FetchLimits, RequestHead, Response};
use crate::figures::take_off;

/// Addresses of a host to try for one request.
const MAX_ADDRESSES: usize = 4;

/// Expired timers handled in one call.
const DUE_PER_CALL: usize = 16;

/// A completed request.
pub type Fetched = (FetchId, Result<Answer, FetchError>);

/// A server with requests or connections.
#[derive(Debug)]
struct Host {
    endpoint: Endpoint,
    /// Requests without a connection.
    waiting: VecDeque<Pending>,
    /// Connections, idle ones and those being opened included.
    connections: usize,
    /// Slots of connections without a request, the last used one at the end.
    idle: Vec<usize>,
    /// The address last connected to; tried first.
    good_address: Option<SocketAddr>,
    is_starving: bool,
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
    connections: Slab<ClientConnection>,
    locations: HashMap<FetchId, Location>,
    /// Requests that wait for a connection.
    waiting: usize,
    /// Hosts with requests but no connection because all are in use, in the order in which they get one.
    starving: VecDeque<usize>,
    /// Timeouts of requests.
    deadlines: BTreeSet<(Instant, FetchId)>,
    /// Timeouts of connection attempts, by slot.
    attempts: BTreeSet<(Instant, usize)>,
    /// Timeouts of idle connections, by slot.
    idle: BTreeSet<(Instant, usize)>,
    questions: VecDeque<usize>,
    attempts_wanted: VecDeque<usize>,
    assigned: VecDeque<usize>,
    closed: VecDeque<usize>,
    done: VecDeque<Fetched>,
    /// Bytes of responses in progress, and of completed ones not taken yet.
    held_bytes: usize,
    done_bytes: usize,
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
            starving: VecDeque::new(),
            deadlines: BTreeSet::new(),
            attempts: BTreeSet::new(),
            idle: BTreeSet::new(),
            questions: VecDeque::new(),
            attempts_wanted: VecDeque::new(),
            assigned: VecDeque::new(),
            closed: VecDeque::new(),
            done: VecDeque::new(),
            held_bytes: 0,
            done_bytes: 0,
        }
    }

    /// Starts a request.
    pub fn start(&mut self, id: FetchId, fetch: Fetch, now: Instant) {
        let Fetch { endpoint, method, target, media_type, body, body_limit, time, silence, is_idempotent } = fetch;
        let head = RequestHead { endpoint: &endpoint, method, target: &target, media_type, is_kept: true };
        let head = match head.to_bytes(body.len()) {
            Ok(head) => head,
            Err(error) => return self.done.push_back((id, Err(error))),
        };
        let slot = self.host(endpoint);
        let Some(host) = self.hosts.get_mut(slot) else { return };
        if host.waiting.len() >= self.limits.waiting_per_host || self.waiting >= self.limits.waiting {
            self.forget_if_unused(slot);
            return self.done.push_back((id, Err(FetchError::Busy)));
        }
        let (deadline, is_repeated) = (now + time, false);
        let due = deadline;
        host.waiting.push_back(Pending {
            id,
            head,
            body,
            body_limit,
            time,
            deadline,
            silence,
            due,
            slow_due: None,
            recent_bytes: 0,
            is_idempotent,
            is_repeated,
        });
        self.waiting += 1;
        self.deadlines.insert((deadline, id));
        self.locations.insert(id, Location::Waiting { host: slot });
        self.serve(slot);
    }

    /// Cancels a request; its outcome is not delivered.
    pub fn cancel(&mut self, id: FetchId) {
        if self.give_up(id).is_none()
            && let Some(index) = self.done.iter().position(|(done, _)| *done == id)
        {
            self.done.remove(index).iter().for_each(|done| take_off(&mut self.done_bytes, body_bytes(done)));
        }
    }

    /// Returns a connection that needs its host resolved, and the host's name. Answer with [`named`](Self::named),
    /// unless the connection is closed first.
    pub fn next_question(&mut self) -> Option<(usize, &str)> {
        while let Some(slot) = self.questions.pop_front() {
            let Some(connection) = self.connections.get_mut(slot) else { continue };
            if connection.take_question() {
                return self.hosts.get(connection.host).map(|host| (slot, host.endpoint.host.as_str()));
            }
        }
        None
    }

    /// Sets the addresses of a connection's host, or why it has none.
    pub fn named(&mut self, slot: usize, addresses: Result<&[IpAddr], &str>, now: Instant) {
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
                connection.named(addresses.into());
                self.attempt(slot, now);
            }
        }
    }

    /// Returns a connection to open, and its address. Answer with [`connected`](Self::connected) or
    /// [`attempt_failed`](Self::attempt_failed), unless the connection is closed first.
    pub fn next_attempt(&mut self) -> Option<(usize, SocketAddr)> {
        while let Some(slot) = self.attempts_wanted.pop_front() {
            if let Some(address) = self.connections.get_mut(slot).and_then(ClientConnection::take_attempt) {
                return Some((slot, address));
            }
        }
        None
    }

    /// Reports that a connection is established.
    pub fn connected(&mut self, slot: usize, now: Instant) {
        self.forget_timer(slot);
        if let Some(connection) = self.connections.get_mut(slot)
            && let Some(address) = connection.connected()
            && let Some(host) = self.hosts.get_mut(connection.host)
        {
            host.good_address = Some(address);
        }
        self.wait_for_bytes(slot, 0, now);
    }

    /// Counts received bytes and restarts the read timeout.
    fn wait_for_bytes(&mut self, slot: usize, count: usize, now: Instant) {
        let pending = self.connections.get_mut(slot).and_then(|connection| connection.pending.as_mut());
        if let Some(pending) = pending {
            self.deadlines.remove(&(pending.due, pending.id));
            pending.recent_bytes += count;
            if pending.slow_due.is_none() || pending.recent_bytes >= self.limits.least_bytes {
                (pending.slow_due, pending.recent_bytes) = (Some(now + self.limits.least_time), 0);
            }
            let quiet_due = now + pending.silence;
            pending.due = pending.deadline.min(quiet_due).min(pending.slow_due.unwrap_or(quiet_due));
            self.deadlines.insert((pending.due, pending.id));
        }
    }

    /// Reports that an address could not be connected to. [`next_closed`](Self::next_closed) returns the slot, so that
    /// its socket is closed.
    pub fn attempt_failed(&mut self, slot: usize, error: io::Error, now: Instant) {
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
    pub fn next_assigned(&mut self, now: Instant) -> Option<usize> {
        let slot = self.assigned.pop_front()?;
        self.wait_for_bytes(slot, 0, now);
        Some(slot)
    }

    /// Returns whether a connection is being established.
    pub fn is_connecting(&self, slot: usize) -> bool {
        self.connections.get(slot).is_some_and(ClientConnection::is_connecting)
    }

    /// Returns the bytes that a connection has to send, in two parts.
    pub fn unsent(&self, slot: usize) -> [&[u8]; 2] {
        self.connections.get(slot).map_or([&[], &[]], ClientConnection::unsent)
    }

    /// Records bytes as sent.
    pub fn sent(&mut self, slot: usize, count: usize) {
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.sent(count);
        }
    }

    /// Handles bytes received on a connection.
    pub fn received(&mut self, slot: usize, bytes: &[u8], now: Instant) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let before = connection.held_bytes();
        let result = connection.receive(bytes);
        self.held_bytes = self.held_bytes + connection.held_bytes() - before;
        match result {
            Err(error) => self.fail(slot, error),
            Ok(Some(complete)) => self.answered(slot, complete, now),
            Ok(None) if self.held_bytes > self.limits.held_bytes => {
                let hog = self.connections.iter().max_by_key(|(_, connection)| connection.held_bytes());
                if let Some((hog, _)) = hog {
                    self.fail(hog, FetchError::Busy);
                }
            }
            Ok(None) => self.wait_for_bytes(slot, bytes.len(), now),
        }
    }

    /// Handles the end of a connection by the server, with or without an error.
    pub fn ended(&mut self, slot: usize, cause: Option<io::Error>) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let (host, may_repeat, from) = (connection.host, connection.may_repeat(), connection.address());
        let before = connection.held_bytes();
        let result = connection.end(cause);
        self.held_bytes = self.held_bytes + connection.held_bytes() - before;
        let pending = self.close(slot);
        match pending {
            Some(pending) if may_repeat => self.repeat(host, pending),
            Some(pending) => self.finish(pending, from, result),
            None => {}
        }
        self.serve(host);
    }

    /// Returns a slot whose socket is to be closed, if it has one.
    pub fn next_closed(&mut self) -> Option<usize> {
        self.closed.pop_front()
    }

    /// Returns a completed request.
    pub fn next_done(&mut self) -> Option<Fetched> {
        let done = self.done.pop_front()?;
        take_off(&mut self.done_bytes, body_bytes(&done));
        Some(done)
    }

    /// Handles expired timers, up to a limit per call.
    pub fn deal_with_due(&mut self, now: Instant) {
        for _ in 0..DUE_PER_CALL {
            if let Some((_, id)) = self.deadlines.first().copied().filter(|(due, _)| *due <= now) {
                if let Some(pending) = self.give_up(id) {
                    self.done.push_back((id, Err(self.lateness(&pending, now))));
                }
            } else if let Some((_, slot)) = self.attempts.first().copied().filter(|(due, _)| *due <= now) {
                self.attempt_failed(slot, io::ErrorKind::TimedOut.into(), now);
            } else if let Some((_, slot)) = self.idle.first().copied().filter(|(due, _)| *due <= now) {
                let host = self.connections.get(slot).map_or(usize::MAX, |connection| connection.host);
                self.close(slot);
                self.serve(host);
            } else {
                return;
            }
        }
    }

    /// Returns which timeout of a request has expired.
    fn lateness(&self, pending: &Pending, now: Instant) -> FetchError {
        match pending.slow_due {
            _ if pending.deadline <= now => FetchError::TimedOut(pending.time),
            Some(due) if due <= now => FetchError::TooSlow(self.limits.least_time),
            _ => FetchError::Silent(pending.silence),
        }
    }

    /// Returns when the next timer expires.
    pub fn next_due(&self) -> Option<Instant> {
        let deadline = self.deadlines.first().map(|(due, _)| *due);
        let attempt = self.attempts.first().map(|(due, _)| *due);
        let idle = self.idle.first().map(|(due, _)| *due);
        [deadline, attempt, idle].into_iter().flatten().min()
    }

    /// Returns whether an action or an outcome is waiting to be taken.
    pub fn has_wishes(&self) -> bool {
        let wanted = [&self.questions, &self.attempts_wanted, &self.assigned];
        !self.done.is_empty() || wanted.iter().any(|slots| !slots.is_empty())
    }

    /// Returns the bytes of responses in progress or not taken yet.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes + self.done_bytes
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
    fn host(&mut self, endpoint: Endpoint) -> usize {
        let key = Endpoint { host: endpoint.host.to_ascii_lowercase(), port: endpoint.port };
        *self.hosts_by_endpoint.entry(key).or_insert_with_key(|key| {
            self.hosts.insert(Host {
                endpoint: key.clone(),
                waiting: VecDeque::new(),
                connections: 0,
                idle: Vec::new(),
                good_address: None,
                is_starving: false,
            })
        })
    }

    /// Assigns connections to the waiting requests of a host, after the hosts that have none.
    fn serve(&mut self, slot: usize) {
        while self.connections.len() < self.limits.connections
            && let Some(starving) = self.starving.pop_front()
        {
            if let Some(host) = self.hosts.get_mut(starving) {
                host.is_starving = false;
            }
            self.serve_host(starving);
        }
        self.serve_host(slot);
    }

    fn serve_host(&mut self, slot: usize) {
        while let Some(host) = self.hosts.get_mut(slot)
            && let Some(first) = host.waiting.front()
        {
            let is_repeated = first.is_repeated;
            match host.idle.pop() {
                // The server just closed its connection, so it will close other idle ones too.
                Some(idle) if is_repeated => drop(self.close(idle)),
                Some(idle) => self.assign(slot, idle),
                None if self.has_room_for(slot) => self.open(slot),
                None => break,
            }
        }
        self.forget_if_unused(slot);
    }

    /// Returns whether a host may have another connection. A host without any is queued if all are in use.
    fn has_room_for(&mut self, slot: usize) -> bool {
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
        if is_first && !host.is_starving {
            host.is_starving = true;
            self.starving.push_back(slot);
        }
        false
    }

    fn forget_if_unused(&mut self, slot: usize) {
        let is_used = |host: &Host| host.connections > 0 || !host.waiting.is_empty() || host.is_starving;
        if self.hosts.get(slot).is_some_and(|host| !is_used(host)) {
            let host = self.hosts.remove(slot);
            self.hosts_by_endpoint.remove(&host.endpoint);
        }
    }

    /// Takes the next request of a host from its queue.
    fn next_waiting(&mut self, host: usize, slot: usize) -> Option<Pending> {
        let pending = self.hosts.get_mut(host)?.waiting.pop_front()?;
        take_off(&mut self.waiting, 1);
        self.locations.insert(pending.id, Location::Connection { slot });
        Some(pending)
    }

    /// Opens a connection for the next request of a host.
    fn open(&mut self, host: usize) {
        let slot = self.connections.vacant_key();
        if let Some(pending) = self.next_waiting(host, slot) {
            self.connections.insert(ClientConnection::new(host, pending));
            self.questions.push_back(slot);
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
    fn attempt(&mut self, slot: usize, now: Instant) {
        let due = now + self.limits.connect_time;
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.due = Some(due);
            self.attempts.insert((due, slot));
            self.attempts_wanted.push_back(slot);
        }
    }

    /// Completes a request with its response.
    fn answered(&mut self, slot: usize, complete: Complete, now: Instant) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let (host, pending, from) = (connection.host, connection.pending.take(), connection.address());
        // A host that waits for a connection has priority over reuse of this one.
        if complete.is_kept && self.starving.is_empty() {
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
        self.serve(host);
    }

    /// Closes a connection and fails its request.
    fn fail(&mut self, slot: usize, error: FetchError) {
        let Some(connection) = self.connections.get(slot) else { return };
        let host = connection.host;
        if let Some(pending) = self.close(slot) {
            self.finish(pending, None, Err(error));
        }
        self.serve(host);
    }

    /// Requeues a request first, for a new connection.
    fn repeat(&mut self, host: usize, pending: Pending) {
        if let Some(place) = self.hosts.get_mut(host) {
            self.locations.insert(pending.id, Location::Waiting { host });
            self.waiting += 1;
            self.deadlines.remove(&(pending.due, pending.id));
            self.deadlines.insert((pending.deadline, pending.id));
            let (due, slow_due) = (pending.deadline, None);
            place.waiting.push_front(Pending { is_repeated: true, due, slow_due, recent_bytes: 0, ..pending });
        }
    }

    fn finish(&mut self, pending: Pending, from: Option<SocketAddr>, result: Result<Response, FetchError>) {
        self.forget(&pending);
        let answer = |response| {
            let from = from.map_or(Ipv4Addr::UNSPECIFIED.into(), |address| address.ip());
            Answer { from, response }
        };
        let result = result.map(answer);
        let done = (pending.id, result);
        self.done_bytes += body_bytes(&done);
        self.done.push_back(done);
    }

    fn forget(&mut self, pending: &Pending) {
        self.locations.remove(&pending.id);
        self.deadlines.remove(&(pending.due, pending.id));
    }

    /// Removes a request, wherever it is.
    fn give_up(&mut self, id: FetchId) -> Option<Pending> {
        let (host, pending) = match *self.locations.get(&id)? {
            Location::Connection { slot } => (self.connections.get(slot)?.host, self.close(slot)?),
            Location::Waiting { host } => {
                let waiting = &mut self.hosts.get_mut(host)?.waiting;
                let index = waiting.iter().position(|pending| pending.id == id)?;
                take_off(&mut self.waiting, 1);
                (host, waiting.remove(index)?)
            }
        };
        self.forget(&pending);
        self.serve(host);
        Some(pending)
    }

    /// Closes a connection and returns its request.
    fn close(&mut self, slot: usize) -> Option<Pending> {
        self.forget_timer(slot);
        let connection = self.connections.try_remove(slot)?;
        take_off(&mut self.held_bytes, connection.held_bytes());
        self.closed.push_back(slot);
        if let Some(host) = self.hosts.get_mut(connection.host) {
            take_off(&mut host.connections, 1);
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

fn body_bytes((_, result): &Fetched) -> usize {
    result.as_ref().map_or(0, |answer| answer.response.body.capacity())
}

#[cfg(test)]
mod tests;
