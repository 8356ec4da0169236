//! Processes one block on top of a chain, one step at a time: its proof of importance, its transactions by all rules,
//! its rewards, and the importances that are due after it.

use std::collections::BTreeSet;

use super::apply::{self, Keeping, Settled};
use super::error::BlockError;
use super::head::ChainHead;
use super::proof;
use super::recalculation::{Recalculation, due_after};
use super::rollback::lowest_undoable;
use super::signatures::check_block_signature;
use crate::crypto::Verifier;
use crate::model::transaction::Hashes;
use crate::model::{Address, Block, Hash256, Height, Network, Timestamp};
use crate::rules::{self, Case, Purpose, ValidationResult};
use crate::state::catalogue::Relisting;
use crate::state::{self, BlockContext, Expiry, HashPacking, Ledger, Pruning};
use crate::store::{Batch, Read, StoredBlock, Write};

/// Parameters for processing a block, besides the state.
pub struct Conditions<'a> {
    /// The network.
    pub network: &'a Network,
    /// Network time.
    pub now: Timestamp,
    /// What is stored of the block, besides its effect on the state.
    pub keeping: Keeping,
    /// Caches the public keys that it decoded.
    pub verifier: &'a mut Verifier,
    /// Hashes of the earlier transactions of the same candidate branch, including nested ones.
    pub seen: &'a mut BTreeSet<Hash256>,
}

/// A block whose transaction signatures are valid, while it is being processed.
pub struct Admission {
    block: Block,
    hashes: Vec<Hashes>,
    /// Whether a checkpoint covers the block and the parent hash that it names: its signature and proof are not
    /// checked.
    trusted: bool,
    stage: Stage,
}

enum Stage {
    /// Its height, parent and proof are to be checked.
    Placing,
    /// Its transactions are being executed; the number of those done.
    Executing(Box<BlockContext>, Proof, usize),
    /// The transactions are executed and the rewards credited; expired leases are processed.
    Expiring(Box<(BlockContext, Settled)>, Proof, Expiry),
    /// Old data is pruned.
    Pruning(Box<(BlockContext, Settled)>, Proof, Pruning),
    /// Its transactions are indexed: the number of those done, and the pending listing update of the last one.
    Recording(Box<(BlockContext, Settled)>, Proof, usize, Option<Relisting>),
    /// Changed accounts and other pending state are written.
    Writing(Box<(BlockContext, Settled)>, Proof),
    /// The importances that are due are recalculated before the block is stored.
    Recalculating(Box<(Recalculation, Settled)>, Proof),
    /// Some old hashes are compacted before the block is stored.
    Packing(Box<(HashPacking, Settled)>, Proof),
}

/// Result of one step.
enum Next {
    /// There is more to do.
    Stage(Stage),
    Stored(StoredBlock),
}

/// Values that follow from the position of a block in the chain.
#[derive(Clone, Copy)]
struct Proof {
    hash: Hash256,
    generation_hash: Hash256,
    difficulty: u64,
}

impl Admission {
    /// Creates the processor of a block with the hashes of its transactions.
    pub fn new(block: Block, hashes: Vec<Hashes>, trusted: bool) -> Admission {
        Admission { block, hashes, trusted, stage: Stage::Placing }
    }

    /// Does one step. Returns the header once the block is stored.
    pub fn step(
        &mut self,
        batch: &mut Batch<'_>,
        head: &ChainHead,
        conditions: &mut Conditions<'_>,
    ) -> Result<Option<StoredBlock>, BlockError> {
        let stage = std::mem::replace(&mut self.stage, Stage::Placing);
        match self.advance(stage, batch, head, conditions)? {
            Next::Stage(stage) => {
                self.stage = stage;
                Ok(None)
            }
            Next::Stored(block) => Ok(Some(block)),
        }
    }

    fn advance(
        &mut self,
        stage: Stage,
        batch: &mut Batch<'_>,
        head: &ChainHead,
        conditions: &mut Conditions<'_>,
    ) -> Result<Next, BlockError> {
        let network = conditions.network;
        let count = self.block.transactions.len();
        Ok(Next::Stage(match stage {
            Stage::Placing => {
                let proof = self.place(batch, head, conditions)?;
                Stage::Executing(Box::new(apply::begin(&self.block, batch, network)?), proof, 0)
            }
            Stage::Executing(mut context, proof, done) => {
                let mut ledger = Ledger { batch, block: &mut context, network };
                if done == count {
                    let settled = self.settle(&mut ledger, head, conditions)?;
                    let expiry = ledger.expiry()?;
                    Stage::Expiring(Box::new((*context, settled)), proof, expiry)
                } else {
                    self.execute(&mut ledger, done, conditions)?;
                    Stage::Executing(context, proof, done + 1)
                }
            }
            Stage::Expiring(mut work, proof, mut expiry) => {
                let mut ledger = Ledger { batch, block: &mut work.0, network };
                match (expiry.step(&mut ledger)?, ledger.pruning()) {
                    (true, _) => Stage::Expiring(work, proof, expiry),
                    (false, Some(pruning)) => Stage::Pruning(work, proof, pruning),
                    (false, None) => Stage::Recording(work, proof, 0, None),
                }
            }
            Stage::Pruning(work, proof, mut pruning) => match pruning.step(batch)? {
                true => Stage::Pruning(work, proof, pruning),
                false => Stage::Recording(work, proof, 0, None),
            },
            Stage::Recording(work, proof, done, Some(mut relisting)) => {
                let relisting = relisting.step(batch, network.byte)?.then_some(relisting);
                Stage::Recording(work, proof, done, relisting)
            }
            Stage::Recording(work, proof, done, None) if done == count => Stage::Writing(work, proof),
            Stage::Recording(mut work, proof, done, None) => {
                let (context, settled) = &mut *work;
                let mut ledger = Ledger { batch, block: context, network };
                let relisting = apply::record(&mut ledger, &self.block, &self.hashes, settled, done)?;
                Stage::Recording(work, proof, done + 1, relisting)
            }
            Stage::Writing(mut work, proof) => {
                if (Ledger { batch, block: &mut work.0, network }).finish_some()? {
                    return Ok(Next::Stage(Stage::Writing(work, proof)));
                }
                let (_, settled) = *work;
                match due_after(self.block.height) {
                    Some(due) => Stage::Recalculating(Box::new((Recalculation::new(due), settled)), proof),
                    None => self.pack(batch, head, settled, proof)?,
                }
            }
            Stage::Recalculating(mut work, proof) => match work.0.step(batch, network)? {
                true => Stage::Recalculating(work, proof),
                false => self.pack(batch, head, work.1, proof)?,
            },
            Stage::Packing(mut work, proof) => match work.0.step(batch)? {
                true => Stage::Packing(work, proof),
                false => return self.store(batch, head, work.1, proof, conditions),
            },
        }))
    }

    /// Undoes everything done for the block so far, so that it can start again.
    pub fn restart(&mut self, batch: &mut Batch<'_>, head: &ChainHead) -> Result<(), BlockError> {
        let begun = batch.take_journal();
        batch.undo(&begun)?;
        self.stage = Stage::Placing;
        let in_force = if head.tip.is_some() { head.height().next().grouped() } else { Height(0) };
        Ok(state::forget_above(batch, in_force)?)
    }

    /// Checks height, signature and proof. The parent hash becomes the hash of our tip, whatever the block names.
    fn place(
        &mut self,
        batch: &Batch<'_>,
        head: &ChainHead,
        conditions: &mut Conditions<'_>,
    ) -> Result<Proof, BlockError> {
        let network = conditions.network;
        let refused = |result| Err(BlockError::Refused(result, None));
        if self.block.height != head.height().next() {
            return refused(ValidationResult::FailureBlockUnexpectedHeight);
        }
        let difficulty = head.window.difficulty(network.chain.target_time).ok_or(BlockError::NoTimePasses)?;
        let Some(parent) = &head.tip else {
            let (hash, good) = check_block_signature(&self.block, self.trusted, conditions.verifier);
            let proof = Proof { hash, generation_hash: network.generation_hash, difficulty };
            return if good { Ok(proof) } else { refused(ValidationResult::FailureBlockUnverifiable) };
        };
        self.block.previous_hash = parent.hash.into();
        let generation_hash = proof::generation_hash(&parent.generation_hash, &self.block.signer);
        let (hash, good) = check_block_signature(&self.block, self.trusted, conditions.verifier);
        if !good {
            return refused(ValidationResult::FailureBlockUnverifiable);
        }
        if !self.trusted && !self.is_hit(batch, parent, &generation_hash, difficulty, network)? {
            return refused(ValidationResult::FailureBlockNotHit);
        }
        Ok(Proof { hash, generation_hash, difficulty })
    }

    fn is_hit(
        &self,
        state: &impl Read,
        parent: &StoredBlock,
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
        conditions: &mut Conditions<'_>,
    ) -> Result<(), BlockError> {
        let (transaction, hashes) = (&self.block.transactions[index], &self.hashes[index]);
        if hashes.all().any(|hash| conditions.seen.contains(hash)) {
            return Err(BlockError::Refused(ValidationResult::FailureTransactionDuplicateInChain, Some(index)));
        }
        let effects = match self.block.height {
            Height::NEMESIS => {
                let mut effects = Vec::new();
                state::effects(transaction, ledger, ledger.network.byte, &mut effects)?;
                effects
            }
            _ => {
                // Rules and effects need the same accounts: each is read once.
                for account in rules::accounts_of(transaction, ledger.network.byte) {
                    ledger.account(&account)?;
                }
                let case = self.case(ledger, conditions);
                let checked = rules::check_transaction(transaction, &case);
                checked.map_err(|refusal| BlockError::by_rule(refusal, Some(index)))?
            }
        };
        apply::apply_transaction(ledger, transaction, &effects)?;
        conditions.seen.extend(hashes.all());
        Ok(())
    }

    fn case<'a, 'b, W: Write>(
        &self,
        ledger: &'a Ledger<'b, W>,
        conditions: &Conditions<'a>,
    ) -> Case<'a, Ledger<'b, W>> {
        let Conditions { network, now, .. } = *conditions;
        Case { state: ledger, network, height: self.block.height, now, purpose: Purpose::ChainPart }
    }

    /// Applies the rules for the block as a whole, then credits its rewards.
    fn settle(
        &self,
        ledger: &mut Ledger<'_, impl Write>,
        head: &ChainHead,
        conditions: &Conditions<'_>,
    ) -> Result<Settled, BlockError> {
        if self.block.height != Height::NEMESIS {
            let checked = rules::check_block(&self.block, &self.hashes, &self.case(ledger, conditions));
            checked.map_err(|refusal| BlockError::by_rule(refusal, None))?;
        }
        Ok(apply::settle(ledger, &self.block, head.tip.as_ref())?)
    }

    /// Starts compacting old hashes. Compaction changes nothing that undoing the block would restore.
    fn pack(&self, state: &impl Read, head: &ChainHead, settled: Settled, proof: Proof) -> Result<Stage, BlockError> {
        let hashes = self.hashes.iter().map(|hashes| 1 + hashes.children.len()).sum();
        let final_height = head.tip.as_ref().map_or(Ok(Height(0)), |tip| lowest_undoable(state, tip.height))?;
        let packing = HashPacking::new(state, final_height, hashes)?;
        Ok(Stage::Packing(Box::new((packing, settled)), proof))
    }

    fn store(
        &self,
        batch: &mut Batch<'_>,
        head: &ChainHead,
        settled: Settled,
        proof: Proof,
        conditions: &Conditions<'_>,
    ) -> Result<Next, BlockError> {
        let elapsed = |parent: &StoredBlock| self.block.timestamp.0.wrapping_sub(parent.timestamp.0);
        let score = head
            .tip
            .as_ref()
            .map_or(0, |parent| parent.score + i128::from(proof::block_score(proof.difficulty, elapsed(parent))));
        let header = StoredBlock {
            height: self.block.height,
            hash: proof.hash,
            generation_hash: proof.generation_hash,
            timestamp: self.block.timestamp,
            difficulty: proof.difficulty,
            score,
            total_fee: self.block.total_fee(),
            lessor: settled.lessor,
            ids: settled.ids,
        };
        match conditions.keeping {
            Keeping::Chain => apply::store(batch, &header, &self.block, conditions.network.chain.rewrite_limit)?,
            Keeping::State(from) => apply::store_state(batch, &header, &self.block, from)?,
        }
        Ok(Next::Stored(header))
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
    let last = state::importance(state, &harvester)?.filter(|last| last.height == height.grouped());
    Ok(last.map_or(0, |last| proof::effective_importance(last.importance, network.total_amount)))
}
