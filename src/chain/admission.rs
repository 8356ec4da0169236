//! Putting one block onto a chain: its proof, its transactions by all rules, its rewards, and the importances that are
//! due after it. One piece of work at a time.

use std::collections::BTreeSet;

use super::apply::{self, Keeping, Settled};
use super::error::BlockError;
use super::head::ChainHead;
use super::proof;
use super::recalculation::{Recalculation, due_after};
use super::signatures::check_block_signature;
use crate::crypto::Verifier;
use crate::model::transaction::Hashes;
use crate::model::{Address, Block, Hash256, Height, Network, Timestamp};
use crate::rules::{self, Case, Purpose, ValidationResult};
use crate::state::catalogue::Relisting;
use crate::state::{self, BlockContext, Expiry, Ledger, Pruning};
use crate::store::{Batch, Read, StoredBlock, Write};

/// What judging a block takes, besides the state.
pub struct Conditions<'a> {
    /// The network.
    pub network: &'a Network,
    /// Network time.
    pub now: Timestamp,
    /// What is kept of the block, besides what it does to the state.
    pub keeping: Keeping,
    /// Keeps keys that were seen.
    pub verifier: &'a mut Verifier,
    /// Hashes of the transactions before this one in the same chain part, those nested in them included.
    pub seen: &'a mut BTreeSet<Hash256>,
}

/// A block whose transactions' signatures are good, on its way into a batch.
pub struct Admission {
    block: Block,
    hashes: Vec<Hashes>,
    /// Whether the user vouches for it and for the block that it names before it: neither its signature nor its
    /// proof is looked at.
    trusted: bool,
    stage: Stage,
}

enum Stage {
    /// Its place and proof are to be checked.
    Placing,
    /// Its transactions are carried out; how many were.
    Executing(Box<BlockContext>, Proof, usize),
    /// They are carried out, and the block is credited; leases end with it.
    Expiring(Box<(BlockContext, Settled)>, Proof, Expiry),
    /// What is old is forgotten.
    Pruning(Box<(BlockContext, Settled)>, Proof, Pruning),
    /// Its transactions are remembered; how many were, and what the last of them makes active.
    Recording(Box<(BlockContext, Settled)>, Proof, usize, Option<Relisting>),
    /// What it has changed is written.
    Writing(Box<(BlockContext, Settled)>, Proof),
    /// All is done but that importances are due before it is stored.
    Recalculating(Box<(Recalculation, Settled)>, Proof),
}

/// What follows a piece of work.
enum Next {
    /// There is more to do.
    Stage(Stage),
    /// The block is stored.
    Stored(StoredBlock),
}

/// What follows from the place of a block in the chain.
#[derive(Clone, Copy)]
struct Proof {
    hash: Hash256,
    generation_hash: Hash256,
    difficulty: u64,
}

impl Admission {
    /// Begins with a block and the hashes of its transactions.
    pub fn new(block: Block, hashes: Vec<Hashes>, trusted: bool) -> Admission {
        Admission { block, hashes, trusted, stage: Stage::Placing }
    }

    /// Does one piece of work. The block, once it is stored in the batch.
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
                    None => return self.store(batch, head, settled, proof, conditions),
                }
            }
            Stage::Recalculating(mut work, proof) => match work.0.step(batch, network)? {
                true => Stage::Recalculating(work, proof),
                false => return self.store(batch, head, work.1, proof, conditions),
            },
        }))
    }

    /// Takes back what was done in the batch, so that the block can begin anew.
    pub fn restart(&mut self, batch: &mut Batch<'_>, head: &ChainHead) -> Result<(), BlockError> {
        let begun = batch.take_journal();
        batch.undo(&begun)?;
        self.stage = Stage::Placing;
        let in_force = if head.tip.is_some() { head.height().next().grouped() } else { Height(0) };
        Ok(state::forget_above(batch, in_force)?)
    }

    /// Checks height, signature and proof. The hash of the block before is ours, whatever the block says.
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
                // Rules and effects ask for the same accounts: each is read once.
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

    /// The rules of the block as a whole, then its rewards.
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

/// Importance with which an account signs a block at a height, in whole units. One that was computed for another height
/// counts as none: such an account lost its eligibility, and the protocol's network never accepts its blocks.
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
