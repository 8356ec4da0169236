//! Places of connections: who has them, and who gives way to a newcomer when they are short.
//!
//! Each listener has so many places, and so have all of them together; some are for clients of this machine only. A
//! connection is put in order by when it was last seen to do something. What it does is not noted each time: when it is
//! its turn to give way it is looked at, and put back if it was busy since. A look costs a few steps in a tree of all
//! connections of the listener, and is paid for by what the connection has done since the last look.
//!
//! Where no client has more places than another, as somebody who has very many addresses may arrange it, the network that
//! has many more than the newcomer's gives way.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::time::Duration;

use super::callers::AccountId;
use super::machine::ListenerId;

/// One in so many places is reserved for clients of this machine, and never more than [`MAX_RESERVED`].
const RESERVED_PART: usize = 16;
const MAX_RESERVED: usize = 64;

/// A network of which no client has more places than the newcomer would have gives way if it has at least so many more.
const MANY_OF_NETWORK: usize = 16;

/// The place of a connection: what it is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub listener: ListenerId,
    /// Its other end is on this machine.
    pub is_local: bool,
    pub client: AccountId,
    /// The network of that client's address.
    pub network: Network,
    /// When its connection was last seen to do something, in running time. Never later than it did, but for one that was
    /// seen in the middle of an answer, which is let alone for a while.
    pub seen: Duration,
    pub slot: usize,
}

/// The first 24 bits of an IPv4 address, or 48 of an IPv6 address: what somebody may well have to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Network(IpAddr);

impl Network {
    /// That of an address.
    pub fn of(address: IpAddr) -> Network {
        Network(match address.to_canonical() {
            IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() >> 8 << 8).into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 80 << 80).into(),
        })
    }
}

/// Who is to give way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub place: Place,
    /// It has not more than the newcomer would have: it gives way only if nothing is lost by that.
    pub is_equal: bool,
}

/// Places that clients have, or networks.
#[derive(Debug)]
struct Holders<K> {
    counts: HashMap<K, usize>,
    /// The holder with most places first, and among equals that whose connection did nothing for longest.
    ranks: BTreeSet<(Reverse<usize>, Duration, K)>,
    /// In the order in which the connections of a holder give way.
    places: BTreeMap<(K, Duration, usize), Place>,
}

impl<K> Default for Holders<K> {
    fn default() -> Holders<K> {
        Holders { counts: HashMap::new(), ranks: BTreeSet::new(), places: BTreeMap::new() }
    }
}

/// The places of one listener.
#[derive(Debug, Default)]
struct Gate {
    most: usize,
    /// Clients elsewhere, and of this machine.
    holders: [Holders<AccountId>; 2],
    /// Networks of clients elsewhere.
    networks: Holders<Network>,
}

/// The places of all listeners.
#[derive(Debug, Default)]
pub(super) struct Gates(Vec<Gate>);

/// Where places are short: of these listeners, held by these.
#[derive(Clone, Debug)]
struct Shortage {
    listeners: Range<usize>,
    is_local: &'static [bool],
}

impl<K: Copy + Ord + Hash> Holders<K> {
    fn of(&self, holder: K) -> usize {
        self.counts.get(&holder).copied().unwrap_or(0)
    }

    /// The place of a holder that is the first to give way.
    fn first_of(&self, holder: K) -> Option<Place> {
        let first = self.places.range((holder, Duration::ZERO, 0)..=(holder, Duration::MAX, usize::MAX)).next();
        first.map(|(_, place)| *place)
    }

    /// Changes the places of a holder, which keeps its rank right.
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

impl Gate {
    fn add(&mut self, place: Place) {
        self.holders[usize::from(place.is_local)].add(place.client, place);
        if !place.is_local {
            self.networks.add(place.network, place);
        }
    }

    fn remove(&mut self, place: Place) {
        self.holders[usize::from(place.is_local)].remove(place.client, place);
        if !place.is_local {
            self.networks.remove(place.network, place);
        }
    }

    fn open(&self, is_local: bool) -> usize {
        self.holders[usize::from(is_local)].places.len()
    }
}

impl Gates {
    /// Sets how many places a listener has; by default none.
    pub fn set_most(&mut self, listener: ListenerId, most: usize) {
        if self.0.len() <= listener.0 {
            self.0.resize_with(listener.0 + 1, Gate::default);
        }
        self.0[listener.0].most = most;
    }

    /// Whether there is such a listener.
    pub fn has(&self, listener: ListenerId) -> bool {
        listener.0 < self.0.len()
    }

    /// Gives a place to a connection.
    pub fn add(&mut self, place: Place) {
        let gate = self.0.get_mut(place.listener.0);
        gate.into_iter().for_each(|gate| gate.add(place));
    }

    /// A connection gives its place back.
    pub fn remove(&mut self, place: Place) {
        let gate = self.0.get_mut(place.listener.0);
        gate.into_iter().for_each(|gate| gate.remove(place));
    }

    /// Whether a newcomer finds a place, where all listeners together have so many.
    pub fn has_room(&self, listener: ListenerId, is_local: bool, most_of_all: usize) -> bool {
        self.shortage(listener, is_local, most_of_all).is_none()
    }

    fn shortage(&self, listener: ListenerId, is_local: bool, most_of_all: usize) -> Option<Shortage> {
        let index = listener.0;
        let own = self.0.get(index)?;
        let all = |is_local| self.0.iter().map(|gate| gate.open(is_local)).sum::<usize>();
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

    /// Who gives way to a newcomer where there is no room: the client that holds most, if it holds at least two places
    /// more than the newcomer's client; or else that client itself, if it has one; or else somebody of the network that
    /// holds many more than the newcomer's; or else somebody who has as many.
    pub fn candidate(
        &self,
        listener: ListenerId,
        is_local: bool,
        (client, network): (AccountId, Network),
        most_of_all: usize,
    ) -> Option<Candidate> {
        let Shortage { listeners, is_local } = self.shortage(listener, is_local, most_of_all)?;
        let gates = || self.0.get(listeners.clone()).into_iter().flatten();
        let holders = || gates().flat_map(|gate| is_local.iter().map(|local| &gate.holders[usize::from(*local)]));
        let (Reverse(most), place) = largest(holders())?;
        let own = holders().max_by_key(|holders| holders.of(client))?;
        if most >= own.of(client) + 2 {
            return Some(Candidate { place, is_equal: false });
        }
        if let Some(place) = own.first_of(client) {
            return Some(Candidate { place, is_equal: true });
        }
        let networks = || gates().map(|gate| &gate.networks);
        let of_own = networks().map(|networks| networks.of(network)).max().unwrap_or(0);
        let crowd = largest(networks()).filter(|(Reverse(most), _)| *most >= of_own + MANY_OF_NETWORK);
        Some(crowd.map_or(Candidate { place, is_equal: true }, |(_, place)| Candidate { place, is_equal: false }))
    }
}

/// How many places the holder with most has, and that of them which is the first to give way.
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

    const HTTP: ListenerId = ListenerId(0);
    const OTHER: ListenerId = ListenerId(1);
    const PLENTY: usize = 1000;

    fn place(client: AccountId, seen: u64, slot: usize) -> Place {
        let seen = Duration::from_secs(seen);
        Place { listener: HTTP, is_local: false, client, network: network(client), seen, slot }
    }

    /// A network of its own for each client below 100, and one for all others.
    fn network(client: AccountId) -> Network {
        Network::of([10, 0, client.min(100) as u8, client as u8].into())
    }

    fn gates(most: usize, places: &[Place]) -> Gates {
        let mut gates = Gates::default();
        gates.set_most(HTTP, most);
        gates.set_most(OTHER, most);
        places.iter().for_each(|place| gates.add(*place));
        gates
    }

    #[test]
    fn who_has_most_gives_way_and_of_equals_who_did_nothing_for_longest() {
        let places = [place(1, 5, 10), place(1, 9, 11), place(2, 4, 12), place(2, 8, 13), place(3, 1, 14)];
        let mut gates = gates(5, &places);
        let of = |gates: &Gates, client| gates.candidate(HTTP, false, (client, network(client)), PLENTY);
        assert_eq!(of(&gates, 9), Some(Candidate { place: places[2], is_equal: false }));
        assert_eq!(of(&gates, 3), Some(Candidate { place: places[4], is_equal: true }), "its own");
        gates.remove(places[2]);
        gates.add(place(2, 7, 12));
        assert_eq!(of(&gates, 9).map(|candidate| candidate.place), Some(places[0]));
        gates.remove(places[4]);
        assert!(of(&gates, 9).is_none() && gates.has_room(HTTP, false, PLENTY));
        assert!(!gates.has_room(HTTP, false, 4), "all listeners together have fewer");
        let in_all = gates.candidate(OTHER, false, (9, network(9)), 4).map(|candidate| candidate.place);
        assert_eq!(in_all, Some(places[0]), "where all are short, it may be another listener's");
    }

    #[test]
    fn reserved_places_are_for_this_machine_and_what_is_given_back_leaves_nothing() {
        let local = Place { is_local: true, ..place(1, 3, 50) };
        let others: Vec<Place> = (0..30).map(|slot| place(slot, 1, slot)).collect();
        let mut gates = gates(32, &others);
        assert!(!gates.has_room(HTTP, false, PLENTY) && gates.has_room(HTTP, true, PLENTY));
        gates.add(local);
        gates.add(Place { slot: 51, ..local });
        assert!(!gates.has_room(HTTP, true, PLENTY));
        let newcomer = |is_local| {
            let candidate = gates.candidate(HTTP, is_local, (99, network(99)), PLENTY);
            candidate.map(|candidate| candidate.place.is_local)
        };
        assert_eq!((newcomer(true), newcomer(false)), (Some(true), Some(false)));
        others.iter().chain(&[local, Place { slot: 51, ..local }]).for_each(|place| gates.remove(*place));
        fn is_empty<K>(holders: &Holders<K>) -> bool {
            holders.counts.is_empty() && holders.ranks.is_empty() && holders.places.is_empty()
        }
        assert!(gates.0.iter().all(|gate| gate.holders.iter().all(is_empty) && is_empty(&gate.networks)));
    }

    #[test]
    fn where_no_client_has_more_than_another_the_network_with_many_more_gives_way() {
        let places = |crowd: usize| -> Vec<Place> {
            let others = (0..30 - crowd).map(|client| place(client, 1, client));
            others.chain((0..crowd).map(|number| place(100 + number, 5, 100 + number))).collect()
        };
        let of = |crowd, client| gates(32, &places(crowd)).candidate(HTTP, false, (client, network(client)), PLENTY);
        let crowded = Candidate { place: place(100, 5, 100), is_equal: false };
        assert_eq!(of(16, 50), Some(crowded), "sixteen more than none");
        assert_eq!(of(16, 3), Some(Candidate { place: place(3, 1, 3), is_equal: true }), "who has one gives up that");
        let idlest = Some(Candidate { place: place(0, 1, 0), is_equal: true });
        assert_eq!((of(15, 50), of(20, 130)), (idlest, idlest), "not many more, or the newcomer's own");
        let address = |text: &str| Network::of(text.parse().unwrap());
        assert_eq!(address("2001:db8:1:2::1"), address("2001:db8:1:ffff::1"));
        assert_ne!(address("2001:db8:1::1"), address("2001:db8:2::1"));
        assert_eq!(address("::ffff:10.1.2.3"), address("10.1.2.250"));
        assert_ne!(address("10.1.2.3"), address("10.1.3.3"));
    }
}
