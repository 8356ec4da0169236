//! Properties of every chain part and of every sequence of imports and rollbacks, tested at random places of the
//! recorded chains.
//!
//! Every run tests the same cases; `NISD_SEED` selects others, `NISD_CASES=n` runs n times as many.

use crate::common::recorded_chain::{Chain, FAR_FUTURE};
use crate::common::remote_node::process_branch;
use crate::common::{Random, from_environment, print_notice};
use crate::vectors::chain_range::{ChainRange, KnownState, MAIN, lowest_rollback_height};
use crate::vectors::mutation::{Change, Effect, mutate};
use nisd::chain::{BranchOutcome, CandidateBranch, RollbackError, Validity};
use nisd::model::{Block, Height};
use nisd::rules::ValidationResult;
use nisd::store::{Store, stored_block};
use tempfile::TempDir;

/// Default seed.
const SEED: u64 = 1;

fn seed() -> u64 {
    from_environment("NISD_SEED").unwrap_or(SEED)
}

/// Tests a property with the requested number of cases.
fn try_cases(cases: u32, mut property: impl FnMut(&mut Random)) {
    let mut random = Random(seed());
    print_notice(&format!("NISD_SEED={}", random.0));
    (0..cases * from_environment("NISD_CASES").unwrap_or(1)).for_each(|_| property(&mut random));
}

/// Returns the whole smallest chain, with its losing branches.
fn whole_of_tiny() -> ChainRange {
    ChainRange::new(Chain::tiny(), 1, 60)
}

/// Returns ranges of `all-forks` with losing branches across importance recalculations, and one range at a random
/// place.
fn ranges_of_all_forks() -> Vec<ChainRange> {
    let anywhere = 2 + Random(seed()).next() % 3_900;
    let open = |start: u64| ChainRange::new(Chain::open("all-forks"), start, start + 30);
    [345, 705, 1_425, anywhere].into_iter().map(open).collect()
}

/// Returns a range of a chain with a rewrite limit of 24 blocks, with a losing branch.
fn range_of_one_year() -> ChainRange {
    ChainRange::new(Chain::open("one-year"), 690, 740)
}

/// A store that moves along the chain.
struct Walker<'w> {
    range: &'w ChainRange,
    folder: TempDir,
    store: Option<Store>,
}

impl<'w> Walker<'w> {
    fn new(range: &'w ChainRange) -> Walker<'w> {
        let folder = tempfile::tempdir().unwrap();
        let store = Some(range.open_store(folder.path()));
        Walker { range, folder, store }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    /// Moves to a height of the main chain.
    fn go_to(&mut self, height: u64) {
        let is_above = KnownState::of(self.store()).tip.height.0 > height;
        if is_above && self.range.chain.roll_back(self.store(), height).is_err() {
            self.store = None;
            self.store = Some(self.range.open_store(self.folder.path()));
        }
        let here = KnownState::of(self.store()).tip.height.0;
        self.range.import(self.store(), &self.range.blocks(MAIN, here, height).iter().collect::<Vec<_>>());
        assert_eq!(KnownState::of(self.store()), *self.range.point(MAIN, height), "height {height}");
    }
}

fn offer(range: &ChainRange, store: &Store, common: u64, part: Vec<Block>) -> Result<BranchOutcome, RollbackError> {
    let part = CandidateBranch::new(store, &range.chain.network, Height(common), part)?;
    Ok(process_branch(part, FAR_FUTURE))
}

/// Checks the outcome of a part: the state after `last` if that is above the replaced tip.
fn assert_outcome(range: &ChainRange, store: &Store, outcome: &BranchOutcome, [common, tip, last]: [u64; 3]) {
    let score = |height| range.point(MAIN, height).tip.score - range.point(MAIN, common).tip.score;
    assert_eq!(outcome.validity, Validity::Valid);
    assert_eq!(outcome.scores, Some((score(tip) as i64, score(last) as i64)));
    let expected = match (last > tip, last > common) {
        (true, _) => ValidationResult::Success,
        (false, true) => ValidationResult::Neutral,
        (false, false) => ValidationResult::FailureChainInvalid,
    };
    assert_eq!(outcome.as_push_result(), Ok(expected));
    assert_eq!(outcome.update.is_some(), last > tip);
    assert_eq!(KnownState::of(store), *range.point(MAIN, tip.max(last)));
}

/// Offers a random part with one random change, and then the part itself; returns whether the change made it invalid.
fn check_changed_part(walker: &mut Walker<'_>, random: &mut Random) -> bool {
    let range = walker.range;
    let common = range.start + random.below((range.last(MAIN) - 1 - range.start) as usize) as u64;
    let tip = (common + random.below(4) as u64).min(range.last(MAIN) - 1);
    let last = (tip + 1 + random.below(5) as u64).min(range.last(MAIN));
    let part = range.blocks(MAIN, common, last);
    walker.go_to(tip);
    let change = Change::ALL[random.below(Change::ALL.len())];
    let changed = mutate(&part, change, &range.chain.network, random);
    let is_rejected = matches!(changed, Some((_, Effect::Rejected)));
    if let Some((changed, effect)) = changed {
        let outcome = offer(range, walker.store(), common, changed).unwrap();
        match effect {
            Effect::Rejected => {
                assert_ne!(outcome.validity, Validity::Valid);
                assert!(outcome.update.is_none() && outcome.scores.is_none());
                assert_eq!(KnownState::of(walker.store()), *range.point(MAIN, tip), "a rejected part left a trace");
            }
            Effect::None => assert_outcome(range, walker.store(), &outcome, [common, tip, last]),
            Effect::Shorter(blocks) => {
                assert_outcome(range, walker.store(), &outcome, [common, tip, common + blocks as u64]);
            }
        }
        walker.go_to(tip);
    }
    let outcome = offer(range, walker.store(), common, part.clone()).unwrap();
    assert_outcome(range, walker.store(), &outcome, [common, tip, last]);
    let snapshot = walker.store().snapshot().unwrap();
    let context = nisd::codec::Context::of(&range.chain.network);
    for block in part {
        assert_eq!(stored_block(&snapshot, block.height, context).unwrap().unwrap().1, block);
    }
    is_rejected
}

fn every_changed_part_is_rejected(range: &ChainRange, cases: u32) {
    let (mut walker, mut rejected, mut all) = (Walker::new(range), 0, 0);
    try_cases(cases, |random| {
        rejected += u32::from(check_changed_part(&mut walker, random));
        all += 1;
    });
    print_notice(&format!("{rejected} of {all} changed parts above {} had to be rejected", range.start));
    assert!(rejected * 2 > all, "most changes matter");
}

#[test]
fn a_branch_of_tiny_with_one_change_is_rejected_and_leaves_no_trace() {
    every_changed_part_is_rejected(&whole_of_tiny(), 100);
}

#[test]
fn a_branch_of_all_forks_with_one_change_is_rejected_and_leaves_no_trace() {
    ranges_of_all_forks().iter().for_each(|range| every_changed_part_is_rejected(range, 16));
}

/// One operation on a store. Numbers are taken modulo the available range.
#[derive(Clone, Copy, Debug)]
enum Move {
    /// Imports the next blocks of our branch, as a file or in parts of the given length.
    Extend { blocks: u64, part: Option<u64> },
    /// Rolls back this many blocks.
    RollBack { blocks: u64 },
    /// Offers a branch from this many blocks below its fork up to some height.
    Offer { branch: usize, below: u64, last: u64 },
}

fn random_move(random: &mut Random) -> Move {
    let mut below = |count: usize| random.below(count) as u64;
    match below(9) {
        0..3 => Move::Extend { blocks: 1 + below(8), part: Some(1 + below(3)).filter(|_| below(2) == 0) },
        3..5 => Move::RollBack { blocks: 1 + if below(5) == 0 { below(39) } else { below(8) } },
        _ => {
            let under = if below(5) == 0 { below(40) } else { below(3) };
            Move::Offer { branch: below(1 << 16) as usize, below: under, last: 1 + below(19) }
        }
    }
}

/// A store and its expected position.
struct Journey<'w> {
    walker: Walker<'w>,
    branch: usize,
    height: u64,
    /// The lowest height that blocks can be rolled back to.
    lowest: u64,
    limit: u64,
}

impl<'w> Journey<'w> {
    fn new(range: &'w ChainRange) -> Journey<'w> {
        let limit = range.chain.network.chain.rewrite_limit;
        let lowest = lowest_rollback_height(range.start, limit);
        Journey { walker: Walker::new(range), branch: MAIN, height: range.start, lowest, limit }
    }

    fn is_at(&mut self, branch: usize, height: u64) {
        self.branch = if height <= self.walker.range.common(branch) { MAIN } else { branch };
        self.height = height;
        self.lowest = self.lowest.max(lowest_rollback_height(height, self.limit));
    }

    fn go(&mut self, one: Move) {
        match one {
            Move::Extend { blocks, part } => self.extend(blocks, part),
            Move::RollBack { blocks } => self.roll_back(blocks),
            Move::Offer { branch, below, last } => self.offer(branch, below, last),
        }
        let expected = self.walker.range.point(self.branch, self.height);
        assert_eq!(KnownState::of(self.walker.store()), *expected, "after {one:?}");
    }

    fn extend(&mut self, blocks: u64, part: Option<u64>) {
        let range = self.walker.range;
        let last = (self.height + blocks).min(range.last(self.branch));
        let blocks = range.blocks(self.branch, self.height, last);
        match part {
            None => range.import(self.walker.store(), &blocks.iter().collect::<Vec<_>>()),
            Some(length) => {
                for part in blocks.chunks(length as usize) {
                    let common = part[0].height.0 - 1;
                    let outcome = offer(range, self.walker.store(), common, part.to_vec()).unwrap();
                    assert!(outcome.update.is_some(), "{:?}", outcome.validity);
                }
            }
        }
        self.is_at(self.branch, last);
    }

    fn roll_back(&mut self, blocks: u64) {
        let target = self.height.saturating_sub(blocks).max(self.walker.range.start);
        match self.walker.range.chain.roll_back(self.walker.store(), target) {
            Ok(()) if target < self.height && target >= self.lowest => self.is_at(self.branch, target),
            Err(RollbackError::NotBelow { .. }) if target == self.height => {}
            Err(RollbackError::TooDeep { lowest }) if target < self.lowest => assert_eq!(lowest.0, self.lowest),
            other => panic!("back from {} to {target}, lowest {}: {other:?}", self.height, self.lowest),
        }
    }

    fn offer(&mut self, branch: usize, below: u64, last: u64) {
        let range = self.walker.range;
        let branch = branch % range.branches();
        let fork = match branch == self.branch {
            true => self.height,
            false => self.height.min(range.common(branch)).min(range.common(self.branch)),
        };
        let common = fork.saturating_sub(below).max(range.start);
        let last = (common + last).min(range.last(branch));
        let outcome = offer(range, self.walker.store(), common, range.blocks(branch, common, last));
        if common < self.lowest {
            assert!(matches!(outcome, Err(RollbackError::TooDeep { lowest }) if lowest.0 == self.lowest));
            return;
        }
        let outcome = outcome.unwrap();
        let score = |branch, height| range.point(branch, height).tip.score - range.point(branch, common).tip.score;
        let (ours, theirs) = (score(self.branch, self.height), score(branch, last));
        assert_eq!((outcome.validity.clone(), outcome.scores), (Validity::Valid, Some((ours as i64, theirs as i64))));
        assert_eq!(outcome.update.is_some(), theirs > ours, "{theirs} against {ours}");
        if theirs > ours {
            self.is_at(branch, last);
        } else if theirs > 0 {
            assert_eq!(outcome.as_push_result(), Ok(ValidationResult::Neutral));
        }
    }
}

fn every_journey_ends_where_the_straight_way_does(range: &ChainRange, cases: u32) {
    try_cases(cases, |random| {
        let mut journey = Journey::new(range);
        (0..4 + random.below(16)).for_each(|_| journey.go(random_move(random)));
    });
}

#[test]
fn rollbacks_and_replays_in_tiny_give_the_state_of_the_straight_chain() {
    every_journey_ends_where_the_straight_way_does(&whole_of_tiny(), 24);
}

#[test]
fn rollbacks_and_replays_in_all_forks_give_the_state_of_the_straight_chain() {
    for range in ranges_of_all_forks() {
        every_journey_ends_where_the_straight_way_does(&range, 6);
    }
}

#[test]
fn rollbacks_and_replays_in_one_year_give_the_state_of_the_straight_chain() {
    every_journey_ends_where_the_straight_way_does(&range_of_one_year(), 12);
}

/// A journey that starts with the only move that would exceed the rewrite limit.
#[test]
fn a_branch_beyond_the_rewrite_limit_is_rejected_and_changes_nothing() {
    let range = range_of_one_year();
    let mut journey = Journey::new(&range);
    journey.extend(40, None);
    let (height, limit) = (journey.height, journey.limit);
    assert_eq!((height, limit), (730, 24));
    print_notice(&format!("one-year: the lowest height is {} at {height}", journey.lowest));
    journey.go(Move::Offer { branch: MAIN, below: limit + 1, last: limit + 5 });
    assert_eq!(journey.height, height);
    journey.go(Move::RollBack { blocks: limit + 1 });
    assert_eq!(journey.height, height);
    journey.go(Move::Offer { branch: MAIN, below: limit, last: limit + 5 });
    assert_eq!(journey.height, height + 5);
    // A rollback uses up the limit: a part cannot undo further blocks.
    journey.go(Move::RollBack { blocks: limit });
    assert_eq!(journey.height, height + 5 - limit);
    journey.go(Move::Offer { branch: MAIN, below: 1, last: 10 });
    assert_eq!(journey.height, height + 5 - limit);
}
