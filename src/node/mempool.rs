//! The mempool in a running node: announced transactions and maintenance.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use crate::api::Budget;
use crate::codec::Context as ReadContext;
use crate::crypto::Verifier;
use crate::mempool::{ConfirmedChain, Mempool};
use crate::model::{Hash256, Height, Timestamp, Transaction};
use crate::rules::RuleResult;
use crate::store::{StoreError, stored_block};

/// Interval between two removals of expired transactions.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(1);
/// Work units for one transaction of maintenance, and for reading one block.
const UNITS_PER_TRANSACTION: u32 = 50;
const UNITS_PER_BLOCK: u32 = 200;

/// The mempool and its maintenance.
#[derive(Default)]
pub struct MempoolManager {
    /// The mempool.
    pub pool: Mempool,
    verifier: Verifier,
    /// Added blocks whose transactions are still to be removed from the mempool.
    added_blocks: Option<AddedBlocks>,
    /// When to remove expired transactions, as time since the start.
    next_expiry: Duration,
}

struct AddedBlocks {
    next: Height,
    last: Height,
    confirmed: BTreeSet<Hash256>,
}

impl MempoolManager {
    /// Validates an announced transaction and adds it.
    pub fn announce(&mut self, transaction: Transaction, confirmed: &ConfirmedChain<'_>) -> RuleResult {
        self.pool.announce(transaction, confirmed, &mut self.verifier)
    }

    /// Adds a transaction of a remote mempool. It neither uses nor fills the cache of results, so that a copy with a
    /// wrong signature does not keep the valid transaction out.
    pub fn add_remote(&mut self, transaction: Transaction, confirmed: &ConfirmedChain<'_>) -> RuleResult {
        self.pool.add(transaction, confirmed, &mut self.verifier)
    }

    /// Returns all transactions in the order in which they are selected for a block.
    pub fn in_fee_order(&self) -> Vec<Rc<Transaction>> {
        self.pool.in_fee_order()
    }

    /// Returns whether the mempool is not yet up to date with the chain.
    pub fn has_work(&self) -> bool {
        self.added_blocks.is_some() || self.pool.is_rebuilding()
    }

    /// Returns when timed work is due.
    pub fn due(&self) -> Duration {
        self.next_expiry
    }

    /// Removes expired transactions, once a second.
    pub fn drop_expired(&mut self, now: Timestamp, running: Duration) {
        if running >= self.next_expiry {
            self.next_expiry = running + EXPIRY_INTERVAL;
            self.pool.drop_expired(now);
        }
    }

    /// Brings the mempool up to date with the chain, within the budget.
    pub fn work(&mut self, confirmed: &ConfirmedChain<'_>, budget: &mut Budget) -> Result<(), StoreError> {
        while self.has_work() && !budget.is_exhausted() {
            if let Some(added) = &mut self.added_blocks {
                budget.charge(UNITS_PER_BLOCK);
                if added.read_next(confirmed)? {
                    let confirmed = std::mem::take(&mut added.confirmed);
                    self.added_blocks = None;
                    self.pool.on_chain_change(&confirmed, Vec::new());
                }
            } else {
                budget.charge(UNITS_PER_TRANSACTION);
                self.pool.step_rebuild(confirmed, &mut self.verifier)?;
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

    /// Records a chain update: transactions with the hashes `confirmed` are confirmed, and `returned` are unconfirmed
    /// again.
    pub fn chain_changed(&mut self, mut confirmed: BTreeSet<Hash256>, returned: Vec<Transaction>) {
        if let Some(added) = self.added_blocks.take() {
            confirmed.extend(added.confirmed);
        }
        if !self.is_idle() || !returned.is_empty() {
            self.pool.on_chain_change(&confirmed, returned);
        }
    }

    fn is_idle(&self) -> bool {
        self.pool.is_empty() && !self.has_work()
    }
}

impl AddedBlocks {
    /// Reads the next block. Returns whether it was the last.
    fn read_next(&mut self, confirmed: &ConfirmedChain<'_>) -> Result<bool, StoreError> {
        let block = stored_block(confirmed.snapshot, self.next, ReadContext::of(confirmed.network).trusted())?;
        let transactions = block.into_iter().flat_map(|(_, block)| block.transactions);
        self.confirmed.extend(transactions.map(|transaction| transaction.hash()));
        self.next = self.next.next();
        Ok(self.next > self.last)
    }
}
