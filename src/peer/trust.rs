//! Experiences of nodes with each other, trust in each peer, and selection of peers by trust.
//!
//! There is one experience for each ordered pair of nodes. This node counts its own; peers report theirs. Entries
//! expire after [`EXPERIENCE_LIFETIME`]. All times are those since the start of the node, which no clock that is set changes.
//!
//! | structure | grows by | limit |
//! |---|---|---|
//! | own experiences | a success or failure of a peer | [`MAX_OWN`]; the oldest is evicted |
//! | reports | a peer that was queried for its experiences | [`MAX_REPORTERS`]; the oldest is evicted |
//! | pairs of a report | a reported pair | [`MAX_PAIRS`]; the oldest are evicted |
//!
//! An entry takes about 100 bytes, all together at most 3 MB.
//!
//! Trust is calculated from the experiences of nodes with each other (EigenTrust++). A peer's report counts in
//! proportion to the trust in the peer, and less the more its experiences differ from those of the node that uses it.
//! Peers with which this node had few calls share a part of the trust, so that they are contacted at all.
//!
//! A calculation has at most [`MAX_MEMBERS`] members, holds 330 kB while it runs, and advances row by row so that it
//! can be interleaved with other work. A row is one node's experiences with all members, or one node's weighting of
//! them, or one iteration; it costs some microseconds. The result is used for [`LIFETIME`]. Its size and the cost
//! of a selection are linear in the members.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::LimitUsage;
use crate::model::Address;
use crate::peer::io::RandomSource;
use crate::peer::peer_entry::State;
use crate::peer::peer_table::PeerTable;

/// Maximum number of pairs in one message, and of stored pairs per reporter.
pub const MAX_PAIRS: usize = 100;
/// Maximum number of own experiences.
pub const MAX_OWN: usize = 1_000;
/// Maximum number of stored reports: twice as many as one trust calculation can use.
pub const MAX_REPORTERS: usize = 200;
/// Lifetime of an experience.
pub const EXPERIENCE_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Success and failure counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Experience {
    /// Number of successes, below 2⁶³.
    pub successes: u64,
    /// Number of failures, below 2⁶³.
    pub failures: u64,
}

impl Experience {
    const MAX_COUNT: u64 = i64::MAX as u64;

    /// Creates an experience from wire values; negative values count as 0.
    pub fn new(successes: i64, failures: i64) -> Experience {
        let count = |number: i64| u64::try_from(number).unwrap_or(0);
        Experience { successes: count(successes), failures: count(failures) }
    }

    /// Returns successes plus failures.
    pub fn calls(self) -> u64 {
        // Cannot overflow: both are below 2⁶³.
        self.successes + self.failures
    }

    /// Returns the success ratio, 0 to 1; `None` if both counts are 0.
    pub fn success_ratio(self) -> Option<f64> {
        (self.calls() > 0).then(|| self.successes as f64 / self.calls() as f64)
    }
}

/// Something of each node, and when it was last updated.
type Dated<T> = BTreeMap<Address, (T, Duration)>;

/// Experiences of one node with others.
type Pairs = Dated<Experience>;

/// Returns the entry of a node. If a new one would exceed `max`, evicts the oldest; of several, that with the lowest address.
fn entry<T: Default>(entries: &mut Dated<T>, node: Address, max: usize) -> &mut (T, Duration) {
    if entries.len() >= max && !entries.contains_key(&node) {
        let oldest = entries.iter().min_by_key(|(_, (_, since))| *since).map(|(node, _)| *node);
        oldest.and_then(|oldest| entries.remove(&oldest));
    }
    entries.entry(node).or_default()
}

/// All known experiences.
#[derive(Debug)]
pub struct Experiences {
    local: Address,
    own: Pairs,
    reports: Dated<Pairs>,
}

impl Experiences {
    /// Creates an empty set for the node with address `local`.
    pub fn new(local: Address) -> Experiences {
        Experiences { local, own: Pairs::new(), reports: Dated::new() }
    }

    /// Counts a success of a peer. Ignores this node itself.
    pub fn succeeded(&mut self, node: Address, now: Duration) {
        self.count(node, now, |experience| &mut experience.successes);
    }

    /// Counts a failure of a peer. Ignores this node itself.
    pub fn failed(&mut self, node: Address, now: Duration) {
        self.count(node, now, |experience| &mut experience.failures);
    }

    fn count(&mut self, node: Address, now: Duration, counter: impl Fn(&mut Experience) -> &mut u64) {
        if node != self.local {
            let (experience, since) = entry(&mut self.own, node, MAX_OWN);
            let count = counter(experience);
            *count = count.saturating_add(1).min(Experience::MAX_COUNT);
            *since = now;
        }
    }

    /// Stores a report, which replaces earlier reports about the same nodes. Returns `false` if it is too long or in the
    /// name of this node.
    pub fn receive(&mut self, reporter: Address, pairs: &[(Address, Experience)], now: Duration) -> bool {
        if pairs.len() > MAX_PAIRS || reporter == self.local {
            return false;
        }
        let (report, updated_at) = entry(&mut self.reports, reporter, MAX_REPORTERS);
        *updated_at = now;
        for (node, experience) in pairs {
            *entry(report, *node, MAX_PAIRS) = (*experience, now);
        }
        true
    }

    fn pairs(&self, node: &Address) -> Option<&Pairs> {
        if *node == self.local { Some(&self.own) } else { self.reports.get(node).map(|(pairs, _)| pairs) }
    }

    /// Returns the experiences of a node with others, in order of their addresses.
    pub fn of(&self, node: &Address) -> impl Iterator<Item = (&Address, Experience)> {
        self.pairs(node).into_iter().flatten().map(|(node, (experience, _))| (node, *experience))
    }

    /// Returns the usage of own experiences, reports, and pairs of the longest report.
    pub fn usage(&self) -> [LimitUsage; 3] {
        let longest = self.reports.values().map(|(pairs, _)| pairs.len()).max().unwrap_or(0);
        [
            LimitUsage::new("own experiences", self.own.len(), MAX_OWN),
            LimitUsage::new("reported experiences", self.reports.len(), MAX_REPORTERS),
            LimitUsage::new("pairs of the longest report", longest, MAX_PAIRS),
        ]
    }

    /// Returns the experience of one node with another.
    pub fn between(&self, node: &Address, other: &Address) -> Experience {
        let pair = self.pairs(node).and_then(|pairs| pairs.get(other));
        pair.map_or_else(Experience::default, |(experience, _)| *experience)
    }

    /// Returns own experiences to send to a peer: all of them, or a random [`MAX_PAIRS`], in order of address.
    pub fn selection(&self, random: &mut impl RandomSource) -> Vec<(Address, Experience)> {
        let mut selection: Vec<_> = self.of(&self.local).map(|(node, experience)| (*node, experience)).collect();
        if selection.len() > MAX_PAIRS {
            random.choose(&mut selection, MAX_PAIRS);
            selection.sort_unstable_by_key(|(node, _)| *node);
        }
        selection
    }

    /// Removes all own and reported experiences with a node, and its report.
    pub fn forget(&mut self, node: &Address) {
        self.reports.remove(node);
        for pairs in self.reports.values_mut().map(|(pairs, _)| pairs).chain([&mut self.own]) {
            pairs.remove(node);
        }
    }

    /// Removes entries older than [`EXPERIENCE_LIFETIME`].
    pub fn prune(&mut self, now: Duration) {
        let before = now.saturating_sub(EXPERIENCE_LIFETIME);
        for pairs in self.reports.values_mut().map(|(pairs, _)| pairs).chain([&mut self.own]) {
            pairs.retain(|_, (_, since)| *since >= before);
        }
        self.reports.retain(|_, (pairs, _)| !pairs.is_empty());
    }
}

/// Lifetime of a result.
pub const LIFETIME: Duration = Duration::from_secs(900);

/// A network with fewer other members than this is small.
pub const SMALL_NETWORK: usize = 20;
/// Lifetime of a result in a small network that has a member without a value.
pub const SMALL_NETWORK_LIFETIME: Duration = Duration::from_secs(30);

/// Current trust values, and the calculation of the next ones.
#[derive(Debug, Default)]
pub struct Trust {
    /// The current values; empty before the first calculation has ended.
    pub values: TrustValues,
    /// Start of the calculation of the current or next values, and the number of other nodes then.
    since: Option<(Duration, usize)>,
    calculation: Option<Calculation>,
}

impl Trust {
    /// Returns the nodes that take part in a calculation if one is due. `most` is an upper bound of the `others` that
    /// could take part, without this node. In a growing network a calculation is due before the end of [`LIFETIME`]: when
    /// the nodes have more than doubled, and in a small network after [`SMALL_NETWORK_LIFETIME`] if any node has no value.
    /// NIS1 uses only listed nodes in its first quarter of an hour.
    pub fn due_members(
        &self,
        most: usize,
        others: impl FnOnce() -> Vec<Address>,
        now: Duration,
    ) -> Option<Vec<Address>> {
        if self.is_calculating() {
            return None;
        }
        let Some((since, former)) = self.since else { return Some(others()) };
        let age = now.saturating_sub(since);
        let is_due = |count: usize| age > LIFETIME || count > former.saturating_mul(2);
        let is_small = former < SMALL_NETWORK && age >= SMALL_NETWORK_LIFETIME;
        if !is_due(most) && !is_small {
            return None;
        }
        let others = others();
        let has_new = || others.iter().any(|node| self.values.of(node).is_none());
        (is_due(others.len()) || (is_small && has_new())).then_some(others)
    }

    /// Removes the trust value of a peer that has moved. Returns whether there was one.
    pub fn forget(&mut self, node: &Address) -> bool {
        // The running calculation is based on its former experiences.
        if self.calculation.take_if(|calculation| calculation.members.addresses.contains(node)).is_some() {
            self.since = None;
        }
        self.values.forget(node)
    }

    /// Returns whether a calculation is running.
    pub fn is_calculating(&self) -> bool {
        self.calculation.is_some()
    }

    /// Starts a calculation; discards a running one.
    pub fn begin(&mut self, members: Members, now: Duration) {
        self.since = Some((now, members.candidate_count));
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
}

/// Divides numbers by the sum of their absolute values, unless that is 0.
fn normalise(numbers: &mut [f64]) {
    let sum: f64 = numbers.iter().map(|number| number.abs()).sum();
    if sum != 0.0 {
        numbers.iter_mut().for_each(|number| *number /= sum);
    }
}

/// Nodes and their trust with the sum 1: of all members of a calculation, this node last, or of those to select from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrustValues {
    values: Vec<(Address, f64)>,
}

impl TrustValues {
    fn new<'a>(nodes: impl IntoIterator<Item = &'a Address>, trust: &[f64]) -> TrustValues {
        TrustValues { values: nodes.into_iter().copied().zip(trust.iter().copied()).collect() }
    }

    /// Removes the value of a node. Returns whether there was one.
    fn forget(&mut self, node: &Address) -> bool {
        let before = self.values.len();
        self.retain(|other| other != node);
        self.values.len() < before
    }

    /// Keeps the nodes for which `stays` is true.
    pub fn retain(&mut self, mut stays: impl FnMut(&Address) -> bool) {
        self.values.retain(|(node, _)| stays(node));
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
    fn most_trusted(&self, count: usize, local: Address) -> Vec<Address> {
        let mut nodes: Vec<_> = self.iter().filter(|(node, _)| **node != local).collect();
        nodes.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        nodes.into_iter().take(count).map(|(node, _)| *node).collect()
    }

    /// Returns the admitted nodes that have trust, or equal values for all admitted ones if none has any.
    pub fn admit(&self, is_admitted: impl Fn(&Address) -> bool) -> TrustValues {
        let (nodes, mut weights): (Vec<_>, Vec<_>) = self.iter().filter(|(node, _)| is_admitted(node)).unzip();
        if weights.iter().all(|weight| *weight == 0.0) {
            weights.fill(1.0);
        }
        normalise(&mut weights);
        let mut admitted = TrustValues::new(nodes, &weights);
        admitted.values.retain(|(_, weight)| *weight != 0.0);
        admitted
    }

    /// Selects at most `max` distinct nodes by trust, or all in order. Each takes one random number and linear time.
    pub fn select(&self, max: usize, random: &mut impl RandomSource) -> Vec<Address> {
        if max >= self.values.len() {
            return self.values.iter().map(|(node, _)| *node).collect();
        }
        let mut left = self.values.clone();
        let mut remaining: f64 = left.iter().map(|(_, weight)| weight).sum();
        let mut drawn = Vec::with_capacity(max);
        while drawn.len() < max {
            let (mark, mut sum) = (random.fraction() * remaining, 0.0);
            let hit = left.iter().position(|(_, weight)| {
                sum += weight;
                sum >= mark
            });
            // Rounding may leave the mark behind the last node.
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
/// Number of listed nodes that are members for certain. They are the source of trust: without any, as may happen
/// among many unknown nodes, trust would rest on reports of unknown nodes.
const LISTED: usize = 20;

/// Members of a calculation; this node is the last.
#[derive(Clone, Debug)]
pub struct Members {
    addresses: Vec<Address>,
    /// Initial trust of each.
    source: Vec<f64>,
    /// Whether each is on the operator's list.
    is_listed: Vec<bool>,
    candidate_count: usize,
}

impl Members {
    /// Chooses members among the distinct `others`: all if they are few, otherwise the most trusted ones by the
    /// `former` values, some listed ones, and a random choice. `listed` is the operator's list.
    pub fn choose(
        mut others: Vec<Address>,
        local: Address,
        listed: &BTreeSet<Address>,
        former: &TrustValues,
        random: &mut impl RandomSource,
    ) -> Members {
        others.retain(|node| *node != local);
        let others_in_all = others.len();
        if others.len() >= MAX_MEMBERS {
            let mut chosen = move_to_front(&mut others, 0, &former.most_trusted(MOST_TRUSTED, local));
            let mut some_listed: Vec<_> = listed.iter().copied().collect();
            some_listed.retain(|node| others[chosen..].contains(node));
            random.choose(&mut some_listed, LISTED);
            chosen = move_to_front(&mut others, chosen, &some_listed);
            let mut rest = others.split_off(chosen);
            random.choose(&mut rest, MAX_MEMBERS - 1 - chosen);
            others.extend(rest);
        }
        others.push(local);
        let is_listed: Vec<_> = others.iter().map(|node| listed.contains(node)).collect();
        let source = source(&is_listed, listed.len());
        Members { addresses: others, source, is_listed, candidate_count: others_in_all }
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

/// Returns the initial trust: equal shares of the listed members, or of all members if there is none. NIS1 makes
/// the exception only for an empty list; after losing all nodes of a list it distrusts nodes with many calls.
fn source(is_listed: &[bool], listed: usize) -> Vec<f64> {
    if !is_listed.contains(&true) {
        return vec![1.0 / is_listed.len() as f64; is_listed.len()];
    }
    let share = 1.0 / listed as f64;
    let mut source: Vec<_> = is_listed.iter().map(|listed| if *listed { share } else { 0.0 }).collect();
    normalise(&mut source);
    source
}

/// One in this many selections of a single peer ignores trust.
pub const IGNORE_TRUST_ONE_IN: usize = 4;

/// Selects peers by trust. Each selection of several includes at least one listed peer, so that a node which knows
/// only malicious peers still learns about the network.
///
/// Trust alone would exclude some peers for good: one with many calls whose own experiences nobody has reported has no
/// trust, and is therefore never asked for them, nor for its chain, which may be the best. So now and then any active
/// peer is chosen.
///
/// A selector is immutable; the caller replaces it after a refresh and whenever trust or peer states change.
#[derive(Clone, Debug, Default)]
pub struct Selector {
    candidates: TrustValues,
    /// Active peers.
    active: Vec<Address>,
    /// Listed peers: the active ones, or all if none is active.
    listed: Vec<Address>,
    /// Whether a selection of several includes all of `listed`, or one at random.
    includes_all_listed: bool,
}

impl Selector {
    /// Creates a selector among active peers, for everything but refreshes.
    pub fn among_active(values: &TrustValues, nodes: &PeerTable) -> Selector {
        Selector::new(values.admit(|node| nodes.is_active(node)), nodes)
    }

    /// Creates a selector among all peers with a trust value, for refreshes.
    pub fn among_all(values: &TrustValues, nodes: &PeerTable) -> Selector {
        let local = nodes.local;
        Selector::new(values.admit(|node| *node != local), nodes)
    }

    fn new(candidates: TrustValues, nodes: &PeerTable) -> Selector {
        let local = nodes.local;
        let listed: Vec<_> = nodes.listed.iter().copied().filter(|node| *node != local).collect();
        let active: Vec<_> = listed.iter().copied().filter(|node| nodes.is_active(node)).collect();
        let includes_all_listed = active.is_empty() || nodes.listed.contains(&local);
        let listed = if active.is_empty() { listed } else { active };
        let active = nodes.in_state(State::Active).map(|(node, _)| *node).collect();
        Selector { candidates, active, listed, includes_all_listed }
    }

    /// Returns distinct peers: at most `max` by trust, and of the listed ones all active ones if this node is
    /// listed, otherwise one; all of them if none is active.
    pub fn several(&self, max: usize, random: &mut impl RandomSource) -> Vec<Address> {
        let mut drawn = self.candidates.select(max, random);
        let supplement = if self.includes_all_listed {
            &self.listed[..]
        } else {
            self.one_listed(random).map_or(&[][..], std::slice::from_ref)
        };
        let by_trust: BTreeSet<_> = drawn.iter().copied().collect();
        drawn.extend(supplement.iter().filter(|node| !by_trust.contains(*node)));
        drawn
    }

    /// Returns one peer by trust, or failing that a listed one; now and then any active peer.
    pub fn one(&self, random: &mut impl RandomSource) -> Option<Address> {
        if random.below(IGNORE_TRUST_ONE_IN) == 0
            && let Some(any) = self.active.get(random.below(self.active.len()))
        {
            return Some(*any);
        }
        let by_trust = self.candidates.select(1, random).pop();
        by_trust.or_else(|| self.one_listed(random).copied())
    }

    /// Returns one peer in the same way among those that `is_admitted`, if any.
    pub fn one_of(&self, is_admitted: impl Fn(&Address) -> bool, random: &mut impl RandomSource) -> Option<Address> {
        let mut some = self.clone();
        some.candidates.retain(&is_admitted);
        some.active.retain(&is_admitted);
        some.listed.retain(&is_admitted);
        some.one(random)
    }

    /// Returns at most `most` peers by trust alone, among those that `is_admitted`.
    pub fn some_of(
        &self,
        is_admitted: impl Fn(&Address) -> bool,
        most: usize,
        random: &mut impl RandomSource,
    ) -> Vec<Address> {
        let mut candidates = self.candidates.clone();
        candidates.retain(is_admitted);
        candidates.select(most, random)
    }

    fn one_listed(&self, random: &mut impl RandomSource) -> Option<&Address> {
        self.listed.get(random.below(self.listed.len()))
    }
}

/// Maximum number of iterations.
const MAX_ROUNDS: usize = 20;
/// Fraction of the trust that stays with the initially trusted members.
const ALPHA: f64 = 0.1;
/// Change per iteration at which trust has converged.
const CONVERGENCE: f64 = 0.01;
/// Minimum number of calls with a member that is known well.
const WELL_KNOWN_CALLS: u64 = 10;
/// Percentage of the total trust that is added and shared by members that are not known well.
const LITTLE_KNOWN_PERCENT: f64 = 30.0;

// A set of members is stored as the bits of a `u128`.
const _: () = assert!(MAX_MEMBERS <= u128::BITS as usize);

/// Running calculation. All sums run in ascending order of members, so the result is bit-identical however the work is
/// sliced.
#[derive(Debug)]
pub struct Calculation {
    members: Members,
    /// Number of rows done: the experiences of each member, then the weights of each, then iterations.
    rows: usize,
    /// Normalised local trust, one row per trusting member.
    shares: Vec<f64>,
    /// Local trust before normalisation, one row per trusted member.
    trust_in: Vec<f64>,
    /// 1 where a member had calls with another, otherwise 0; one row per known member.
    known_by: Vec<f64>,
    /// The members that each had calls with, as bits.
    knows: Vec<u128>,
    /// Whether this node does not know a member well.
    is_little_known: Vec<bool>,
    /// Transition matrix: fractions of trust that a member passes on, one row per trusting member.
    transition: Vec<f64>,
    /// Trust in each member.
    trust: Vec<f64>,
}

impl Calculation {
    /// Creates a calculation.
    pub fn new(members: Members) -> Calculation {
        let count = members.addresses.len();
        Calculation {
            rows: 0,
            shares: vec![0.0; count * count],
            trust_in: vec![0.0; count * count],
            known_by: vec![0.0; count * count],
            knows: vec![0; count],
            is_little_known: vec![true; count],
            transition: vec![0.0; count * count],
            trust: members.source.clone(),
            members,
        }
    }

    /// Advances by at most `rows` rows, at least one. Returns the values at the end; the calculation must not be used
    /// after that. There are two rows per member and one per iteration, at most 222. A row costs some
    /// microseconds.
    pub fn advance(&mut self, experiences: &Experiences, rows: usize) -> Option<TrustValues> {
        let count = self.members.addresses.len();
        for _ in 0..rows.max(1) {
            let row = self.rows;
            self.rows += 1;
            if row < count {
                self.gather(row, experiences);
            } else if row < 2 * count {
                self.weigh(row - count);
            } else if self.iterate() || self.rows == 2 * count + MAX_ROUNDS {
                return Some(self.result());
            }
        }
        None
    }

    /// Turns the experiences of a member into its local trust.
    fn gather(&mut self, row: usize, experiences: &Experiences) {
        let count = self.members.addresses.len();
        let addresses = &self.members.addresses;
        let known: Vec<_> = addresses.iter().map(|other| experiences.between(&addresses[row], other)).collect();
        let shares = &mut self.shares[row * count..][..count];
        for (other, share) in shares.iter_mut().enumerate() {
            let unknown = if self.members.is_listed[other] || other == row { 1.0 } else { 0.0 };
            *share = known[other].success_ratio().unwrap_or(unknown);
        }
        let sum: f64 = shares.iter().sum();
        for (other, share) in shares.iter_mut().enumerate() {
            *share = finite(*share / sum);
            self.trust_in[other * count + row] = *share * sum;
            let calls = known[other].calls();
            self.knows[row] |= u128::from(calls > 0) << other;
            // A member's report about itself does not count in the weighting.
            self.known_by[other * count + row] = if calls > 0 && other != row { 1.0 } else { 0.0 };
            if row + 1 == count {
                self.is_little_known[other] = calls < WELL_KNOWN_CALLS;
            }
        }
    }

    /// Weights a member's trust in the others by the similarity of their experiences to its own.
    fn weigh(&mut self, row: usize) {
        let count = self.members.addresses.len();
        // Sums of squared differences for all others at once. Where there is nothing to compare, adding 0 to a
        // non-negative number changes nothing.
        let mut squares = vec![0.0; count];
        for common in (0..count).filter(|common| self.knows[row] >> common & 1 == 1) {
            let trust_in = &self.trust_in[common * count..][..count];
            let known_by = &self.known_by[common * count..][..count];
            let own = trust_in[row];
            for ((square, trust), is_known) in squares.iter_mut().zip(trust_in).zip(known_by) {
                let difference = own - trust;
                *square += difference * difference * is_known;
            }
        }
        let passes = &mut self.transition[row * count..][..count];
        for (other, pass) in passes.iter_mut().enumerate() {
            let common = (self.knows[row] & self.knows[other] & !(1 << other)).count_ones();
            let credibility = match (other == row, common) {
                (true, _) => 1.0,
                (false, 0) => 0.0,
                (false, common) => fourth_power(1.0 - (squares[other] / f64::from(common)).sqrt()),
            };
            *pass = finite(self.shares[row * count + other] * credibility);
        }
        normalise(passes);
    }

    /// Runs an iteration. Returns whether trust has converged.
    fn iterate(&mut self) -> bool {
        let count = self.members.addresses.len();
        let mut passed = vec![0.0; count];
        for (row, trust) in self.trust.iter().enumerate() {
            for (sum, pass) in passed.iter_mut().zip(&self.transition[row * count..][..count]) {
                *sum += pass * trust;
            }
        }
        for (trust, source) in passed.iter_mut().zip(&self.members.source) {
            *trust = *trust * (1.0 - ALPHA) + source * ALPHA;
        }
        let change: f64 = self.trust.iter().zip(&passed).map(|(old, new)| (old - new).abs()).sum();
        self.trust = passed;
        change <= CONVERGENCE
    }

    /// Returns the final values, with the share of members that are not known well.
    fn result(&mut self) -> TrustValues {
        let trust = &mut self.trust;
        normalise(trust);
        trust.iter_mut().for_each(|trust| *trust = finite(*trust));
        let strangers = self.is_little_known.iter().filter(|is_stranger| **is_stranger).count();
        if strangers > 0 {
            normalise(trust);
            let boost = 1.0 / ((strangers as f64 / LITTLE_KNOWN_PERCENT) * 100.0);
            let boosted = trust.iter_mut().zip(&self.is_little_known).filter(|(_, is_stranger)| **is_stranger);
            boosted.for_each(|(trust, _)| *trust += boost);
        }
        normalise(trust);
        TrustValues::new(&self.members.addresses, trust)
    }
}

/// The order of operations fixes the rounding on all platforms.
fn fourth_power(number: f64) -> f64 {
    let square = number * number;
    square * square
}

/// Replaces a non-finite number by 0.
fn finite(number: f64) -> f64 {
    if number.is_finite() { number } else { 0.0 }
}

#[cfg(test)]
mod tests;
