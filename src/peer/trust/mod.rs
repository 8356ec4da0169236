//! Trust in each peer, and selection of peers by trust.
//!
//! Trust is calculated from the experiences of nodes with each other (EigenTrust++). A peer's report counts in
//! proportion to the trust in the peer, and less the more its experiences differ from those of the node that uses it.
//! Peers with which this node had few calls share a part of the trust, so that they are contacted at all.
//!
//! A calculation has at most [`MAX_MEMBERS`] members, holds 330 kB while it runs, and advances row by row so that it
//! can be interleaved with other work. A row is one node's experiences with all members, or one node's weighting of
//! them, or one iteration; it costs some microseconds. The result is used for [`LIFETIME`] seconds. Its size and the cost
//! of a selection are linear in the members.

mod calculation;

pub use self::calculation::Calculation;

use std::collections::BTreeSet;

use crate::model::{Address, Timestamp};
use crate::peer::experiences::Experiences;
use crate::peer::io::RandomSource;
use crate::peer::peer_table::{PeerTable, State};

/// Lifetime of a result in seconds of network time.
pub const LIFETIME: i32 = 900;

/// A network with fewer other members than this is small.
pub const SMALL_NETWORK: usize = 20;
/// Lifetime in seconds of a result in a small network that has a member without a value.
pub const SMALL_NETWORK_LIFETIME: i32 = 30;

/// Current trust values, and the calculation of the next ones.
#[derive(Debug, Default)]
pub struct Trust {
    values: TrustValues,
    /// Start of the calculation of the current or next values, and the number of other nodes then.
    since: Option<(Timestamp, usize)>,
    calculation: Option<Calculation>,
}

impl Trust {
    /// Returns whether a calculation may be due if at most `others` other nodes can take part.
    pub fn may_be_due(&self, others: usize, now: Timestamp) -> bool {
        self.calculation.is_none()
            && self.since.is_none_or(|(since, former)| {
                let age = now.0.saturating_sub(since.0).saturating_abs();
                age > LIFETIME
                    || others > former.saturating_mul(2)
                    || (former < SMALL_NETWORK && age >= SMALL_NETWORK_LIFETIME)
            })
    }

    /// Returns whether a calculation is due; `others` are the nodes that could take part, without this one. In a
    /// growing network it is due before the end of [`LIFETIME`]: when the nodes have more than doubled, and in a small
    /// network after [`SMALL_NETWORK_LIFETIME`] if any node has no value. NIS1 uses only pre-trusted nodes in its first quarter of
    /// an hour.
    pub fn is_due(&self, others: &[Address], now: Timestamp) -> bool {
        self.may_be_due(others.len(), now)
            && self.since.is_none_or(|(since, former)| {
                let age = now.0.saturating_sub(since.0).saturating_abs();
                let is_new = |node: &Address| self.values.of(node).is_none();
                age > LIFETIME || others.len() > former.saturating_mul(2) || others.iter().any(is_new)
            })
    }

    /// Removes the trust value of a peer that has moved. Returns whether there was one.
    pub fn forget(&mut self, node: &Address) -> bool {
        // The running calculation is based on its former experiences.
        if self.calculation.take_if(|calculation| calculation.has_member(node)).is_some() {
            self.since = None;
        }
        self.values.forget(node)
    }

    /// Returns whether a calculation is running.
    pub fn is_calculating(&self) -> bool {
        self.calculation.is_some()
    }

    /// Starts a calculation; discards a running one.
    pub fn begin(&mut self, members: Members, now: Timestamp) {
        self.since = Some((now, members.candidate_count()));
        self.calculation = Some(Calculation::new(members));
    }

    /// Advances the calculation by at most `rows` rows, at least one. Returns whether more work is left. The former
    /// values stay in use until the end.
    pub fn advance(&mut self, experiences: &Experiences, rows: usize) -> bool {
        let Some(mut calculation) = self.calculation.take() else { return false };
        match calculation.advance(experiences, rows) {
            Some(values) => self.values = values,
            None => self.calculation = Some(calculation),
        }
        self.calculation.is_some()
    }

    /// Returns the current values; empty before the first calculation has ended.
    pub fn values(&self) -> &TrustValues {
        &self.values
    }
}

#[cfg(test)]
mod tests;

/// Divides numbers by the sum of their absolute values, unless that is 0.
pub(super) fn normalise(numbers: &mut [f64]) {
    let sum: f64 = numbers.iter().map(|number| number.abs()).sum();
    if sum != 0.0 {
        numbers.iter_mut().for_each(|number| *number /= sum);
    }
}

/// Trust values with the sum 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrustValues {
    /// Nodes and their trust; this node is the last.
    values: Vec<(Address, f64)>,
}

impl TrustValues {
    pub(super) fn new(nodes: &[Address], trust: &[f64]) -> TrustValues {
        TrustValues { values: nodes.iter().copied().zip(trust.iter().copied()).collect() }
    }

    /// Removes the value of a node. Returns whether there was one.
    pub(super) fn forget(&mut self, node: &Address) -> bool {
        let before = self.values.len();
        self.values.retain(|(other, _)| other != node);
        self.values.len() < before
    }

    /// Returns nodes and their trust in the order of the calculation.
    pub fn iter(&self) -> impl Iterator<Item = (&Address, f64)> {
        self.values.iter().map(|(node, trust)| (node, *trust))
    }

    /// Returns the trust in a node, if it took part in the calculation.
    pub fn of(&self, node: &Address) -> Option<f64> {
        self.iter().find(|(other, _)| *other == node).map(|(_, trust)| trust)
    }

    /// Returns the `count` most trusted nodes without `local`; of equals, the first.
    pub(super) fn most_trusted(&self, count: usize, local: Address) -> Vec<Address> {
        let mut nodes: Vec<_> = self.values.iter().filter(|(node, _)| *node != local).collect();
        nodes.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        nodes.into_iter().take(count).map(|(node, _)| *node).collect()
    }

    /// Returns the admitted nodes, weighted by trust, or equally if none of them has any.
    pub fn admit(&self, is_admitted: impl Fn(&Address) -> bool) -> Candidates {
        let admitted: Vec<_> = self.values.iter().map(|(node, _)| is_admitted(node)).collect();
        let mask = |trust: f64, admitted: bool| if admitted { trust } else { 0.0 };
        let mut weights: Vec<_> =
            self.values.iter().zip(&admitted).map(|((_, trust), admitted)| mask(*trust, *admitted)).collect();
        if weights.iter().all(|weight| *weight == 0.0) {
            weights = admitted.iter().map(|admitted| mask(1.0, *admitted)).collect();
        }
        normalise(&mut weights);
        let nodes = self.values.iter().map(|(node, _)| *node);
        Candidates { weights: nodes.zip(weights).filter(|(_, weight)| *weight != 0.0).collect() }
    }
}

/// Candidates with selection weights.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Candidates {
    weights: Vec<(Address, f64)>,
}

impl Candidates {
    /// Returns nodes and their weights, none of which is 0.
    pub fn iter(&self) -> impl Iterator<Item = (&Address, f64)> {
        self.weights.iter().map(|(node, weight)| (node, *weight))
    }

    /// Keeps the candidates for which `stays` is true.
    pub fn retain(&mut self, mut stays: impl FnMut(&Address) -> bool) {
        self.weights.retain(|(node, _)| stays(node));
    }

    /// Selects at most `max` distinct candidates, or all in order. Each takes one random number and linear time.
    pub fn select(&self, max: usize, random: &mut impl RandomSource) -> Vec<Address> {
        if max >= self.weights.len() {
            return self.weights.iter().map(|(node, _)| *node).collect();
        }
        let mut left = self.weights.clone();
        let mut remaining: f64 = left.iter().map(|(_, weight)| weight).sum();
        let mut drawn = Vec::with_capacity(max);
        while drawn.len() < max {
            let (mark, mut sum) = (random.fraction() * remaining, 0.0);
            let hit = left.iter().position(|(_, weight)| {
                sum += weight;
                sum >= mark
            });
            // Rounding may leave the mark behind the last candidate.
            let Some(hit) = hit else { break };
            let (node, weight) = left.remove(hit);
            remaining -= weight;
            drawn.push(node);
        }
        drawn
    }
}

/// Maximum number of members, including this node.
pub const MAX_MEMBERS: usize = 101;
/// Number of the most trusted nodes that are members again.
const MOST_TRUSTED: usize = 10;
/// Number of pre-trusted nodes that are members for certain. They are the source of trust: without any, as may happen
/// among many unknown nodes, trust would rest on reports of unknown nodes.
const PRE_TRUSTED: usize = 20;

/// Members of a calculation; this node is the last.
#[derive(Clone, Debug)]
pub struct Members {
    pub(super) addresses: Vec<Address>,
    /// Initial trust of each.
    pub(super) source: Vec<f64>,
    /// Whether each is on the operator's list.
    pub(super) is_pre_trusted: Vec<bool>,
    candidate_count: usize,
}

impl Members {
    /// Chooses members among the distinct `others`: all if they are few, otherwise the most trusted ones by the
    /// `former` values, some pre-trusted ones, and a random choice. `pre_trusted` is the operator's list.
    pub fn choose(
        mut others: Vec<Address>,
        local: Address,
        pre_trusted: &BTreeSet<Address>,
        former: &TrustValues,
        random: &mut impl RandomSource,
    ) -> Members {
        others.retain(|node| *node != local);
        let others_in_all = others.len();
        if others.len() >= MAX_MEMBERS {
            let mut chosen = move_to_front(&mut others, 0, &former.most_trusted(MOST_TRUSTED, local));
            let mut listed: Vec<_> = pre_trusted.iter().copied().collect();
            listed.retain(|node| others[chosen..].contains(node));
            random.choose(&mut listed, PRE_TRUSTED);
            listed.truncate(PRE_TRUSTED);
            chosen = move_to_front(&mut others, chosen, &listed);
            random.choose(&mut others[chosen..], MAX_MEMBERS - 1 - chosen);
            others.truncate(MAX_MEMBERS - 1);
        }
        others.push(local);
        let is_pre_trusted: Vec<_> = others.iter().map(|node| pre_trusted.contains(node)).collect();
        let source = source(&is_pre_trusted, pre_trusted.len());
        Members { addresses: others, source, is_pre_trusted, candidate_count: others_in_all }
    }

    /// Returns the number of candidates.
    pub(super) fn candidate_count(&self) -> usize {
        self.candidate_count
    }
}

/// Moves those of `wanted` that come after the first `chosen` nodes directly behind these. Returns the new `chosen`.
fn move_to_front(nodes: &mut [Address], mut chosen: usize, wanted: &[Address]) -> usize {
    for node in wanted {
        if let Some(place) = nodes[chosen..].iter().position(|other| other == node) {
            nodes.swap(chosen, chosen + place);
            chosen += 1;
        }
    }
    chosen
}

/// Returns the initial trust: equal shares of the pre-trusted members, or of all members if there is none. NIS1 makes
/// the exception only for an empty list; after losing all nodes of a list it distrusts nodes with many calls.
fn source(is_pre_trusted: &[bool], listed: usize) -> Vec<f64> {
    if !is_pre_trusted.contains(&true) {
        return vec![1.0 / is_pre_trusted.len() as f64; is_pre_trusted.len()];
    }
    let share = 1.0 / listed as f64;
    let mut source: Vec<_> = is_pre_trusted.iter().map(|listed| if *listed { share } else { 0.0 }).collect();
    normalise(&mut source);
    source
}

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
