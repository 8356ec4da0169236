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

use super::callers::AccountId;
use super::machine::ListenerId;

/// The reserved part for clients of this machine is the maximum divided by this, at most [`MAX_RESERVED`].
const RESERVED_PART: usize = 16;
const MAX_RESERVED: usize = 64;

/// A site is evicted from if it has at least this many more connections than the newcomer's site.
const MANY_OF_SITE: usize = 16;

/// The entry of a connection in the quotas: the key it is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub listener: ListenerId,
    /// The client is on this machine.
    pub is_local: bool,
    pub client: AccountId,
    /// The [site](crate::ip::site) of the client's address.
    pub site: IpAddr,
    /// When the connection was last seen active (monotonic). Never later than its real activity, except that a busy
    /// connection is set a while into the future.
    pub seen: Duration,
    pub slot: usize,
}

/// A connection to evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub place: Place,
    /// Its client has no more connections than the newcomer's would have: evict it only if nothing is lost.
    pub is_equal: bool,
}

/// Connections per holder: a client or a site.
#[derive(Debug)]
struct Holders<K> {
    counts: HashMap<K, usize>,
    /// Holders by number of connections, most first, then by their longest inactive connection.
    ranks: BTreeSet<(Reverse<usize>, Duration, K)>,
    /// Connections of each holder in order of eviction.
    places: BTreeMap<(K, Duration, usize), Place>,
}

impl<K> Default for Holders<K> {
    fn default() -> Holders<K> {
        Holders { counts: HashMap::new(), ranks: BTreeSet::new(), places: BTreeMap::new() }
    }
}

/// The connections of one listener.
#[derive(Debug, Default)]
struct ListenerQuota {
    most: usize,
    /// Remote clients, and clients of this machine.
    holders: [Holders<AccountId>; 2],
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
    fn first_of(&self, holder: K) -> Option<Place> {
        let first = self.places.range((holder, Duration::ZERO, 0)..=(holder, Duration::MAX, usize::MAX)).next();
        first.map(|(_, place)| *place)
    }

    /// Changes the connections of a holder and updates its rank.
    fn change(&mut self, holder: K, change: impl FnOnce(&mut BTreeMap<(K, Duration, usize), Place>) -> isize) {
        let before = self.first_of(holder).map(|place| (Reverse(self.of(holder)), place.seen, holder));
        before.into_iter().for_each(|rank| _ = self.ranks.remove(&rank));
        let count = self.of(holder).saturating_add_signed(change(&mut self.places));
        match self.first_of(holder) {
            Some(place) => {
                self.counts.insert(holder, count);
                self.ranks.insert((Reverse(count), place.seen, holder));
            }
            None => _ = self.counts.remove(&holder),
        }
    }

    fn add(&mut self, holder: K, place: Place) {
        let entry = (holder, place.seen, place.slot);
        self.change(holder, |places| isize::from(places.insert(entry, place).is_none()));
    }

    fn remove(&mut self, holder: K, place: Place) {
        let entry = (holder, place.seen, place.slot);
        self.change(holder, |places| -isize::from(places.remove(&entry).is_some()));
    }
}

impl ListenerQuota {
    fn add(&mut self, place: Place) {
        self.holders[usize::from(place.is_local)].add(place.client, place);
        if !place.is_local {
            self.sites.add(place.site, place);
        }
    }

    fn remove(&mut self, place: Place) {
        self.holders[usize::from(place.is_local)].remove(place.client, place);
        if !place.is_local {
            self.sites.remove(place.site, place);
        }
    }

    fn open(&self, is_local: bool) -> usize {
        self.holders[usize::from(is_local)].places.len()
    }
}

impl ListenerQuotas {
    /// Sets the maximum number of connections of a listener; 0 by default.
    pub fn set_max(&mut self, listener: ListenerId, most: usize) {
        if self.0.len() <= listener.0 {
            self.0.resize_with(listener.0 + 1, ListenerQuota::default);
        }
        self.0[listener.0].most = most;
    }

    /// Returns whether the listener exists.
    pub fn has(&self, listener: ListenerId) -> bool {
        listener.0 < self.0.len()
    }

    /// Adds a connection.
    pub fn add(&mut self, place: Place) {
        let quota = self.0.get_mut(place.listener.0);
        quota.into_iter().for_each(|quota| quota.add(place));
    }

    /// Removes a connection.
    pub fn remove(&mut self, place: Place) {
        let quota = self.0.get_mut(place.listener.0);
        quota.into_iter().for_each(|quota| quota.remove(place));
    }

    /// Returns whether a new connection fits, given the maximum of all listeners together.
    pub fn has_room(&self, listener: ListenerId, is_local: bool, most_of_all: usize) -> bool {
        self.shortage(listener, is_local, most_of_all).is_none()
    }

    fn shortage(&self, listener: ListenerId, is_local: bool, most_of_all: usize) -> Option<Shortage> {
        let index = listener.0;
        let own = self.0.get(index)?;
        let all = |is_local| self.0.iter().map(|quota| quota.open(is_local)).sum::<usize>();
        let scopes = [
            (index..index + 1, own.most, [own.open(false), own.open(true)]),
            (0..self.0.len(), most_of_all, [all(false), all(true)]),
        ];
        scopes.into_iter().find_map(|(listeners, most, [others, local])| {
            let reserved = (most / RESERVED_PART).min(MAX_RESERVED);
            if !is_local && others >= most - reserved {
                return Some(Shortage { listeners, is_local: &[false] });
            }
            (others + local >= most).then_some(Shortage { listeners, is_local: &[false, true] })
        })
    }

    /// Returns the connection to evict for a new one when a quota is full, the first that exists of: one of the client
    /// with the most, if that has at least two more than the newcomer's client; one of the newcomer's client; one of
    /// the site with the most, if that has many more than the newcomer's; one of the client with the most.
    pub fn candidate(
        &self,
        listener: ListenerId,
        is_local: bool,
        (client, site): (AccountId, IpAddr),
        most_of_all: usize,
    ) -> Option<Candidate> {
        let Shortage { listeners, is_local } = self.shortage(listener, is_local, most_of_all)?;
        let quotas = || self.0.get(listeners.clone()).into_iter().flatten();
        let holders = || quotas().flat_map(|quota| is_local.iter().map(|local| &quota.holders[usize::from(*local)]));
        let (Reverse(most), place) = largest(holders())?;
        let own = holders().max_by_key(|holders| holders.of(client))?;
        if most >= own.of(client) + 2 {
            return Some(Candidate { place, is_equal: false });
        }
        if let Some(place) = own.first_of(client) {
            return Some(Candidate { place, is_equal: true });
        }
        let sites = || quotas().map(|quota| &quota.sites);
        let of_own = sites().map(|sites| sites.of(site)).max().unwrap_or(0);
        let crowd = largest(sites()).filter(|(Reverse(most), _)| *most >= of_own + MANY_OF_SITE);
        Some(crowd.map_or(Candidate { place, is_equal: true }, |(_, place)| Candidate { place, is_equal: false }))
    }
}

/// Returns the number of connections of the largest holder, and its first to evict.
fn largest<'h, K: Copy + Ord + Hash + 'h>(
    all: impl Iterator<Item = &'h Holders<K>>,
) -> Option<(Reverse<usize>, Place)> {
    let firsts = all.filter_map(|holders| Some((holders.ranks.first()?, holders)));
    let ((most, _, holder), holders) = firsts.min_by_key(|(rank, _)| **rank)?;
    Some((*most, holders.first_of(*holder)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::site;

    const HTTP: ListenerId = ListenerId(0);
    const OTHER: ListenerId = ListenerId(1);
    const PLENTY: usize = 1000;

    fn place(client: AccountId, seen: u64, slot: usize) -> Place {
        let seen = Duration::from_secs(seen);
        Place { listener: HTTP, is_local: false, client, site: site_of(client), seen, slot }
    }

    /// Returns a separate site for each client below 100, and one for all others.
    fn site_of(client: AccountId) -> IpAddr {
        site([10, 0, client.min(100) as u8, client as u8].into())
    }

    fn quotas(most: usize, places: &[Place]) -> ListenerQuotas {
        let mut quotas = ListenerQuotas::default();
        quotas.set_max(HTTP, most);
        quotas.set_max(OTHER, most);
        places.iter().for_each(|place| quotas.add(*place));
        quotas
    }

    #[test]
    fn who_has_most_gives_way_and_of_equals_who_did_nothing_for_longest() {
        let places = [place(1, 5, 10), place(1, 9, 11), place(2, 4, 12), place(2, 8, 13), place(3, 1, 14)];
        let mut quotas = quotas(5, &places);
        let of = |quotas: &ListenerQuotas, client| quotas.candidate(HTTP, false, (client, site_of(client)), PLENTY);
        assert_eq!(of(&quotas, 9), Some(Candidate { place: places[2], is_equal: false }));
        assert_eq!(of(&quotas, 3), Some(Candidate { place: places[4], is_equal: true }), "its own");
        quotas.remove(places[2]);
        quotas.add(place(2, 7, 12));
        assert_eq!(of(&quotas, 9).map(|candidate| candidate.place), Some(places[0]));
        quotas.remove(places[4]);
        assert!(of(&quotas, 9).is_none() && quotas.has_room(HTTP, false, PLENTY));
        assert!(!quotas.has_room(HTTP, false, 4), "all listeners together have fewer");
        let in_all = quotas.candidate(OTHER, false, (9, site_of(9)), 4).map(|candidate| candidate.place);
        assert_eq!(in_all, Some(places[0]), "where all are short, it may be another listener's");
    }

    #[test]
    fn reserved_places_are_for_this_machine_and_what_is_given_back_leaves_nothing() {
        let local = Place { is_local: true, ..place(1, 3, 50) };
        let others: Vec<Place> = (0..30).map(|slot| place(slot, 1, slot)).collect();
        let mut quotas = quotas(32, &others);
        assert!(!quotas.has_room(HTTP, false, PLENTY) && quotas.has_room(HTTP, true, PLENTY));
        quotas.add(local);
        quotas.add(Place { slot: 51, ..local });
        assert!(!quotas.has_room(HTTP, true, PLENTY));
        let newcomer = |is_local| {
            let candidate = quotas.candidate(HTTP, is_local, (99, site_of(99)), PLENTY);
            candidate.map(|candidate| candidate.place.is_local)
        };
        assert_eq!((newcomer(true), newcomer(false)), (Some(true), Some(false)));
        others.iter().chain(&[local, Place { slot: 51, ..local }]).for_each(|place| quotas.remove(*place));
        fn is_empty<K>(holders: &Holders<K>) -> bool {
            holders.counts.is_empty() && holders.ranks.is_empty() && holders.places.is_empty()
        }
        assert!(quotas.0.iter().all(|quota| quota.holders.iter().all(is_empty) && is_empty(&quota.sites)));
    }

    #[test]
    fn where_no_client_has_more_than_another_the_site_with_many_more_gives_way() {
        let places = |crowd: usize| -> Vec<Place> {
            let others = (0..30 - crowd).map(|client| place(client, 1, client));
            others.chain((0..crowd).map(|number| place(100 + number, 5, 100 + number))).collect()
        };
        let of = |crowd, client| quotas(32, &places(crowd)).candidate(HTTP, false, (client, site_of(client)), PLENTY);
        let crowded = Candidate { place: place(100, 5, 100), is_equal: false };
        assert_eq!(of(16, 50), Some(crowded), "sixteen more than none");
        assert_eq!(of(16, 3), Some(Candidate { place: place(3, 1, 3), is_equal: true }), "who has one gives up that");
        let idlest = Some(Candidate { place: place(0, 1, 0), is_equal: true });
        assert_eq!((of(15, 50), of(20, 130)), (idlest, idlest), "not many more, or the newcomer's own");
    }
}
