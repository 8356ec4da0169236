//! Processes one block on top of a chain, one step at a time: its proof of importance, its transactions by all rules,
//! its rewards, and the importances that are due after it.

use std::collections::BTreeSet;

use super::apply::{self, AppliedBlock, Retention};
use super::chain_tip::ChainTip;
use super::error::BlockError;
use super::proof;
use super::recalculation::{Recalculation, due_after};
use super::rollback::lowest_undoable;
use super::signatures::check_block_signature;
use crate::crypto::Verifier;
use crate::model::transaction::Hashes;
use crate::model::{Address, Block, Hash256, Height, Network, Timestamp};
use crate::rules::{self, Purpose, ValidationContext, ValidationResult};
use crate::state::registry::ListingUpdate;
use crate::state::{self, BlockContext, Expiry, HashCompaction, Ledger, Pruning};
use crate::store::{Read, StoredHeader, Write, WriteTxn};

/// Parameters for processing a block, besides the state.
pub struct ExecutionContext<'a> {
    /// The network.
    pub network: &'a Network,
    /// Network time.
    pub now: Timestamp,
    /// What is stored of the block, besides its effect on the state.
    pub retention: Retention,
    /// Caches the public keys that it decoded.
    pub verifier: &'a mut Verifier,
    /// Hashes of the earlier transactions of the same candidate branch, including nested ones.
    pub seen: &'a mut BTreeSet<Hash256>,
}

/// A block whose transaction signatures are valid, while it is being processed.
pub struct BlockExecution {
    block: Block,
    hashes: Vec<Hashes>,
    /// Whether a checkpoint covers the block and the parent hash that it names: its signature and proof are not
    /// checked.
    trusted: bool,
    stage: Stage,
}

enum Stage {
    /// Its height, parent and proof are to be checked.
    CheckingProof,
    /// Its transactions are being executed; the number of those done.
    Executing(Box<BlockContext>, ChainPosition, usize),
    /// The transactions are executed and the rewards credited; expired leases are processed.
    Expiring(Box<(BlockContext, AppliedBlock)>, ChainPosition, Expiry),
    /// Old data is pruned.
    Pruning(Box<(BlockContext, AppliedBlock)>, ChainPosition, Pruning),
    /// Its transactions are indexed: the number of those done, and the pending listing update of the last one.
    Indexing(Box<(BlockContext, AppliedBlock)>, ChainPosition, usize, Option<ListingUpdate>),
    /// Changed accounts and other pending state are written.
    Flushing(Box<(BlockContext, AppliedBlock)>, ChainPosition),
    /// The importances that are due are recalculated before the block is stored.
    Recalculating(Box<(Recalculation, AppliedBlock)>, ChainPosition),
    /// Some old hashes are compacted before the block is stored.
    Compacting(Box<(HashCompaction, AppliedBlock)>, ChainPosition),
}

/// Result of one step.
enum StepResult {
    /// There is more to do.
    Stage(Stage),
    Stored(StoredHeader),
}

/// Values that follow from the position of a block in the chain.
#[derive(Clone, Copy)]
struct ChainPosition {
    hash: Hash256,
    generation_hash: Hash256,
    difficulty: u64,
}

impl BlockExecution {
    /// Creates the processor of a block with the hashes of its transactions.
    pub fn new(block: Block, hashes: Vec<Hashes>, trusted: bool) -> BlockExecution {
        BlockExecution { block, hashes, trusted, stage: Stage::CheckingProof }
    }

    /// Does one step. Returns the header once the block is stored.
    pub fn step(
        &mut self,
        txn: &mut WriteTxn<'_>,
        head: &ChainTip,
        conditions: &mut ExecutionContext<'_>,
    ) -> Result<Option<StoredHeader>, BlockError> {
        let stage = std::mem::replace(&mut self.stage, Stage::CheckingProof);
        match self.advance(stage, txn, head, conditions)? {
            StepResult::Stage(stage) => {
                self.stage = stage;
                Ok(None)
            }
            StepResult::Stored(block) => Ok(Some(block)),
        }
    }

    fn advance(
        &mut self,
        stage: Stage,
        txn: &mut WriteTxn<'_>,
        head: &ChainTip,
        conditions: &mut ExecutionContext<'_>,
    ) -> Result<StepResult, BlockError> {
        let network = conditions.network;
        let count = self.block.transactions.len();
        Ok(StepResult::Stage(match stage {
            Stage::CheckingProof => {
                let proof = self.check_position(txn, head, conditions)?;
                Stage::Executing(Box::new(apply::begin(&self.block, txn, network)?), proof, 0)
            }
            Stage::Executing(mut context, proof, done) => {
                let mut ledger = Ledger { txn, block: &mut context, network };
                if done == count {
                    let applied = self.credit_rewards(&mut ledger, head, conditions)?;
                    let expiry = ledger.expiry()?;
                    Stage::Expiring(Box::new((*context, applied)), proof, expiry)
                } else {
                    self.execute(&mut ledger, done, conditions)?;
                    Stage::Executing(context, proof, done + 1)
                }
            }
            Stage::Expiring(mut work, proof, mut expiry) => {
                let mut ledger = Ledger { txn, block: &mut work.0, network };
                match (expiry.step(&mut ledger)?, ledger.pruning()) {
                    (true, _) => Stage::Expiring(work, proof, expiry),
                    (false, Some(pruning)) => Stage::Pruning(work, proof, pruning),
                    (false, None) => Stage::Indexing(work, proof, 0, None),
                }
            }
            Stage::Pruning(work, proof, mut pruning) => match pruning.step(txn)? {
                true => Stage::Pruning(work, proof, pruning),
                false => Stage::Indexing(work, proof, 0, None),
            },
            Stage::Indexing(work, proof, done, Some(mut relisting)) => {
                let relisting = relisting.step(txn, network.byte)?.then_some(relisting);
                Stage::Indexing(work, proof, done, relisting)
            }
            Stage::Indexing(work, proof, done, None) if done == count => Stage::Flushing(work, proof),
            Stage::Indexing(mut work, proof, done, None) => {
                let (context, applied) = &mut *work;
                let mut ledger = Ledger { txn, block: context, network };
                let relisting = apply::index_transaction(&mut ledger, &self.block, &self.hashes, applied, done)?;
                Stage::Indexing(work, proof, done + 1, relisting)
            }
            Stage::Flushing(mut work, proof) => {
                if (Ledger { txn, block: &mut work.0, network }).flush_step()? {
                    return Ok(StepResult::Stage(Stage::Flushing(work, proof)));
                }
                let (_, applied) = *work;
                match due_after(self.block.height) {
                    Some(due) => Stage::Recalculating(Box::new((Recalculation::new(due), applied)), proof),
                    None => self.begin_compaction(txn, head, applied, proof)?,
                }
            }
            Stage::Recalculating(mut work, proof) => match work.0.step(txn, network)? {
                true => Stage::Recalculating(work, proof),
                false => self.begin_compaction(txn, head, work.1, proof)?,
            },
            Stage::Compacting(mut work, proof) => match work.0.step(txn)? {
                true => Stage::Compacting(work, proof),
                false => return self.store(txn, head, work.1, proof, conditions),
            },
        }))
    }

    /// Undoes everything done for the block so far, so that it can start again.
    pub fn restart(&mut self, txn: &mut WriteTxn<'_>, head: &ChainTip) -> Result<(), BlockError> {
        let begun = txn.take_journal();
        txn.undo(&begun)?;
        self.stage = Stage::CheckingProof;
        let in_force = if head.tip.is_some() { head.height().next().importance_height() } else { Height(0) };
        Ok(state::delete_lists_above(txn, in_force)?)
    }

    /// Checks height, signature and proof. The parent hash becomes the hash of our tip, whatever the block names.
    fn check_position(
        &mut self,
        txn: &WriteTxn<'_>,
        head: &ChainTip,
        conditions: &mut ExecutionContext<'_>,
    ) -> Result<ChainPosition, BlockError> {
        let network = conditions.network;
        let refused = |result| Err(BlockError::Rejected(result, None));
        if self.block.height != head.height().next() {
            return refused(ValidationResult::FailureBlockUnexpectedHeight);
        }
        let difficulty = head.window.difficulty(network.chain.target_time).ok_or(BlockError::ZeroElapsedTime)?;
        let Some(parent) = &head.tip else {
            let (hash, good) = check_block_signature(&self.block, self.trusted, conditions.verifier);
            let proof = ChainPosition { hash, generation_hash: network.generation_hash, difficulty };
            return if good { Ok(proof) } else { refused(ValidationResult::FailureBlockUnverifiable) };
        };
        self.block.previous_hash = parent.hash.into();
        let generation_hash = proof::generation_hash(&parent.generation_hash, &self.block.signer);
        let (hash, good) = check_block_signature(&self.block, self.trusted, conditions.verifier);
        if !good {
            return refused(ValidationResult::FailureBlockUnverifiable);
        }
        if !self.trusted && !self.is_hit(txn, parent, &generation_hash, difficulty, network)? {
            return refused(ValidationResult::FailureBlockNotHit);
        }
        Ok(ChainPosition { hash, generation_hash, difficulty })
    }

    fn is_hit(
        &self,
        state: &impl Read,
        parent: &StoredHeader,
        generation_hash: &Hash256,
        difficulty: u64,
        network: &Network,
    ) -> Result<bool, BlockError> {
        let signer = Address::from_public_key(&self.block.signer, network.byte);
        let importance = harvesting_importance(state, &signer, self.block.height, network)?;
        let elapsed = self.block.timestamp.0.wrapping_sub(parent.timestamp.0);
        let target = proof::target(elapsed, importance, difficulty, &network.chain);
        Ok(proof::is_hit(proof::hit(generation_hash), &target))
    }

    fn execute(
        &self,
        ledger: &mut Ledger<'_, impl Write>,
        index: usize,
        conditions: &mut ExecutionContext<'_>,
    ) -> Result<(), BlockError> {
        let (transaction, hashes) = (&self.block.transactions[index], &self.hashes[index]);
        if hashes.all().any(|hash| conditions.seen.contains(hash)) {
            return Err(BlockError::Rejected(ValidationResult::FailureTransactionDuplicateInChain, Some(index)));
        }
        let effects = match self.block.height {
            Height::NEMESIS => {
                let mut effects = Vec::new();
                state::effects(transaction, ledger.txn, ledger.network.byte, &mut effects)?;
                effects
            }
            _ => {
                // Rules and effects need the same accounts: each is read once.
                for account in rules::participants(transaction, ledger.network.byte) {
                    ledger.account(&account)?;
                }
                let context = self.validation_context(ledger, conditions);
                let checked = rules::check_transaction(transaction, &context);
                checked.map_err(|rejection| BlockError::from_rejection(rejection, Some(index)))?
            }
        };
        apply::apply_transaction(ledger, transaction, &effects)?;
        conditions.seen.extend(hashes.all());
        Ok(())
    }

    fn validation_context<'a>(
        &self,
        ledger: &'a Ledger<'_, impl Write>,
        conditions: &ExecutionContext<'a>,
    ) -> ValidationContext<'a> {
        let ExecutionContext { network, now, .. } = *conditions;
        let (state, block, height) = (&*ledger.txn, Some(&*ledger.block), self.block.height);
        ValidationContext { state, block, network, height, now, purpose: Purpose::BlockProcessing }
    }

    /// Applies the rules for the block as a whole, then credits its rewards.
    fn credit_rewards(
        &self,
        ledger: &mut Ledger<'_, impl Write>,
        head: &ChainTip,
        conditions: &ExecutionContext<'_>,
    ) -> Result<AppliedBlock, BlockError> {
        if self.block.height != Height::NEMESIS {
            let checked = rules::check_block(&self.block, &self.hashes, &self.validation_context(ledger, conditions));
            checked.map_err(|rejection| BlockError::from_rejection(rejection, None))?;
        }
        Ok(apply::credit_block(ledger, &self.block, head.tip.as_ref())?)
    }

    /// Starts compacting old hashes. Compaction changes nothing that undoing the block would restore.
    fn begin_compaction(
        &self,
        state: &impl Read,
        head: &ChainTip,
        applied: AppliedBlock,
        proof: ChainPosition,
    ) -> Result<Stage, BlockError> {
        let hashes = self.hashes.iter().map(|hashes| 1 + hashes.children.len()).sum();
        let final_height = head.tip.as_ref().map_or(Ok(Height(0)), |tip| lowest_undoable(state, tip.height))?;
        let packing = HashCompaction::new(state, final_height, hashes)?;
        Ok(Stage::Compacting(Box::new((packing, applied)), proof))
    }

    fn store(
        &self,
        txn: &mut WriteTxn<'_>,
        head: &ChainTip,
        applied: AppliedBlock,
        proof: ChainPosition,
        conditions: &ExecutionContext<'_>,
    ) -> Result<StepResult, BlockError> {
        let elapsed = |parent: &StoredHeader| self.block.timestamp.0.wrapping_sub(parent.timestamp.0);
        let score = head
            .tip
            .as_ref()
            .map_or(0, |parent| parent.score + i128::from(proof::block_score(proof.difficulty, elapsed(parent))));
        let header = StoredHeader {
            height: self.block.height,
            hash: proof.hash,
            generation_hash: proof.generation_hash,
            timestamp: self.block.timestamp,
            difficulty: proof.difficulty,
            score,
            total_fee: self.block.total_fee(),
            beneficiary: applied.beneficiary,
            ids: applied.ids,
        };
        match conditions.retention {
            Retention::Chain => apply::store(txn, &header, &self.block, conditions.network.chain.rewrite_limit)?,
            Retention::State(from) => apply::store_state(txn, &header, &self.block, from)?,
        }
        Ok(StepResult::Stored(header))
    }
}

/// Returns the importance with which an account signs a block at a height, in whole units. An importance of another
/// importance height counts as 0: such an account is not eligible, and the NEM network never accepts its blocks.
pub fn harvesting_importance(
    state: &impl Read,
    signer: &Address,
    height: Height,
    network: &Network,
) -> Result<u64, BlockError> {
    let account = state::account(state, signer)?;
    let harvester = account.forwarded(height, network.chain.rewrite_limit).unwrap_or(*signer);
    let last = state::importance(state, &harvester)?.filter(|last| last.height == height.importance_height());
    Ok(last.map_or(0, |last| proof::effective_importance(last.importance, network.total_amount)))
}
