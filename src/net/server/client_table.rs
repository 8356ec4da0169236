//! Usage, rate limits and round-robin scheduling of clients.
//!
//! A client is an IPv4 address, or the prefix of an IPv6 address. Clients are served round-robin, one connection at a
//! time. New work and continuations alternate, so that a short request waits only for other new ones, not for every
//! long response. 127.0.0.1 is exempt from limits on request rate, work and connections, because local wallets and
//! proxies use it, but is scheduled like any other client.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::net::Ipv4Addr;
use std::time::Duration;

use slab::Slab;

use crate::metrics::{RollingWindow, subtract};
use crate::net::ClientKey;
use crate::net::limits::Limits;
use crate::net::metrics::{TOP_CLIENTS, TopUsage};
use crate::net::service::{Client, ListenerId};

/// Clients with a usage record of their own. When this many have connections or sent something recently, further ones
/// share the overflow buckets.
pub const MAX_CLIENTS: usize = 8192;
/// Overflow buckets. A client's bucket is chosen by a randomly seeded hash.
const OVERFLOW_BUCKETS: u64 = 1024;
/// Window of the request rate, and the time after which an inactive client is forgotten.
pub const RATE_WINDOW: Duration = Duration::from_secs(1);
/// Units of work a client may cause per second, and in one burst: a quarter of the processor. Beyond this it is
/// throttled until the deficit is refilled.
pub const WORK_PER_SECOND: i64 = 250_000;
/// Units charged for a connection without any request, for the work of the kernel.
pub(super) const UNITS_PER_CONNECTION: u32 = 40;
/// Units charged for a connection that is reset on arrival because its client exceeded its quota.
const UNITS_PER_RESET: u32 = 8;
/// Connections of a client are accepted if its deficit is refilled within this time.
const MAX_ADMITTED_DEFICIT: Duration = Duration::from_millis(500);
/// Connections are not charged if the deficit takes longer than this to refill. Otherwise a flood would lock out other
/// users of its address for as long as it lasted.
const MAX_CHARGED_DEFICIT: Duration = Duration::from_secs(5);
/// Added to the refill time of a deficit, so that a throttled client is served in batches and does not wake the loop
/// for each piece.
const THROTTLE_DELAY: Duration = Duration::from_millis(10);
/// A client whose rejected requests within a window reach this multiple of the limit is banned.
const BAN_FACTOR: usize = 10;
/// How long connections of a banned client are reset on arrival.
const BAN_TIME: Duration = Duration::from_secs(5);

/// Index of a client's usage record. Valid while the client has connections.
pub(super) type ClientId = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Client(ClientKey),
    Overflow(u64),
}

impl Key {
    /// Returns whether this is 127.0.0.1, not forwarded.
    fn is_exempt(&self) -> bool {
        *self == Key::Client(ClientKey::local(Ipv4Addr::LOCALHOST.into()))
    }
}

/// A request compared with its client's rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RateLimit {
    Within,
    /// Too many; reject the request.
    Exceeded,
    /// Far too many; disconnect and ban the client.
    Ban,
}

/// Token bucket of units of work, refilled with time.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenBucket {
    tokens: i64,
    last_refill: Duration,
}

impl TokenBucket {
    pub fn new(per_second: i64, now: Duration) -> TokenBucket {
        TokenBucket { tokens: per_second, last_refill: now }
    }

    /// Refills the bucket, up to one second's worth, then takes units from it.
    pub fn take(&mut self, units: u32, per_second: i64, now: Duration) {
        let passed = i64::try_from(now.saturating_sub(self.last_refill).as_micros()).unwrap_or(i64::MAX);
        let refilled = passed.saturating_mul(per_second) / 1_000_000;
        self.last_refill = now;
        self.tokens = self.tokens.saturating_add(refilled).min(per_second).saturating_sub(i64::from(units));
    }

    /// Returns when the bucket can be used again if it has a deficit.
    pub fn refill_at(&self, per_second: i64) -> Option<Duration> {
        let deficit = u64::try_from(-self.tokens).ok().filter(|owed| *owed > 0)?;
        let time = Duration::from_micros(deficit.saturating_mul(1_000_000) / per_second.unsigned_abs().max(1));
        Some(self.last_refill + time + THROTTLE_DELAY)
    }
}

#[derive(Debug)]
struct ClientUsage {
    key: Key,
    connections: usize,
    held_bytes: usize,
    /// Arrival times of the last requests on each listener, oldest first, rejected ones included.
    arrivals: Vec<VecDeque<Duration>>,
    rejected: usize,
    rejected_since: Duration,
    banned_until: Duration,
    last_active: Duration,
    bucket: TokenBucket,
    /// Units charged to the client, also if it is exempt.
    work: RollingWindow<u64>,
    /// Slots of ready connections, for each [`Priority`]. While one is not empty, the client is in the matching queue or
    /// throttled.
    ready: [VecDeque<usize>; 2],
}

/// Scheduling priority of a ready connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Priority {
    /// New input has arrived.
    New,
    /// The connection used up its budget and has more to do.
    Continuation,
}

impl ClientUsage {
    fn is_exempt(&self) -> bool {
        self.key.is_exempt()
    }

    fn has_ready(&self) -> bool {
        self.ready.iter().any(|connections| !connections.is_empty())
    }
}

/// Usage records of all clients.
#[derive(Debug)]
pub(super) struct ClientTable {
    limits: Limits,
    ids_by_key: HashMap<Key, ClientId>,
    clients: Slab<ClientUsage>,
    /// Clients with ready connections, for each [`Priority`].
    ready: [VecDeque<ClientId>; 2],
    /// The priority served last; the other is served next.
    last_served: Priority,
    /// Throttled clients with ready connections, by the time at which they may continue.
    throttled: BTreeSet<(Duration, ClientId, Priority)>,
    last_sweep: Duration,
    hasher: RandomState,
}

impl ClientTable {
    pub fn new(limits: Limits) -> ClientTable {
        ClientTable {
            limits,
            ids_by_key: HashMap::new(),
            clients: Slab::new(),
            ready: Default::default(),
            last_served: Priority::Continuation,
            throttled: BTreeSet::new(),
            last_sweep: Duration::ZERO,
            hasher: RandomState::new(),
        }
    }

    /// Replaces the limits, except the IPv6 prefix length, which is part of the keys.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = Limits { ipv6_prefix: self.limits.ipv6_prefix, ..limits };
    }

    /// Returns the usage record of a client, created if needed. A forwarded client is never exempt.
    pub fn client_id(&mut self, client: &Client, now: Duration) -> ClientId {
        let key = Key::Client(ClientKey::of(client, self.limits.ipv6_prefix));
        if let Some(id) = self.ids_by_key.get(&key) {
            return *id;
        }
        if self.clients.len() >= MAX_CLIENTS && !key.is_exempt() {
            self.remove_inactive(now);
            if self.clients.len() >= MAX_CLIENTS {
                let overflow = Key::Overflow(self.hasher.hash_one(key) % OVERFLOW_BUCKETS);
                return self.ids_by_key.get(&overflow).copied().unwrap_or_else(|| self.insert(overflow, now));
            }
        }
        self.insert(key, now)
    }

    /// Returns the number of usage records.
    pub fn len(&self) -> usize {
        self.clients.len()
    }

    fn insert(&mut self, key: Key, now: Duration) -> ClientId {
        let client = self.clients.insert(ClientUsage {
            key,
            connections: 0,
            held_bytes: 0,
            arrivals: Vec::new(),
            rejected: 0,
            rejected_since: now,
            banned_until: Duration::ZERO,
            last_active: now,
            bucket: TokenBucket::new(WORK_PER_SECOND, now),
            work: RollingWindow::default(),
            ready: Default::default(),
        });
        self.ids_by_key.insert(key, client);
        client
    }

    /// Forgets clients without connections, recent activity, ban or deficit. Runs at most once per window because it
    /// scans all.
    pub fn remove_inactive(&mut self, now: Duration) {
        if now.saturating_sub(self.last_sweep) < RATE_WINDOW {
            return;
        }
        self.last_sweep = now;
        let ClientTable { clients, ids_by_key, .. } = self;
        clients.retain(|_, client| {
            let is_active = client.connections > 0
                || client.has_ready()
                || now.saturating_sub(client.last_active) < RATE_WINDOW
                || now < client.banned_until
                || client.bucket.refill_at(WORK_PER_SECOND).is_some_and(|refill_at| now < refill_at);
            if !is_active {
                ids_by_key.remove(&client.key);
            }
            is_active
        });
    }

    /// Returns whether a client may have one more connection.
    pub fn may_connect(&self, client: ClientId) -> bool {
        let max = self.limits.connections_per_client;
        self.clients.get(client).is_some_and(|client| client.is_exempt() || client.connections < max)
    }

    /// Returns whether a client is banned for its request rate.
    pub fn is_banned(&self, client: ClientId, now: Duration) -> bool {
        self.clients.get(client).is_some_and(|client| now < client.banned_until)
    }

    /// Charges a client for a new connection. Returns whether it is accepted: not if the client's deficit is too large.
    pub fn charge_connection(&mut self, client: ClientId, now: Duration) -> bool {
        let refill_at = self.clients.get(client).and_then(|client| client.bucket.refill_at(WORK_PER_SECOND));
        let is_admitted = refill_at.is_none_or(|refill_at| refill_at <= now + MAX_ADMITTED_DEFICIT);
        if refill_at.is_none_or(|refill_at| refill_at <= now + MAX_CHARGED_DEFICIT) {
            self.charge(client, if is_admitted { UNITS_PER_CONNECTION } else { UNITS_PER_RESET }, now);
        }
        is_admitted
    }

    /// Adds a connection to a client.
    pub fn connected(&mut self, client: ClientId, now: Duration) {
        if let Some(client) = self.clients.get_mut(client) {
            client.connections += 1;
            client.last_active = now;
        }
    }

    /// Removes a connection that held `held_bytes` from a client.
    pub fn disconnected(&mut self, client: ClientId, held_bytes: usize, now: Duration) {
        let Some(client) = self.clients.get_mut(client) else { return };
        subtract(&mut client.connections, 1);
        subtract(&mut client.held_bytes, held_bytes);
        client.last_active = now;
    }

    /// Counts a request and compares it with the rate limit.
    pub fn count_request(&mut self, client: ClientId, listener: ListenerId, now: Duration) -> RateLimit {
        let Some(client) = self.clients.get_mut(client) else { return RateLimit::Within };
        client.last_active = now;
        let Some(limit) = self.limits.requests_per_second.filter(|_| !client.is_exempt()) else {
            return RateLimit::Within;
        };
        if client.arrivals.len() <= listener.0 {
            client.arrivals.resize_with(listener.0 + 1, VecDeque::new);
        }
        let arrivals = &mut client.arrivals[listener.0];
        let mut earlier = None;
        while arrivals.len() >= limit.max(1) {
            earlier = arrivals.pop_front();
        }
        arrivals.push_back(now);
        if earlier.is_none_or(|earlier| now.saturating_sub(earlier) >= RATE_WINDOW) {
            return RateLimit::Within;
        }
        if now.saturating_sub(client.rejected_since) >= RATE_WINDOW {
            (client.rejected, client.rejected_since) = (0, now);
        }
        client.rejected += 1;
        if client.rejected < BAN_FACTOR * limit {
            return RateLimit::Exceeded;
        }
        client.banned_until = now + BAN_TIME;
        RateLimit::Ban
    }

    /// Replaces `before` by `held` in the bytes held for a client.
    pub fn update_held_bytes(&mut self, client: ClientId, before: usize, held: usize) {
        let Some(client) = self.clients.get_mut(client) else { return };
        client.held_bytes = client.held_bytes.saturating_add(held);
        subtract(&mut client.held_bytes, before);
    }

    /// Returns whether more is held for a client than allowed.
    pub fn exceeds_held_bytes(&self, client: ClientId) -> bool {
        let max = self.limits.buffered_bytes_per_client;
        self.clients.get(client).is_some_and(|client| !client.is_exempt() && client.held_bytes > max)
    }

    /// Returns the client with the most bytes held.
    pub fn largest(&self) -> Option<ClientId> {
        self.clients.iter().max_by_key(|(_, client)| client.held_bytes).map(|(id, _)| id)
    }

    /// Returns the largest shares of work and the largest held bytes, each in descending order. The two values of an
    /// entry may belong to different clients.
    pub fn top_clients(&self, now: Duration) -> [TopUsage; TOP_CLIENTS] {
        let (mut by_share, mut by_bytes) = ([0.0; TOP_CLIENTS], [0; TOP_CLIENTS]);
        for (_, client) in &self.clients {
            let ([before, current], time) = client.work.last_two(now);
            keep_largest(&mut by_share, (before + current) as f64 / time.as_micros() as f64);
            keep_largest(&mut by_bytes, client.held_bytes);
        }
        std::array::from_fn(|rank| TopUsage { share: by_share[rank], held_bytes: by_bytes[rank] })
    }

    /// Returns the number of throttled clients with ready connections.
    pub fn throttled_count(&self) -> usize {
        self.throttled.len()
    }

    /// Charges work to a client.
    pub fn charge(&mut self, client: ClientId, units: u32, now: Duration) {
        let Some(client) = self.clients.get_mut(client) else { return };
        *client.work.current_mut(now) += u64::from(units);
        if !client.is_exempt() {
            client.bucket.take(units, WORK_PER_SECOND, now);
        }
    }

    /// Queues a connection to be served.
    pub fn enqueue(&mut self, client: ClientId, slot: usize, priority: Priority) {
        let Some(connections) = self.clients.get_mut(client).map(|client| &mut client.ready[priority as usize]) else {
            return;
        };
        if connections.is_empty() {
            self.ready[priority as usize].push_back(client);
        }
        connections.push_back(slot);
    }

    /// Returns the next connection to serve; `None` if no connection is ready or all clients with one are throttled.
    pub fn next(&mut self, now: Duration) -> Option<usize> {
        while let Some((_, client, priority)) = self.throttled.first().copied().filter(|(due, ..)| *due <= now) {
            self.throttled.pop_first();
            self.ready[priority as usize].push_back(client);
        }
        while let Some((id, priority)) = self.next_client() {
            let Some(client) = self.clients.get_mut(id) else { continue };
            if let Some(refill_at) = client.bucket.refill_at(WORK_PER_SECOND).filter(|refill_at| *refill_at > now) {
                self.throttled.insert((refill_at, id, priority));
                continue;
            }
            let connections = &mut client.ready[priority as usize];
            let slot = connections.pop_front();
            if !connections.is_empty() {
                self.ready[priority as usize].push_back(id);
            }
            self.last_served = priority;
            return slot;
        }
        None
    }

    /// Returns the next client to serve, and which of its connections.
    fn next_client(&mut self) -> Option<(ClientId, Priority)> {
        let turns = match self.last_served {
            Priority::New => [Priority::Continuation, Priority::New],
            Priority::Continuation => [Priority::New, Priority::Continuation],
        };
        turns.into_iter().find_map(|priority| Some((self.ready[priority as usize].pop_front()?, priority)))
    }

    /// Returns whether any client is queued.
    pub fn has_ready(&self) -> bool {
        self.ready.iter().any(|clients| !clients.is_empty())
    }

    /// Returns whether a client is throttled.
    pub fn is_throttled(&self, client: ClientId, now: Duration) -> bool {
        let bucket = self.clients.get(client).map(|client| client.bucket);
        bucket.and_then(|bucket| bucket.refill_at(WORK_PER_SECOND)).is_some_and(|refill_at| refill_at > now)
    }

    /// Returns when the next throttled client may continue.
    pub fn next_refill(&self) -> Option<Duration> {
        self.throttled.first().map(|(refill_at, ..)| *refill_at)
    }
}

/// Inserts a value into a list of the largest in descending order.
fn keep_largest<T: PartialOrd + Copy>(largest: &mut [T], value: T) {
    if let Some(place) = largest.iter().position(|other| value > *other) {
        largest[place..].rotate_right(1);
        largest[place] = value;
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    const HTTP: ListenerId = ListenerId(0);

    fn address(number: u32) -> Client {
        direct(Ipv4Addr::from(0x0a00_0000 + number))
    }

    fn direct(address: impl Into<IpAddr>) -> Client {
        Client::direct(HTTP, address.into())
    }

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn callers() -> ClientTable {
        ClientTable::new(Limits::default())
    }

    #[test]
    fn the_fifty_first_request_within_a_second_is_refused_on_each_listener() {
        let mut clients = callers();
        let account = clients.client_id(&address(1), at(5000));
        for request in 0..50 {
            assert_eq!(clients.count_request(account, HTTP, at(5000 + request)), RateLimit::Within);
        }
        assert_eq!(clients.count_request(account, HTTP, at(5999)), RateLimit::Exceeded);
        assert_eq!(clients.count_request(account, ListenerId(1), at(5999)), RateLimit::Within);
        // The second request came at 5001, and the rejected one counts too.
        assert_eq!(clients.count_request(account, HTTP, at(6000)), RateLimit::Exceeded);
        assert_eq!(clients.count_request(account, HTTP, at(7000)), RateLimit::Within);
    }

    #[test]
    fn a_client_far_over_its_rate_limit_is_banned_temporarily() {
        let mut clients = callers();
        let account = clients.client_id(&address(1), at(0));
        let rates: Vec<RateLimit> = (0..600).map(|_| clients.count_request(account, HTTP, at(10))).collect();
        assert_eq!(rates.iter().filter(|rate| **rate == RateLimit::Exceeded).count(), 499);
        assert_eq!(rates.last(), Some(&RateLimit::Ban));
        assert!(clients.is_banned(account, at(5000)) && !clients.is_banned(account, at(5010)));
    }

    #[test]
    fn the_ipv4_loopback_is_exempt_from_limits_only_if_not_forwarded() {
        let mut clients = callers();
        let own = ["127.0.0.1", "::ffff:127.0.0.1"]
            .map(|text| clients.client_id(&direct(text.parse::<IpAddr>().unwrap()), at(0)));
        assert_eq!(own[0], own[1]);
        let named = clients.client_id(&Client { is_forwarded: true, ..direct(Ipv4Addr::LOCALHOST) }, at(0));
        let loopback6 = clients.client_id(&direct(Ipv6Addr::LOCALHOST), at(0));
        for _ in 0..100 {
            assert_eq!(clients.count_request(own[0], HTTP, at(1)), RateLimit::Within);
            clients.connected(own[0], at(1));
        }
        assert!((0..200).all(|_| clients.may_connect(own[0])));
        for account in [named, loopback6] {
            assert!((0..51).any(|_| clients.count_request(account, HTTP, at(1)) == RateLimit::Exceeded));
        }
    }

    #[test]
    fn all_addresses_of_an_ipv6_network_are_one_client() {
        let mut clients = callers();
        let account =
            |clients: &mut ClientTable, text: &str| clients.client_id(&direct(text.parse::<IpAddr>().unwrap()), at(0));
        let first = account(&mut clients, "2001:db8:1:2::1");
        assert_eq!(first, account(&mut clients, "2001:db8:1:2:ffff::9"));
        assert_ne!(first, account(&mut clients, "2001:db8:1:3::1"));
    }

    #[test]
    fn new_clients_share_overflow_buckets_when_the_client_table_is_full() {
        let mut callers = callers();
        let known = callers.client_id(&address(0), at(5000));
        callers.connected(known, at(5000));
        for number in 1..3 * MAX_CLIENTS as u32 {
            callers.client_id(&address(number), at(5000));
        }
        assert!(callers.clients.len() <= MAX_CLIENTS + OVERFLOW_BUCKETS as usize);
        assert_eq!(callers.client_id(&address(0), at(5001)), known);
        // Clients in the overflow buckets are rate-limited together.
        let refused = (0..OVERFLOW_BUCKETS as u32 * 60).filter(|number| {
            let account = callers.client_id(&address(1_000_000 + number), at(5001));
            callers.count_request(account, HTTP, at(5001)) != RateLimit::Within
        });
        assert!(refused.count() > 300);
        // Inactive clients are forgotten.
        let fresh = callers.client_id(&address(5_000_000), at(7000));
        assert!(matches!(callers.clients[fresh].key, Key::Client(_)));
        assert_eq!(callers.clients.len(), 2);
    }

    #[test]
    fn clients_are_served_round_robin_regardless_of_their_connections() {
        let mut clients = callers();
        let [many, one] = [1, 2].map(|number| clients.client_id(&address(number), at(0)));
        (0..100).for_each(|slot| clients.enqueue(many, slot, Priority::New));
        clients.enqueue(one, 1000, Priority::New);
        let order: Vec<usize> = std::iter::from_fn(|| clients.next(at(0))).take(4).collect();
        assert_eq!(order, [0, 1000, 1, 2]);
    }

    #[test]
    fn new_work_is_served_before_continuations() {
        let mut clients = callers();
        let account = clients.client_id(&address(1), at(0));
        clients.enqueue(account, 1, Priority::Continuation);
        clients.enqueue(account, 2, Priority::Continuation);
        clients.enqueue(account, 3, Priority::New);
        assert_eq!(std::iter::from_fn(|| clients.next(at(0))).collect::<Vec<_>>(), [3, 1, 2]);
        assert!(!clients.has_ready());
    }

    #[test]
    fn new_work_waits_for_at_most_one_continuation() {
        let mut clients = callers();
        let accounts: Vec<ClientId> = (0..51).map(|number| clients.client_id(&address(number), at(0))).collect();
        for (slot, account) in accounts[1..].iter().enumerate() {
            clients.enqueue(*account, 100 + slot, Priority::Continuation);
        }
        assert_eq!(clients.next(at(0)), Some(100));
        clients.enqueue(accounts[0], 1, Priority::New);
        clients.enqueue(accounts[0], 2, Priority::New);
        let order: Vec<usize> = std::iter::from_fn(|| clients.next(at(0))).take(4).collect();
        assert_eq!(order, [1, 101, 2, 102]);
    }

    #[test]
    fn a_client_with_a_deficit_is_throttled_until_its_tokens_are_refilled() {
        let mut clients = callers();
        let [heavy, light] = [1, 2].map(|number| clients.client_id(&address(number), at(0)));
        clients.charge(heavy, 3 * WORK_PER_SECOND as u32, at(0));
        clients.enqueue(heavy, 1, Priority::New);
        clients.enqueue(light, 2, Priority::New);
        assert_eq!((clients.next(at(0)), clients.next(at(0))), (Some(2), None));
        assert!(clients.is_throttled(heavy, at(2009)) && !clients.is_throttled(light, at(0)));
        assert_eq!(clients.next_refill(), Some(at(2010)));
        assert_eq!((clients.next(at(2009)), clients.next(at(2010))), (None, Some(1)));
        assert!(!clients.is_throttled(heavy, at(2010)));
    }

    #[test]
    fn a_client_with_a_deficit_is_not_forgotten_and_its_connection_deficit_is_limited() {
        let mut clients = callers();
        let connect = |clients: &mut ClientTable, now| {
            let account = clients.client_id(&address(1), now);
            clients.charge_connection(account, now)
        };
        let let_in = (0..1_000_000).filter(|_| connect(&mut clients, at(0))).count();
        assert_eq!(
            let_in,
            1 + (375_000 - 2_500) / UNITS_PER_CONNECTION as usize,
            "a second's work, and half of one's that is owed with the pause"
        );
        for millis in [1_500, 3_000] {
            clients.remove_inactive(at(millis));
            assert!(!connect(&mut clients, at(millis)), "after {millis} ms");
        }
        assert!(!connect(&mut clients, at(4_400)));
        assert!(connect(&mut clients, at(4_600)));
        // A client without deficit is forgotten.
        clients.remove_inactive(at(4_900));
        assert_eq!(clients.len(), 1);
        clients.remove_inactive(at(6_100));
        assert_eq!(clients.len(), 0);
    }

    #[test]
    fn a_flood_of_sixty_thousand_addresses_does_not_lock_out_known_clients() {
        let (mut clients, mut now) = (callers(), Duration::ZERO);
        let known = clients.client_id(&address(0), now);
        clients.connected(known, now);
        let (mut newcomers, mut refused) = (0u32, 0u32);
        // 6,000 connections a second with a request each, every address once in ten seconds.
        for number in 0..180_000 {
            now = Duration::from_micros(number * 1_000_000 / 6_000);
            let account = clients.client_id(&address(1_000 + (number % 60_000) as u32), now);
            assert!(clients.charge_connection(account, now));
            clients.connected(account, now);
            let _ = clients.count_request(account, HTTP, now);
            clients.disconnected(account, 0, now);
            if number % 120 == 0 {
                let newcomer = clients.client_id(&address(1_000_000 + newcomers), now);
                newcomers += 1;
                refused += u32::from(clients.count_request(newcomer, HTTP, now) != RateLimit::Within);
                assert_eq!(clients.count_request(known, HTTP, now), RateLimit::Within);
                clients.remove_inactive(now);
            }
        }
        assert!(clients.len() <= MAX_CLIENTS + OVERFLOW_BUCKETS as usize + 1, "{}", clients.len());
        assert_eq!((newcomers, refused), (1_500, 0));
    }

    #[test]
    fn work_settled_by_waiting_is_not_charged_again() {
        let mut clients = callers();
        let heavy = clients.client_id(&address(1), at(0));
        clients.charge(heavy, 11 * WORK_PER_SECOND as u32, at(0));
        clients.enqueue(heavy, 1, Priority::New);
        assert_eq!((clients.next(at(10_009)), clients.next(at(10_010))), (None, Some(1)));
        // The units refilled during the pause, plus one.
        clients.charge(heavy, 2_501, at(10_010));
        clients.enqueue(heavy, 1, Priority::New);
        assert_eq!((clients.next(at(10_020)), clients.next(at(10_021))), (None, Some(1)));
    }

    #[test]
    fn top_clients_are_ordered_by_work_and_by_held_bytes() {
        let mut clients = callers();
        for number in 1..=8 {
            let account = clients.client_id(&address(number), at(0));
            clients.charge(account, 3_000_000 * number, at(10));
            clients.update_held_bytes(account, 0, 100 - number as usize);
        }
        let costliest = clients.top_clients(at(30_000));
        assert_eq!(costliest.map(|cost| cost.held_bytes), [99, 98, 97, 96, 95]);
        let shares = costliest.map(|cost| (cost.share * 30.0).round());
        assert_eq!(shares, [24.0, 21.0, 18.0, 15.0, 12.0]);
        assert_eq!(clients.top_clients(at(90_000))[0].share, 0.0);
    }

    #[test]
    fn the_eviction_candidate_is_the_client_with_the_most_held_bytes() {
        let mut clients = callers();
        let [first, second] = [1, 2].map(|number| clients.client_id(&address(number), at(0)));
        for account in [first, second, second] {
            clients.connected(account, at(0));
            clients.update_held_bytes(account, 0, 100);
        }
        assert_eq!(clients.largest(), Some(second));
        clients.disconnected(second, 100, at(0));
        clients.update_held_bytes(first, 100, 101);
        assert_eq!(clients.largest(), Some(first));
    }

    /// Groups of clients: first address, whether they stay connected, number of clients, and the pause in milliseconds
    /// afterwards. Addresses are dense or spread out.
    fn crowds() -> impl Strategy<Value = Vec<(u128, bool, u16, u64)>> {
        let address = prop_oneof![0..40u128, any::<u32>().prop_map(u128::from), any::<u128>()];
        proptest::collection::vec((address, any::<bool>(), 0..1000u16, 0..3000u64), 1..60)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_client_table_never_exceeds_its_limit(crowds in crowds()) {
            let (mut callers, mut now) = (callers(), Duration::ZERO);
            let mut connected = Vec::new();
            for (first, stay, size, pause) in crowds {
                for number in 0..u128::from(size) {
                    // Each address is in a /64 of its own.
                    let address = IpAddr::V6(Ipv6Addr::from(first.wrapping_add(number << 64)));
                    let account = callers.client_id(&direct(address), now);
                    let _ = callers.count_request(account, HTTP, now);
                    if stay && callers.may_connect(account) {
                        callers.connected(account, now);
                        connected.push(account);
                    }
                }
                prop_assert!(callers.len() <= MAX_CLIENTS + OVERFLOW_BUCKETS as usize + 1);
                now += Duration::from_millis(pause);
            }
            for account in connected {
                callers.disconnected(account, 0, now);
            }
            callers.remove_inactive(now + 2 * BAN_TIME);
            prop_assert_eq!((callers.len(), callers.ids_by_key.len()), (0, 0));
        }

        #[test]
        fn a_ready_client_waits_for_at_most_two_servings_per_client(
            connections in proptest::collection::vec(1..20usize, 2..30),
            units in proptest::collection::vec(0..50_000u32, 1..40),
        ) {
            let mut callers = callers();
            let accounts: Vec<ClientId> =
                (0..connections.len() as u32).map(|number| callers.client_id(&address(number), at(0))).collect();
            for (number, count) in connections.iter().enumerate() {
                (0..*count).for_each(|slot| callers.enqueue(accounts[number], 100 * number + slot, Priority::New));
            }
            let (mut last_served, mut served) = (vec![0; accounts.len()], 0);
            for units in units.iter().cycle().take(1000) {
                let Some(slot) = callers.next(at(0)) else { break };
                served += 1;
                let number = slot / 100;
                prop_assert!(served - last_served[number] <= 2 * accounts.len(), "{number} waited");
                last_served[number] = served;
                callers.charge(accounts[number], *units, at(0));
                callers.enqueue(accounts[number], slot, Priority::Continuation);
            }
            prop_assert!(served >= accounts.len());
        }
    }
}
