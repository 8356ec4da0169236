//! Maintenance: removal of confirmed and expired transactions, and the rebuild of the overlay state that follows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use super::admission::check_signatures;
use super::{ChainSnapshot, Fate, FateRecord, Mempool, MempoolContent, MempoolEntry, MempoolEvent};
use crate::budget::Budget;
use crate::model::{Hash256, Height, Timestamp, Transaction};
use crate::rules::{Rejection, ValidationResult};
use crate::state;
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
    /// Transactions that are still to be accepted: those of the mempool, then those of replaced blocks.
    candidates: VecDeque<Candidate>,
    /// Those that were invalid, by time and order of arrival, each with its fate; `None` if no blocks were replaced since the
    /// last complete rebuild. Each is tried once more after all others, as it may spend what another one pays.
    retried: Option<BTreeMap<(Timestamp, u64), (Candidate, Fate)>>,
    /// Multisig transactions of the mempool whose signatures, or who must sign, are others in the new content.
    signed_otherwise: Vec<Hash256>,
}

impl Rebuild {
    /// Removes the next transaction; if it is tried once more, with its fate so far.
    fn next_candidate(&mut self) -> Option<(Candidate, Option<Fate>)> {
        if let Some(candidate) = self.candidates.pop_front() {
            return Some((candidate, None));
        }
        let (_, (candidate, fate)) = self.retried.as_mut()?.pop_first()?;
        Some((candidate, Some(fate)))
    }
}

/// A transaction that is to be accepted into the new content.
enum Candidate {
    /// The transaction of the mempool with this number.
    Kept(u64),
    /// A transaction of a replaced block, and the height of the last block before those replaced.
    Returned(Rc<Transaction>, Height),
}

impl Candidate {
    /// Returns whether it is a transaction of a replaced block that is in none of the new blocks.
    fn is_returned(&self, confirmed: &BTreeSet<Hash256>) -> bool {
        matches!(self, Candidate::Returned(transaction, _) if !confirmed.contains(&transaction.hash()))
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
        if self.is_idle() && returned.is_empty() && self.cosignatures.is_empty() {
            return;
        }
        for number in confirmed.iter().filter_map(|hash| self.content.by_hash.get(hash)) {
            if let Some(root) = self.content.entries.remove(number) {
                self.cosignatures.extend(&root.hashes.children[..root.transaction.cosignatures().len()]);
                self.newly_changed.push_back((root, MempoolEvent::Confirmed));
            }
        }
        let kept = self.content.by_fee.iter().map(|(.., number)| Candidate::Kept(*number)).collect();
        let returned = returned.into_iter().map(|transaction| Candidate::Returned(Rc::new(transaction), common));
        self.begin_rebuild(kept, &confirmed, returned.collect());
    }

    /// Notes cosignatures of replaced blocks whose multisig transactions are in the new ones, maybe without them.
    pub fn cosignatures_may_be_lost(&mut self, cosignatures: Vec<Hash256>) {
        self.cosignatures.extend(cosignatures);
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
            let kept = self.content.entries.keys().map(|number| Candidate::Kept(*number)).collect();
            self.begin_rebuild(kept, &BTreeSet::new(), Vec::new());
        }
    }

    /// Records that an accepted transaction has left.
    fn drop(&mut self, root: MempoolEntry, fate: Fate, now: Timestamp) {
        self.fates.drop(root.hashes.all(), fate, now);
        self.newly_changed.push_back((root, MempoolEvent::Left(FateRecord { fate, at: now })));
    }

    fn begin_rebuild(
        &mut self,
        mut candidates: VecDeque<Candidate>,
        confirmed: &BTreeSet<Hash256>,
        newly_returned: Vec<Candidate>,
    ) {
        let mut can_retry = !newly_returned.is_empty();
        if let Some(Rebuild { candidates: open, retried, .. }) = self.rebuild.take() {
            can_retry |= retried.is_some();
            let retried = retried.into_iter().flatten().map(|(_, (candidate, _))| candidate);
            let open = open.into_iter().chain(retried);
            candidates.extend(open.filter(|candidate| candidate.is_returned(confirmed)));
        }
        candidates.extend(newly_returned);
        let content = MempoolContent { next_number: self.content.next_number, ..MempoolContent::default() };
        let retried = can_retry.then(BTreeMap::new);
        self.rebuild = Some(Rebuild { content, candidates, retried, signed_otherwise: Vec::new() });
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
        let Some((candidate, first_fate)) = rebuild.next_candidate() else { return self.end_rebuild(confirmed) };
        let (entry, common) = match candidate {
            Candidate::Kept(number) => {
                let Some(known) = self.content.entries.get(&number).cloned() else { return Ok(()) };
                (known, None)
            }
            Candidate::Returned(transaction, common) => {
                self.last_id += 1;
                let transaction = Rc::unwrap_or_clone(transaction);
                let entry = MempoolEntry::new(transaction, confirmed.network.byte, confirmed.now);
                (MempoolEntry { id: self.last_id, ..entry }, Some(common))
            }
        };
        let whole = Rc::clone(&entry.transaction);
        let root = rebuild.content.drop_strangers(entry, confirmed)?;
        // The signatures of a transaction of the mempool were checked when it arrived.
        let good = if common.is_some() { check_signatures(&root, confirmed, &mut self.verifier) } else { Ok(()) };
        let outcome = good.and_then(|()| rebuild.content.insert(root.clone(), &when(&root)));
        let result = match outcome {
            Ok(accepted) if common.is_some() => {
                self.newly_accepted.extend(accepted);
                // If the rebuild restarts, it is taken over without being published again.
                self.content.push(rebuild.content.by_hash(&root.hashes.own).unwrap_or(&root).clone());
                self.fates.changed.extend(root.hashes.all());
                None
            }
            Ok(_) => {
                let (new, known) = (rebuild.content.by_hash(&root.hashes.own), self.content.entries.get(&root.number));
                if new.zip(known).is_some_and(|(new, known)| new.is_signed_otherwise(known)) {
                    rebuild.signed_otherwise.push(root.hashes.own);
                }
                None
            }
            Err(Rejection::Store(error)) => return Err(error),
            Err(_) if rebuild.content.by_hash.contains_key(&root.hashes.own) => None,
            Err(Rejection::Result(result)) => Some(result),
            // NIS1 has no result for it.
            Err(Rejection::Exception(_) | Rejection::TooDeep | Rejection::Unusable) => {
                Some(ValidationResult::FailureUnknown)
            }
        };
        let fate = match (result, common, first_fate) {
            (None, ..) => None,
            (Some(result), None, _) => Some(Fate::Rejected(result)),
            // What was accepted since has not prevented it.
            (Some(_), Some(_), Some(first_fate)) => Some(first_fate),
            (Some(result), Some(common), None) => {
                let conflict = rebuild.content.conflict(&root, result, common, confirmed, budget)?;
                Some(Fate::Replaced(result, conflict))
            }
        };
        if let (Some(fate), None, Some(retried)) = (fate, first_fate, &mut rebuild.retried) {
            let place = (root.transaction.timestamp, root.id);
            let candidate = common.map_or(Candidate::Kept(root.number), |common| Candidate::Returned(whole, common));
            retried.insert(place, (candidate, fate));
            return Ok(());
        }
        if !Rc::ptr_eq(&whole, &root.transaction) {
            let attached = whole.cosignatures().iter().map(Transaction::hash);
            self.cosignatures.extend(attached.filter(|hash| !root.hashes.children.contains(hash)));
        }
        let Some(fate) = fate else { return Ok(()) };
        // It has become invalid and is dropped: nobody finds it any more from now on, not only when the rebuild is complete.
        if common.is_none() {
            self.content.entries.remove(&root.number);
        }
        self.drop(root, fate, confirmed.now);
        Ok(())
    }

    /// Decides about the next cosignature that may be lost, or completes the rebuild.
    fn end_rebuild(&mut self, confirmed: &ChainSnapshot<'_>) -> Result<()> {
        let Some(cosignature) = self.cosignatures.pop_front() else {
            let Some(Rebuild { content, signed_otherwise, .. }) = self.rebuild.take() else { return Ok(()) };
            for root in signed_otherwise.iter().filter_map(|hash| content.by_hash(hash)) {
                self.fates.changed.extend(root.hashes.all());
                self.newly_changed.push_back((root.clone(), MempoolEvent::Cosigned));
            }
            self.content = content;
            return Ok(());
        };
        let is_kept = self.rebuild.as_ref().is_some_and(|new| new.content.children.contains_key(&cosignature));
        if !is_kept && state::find_remembered_hash(confirmed.snapshot, &cosignature)?.is_none() {
            self.content.children.remove(&cosignature);
            let fate = Fate::Rejected(ValidationResult::FailureMultisigNoMatchingMultisig);
            self.fates.drop([&cosignature], fate, confirmed.now);
        }
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
