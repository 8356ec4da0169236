//! Reorgs: changes of our chain that replaced blocks. The last ones are kept in memory.

use std::collections::VecDeque;

use super::candidate_branch::ChainUpdate;
use crate::crypto::PublicKey;
use crate::model::{Hash256, Height, Timestamp};

/// Maximum of kept reorgs, and of replaced blocks in all of them: about 200 KB.
pub const MAX_REORGS: usize = 64;
pub const MAX_REPLACED: usize = 2_000;

/// A replaced block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplacedBlock {
    /// Height of the block.
    pub height: Height,
    /// Hash of the block.
    pub hash: Hash256,
    /// Key of the harvester.
    pub signer: PublicKey,
    /// Its time stamp.
    pub timestamp: Timestamp,
    /// Number of its top-level transactions.
    pub transactions: usize,
    /// Whether this node harvested it, or, for a block from before the start, an account that harvests here now.
    pub is_own: bool,
}

/// A change of our chain that replaced blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reorg {
    /// Network time of the reorg.
    pub time: Timestamp,
    /// The last common block.
    pub common: Height,
    /// The new tip.
    pub tip: Height,
    /// The replaced blocks, lowest first.
    pub replaced: Vec<ReplacedBlock>,
    /// Number of their transactions that returned to the mempool because the new blocks do not contain them.
    pub returned: usize,
}

impl Reorg {
    /// Creates the reorg of a change of the chain; `None` if it replaced nothing.
    pub fn of(update: &ChainUpdate, time: Timestamp, is_own: impl Fn(&ReplacedBlock) -> bool) -> Option<Reorg> {
        let mark = |replaced: &ReplacedBlock| ReplacedBlock { is_own: is_own(replaced), ..*replaced };
        let replaced: Vec<_> = update.replaced.iter().map(mark).collect();
        let (common, last, returned) = (update.common, update.tip, update.returned.len());
        (!replaced.is_empty()).then_some(Reorg { time, common, tip: last, replaced, returned })
    }

    /// Returns the replaced blocks that were harvested here.
    pub fn own(&self) -> impl Iterator<Item = &ReplacedBlock> {
        self.replaced.iter().filter(|replaced| replaced.is_own)
    }
}

/// The last reorgs, and totals since the start.
#[derive(Clone, Debug, Default)]
pub struct ReorgLog {
    last: VecDeque<Reorg>,
    count: u64,
    replaced: u64,
    own: u64,
}

impl ReorgLog {
    /// Adds a reorg. The oldest ones are dropped beyond the limits.
    pub fn add(&mut self, reorg: Reorg) {
        self.count += 1;
        self.replaced += reorg.replaced.len() as u64;
        self.own += reorg.own().count() as u64;
        self.last.push_front(reorg);
        while self.last.len() > MAX_REORGS || (self.last.len() > 1 && self.kept_replaced() > MAX_REPLACED) {
            self.last.pop_back();
        }
    }

    /// Returns the kept reorgs, newest first.
    pub fn iter(&self) -> impl Iterator<Item = &Reorg> {
        self.last.iter()
    }

    /// Returns the number of replaced blocks in the kept reorgs.
    pub fn kept_replaced(&self) -> usize {
        self.last.iter().map(|reorg| reorg.replaced.len()).sum()
    }

    /// Returns the number of reorgs since the start.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of replaced blocks since the start.
    pub fn replaced(&self) -> u64 {
        self.replaced
    }

    /// Returns the number of those that were harvested here.
    pub fn own(&self) -> u64 {
        self.own
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn reorg(first: u64, blocks: u64) -> Reorg {
        let block = |height| ReplacedBlock {
            height: Height(height),
            hash: Hash256([height as u8; 32]),
            signer: PublicKey([1; 32]),
            timestamp: Timestamp(7),
            transactions: 2,
            is_own: height % 2 == 0,
        };
        Reorg {
            time: Timestamp(9),
            common: Height(first - 1),
            tip: Height(first + blocks),
            replaced: (first..first + blocks).map(block).collect(),
            returned: 1,
        }
    }

    #[test]
    fn the_last_reorgs_are_remembered_and_all_are_counted() {
        let mut reorgs = ReorgLog::default();
        for number in 0..200 {
            reorgs.add(reorg(2 + number, 2));
        }
        assert_eq!((reorgs.count(), reorgs.replaced(), reorgs.own()), (200, 400, 200));
        assert_eq!((reorgs.iter().count(), reorgs.kept_replaced()), (MAX_REORGS, 2 * MAX_REORGS));
        assert_eq!(reorgs.iter().next().map(|reorg| reorg.common), Some(Height(200)));
    }

    #[test]
    fn a_change_is_a_reorg_if_it_replaces_blocks_and_marks_those_of_this_node() {
        let made = reorg(5, 3);
        let mut update = ChainUpdate {
            common: made.common,
            tip: made.tip,
            replaced: made.replaced.iter().map(|block| ReplacedBlock { is_own: false, ..*block }).collect(),
            confirmed: BTreeSet::new(),
            returned: Vec::new(),
        };
        let is_own = |block: &ReplacedBlock| block.height.0.is_multiple_of(2);
        assert_eq!(Reorg::of(&update, made.time, is_own), Some(Reorg { returned: 0, ..made }));
        update.replaced.clear();
        assert_eq!(Reorg::of(&update, Timestamp(9), is_own), None);
    }

    #[test]
    fn reorgs_are_remembered_up_to_both_limits() {
        let mut reorgs = ReorgLog::default();
        (0..MAX_REORGS).for_each(|_| reorgs.add(reorg(2, 1)));
        assert_eq!(reorgs.iter().count(), MAX_REORGS);
        let mut reorgs = ReorgLog::default();
        (0..2).for_each(|_| reorgs.add(reorg(2, MAX_REPLACED as u64 / 2)));
        assert_eq!(reorgs.kept_replaced(), MAX_REPLACED);
        reorgs.add(reorg(2, 1));
        assert_eq!(reorgs.kept_replaced(), MAX_REPLACED / 2 + 1);
    }

    #[test]
    fn deep_reorgs_are_remembered_in_smaller_number() {
        let mut reorgs = ReorgLog::default();
        for _ in 0..50 {
            reorgs.add(reorg(1_000, 360));
            assert!(reorgs.kept_replaced() <= MAX_REPLACED);
        }
        assert_eq!(reorgs.iter().count(), 5);
        reorgs.add(reorg(1_000, MAX_REPLACED as u64 + 1));
        assert_eq!(reorgs.iter().count(), 1, "the last one is remembered whatever it is");
    }
}
