//! Who gives way when connections, buffers or kernel memory are short.
//!
//! Connections: each listener has a maximum, and so have all together; a part is reserved for clients of this machine.
//! When one is full, the client with the most loses its longest idle connection. Connections are ordered by the time they
//! were last seen active. Activity is not recorded as it happens: an eviction candidate is checked, and reinserted if it
//! was active since. A check costs a few steps in a tree and is amortised by the activity since the last one. If all
//! clients have equally many connections, as an attacker with many addresses can arrange, a connection is evicted from the
//! site that has many more than the newcomer's.
//!
//! Memory: when buffers or the kernel hold too much, the largest connections of the largest clients are closed. Of shared
//! messages, the websocket with the most pending is dropped.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

use super::Server;
use super::client_table::ClientId;
use super::connection::{Closing, Connection, Input};
use crate::metrics::subtract;
use crate::net::http::HttpError;
use crate::net::metrics::Stats;
use crate::net::service::{ConnectionId, Effects, ListenerId};
use crate::net::socket::Socket;

/// The reserved part for clients of this machine is the maximum divided by this, at most [`MAX_RESERVED`].
const RESERVED_PART: usize = 16;
const MAX_RESERVED: usize = 64;

/// A site is evicted from if it has at least this many more connections than the newcomer's site.
const MIN_SITE_SURPLUS: usize = 16;

/// Connections checked when choosing one to evict.
const MAX_EVICTION_CHECKS: usize = 256;

/// A busy connection is not checked again for this long, unless its client has no other.
const BUSY_RECHECK_TIME: Duration = Duration::from_secs(1);

/// Minimum idle time before a client's only connection is evicted.
const MIN_IDLE_TIME: Duration = Duration::from_secs(1);

/// Rejected connections that stay open until the client has read the reason; beyond this the oldest is dropped.
pub const MAX_REJECTED_CONNECTIONS: usize = 64;

/// A spare buffer larger than this is freed.
const MAX_SPARE_BYTES: usize = 256 * 1024;

/// Connections closed at a time because the buffers exceed their limit.
const MAX_EVICTIONS: usize = 16;

/// Connections measured at a time for unacknowledged bytes.
const MAX_MEASUREMENTS: usize = 512;

/// The entry of a connection in the quotas: the key it is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QuotaEntry {
    pub listener: ListenerId,
    /// The client is on this machine.
    pub is_local: bool,
    pub client: ClientId,
    /// The [site](crate::ip::site) of the client's address.
    pub site: IpAddr,
    /// When the connection was last seen active (monotonic). Never later than its real activity, except that a busy
    /// connection is set a while into the future.
    pub last_seen: Duration,
    pub slot: usize,
}

/// A connection to evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub slot: usize,
    /// Its client has no more connections than the newcomer's would have: evict it only if nothing is lost.
    pub is_equal: bool,
}

/// Connections per holder: a client or a site.
#[derive(Debug)]
struct Holders<K> {
    /// Connections of all holders.
    total: usize,
    /// Connections of each holder in order of eviction.
    by_holder: BTreeMap<K, BTreeSet<(Duration, usize)>>,
    /// Holders by number of connections, most first, then by their longest inactive connection.
    by_count: BTreeSet<(Reverse<usize>, Duration, K)>,
}

impl<K> Default for Holders<K> {
    fn default() -> Holders<K> {
        Holders { total: 0, by_holder: BTreeMap::new(), by_count: BTreeSet::new() }
    }
}

/// The connections of one listener.
#[derive(Debug, Default)]
struct ListenerQuota {
    max: usize,
    /// Remote clients, and clients of this machine.
    clients: [Holders<ClientId>; 2],
    /// Sites of remote clients.
    sites: Holders<IpAddr>,
}

/// The connections of all listeners.
#[derive(Debug, Default)]
pub(super) struct ListenerQuotas(Vec<ListenerQuota>);

/// A full quota: its listeners, and whether to evict remote or local clients.
#[derive(Clone, Debug)]
struct Shortage {
    listeners: Range<usize>,
    is_local: &'static [bool],
}

impl<K: Copy + Ord> Holders<K> {
    fn count(&self, holder: K) -> usize {
        self.by_holder.get(&holder).map_or(0, BTreeSet::len)
    }

    /// Returns a holder's first connection to evict.
    fn first_to_evict(&self, holder: K) -> Option<usize> {
        self.by_holder.get(&holder)?.first().map(|(_, slot)| *slot)
    }

    /// Changes the connections of a holder, and updates its rank and the total.
    fn change(&mut self, holder: K, change: impl FnOnce(&mut BTreeSet<(Duration, usize)>)) {
        let connections = self.by_holder.entry(holder).or_default();
        let rank = |connections: &BTreeSet<(Duration, usize)>| {
            connections.first().map(|(last_seen, _)| (Reverse(connections.len()), *last_seen, holder))
        };
        rank(connections).into_iter().for_each(|rank| _ = self.by_count.remove(&rank));
        let before = connections.len();
        change(connections);
        self.total = self.total - before + connections.len();
        match rank(connections) {
            Some(rank) => _ = self.by_count.insert(rank),
            None => _ = self.by_holder.remove(&holder),
        }
    }
}

impl ListenerQuotas {
    /// Sets the maximum number of connections of a listener; 0 by default.
    pub fn set_max(&mut self, listener: ListenerId, max: usize) {
        if self.0.len() <= listener.0 {
            self.0.resize_with(listener.0 + 1, ListenerQuota::default);
        }
        self.0[listener.0].max = max;
    }

    /// Returns whether the listener exists.
    pub fn has(&self, listener: ListenerId) -> bool {
        listener.0 < self.0.len()
    }

    /// Adds a connection.
    pub fn add(&mut self, entry: QuotaEntry) {
        self.change(entry, |connections| _ = connections.insert((entry.last_seen, entry.slot)));
    }

    /// Removes a connection that was added.
    pub fn remove(&mut self, entry: QuotaEntry) {
        self.change(entry, |connections| _ = connections.remove(&(entry.last_seen, entry.slot)));
    }

    fn change(&mut self, entry: QuotaEntry, change: impl Fn(&mut BTreeSet<(Duration, usize)>)) {
        let Some(quota) = self.0.get_mut(entry.listener.0) else { return };
        quota.clients[usize::from(entry.is_local)].change(entry.client, &change);
        if !entry.is_local {
            quota.sites.change(entry.site, &change);
        }
    }

    /// Returns whether a new connection fits, given the maximum of all listeners together.
    pub fn has_capacity(&self, listener: ListenerId, is_local: bool, max_total: usize) -> bool {
        self.shortage(listener, is_local, max_total).is_none()
    }

    fn shortage(&self, listener: ListenerId, is_local: bool, max_total: usize) -> Option<Shortage> {
        let index = listener.0;
        let scopes = [(index..index + 1, self.0.get(index)?.max), (0..self.0.len(), max_total)];
        scopes.into_iter().find_map(|(listeners, max)| {
            let open = |place: usize| self.0[listeners.clone()].iter().map(|quota| quota.clients[place].total).sum();
            let [remote, local]: [usize; 2] = [open(0), open(1)];
            let reserved = (max / RESERVED_PART).min(MAX_RESERVED);
            if !is_local && remote >= max - reserved {
                return Some(Shortage { listeners, is_local: &[false] });
            }
            (remote + local >= max).then_some(Shortage { listeners, is_local: &[false, true] })
        })
    }

    /// Returns the connection to evict for a new one when a quota is full, the first that exists of: one of the client
    /// with the most, if that has at least two more than the newcomer's client; one of the newcomer's client; one of
    /// the site with the most, if that has many more than the newcomer's; one of the client with the most.
    pub fn candidate(
        &self,
        listener: ListenerId,
        is_local: bool,
        (client, site): (ClientId, IpAddr),
        max_total: usize,
    ) -> Option<Candidate> {
        let Shortage { listeners, is_local } = self.shortage(listener, is_local, max_total)?;
        let quotas = || self.0.get(listeners.clone()).into_iter().flatten();
        let clients = || quotas().flat_map(|quota| is_local.iter().map(|local| &quota.clients[usize::from(*local)]));
        let (largest_count, largest_slot) = largest(clients())?;
        let own = clients().max_by_key(|clients| clients.count(client))?;
        if largest_count >= own.count(client) + 2 {
            return Some(Candidate { slot: largest_slot, is_equal: false });
        }
        if let Some(slot) = own.first_to_evict(client) {
            return Some(Candidate { slot, is_equal: true });
        }
        let sites = || quotas().map(|quota| &quota.sites);
        let of_own = sites().map(|sites| sites.count(site)).max().unwrap_or(0);
        Some(match largest(sites()).filter(|(count, _)| *count >= of_own + MIN_SITE_SURPLUS) {
            Some((_, slot)) => Candidate { slot, is_equal: false },
            None => Candidate { slot: largest_slot, is_equal: true },
        })
    }
}

/// Returns the number of connections of the largest holder, and its first to evict.
fn largest<'h, K: Copy + Ord + 'h>(all: impl Iterator<Item = &'h Holders<K>>) -> Option<(usize, usize)> {
    let firsts = all.filter_map(|holders| Some((holders.by_count.first()?, holders)));
    let ((Reverse(count), _, holder), holders) = firsts.min_by_key(|(rank, _)| **rank)?;
    Some((*count, holders.first_to_evict(*holder)?))
}

/// Kernel memory that may be held for a client.
#[derive(Default)]
struct KernelUsage {
    bytes: usize,
    /// Bytes of each connection, whether they are an estimate, and its slot.
    connections: BinaryHeap<(usize, bool, usize)>,
}

impl<S: Socket> Server<S> {
    /// Evicts a connection if a quota is full: the longest idle one of the client with the most, a busy one only if
    /// that client has no other. Returns whether a new connection fits.
    pub(super) fn evict_for(&mut self, listener: ListenerId, is_local: bool, newcomer: (ClientId, IpAddr)) -> bool {
        let (now, max) = (self.time.monotonic, self.limits.connections);
        let mut idlest = None;
        for check in 1..=MAX_EVICTION_CHECKS {
            let Some(Candidate { slot, is_equal }) = self.quotas.candidate(listener, is_local, newcomer, max) else {
                break;
            };
            let Some(connection) = self.slab.get_mut(slot) else { break };
            let Some(entry) = connection.quota_entry else { break };
            self.stats.eviction_checks += 1;
            connection.measure_unsent();
            let (idle_time, is_busy) = (now.saturating_sub(connection.last_active), connection.is_busy());
            let loses_nothing = !connection.is_websocket && !is_busy;
            let is_kept = is_equal && (!loses_nothing || entry.client != newcomer.0 && idle_time < MIN_IDLE_TIME);
            if !is_busy && !is_kept {
                idlest = idlest.max(Some((idle_time, slot)));
            }
            let is_skipped = is_busy || is_kept;
            let last_seen = if is_skipped { now + BUSY_RECHECK_TIME } else { now.saturating_sub(idle_time) };
            if last_seen > entry.last_seen && entry.last_seen <= now && check < MAX_EVICTION_CHECKS {
                self.set_quota_entry(slot, Some(QuotaEntry { last_seen, ..entry }));
                continue;
            }
            if let Some(slot) = idlest.map(|(_, slot)| slot).or_else(|| (!is_equal).then_some(slot)) {
                self.stats.evicted += 1;
                self.remove(slot);
            }
            break;
        }
        self.quotas.has_capacity(listener, is_local, max)
    }

    /// Replaces the entry of a connection in the quotas.
    pub(super) fn set_quota_entry(&mut self, slot: usize, entry: Option<QuotaEntry>) {
        let Some(connection) = self.slab.get_mut(slot) else { return };
        let before = std::mem::replace(&mut connection.quota_entry, entry);
        before.into_iter().for_each(|before| self.quotas.remove(before));
        entry.into_iter().for_each(|entry| self.quotas.add(entry));
    }

    /// Counts a rejected connection, and drops the oldest ones while there are too many.
    pub(super) fn note_rejected(&mut self, id: ConnectionId) {
        self.stats.rejected += 1;
        while self.rejected.len() >= MAX_REJECTED_CONNECTIONS
            && let Some(oldest) = self.rejected.pop_front()
        {
            if self.connection(oldest).is_some() {
                self.remove(oldest.slot());
            }
        }
        self.rejected.push_back(id);
    }

    /// Counts a connection as remote whose proxy is on this machine but whose client is not, evicting another if
    /// needed, or rejects it.
    fn recheck_quota(&mut self, slot: usize) {
        let Some(connection) = self.slab.get_mut(slot) else { return };
        let (id, is_due) = (connection.id, std::mem::take(&mut connection.needs_quota_check));
        let Some(entry) = connection.quota_entry.filter(|entry| is_due && !entry.is_local) else { return };
        self.set_quota_entry(slot, None);
        if self.evict_for(entry.listener, false, (entry.client, entry.site)) {
            return self.set_quota_entry(slot, Some(entry));
        }
        self.note_rejected(id);
        match self.open_websocket(id).is_some() {
            true => self.close(id, 1013, ""),
            false => self.reject(slot, HttpError::Overloaded),
        }
    }

    /// Returns lent buffers, updates the usage, and evicts while too much is held.
    pub(super) fn update_usage(&mut self, slot: usize) {
        if let Some(connection) = self.slab.get_mut(slot) {
            connection.output.release(&mut self.spare_output);
            trim(&mut self.spare_output);
        }
        self.recheck_quota(slot);
        if let Some(connection) = self.slab.get(slot) {
            let held = connection.input.as_ref().map_or(0, Input::held_bytes) + connection.output.held_bytes();
            self.set_held_bytes(slot, held);
        }
        self.evict_kernel_excess();
        for _ in 0..MAX_EVICTIONS {
            let Some(excess) = self.largest_excess(slot) else { return };
            self.evict(excess);
        }
    }

    /// Sets the bytes held in buffers for a connection, and updates those held by the kernel.
    fn set_held_bytes(&mut self, slot: usize, held: usize) {
        let Some(connection) = self.slab.get_mut(slot) else { return };
        let before = std::mem::replace(&mut connection.counted_bytes, held);
        self.stats.buffered_bytes = self.stats.buffered_bytes.saturating_add(held);
        subtract(&mut self.stats.buffered_bytes, before);
        update_kernel_bytes(connection, &mut self.stats);
        self.clients.update_held_bytes(connection.client_id, before, held);
    }

    /// Returns the connection to close because too much is buffered: the largest of the largest client if the total is
    /// exceeded, or else the largest of the client of `slot` if that exceeds its limit and is no proxy.
    fn largest_excess(&self, slot: usize) -> Option<usize> {
        let exceeds = |own: &&Connection<S>| {
            self.clients.exceeds_held_bytes(own.client_id) && !self.trusted_proxies.is_trusted(own.peer)
        };
        let largest_client = match self.slab.get(slot).filter(exceeds) {
            _ if self.stats.buffered_bytes > self.limits.buffered_bytes => self.clients.largest()?,
            own => own?.client_id,
        };
        let candidates = self.slab.iter().filter(|(_, connection)| connection.client_id == largest_client);
        let largest = candidates.max_by_key(|(_, connection)| connection.counted_bytes);
        largest.filter(|(_, connection)| connection.counted_bytes > 0).map(|(slot, _)| slot)
    }

    /// Closes a connection whose client holds too much.
    fn evict(&mut self, slot: usize) {
        let Some(connection) = self.slab.get(slot) else { return };
        log::info!("{:?}: closed: the memory for buffers is exhausted, and its client holds the most", connection.id);
        if connection.is_websocket || connection.closing != Closing::Open || !connection.output.is_empty() {
            return self.remove(slot);
        }
        self.reject(slot, HttpError::Overloaded);
        let held = self.slab.get(slot).map_or(0, |connection| connection.output.held_bytes());
        self.set_held_bytes(slot, held);
    }

    /// Drops the websocket with the most shared bytes pending if there are too many.
    pub(super) fn limit_shared_bytes(&mut self) {
        if self.shared_bytes.held_bytes() <= self.limits.shared_bytes {
            return;
        }
        let waiting = self.slab.iter().filter(|(_, connection)| connection.is_open_websocket());
        let slowest = waiting.max_by_key(|(_, connection)| connection.output.shared_pending());
        let slowest = slowest.filter(|(_, connection)| connection.output.shared_pending() > 0);
        if let Some(id) = slowest.map(|(_, connection)| connection.id) {
            self.drop_slow(id, "the memory for queued messages is exhausted");
        }
    }

    /// Measures the received bytes that were not read, for all connections.
    pub(super) fn measure_unread(&mut self) {
        for (_, connection) in &mut self.slab {
            connection.measure_unread();
            update_kernel_bytes(connection, &mut self.stats);
        }
    }

    /// Measures unacknowledged bytes of some connections, round-robin: with `is_for_all` of any that may have some, or
    /// else of those written to since the last measurement. Returns whether all were measured.
    pub(super) fn measure_unsent(&mut self, is_for_all: bool) -> bool {
        let (slots, mut measured) = (self.slab.capacity(), 0);
        for slot in (self.next_measured..slots).chain(0..self.next_measured.min(slots)) {
            let is_due = |connection: &&mut Connection<S>| {
                connection.has_unsent() && (is_for_all || connection.is_unsent_estimated)
            };
            let Some(connection) = self.slab.get_mut(slot).filter(is_due) else { continue };
            if measured == MAX_MEASUREMENTS {
                self.next_measured = slot;
                return false;
            }
            measured += 1;
            let is_draining = connection.is_draining();
            connection.measure_unsent();
            update_kernel_bytes(connection, &mut self.stats);
            if is_draining && !connection.has_unsent() {
                self.mark_dirty(slot);
            }
        }
        true
    }

    /// Closes connections if the kernel holds too much.
    pub(super) fn evict_kernel_excess(&mut self) {
        if self.stats.kernel_bytes <= self.limits.kernel_bytes {
            return;
        }
        // The count is an upper bound; measure before closing anything.
        let all_are_known = self.measure_unsent(false);
        if !all_are_known || self.stats.kernel_bytes <= self.limits.kernel_bytes {
            return;
        }
        let excess = self.kernel_evictions();
        if !excess.is_empty() {
            log::info!("{} connections closed: the kernel held too much that clients did not receive", excess.len());
        }
        self.stats.kernel_evicted += excess.len() as u64;
        excess.into_iter().for_each(|slot| self.remove(slot));
    }

    /// Returns the connections to close because the kernel holds too much: the largest of the largest clients, until a
    /// quarter is free. Each is measured first; at most `MAX_MEASUREMENTS` per call.
    fn kernel_evictions(&mut self) -> Vec<usize> {
        let mut by_client: HashMap<ClientId, KernelUsage> = HashMap::new();
        for (slot, connection) in &mut self.slab {
            update_kernel_bytes(connection, &mut self.stats);
            let bytes = connection.kernel_bytes();
            if bytes > 0 {
                let held = by_client.entry(connection.client_id).or_default();
                held.bytes += bytes;
                held.connections.push((bytes, true, slot));
            }
        }
        let mut clients: BinaryHeap<_> = by_client.iter().map(|(client, held)| (held.bytes, *client)).collect();
        let (mut excess, mut measured, mut held) = (Vec::new(), 0, self.stats.kernel_bytes);
        while held > self.limits.kernel_bytes / 4 * 3
            && measured < MAX_MEASUREMENTS
            && let Some((sum, client)) = clients.pop()
            && let Some(KernelUsage { connections, .. }) = by_client.get_mut(&client)
            && let Some((bytes, is_estimate, slot)) = connections.pop()
            && let Some(connection) = self.slab.get_mut(slot)
        {
            let mut left = 0;
            if is_estimate {
                measured += 1;
                connection.measure_unsent();
                connection.measure_unread();
                update_kernel_bytes(connection, &mut self.stats);
                left = connection.kernel_bytes();
                connections.push((left, false, slot));
            } else {
                excess.push(slot);
            }
            let change = |all: usize| all.saturating_sub(bytes).saturating_add(left);
            held = change(held);
            clients.push((change(sum), client));
        }
        excess
    }
}

/// Updates the kernel memory of a connection in the total.
fn update_kernel_bytes<S: Socket>(connection: &mut Connection<S>, stats: &mut Stats) {
    let held = connection.kernel_bytes();
    let before = std::mem::replace(&mut connection.counted_kernel_bytes, held);
    stats.kernel_bytes = stats.kernel_bytes.saturating_add(held);
    subtract(&mut stats.kernel_bytes, before);
}

/// Frees a spare buffer that became unusually large.
pub(super) fn trim(spare: &mut Vec<u8>) {
    if spare.capacity() > MAX_SPARE_BYTES {
        *spare = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::site;

    const HTTP: ListenerId = ListenerId(0);
    const OTHER: ListenerId = ListenerId(1);
    const PLENTY: usize = 1000;

    fn place(client: ClientId, seen: u64, slot: usize) -> QuotaEntry {
        let seen = Duration::from_secs(seen);
        QuotaEntry { listener: HTTP, is_local: false, client, site: site_of(client), last_seen: seen, slot }
    }

    /// Returns a separate site for each client below 100, and one for all others.
    fn site_of(client: ClientId) -> IpAddr {
        site([10, 0, client.min(100) as u8, client as u8].into())
    }

    fn quotas(most: usize, places: &[QuotaEntry]) -> ListenerQuotas {
        let mut quotas = ListenerQuotas::default();
        quotas.set_max(HTTP, most);
        quotas.set_max(OTHER, most);
        places.iter().for_each(|place| quotas.add(*place));
        quotas
    }

    #[test]
    fn the_eviction_candidate_is_the_longest_idle_connection_of_the_largest_client() {
        let places = [place(1, 5, 10), place(1, 9, 11), place(2, 4, 12), place(2, 8, 13), place(3, 1, 14)];
        let mut quotas = quotas(5, &places);
        let of = |quotas: &ListenerQuotas, client| quotas.candidate(HTTP, false, (client, site_of(client)), PLENTY);
        assert_eq!(of(&quotas, 9), Some(Candidate { slot: 12, is_equal: false }));
        assert_eq!(of(&quotas, 3), Some(Candidate { slot: 14, is_equal: true }), "its own");
        quotas.remove(places[2]);
        quotas.add(place(2, 7, 12));
        assert_eq!(of(&quotas, 9).map(|candidate| candidate.slot), Some(10));
        quotas.remove(places[4]);
        assert!(of(&quotas, 9).is_none() && quotas.has_capacity(HTTP, false, PLENTY));
        assert!(!quotas.has_capacity(HTTP, false, 4), "all listeners together have fewer");
        let in_all = quotas.candidate(OTHER, false, (9, site_of(9)), 4).map(|candidate| candidate.slot);
        assert_eq!(in_all, Some(10), "where all are short, it may be another listener's");
    }

    #[test]
    fn reserved_capacity_is_for_local_clients_and_removal_leaves_no_state() {
        let local = QuotaEntry { is_local: true, ..place(1, 3, 50) };
        let others: Vec<QuotaEntry> = (0..30).map(|slot| place(slot, 1, slot)).collect();
        let mut quotas = quotas(32, &others);
        assert!(!quotas.has_capacity(HTTP, false, PLENTY) && quotas.has_capacity(HTTP, true, PLENTY));
        quotas.add(local);
        quotas.add(QuotaEntry { slot: 51, ..local });
        assert!(!quotas.has_capacity(HTTP, true, PLENTY));
        let newcomer = |is_local| {
            let candidate = quotas.candidate(HTTP, is_local, (99, site_of(99)), PLENTY);
            candidate.map(|candidate| candidate.slot >= 50)
        };
        assert_eq!((newcomer(true), newcomer(false)), (Some(true), Some(false)));
        others.iter().chain(&[local, QuotaEntry { slot: 51, ..local }]).for_each(|place| quotas.remove(*place));
        fn is_empty<K>(holders: &Holders<K>) -> bool {
            holders.by_count.is_empty() && holders.by_holder.is_empty()
        }
        assert!(quotas.0.iter().all(|quota| quota.clients.iter().all(is_empty) && is_empty(&quota.sites)));
    }

    #[test]
    fn a_much_larger_network_is_evicted_if_clients_have_equal_usage() {
        let places = |crowd: usize| -> Vec<QuotaEntry> {
            let others = (0..30 - crowd).map(|client| place(client, 1, client));
            others.chain((0..crowd).map(|number| place(100 + number, 5, 100 + number))).collect()
        };
        let of = |crowd, client| quotas(32, &places(crowd)).candidate(HTTP, false, (client, site_of(client)), PLENTY);
        let crowded = Candidate { slot: 100, is_equal: false };
        assert_eq!(of(16, 50), Some(crowded), "sixteen more than none");
        assert_eq!(of(16, 3), Some(Candidate { slot: 3, is_equal: true }), "who has one gives up that");
        let idlest = Some(Candidate { slot: 0, is_equal: true });
        assert_eq!((of(15, 50), of(20, 130)), (idlest, idlest), "not many more, or the newcomer's own");
    }
}
