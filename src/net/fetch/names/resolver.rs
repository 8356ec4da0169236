//! Finds the addresses of names.
//!
//! Both families are asked for at once, each question by a socket of its own, so that who wants to forge an answer has
//! to guess a port and a number. As soon as one has brought addresses, the other is waited for a moment only.
//!
//! As in the pool, a socket's slot is used again only after its end was told by [`Resolver::next_closed`], which has
//! to be asked after each call.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use sha3::digest::{ExtendableOutput, Update, XofReader};
use sha3::{Shake128, Shake128Reader};
use slab::Slab;

use super::NameConfiguration;
use super::cache::{Cache, Resolution};
use super::message::{self, Family, Said};

/// How long the addresses of one family wait for those of the other.
const OTHER_FAMILY: Duration = Duration::from_millis(100);
/// Messages on a socket that are not the answer, before another socket is used.
const MAX_WRONG: usize = 16;
/// How long it is remembered that a name has no address, and that nobody could be asked.
const NO_ADDRESS: Duration = Duration::from_secs(30);
const NO_ANSWER: Duration = Duration::from_secs(5);

/// A question to be sent to a name server by a new socket.
#[derive(Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The socket's slot.
    pub slot: usize,
    /// Where to; nobody else may answer.
    pub server: SocketAddr,
    /// The message.
    pub bytes: Vec<u8>,
}

/// A name that is being looked up.
#[derive(Debug)]
struct Lookup {
    name: String,
    askers: Vec<usize>,
    /// What has been said, of one family and then of both.
    said: Vec<Said>,
}

/// A question under way.
#[derive(Debug)]
struct OpenQuestion {
    lookup: u64,
    family: Family,
    id: u16,
    attempt: usize,
    /// The name server that is asked.
    server: usize,
    is_sent: bool,
    until: Instant,
    wrong: usize,
}

/// Looks names up. Whoever asks is named by a number, and asks for one name at a time.
pub struct Resolver {
    configuration: NameConfiguration,
    cache: Cache,
    random: Shake128Reader,
    max_queries: usize,
    /// The name server that has answered last, the first to be asked.
    server: usize,
    lookups: BTreeMap<u64, Lookup>,
    lookups_by_name: HashMap<String, u64>,
    last_lookup: u64,
    /// Questions that wait for their turn.
    waiting: VecDeque<(u64, Family)>,
    queries: Slab<OpenQuestion>,
    unsent: VecDeque<usize>,
    closed: VecDeque<usize>,
    found: VecDeque<(usize, Resolution)>,
}

impl Resolver {
    /// A resolver with so many questions at a time, and so many names to remember. The seed makes its questions
    /// unpredictable and has to be so itself.
    pub fn new(configuration: NameConfiguration, seed: &[u8; 32], max_queries: usize, cached_names: usize) -> Self {
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
            found: VecDeque::new(),
        }
    }

    /// Asks for a name. [`next_found`](Self::next_found) tells what was found.
    pub fn ask(&mut self, name: &str, asker: usize, now: Instant) {
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let known = match self.configuration.known(&name) {
            Some(addresses) => Some(Ok(addresses.into())),
            None if !message::is_name(&name) => Some(Err("it is not a proper name")),
            None => self.cache.get(&name, now),
        };
        if let Some(known) = known {
            return self.found.push_back((asker, known));
        }
        let lookup = self.lookups_by_name.get(&name).and_then(|number| self.lookups.get_mut(number));
        if let Some(lookup) = lookup {
            return lookup.askers.push(asker);
        }
        self.last_lookup += 1;
        let number = self.last_lookup;
        self.lookups_by_name.insert(name.clone(), number);
        self.lookups.insert(number, Lookup { name, askers: vec![asker], said: Vec::new() });
        self.waiting.extend([(number, Family::V4), (number, Family::V6)]);
        self.ask_waiting(now);
    }

    /// What was found for somebody who has asked.
    pub fn next_found(&mut self) -> Option<(usize, Resolution)> {
        self.found.pop_front()
    }

    /// Somebody who has asked does not need the answer any more.
    pub fn forget(&mut self, asker: usize, now: Instant) {
        self.found.retain(|(other, _)| *other != asker);
        let asked = self.lookups.iter_mut().find(|(_, lookup)| lookup.askers.contains(&asker));
        let Some((number, lookup)) = asked else { return };
        lookup.askers.retain(|other| *other != asker);
        if lookup.askers.is_empty() {
            let number = *number;
            self.lookups_by_name.remove(&lookup.name);
            self.lookups.remove(&number);
            self.waiting.retain(|(other, _)| *other != number);
            self.end_queries(number);
            self.ask_waiting(now);
        }
    }

    /// A question to be sent.
    pub fn next_question(&mut self) -> Option<Datagram> {
        while let Some(slot) = self.unsent.pop_front() {
            let Some(query) = self.queries.get_mut(slot).filter(|query| !query.is_sent) else { continue };
            query.is_sent = true;
            let server = self.configuration.servers.get(query.server).copied();
            let name = self.lookups.get(&query.lookup).map_or("", |lookup| &lookup.name);
            if let (Some(server), Some(bytes)) = (server, message::question(query.id, name, query.family)) {
                return Some(Datagram { slot, server, bytes });
            }
        }
        None
    }

    /// A message has come from the server that a question was sent to.
    pub fn received(&mut self, slot: usize, bytes: &[u8], now: Instant) {
        let Some(query) = self.queries.get_mut(slot) else { return };
        let Some(lookup) = self.lookups.get(&query.lookup) else { return };
        match message::read(bytes, query.id, &lookup.name, query.family) {
            Some(Said::Failed(reason)) => self.attempt_failed(slot, reason, now),
            Some(said) => {
                self.server = query.server;
                self.conclude(slot, said, now);
            }
            None => {
                query.wrong += 1;
                if query.wrong >= MAX_WRONG {
                    self.attempt_failed(slot, "nothing but wrong answers", now);
                }
            }
        }
    }

    /// A question could not be sent, or its server is not there.
    pub fn unreachable(&mut self, slot: usize, now: Instant) {
        self.attempt_failed(slot, "no name server can be reached", now);
    }

    /// A socket that is to be closed, if there is one in its slot.
    pub fn next_closed(&mut self) -> Option<usize> {
        self.closed.pop_front()
    }

    /// Deals with the questions that were not answered in time.
    pub fn deal_with_due(&mut self, now: Instant) {
        let due = |(slot, query): (usize, &OpenQuestion)| (query.until <= now).then_some(slot);
        let due: Vec<usize> = self.queries.iter().filter_map(due).collect();
        for slot in due {
            self.attempt_failed(slot, "no name server answers", now);
        }
    }

    /// When something is due next.
    pub fn next_due(&self) -> Option<Instant> {
        self.queries.iter().map(|(_, query)| query.until).min()
    }

    /// Whether there is something to be sent or told.
    pub fn has_wishes(&self) -> bool {
        !(self.unsent.is_empty() && self.found.is_empty())
    }

    /// Begins as many questions as may be under way.
    fn ask_waiting(&mut self, now: Instant) {
        while self.queries.len() < self.max_queries
            && let Some((lookup, family)) = self.waiting.pop_front()
        {
            let server = self.server;
            let query =
                OpenQuestion { lookup, family, id: 0, attempt: 0, server, is_sent: false, until: now, wrong: 0 };
            let slot = self.queries.insert(query);
            self.begin_attempt(slot, now);
        }
    }

    fn begin_attempt(&mut self, slot: usize, now: Instant) {
        let Some(query) = self.queries.get_mut(slot) else { return };
        let mut id = [0; 2];
        self.random.read(&mut id);
        query.id = u16::from_be_bytes(id);
        (query.is_sent, query.wrong) = (false, 0);
        query.until = now + self.configuration.patience;
        self.unsent.push_back(slot);
        self.hurry(slot, now);
    }

    /// Waits for a question a moment only, if the other family has brought addresses.
    fn hurry(&mut self, slot: usize, now: Instant) {
        let last_attempt = self.last_attempt();
        let Some(query) = self.queries.get_mut(slot) else { return };
        let said = self.lookups.get(&query.lookup).map_or(&[][..], |lookup| &lookup.said);
        if matches!(said, [Said::Addresses(..)]) {
            query.until = query.until.min(now + OTHER_FAMILY);
            query.attempt = query.attempt.max(last_attempt);
        }
    }

    fn last_attempt(&self) -> usize {
        (self.configuration.servers.len() * self.configuration.rounds).saturating_sub(1)
    }

    /// Asks again, or gives up.
    fn attempt_failed(&mut self, slot: usize, reason: &'static str, now: Instant) {
        let (last_attempt, servers) = (self.last_attempt(), self.configuration.servers.len());
        let Some(query) = self.queries.get_mut(slot) else { return };
        if query.attempt >= last_attempt {
            return self.conclude(slot, Said::Failed(reason), now);
        }
        query.attempt += 1;
        query.server = (query.server + 1) % servers.max(1);
        self.closed.push_back(slot);
        self.begin_attempt(slot, now);
    }

    /// A question has its answer.
    fn conclude(&mut self, slot: usize, said: Said, now: Instant) {
        let Some(query) = self.queries.try_remove(slot) else { return };
        self.closed.push_back(slot);
        let number = query.lookup;
        if let Some(lookup) = self.lookups.get_mut(&number) {
            lookup.said.push(said);
            if lookup.said.len() == 2 {
                self.finish(number, now);
            } else if let Some((other, _)) = self.queries.iter().find(|(_, other)| other.lookup == number) {
                self.hurry(other, now);
            }
        }
        self.ask_waiting(now);
    }

    fn finish(&mut self, number: u64, now: Instant) {
        let Some(lookup) = self.lookups.remove(&number) else { return };
        self.lookups_by_name.remove(&lookup.name);
        let (known, lifetime) = outcome(&lookup.said);
        self.found.extend(lookup.askers.iter().map(|asker| (*asker, known.clone())));
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

/// What both families together mean, and for how long.
fn outcome(said: &[Said]) -> (Resolution, Duration) {
    let of = |wanted: fn(&IpAddr) -> bool| {
        let addresses = said.iter().filter_map(|said| match said {
            Said::Addresses(addresses, _) => Some(addresses.iter().copied().filter(wanted)),
            _ => None,
        });
        addresses.flatten().collect::<Vec<_>>()
    };
    let (v4, v6) = (of(IpAddr::is_ipv4), of(IpAddr::is_ipv6));
    // In turn, so that a host can be reached if one of the two protocols does not work.
    let longest = v4.len().max(v6.len());
    let addresses: Vec<_> = (0..longest).flat_map(|at| [v4.get(at), v6.get(at)]).flatten().copied().collect();
    if !addresses.is_empty() {
        let lifetimes = said.iter().filter_map(|said| match said {
            Said::Addresses(_, lifetime) => Some(*lifetime),
            _ => None,
        });
        return (Ok(addresses.into()), lifetimes.min().unwrap_or_default());
    }
    // If one of them could not be found out, the name may have addresses after all.
    let failed = said.iter().find_map(|said| match said {
        Said::Failed(reason) => Some((Err(*reason), NO_ANSWER)),
        _ => None,
    });
    let none = said.iter().find_map(|said| match said {
        Said::None(reason) => Some((Err(*reason), NO_ADDRESS)),
        _ => None,
    });
    failed.or(none).unwrap_or((Err("it has no address"), NO_ANSWER))
}

#[cfg(test)]
mod tests;
