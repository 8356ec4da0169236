//! Success and failure counts between nodes.
//!
//! There is one experience for each ordered pair of nodes. This node counts its own; peers report theirs. Entries
//! expire after [`LIFETIME`]. All times are those since the start of the node, which no clock that is set changes.
//!
//! | structure | grows by | limit |
//! |---|---|---|
//! | own experiences | a success or failure of a peer | [`MAX_OWN`]; the oldest is evicted |
//! | reports | a peer that was queried for its experiences | [`MAX_REPORTERS`]; the oldest is evicted |
//! | pairs of a report | a reported pair | [`MAX_PAIRS`]; the oldest are evicted |
//!
//! An entry takes about 100 bytes, all together at most 3 MB.

use std::collections::BTreeMap;
use std::time::Duration;

use super::LimitUsage;
use super::io::RandomSource;
use crate::model::Address;

/// Maximum number of pairs in one message, and of stored pairs per reporter.
pub const MAX_PAIRS: usize = 100;
/// Maximum number of own experiences.
pub const MAX_OWN: usize = 1_000;
/// Maximum number of stored reports: twice as many as one trust calculation can use.
pub const MAX_REPORTERS: usize = 200;
/// Lifetime of an experience.
pub const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

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

/// Experiences of one node with others, and when each was last updated.
#[derive(Debug, Default)]
struct Pairs(BTreeMap<Address, (Experience, Duration)>);

impl Pairs {
    /// Returns the oldest entry; of several, the one with the lowest address.
    fn oldest(&self) -> Option<Address> {
        self.0.iter().min_by_key(|(_, (_, since))| *since).map(|(node, _)| *node)
    }

    /// Returns the entry of a node; evicts the oldest entry if a new one would exceed `max`.
    fn entry(&mut self, node: Address, max: usize) -> &mut (Experience, Duration) {
        if self.0.len() >= max
            && !self.0.contains_key(&node)
            && let Some(oldest) = self.oldest()
        {
            self.0.remove(&oldest);
        }
        self.0.entry(node).or_default()
    }

    fn prune(&mut self, before: Duration) {
        self.0.retain(|_, (_, since)| *since >= before);
    }
}

#[derive(Debug, Default)]
struct Report {
    updated_at: Duration,
    pairs: Pairs,
}

/// All known experiences.
#[derive(Debug)]
pub struct Experiences {
    local: Address,
    own: Pairs,
    reports: BTreeMap<Address, Report>,
}

impl Experiences {
    /// Creates an empty set for the node with address `local`.
    pub fn new(local: Address) -> Experiences {
        Experiences { local, own: Pairs::default(), reports: BTreeMap::new() }
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
            let (experience, since) = self.own.entry(node, MAX_OWN);
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
        if self.reports.len() >= MAX_REPORTERS && !self.reports.contains_key(&reporter) {
            let oldest = self.reports.iter().min_by_key(|(_, report)| report.updated_at).map(|(node, _)| *node);
            oldest.and_then(|oldest| self.reports.remove(&oldest));
        }
        let report = self.reports.entry(reporter).or_default();
        report.updated_at = now;
        for (node, experience) in pairs {
            *report.pairs.entry(*node, MAX_PAIRS) = (*experience, now);
        }
        true
    }

    fn pairs(&self, node: &Address) -> Option<&Pairs> {
        if *node == self.local { Some(&self.own) } else { self.reports.get(node).map(|report| &report.pairs) }
    }

    /// Returns the experiences of a node with others, in order of their addresses.
    pub fn of(&self, node: &Address) -> impl Iterator<Item = (&Address, Experience)> {
        let pairs = self.pairs(node).into_iter();
        pairs.flat_map(|pairs| pairs.0.iter().map(|(node, (experience, _))| (node, *experience)))
    }

    /// Returns the usage of own experiences, reports, and pairs of the longest report.
    pub fn usage(&self) -> [LimitUsage; 3] {
        let longest = self.reports.values().map(|report| report.pairs.0.len()).max().unwrap_or(0);
        [
            LimitUsage::new("own experiences", self.own.0.len(), MAX_OWN),
            LimitUsage::new("reported experiences", self.reports.len(), MAX_REPORTERS),
            LimitUsage::new("pairs of the longest report", longest, MAX_PAIRS),
        ]
    }

    /// Returns the experience of one node with another.
    pub fn between(&self, node: &Address, other: &Address) -> Experience {
        let pair = self.pairs(node).and_then(|pairs| pairs.0.get(other));
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
        self.own.0.remove(node);
        self.reports.remove(node);
        for report in self.reports.values_mut() {
            report.pairs.0.remove(node);
        }
    }

    /// Removes entries older than [`LIFETIME`].
    pub fn prune(&mut self, now: Duration) {
        let before = now.saturating_sub(LIFETIME);
        self.own.prune(before);
        self.reports.values_mut().for_each(|report| report.pairs.prune(before));
        self.reports.retain(|_, report| !report.pairs.0.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::tests::{address, seeded};

    const NOW: Duration = Duration::from_secs(1_000_000);

    fn reported(count: usize) -> Vec<(Address, Experience)> {
        (0..count).map(|number| (address(number), Experience::new(number as i64, 1))).collect()
    }

    #[test]
    fn counts_are_never_negative_and_never_overflow() {
        let experience = Experience::new(-5, i64::MIN);
        assert_eq!((experience.successes, experience.failures, experience.success_ratio()), (0, 0, None));
        let most = Experience::new(i64::MAX, i64::MAX);
        assert_eq!((most.calls(), most.success_ratio()), (u64::MAX - 1, Some(0.5)));
        let mut experiences = Experiences::new(address(0));
        experiences.own.0.insert(address(1), (most, NOW));
        experiences.succeeded(address(1), NOW);
        experiences.failed(address(1), NOW);
        assert_eq!(experiences.between(&address(0), &address(1)), most);
    }

    #[test]
    fn experiences_about_or_in_the_name_of_this_node_are_rejected() {
        let mut experiences = Experiences::new(address(0));
        experiences.succeeded(address(0), NOW);
        assert_eq!(experiences.of(&address(0)).count(), 0);
        assert!(!experiences.receive(address(0), &reported(1), NOW));
        assert!(!experiences.receive(address(1), &reported(MAX_PAIRS + 1), NOW));
        assert!(experiences.reports.is_empty());
    }

    #[test]
    fn a_newer_report_replaces_only_the_pairs_that_it_contains() {
        let mut experiences = Experiences::new(address(0));
        assert!(experiences.receive(address(1), &reported(3), NOW));
        assert!(experiences.receive(address(1), &[(address(2), Experience::new(7, 7))], NOW));
        let all: Vec<_> = (0..4).map(|other| experiences.between(&address(1), &address(other)).successes).collect();
        assert_eq!(all, [0, 1, 7, 0]);
    }

    #[test]
    fn reports_and_own_experiences_keep_within_their_limits() {
        let mut experiences = Experiences::new(address(0));
        let all = reported(3 * MAX_OWN);
        for (round, pairs) in all.chunks(MAX_PAIRS).enumerate() {
            assert!(experiences.receive(address(1), pairs, Duration::from_secs(round as u64)));
            assert_eq!(experiences.of(&address(1)).count(), MAX_PAIRS);
        }
        // The last report has evicted the earlier pairs.
        assert_eq!(experiences.between(&address(1), &all[all.len() - 1].0), all[all.len() - 1].1);
        for (round, (node, _)) in all.iter().enumerate() {
            experiences.succeeded(*node, Duration::from_secs(round as u64));
            experiences.receive(*node, &all[..1], Duration::from_secs(round as u64));
            assert!(experiences.reports.len() <= MAX_REPORTERS && experiences.own.0.len() <= MAX_OWN);
        }
        assert_eq!(experiences.own.0.len(), MAX_OWN);
        assert_eq!(experiences.between(&address(0), &all[all.len() - 1].0).successes, 1);
        assert_eq!(experiences.between(&address(0), &all[1].0).calls(), 0);
    }

    #[test]
    fn experiences_expire_after_a_day() {
        let mut experiences = Experiences::new(address(0));
        experiences.failed(address(1), NOW);
        experiences.succeeded(address(2), NOW - LIFETIME);
        experiences.succeeded(address(3), NOW - LIFETIME - Duration::from_secs(1));
        assert!(experiences.receive(address(1), &reported(2), NOW - LIFETIME - Duration::from_secs(1)));
        assert!(experiences.receive(address(2), &reported(2), NOW));
        experiences.prune(NOW);
        let own: Vec<_> = experiences.of(&address(0)).map(|(node, _)| *node).collect();
        let mut left = vec![address(1), address(2)];
        left.sort_unstable();
        assert_eq!(own, left);
        assert_eq!(experiences.reports.keys().collect::<Vec<_>>(), [&address(2)]);
    }

    #[test]
    fn a_selection_holds_up_to_a_hundred_experiences_chosen_uniformly() {
        let mut experiences = Experiences::new(address(0));
        (1..=MAX_PAIRS).for_each(|node| experiences.succeeded(address(node), NOW));
        let mut random = seeded(1);
        assert_eq!(experiences.selection(&mut random).len(), MAX_PAIRS);
        (1..=2 * MAX_PAIRS).for_each(|node| experiences.succeeded(address(node), NOW));
        let mut met = BTreeMap::new();
        for _ in 0..1_000 {
            let selection = experiences.selection(&mut random);
            assert_eq!(selection.len(), MAX_PAIRS);
            assert!(selection.is_sorted_by_key(|(node, _)| *node));
            selection.iter().for_each(|(node, _)| *met.entry(*node).or_insert(0) += 1);
        }
        assert_eq!(met.len(), 2 * MAX_PAIRS);
        assert!(met.values().all(|times| (420..580).contains(times)), "{met:?}");
        let [one, same, other] = [5, 5, 6].map(|seed| experiences.selection(&mut seeded(seed)));
        assert!(one == same && one != other);
    }
}
