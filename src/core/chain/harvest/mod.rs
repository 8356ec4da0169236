//! Harvesting: which accounts may harvest, whether one of them hits, and which transactions its block contains.
//!
//! A harvested block is not part of the chain yet: it is processed like a block that a peer pushes
//! ([`crate::chain::pushed_branch`]).

#[cfg(test)]
mod tests;
mod unlocked;

use std::rc::Rc;
use std::vec;

pub use unlocked::{KeyOrigin, UnlockResult, UnlockedAccounts};

use super::apply::apply_transaction;
use super::block_execution::{harvesting_importance, validation_context};
use super::chain_tip::DifficultyWindow;
use super::proof;
use super::snapshot::ChainSnapshot;
use crate::codec::SigningForm;
use crate::crypto::{KeyPair, PublicKey};
use crate::model::network::Forks;
use crate::model::transaction::{Hashes, wire_version};
use crate::model::{Address, Block, BlockKind, Body, Hash256, Height, Network, Timestamp, Transaction};
use crate::rules::{ConflictSet, Purpose, Rejection, RuleResult, ValidationContext, check_block, check_transaction};
use crate::state::{self, BlockContext, Ledger};
use crate::store::{Changes, Overlay, Result, StoredHeader, tip};

/// A harvested block, not yet on the chain.
#[derive(Clone, Debug)]
pub struct Harvested {
    /// The block.
    pub block: Block,
    /// Hashes of its transactions. Their signatures are valid, as they come from the mempool.
    pub hashes: Vec<Hashes>,
    /// The block's contribution to the chain score.
    pub score: i64,
}

/// Result of one step of a harvest round.
#[derive(Debug)]
pub enum HarvestProgress {
    /// There is more to do.
    Working,
    /// The block of this account is invalid. The remaining accounts are still tried.
    Discarded(Address, Rejection),
    /// The harvest round is over, with a block or without one.
    Done(Option<Harvested>),
}

/// A harvest attempt in progress. Parent, time and block score are the same for all accounts, and the protocol does not
/// say which of the accounts that hit creates the block. Here it is the one that would have hit first if time were not
/// counted in whole seconds, so that blocks are shared in proportion to importance.
pub struct HarvestRound {
    parent: StoredHeader,
    /// Difficulty and time stamp of the new block.
    difficulty: u64,
    timestamp: Timestamp,
    /// Address of the account that was tried last.
    last_tried: Option<Address>,
    /// Accounts that have hit; the best is last.
    hits: Vec<(HarvestHit, Address)>,
    /// The account whose block is being created, and the selection of its transactions.
    current: Option<(Address, TxSelection)>,
}

/// The hit of a key that may create a block.
pub struct HarvestHit {
    /// The hit.
    pub hit: u64,
    /// The importance that counts for the key, in whole units.
    pub importance: u64,
}

impl HarvestHit {
    /// Returns whether `other` would have hit earlier for the same block if time were not counted in whole seconds.
    pub fn hits_after(&self, other: &HarvestHit) -> bool {
        let product = |hit: u64, importance: u64| u128::from(hit) * u128::from(importance);
        product(other.hit, self.importance) < product(self.hit, other.importance)
    }
}

impl HarvestRound {
    /// Starts a harvest round. Expired unconfirmed transactions must be removed before.
    /// Accounts that may no longer harvest are stopped, and configured accounts that now may are started. Returns
    /// `None` if no account harvests or there is no chain.
    pub fn begin(unlocked: &mut UnlockedAccounts, chain: &ChainSnapshot<'_>) -> Result<Option<HarvestRound>> {
        let Some(parent) = tip(chain.snapshot)? else { return Ok(None) };
        unlocked.prune(parent.height.next(), chain)?;
        unlocked.retry(&ChainSnapshot { height: parent.height, ..*chain })?;
        if unlocked.count() == 0 {
            return Ok(None);
        }
        let window = DifficultyWindow::load(chain.snapshot, parent.height)?;
        let Some(difficulty) = window.difficulty(chain.network.chain.target_time) else { return Ok(None) };
        let (timestamp, hits) = (chain.now, Vec::new());
        Ok(Some(HarvestRound { parent, difficulty, timestamp, last_tried: None, hits, current: None }))
    }

    /// Tries one account or one transaction, or creates the block. The round is over if the tip has changed.
    /// `unconfirmed` is called when all accounts were tried and one has hit. It returns all unconfirmed transactions,
    /// ordered by fee (highest first), then by age (oldest first). Fails only if the store does.
    pub fn step(
        &mut self,
        unlocked: &UnlockedAccounts,
        unconfirmed: impl FnOnce() -> Vec<Rc<Transaction>>,
        chain: &ChainSnapshot<'_>,
    ) -> Result<HarvestProgress> {
        if tip(chain.snapshot)?.is_none_or(|tip| tip.hash != self.parent.hash) {
            return Ok(HarvestProgress::Done(None));
        }
        if let Some((_, selection)) = &mut self.current
            && selection.step(chain)?
        {
            return Ok(HarvestProgress::Working);
        }
        if let Some((address, selection)) = self.current.take() {
            // The account may have been locked meanwhile.
            let Some(key) = unlocked.key(&address) else { return Ok(HarvestProgress::Working) };
            return match self.create(key, selection, chain) {
                Ok(harvested) => Ok(HarvestProgress::Done(Some(harvested))),
                Err(Rejection::Store(error)) => Err(error),
                Err(rejection) => Ok(HarvestProgress::Discarded(address, rejection)),
            };
        }
        if let Some((address, key)) = unlocked.next_after(self.last_tried.as_ref()) {
            self.last_tried = Some(address);
            if let Some(hit) = self.test_hit(&key.public(), chain)? {
                let place = self.hits.partition_point(|(other, _)| other.hits_after(&hit));
                self.hits.insert(place, (hit, address));
            }
            return Ok(HarvestProgress::Working);
        }
        let Some((_, address)) = self.hits.pop() else { return Ok(HarvestProgress::Done(None)) };
        let (height, limit) = (self.height(), chain.network.chain.rewrite_limit);
        let owner = state::account(chain.snapshot, &address)?.harvests_for(height, limit).unwrap_or(address);
        self.current = Some((address, TxSelection::new(unconfirmed(), &owner, height, self.timestamp, chain.network)));
        Ok(HarvestProgress::Working)
    }

    /// Height of the new block.
    fn height(&self) -> Height {
        self.parent.height.next()
    }

    /// Seconds from the parent to the new block.
    fn elapsed(&self) -> i32 {
        self.timestamp.0.wrapping_sub(self.parent.timestamp.0)
    }

    /// Returns the hit of a key, if it is below its target. The hit is that of the signing key; the importance is that
    /// of the account for which it harvests.
    fn test_hit(&self, signer: &PublicKey, chain: &ChainSnapshot<'_>) -> Result<Option<HarvestHit>> {
        let network = chain.network;
        let address = Address::from_public_key(signer, network.byte);
        let importance = harvesting_importance(chain.snapshot, &address, self.height(), network)?;
        let target = proof::target(self.elapsed(), importance, self.difficulty, &network.chain);
        let hit = proof::hit(&proof::generation_hash(&self.parent.generation_hash, signer));
        Ok(proof::is_hit(hit, &target).then_some(HarvestHit { hit, importance }))
    }

    /// Creates the block and checks it by all rules for blocks on the state before it.
    fn create(&self, key: &KeyPair, selection: TxSelection, chain: &ChainSnapshot<'_>) -> RuleResult<Harvested> {
        let (state, network) = (chain.snapshot, chain.network);
        let TxSelection { selected, hashes, .. } = selection;
        let mut block = Block {
            kind: BlockKind::Regular,
            version: wire_version(network.byte, 1),
            timestamp: self.timestamp,
            signer: key.public(),
            signature: None,
            previous_hash: self.parent.hash.into(),
            height: self.height(),
            transactions: selected.into_iter().map(Rc::unwrap_or_clone).collect(),
        };
        block.signature = Some(key.sign(&block.to_bytes(SigningForm::NonVerifiable)));
        let (height, now, purpose) = (block.height, block.timestamp, Purpose::Block);
        check_block(&block, &hashes, &ValidationContext { state, block: None, network, height, now, purpose })?;
        Ok(Harvested { block, hashes, score: proof::block_score(self.difficulty, self.elapsed()) })
    }
}

/// Selects the transactions of a new block. Valid for one state of the chain only.
struct TxSelection {
    height: Height,
    timestamp: Timestamp,
    /// The account credited with the block.
    beneficiary: Address,
    /// Candidates that are still to be tried, in this order.
    candidates: vec::IntoIter<Rc<Transaction>>,
    /// The transactions selected so far.
    selected: Vec<Rc<Transaction>>,
    hashes: Vec<Hashes>,
    /// Number of selected transactions, including nested ones.
    count: usize,
    /// Their changes of the state.
    changes: Changes,
    /// Their constraints on each other within a block.
    content: ConflictSet,
}

impl TxSelection {
    /// Starts a selection from the unconfirmed transactions, which are ordered by fee (highest first), then by age
    /// (oldest first). `beneficiary` is the account credited with the block.
    ///
    /// The treasury re-issuance block takes the transactions that the network agreed on, unchecked.
    fn new(
        unconfirmed: Vec<Rc<Transaction>>,
        beneficiary: &Address,
        height: Height,
        timestamp: Timestamp,
        network: &Network,
    ) -> TxSelection {
        let forks = &network.chain.forks;
        let (candidates, selected) = if height.0 == forks.treasury_reissuance {
            (Vec::new(), treasury_transactions(unconfirmed, forks))
        } else {
            (unconfirmed, Vec::new())
        };
        TxSelection {
            height,
            timestamp,
            beneficiary: *beneficiary,
            candidates: candidates.into_iter(),
            hashes: selected.iter().map(|transaction| transaction.hashes()).collect(),
            selected,
            count: 0,
            changes: Changes::default(),
            content: ConflictSet::default(),
        }
    }

    /// Tries one transaction. Returns whether there may be more. Fails only if the store does.
    fn step(&mut self, chain: &ChainSnapshot<'_>) -> Result<bool> {
        let Some(transaction) = self.candidates.next() else { return Ok(false) };
        let is_selectable = transaction.timestamp < self.timestamp
            && transaction.deadline >= self.timestamp
            && !matches!(transaction.body, Body::Cosignature(_))
            && transaction.signer_address(chain.network.byte) != self.beneficiary;
        // A transaction that a rule rejects stays unconfirmed, even if NIS1 has no result for it.
        if is_selectable && let Err(Rejection::Store(error)) = self.add(transaction, chain) {
            return Err(error);
        }
        Ok(true)
    }

    fn add(&mut self, transaction: Rc<Transaction>, chain: &ChainSnapshot<'_>) -> RuleResult {
        let (height, now, network) = (self.height, self.timestamp, chain.network);
        self.changes.set_savepoint();
        let mut overlay = Overlay::new(chain.snapshot, &mut self.changes);
        // Each transaction has its own context: its accounts are written at once, or dropped if it fails.
        let mut block = BlockContext::new(height);
        let mut ledger = Ledger { txn: &mut overlay, block: &mut block, network };
        let effects = check_transaction(&transaction, &validation_context(&ledger, now))?;
        let conflict_keys = self.content.conflict_keys(std::slice::from_ref(&*transaction))?;
        let count = self.count + transaction.self_and_children().count();
        if count > network.chain.max_transactions_per_block as usize {
            // The first transaction that does not fit ends the selection.
            self.candidates = Vec::new().into_iter();
            return Ok(());
        }
        if let Err(error) = apply_transaction(&mut ledger, &transaction, &effects).and_then(|()| ledger.flush()) {
            self.changes.revert_to_savepoint();
            return Err(error.into());
        }
        drop(effects);
        self.count = count;
        self.content.add(conflict_keys);
        self.hashes.push(transaction.hashes());
        self.selected.push(transaction);
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
