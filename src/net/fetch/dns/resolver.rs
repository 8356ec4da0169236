//! DNS resolver as a state machine.
//!
//! Both address families are queried at once, each query on a socket of its own, so that a forger must guess a port and
//! an id. Once one family has addresses, the other is given only a short time.
//!
//! As in the pool, the slot of a socket is reused only after [`Resolver::next_closed`] returned it, which must be
//! called after each call.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

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
/// How long a failed lookup is cached: the name has no address, or no server answered.
const NO_ADDRESS_TTL: Duration = Duration::from_secs(30);
const NO_ANSWER_TTL: Duration = Duration::from_secs(5);

/// A query to send to a name server on a new socket.
#[derive(Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Slot of the socket.
    pub slot: usize,
    /// The name server; responses from others are not accepted.
    pub server: SocketAddr,
    /// The message.
    pub bytes: Vec<u8>,
}

/// A lookup in progress.
#[derive(Debug)]
struct Lookup {
    name: String,
    requesters: Vec<usize>,
    /// Results so far, one per family.
    answers: Vec<DnsAnswer>,
}

/// A query in progress.
#[derive(Debug)]
struct Query {
    lookup: u64,
    family: Family,
    id: u16,
    attempt: usize,
    /// Index of the name server.
    server: usize,
    is_sent: bool,
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
    lookups: BTreeMap<u64, Lookup>,
    lookups_by_name: HashMap<String, u64>,
    last_lookup: u64,
    /// Queries not started yet.
    waiting: VecDeque<(u64, Family)>,
    queries: Slab<Query>,
    unsent: VecDeque<usize>,
    closed: VecDeque<usize>,
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
            lookups_by_name: HashMap::new(),
            last_lookup: 0,
            waiting: VecDeque::new(),
            queries: Slab::new(),
            unsent: VecDeque::new(),
            closed: VecDeque::new(),
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
        let lookup = self.lookups_by_name.get(&name).and_then(|number| self.lookups.get_mut(number));
        if let Some(lookup) = lookup {
            return lookup.requesters.push(requester);
        }
        self.last_lookup += 1;
        let number = self.last_lookup;
        self.lookups_by_name.insert(name.clone(), number);
        self.lookups.insert(number, Lookup { name, requesters: vec![requester], answers: Vec::new() });
        self.waiting.extend([(number, Family::V4), (number, Family::V6)]);
        self.start_waiting(now);
    }

    /// Returns a requester and the result of its lookup.
    pub fn next_resolved(&mut self) -> Option<(usize, Resolution)> {
        self.resolved.pop_front()
    }

    /// Cancels the lookup of a requester.
    pub fn cancel(&mut self, requester: usize, now: Duration) {
        self.resolved.retain(|(other, _)| *other != requester);
        let asked = self.lookups.iter_mut().find(|(_, lookup)| lookup.requesters.contains(&requester));
        let Some((number, lookup)) = asked else { return };
        lookup.requesters.retain(|other| *other != requester);
        if lookup.requesters.is_empty() {
            let number = *number;
            self.lookups_by_name.remove(&lookup.name);
            self.lookups.remove(&number);
            self.waiting.retain(|(other, _)| *other != number);
            self.end_queries(number);
            self.start_waiting(now);
        }
    }

    /// Returns a query to send.
    pub fn next_query(&mut self) -> Option<Datagram> {
        while let Some(slot) = self.unsent.pop_front() {
            let Some(query) = self.queries.get_mut(slot).filter(|query| !query.is_sent) else { continue };
            query.is_sent = true;
            let server = self.configuration.servers.get(query.server).copied();
            let name = self.lookups.get(&query.lookup).map_or("", |lookup| &lookup.name);
            if let (Some(server), Some(bytes)) = (server, message::encode_query(query.id, name, query.family)) {
                return Some(Datagram { slot, server, bytes });
            }
        }
        None
    }

    /// Handles a message from the server of a query.
    pub fn received(&mut self, slot: usize, bytes: &[u8], now: Duration) {
        let Some(query) = self.queries.get_mut(slot) else { return };
        let Some(lookup) = self.lookups.get(&query.lookup) else { return };
        match message::parse_response(bytes, query.id, &lookup.name, query.family) {
            Some(DnsAnswer::Failed(reason)) => self.attempt_failed(slot, reason, now),
            Some(said) => {
                self.server = query.server;
                self.finish_query(slot, said, now);
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
    pub fn unreachable(&mut self, slot: usize, now: Duration) {
        self.attempt_failed(slot, "no name server can be reached", now);
    }

    /// Returns a slot whose socket is to be closed, if it has one.
    pub fn next_closed(&mut self) -> Option<usize> {
        self.closed.pop_front()
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
            && let Some((lookup, family)) = self.waiting.pop_front()
        {
            let server = self.server;
            let query =
                Query { lookup, family, id: 0, attempt: 0, server, is_sent: false, deadline: now, wrong_messages: 0 };
            let slot = self.queries.insert(query);
            self.begin_attempt(slot, now);
        }
    }

    fn begin_attempt(&mut self, slot: usize, now: Duration) {
        let Some(query) = self.queries.get_mut(slot) else { return };
        let mut id = [0; 2];
        self.random.read(&mut id);
        query.id = u16::from_be_bytes(id);
        (query.is_sent, query.wrong_messages) = (false, 0);
        query.deadline = now + self.configuration.timeout;
        self.unsent.push_back(slot);
        self.shorten_timeout(slot, now);
    }

    /// Shortens the timeout of a query if the other family has addresses.
    fn shorten_timeout(&mut self, slot: usize, now: Duration) {
        let last_attempt = self.last_attempt();
        let Some(query) = self.queries.get_mut(slot) else { return };
        let said = self.lookups.get(&query.lookup).map_or(&[][..], |lookup| &lookup.answers);
        if matches!(said, [DnsAnswer::Addresses(..)]) {
            query.deadline = query.deadline.min(now + OTHER_FAMILY_TIMEOUT);
            query.attempt = query.attempt.max(last_attempt);
        }
    }

    fn last_attempt(&self) -> usize {
        (self.configuration.servers.len() * self.configuration.attempts).saturating_sub(1)
    }

    /// Retries a query at the next server, or ends it.
    fn attempt_failed(&mut self, slot: usize, reason: &'static str, now: Duration) {
        let (last_attempt, servers) = (self.last_attempt(), self.configuration.servers.len());
        let Some(query) = self.queries.get_mut(slot) else { return };
        if query.attempt >= last_attempt {
            return self.finish_query(slot, DnsAnswer::Failed(reason), now);
        }
        query.attempt += 1;
        query.server = (query.server + 1) % servers.max(1);
        self.closed.push_back(slot);
        self.begin_attempt(slot, now);
    }

    /// Ends a query with its result.
    fn finish_query(&mut self, slot: usize, answer: DnsAnswer, now: Duration) {
        let Some(query) = self.queries.try_remove(slot) else { return };
        self.closed.push_back(slot);
        let number = query.lookup;
        if let Some(lookup) = self.lookups.get_mut(&number) {
            lookup.answers.push(answer);
            if lookup.answers.len() == 2 {
                self.finish_lookup(number, now);
            } else if let Some((other, _)) = self.queries.iter().find(|(_, other)| other.lookup == number) {
                self.shorten_timeout(other, now);
            }
        }
        self.start_waiting(now);
    }

    fn finish_lookup(&mut self, number: u64, now: Duration) {
        let Some(lookup) = self.lookups.remove(&number) else { return };
        self.lookups_by_name.remove(&lookup.name);
        let (known, lifetime) = combine_answers(&lookup.answers);
        self.resolved.extend(lookup.requesters.iter().map(|requester| (*requester, known.clone())));
        self.cache.put(lookup.name, known, lifetime, now);
    }

    fn end_queries(&mut self, number: u64) {
        let of_lookup: Vec<usize> =
            self.queries.iter().filter(|(_, query)| query.lookup == number).map(|(slot, _)| slot).collect();
        for slot in of_lookup {
            self.queries.remove(slot);
            self.closed.push_back(slot);
        }
    }
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
