//! DNS resolver: the system's files and queries to name servers.
//!
//! Both address families are queried at once, each query on a socket of its own, so that a forger must guess a port and
//! an id. Once one family has addresses, the other is given only a short time.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use mio::net::UdpSocket;
use mio::{Interest, Registry, Token};
use sha3::digest::{ExtendableOutput, Update, XofReader};
use sha3::{Shake128, Shake128Reader};
use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QTYPE, Question, RCODE, ResourceRecord, TYPE};
use slab::Slab;

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

/// Bytes of a response; a longer one is ignored. Without extensions, which are not requested, it has at most 512.
const MAX_RESPONSE_BYTES: usize = 1500;
/// Aliases (CNAME) followed one after the other.
const MAX_ALIASES: usize = 8;
/// Bytes of the header, of the shortest question and of the shortest record.
const HEADER_BYTES: usize = 12;
const QUESTION_BYTES: usize = 5;
const RECORD_BYTES: usize = 11;

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
/// Addresses used of one name, in the hosts file or in a response.
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
            None if !is_name(&name) => Some(Err("it is not a valid host name")),
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
            if let (Some(server), Some(bytes)) = (server, encode_query(query.id, &query.name, query.family)) {
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
        match parse_response(bytes, query.id, &query.name, query.family) {
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
    let (mut v4, mut v6, mut lifetime) = (Vec::new(), Vec::new(), Duration::MAX);
    let (mut failed, mut none) = (None, None);
    for answer in answers {
        match answer {
            DnsAnswer::Addresses(addresses, ttl) => {
                lifetime = lifetime.min(*ttl);
                v4.extend(addresses.iter().filter(|address| address.is_ipv4()));
                v6.extend(addresses.iter().filter(|address| address.is_ipv6()));
            }
            DnsAnswer::Failed(reason) => _ = failed.get_or_insert((Err(*reason), NO_ANSWER_TTL)),
            DnsAnswer::NoAddresses(reason) => _ = none.get_or_insert((Err(*reason), NO_ADDRESS_TTL)),
        }
    }
    // Alternating, so that the host is reachable if one of the two protocols does not work.
    let longest = v4.len().max(v6.len());
    let addresses: Vec<IpAddr> = (0..longest).flat_map(|at| [v4.get(at), v6.get(at)]).flatten().copied().collect();
    if !addresses.is_empty() {
        return (Ok(addresses.into()), lifetime);
    }
    // If a query failed, the name may have addresses after all.
    failed.or(none).unwrap_or((Err("it has no address"), NO_ANSWER_TTL))
}

/// Address family of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

/// Result of a DNS query.
#[derive(Debug, PartialEq, Eq)]
enum DnsAnswer {
    /// Addresses and their time to live.
    Addresses(Vec<IpAddr>, Duration),
    /// The name has no addresses of this family.
    NoAddresses(&'static str),
    /// The server cannot answer.
    Failed(&'static str),
}

/// Returns whether a text can be a name: labels of letters, digits, `-` and `_`, of valid lengths.
fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !name.is_empty()
        && !name.contains("..")
        && !name.starts_with('.')
        && name.bytes().all(is_letter)
        && Name::new(name).is_ok()
}

/// Encodes a query for the addresses of a name; `None` if it is not a valid name.
fn encode_query(id: u16, name: &str, family: Family) -> Option<Vec<u8>> {
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    packet.questions.push(Question::new(Name::new(name).ok()?, record_type(family).into(), CLASS::IN.into(), false));
    packet.build_bytes_vec().ok()
}

/// Parses a received message; `None` if it is not the response to this query.
fn parse_response(bytes: &[u8], id: u16, name: &str, family: Family) -> Option<DnsAnswer> {
    let is_of_question = bytes.get(..2) == Some(id.to_be_bytes().as_slice()) && bytes.len() <= MAX_RESPONSE_BYTES;
    if !is_of_question || !is_plausible(bytes) {
        return None;
    }
    let packet = Packet::parse(bytes).ok()?;
    let name = Name::new(name).ok()?;
    let is_asked = matches!(packet.questions.as_slice(), [question]
        if question.qname == name && question.qtype == QTYPE::TYPE(record_type(family)));
    if !packet.has_flags(PacketFlag::RESPONSE) || !is_asked {
        return None;
    }
    Some(match packet.rcode() {
        RCODE::NoError => {
            let (addresses, lifetime) = addresses(&packet.answers, name, family);
            match addresses.is_empty() {
                true if packet.has_flags(PacketFlag::TRUNCATION) => DnsAnswer::Failed("the answer is truncated"),
                true => DnsAnswer::NoAddresses("it has no address"),
                false => DnsAnswer::Addresses(addresses, lifetime),
            }
        }
        RCODE::NameError => DnsAnswer::NoAddresses("there is no such name"),
        _ => DnsAnswer::Failed("the name server reports a failure"),
    })
}

/// Returns whether a message can hold as many records as its header announces, so that no memory is allocated for
/// missing ones.
fn is_plausible(bytes: &[u8]) -> bool {
    let count = |at: usize| match bytes.get(at..at + 2) {
        Some([high, low]) => usize::from(u16::from_be_bytes([*high, *low])),
        _ => usize::MAX,
    };
    let Some(available) = bytes.len().checked_sub(HEADER_BYTES) else { return false };
    count(4) * QUESTION_BYTES + (count(6) + count(8) + count(10)) * RECORD_BYTES <= available
}

/// Returns the addresses of a name, following its aliases, and the shortest time to live on the way.
fn addresses(records: &[ResourceRecord<'_>], name: Name<'_>, family: Family) -> (Vec<IpAddr>, Duration) {
    let mut name = &name;
    let mut lifetime = u32::MAX;
    for _ in 0..=MAX_ALIASES {
        let of_name = records.iter().filter(|record| record.class == CLASS::IN && record.name == *name);
        let found: Vec<_> = of_name.clone().filter_map(|record| Some((address(record, family)?, record.ttl))).collect();
        if !found.is_empty() {
            lifetime = found.iter().map(|(_, ttl)| *ttl).fold(lifetime, u32::min);
            let addresses = found.into_iter().map(|(address, _)| address).take(MAX_ADDRESSES).collect();
            return (addresses, Duration::from_secs(lifetime.into()));
        }
        let mut aliases = of_name.filter_map(|record| match &record.rdata {
            RData::CNAME(target) => Some((&target.0, record.ttl)),
            _ => None,
        });
        let Some((target, ttl)) = aliases.next() else { break };
        (name, lifetime) = (target, lifetime.min(ttl));
    }
    (Vec::new(), Duration::ZERO)
}

fn address(record: &ResourceRecord<'_>, family: Family) -> Option<IpAddr> {
    match (&record.rdata, family) {
        (RData::A(found), Family::V4) => Some(Ipv4Addr::from(found.address).into()),
        (RData::AAAA(found), Family::V6) => Some(Ipv6Addr::from(found.address).into()),
        _ => None,
    }
}

fn record_type(family: Family) -> TYPE {
    match family {
        Family::V4 => TYPE::A,
        Family::V6 => TYPE::AAAA,
    }
}

#[cfg(test)]
mod message_tests {
    use proptest::prelude::*;

    use super::*;

    /// A response to a query for node.example with id 258: an alias and an address.
    const ANSWER: &[u8] = b"\x01\x02\x81\x80\0\x01\0\x02\0\0\0\0\x04node\x07example\0\0\x01\0\x01\
        \xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x04\x01a\xc0\x11\xc0\x2a\0\x01\0\x01\0\0\0\x1e\0\x04\x0a\0\0\x01";

    fn read_answer(bytes: &[u8]) -> Option<DnsAnswer> {
        parse_response(bytes, 258, "node.example", Family::V4)
    }

    #[test]
    fn dns_answers_and_queries_have_the_wire_format() {
        let address = IpAddr::from([10, 0, 0, 1]);
        assert_eq!(read_answer(ANSWER), Some(DnsAnswer::Addresses(vec![address], Duration::from_secs(30))));
        let question = encode_query(258, "node.example", Family::V4).unwrap();
        assert_eq!(question, [b"\x01\x02\x01\0\0\x01\0\0\0\0\0\0", &ANSWER[12..30]].concat());
    }

    #[test]
    fn a_message_with_an_impossible_record_count_is_rejected_unread() {
        for at in [4, 6, 8, 10] {
            let mut bytes = ANSWER.to_vec();
            bytes[at] = 0xff;
            assert!(!is_plausible(&bytes) && read_answer(&bytes).is_none());
        }
    }

    #[test]
    fn valid_host_names_are_recognised() {
        for name in ["a", "node.example", "a-b_c.1", "xn--nde-sna.example"] {
            assert!(is_name(name), "{name}");
        }
        let (long_label, long_name) = ("a".repeat(64), "a.".repeat(127) + "aa");
        for name in ["", ".", ".a", "a..b", "a b", "a\\046b", "\u{f6}", "a\0", "*", &long_label, &long_name] {
            assert!(!is_name(name), "{name}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_dns_messages_give_a_bounded_number_of_addresses(
            changes in prop::collection::vec((2..ANSWER.len(), any::<u8>()), 0..6),
            length in 0..=ANSWER.len(),
            tail in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut bytes = ANSWER.to_vec();
            changes.into_iter().for_each(|(at, byte)| bytes[at] = byte);
            bytes.truncate(length);
            bytes.extend(tail);
            if let Some(DnsAnswer::Addresses(addresses, _)) = read_answer(&bytes) {
                prop_assert!((1..=MAX_ADDRESSES).contains(&addresses.len()));
            }
        }
    }
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
