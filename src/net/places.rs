//! Places of connections: who has them, and who gives way to a newcomer when they are short.
//!
//! Each listener has so many places, and so have all of them together; some of them are for clients of this machine only.
//! A connection is put in order by when it was last seen to do something. What it does is not noted each time: when it
//! is its turn to give way it is looked at, and put back if it was busy since. A look costs a few steps in a tree of all
//! connections of the listener, and is paid for by what the connection has done since the last look.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::time::Duration;

use super::callers::AccountId;
use super::machine::ListenerId;

/// One in so many places is reserved for clients of this machine, and never more than [`MAX_RESERVED`].
const RESERVED_PART: usize = 16;
const MAX_RESERVED: usize = 64;

/// The place of a connection: what it is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub listener: ListenerId,
    /// Its other end is on this machine.
    pub is_local: bool,
    pub client: AccountId,
    /// When its connection was last seen to do something, in running time. Never later than it did, but for one that was
    /// seen in the middle of an answer, which is let alone for a while.
    pub seen: Duration,
    pub slot: usize,
}

/// Who is to give way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub place: Place,
    /// It has not more than the newcomer would have: it gives way only if nothing is lost by that.
    pub is_equal: bool,
}

/// Places that clients have: those of this machine, or all others.
#[derive(Debug, Default)]
struct Holders {
    counts: HashMap<AccountId, usize>,
    /// The client with most places first, and among equals that whose connection did nothing for longest.
    clients: BTreeSet<(Reverse<usize>, Duration, AccountId)>,
    /// In the order in which the connections of a client give way.
    places: BTreeSet<(AccountId, Duration, usize)>,
}

/// The places of one listener.
#[derive(Debug, Default)]
struct Gate {
    most: usize,
    /// Of others, and of this machine.
    holders: [Holders; 2],
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

impl Holders {
    fn of(&self, client: AccountId) -> usize {
        self.counts.get(&client).copied().unwrap_or(0)
    }

    /// The place of a client that is the first to give way.
    fn first_of(&self, client: AccountId) -> Option<(Duration, usize)> {
        let first = self.places.range((client, Duration::ZERO, 0)..=(client, Duration::MAX, usize::MAX)).next();
        first.map(|(_, seen, slot)| (*seen, *slot))
    }

    /// Changes the places of a client, which keeps its rank right.
    fn change(&mut self, client: AccountId, change: impl FnOnce(&mut BTreeSet<(AccountId, Duration, usize)>) -> isize) {
        let before = self.first_of(client).map(|(seen, _)| (Reverse(self.of(client)), seen, client));
        before.into_iter().for_each(|rank| _ = self.clients.remove(&rank));
        let count = self.of(client).saturating_add_signed(change(&mut self.places));
        match self.first_of(client) {
            Some((seen, _)) => {
                self.counts.insert(client, count);
                self.clients.insert((Reverse(count), seen, client));
            }
            None => _ = self.counts.remove(&client),
        }
    }

    fn add(&mut self, place: &Place) {
        let entry = (place.client, place.seen, place.slot);
        self.change(place.client, |places| isize::from(places.insert(entry)));
    }

    fn remove(&mut self, place: &Place) {
        let entry = (place.client, place.seen, place.slot);
        self.change(place.client, |places| -isize::from(places.remove(&entry)));
    }
}

impl Gate {
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
        gate.into_iter().for_each(|gate| gate.holders[usize::from(place.is_local)].add(&place));
    }

    /// A connection gives its place back.
    pub fn remove(&mut self, place: Place) {
        let gate = self.0.get_mut(place.listener.0);
        gate.into_iter().for_each(|gate| gate.holders[usize::from(place.is_local)].remove(&place));
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
    /// more than the newcomer's client; or else that client itself, if it has one; or else somebody who has as many.
    pub fn candidate(
        &self,
        listener: ListenerId,
        is_local: bool,
        client: AccountId,
        most_of_all: usize,
    ) -> Option<Candidate> {
        let Shortage { listeners, is_local } = self.shortage(listener, is_local, most_of_all)?;
        let holders = || {
            let gates = listeners.clone().filter_map(|index| Some((index, self.0.get(index)?)));
            gates.flat_map(|(index, gate)| is_local.iter().map(move |local| (index, *local, gate)))
        };
        let (first, index, local) = holders()
            .filter_map(|(index, local, gate)| Some((*gate.holders[usize::from(local)].clients.first()?, index, local)))
            .min()?;
        let (own, own_index, own_local) =
            holders().map(|(index, local, gate)| (gate.holders[usize::from(local)].of(client), index, local)).max()?;
        let (Reverse(most), _, largest) = first;
        let is_equal = most < own + 2;
        let (client, index, is_local) =
            if is_equal && own > 0 { (client, own_index, own_local) } else { (largest, index, local) };
        let (seen, slot) = self.0.get(index)?.holders[usize::from(is_local)].first_of(client)?;
        Some(Candidate { place: Place { listener: ListenerId(index), is_local, client, seen, slot }, is_equal })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HTTP: ListenerId = ListenerId(0);
    const OTHER: ListenerId = ListenerId(1);
    const PLENTY: usize = 1000;

    fn place(client: AccountId, seen: u64, slot: usize) -> Place {
        Place { listener: HTTP, is_local: false, client, seen: Duration::from_secs(seen), slot }
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
        let of = |gates: &Gates, client| gates.candidate(HTTP, false, client, PLENTY);
        assert_eq!(of(&gates, 9), Some(Candidate { place: places[2], is_equal: false }));
        assert_eq!(of(&gates, 3), Some(Candidate { place: places[4], is_equal: true }), "its own");
        gates.remove(places[2]);
        gates.add(place(2, 7, 12));
        assert_eq!(of(&gates, 9).map(|candidate| candidate.place), Some(places[0]));
        gates.remove(places[4]);
        assert!(of(&gates, 9).is_none() && gates.has_room(HTTP, false, PLENTY));
        assert!(!gates.has_room(HTTP, false, 4), "all listeners together have fewer");
        let in_all = gates.candidate(OTHER, false, 9, 4).map(|candidate| candidate.place);
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
        let newcomer = |is_local| gates.candidate(HTTP, is_local, 99, PLENTY).map(|candidate| candidate.place.is_local);
        assert_eq!((newcomer(true), newcomer(false)), (Some(true), Some(false)));
        others.iter().chain(&[local, Place { slot: 51, ..local }]).for_each(|place| gates.remove(*place));
        let empty =
            |holders: &Holders| holders.counts.is_empty() && holders.clients.is_empty() && holders.places.is_empty();
        assert!(gates.0.iter().all(|gate| gate.holders.iter().all(empty)));
    }
}
