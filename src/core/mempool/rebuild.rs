//! Maintenance: removal of confirmed and expired transactions, and the rebuild of the overlay state that follows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;
use std::rc::Rc;
use std::time::Duration;

use super::admission::check_signatures;
use super::{ChainSnapshot, Fate, FateRecord, Mempool, MempoolContent, MempoolEntry};
use crate::budget::Budget;
use crate::model::{Hash256, Height, Timestamp, Transaction};
use crate::rules::{Rejection, ValidationResult};
use crate::store::{Result, stored_block};

/// Interval between two removals of expired transactions.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(1);
/// Work units for one transaction of a rebuild, and for reading one block.
const UNITS_PER_TRANSACTION: u32 = 50;
const UNITS_PER_BLOCK: u32 = 200;

/// Blocks that were added to the chain, and the hashes of the transactions of those that were read so far.
pub struct AddedBlocks {
    next: Height,
    last: Height,
    confirmed: BTreeSet<Hash256>,
}

/// The new content during a rebuild.
pub struct Rebuild {
    content: MempoolContent,
    /// Numbers of the transactions of the mempool that are still to be taken over.
    pending: VecDeque<u64>,
    /// Transactions of replaced blocks that are still to be accepted, after `pending`; each with the height of the last
    /// block before those replaced.
    returned: VecDeque<(Transaction, Height)>,
    /// Those of them that were invalid, by time and order of arrival, each with its fate. Each is tried once more after all
    /// others, as it may spend what another one pays.
    retried: BTreeMap<(Timestamp, u64), (Rc<Transaction>, Height, Fate)>,
}

impl Rebuild {
    /// Removes the next transaction of a replaced block, and returns it with the height of the last block before those
    /// replaced; if it is tried again, also with its fate.
    fn next_returned(&mut self) -> Option<(Transaction, Height, Option<Fate>)> {
        if let Some((transaction, common)) = self.returned.pop_front() {
            return Some((transaction, common, None));
        }
        let (_, (transaction, common, fate)) = self.retried.pop_first()?;
        Some((Rc::unwrap_or_clone(transaction), common, Some(fate)))
    }

    /// Returns the transactions of replaced blocks that are still to be accepted.
    fn into_returned(self) -> VecDeque<(Transaction, Height)> {
        let retried = self.retried.into_values();
        let retried = retried.map(|(transaction, common, _)| (Rc::unwrap_or_clone(transaction), common));
        self.returned.into_iter().chain(retried).collect()
    }
}

impl Mempool {
    /// Returns whether the mempool is not yet up to date with the chain.
    pub fn has_work(&self) -> bool {
        self.added_blocks.is_some() || self.is_rebuilding()
    }

    /// Removes expired transactions once a second, unless the clock is disputed; `uptime` is the time since the start.
    pub fn tick(&mut self, now: Timestamp, uptime: Duration) {
        self.uptime = uptime;
        self.fates.tick(now);
        if uptime >= self.next_expiry {
            self.next_expiry = uptime + EXPIRY_INTERVAL;
            if !self.is_clock_disputed {
                self.drop_expired(now);
            }
        }
    }

    /// Follows a jump of the clock by `millis`, which is disputed from then on.
    pub fn clock_jumped(&mut self, millis: i64) {
        self.is_clock_disputed = true;
        self.fates.clock_jumped(millis / 1000);
    }

    /// Brings the mempool up to date with the chain, within the budget.
    pub fn work(&mut self, chain: &ChainSnapshot<'_>, budget: &mut Budget) -> Result<()> {
        while self.has_work() && !budget.is_exhausted() {
            if let Some(added) = &mut self.added_blocks {
                budget.charge(UNITS_PER_BLOCK);
                let block = stored_block(chain.snapshot, added.next)?;
                let transactions = block.into_iter().flat_map(|(_, block)| block.transactions);
                added.confirmed.extend(transactions.map(|transaction| transaction.hash()));
                added.next = added.next.next();
                let last = added.last;
                if added.next > last {
                    self.chain_changed(last, BTreeSet::new(), Vec::new());
                }
            } else {
                self.step_rebuild(chain, budget)?;
            }
        }
        Ok(())
    }

    /// Records that blocks were added to the chain.
    pub fn blocks_added(&mut self, first: Height, last: Height) {
        let is_idle = self.is_idle();
        match &mut self.added_blocks {
            Some(added) => added.last = last,
            None if is_idle => {}
            None => self.added_blocks = Some(AddedBlocks { next: first, last, confirmed: BTreeSet::new() }),
        }
    }

    /// Records a chain update above the block at the height `common`: transactions with the hashes `confirmed` are
    /// confirmed, and `returned` of replaced blocks are unconfirmed again. Starts a rebuild unless there is nothing to do.
    pub fn chain_changed(&mut self, common: Height, mut confirmed: BTreeSet<Hash256>, returned: Vec<Transaction>) {
        if let Some(added) = self.added_blocks.take() {
            confirmed.extend(added.confirmed);
        }
        if self.is_idle() && returned.is_empty() {
            return;
        }
        for number in confirmed.iter().filter_map(|hash| self.content.by_hash.get(hash)) {
            self.content.entries.remove(number);
        }
        if let Some(unfinished) = &mut self.rebuild {
            unfinished.returned.retain(|(transaction, _)| !confirmed.contains(&transaction.hash()));
            unfinished.retried.retain(|_, (transaction, ..)| !confirmed.contains(&transaction.hash()));
        }
        let pending = self.content.by_fee.iter().map(|(.., number)| *number).collect();
        let returned = returned.into_iter().map(|transaction| (transaction, common));
        self.begin_rebuild(pending, returned.collect());
    }

    fn is_idle(&self) -> bool {
        self.is_empty() && !self.has_work()
    }

    /// Removes expired transactions and those that depend on them.
    pub fn drop_expired(&mut self, now: Timestamp) {
        let expired = self.content.entries.extract_if(.., |_, root| root.transaction.is_expired(now));
        let expired: Vec<MempoolEntry> = expired.map(|(_, root)| root).collect();
        let has_expired = !expired.is_empty();
        expired.into_iter().for_each(|root| self.drop(root, Fate::Expired, now));
        if has_expired {
            self.begin_rebuild(self.content.entries.keys().copied().collect(), VecDeque::new());
        }
    }

    /// Records that an accepted transaction has left.
    fn drop(&mut self, root: MempoolEntry, fate: Fate, now: Timestamp) {
        self.fates.drop(&root.hashes, fate, now);
        self.newly_left.push_back((root, FateRecord { fate, at: now }));
    }

    fn begin_rebuild(&mut self, pending: VecDeque<u64>, newly_returned: VecDeque<(Transaction, Height)>) {
        let content = MempoolContent { next_number: self.content.next_number, ..MempoolContent::default() };
        // Returned transactions that an unfinished rebuild has not reached are kept.
        let mut returned = self.rebuild.take().map_or_else(VecDeque::new, Rebuild::into_returned);
        returned.extend(newly_returned);
        self.rebuild = Some(Rebuild { content, pending, returned, retried: BTreeMap::new() });
    }

    /// Returns whether a rebuild is in progress.
    pub fn is_rebuilding(&self) -> bool {
        self.rebuild.is_some()
    }

    /// Performs one step of the rebuild: takes over one transaction.
    pub fn step_rebuild(&mut self, confirmed: &ChainSnapshot<'_>, budget: &mut Budget) -> Result<()> {
        budget.charge(UNITS_PER_TRANSACTION);
        let Some(rebuild) = &mut self.rebuild else { return Ok(()) };
        let is_clock_disputed = self.is_clock_disputed;
        let when = |root: &MempoolEntry| {
            let now = if is_clock_disputed { valid_time(&root.transaction, confirmed.now) } else { confirmed.now };
            ChainSnapshot { now, ..*confirmed }
        };
        // A transaction of a replaced block comes with the height of the last common block, and its fate if it is retried.
        let (root, replaced);
        let outcome = if let Some(number) = rebuild.pending.pop_front() {
            let Some(known) = self.content.entries.get(&number).cloned() else { return Ok(()) };
            (root, replaced) = (rebuild.content.drop_strangers(known, confirmed)?, None);
            // Its signatures were checked when it arrived, and it is not published again.
            rebuild.content.insert(root.clone(), &when(&root))
        } else if let Some((transaction, common, fate)) = rebuild.next_returned() {
            self.last_id += 1;
            let entry = MempoolEntry::new(transaction, confirmed.network.byte, confirmed.now);
            let whole = entry.transaction.clone();
            let entry = rebuild.content.drop_strangers(entry, confirmed)?;
            (root, replaced) = (MempoolEntry { id: self.last_id, ..entry }, Some((whole, common, fate)));
            let good = check_signatures(&root, confirmed, &mut self.verifier);
            let outcome = good.and_then(|()| rebuild.content.insert(root.clone(), &when(&root)));
            if let Ok(accepted) = &outcome {
                self.newly_accepted.extend(accepted.clone());
                // If the rebuild restarts, it is taken over without being published again.
                self.content.push(root.clone());
                self.fates.changed.extend(root.hashes.all());
            }
            outcome
        } else {
            self.content = mem::take(&mut rebuild.content);
            self.rebuild = None;
            return Ok(());
        };
        let result = match outcome {
            Ok(_) => return Ok(()),
            Err(Rejection::Store(error)) => return Err(error),
            Err(Rejection::Result(result)) => result,
            // NIS1 has no result for it.
            Err(Rejection::Exception(_) | Rejection::TooDeep | Rejection::Unusable) => ValidationResult::FailureUnknown,
        };
        if rebuild.content.by_hash.contains_key(&root.hashes.own) {
            return Ok(());
        }
        // It has become invalid and is dropped.
        let fate = match replaced {
            Some((whole, common, None)) => {
                let conflict = rebuild.content.conflict(&root, result, common, confirmed, budget)?;
                let place = (whole.timestamp, self.last_id);
                rebuild.retried.insert(place, (whole, common, Fate::Replaced(result, conflict)));
                return Ok(());
            }
            Some((.., Some(fate))) => fate,
            // Nobody finds it any more from now on, not only when the rebuild is complete.
            None => {
                self.content.entries.remove(&root.number);
                Fate::Rejected(result)
            }
        };
        self.drop(root, fate, confirmed.now);
        Ok(())
    }

    pub(super) fn finish_rebuild(&mut self, confirmed: &ChainSnapshot<'_>) -> Result<()> {
        while self.is_rebuilding() {
            self.step_rebuild(confirmed, &mut Budget::new(0))?;
        }
        Ok(())
    }
}

/// Returns the time nearest to `now` at which neither time stamp nor deadline invalidates a transaction.
fn valid_time(transaction: &Transaction, now: Timestamp) -> Timestamp {
    transaction.self_and_children().fold(now, |now, one| now.max(one.timestamp)).min(transaction.last_valid())
}
