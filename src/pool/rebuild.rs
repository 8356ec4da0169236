//! Building the pool's state anew after a change of the chain, or without what has expired.

use std::collections::{BTreeSet, VecDeque};
use std::mem;

use super::admission::check_signatures;
use super::root::Root;
use super::{Confirmed, Pool, PoolContent};
use crate::crypto::Verifier;
use crate::model::{Hash256, Timestamp, Transaction};
use crate::rules::Refusal;
use crate::store::StoreError;

/// A pool's content in the making.
pub struct Rebuild {
    content: PoolContent,
    /// Numbers of the transactions of the pool that are still to be taken over.
    pending: VecDeque<u64>,
    /// Transactions of blocks that were replaced, still to be taken in. They come last.
    returned: VecDeque<Transaction>,
}

impl Pool {
    /// The chain has changed: transactions with these hashes are confirmed, others have lost their block.
    pub fn on_chain_change(&mut self, confirmed: &BTreeSet<Hash256>, returned: Vec<Transaction>) {
        self.content.remove_confirmed(confirmed);
        if let Some(unfinished) = &mut self.rebuild {
            unfinished.returned.retain(|transaction| !confirmed.contains(&transaction.hash()));
        }
        let pending = self.content.by_fee.iter().map(|(.., number)| *number).collect();
        self.begin_rebuild(pending, returned);
    }

    /// Drops transactions whose deadlines have passed, with all that depends on them.
    pub fn drop_expired(&mut self, now: Timestamp) {
        let roots = &mut self.content.roots;
        let count = roots.len();
        roots.retain(|_, root| !root.is_expired(now));
        if roots.len() < count {
            let pending = self.content.roots.keys().copied().collect();
            self.begin_rebuild(pending, Vec::new());
        }
    }

    fn begin_rebuild(&mut self, pending: VecDeque<u64>, returned: Vec<Transaction>) {
        // What the last rebuild had not come to is not forgotten.
        let unfinished = self.rebuild.take().map_or_else(VecDeque::new, |unfinished| unfinished.returned);
        let returned = unfinished.into_iter().chain(returned).collect();
        let content = PoolContent { next_number: self.content.next_number, ..PoolContent::default() };
        self.rebuild = Some(Rebuild { content, pending, returned });
    }

    /// Whether work is left that a change has made necessary.
    pub fn has_work(&self) -> bool {
        self.rebuild.is_some()
    }

    /// Does one piece of that work: takes over one transaction.
    pub fn work(&mut self, confirmed: &Confirmed<'_>, verifier: &mut Verifier) -> Result<(), StoreError> {
        let Some(rebuild) = &mut self.rebuild else { return Ok(()) };
        let outcome = if let Some(number) = rebuild.pending.pop_front() {
            let Some(root) = self.content.roots.get(&number).cloned() else { return Ok(()) };
            // Its signatures were good when it came in, and nobody is told of it again.
            rebuild.content.insert(root, confirmed, &mut VecDeque::new())
        } else if let Some(transaction) = rebuild.returned.pop_front() {
            let root = Root::new(transaction, confirmed.network.byte);
            let good = check_signatures(&root, confirmed, verifier);
            let outcome = good.and_then(|()| rebuild.content.insert(root.clone(), confirmed, &mut self.arrivals));
            if outcome.is_ok() {
                // If this work must begin anew, it is taken over without being told of again.
                self.content.push(root);
            }
            outcome
        } else {
            self.content = mem::take(&mut rebuild.content);
            self.rebuild = None;
            return Ok(());
        };
        match outcome {
            Err(Refusal::Store(error)) => Err(error),
            // It has become invalid, and is dropped.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Does all the work that is left.
    pub(super) fn complete(&mut self, confirmed: &Confirmed<'_>) -> Result<(), StoreError> {
        let mut verifier = Verifier::default();
        while self.has_work() {
            self.work(confirmed, &mut verifier)?;
        }
        Ok(())
    }
}

impl PoolContent {
    fn remove_confirmed(&mut self, confirmed: &BTreeSet<Hash256>) {
        for number in confirmed.iter().filter_map(|hash| self.by_hash.get(hash)) {
            self.roots.remove(number);
        }
    }
}
