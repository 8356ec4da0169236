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
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
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
    pub entry: QuotaEntry,
    /// Its client has no more connections than the newcomer's would have: evict it only if nothing is lost.
    pub is_equal: bool,
}

/// Connections per holder: a client or a site.
#[derive(Debug)]
struct Holders<K> {
    counts: HashMap<K, usize>,
    /// Holders by number of connections, most first, then by their longest inactive connection.
    by_count: BTreeSet<(Reverse<usize>, Duration, K)>,
    /// Connections of each holder in order of eviction.
    entries: BTreeMap<(K, Duration, usize), QuotaEntry>,
}

impl<K> Default for Holders<K> {
    fn default() -> Holders<K> {
        Holders { counts: HashMap::new(), by_count: BTreeSet::new(), entries: BTreeMap::new() }
    }
}

/// The connections of one listener.
#[derive(Debug, Default)]
struct ListenerQuota {
    max: usize,
    /// Remote clients, and clients of this machine.
    holders: [Holders<ClientId>; 2],
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

impl<K: Copy + Ord + Hash> Holders<K> {
    fn of(&self, holder: K) -> usize {
        self.counts.get(&holder).copied().unwrap_or(0)
    }

    /// Returns a holder's first connection to evict.
    fn first_to_evict(&self, holder: K) -> Option<QuotaEntry> {
        let first = self.entries.range((holder, Duration::ZERO, 0)..=(holder, Duration::MAX, usize::MAX)).next();
        first.map(|(_, place)| *place)
    }

    /// Changes the connections of a holder and updates its rank.
    fn change(&mut self, holder: K, change: impl FnOnce(&mut BTreeMap<(K, Duration, usize), QuotaEntry>) -> isize) {
        let before = self.first_to_evict(holder).map(|place| (Reverse(self.of(holder)), place.last_seen, holder));
        before.into_iter().for_each(|rank| _ = self.by_count.remove(&rank));
        let count = self.of(holder).saturating_add_signed(change(&mut self.entries));
        match self.first_to_evict(holder) {
            Some(place) => {
                self.counts.insert(holder, count);
                self.by_count.insert((Reverse(count), place.last_seen, holder));
            }
            None => _ = self.counts.remove(&holder),
        }
    }

    fn add(&mut self, holder: K, place: QuotaEntry) {
        let entry = (holder, place.last_seen, place.slot);
        self.change(holder, |places| isize::from(places.insert(entry, place).is_none()));
    }

    fn remove(&mut self, holder: K, place: QuotaEntry) {
        let entry = (holder, place.last_seen, place.slot);
        self.change(holder, |places| -isize::from(places.remove(&entry).is_some()));
    }
}

impl ListenerQuota {
    fn add(&mut self, place: QuotaEntry) {
        self.holders[usize::from(place.is_local)].add(place.client, place);
        if !place.is_local {
            self.sites.add(place.site, place);
        }
    }

    fn remove(&mut self, place: QuotaEntry) {
        self.holders[usize::from(place.is_local)].remove(place.client, place);
        if !place.is_local {
            self.sites.remove(place.site, place);
        }
    }

    fn open(&self, is_local: bool) -> usize {
        self.holders[usize::from(is_local)].entries.len()
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
    pub fn add(&mut self, place: QuotaEntry) {
        let quota = self.0.get_mut(place.listener.0);
        quota.into_iter().for_each(|quota| quota.add(place));
    }

    /// Removes a connection.
    pub fn remove(&mut self, place: QuotaEntry) {
        let quota = self.0.get_mut(place.listener.0);
        quota.into_iter().for_each(|quota| quota.remove(place));
    }

    /// Returns whether a new connection fits, given the maximum of all listeners together.
    pub fn has_capacity(&self, listener: ListenerId, is_local: bool, max_total: usize) -> bool {
        self.shortage(listener, is_local, max_total).is_none()
    }

    fn shortage(&self, listener: ListenerId, is_local: bool, max_total: usize) -> Option<Shortage> {
        let index = listener.0;
        let own = self.0.get(index)?;
        let all = |is_local| self.0.iter().map(|quota| quota.open(is_local)).sum::<usize>();
        let scopes = [
            (index..index + 1, own.max, [own.open(false), own.open(true)]),
            (0..self.0.len(), max_total, [all(false), all(true)]),
        ];
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
        let holders = || quotas().flat_map(|quota| is_local.iter().map(|local| &quota.holders[usize::from(*local)]));
        let (Reverse(largest_count), place) = largest(holders())?;
        let own = holders().max_by_key(|holders| holders.of(client))?;
        if largest_count >= own.of(client) + 2 {
            return Some(Candidate { entry: place, is_equal: false });
        }
        if let Some(place) = own.first_to_evict(client) {
            return Some(Candidate { entry: place, is_equal: true });
        }
        let sites = || quotas().map(|quota| &quota.sites);
        let of_own = sites().map(|sites| sites.of(site)).max().unwrap_or(0);
        let largest_site = largest(sites()).filter(|(Reverse(most), _)| *most >= of_own + MIN_SITE_SURPLUS);
        Some(largest_site.map_or(Candidate { entry: place, is_equal: true }, |(_, place)| Candidate {
            entry: place,
            is_equal: false,
        }))
    }
}

/// Returns the number of connections of the largest holder, and its first to evict.
fn largest<'h, K: Copy + Ord + Hash + 'h>(
    all: impl Iterator<Item = &'h Holders<K>>,
) -> Option<(Reverse<usize>, QuotaEntry)> {
    let firsts = all.filter_map(|holders| Some((holders.by_count.first()?, holders)));
    let ((most, _, holder), holders) = firsts.min_by_key(|(rank, _)| **rank)?;
    Some((*most, holders.first_to_evict(*holder)?))
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
        assert_eq!(of(&quotas, 9), Some(Candidate { entry: places[2], is_equal: false }));
        assert_eq!(of(&quotas, 3), Some(Candidate { entry: places[4], is_equal: true }), "its own");
        quotas.remove(places[2]);
        quotas.add(place(2, 7, 12));
        assert_eq!(of(&quotas, 9).map(|candidate| candidate.entry), Some(places[0]));
        quotas.remove(places[4]);
        assert!(of(&quotas, 9).is_none() && quotas.has_capacity(HTTP, false, PLENTY));
        assert!(!quotas.has_capacity(HTTP, false, 4), "all listeners together have fewer");
        let in_all = quotas.candidate(OTHER, false, (9, site_of(9)), 4).map(|candidate| candidate.entry);
        assert_eq!(in_all, Some(places[0]), "where all are short, it may be another listener's");
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
            candidate.map(|candidate| candidate.entry.is_local)
        };
        assert_eq!((newcomer(true), newcomer(false)), (Some(true), Some(false)));
        others.iter().chain(&[local, QuotaEntry { slot: 51, ..local }]).for_each(|place| quotas.remove(*place));
        fn is_empty<K>(holders: &Holders<K>) -> bool {
            holders.counts.is_empty() && holders.by_count.is_empty() && holders.entries.is_empty()
        }
        assert!(quotas.0.iter().all(|quota| quota.holders.iter().all(is_empty) && is_empty(&quota.sites)));
    }

    #[test]
    fn a_much_larger_network_is_evicted_if_clients_have_equal_usage() {
        let places = |crowd: usize| -> Vec<QuotaEntry> {
            let others = (0..30 - crowd).map(|client| place(client, 1, client));
            others.chain((0..crowd).map(|number| place(100 + number, 5, 100 + number))).collect()
        };
        let of = |crowd, client| quotas(32, &places(crowd)).candidate(HTTP, false, (client, site_of(client)), PLENTY);
        let crowded = Candidate { entry: place(100, 5, 100), is_equal: false };
        assert_eq!(of(16, 50), Some(crowded), "sixteen more than none");
        assert_eq!(of(16, 3), Some(Candidate { entry: place(3, 1, 3), is_equal: true }), "who has one gives up that");
        let idlest = Some(Candidate { entry: place(0, 1, 0), is_equal: true });
        assert_eq!((of(15, 50), of(20, 130)), (idlest, idlest), "not many more, or the newcomer's own");
    }
}
