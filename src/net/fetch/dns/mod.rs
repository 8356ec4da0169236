//! DNS resolver: the system's files and queries to name servers.
//!
//! Both address families are queried at once, each query on a socket of its own, so that a forger must guess a port and
//! an id. Once one family has addresses, the other is given only a short time.

mod message;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use mio::net::UdpSocket;
use mio::{Interest, Registry, Token};
use sha3::digest::{ExtendableOutput, Update, XofReader};
use sha3::{Shake128, Shake128Reader};
use slab::Slab;

use message::{DnsAnswer, Family};

/// How long the addresses of one family wait for those of the other.
const OTHER_FAMILY_TIMEOUT: Duration = Duration::from_millis(100);
/// Wrong messages on a socket before the query moves to another socket.
const MAX_WRONG_MESSAGES: usize = 16;
/// Messages read from a socket per turn.
const MESSAGES_PER_TURN: usize = 4;
/// How long a failed lookup is cached: the name has no address, or no server answered.
const NO_ADDRESS_TTL: Duration = Duration::from_secs(30);
const NO_ANSWER_TTL: Duration = Duration::from_secs(5);

/// Bounds on the time to live of addresses.
const MIN_TTL: Duration = Duration::from_secs(30);
const MAX_TTL: Duration = Duration::from_secs(3600);

/// Result of a lookup: addresses (never empty, IPv4 and IPv6 alternating) or the reason why there are none.
pub type Resolution = Result<Rc<[IpAddr]>, &'static str>;

/// Results of lookups until they expire.
#[derive(Debug)]
pub struct Cache {
    entries: HashMap<String, (Resolution, Duration)>,
    max_entries: usize,
}

impl Cache {
    /// Returns an empty cache of at most `max_entries` names.
    pub fn new(max_entries: usize) -> Self {
        Self { entries: HashMap::new(), max_entries }
    }

    /// Returns the unexpired result for a name.
    pub fn get(&self, name: &str, now: Duration) -> Option<Resolution> {
        self.entries.get(name).filter(|(_, until)| now < *until).map(|(known, _)| known.clone())
    }

    /// Stores a result with its time to live. If the cache is full, the entry that expires first is evicted.
    pub fn put(&mut self, name: String, known: Resolution, lifetime: Duration, now: Duration) {
        let lifetime = match known {
            Ok(_) => lifetime.clamp(MIN_TTL, MAX_TTL),
            Err(_) => lifetime,
        };
        if self.entries.len() >= self.max_entries && !self.entries.contains_key(&name) {
            let oldest = self.entries.iter().min_by_key(|(_, (_, until))| *until).map(|(name, _)| name.clone());
            oldest.map(|oldest| self.entries.remove(&oldest));
        }
        if self.max_entries > 0 {
            self.entries.insert(name, (known, now + lifetime));
        }
    }
}

/// Port of name servers.
const PORT: u16 = 53;
/// Name servers used; further ones are ignored, as by the system's resolver.
pub const MAX_SERVERS: usize = 3;
/// Addresses used of one name in the hosts file.
pub const MAX_ADDRESSES: usize = 8;

/// DNS configuration.
#[derive(Clone, Debug)]
pub struct DnsConfig {
    /// Name servers in the order of queries.
    pub servers: Vec<SocketAddr>,
    /// Timeout of each query.
    pub timeout: Duration,
    /// Attempts per name server.
    pub attempts: usize,
    hosts: HashMap<String, Vec<IpAddr>>,
}

impl DnsConfig {
    /// Parses the contents of `/etc/hosts` and `/etc/resolv.conf`; both may be empty. Invalid lines are ignored.
    /// Without a name server, one on this machine is assumed. Search domains are not used.
    pub fn parse(hosts: &str, resolv_conf: &str) -> Self {
        let mut found =
            Self { servers: Vec::new(), timeout: Duration::from_secs(2), attempts: 2, hosts: HashMap::new() };
        lines(hosts).for_each(|line| found.read_host(line));
        lines(resolv_conf).for_each(|line| found.read_setting(line));
        if found.servers.is_empty() {
            found.servers.push((Ipv4Addr::LOCALHOST, PORT).into());
        }
        found
    }

    /// Returns the addresses of a lower-case name that needs no query: numeric, `localhost`, or in the hosts file.
    pub fn local_addresses(&self, name: &str) -> Option<Vec<IpAddr>> {
        if let Ok(address) = name.parse() {
            return Some(vec![address]);
        }
        if name == "localhost" || name.ends_with(".localhost") {
            return Some(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        self.hosts.get(name).cloned()
    }

    fn read_host(&mut self, line: &str) {
        let mut words = line.split_ascii_whitespace();
        let Some(address) = words.next().and_then(|word| word.parse::<IpAddr>().ok()) else { return };
        for name in words {
            let addresses = self.hosts.entry(name.to_ascii_lowercase()).or_default();
            if addresses.len() < MAX_ADDRESSES && !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }

    fn read_setting(&mut self, line: &str) {
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("nameserver") if self.servers.len() < MAX_SERVERS => {
                let address = words.next().and_then(|word| word.parse::<IpAddr>().ok());
                self.servers.extend(address.map(|address| SocketAddr::new(address, PORT)));
            }
            Some("options") => words.for_each(|option| self.read_option(option)),
            _ => {}
        }
    }

    fn read_option(&mut self, option: &str) {
        let Some((name, Ok(value))) = option.split_once(':').map(|(name, value)| (name, value.parse::<u64>())) else {
            return;
        };
        match name {
            "timeout" => self.timeout = Duration::from_secs(value.clamp(1, 10)),
            "attempts" => self.attempts = value.clamp(1, 5) as usize,
            _ => {}
        }
    }
}

/// Returns the lines without comments.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(|line| line.split(['#', ';']).next().unwrap_or_default())
}

/// A query to send to a name server on a new socket.
#[derive(Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Slot of the query.
    pub slot: usize,
    /// The name server; responses from others are not accepted.
    pub server: SocketAddr,
    /// The message.
    pub bytes: Vec<u8>,
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
    pub fn next_query(&mut self) -> Option<Datagram> {
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
    pub fn received(&mut self, slot: usize, bytes: &[u8], now: Duration) {
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
        let addresses = answers.iter().filter_map(|answer| match answer {
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
        let lifetimes = answers.iter().filter_map(|answer| match answer {
            DnsAnswer::Addresses(_, lifetime) => Some(*lifetime),
            _ => None,
        });
        return (Ok(addresses.into()), lifetimes.min().unwrap_or_default());
    }
    // If a query failed, the name may have addresses after all.
    let failed = answers.iter().find_map(|answer| match answer {
        DnsAnswer::Failed(reason) => Some((Err(*reason), NO_ANSWER_TTL)),
        _ => None,
    });
    let none = answers.iter().find_map(|answer| match answer {
        DnsAnswer::NoAddresses(reason) => Some((Err(*reason), NO_ADDRESS_TTL)),
        _ => None,
    });
    failed.or(none).unwrap_or((Err("it has no address"), NO_ANSWER_TTL))
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod cache_tests {
    use super::*;

    fn known(last: u8) -> Resolution {
        Ok([IpAddr::from([127, 0, 0, last])].into())
    }

    #[test]
    fn addresses_are_cached_for_their_ttl_within_bounds() {
        let (mut cache, start) = (Cache::new(10), Duration::ZERO);
        cache.put("a".to_owned(), known(1), Duration::from_secs(100), start);
        cache.put("b".to_owned(), known(1), Duration::ZERO, start);
        cache.put("c".to_owned(), known(1), Duration::from_secs(1_000_000), start);
        cache.put("d".to_owned(), Err("none"), Duration::from_secs(5), start);
        let known_at = |seconds| {
            let now = start + Duration::from_secs(seconds);
            ["a", "b", "c", "d"].into_iter().filter(|name| cache.get(name, now).is_some()).collect::<String>()
        };
        assert_eq!(known_at(4), "abcd");
        assert_eq!(known_at(29), "abc");
        assert_eq!(known_at(30), "ac");
        assert_eq!(known_at(100), "c");
        assert_eq!(known_at(3600), "");
    }

    #[test]
    fn a_full_cache_evicts_the_entry_that_expires_first() {
        let (mut cache, now) = (Cache::new(2), Duration::ZERO);
        for (name, seconds) in [("a", 200), ("b", 100), ("c", 300), ("c", 400)] {
            cache.put(name.to_owned(), known(1), Duration::from_secs(seconds), now);
        }
        let names = ["a", "b", "c"].into_iter().filter(|name| cache.get(name, now).is_some()).collect::<String>();
        assert_eq!(names, "ac");
    }
}

#[cfg(test)]
mod config_tests {
    use super::*;

    #[test]
    fn the_system_dns_files_are_parsed() {
        let hosts = "127.0.0.1 localhost\n# comment\n10.0.0.1\tNode1 node1.example # and more\n::5 node1\nnonsense x\n\
                     10.0.0.1 node1\n0.0.0.0\n";
        let resolv = "# made by hand\nsearch example.com\nnameserver 9.9.9.9\nnameserver fe80::1%eth0\n\
                      nameserver 2620:fe::fe ; x\noptions edns0 timeout:1 attempts:99 ndots:5\n\
                      nameserver 1.1.1.1\nnameserver 8.8.8.8\n";
        let found = DnsConfig::parse(hosts, resolv);
        let servers: Vec<_> = found.servers.iter().map(SocketAddr::to_string).collect();
        assert_eq!(servers, ["9.9.9.9:53", "[2620:fe::fe]:53", "1.1.1.1:53"]);
        assert_eq!((found.timeout, found.attempts), (Duration::from_secs(1), 5));
        let known = |name| {
            found.local_addresses(name).map(|addresses| addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>())
        };
        assert_eq!(known("node1").unwrap(), ["10.0.0.1", "::5"]);
        assert_eq!(known("node1.example").unwrap(), ["10.0.0.1"]);
        assert_eq!(known("::1").unwrap(), ["::1"]);
        assert_eq!(known("a.localhost").unwrap(), ["127.0.0.1", "::1"]);
        assert_eq!(known("x"), None);
    }

    #[test]
    fn a_local_name_server_is_assumed_without_configuration_files() {
        let found = DnsConfig::parse("", "");
        assert_eq!(found.servers, ["127.0.0.1:53".parse().unwrap()]);
        assert_eq!(found.local_addresses("localhost").unwrap().len(), 2);
    }
}
