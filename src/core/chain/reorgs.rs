//! Reorgs: changes of our chain that replaced blocks. The last ones are kept in memory.

use std::collections::VecDeque;

use super::candidate_branch::ChainUpdate;
use super::snapshot::ConfirmedBlock;
use crate::crypto::PublicKey;
use crate::model::{Hash256, Height, Timestamp};
use crate::store::StoredHeader;

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
    /// Number of their transactions that the new blocks do not contain. Those that are still valid return to the mempool.
    pub returned: usize,
}

impl Reorg {
    /// Creates the reorg of a change of the chain; `None` if it replaced nothing.
    pub fn of(update: &ChainUpdate, time: Timestamp, is_own: impl Fn(&ReplacedBlock) -> bool) -> Option<Reorg> {
        let replaced = update.undone.iter().rev().map(|block| {
            let ConfirmedBlock { header: StoredHeader { height, hash, timestamp, .. }, signer, .. } = *block;
            let transactions = block.transactions.len();
            let replaced = ReplacedBlock { height, hash, signer, timestamp, transactions, is_own: false };
            ReplacedBlock { is_own: is_own(&replaced), ..replaced }
        });
        let replaced: Vec<_> = replaced.collect();
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
    /// The kept reorgs, newest first.
    pub last: VecDeque<Reorg>,
    /// Number of reorgs since the start.
    pub count: u64,
    /// Number of replaced blocks since the start.
    pub replaced: u64,
    /// Number of those that were harvested here.
    pub own: u64,
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

    /// Returns the number of replaced blocks in the kept reorgs.
    pub fn kept_replaced(&self) -> usize {
        self.last.iter().map(|reorg| reorg.replaced.len()).sum()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::{BTreeSet, HashMap};

    use super::*;
    use crate::model::transaction::{ProvisionNamespace, wire_version};
    use crate::model::{Address, Amount, Body, NetworkByte, Transaction};
    use crate::store::StoredHeader;

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

    pub(in crate::chain) fn confirmed(block: &ReplacedBlock) -> ConfirmedBlock {
        let body = ProvisionNamespace {
            rental_fee_sink: Address::from_public_key(&block.signer, NetworkByte::TESTNET),
            rental_fee: Amount(0),
            new_part: "name".to_owned(),
            parent: None,
        };
        let transaction = Transaction {
            version: wire_version(NetworkByte::TESTNET, 1),
            timestamp: block.timestamp,
            signer: block.signer,
            signature: None,
            fee: Amount(1),
            deadline: Timestamp(9),
            body: Body::ProvisionNamespace(body),
        };
        let header = StoredHeader {
            height: block.height,
            hash: block.hash,
            generation_hash: Hash256::default(),
            timestamp: block.timestamp,
            difficulty: 1,
            score: 1,
            total_fee: Amount(0),
            beneficiary: None,
            ids: (1, 3),
            previous_harvests: [Height(0); 2],
        };
        ConfirmedBlock {
            header,
            parent: Hash256::default(),
            signer: block.signer,
            harvester: Address::from_public_key(&block.signer, NetworkByte::TESTNET),
            bytes: 0,
            transactions: (1..).zip(vec![transaction; block.transactions]).collect(),
            by_account: HashMap::new(),
        }
    }

    #[test]
    fn the_last_reorgs_are_remembered_and_all_are_counted() {
        let mut reorgs = ReorgLog::default();
        for number in 0..200 {
            reorgs.add(reorg(2 + number, 2));
        }
        assert_eq!((reorgs.count, reorgs.replaced, reorgs.own), (200, 400, 200));
        assert_eq!((reorgs.last.len(), reorgs.kept_replaced()), (MAX_REORGS, 2 * MAX_REORGS));
        assert_eq!(reorgs.last.iter().next().map(|reorg| reorg.common), Some(Height(200)));
    }

    #[test]
    fn a_change_is_a_reorg_if_it_replaces_blocks_and_marks_those_of_this_node() {
        let made = reorg(5, 3);
        let mut update = ChainUpdate {
            common: made.common,
            tip: made.tip,
            undone: made.replaced.iter().rev().map(confirmed).collect(),
            confirmed: BTreeSet::new(),
            returned: Vec::new(),
            cosignatures: Vec::new(),
        };
        let is_own = |block: &ReplacedBlock| block.height.0.is_multiple_of(2);
        assert_eq!(Reorg::of(&update, made.time, is_own), Some(Reorg { returned: 0, ..made }));
        update.undone.clear();
        assert_eq!(Reorg::of(&update, Timestamp(9), is_own), None);
    }

    #[test]
    fn reorgs_are_remembered_up_to_both_limits() {
        let mut reorgs = ReorgLog::default();
        (0..MAX_REORGS).for_each(|_| reorgs.add(reorg(2, 1)));
        assert_eq!(reorgs.last.len(), MAX_REORGS);
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
        assert_eq!(reorgs.last.len(), 5);
        reorgs.add(reorg(1_000, MAX_REPLACED as u64 + 1));
        assert_eq!(reorgs.last.len(), 1, "the last one is remembered whatever it is");
    }
}
