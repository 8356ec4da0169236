//! Selects the transactions of a new block.

use std::rc::Rc;

use super::scratch_overlay::ScratchOverlay;
use crate::chain::apply::apply_transaction;
use crate::model::network::Forks;
use crate::model::transaction::Hashes;
use crate::model::{Address, Body, Hash256, Height, Network, Timestamp, Transaction};
use crate::rules::{ConflictSet, Purpose, Rejection, ValidationContext, check_transaction};
use crate::state::{BlockContext, Ledger};
use crate::store::{Changes, Overlay, Snapshot, StoreError};

/// A selection in progress. It is valid for one state of the chain only.
pub struct TxSelection {
    height: Height,
    timestamp: Timestamp,
    /// The account credited with the block.
    beneficiary: Address,
    /// Candidates, in the order in which they are tried.
    candidates: Vec<Rc<Transaction>>,
    next: usize,
    template: BlockTemplate,
}

/// The transactions selected so far.
#[derive(Default)]
struct BlockTemplate {
    selected: Vec<Rc<Transaction>>,
    hashes: Vec<Hashes>,
    /// Number of transactions, including nested ones.
    count: usize,
    /// Their changes of the state.
    changes: Changes,
    /// Their constraints on each other within a block.
    content: ConflictSet,
}

impl TxSelection {
    /// Starts a selection from the unconfirmed transactions, which are ordered by fee (highest first), then by age
    /// (oldest first). `owner` is the account credited with the block.
    ///
    /// The treasury re-issuance block takes the transactions that the network agreed on, unchecked.
    pub fn new(
        unconfirmed: Vec<Rc<Transaction>>,
        owner: &Address,
        height: Height,
        timestamp: Timestamp,
        network: &Network,
    ) -> TxSelection {
        let mut draft = BlockTemplate::default();
        let mut candidates = unconfirmed;
        if height.0 == network.chain.forks.treasury_reissuance {
            draft.selected = treasury_transactions(std::mem::take(&mut candidates), &network.chain.forks);
            draft.hashes = draft.selected.iter().map(|transaction| transaction.hashes()).collect();
        }
        TxSelection { height, timestamp, beneficiary: *owner, candidates, next: 0, template: draft }
    }

    /// Tries one transaction. Returns whether there may be more. Fails only if the store does.
    pub fn step(&mut self, base: &Snapshot<'_>, network: &Network) -> Result<bool, StoreError> {
        let Some(transaction) = self.candidates.get(self.next).map(Rc::clone) else { return Ok(false) };
        self.next += 1;
        if !self.is_selectable(&transaction, network) {
            return Ok(true);
        }
        match self.add(transaction, base, network) {
            Err(Rejection::Store(error)) => Err(error),
            // A transaction that a rule rejects stays unconfirmed, even if NIS1 has no result for it.
            Ok(()) | Err(_) => Ok(true),
        }
    }

    /// Returns the selected transactions in block order, and their hashes.
    pub fn into_parts(self) -> (Vec<Transaction>, Vec<Hashes>) {
        let BlockTemplate { selected: chosen, hashes, .. } = self.template;
        (chosen.into_iter().map(Rc::unwrap_or_clone).collect(), hashes)
    }

    fn is_selectable(&self, transaction: &Transaction, network: &Network) -> bool {
        transaction.timestamp < self.timestamp
            && transaction.deadline >= self.timestamp
            && !matches!(transaction.body, Body::Cosignature(_))
            && transaction.signer_address(network.byte) != self.beneficiary
    }

    fn add(&mut self, transaction: Rc<Transaction>, base: &Snapshot<'_>, network: &Network) -> Result<(), Rejection> {
        let TxSelection { height, timestamp, template: ref mut draft, .. } = *self;
        let mut trial = ScratchOverlay::new(Overlay::new(base, &mut draft.changes));
        // Each transaction has its own context: its accounts are written at once, or dropped if it fails.
        let mut block = BlockContext::new(height, timestamp);
        let mut ledger = Ledger { txn: &mut trial, block: &mut block, network };
        let case = ValidationContext {
            state: &*ledger.txn,
            block: Some(ledger.block),
            network,
            height,
            now: timestamp,
            purpose: Purpose::NewBlock,
        };
        let effects = check_transaction(&transaction, &case)?;
        let addition = draft.content.conflict_keys(std::slice::from_ref(&*transaction))?;
        let count = draft.count + transaction.self_and_children().count();
        if count > network.chain.max_transactions_per_block as usize {
            // The first transaction that does not fit ends the selection.
            self.candidates.clear();
            return Ok(());
        }
        let applied = apply_transaction(&mut ledger, &transaction, &effects).and_then(|()| ledger.flush());
        if let Err(error) = applied {
            trial.revert()?;
            return Err(error.into());
        }
        drop(effects);
        draft.count = count;
        draft.content.add(addition);
        draft.hashes.push(transaction.hashes());
        draft.selected.push(transaction);
        Ok(())
    }
}

/// Returns the treasury re-issuance transactions among the unconfirmed ones.
fn treasury_transactions(mut unconfirmed: Vec<Rc<Transaction>>, forks: &Forks) -> Vec<Rc<Transaction>> {
    unconfirmed.sort_by_key(|transaction| transaction.timestamp);
    let listed = |list: &[Hash256]| -> Vec<Rc<Transaction>> {
        unconfirmed.iter().filter(|transaction| list.contains(&transaction.hash())).map(Rc::clone).collect()
    };
    let fallback = listed(&forks.treasury_fallback_hashes);
    if fallback.is_empty() { listed(&forks.treasury_hashes) } else { fallback }
}
