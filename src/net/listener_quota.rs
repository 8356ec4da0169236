//! Quotas of connections per listener, and the choice of the connection to evict when one is full.
//!
//! Each listener has a maximum of connections, and so have all together; a part is reserved for clients of this
//! machine. Connections are ordered by the time they were last seen active. Activity is not recorded as it happens: an
//! eviction candidate is checked, and reinserted if it was active since. A check costs a few steps in a tree and is
//! amortised by the activity since the last one.
//!
//! If all clients have equally many connections, as an attacker with many addresses can arrange, a connection is
//! evicted from the site that has many more than the newcomer's.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

use super::client_table::ClientId;
use super::service::ListenerId;

/// The reserved part for clients of this machine is the maximum divided by this, at most [`MAX_RESERVED`].
const RESERVED_PART: usize = 16;
const MAX_RESERVED: usize = 64;

/// A site is evicted from if it has at least this many more connections than the newcomer's site.
const MIN_SITE_SURPLUS: usize = 16;

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
    /// Connections of each holder in order of eviction.
    by_holder: BTreeMap<K, BTreeSet<(Duration, usize)>>,
    /// Holders by number of connections, most first, then by their longest inactive connection.
    by_count: BTreeSet<(Reverse<usize>, Duration, K)>,
}

impl<K> Default for Holders<K> {
    fn default() -> Holders<K> {
        Holders { by_holder: BTreeMap::new(), by_count: BTreeSet::new() }
    }
}

/// The connections of one listener.
#[derive(Debug, Default)]
struct ListenerQuota {
    max: usize,
    /// Connections of remote clients, and of clients of this machine.
    open: [usize; 2],
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

    /// Changes the connections of a holder and updates its rank.
    fn change(&mut self, holder: K, change: impl FnOnce(&mut BTreeSet<(Duration, usize)>)) {
        let connections = self.by_holder.entry(holder).or_default();
        let rank = |connections: &BTreeSet<(Duration, usize)>| {
            connections.first().map(|(last_seen, _)| (Reverse(connections.len()), *last_seen, holder))
        };
        rank(connections).into_iter().for_each(|rank| _ = self.by_count.remove(&rank));
        change(connections);
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
        self.change(entry, |open| open + 1, |connections| _ = connections.insert((entry.last_seen, entry.slot)));
    }

    /// Removes a connection that was added.
    pub fn remove(&mut self, entry: QuotaEntry) {
        self.change(entry, |open| open - 1, |connections| _ = connections.remove(&(entry.last_seen, entry.slot)));
    }

    fn change(
        &mut self,
        entry: QuotaEntry,
        count: impl Fn(usize) -> usize,
        change: impl Fn(&mut BTreeSet<(Duration, usize)>),
    ) {
        let Some(quota) = self.0.get_mut(entry.listener.0) else { return };
        let place = usize::from(entry.is_local);
        quota.open[place] = count(quota.open[place]);
        quota.clients[place].change(entry.client, &change);
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
        let own = self.0.get(index)?;
        let total = |place: usize| self.0.iter().map(|quota| quota.open[place]).sum::<usize>();
        let scopes = [(index..index + 1, own.max, own.open), (0..self.0.len(), max_total, [total(0), total(1)])];
        scopes.into_iter().find_map(|(listeners, max, [remote, local])| {
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
