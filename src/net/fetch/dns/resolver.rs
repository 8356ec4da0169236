//! DNS resolver.
//!
//! Both address families are queried at once, each query on a socket of its own, so that a forger must guess a port and
//! an id. Once one family has addresses, the other is given only a short time.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use mio::net::UdpSocket;
use mio::{Interest, Registry, Token};
use sha3::digest::{ExtendableOutput, Update, XofReader};
use sha3::{Shake128, Shake128Reader};
use slab::Slab;

use super::DnsConfig;
use super::message::{self, DnsAnswer, Family};
use super::{Cache, Resolution};

/// How long the addresses of one family wait for those of the other.
const OTHER_FAMILY_TIMEOUT: Duration = Duration::from_millis(100);
/// Wrong messages on a socket before the query moves to another socket.
const MAX_WRONG_MESSAGES: usize = 16;
/// Messages read from a socket per turn.
const MESSAGES_PER_TURN: usize = 4;
/// How long a failed lookup is cached: the name has no address, or no server answered.
const NO_ADDRESS_TTL: Duration = Duration::from_secs(30);
const NO_ANSWER_TTL: Duration = Duration::from_secs(5);

/// A query to send to a name server on a new socket.
#[derive(Debug, PartialEq, Eq)]
struct Datagram {
    /// Slot of the query.
    slot: usize,
    /// The name server; responses from others are not accepted.
    server: SocketAddr,
    bytes: Vec<u8>,
}

/// A lookup in progress.
#[derive(Debug, Default)]
struct Lookup {
    requesters: Vec<usize>,
    /// Results so far, one per family.
    answers: Vec<DnsAnswer>,
}

/// A query in progress.
#[derive(Debug)]
struct Query {
    name: String,
    family: Family,
    id: u16,
    attempt: usize,
    /// Index of the name server.
    server: usize,
    /// `None` until it is sent.
    socket: Option<UdpSocket>,
    deadline: Duration,
    wrong_messages: usize,
}

/// Resolves names. A requester is identified by a number and has one lookup at a time.
pub struct Resolver {
    configuration: DnsConfig,
    cache: Cache,
    random: Shake128Reader,
    max_queries: usize,
    /// Index of the name server that answered last, the first to be queried.
    server: usize,
    /// Lookups by lower-case name.
    lookups: BTreeMap<String, Lookup>,
    /// Queries not started yet.
    waiting: VecDeque<(String, Family)>,
    queries: Slab<Query>,
    unsent: VecDeque<usize>,
    resolved: VecDeque<(usize, Resolution)>,
}

impl Resolver {
    /// Returns a resolver with at most `max_queries` in progress and `cached_names` in the cache. The seed must be
    /// unpredictable, because the ids of queries depend on it.
    pub fn new(configuration: DnsConfig, seed: &[u8; 32], max_queries: usize, cached_names: usize) -> Self {
        Self {
            configuration,
            cache: Cache::new(cached_names),
            random: Shake128::default().chain(seed).finalize_xof(),
            max_queries,
            server: 0,
            lookups: BTreeMap::new(),
            waiting: VecDeque::new(),
            queries: Slab::new(),
            unsent: VecDeque::new(),
            resolved: VecDeque::new(),
        }
    }

    /// Looks up a name for a requester. [`next_resolved`](Self::next_resolved) returns the result.
    pub fn resolve(&mut self, name: &str, requester: usize, now: Duration) {
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let known = match self.configuration.local_addresses(&name) {
            Some(addresses) => Some(Ok(addresses.into())),
            None if !message::is_name(&name) => Some(Err("it is not a valid host name")),
            None => self.cache.get(&name, now),
        };
        if let Some(known) = known {
            return self.resolved.push_back((requester, known));
        }
        if !self.lookups.contains_key(&name) {
            self.waiting.extend([(name.clone(), Family::V4), (name.clone(), Family::V6)]);
        }
        self.lookups.entry(name).or_default().requesters.push(requester);
        self.start_waiting(now);
    }

    /// Returns a requester and the result of its lookup.
    pub fn next_resolved(&mut self) -> Option<(usize, Resolution)> {
        self.resolved.pop_front()
    }

    /// Cancels the lookup of a requester, if it has one.
    pub fn cancel(&mut self, requester: usize, now: Duration) {
        self.resolved.retain(|(other, _)| *other != requester);
        let own = self.lookups.iter_mut().find(|(_, lookup)| lookup.requesters.contains(&requester));
        let Some((name, lookup)) = own else { return };
        lookup.requesters.retain(|other| *other != requester);
        if lookup.requesters.is_empty() {
            let name = name.clone();
            self.lookups.remove(&name);
            self.waiting.retain(|(other, _)| *other != name);
            self.queries.retain(|_, query| query.name != name);
            self.start_waiting(now);
        }
    }

    /// Sends queries, at most `max` of them. The token of a query is `first_token` and its slot. Returns how many were
    /// sent.
    pub fn send_queries(&mut self, max: usize, registry: &Registry, first_token: usize, now: Duration) -> u64 {
        for sent in 0..max {
            let Some(datagram) = self.next_query() else { return sent as u64 };
            let slot = datagram.slot;
            match send(&datagram, registry, Token(first_token + slot)) {
                Ok(socket) => {
                    if let Some(query) = self.queries.get_mut(slot) {
                        query.socket = Some(socket);
                    }
                }
                Err(error) => {
                    log::debug!("cannot query the name server {}: {error}", datagram.server);
                    self.unreachable(slot, now);
                }
            }
        }
        max as u64
    }

    /// Returns a query to send.
    fn next_query(&mut self) -> Option<Datagram> {
        while let Some(slot) = self.unsent.pop_front() {
            let Some(query) = self.queries.get_mut(slot) else { continue };
            let server = self.configuration.servers.get(query.server).copied();
            if let (Some(server), Some(bytes)) = (server, message::encode_query(query.id, &query.name, query.family)) {
                return Some(Datagram { slot, server, bytes });
            }
        }
        None
    }

    /// Reads the responses to a query. Returns the bytes read, and whether there may be more.
    pub fn read(&mut self, slot: usize, buffer: &mut [u8], now: Duration) -> (usize, bool) {
        let mut bytes = 0;
        for _ in 0..MESSAGES_PER_TURN {
            let Some(Query { socket: Some(socket), .. }) = self.queries.get(slot) else { return (bytes, false) };
            match socket.recv(buffer) {
                Ok(count) => {
                    bytes += count;
                    self.received(slot, buffer.get(..count).unwrap_or_default(), now);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return (bytes, false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.unreachable(slot, now),
            }
        }
        (bytes, true)
    }

    /// Handles a message from the server of a query.
    fn received(&mut self, slot: usize, bytes: &[u8], now: Duration) {
        let Some(query) = self.queries.get_mut(slot) else { return };
        match message::parse_response(bytes, query.id, &query.name, query.family) {
            Some(DnsAnswer::Failed(reason)) => self.attempt_failed(slot, reason, now),
            Some(answer) => {
                self.server = query.server;
                self.finish_query(slot, answer, now);
            }
            None => {
                query.wrong_messages += 1;
                if query.wrong_messages >= MAX_WRONG_MESSAGES {
                    self.attempt_failed(slot, "the name server sends only wrong answers", now);
                }
            }
        }
    }

    /// Handles a query that could not be sent or whose server is unreachable.
    fn unreachable(&mut self, slot: usize, now: Duration) {
        self.attempt_failed(slot, "no name server can be reached", now);
    }

    /// Handles timed-out queries.
    pub fn handle_timeouts(&mut self, now: Duration) {
        let due = |(slot, query): (usize, &Query)| (query.deadline <= now).then_some(slot);
        let due: Vec<usize> = self.queries.iter().filter_map(due).collect();
        for slot in due {
            self.attempt_failed(slot, "no name server answers", now);
        }
    }

    /// Returns when the next query times out.
    pub fn next_due(&self) -> Option<Duration> {
        self.queries.iter().map(|(_, query)| query.deadline).min()
    }

    /// Returns whether a query or a result is waiting to be taken.
    pub fn has_pending_work(&self) -> bool {
        !(self.unsent.is_empty() && self.resolved.is_empty())
    }

    /// Starts waiting queries up to the limit.
    fn start_waiting(&mut self, now: Duration) {
        while self.queries.len() < self.max_queries
            && let Some((name, family)) = self.waiting.pop_front()
        {
            let server = self.server;
            let query =
                Query { name, family, id: 0, attempt: 0, server, socket: None, deadline: now, wrong_messages: 0 };
            let slot = self.queries.insert(query);
            self.begin_attempt(slot, now);
        }
    }

    fn begin_attempt(&mut self, slot: usize, now: Duration) {
        let Some(query) = self.queries.get_mut(slot) else { return };
        let mut id = [0; 2];
        self.random.read(&mut id);
        query.id = u16::from_be_bytes(id);
        (query.socket, query.wrong_messages) = (None, 0);
        query.deadline = now + self.configuration.timeout;
        if !self.unsent.contains(&slot) {
            self.unsent.push_back(slot);
        }
        self.shorten_timeout(slot, now);
    }

    /// Shortens the timeout of a query if the other family has addresses.
    fn shorten_timeout(&mut self, slot: usize, now: Duration) {
        let last_attempt = self.last_attempt();
        let Some(query) = self.queries.get_mut(slot) else { return };
        let answers = self.lookups.get(&query.name).map_or(&[][..], |lookup| &lookup.answers);
        if matches!(answers, [DnsAnswer::Addresses(..)]) {
            query.deadline = query.deadline.min(now + OTHER_FAMILY_TIMEOUT);
            query.attempt = query.attempt.max(last_attempt);
        }
    }

    fn last_attempt(&self) -> usize {
        (self.configuration.servers.len() * self.configuration.attempts).saturating_sub(1)
    }

    /// Retries a query at the next server on another socket, or ends it.
    fn attempt_failed(&mut self, slot: usize, reason: &'static str, now: Duration) {
        let (last_attempt, servers) = (self.last_attempt(), self.configuration.servers.len());
        let Some(query) = self.queries.get_mut(slot) else { return };
        if query.attempt >= last_attempt {
            return self.finish_query(slot, DnsAnswer::Failed(reason), now);
        }
        query.attempt += 1;
        query.server = (query.server + 1) % servers.max(1);
        self.begin_attempt(slot, now);
    }

    /// Ends a query with its result, and the lookup if both families have one.
    fn finish_query(&mut self, slot: usize, answer: DnsAnswer, now: Duration) {
        let Some(Query { name, .. }) = self.queries.try_remove(slot) else { return };
        if let Some(lookup) = self.lookups.get_mut(&name) {
            lookup.answers.push(answer);
            if lookup.answers.len() == 2 {
                let (known, lifetime) = combine_answers(&lookup.answers);
                self.resolved.extend(lookup.requesters.iter().map(|requester| (*requester, known.clone())));
                self.lookups.remove(&name);
                self.cache.put(name, known, lifetime, now);
            } else if let Some((other, _)) = self.queries.iter().find(|(_, other)| other.name == name) {
                self.shorten_timeout(other, now);
            }
        }
        self.start_waiting(now);
    }
}

/// Sends a query on a socket of its own, with a random port from the system, connected so that only the server can
/// answer.
fn send(query: &Datagram, registry: &Registry, token: Token) -> io::Result<UdpSocket> {
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

/// Combines the results of both families. Returns the resolution and its time to live.
fn combine_answers(answers: &[DnsAnswer]) -> (Resolution, Duration) {
    let of = |wanted: fn(&IpAddr) -> bool| {
        let addresses = answers.iter().filter_map(|said| match said {
            DnsAnswer::Addresses(addresses, _) => Some(addresses.iter().copied().filter(wanted)),
            _ => None,
        });
        addresses.flatten().collect::<Vec<_>>()
    };
    let (v4, v6) = (of(IpAddr::is_ipv4), of(IpAddr::is_ipv6));
    // Alternating, so that the host is reachable if one of the two protocols does not work.
    let longest = v4.len().max(v6.len());
    let addresses: Vec<_> = (0..longest).flat_map(|at| [v4.get(at), v6.get(at)]).flatten().copied().collect();
    if !addresses.is_empty() {
        let lifetimes = answers.iter().filter_map(|said| match said {
            DnsAnswer::Addresses(_, lifetime) => Some(*lifetime),
            _ => None,
        });
        return (Ok(addresses.into()), lifetimes.min().unwrap_or_default());
    }
    // If a query failed, the name may have addresses after all.
    let failed = answers.iter().find_map(|said| match said {
        DnsAnswer::Failed(reason) => Some((Err(*reason), NO_ANSWER_TTL)),
        _ => None,
    });
    let none = answers.iter().find_map(|said| match said {
        DnsAnswer::NoAddresses(reason) => Some((Err(*reason), NO_ADDRESS_TTL)),
        _ => None,
    });
    failed.or(none).unwrap_or((Err("it has no address"), NO_ANSWER_TTL))
}

#[cfg(test)]
mod tests;
