//! Reorgs: changes of our chain that have replaced blocks. The last ones are remembered while the node runs.

use std::collections::VecDeque;

use super::part::Switch;
use crate::crypto::PublicKey;
use crate::model::{Hash256, Height, Timestamp};

/// Most reorgs that are remembered, and most replaced blocks of all of them: about 200 KB.
pub const MAX_REORGS: usize = 64;
pub const MAX_REPLACED: usize = 2_000;

/// A block that was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// Its height.
    pub height: Height,
    /// Its hash.
    pub hash: Hash256,
    /// Who has signed it: the harvester.
    pub signer: PublicKey,
    /// When it was harvested.
    pub timestamp: Timestamp,
    /// Its direct transactions.
    pub transactions: usize,
    /// Whether this node has harvested it, or, before its start, an account that harvests on it now.
    pub is_own: bool,
}

/// A change of our chain that has replaced blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reorg {
    /// Network time when it happened.
    pub time: Timestamp,
    /// The last block that both chains have.
    pub common: Height,
    /// The last block since then.
    pub last: Height,
    /// The replaced blocks, the lowest first.
    pub replaced: Vec<Replaced>,
    /// Transactions of theirs that have gone back to the unconfirmed ones, as the new blocks do not hold them.
    pub returned: usize,
}

impl Reorg {
    /// That of a change of the chain, if it has replaced anything.
    pub fn of(switch: &Switch, time: Timestamp, is_own: impl Fn(&Replaced) -> bool) -> Option<Reorg> {
        let mark = |replaced: &Replaced| Replaced { is_own: is_own(replaced), ..*replaced };
        let replaced: Vec<_> = switch.replaced.iter().map(mark).collect();
        let (common, last, returned) = (switch.common, switch.last, switch.returned.len());
        (!replaced.is_empty()).then_some(Reorg { time, common, last, replaced, returned })
    }

    /// Replaced blocks that were harvested here.
    pub fn own(&self) -> impl Iterator<Item = &Replaced> {
        self.replaced.iter().filter(|replaced| replaced.is_own)
    }
}

/// The last reorgs, and how many there were.
#[derive(Clone, Debug, Default)]
pub struct Reorgs {
    last: VecDeque<Reorg>,
    count: u64,
    replaced: u64,
    own: u64,
}

impl Reorgs {
    /// Takes note of a reorg. The oldest ones are forgotten.
    pub fn note(&mut self, reorg: Reorg) {
        self.count += 1;
        self.replaced += reorg.replaced.len() as u64;
        self.own += reorg.own().count() as u64;
        self.last.push_front(reorg);
        while self.last.len() > MAX_REORGS || (self.last.len() > 1 && self.held() > MAX_REPLACED) {
            self.last.pop_back();
        }
    }

    /// The last ones, the newest first.
    pub fn iter(&self) -> impl Iterator<Item = &Reorg> {
        self.last.iter()
    }

    /// Replaced blocks that are remembered.
    pub fn held(&self) -> usize {
        self.last.iter().map(|reorg| reorg.replaced.len()).sum()
    }

    /// How many there were since the start.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Blocks that they have replaced.
    pub fn replaced(&self) -> u64 {
        self.replaced
    }

    /// Those of them that were harvested here.
    pub fn own(&self) -> u64 {
        self.own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reorg(first: u64, blocks: u64) -> Reorg {
        let block = |height| Replaced {
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
            last: Height(first + blocks),
            replaced: (first..first + blocks).map(block).collect(),
            returned: 1,
        }
    }

    #[test]
    fn the_last_reorgs_are_remembered_and_all_are_counted() {
        let mut reorgs = Reorgs::default();
        for number in 0..200 {
            reorgs.note(reorg(2 + number, 2));
        }
        assert_eq!((reorgs.count(), reorgs.replaced(), reorgs.own()), (200, 400, 200));
        assert_eq!((reorgs.iter().count(), reorgs.held()), (MAX_REORGS, 2 * MAX_REORGS));
        assert_eq!(reorgs.iter().next().map(|reorg| reorg.common), Some(Height(200)));
    }

    #[test]
    fn deep_reorgs_are_remembered_in_smaller_number() {
        let mut reorgs = Reorgs::default();
        for _ in 0..50 {
            reorgs.note(reorg(1_000, 360));
            assert!(reorgs.held() <= MAX_REPLACED);
        }
        assert_eq!(reorgs.iter().count(), 5);
        reorgs.note(reorg(1_000, MAX_REPLACED as u64 + 1));
        assert_eq!(reorgs.iter().count(), 1, "the last one is remembered whatever it is");
    }
}
