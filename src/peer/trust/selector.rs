//! Who is drawn as a partner.

use std::collections::BTreeSet;

use super::values::{Candidates, TrustValues};
use crate::model::Address;
use crate::peer::nodes::{Nodes, State};
use crate::peer::random::RandomSource;

/// In so many draws of one, a node is drawn once without regard to trust.
pub const ANY_ONE_IN: usize = 4;

/// Draws partners: some by trust, and in each draw of several one at least of the operator's list, so that a node that
/// has met only false friends still hears of the network.
///
/// Trust alone would leave nodes out for good: one that was met often, and of whose own experiences nobody has told, is
/// not trusted at all, and is therefore never asked for them, nor for its chain, which may be the best. So now and then
/// any active node is drawn.
///
/// It is made after each refresh and stays as it is until the next.
#[derive(Clone, Debug, Default)]
pub struct Selector {
    candidates: Candidates,
    /// Nodes that are active.
    active: Vec<Address>,
    /// Nodes of the operator's list.
    supplement: Vec<Address>,
    /// Whether all of them take part in each draw of several, or one by chance.
    takes_all: bool,
}

impl Selector {
    /// Draws among nodes that are active, for everything but refreshes.
    pub fn of_partners<T>(values: &TrustValues, nodes: &Nodes<T>) -> Selector {
        Selector::new(values.admit(|node| nodes.is_active(node)), nodes)
    }

    /// Draws among all nodes, those that are to be contacted anew to see whether they are still there.
    pub fn of_all<T>(values: &TrustValues, nodes: &Nodes<T>) -> Selector {
        let local = nodes.local();
        Selector::new(values.admit(|node| *node != local), nodes)
    }

    fn new<T>(candidates: Candidates, nodes: &Nodes<T>) -> Selector {
        let local = nodes.local();
        let listed: Vec<_> = nodes.pre_trusted().iter().copied().filter(|node| *node != local).collect();
        let active: Vec<_> = listed.iter().copied().filter(|node| nodes.is_active(node)).collect();
        let (supplement, takes_all) = match active.is_empty() {
            true => (listed, true),
            false => (active, nodes.pre_trusted().contains(&local)),
        };
        let active = nodes.in_state(State::Active).map(|(node, _)| *node).collect();
        Selector { candidates, active, supplement, takes_all }
    }

    /// Several nodes: at most `most` by trust, and of the operator's list all that are active if this node is on it,
    /// otherwise one; all that are on it while none is active. None twice.
    pub fn several(&self, most: usize, random: &mut impl RandomSource) -> Vec<Address> {
        let mut drawn = self.candidates.draw(most, random);
        let supplement = match self.takes_all {
            true => &self.supplement[..],
            false => self.one_of_list(random).map_or(&[][..], std::slice::from_ref),
        };
        let by_trust: BTreeSet<_> = drawn.iter().copied().collect();
        drawn.extend(supplement.iter().filter(|node| !by_trust.contains(*node)));
        drawn
    }

    /// One node by trust, or if there is none one of the operator's list; now and then any that is active.
    pub fn one(&self, random: &mut impl RandomSource) -> Option<Address> {
        if random.below(ANY_ONE_IN) == 0
            && let Some(any) = self.active.get(random.below(self.active.len()))
        {
            return Some(*any);
        }
        let by_trust = self.candidates.draw(1, random).pop();
        by_trust.or_else(|| self.one_of_list(random).copied())
    }

    /// The same among those that `is_admitted`; nobody if none is.
    pub fn one_of(&self, is_admitted: impl Fn(&Address) -> bool, random: &mut impl RandomSource) -> Option<Address> {
        let mut some = self.clone();
        some.candidates.retain(&is_admitted);
        some.active.retain(&is_admitted);
        some.supplement.retain(&is_admitted);
        some.one(random)
    }

    /// Several nodes by trust alone, among those that `is_admitted`.
    pub fn some_of(
        &self,
        is_admitted: impl FnMut(&Address) -> bool,
        most: usize,
        random: &mut impl RandomSource,
    ) -> Vec<Address> {
        let mut candidates = self.candidates.clone();
        candidates.retain(is_admitted);
        candidates.draw(most, random)
    }

    fn one_of_list(&self, random: &mut impl RandomSource) -> Option<&Address> {
        self.supplement.get(random.below(self.supplement.len()))
    }
}
