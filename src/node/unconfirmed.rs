//! The pool in a running node: what is announced to it, and its upkeep.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use crate::api::Budget;
use crate::codec::Context as ReadContext;
use crate::crypto::Verifier;
use crate::model::{Hash256, Height, Timestamp, Transaction};
use crate::pool::{Confirmed, Pool};
use crate::rules::Verdict;
use crate::store::{StoreError, stored_block};

/// Time between two looks for unconfirmed transactions that have expired.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(1);
/// Units that it costs to take one transaction over, and to read one block.
const UNITS_PER_TRANSACTION: u32 = 50;
const UNITS_PER_BLOCK: u32 = 200;

/// Unconfirmed transactions.
#[derive(Default)]
pub struct Unconfirmed {
    /// The transactions.
    pub pool: Pool,
    verifier: Verifier,
    /// Blocks that were added to the chain and are still to be looked at for transactions that they confirm.
    added: Option<Added>,
    /// When to look for transactions that have expired, in the node's running time.
    next_expiry: Duration,
}

struct Added {
    next: Height,
    last: Height,
    confirmed: BTreeSet<Hash256>,
}

impl Unconfirmed {
    /// Judges a transaction that somebody announces.
    pub fn announce(&mut self, transaction: Transaction, confirmed: &Confirmed<'_>) -> Verdict {
        self.pool.announce(transaction, confirmed, &mut self.verifier)
    }

    /// Takes in a transaction that another node has in its pool. The memory of what was announced has no part in it: what
    /// is wrong with a copy of a transaction does not keep the true one out.
    pub fn take_over(&mut self, transaction: Transaction, confirmed: &Confirmed<'_>) -> Verdict {
        self.pool.add(transaction, confirmed, &mut self.verifier)
    }

    /// All transactions in the order in which they are chosen for a block.
    pub fn in_fee_order(&self) -> Vec<Rc<Transaction>> {
        self.pool.in_fee_order()
    }

    /// Whether the pool's state must still be brought up to the chain.
    pub fn has_work(&self) -> bool {
        self.added.is_some() || self.pool.has_work()
    }

    /// When there is work that waits for its time.
    pub fn due(&self) -> Duration {
        self.next_expiry
    }

    /// Drops what has expired, once a second.
    pub fn drop_expired(&mut self, now: Timestamp, running: Duration) {
        if running >= self.next_expiry {
            self.next_expiry = running + EXPIRY_INTERVAL;
            self.pool.drop_expired(now);
        }
    }

    /// Brings the pool's state up to the chain, for as long as the budget lasts.
    pub fn work(&mut self, confirmed: &Confirmed<'_>, budget: &mut Budget) -> Result<(), StoreError> {
        while self.has_work() && !budget.is_spent() {
            if let Some(added) = &mut self.added {
                budget.spend(UNITS_PER_BLOCK);
                if added.read_next(confirmed)? {
                    let confirmed = std::mem::take(&mut added.confirmed);
                    self.added = None;
                    self.pool.on_chain_change(&confirmed, Vec::new());
                }
            } else {
                budget.spend(UNITS_PER_TRANSACTION);
                self.pool.work(confirmed, &mut self.verifier)?;
            }
        }
        Ok(())
    }

    /// Blocks have been added to the chain.
    pub fn blocks_added(&mut self, first: Height, last: Height) {
        let is_idle = self.is_idle();
        match &mut self.added {
            Some(added) => added.last = last,
            None if is_idle => {}
            None => self.added = Some(Added { next: first, last, confirmed: BTreeSet::new() }),
        }
    }

    /// The chain has changed: transactions with these hashes are confirmed, `returned` have lost their block.
    pub fn chain_changed(&mut self, mut confirmed: BTreeSet<Hash256>, returned: Vec<Transaction>) {
        if let Some(added) = self.added.take() {
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

impl Added {
    /// Reads the next block; whether it was the last.
    fn read_next(&mut self, confirmed: &Confirmed<'_>) -> Result<bool, StoreError> {
        let block = stored_block(confirmed.snapshot, self.next, ReadContext::of(confirmed.network).trusting())?;
        let transactions = block.into_iter().flat_map(|(_, block)| block.transactions);
        self.confirmed.extend(transactions.map(|transaction| transaction.hash()));
        self.next = self.next.next();
        Ok(self.next > self.last)
    }
}
