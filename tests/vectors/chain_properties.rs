//! Properties of every chain part and of every sequence of imports and rollbacks, tested at random places of the
//! recorded chains.
//!
//! Every run tests the same cases; `NISD_SEED` selects others, `NISD_CASES=n` runs n times as many.

use std::cell::{Cell, RefCell};

use crate::common::mutation::{Change, Effect, mutate};
use crate::common::recorded_chain::{Chain, FAR_FUTURE};
use crate::common::remote::process_branch;
use crate::common::window::{ChainRange, KnownState, MAIN, lowest_rollback_height};
use crate::common::{Random, from_environment, print_notice};
use nisd::chain::{BranchOutcome, CandidateBranch, RollbackError, Validity, rollback};
use nisd::model::{Block, Height};
use nisd::rules::ValidationResult;
use nisd::store::{Store, stored_block};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tempfile::TempDir;

/// Default seed.
const SEED: u64 = 1;
/// Attempts to shrink a failing case.
const SHRINKS: u32 = 200;

fn seed() -> u64 {
    from_environment("NISD_SEED").unwrap_or(SEED)
}

/// Tests a property with the requested number of cases.
fn try_cases<S: Strategy>(what: &str, cases: u32, strategy: &S, property: impl Fn(S::Value)) {
    let seed = seed();
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let cases = cases * from_environment("NISD_CASES").unwrap_or(1);
    let config = Config { cases, max_shrink_iters: SHRINKS, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let result = runner.run(strategy, |case| {
        property(case);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{what}: NISD_SEED={seed}: {error}");
    }
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
    window: &'w ChainRange,
    folder: TempDir,
    store: Option<Store>,
}

impl<'w> Walker<'w> {
    fn new(window: &'w ChainRange) -> Walker<'w> {
        let folder = tempfile::tempdir().unwrap();
        let store = Some(window.open_store(folder.path()));
        Walker { window, folder, store }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    /// Moves to a height of the main chain, whatever state the last case, which may have failed, has left.
    fn go_to(&mut self, height: u64) {
        let here = KnownState::of(self.store());
        let is_known = here.tip.height.0 <= self.window.last(MAIN)
            && here == *self.window.point(MAIN, here.tip.height.0)
            && (here.tip.height.0 <= height || roll_back_store(self.store(), height).is_ok());
        if !is_known {
            self.store = None;
            self.store = Some(self.window.open_store(self.folder.path()));
        }
        let here = KnownState::of(self.store()).tip.height.0;
        self.window.import(self.store(), &self.window.blocks(MAIN, here, height).iter().collect::<Vec<_>>());
        assert_eq!(KnownState::of(self.store()), *self.window.point(MAIN, height), "height {height}");
    }
}

fn roll_back_store(store: &Store, height: u64) -> Result<(), RollbackError> {
    let mut batch = store.begin_write()?;
    rollback(&mut batch, Height(height))?;
    Ok(batch.commit()?)
}

fn offer(window: &ChainRange, store: &Store, common: u64, part: Vec<Block>) -> Result<BranchOutcome, RollbackError> {
    let part = CandidateBranch::new(store, &window.chain.network, Height(common), part)?;
    Ok(process_branch(part, FAR_FUTURE))
}

/// A chain part with one change: height of the common block, number of our blocks it replaces, number of additional
/// blocks, the change, and the seed of its place.
type ChangedPart = (u64, u64, u64, Change, u64);

fn changed_parts(window: &ChainRange) -> impl Strategy<Value = ChangedPart> + use<> {
    let commons = window.start..window.last(MAIN) - 1;
    (commons, 0..4u64, 1..6u64, prop::sample::select(Change::ALL.to_vec()), any::<u64>())
}

/// Checks the outcome of a part: the state after `last` if that is above the replaced tip.
fn assert_outcome(window: &ChainRange, store: &Store, outcome: &BranchOutcome, [common, tip, last]: [u64; 3]) {
    let score = |height| window.point(MAIN, height).tip.score - window.point(MAIN, common).tip.score;
    assert_eq!(outcome.validity, Validity::Valid);
    assert_eq!(outcome.scores, Some((score(tip) as i64, score(last) as i64)));
    let expected = match (last > tip, last > common) {
        (true, _) => ValidationResult::Success,
        (false, true) => ValidationResult::Neutral,
        (false, false) => ValidationResult::FailureChainInvalid,
    };
    assert_eq!(outcome.as_push_result(), Ok(expected));
    assert_eq!(outcome.update.is_some(), last > tip);
    assert_eq!(KnownState::of(store), *window.point(MAIN, tip.max(last)));
}

/// Returns whether the change made the part invalid.
fn check_changed_part(walker: &mut Walker<'_>, (common, undone, more, change, place): ChangedPart) -> bool {
    let window = walker.window;
    let tip = (common + undone).min(window.last(MAIN) - 1);
    let last = (tip + more).min(window.last(MAIN));
    let part = window.blocks(MAIN, common, last);
    walker.go_to(tip);
    let changed = mutate(&part, change, &window.chain.network, &mut Random(place));
    let is_refused = matches!(changed, Some((_, Effect::Rejected)));
    if let Some((changed, effect)) = changed {
        let outcome = offer(window, walker.store(), common, changed).unwrap();
        match effect {
            Effect::Rejected => {
                assert_ne!(outcome.validity, Validity::Valid);
                assert!(outcome.update.is_none() && outcome.scores.is_none());
                assert_eq!(KnownState::of(walker.store()), *window.point(MAIN, tip), "a refused part left a trace");
            }
            Effect::None => assert_outcome(window, walker.store(), &outcome, [common, tip, last]),
            Effect::Shorter(blocks) => {
                assert_outcome(window, walker.store(), &outcome, [common, tip, common + blocks as u64]);
            }
        }
        walker.go_to(tip);
    }
    let outcome = offer(window, walker.store(), common, part.clone()).unwrap();
    assert_outcome(window, walker.store(), &outcome, [common, tip, last]);
    let snapshot = walker.store().snapshot().unwrap();
    let context = nisd::codec::Context::of(&window.chain.network);
    for block in part {
        assert_eq!(stored_block(&snapshot, block.height, context).unwrap().unwrap().1, block);
    }
    is_refused
}

fn every_changed_part_is_refused(window: &ChainRange, cases: u32) {
    let (walker, refused) = (RefCell::new(Walker::new(window)), Cell::new(0));
    try_cases("a part with one change", cases, &changed_parts(window), |case| {
        let is_refused = check_changed_part(&mut walker.borrow_mut(), case);
        refused.set(refused.get() + u32::from(is_refused));
    });
    print_notice(&format!("{} of {cases} changed parts above {} had to be refused", refused.get(), window.start));
    assert!(refused.get() * 2 > cases, "most changes matter");
}

#[test]
fn a_branch_of_tiny_with_one_change_is_rejected_and_leaves_no_trace() {
    every_changed_part_is_refused(&whole_of_tiny(), 100);
}

#[test]
fn a_branch_of_all_forks_with_one_change_is_rejected_and_leaves_no_trace() {
    ranges_of_all_forks().iter().for_each(|window| every_changed_part_is_refused(window, 16));
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

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let extend = (1..9u64, prop::option::of(1..4u64)).prop_map(|(blocks, part)| Move::Extend { blocks, part });
    let back = prop_oneof![4 => 1..9u64, 1 => 1..40u64].prop_map(|blocks| Move::RollBack { blocks });
    let below = prop_oneof![4 => 0..3u64, 1 => 0..40u64];
    let offer = (any::<usize>(), below, 1..20u64);
    let offer = offer.prop_map(|(branch, below, last)| Move::Offer { branch, below, last });
    prop::collection::vec(prop_oneof![3 => extend, 2 => back, 4 => offer], 4..20)
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
    fn new(window: &'w ChainRange) -> Journey<'w> {
        let limit = window.chain.network.chain.rewrite_limit;
        let lowest = lowest_rollback_height(window.start, limit);
        Journey { walker: Walker::new(window), branch: MAIN, height: window.start, lowest, limit }
    }

    fn is_at(&mut self, branch: usize, height: u64) {
        self.branch = if height <= self.walker.window.common(branch) { MAIN } else { branch };
        self.height = height;
        self.lowest = self.lowest.max(lowest_rollback_height(height, self.limit));
    }

    fn go(&mut self, one: Move) {
        match one {
            Move::Extend { blocks, part } => self.extend(blocks, part),
            Move::RollBack { blocks } => self.roll_back(blocks),
            Move::Offer { branch, below, last } => self.offer(branch, below, last),
        }
        let expected = self.walker.window.point(self.branch, self.height);
        assert_eq!(KnownState::of(self.walker.store()), *expected, "after {one:?}");
    }

    fn extend(&mut self, blocks: u64, part: Option<u64>) {
        let window = self.walker.window;
        let last = (self.height + blocks).min(window.last(self.branch));
        let blocks = window.blocks(self.branch, self.height, last);
        match part {
            None => window.import(self.walker.store(), &blocks.iter().collect::<Vec<_>>()),
            Some(length) => {
                for part in blocks.chunks(length as usize) {
                    let common = part[0].height.0 - 1;
                    let outcome = offer(window, self.walker.store(), common, part.to_vec()).unwrap();
                    assert!(outcome.update.is_some(), "{:?}", outcome.validity);
                }
            }
        }
        self.is_at(self.branch, last);
    }

    fn roll_back(&mut self, blocks: u64) {
        let target = self.height.saturating_sub(blocks).max(self.walker.window.start);
        match roll_back_store(self.walker.store(), target) {
            Ok(()) if target < self.height && target >= self.lowest => self.is_at(self.branch, target),
            Err(RollbackError::NotBelow { .. }) if target == self.height => {}
            Err(RollbackError::TooDeep { lowest }) if target < self.lowest => assert_eq!(lowest.0, self.lowest),
            other => panic!("back from {} to {target}, lowest {}: {other:?}", self.height, self.lowest),
        }
    }

    fn offer(&mut self, branch: usize, below: u64, last: u64) {
        let window = self.walker.window;
        let branch = branch % window.branches();
        let fork = match branch == self.branch {
            true => self.height,
            false => self.height.min(window.common(branch)).min(window.common(self.branch)),
        };
        let common = fork.saturating_sub(below).max(window.start);
        let last = (common + last).min(window.last(branch));
        let outcome = offer(window, self.walker.store(), common, window.blocks(branch, common, last));
        if common < self.lowest {
            assert!(matches!(outcome, Err(RollbackError::TooDeep { lowest }) if lowest.0 == self.lowest));
            return;
        }
        let outcome = outcome.unwrap();
        let score = |branch, height| window.point(branch, height).tip.score - window.point(branch, common).tip.score;
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

fn every_journey_ends_where_the_straight_way_does(window: &ChainRange, cases: u32) {
    try_cases("a way back and forth", cases, &moves(), |moves| {
        let mut journey = Journey::new(window);
        moves.into_iter().for_each(|one| journey.go(one));
    });
}

#[test]
fn rollbacks_and_replays_in_tiny_give_the_state_of_the_straight_chain() {
    every_journey_ends_where_the_straight_way_does(&whole_of_tiny(), 24);
}

#[test]
fn rollbacks_and_replays_in_all_forks_give_the_state_of_the_straight_chain() {
    for window in ranges_of_all_forks() {
        every_journey_ends_where_the_straight_way_does(&window, 6);
    }
}

#[test]
fn rollbacks_and_replays_in_one_year_give_the_state_of_the_straight_chain() {
    every_journey_ends_where_the_straight_way_does(&range_of_one_year(), 12);
}

/// A journey that starts with the only move that would exceed the rewrite limit.
#[test]
fn a_branch_beyond_the_rewrite_limit_is_rejected_and_changes_nothing() {
    let window = range_of_one_year();
    let mut journey = Journey::new(&window);
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
