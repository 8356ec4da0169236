//! Rebuild of the mempool's overlay state after a change of the chain or the removal of expired transactions.

use std::collections::{BTreeSet, VecDeque};
use std::mem;

use super::admission::check_signatures;
use super::entry::MempoolEntry;
use super::{ConfirmedChain, Mempool, MempoolContent};
use crate::crypto::Verifier;
use crate::model::{Hash256, Timestamp, Transaction};
use crate::rules::Rejection;
use crate::store::StoreError;

/// The new content during a rebuild.
pub struct Rebuild {
    content: MempoolContent,
    /// Numbers of the transactions of the mempool that are still to be taken over.
    pending: VecDeque<u64>,
    /// Transactions of replaced blocks that are still to be accepted, after `pending`.
    returned: VecDeque<Transaction>,
}

impl Mempool {
    /// Starts a rebuild after the chain confirmed some transactions and returned others of replaced blocks.
    pub fn on_chain_change(&mut self, confirmed: &BTreeSet<Hash256>, returned: Vec<Transaction>) {
        self.content.remove_confirmed(confirmed);
        if let Some(unfinished) = &mut self.rebuild {
            unfinished.returned.retain(|transaction| !confirmed.contains(&transaction.hash()));
        }
        let pending = self.content.by_fee.iter().map(|(.., number)| *number).collect();
        self.begin_rebuild(pending, returned);
    }

    /// Removes expired transactions and those that depend on them.
    pub fn drop_expired(&mut self, now: Timestamp) {
        let roots = &mut self.content.entries;
        let count = roots.len();
        roots.retain(|_, root| !root.is_expired(now));
        if roots.len() < count {
            let pending = self.content.entries.keys().copied().collect();
            self.begin_rebuild(pending, Vec::new());
        }
    }

    fn begin_rebuild(&mut self, pending: VecDeque<u64>, returned: Vec<Transaction>) {
        // Returned transactions that an unfinished rebuild has not reached are kept.
        let unfinished = self.rebuild.take().map_or_else(VecDeque::new, |unfinished| unfinished.returned);
        let returned = unfinished.into_iter().chain(returned).collect();
        let content = MempoolContent { next_number: self.content.next_number, ..MempoolContent::default() };
        self.rebuild = Some(Rebuild { content, pending, returned });
    }

    /// Returns whether a rebuild is in progress.
    pub fn is_rebuilding(&self) -> bool {
        self.rebuild.is_some()
    }

    /// Performs one step of the rebuild: takes over one transaction.
    pub fn step_rebuild(&mut self, confirmed: &ConfirmedChain<'_>, verifier: &mut Verifier) -> Result<(), StoreError> {
        let Some(rebuild) = &mut self.rebuild else { return Ok(()) };
        let outcome = if let Some(number) = rebuild.pending.pop_front() {
            let Some(root) = self.content.entries.get(&number).cloned() else { return Ok(()) };
            // Its signatures were checked when it arrived, and it is not published again.
            rebuild.content.insert(root, confirmed, &mut VecDeque::new())
        } else if let Some(transaction) = rebuild.returned.pop_front() {
            let root = MempoolEntry::new(transaction, confirmed.network.byte);
            let good = check_signatures(&root, confirmed, verifier);
            let outcome = good.and_then(|()| rebuild.content.insert(root.clone(), confirmed, &mut self.newly_accepted));
            if outcome.is_ok() {
                // If the rebuild restarts, it is taken over without being published again.
                self.content.push(root);
            }
            outcome
        } else {
            self.content = mem::take(&mut rebuild.content);
            self.rebuild = None;
            return Ok(());
        };
        match outcome {
            Err(Rejection::Store(error)) => Err(error),
            // It has become invalid and is dropped.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    pub(super) fn finish_rebuild(&mut self, confirmed: &ConfirmedChain<'_>) -> Result<(), StoreError> {
        let mut verifier = Verifier::default();
        while self.is_rebuilding() {
            self.step_rebuild(confirmed, &mut verifier)?;
        }
        Ok(())
    }
}

impl MempoolContent {
    fn remove_confirmed(&mut self, confirmed: &BTreeSet<Hash256>) {
        for number in confirmed.iter().filter_map(|hash| self.by_hash.get(hash)) {
            self.entries.remove(number);
        }
    }
}
