//! Places and turns of connections, and the usage and rate limits of their clients.
//!
//! A [`Quota`] decides whose connection is served next and whose gives way. Besides, the request rate and the work of each
//! client are limited. Clients of this machine are exempt from those limits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use crate::metrics::{TOP_CLIENTS, TopUsage};
use crate::quota::{Owner, Quota};
use crate::service::ListenerId;
use nisd_core::metrics::RollingWindow;

/// Clients with a usage record of their own. When this many have connections or sent something recently, further ones
/// share the overflow buckets.
pub const MAX_CLIENTS: usize = 8192;
/// Overflow buckets. A client's bucket is chosen by a randomly seeded hash.
const OVERFLOW_BUCKETS: usize = 1024;
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
/// Time between two throttled connections of a client that continue, so that they do not all wait for the same refill.
const THROTTLED_TURN: Duration = Duration::from_micros(400);
/// Units that the time of a turn counts at most: some times the budget of a turn. In a longer one the process mostly waited
/// for a processor, which is not the client's fault. Behind 100 busy networks a client waits this many times as long.
const MAX_TURN_TIME: u32 = 500;
/// This machine has the share of this many networks, so that a crowd of networks does not delay its operator.
const SHARES_OF_THIS_MACHINE: u32 = 16;
/// A client whose rejected requests within a window reach this multiple of the limit is banned.
const BAN_FACTOR: usize = 10;
/// How long connections of a banned client are reset on arrival.
const BAN_TIME: Duration = Duration::from_secs(5);

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
#[derive(Clone, Copy, Debug, Default)]
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

#[derive(Debug, Default)]
pub(super) struct ClientUsage {
    /// Arrival times of the last requests on each listener, oldest first, rejected ones included.
    arrivals: Vec<VecDeque<Duration>>,
    rejected: usize,
    rejected_since: Duration,
    banned_until: Duration,
    last_active: Duration,
    bucket: TokenBucket,
    /// When the last of its throttled connections may continue.
    throttled_until: Duration,
    /// Units charged to the client, also if it is exempt.
    work: RollingWindow<u64>,
}

impl ClientUsage {
    fn new(now: Duration) -> ClientUsage {
        let bucket = TokenBucket::new(WORK_PER_SECOND, now);
        ClientUsage { rejected_since: now, last_active: now, bucket, ..ClientUsage::default() }
    }

    fn is_active(&self, now: Duration) -> bool {
        now.saturating_sub(self.last_active) < RATE_WINDOW
            || now < self.banned_until
            || self.bucket.refill_at(WORK_PER_SECOND).is_some_and(|refill_at| now < refill_at)
    }
}

/// The clients of all connections. An item is a connection, by its slot.
#[derive(Debug, Default)]
pub(super) struct ClientTable {
    /// Places and turns. A rejected connection has turns, but no place.
    pub places: Quota<usize>,
    /// Bytes in buffers.
    pub buffers: Quota<usize>,
    pub usage: BTreeMap<Owner, ClientUsage>,
    overflow: Vec<ClientUsage>,
    /// Throttled connections, by the time at which they may continue.
    pub throttled: BTreeSet<(Duration, usize)>,
    last_sweep: Duration,
    hasher: RandomState,
}

impl ClientTable {
    /// Returns the usage record of a client, created if needed.
    fn usage(&mut self, client: Owner, now: Duration) -> &mut ClientUsage {
        if self.usage.len() >= MAX_CLIENTS && !client.is_local() && !self.usage.contains_key(&client) {
            self.remove_inactive(now);
            if self.usage.len() >= MAX_CLIENTS {
                let bucket = self.hasher.hash_one(client) as usize % OVERFLOW_BUCKETS;
                self.overflow.resize_with(OVERFLOW_BUCKETS, || ClientUsage::new(now));
                return &mut self.overflow[bucket];
            }
        }
        self.usage.entry(client).or_insert_with(|| ClientUsage::new(now))
    }

    /// Forgets clients without connections, recent activity, ban or deficit. Runs at most once per window because it
    /// scans all.
    pub fn remove_inactive(&mut self, now: Duration) {
        if now.saturating_sub(self.last_sweep) < RATE_WINDOW {
            return;
        }
        self.last_sweep = now;
        let places = &self.places;
        self.usage.retain(|client, usage| usage.is_active(now) || places.held_by_client(*client) > 0);
        if !self.overflow.iter().any(|usage| usage.is_active(now)) {
            self.overflow = Vec::new();
        }
    }

    /// Returns whether a client is banned for its request rate.
    pub fn is_banned(&mut self, client: Owner, now: Duration) -> bool {
        now < self.usage(client, now).banned_until
    }

    /// Charges a client for a new connection. Returns whether it is accepted: not if the client's deficit is too large.
    pub fn charge_connection(&mut self, client: Owner, now: Duration) -> bool {
        let refill_at = self.usage(client, now).bucket.refill_at(WORK_PER_SECOND);
        let is_admitted = refill_at.is_none_or(|refill_at| refill_at <= now + MAX_ADMITTED_DEFICIT);
        if refill_at.is_none_or(|refill_at| refill_at <= now + MAX_CHARGED_DEFICIT) {
            self.charge_rate(client, if is_admitted { UNITS_PER_CONNECTION } else { UNITS_PER_RESET }, now);
        }
        is_admitted
    }

    /// Counts a request and compares it with the rate limit, if there is one.
    pub fn count_request(
        &mut self,
        client: Owner,
        listener: ListenerId,
        limit: Option<usize>,
        now: Duration,
    ) -> RateLimit {
        let client_usage = self.usage(client, now);
        client_usage.last_active = now;
        let Some(limit) = limit.filter(|_| !client.is_local()) else { return RateLimit::Within };
        if client_usage.arrivals.len() <= listener.0 {
            client_usage.arrivals.resize_with(listener.0 + 1, VecDeque::new);
        }
        let arrivals = &mut client_usage.arrivals[listener.0];
        let mut earlier = None;
        while arrivals.len() >= limit.max(1) {
            earlier = arrivals.pop_front();
        }
        arrivals.push_back(now);
        if earlier.is_none_or(|earlier| now.saturating_sub(earlier) >= RATE_WINDOW) {
            return RateLimit::Within;
        }
        if now.saturating_sub(client_usage.rejected_since) >= RATE_WINDOW {
            (client_usage.rejected, client_usage.rejected_since) = (0, now);
        }
        client_usage.rejected += 1;
        if client_usage.rejected < BAN_FACTOR * limit {
            return RateLimit::Exceeded;
        }
        client_usage.banned_until = now + BAN_TIME;
        RateLimit::Ban
    }

    /// Returns the largest shares of work and the largest held bytes, each in descending order. The two values of an
    /// entry may belong to different clients.
    pub fn top_clients(&self, now: Duration) -> [TopUsage; TOP_CLIENTS] {
        let (mut by_share, mut by_bytes) = ([0.0; TOP_CLIENTS], [0; TOP_CLIENTS]);
        for (client, usage) in &self.usage {
            let ([before, current], time) = usage.work.last_two(now);
            keep_largest(&mut by_share, (before + current) as f64 / time.as_micros() as f64);
            keep_largest(&mut by_bytes, self.buffers.held_by_client(*client));
        }
        std::array::from_fn(|rank| TopUsage { share: by_share[rank], held_bytes: by_bytes[rank] })
    }

    /// Charges units of work to a client: to its turns `took` microseconds, if that is more, up to `MAX_TURN_TIME`.
    pub fn charge(&mut self, client: Owner, units: u32, took: u32, now: Duration) {
        self.charge_rate(client, units, now);
        let shares = if client.is_local() { SHARES_OF_THIS_MACHINE } else { 1 };
        self.places.charge(client, units.max(took.min(MAX_TURN_TIME)).div_ceil(shares), now);
    }

    /// Charges units of work to the rate of a client.
    fn charge_rate(&mut self, client: Owner, units: u32, now: Duration) {
        let usage = self.usage(client, now);
        usage.last_active = now;
        *usage.work.current_mut(now) += u64::from(units);
        if !client.is_local() {
            usage.bucket.take(units, WORK_PER_SECOND, now);
        }
    }

    /// Returns the next connection to serve; `None` if none waits or all that wait are throttled. `refill_at` returns when
    /// a connection may be served that has a work quota of its own.
    pub fn next(&mut self, now: Duration, refill_at: impl Fn(usize) -> Option<Duration>) -> Option<usize> {
        while let Some((due, slot)) = self.throttled.first().copied().filter(|(due, _)| *due <= now) {
            self.throttled.remove(&(due, slot));
            self.places.wait(slot, now);
        }
        loop {
            let (client, slot) = self.places.next(now)?;
            if let Some(due) = refill_at(slot).filter(|due| *due > now) {
                self.throttled.insert((due, slot));
            } else if self.is_throttled(client, now) {
                let usage = self.usage(client, now);
                let due = usage.bucket.refill_at(WORK_PER_SECOND).unwrap_or(now).max(usage.throttled_until);
                usage.throttled_until = due + THROTTLED_TURN;
                self.throttled.insert((due, slot));
            } else {
                return Some(slot);
            }
        }
    }

    /// Returns whether a client is throttled.
    pub fn is_throttled(&self, client: Owner, now: Duration) -> bool {
        let refill_at = self.usage.get(&client).and_then(|usage| usage.bucket.refill_at(WORK_PER_SECOND));
        refill_at.is_some_and(|refill_at| refill_at > now)
    }

    /// Forgets a closed connection.
    pub fn remove(&mut self, slot: usize, now: Duration) {
        self.places.release(slot, now);
        self.buffers.release(slot, now);
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
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    const HTTP: ListenerId = ListenerId(0);
    const LIMIT: Option<usize> = Some(50);

    /// Clients of networks of their own, as far as there are any.
    fn client(number: u32) -> Owner {
        Owner::at(Ipv4Addr::from((0x0a00_0000 + number).rotate_left(8)).into())
    }

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn table() -> ClientTable {
        ClientTable::default()
    }

    /// Lets a connection of a client wait for a turn.
    fn wait(clients: &mut ClientTable, client: Owner, slot: usize) {
        clients.places.hold(slot, client, 1, at(0));
        clients.places.wait(slot, at(0));
    }

    fn next(clients: &mut ClientTable, millis: u64) -> Option<usize> {
        clients.next(at(millis), |_| None)
    }

    #[test]
    fn the_fifty_first_request_within_a_second_is_refused_on_each_listener() {
        let (mut clients, client) = (table(), client(1));
        for request in 0..50 {
            assert_eq!(clients.count_request(client, HTTP, LIMIT, at(5000 + request)), RateLimit::Within);
        }
        assert_eq!(clients.count_request(client, HTTP, LIMIT, at(5999)), RateLimit::Exceeded);
        assert_eq!(clients.count_request(client, ListenerId(1), LIMIT, at(5999)), RateLimit::Within);
        // The second request came at 5001, and the rejected one counts too.
        assert_eq!(clients.count_request(client, HTTP, LIMIT, at(6000)), RateLimit::Exceeded);
        assert_eq!(clients.count_request(client, HTTP, LIMIT, at(7000)), RateLimit::Within);
    }

    #[test]
    fn a_client_far_over_its_rate_limit_is_banned_temporarily() {
        let (mut clients, client) = (table(), client(1));
        let rates: Vec<RateLimit> = (0..600).map(|_| clients.count_request(client, HTTP, LIMIT, at(10))).collect();
        assert_eq!(rates.iter().filter(|rate| **rate == RateLimit::Exceeded).count(), 499);
        assert_eq!(rates.last(), Some(&RateLimit::Ban));
        assert!(clients.is_banned(client, at(5000)) && !clients.is_banned(client, at(5010)));
    }

    #[test]
    fn this_machine_is_exempt_from_the_limits_on_rate_and_work() {
        let mut clients = table();
        let [local, remote] = [Owner::local, Owner::at].map(|of| of(Ipv4Addr::LOCALHOST.into()));
        let is_limited = |clients: &mut ClientTable, client| {
            clients.charge_rate(client, 10 * WORK_PER_SECOND as u32, at(1));
            let rate = (0..100).map(|_| clients.count_request(client, HTTP, LIMIT, at(1))).last();
            assert_eq!(rate == Some(RateLimit::Exceeded), clients.is_throttled(client, at(1)));
            rate == Some(RateLimit::Exceeded)
        };
        assert_eq!((is_limited(&mut clients, local), is_limited(&mut clients, remote)), (false, true));
    }

    #[test]
    fn a_hundred_busy_networks_do_not_delay_this_machine_which_uses_more_than_one_of_them() {
        const LOCAL: usize = 1_000;
        /// Returns the longest wait in microseconds of a client that asks every 5 ms for work of 150 µs, in ten seconds after
        /// the first.
        fn longest_wait(own: Owner) -> u128 {
            let (mut clients, mut waits_since, mut longest) = (table(), None, 0);
            (0..100).for_each(|slot| wait(&mut clients, client(slot as u32), slot));
            for micros in (0..11_000_000).step_by(150) {
                let now = Duration::from_micros(micros);
                if micros % 5_000 < 150 && waits_since.is_none() {
                    waits_since = Some(now);
                    wait(&mut clients, own, LOCAL);
                }
                let slot = clients.next(now, |_| None).unwrap();
                let served = if slot == LOCAL { own } else { client(slot as u32) };
                clients.charge(served, 0, 150, now);
                if slot != LOCAL {
                    wait(&mut clients, served, slot);
                } else if let Some(since) = waits_since.take().filter(|_| micros > 1_000_000) {
                    longest = longest.max((now - since).as_micros());
                }
            }
            longest
        }
        let waits = [Owner::local, Owner::at].map(|of| longest_wait(of(Ipv4Addr::LOCALHOST.into())));
        assert!(waits[0] == 0 && waits[1] > 5_000, "{waits:?}");
    }

    #[test]
    fn a_turn_in_which_the_process_was_stopped_for_a_second_delays_its_client_by_rounds_only() {
        let (mut clients, stopped) = (table(), client(100));
        (0..=100).for_each(|slot| wait(&mut clients, client(slot as u32), slot));
        clients.charge(stopped, 10, 1_000_000, at(0));
        let turns_of_others = (0..100_000).position(|_| {
            let slot = next(&mut clients, 1).unwrap();
            clients.charge(client(slot as u32), 100, 100, at(1));
            wait(&mut clients, client(slot as u32), slot);
            slot == 100
        });
        assert_eq!(turns_of_others, Some(100 * 5));
    }

    #[test]
    fn new_clients_share_overflow_buckets_when_the_client_table_is_full() {
        let mut clients = table();
        clients.places.hold(0, client(0), 1, at(5000));
        clients.charge_rate(client(0), 1, at(5000));
        (1..3 * MAX_CLIENTS as u32).for_each(|number| clients.charge_rate(client(number), 1, at(5000)));
        assert_eq!(clients.usage.len(), MAX_CLIENTS);
        // Clients in the overflow buckets are rate-limited together.
        let refused = (0..OVERFLOW_BUCKETS as u32 * 60).filter(|number| {
            clients.count_request(client(1_000_000 + number), HTTP, LIMIT, at(5001)) != RateLimit::Within
        });
        assert!(refused.count() > 300);
        // Inactive clients are forgotten.
        clients.charge_rate(client(5_000_000), 1, at(7000));
        assert_eq!((clients.usage.len(), clients.overflow.len()), (2, 0));
    }

    #[test]
    fn a_client_with_a_deficit_is_throttled_until_its_tokens_are_refilled() {
        let (mut clients, [heavy, light]) = (table(), [1, 2].map(client));
        clients.charge_rate(heavy, 3 * WORK_PER_SECOND as u32, at(0));
        wait(&mut clients, heavy, 1);
        wait(&mut clients, light, 2);
        assert_eq!((next(&mut clients, 0), next(&mut clients, 0)), (Some(2), None));
        assert!(clients.is_throttled(heavy, at(2009)) && !clients.is_throttled(light, at(0)));
        assert_eq!(clients.throttled.first().map(|(at, _)| *at), Some(at(2010)));
        assert_eq!((next(&mut clients, 2009), next(&mut clients, 2010)), (None, Some(1)));
        assert!(!clients.is_throttled(heavy, at(2010)));
    }

    #[test]
    fn throttled_connections_of_a_client_continue_one_after_another() {
        let (mut clients, heavy) = (table(), client(1));
        clients.charge_rate(heavy, 2 * WORK_PER_SECOND as u32, at(0));
        (0..100).for_each(|slot| wait(&mut clients, heavy, slot));
        assert_eq!((next(&mut clients, 0), clients.throttled.len()), (None, 100));
        let served = |clients: &mut ClientTable, millis| (0..100).filter(|_| next(clients, millis).is_some()).count();
        assert_eq!([1_010, 1_014, 1_030, 1_060].map(|millis| served(&mut clients, millis)), [1, 10, 40, 49]);
    }

    #[test]
    fn a_client_with_a_deficit_is_not_forgotten_and_its_connection_deficit_is_limited() {
        let mut clients = table();
        let let_in = (0..1_000_000).filter(|_| clients.charge_connection(client(1), at(0))).count();
        assert_eq!(
            let_in,
            1 + (375_000 - 2_500) / UNITS_PER_CONNECTION as usize,
            "a second's work, and half of one's that is owed with the pause"
        );
        for millis in [1_500, 3_000] {
            clients.remove_inactive(at(millis));
            assert!(!clients.charge_connection(client(1), at(millis)), "after {millis} ms");
        }
        assert!(!clients.charge_connection(client(1), at(4_400)));
        assert!(clients.charge_connection(client(1), at(4_600)));
        // A client without deficit is forgotten.
        clients.remove_inactive(at(4_900));
        assert_eq!(clients.usage.len(), 1);
        clients.remove_inactive(at(6_100));
        assert_eq!(clients.usage.len(), 0);
    }

    #[test]
    #[ignore = "slow: computes for long"]
    fn a_flood_of_sixty_thousand_addresses_does_not_lock_out_known_clients() {
        let (mut clients, mut now, known) = (table(), Duration::ZERO, client(0));
        clients.places.hold(0, known, 1, now);
        let (mut newcomers, mut refused) = (0u32, 0u32);
        // 6,000 connections a second with a request each, every address once in ten seconds.
        for number in 0..180_000 {
            now = Duration::from_micros(number * 1_000_000 / 6_000);
            let flood = client(1_000 + (number % 60_000) as u32);
            assert!(clients.charge_connection(flood, now));
            clients.places.hold(1, flood, 1, now);
            let _ = clients.count_request(flood, HTTP, LIMIT, now);
            clients.remove(1, now);
            if number % 120 == 0 {
                newcomers += 1;
                let rate = clients.count_request(client(1_000_000 + newcomers), HTTP, LIMIT, now);
                refused += u32::from(rate != RateLimit::Within);
                assert_eq!(clients.count_request(known, HTTP, LIMIT, now), RateLimit::Within);
                clients.remove_inactive(now);
            }
        }
        assert!(clients.usage.len() <= MAX_CLIENTS, "{}", clients.usage.len());
        assert_eq!((newcomers, refused), (1_500, 0));
    }

    #[test]
    fn a_connection_with_a_work_quota_of_its_own_waits_until_that_is_refilled() {
        let mut clients = table();
        wait(&mut clients, client(1), 1);
        wait(&mut clients, client(1), 2);
        let own_quota = |slot| (slot == 1).then_some(at(10));
        assert_eq!(clients.next(at(0), own_quota), Some(2), "its client is not throttled");
        assert_eq!((clients.next(at(0), own_quota), clients.throttled.len()), (None, 1));
        assert_eq!(
            (clients.next(at(9), own_quota), clients.throttled.first().map(|(at, _)| *at)),
            (None, Some(at(10)))
        );
        assert_eq!(clients.next(at(10), own_quota), Some(1));
    }

    #[test]
    fn work_settled_by_waiting_is_not_charged_again() {
        let (mut clients, heavy) = (table(), client(1));
        clients.charge_rate(heavy, 11 * WORK_PER_SECOND as u32, at(0));
        wait(&mut clients, heavy, 1);
        assert_eq!((next(&mut clients, 10_009), next(&mut clients, 10_010)), (None, Some(1)));
        // The units refilled during the pause, plus one.
        clients.charge_rate(heavy, 2_501, at(10_010));
        wait(&mut clients, heavy, 1);
        assert_eq!((next(&mut clients, 10_020), next(&mut clients, 10_021)), (None, Some(1)));
    }

    #[test]
    fn top_clients_are_ordered_by_work_and_by_held_bytes() {
        let mut clients = table();
        for number in 1..=8 {
            clients.charge_rate(client(number), 3_000_000 * number, at(10));
            clients.buffers.hold(number as usize, client(number), 100 - number as usize, at(10));
        }
        let costliest = clients.top_clients(at(30_000));
        assert_eq!(costliest.map(|cost| cost.held_bytes), [99, 98, 97, 96, 95]);
        let shares = costliest.map(|cost| (cost.share * 30.0).round());
        assert_eq!(shares, [24.0, 21.0, 18.0, 15.0, 12.0]);
        assert_eq!(clients.top_clients(at(90_000))[0].share, 0.0);
    }

    /// Groups of clients: first address, whether they stay connected, number of clients, and the pause in milliseconds
    /// afterwards. Addresses are dense or spread out.
    fn crowds() -> impl Strategy<Value = Vec<(u128, bool, u16, u64)>> {
        let address = prop_oneof![0..40u128, any::<u32>().prop_map(u128::from), any::<u128>()];
        proptest::collection::vec((address, any::<bool>(), 0..1000u16, 0..3000u64), 1..60)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        #[ignore = "slow: computes for long"]
        fn the_client_table_never_exceeds_its_limit(crowds in crowds()) {
            let (mut clients, mut now, mut slots) = (table(), Duration::ZERO, 0..);
            for (first, stay, size, pause) in crowds {
                for number in 0..u128::from(size) {
                    // Each address is in a /64 of its own.
                    let address = IpAddr::V6(Ipv6Addr::from(first.wrapping_add(number << 64)));
                    let client = Owner::at(address);
                    let _ = clients.count_request(client, HTTP, LIMIT, now);
                    if stay && clients.places.held_by_client(client) < 250 {
                        clients.places.hold(slots.next().unwrap(), client, 1, now);
                    }
                }
                prop_assert!(clients.usage.len() <= MAX_CLIENTS && clients.overflow.len() <= OVERFLOW_BUCKETS);
                now += Duration::from_millis(pause);
            }
            (0..slots.start).for_each(|slot| clients.remove(slot, now));
            clients.remove_inactive(now + 2 * BAN_TIME);
            prop_assert_eq!((clients.usage.len(), clients.overflow.len()), (0, 0));
        }
    }
}
