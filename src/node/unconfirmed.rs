//! The pool in a running node: what the interface does to it, and its upkeep.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::api::{Desk, Failure, UnlockRefusal, UnlockedInfo};
use crate::chain::harvest::{UnlockResult, Unlocked};
use crate::codec::Context as ReadContext;
use crate::crypto::{KeyPair, Verifier};
use crate::model::transaction::wire_network;
use crate::model::{Address, Hash256, Height, Timestamp, Transaction};
use crate::pool::{Confirmed, Pool};
use crate::rules::{self, Context, Outcome, Refusal, Use, ValidationResult};
use crate::store::{StoreError, stored_block};

/// Unconfirmed transactions.
pub struct Unconfirmed {
    pool: Pool,
    verifier: Verifier,
    is_booted: bool,
}

impl Unconfirmed {
    /// None, in a node that has joined its network or not.
    pub fn new(is_booted: bool) -> Unconfirmed {
        Unconfirmed { pool: Pool::default(), verifier: Verifier::default(), is_booted }
    }

    /// What the interface has to do with, on top of a state.
    pub fn desk<'a>(&'a mut self, unlocked: &'a mut Unlocked, confirmed: Confirmed<'a>) -> NodeDesk<'a> {
        NodeDesk { unconfirmed: self, unlocked, confirmed }
    }

    /// All transactions in the order in which they are chosen for a block.
    pub fn in_fee_order(&self) -> Vec<Rc<Transaction>> {
        self.pool.in_fee_order()
    }

    /// Whether the pool's state must still be brought up to the chain.
    pub fn has_work(&self) -> bool {
        self.pool.has_work()
    }

    /// Does a piece of that work.
    pub fn work(&mut self, confirmed: &Confirmed<'_>) -> Result<(), StoreError> {
        self.pool.work(confirmed, &mut self.verifier)
    }

    /// Drops what has expired.
    pub fn drop_expired(&mut self, now: Timestamp) {
        self.pool.drop_expired(now);
    }

    /// The chain has changed: transactions with these hashes are confirmed, `returned` have lost their block.
    pub fn chain_changed(&mut self, confirmed: &BTreeSet<Hash256>, returned: Vec<Transaction>) {
        if !self.is_idle() || !returned.is_empty() {
            self.pool.on_chain_change(confirmed, returned);
        }
    }

    /// Blocks from `first` on have been added to the chain.
    pub fn blocks_added(&mut self, first: Height, confirmed: &Confirmed<'_>) -> Result<(), StoreError> {
        if self.is_idle() {
            return Ok(());
        }
        let mut hashes: BTreeSet<Hash256> = BTreeSet::new();
        for height in first.0..=confirmed.height.0 {
            let block = stored_block(confirmed.snapshot, Height(height), ReadContext::of(confirmed.network))?;
            let transactions = block.into_iter().flat_map(|(_, block)| block.transactions);
            hashes.extend(transactions.map(|transaction| transaction.hash()));
        }
        self.chain_changed(&hashes, Vec::new());
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.pool.is_empty() && !self.pool.has_work()
    }

    /// A transaction that has come in and nobody was told of yet, the oldest first.
    pub fn next_arrival(&mut self) -> Option<Rc<Transaction>> {
        self.pool.next_arrival()
    }
}

/// Pool and harvester as the interface uses them while it answers one request.
pub struct NodeDesk<'a> {
    unconfirmed: &'a mut Unconfirmed,
    unlocked: &'a mut Unlocked,
    confirmed: Confirmed<'a>,
}

impl Desk for NodeDesk<'_> {
    fn announce(&mut self, transaction: Transaction) -> Result<ValidationResult, Failure> {
        let Unconfirmed { pool, verifier, is_booted, .. } = self.unconfirmed;
        if !*is_booted && wire_network(transaction.version) == self.confirmed.network.byte {
            return Err(Failure::NOT_BOOTED);
        }
        result_of(pool.announce(transaction, &self.confirmed, verifier))
    }

    fn prepare(&self, transaction: &Transaction) -> Result<ValidationResult, Failure> {
        let Confirmed { snapshot, network, height, now } = self.confirmed;
        let context = Context { state: snapshot, network, height: height.next(), now, usage: Use::Prepare };
        result_of(rules::check_transaction(transaction, &context).map(drop))
    }

    fn unconfirmed(&self, account: &Address, limit: usize) -> Result<Vec<Rc<Transaction>>, Failure> {
        if self.unconfirmed.pool.is_empty() {
            return Ok(Vec::new());
        }
        let roots = self.unconfirmed.pool.most_recent(account, limit, &self.confirmed)?;
        Ok(roots.into_iter().map(|root| Rc::clone(&root.transaction)).collect())
    }

    fn unlock(&mut self, pair: KeyPair) -> Result<(), Failure> {
        let Confirmed { snapshot, network, height, .. } = self.confirmed;
        let refusal = match self.unlocked.unlock(Box::new(pair), height, snapshot, network)? {
            UnlockResult::Success => return Ok(()),
            UnlockResult::ServerLimit => UnlockRefusal::ServerLimit,
            UnlockResult::HarvestingBlocked => UnlockRefusal::Blocked,
            UnlockResult::UnknownAccount => UnlockRefusal::UnknownAccount,
            UnlockResult::HarvestingIneligible => UnlockRefusal::Ineligible,
        };
        Err(refusal.into())
    }

    fn lock(&mut self, address: &Address) {
        self.unlocked.lock(address);
    }

    fn is_unlocked(&self, address: &Address) -> bool {
        self.unlocked.contains(address)
    }

    fn unlocked_info(&self) -> UnlockedInfo {
        UnlockedInfo { max: self.unlocked.limit(), count: self.unlocked.count() as i32 }
    }
}

fn result_of(outcome: Outcome) -> Result<ValidationResult, Failure> {
    match outcome {
        Ok(()) => Ok(ValidationResult::Success),
        Err(Refusal::Result(result)) => Ok(result),
        Err(Refusal::Exception(exception)) => Err(exception.into()),
        Err(Refusal::Store(error)) => Err(error.into()),
    }
}
