//! Selection of peers by trust.

use std::collections::BTreeSet;

use super::values::{Candidates, TrustValues};
use crate::model::Address;
use crate::peer::io::RandomSource;
use crate::peer::peer_table::{PeerTable, State};

/// One in this many selections of a single peer ignores trust.
pub const IGNORE_TRUST_ONE_IN: usize = 4;

/// Selects peers by trust. Each selection of several includes at least one pre-trusted peer, so that a node which knows
/// only malicious peers still learns about the network.
///
/// Trust alone would exclude some peers for good: one with many calls whose own experiences nobody has reported has no
/// trust, and is therefore never asked for them, nor for its chain, which may be the best. So now and then any active
/// peer is chosen.
///
/// A selector is immutable; the caller replaces it after a refresh and whenever trust or peer states change.
#[derive(Clone, Debug, Default)]
pub struct Selector {
    candidates: Candidates,
    /// Active peers.
    active: Vec<Address>,
    /// Pre-trusted peers: the active ones, or all if none is active.
    pre_trusted: Vec<Address>,
    /// Whether a selection of several includes all of `supplement`, or one at random.
    includes_all_pre_trusted: bool,
}

impl Selector {
    /// Creates a selector among active peers, for everything but refreshes.
    pub fn among_active<T>(values: &TrustValues, nodes: &PeerTable<T>) -> Selector {
        Selector::new(values.admit(|node| nodes.is_active(node)), nodes)
    }

    /// Creates a selector among all peers with a trust value, for refreshes.
    pub fn among_all<T>(values: &TrustValues, nodes: &PeerTable<T>) -> Selector {
        let local = nodes.local();
        Selector::new(values.admit(|node| *node != local), nodes)
    }

    fn new<T>(candidates: Candidates, nodes: &PeerTable<T>) -> Selector {
        let local = nodes.local();
        let listed: Vec<_> = nodes.pre_trusted().iter().copied().filter(|node| *node != local).collect();
        let active: Vec<_> = listed.iter().copied().filter(|node| nodes.is_active(node)).collect();
        let (supplement, takes_all) = match active.is_empty() {
            true => (listed, true),
            false => (active, nodes.pre_trusted().contains(&local)),
        };
        let active = nodes.in_state(State::Active).map(|(node, _)| *node).collect();
        Selector { candidates, active, pre_trusted: supplement, includes_all_pre_trusted: takes_all }
    }

    /// Returns distinct peers: at most `most` by trust, and of the pre-trusted ones all active ones if this node is
    /// listed, otherwise one; all of them if none is active.
    pub fn several(&self, max: usize, random: &mut impl RandomSource) -> Vec<Address> {
        let mut drawn = self.candidates.select(max, random);
        let supplement = match self.includes_all_pre_trusted {
            true => &self.pre_trusted[..],
            false => self.one_pre_trusted(random).map_or(&[][..], std::slice::from_ref),
        };
        let by_trust: BTreeSet<_> = drawn.iter().copied().collect();
        drawn.extend(supplement.iter().filter(|node| !by_trust.contains(*node)));
        drawn
    }

    /// Returns one peer by trust, or failing that a pre-trusted one; now and then any active peer.
    pub fn one(&self, random: &mut impl RandomSource) -> Option<Address> {
        if random.below(IGNORE_TRUST_ONE_IN) == 0
            && let Some(any) = self.active.get(random.below(self.active.len()))
        {
            return Some(*any);
        }
        let by_trust = self.candidates.select(1, random).pop();
        by_trust.or_else(|| self.one_pre_trusted(random).copied())
    }

    /// Returns one peer in the same way among those that `is_admitted`, if any.
    pub fn one_of(&self, is_admitted: impl Fn(&Address) -> bool, random: &mut impl RandomSource) -> Option<Address> {
        let mut some = self.clone();
        some.candidates.retain(&is_admitted);
        some.active.retain(&is_admitted);
        some.pre_trusted.retain(&is_admitted);
        some.one(random)
    }

    /// Returns at most `most` peers by trust alone, among those that `is_admitted`.
    pub fn some_of(
        &self,
        is_admitted: impl FnMut(&Address) -> bool,
        most: usize,
        random: &mut impl RandomSource,
    ) -> Vec<Address> {
        let mut candidates = self.candidates.clone();
        candidates.retain(is_admitted);
        candidates.select(most, random)
    }

    fn one_pre_trusted(&self, random: &mut impl RandomSource) -> Option<&Address> {
        self.pre_trusted.get(random.below(self.pre_trusted.len()))
    }
}
