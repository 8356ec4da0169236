//! Validates a candidate branch as a whole: blocks that follow one of ours and may replace our blocks above it.
//!
//! All work is done in one write transaction. It is committed if the branch is valid and better, and dropped otherwise,
//! so that the chain is never between two states. The outcome is returned once it is durable.

use std::collections::{BTreeSet, VecDeque};

use super::apply::Retention;
use super::block_execution::{BlockExecution, ExecutionContext};
use super::chain_comparer::{Decision, decide};
use super::chain_tip::ChainTip;
use super::error::BlockError;
use super::reorgs::ReplacedBlock;
use super::rollback::{RollbackError, lowest_undoable, undo_tip};
use super::signatures::{BadSignature, SignatureCheck};
use crate::codec::Context;
use crate::crypto::Verifier;
use crate::model::transaction::{Hashes, kind};
use crate::model::{Block, Hash256, Height, Network, Timestamp, Transaction};
use crate::rules::{Exception, ExceptionKind, ValidationResult};
use crate::store::{Store, StoreError, WriteTxn, stored_block, stored_header, tip};

/// Validation result of a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Validity {
    /// All its blocks are valid.
    Valid,
    /// The branch is rejected; its first error.
    Rejected(ValidationResult),
    /// Validation fails with an exception; the text is NIS1's where it has one.
    Exception(Exception),
}

/// Outcome of a branch.
#[derive(Clone, Debug)]
pub struct BranchOutcome {
    /// Validation result.
    pub validity: Validity,
    /// Scores of our blocks above the common one, and of the branch, if the branch is valid.
    pub scores: Option<(i64, i64)>,
    /// The change of our chain, if the branch was better.
    pub update: Option<ChainUpdate>,
}

/// A change of our chain.
#[derive(Clone, Debug)]
pub struct ChainUpdate {
    /// The last common block.
    pub common: Height,
    /// The new tip.
    pub tip: Height,
    /// Our replaced blocks, lowest first.
    pub replaced: Vec<ReplacedBlock>,
    /// Hashes of the branch's top-level transactions.
    pub confirmed: BTreeSet<Hash256>,
    /// Top-level transactions of our replaced blocks that the branch does not contain, in the order in which they
    /// return to the mempool.
    pub returned: Vec<Transaction>,
}

impl BranchOutcome {
    fn of(validity: Validity) -> BranchOutcome {
        BranchOutcome { validity, scores: None, update: None }
    }

    /// Returns the result for a pushed or harvested block.
    pub fn as_push_result(&self) -> Result<ValidationResult, &Exception> {
        match (&self.validity, self.scores) {
            (Validity::Exception(exception), _) => Err(exception),
            _ if self.update.is_some() => Ok(ValidationResult::Success),
            (Validity::Valid, Some((ours, theirs))) if decide(ours, theirs) == Decision::Keep => {
                Ok(ValidationResult::Neutral)
            }
            _ => Ok(ValidationResult::FailureChainInvalid),
        }
    }

    /// Returns the result for a branch that was requested because its sender reported a better chain.
    pub fn as_sync_result(&self) -> Result<ValidationResult, &Exception> {
        match &self.validity {
            Validity::Exception(exception) => Err(exception),
            _ if self.update.is_some() => Ok(ValidationResult::Success),
            _ => Ok(ValidationResult::FailureChainScoreInferior),
        }
    }
}

/// A candidate branch that is being processed.
pub struct CandidateBranch<'s> {
    store: &'s Store,
    work: Phase<'s>,
}

enum Phase<'s> {
    /// It is being validated.
    Validating(Box<BranchValidation<'s>>),
    /// It has become our chain, and is being synchronised to the disk.
    Syncing(BranchOutcome),
}

/// The validation of a branch, with its changes of the chain.
struct BranchValidation<'s> {
    network: &'s Network,
    batch: WriteTxn<'s>,
    verifier: Verifier,
    seen: BTreeSet<Hash256>,
    common: Height,
    /// Our undone blocks, highest first.
    undone: Vec<Block>,
    our_score: i128,
    common_score: i128,
    /// Hashes of the branch's top-level transactions.
    top_level_hashes: BTreeSet<Hash256>,
    /// Hashes of the transactions of its only block, if their signatures are known to be valid.
    verified_hashes: Option<Vec<Hashes>>,
    stage: Stage,
}

enum Stage {
    /// Our blocks above the common one are undone; the blocks of the branch.
    Undoing(VecDeque<Block>),
    /// Signatures of the branch's transactions are checked: blocks to check, the current one, and checked ones.
    CheckingSignatures(VecDeque<Block>, Option<Box<(Block, SignatureCheck)>>, VecDeque<(Block, Vec<Hashes>)>),
    /// Blocks are processed: the tip, the blocks to come, and the current one.
    Executing(Box<ChainTip>, VecDeque<(Block, Vec<Hashes>)>, Option<Box<BlockExecution>>),
}

/// Result of one step of a branch.
pub enum BranchProgress<'s> {
    /// There is more to do.
    Working(Box<CandidateBranch<'s>>),
    /// The branch is validated, and its outcome is durable.
    Done(BranchOutcome),
}

impl<'s> CandidateBranch<'s> {
    /// Creates a branch of blocks that follow our block at the height `common`. Fails if that is above our tip or
    /// deeper than our blocks can be undone. They can be undone down to the rewrite limit below the highest block that
    /// the chain ever had: a rollback does not extend that.
    pub fn new(
        store: &'s Store,
        network: &'s Network,
        common: Height,
        blocks: Vec<Block>,
    ) -> Result<CandidateBranch<'s>, RollbackError> {
        let batch = store.begin_write()?;
        let last = tip(&batch)?.ok_or(StoreError::Empty)?;
        if common > last.height || common.0 == 0 {
            return Err(RollbackError::NotBelow { tip: last.height });
        }
        let lowest = lowest_undoable(&batch, last.height)?;
        if common < lowest {
            return Err(RollbackError::TooDeep { lowest });
        }
        let base = stored_header(&batch, common)?.ok_or(StoreError::Damaged("a block is missing"))?;
        let trial = BranchValidation {
            network,
            batch,
            verifier: Verifier::default(),
            seen: BTreeSet::new(),
            common,
            undone: Vec::new(),
            our_score: last.score - base.score,
            common_score: base.score,
            top_level_hashes: BTreeSet::new(),
            verified_hashes: None,
            stage: Stage::Undoing(blocks.into()),
        };
        Ok(CandidateBranch { store, work: Phase::Validating(Box::new(trial)) })
    }

    /// Like [`CandidateBranch::new`], with one block whose transactions have valid signatures and these hashes.
    pub fn with_verified_hashes(
        store: &'s Store,
        network: &'s Network,
        common: Height,
        block: Block,
        hashes: Vec<Hashes>,
    ) -> Result<CandidateBranch<'s>, RollbackError> {
        let mut part = CandidateBranch::new(store, network, common, vec![block])?;
        if let Phase::Validating(trial) = &mut part.work {
            trial.verified_hashes = Some(hashes);
        }
        Ok(part)
    }

    /// Returns whether the branch has become our chain but its outcome was not returned yet.
    pub fn is_committed(&self) -> bool {
        matches!(self.work, Phase::Syncing(_))
    }

    /// Does one piece of work; `now` is network time. Must not be called while the store waits for the disk
    /// ([`Store::waits_for_disk`]). Fails only if the store does; then nothing has changed, or it is not known whether
    /// the change is durable.
    #[allow(clippy::boxed_local, reason = "the caller keeps the branch in a box")]
    pub fn step(self: Box<Self>, now: Timestamp) -> Result<BranchProgress<'s>, StoreError> {
        let CandidateBranch { store, work } = *self;
        let go_on = |work| Ok(BranchProgress::Working(Box::new(CandidateBranch { store, work })));
        let outcome = match work {
            Phase::Validating(mut trial) => match trial.step(now) {
                Ok(false) => return go_on(Phase::Validating(trial)),
                // At most one commit may be not yet durable.
                Ok(true) if !store.poll_sync()? => return go_on(Phase::Validating(trial)),
                Ok(true) => trial.decide()?,
                Err(BlockError::Store(error)) => return Err(error),
                Err(rejection) => BranchOutcome::of(Validity::of(rejection)),
            },
            Phase::Syncing(outcome) => outcome,
        };
        if outcome.update.is_some() && !store.poll_sync()? {
            return go_on(Phase::Syncing(outcome));
        }
        Ok(BranchProgress::Done(outcome))
    }
}

impl BranchValidation<'_> {
    /// Does one piece of work. Returns whether the whole branch is processed.
    fn step(&mut self, now: Timestamp) -> Result<bool, BlockError> {
        let undoing = Stage::Undoing(VecDeque::new());
        self.stage = match std::mem::replace(&mut self.stage, undoing) {
            Stage::Undoing(blocks) => self.undo(blocks)?,
            Stage::CheckingSignatures(to_check, in_hand, checked) => {
                self.check_signatures(to_check, in_hand, checked)?
            }
            Stage::Executing(head, blocks, None) if blocks.is_empty() => {
                self.stage = Stage::Executing(head, blocks, None);
                return Ok(true);
            }
            Stage::Executing(head, blocks, in_hand) => self.execute(head, blocks, in_hand, now)?,
        };
        Ok(false)
    }

    /// Undoes our tip, if it is above the common block. Otherwise checks difficulties and length of the branch.
    fn undo(&mut self, blocks: VecDeque<Block>) -> Result<Stage, BlockError> {
        let last = tip(&self.batch)?.ok_or(StoreError::Empty)?.height;
        if last > self.common {
            let block = stored_block(&self.batch, last, Context::of(self.network))?;
            self.undone.extend(block.map(|(_, block)| block));
            undo_tip(&mut self.batch, last)?;
            return Ok(Stage::Undoing(blocks));
        }
        self.check_difficulties(&blocks)?;
        if blocks.len() as u64 > self.network.chain.max_blocks_per_sync() {
            return Err(BlockError::Rejected(ValidationResult::FailureMaxChainSizeExceeded, None));
        }
        let checked = VecDeque::with_capacity(blocks.len());
        Ok(Stage::CheckingSignatures(blocks, None, checked))
    }

    /// Checks that all difficulties are defined. NIS1 does this before everything else.
    fn check_difficulties(&self, blocks: &VecDeque<Block>) -> Result<(), BlockError> {
        let mut window = ChainTip::load_at(&self.batch, self.common)?.window;
        for block in blocks {
            let difficulty = window.difficulty(self.network.chain.target_time).ok_or(BlockError::ZeroElapsedTime)?;
            window.push(difficulty, block.timestamp);
        }
        Ok(())
    }

    fn check_signatures(
        &mut self,
        mut to_check: VecDeque<Block>,
        in_hand: Option<Box<(Block, SignatureCheck)>>,
        mut checked: VecDeque<(Block, Vec<Hashes>)>,
    ) -> Result<Stage, BlockError> {
        let next = |block: Block| {
            let check = SignatureCheck::new(&block, self.network, false);
            Box::new((block, check))
        };
        let Some(mut in_hand) = in_hand.or_else(|| to_check.pop_front().map(next)) else {
            let head = ChainTip::load_at(&self.batch, self.common)?;
            return Ok(Stage::Executing(Box::new(head), checked, None));
        };
        if let Some(hashes) = self.verified_hashes.take() {
            self.add_checked(in_hand.0, hashes, &mut checked);
            return Ok(Stage::CheckingSignatures(to_check, None, checked));
        }
        let (block, check) = &mut *in_hand;
        let more = check.step(block, &mut self.verifier).map_err(|BadSignature(index)| {
            BlockError::Rejected(ValidationResult::FailureTransactionUnverifiable, Some(index))
        })?;
        if more {
            return Ok(Stage::CheckingSignatures(to_check, Some(in_hand), checked));
        }
        let (block, check) = *in_hand;
        self.add_checked(block, check.into_hashes(), &mut checked);
        Ok(Stage::CheckingSignatures(to_check, None, checked))
    }

    fn add_checked(&mut self, block: Block, hashes: Vec<Hashes>, checked: &mut VecDeque<(Block, Vec<Hashes>)>) {
        self.top_level_hashes.extend(hashes.iter().map(|hashes| hashes.own));
        checked.push_back((block, hashes));
    }

    fn execute(
        &mut self,
        mut head: Box<ChainTip>,
        mut blocks: VecDeque<(Block, Vec<Hashes>)>,
        in_hand: Option<Box<BlockExecution>>,
        now: Timestamp,
    ) -> Result<Stage, BlockError> {
        let next = |(block, hashes)| Box::new(BlockExecution::new(block, hashes, false));
        let Some(mut admission) = in_hand.or_else(|| blocks.pop_front().map(next)) else {
            return Ok(Stage::Executing(head, blocks, None));
        };
        let (network, keeping) = (self.network, Retention::Chain);
        let mut conditions =
            ExecutionContext { network, now, retention: keeping, verifier: &mut self.verifier, seen: &mut self.seen };
        let stored = admission.step(&mut self.batch, &head, &mut conditions)?;
        let in_hand = stored.is_none().then_some(admission);
        stored.into_iter().for_each(|block| head.push(block));
        Ok(Stage::Executing(head, blocks, in_hand))
    }

    /// Commits a valid branch if its score is higher; on a tie our blocks stay.
    fn decide(self: Box<Self>) -> Result<BranchOutcome, StoreError> {
        let last = tip(&self.batch)?.ok_or(StoreError::Empty)?;
        // As in NIS1, sums wrap at 64 bits.
        let (ours, theirs) = (self.our_score as i64, (last.score - self.common_score) as i64);
        let mut outcome = BranchOutcome { validity: Validity::Valid, scores: Some((ours, theirs)), update: None };
        if decide(ours, theirs) == Decision::Switch {
            let replaced = self.undone.iter().rev().map(replaced).collect();
            let returned = returned(self.undone, &self.top_level_hashes);
            self.batch.commit_deferred_sync()?;
            let (common, last) = (self.common, last.height);
            outcome.update =
                Some(ChainUpdate { common, tip: last, replaced, confirmed: self.top_level_hashes, returned });
        }
        Ok(outcome)
    }
}

impl Validity {
    fn of(error: BlockError) -> Validity {
        match error {
            BlockError::Rejected(result, _) => Validity::Rejected(result),
            BlockError::Exception(exception, _) => Validity::Exception(exception),
            BlockError::ZeroElapsedTime => Validity::Exception(Exception {
                kind: ExceptionKind::Other,
                text: "BigInteger divide by zero".to_owned(),
            }),
            other => Validity::Exception(Exception { kind: ExceptionKind::Other, text: other.to_string() }),
        }
    }
}

fn replaced(block: &Block) -> ReplacedBlock {
    ReplacedBlock {
        height: block.height,
        hash: block.hash(),
        signer: block.signer,
        timestamp: block.timestamp,
        transactions: block.transactions.len(),
        is_own: false,
    }
}

/// Order of kinds in which the transactions of a replaced block return to the mempool.
const RETURN_ORDER: [i32; 7] = [
    kind::TRANSFER,
    kind::IMPORTANCE_TRANSFER,
    kind::AGGREGATE_MODIFICATION,
    kind::MULTISIG,
    kind::PROVISION_NAMESPACE,
    kind::MOSAIC_DEFINITION_CREATION,
    kind::MOSAIC_SUPPLY_CHANGE,
];

fn returned(undone: Vec<Block>, kept: &BTreeSet<Hash256>) -> Vec<Transaction> {
    let mut returned = Vec::new();
    for mut block in undone {
        block
            .transactions
            .sort_by_key(|transaction| RETURN_ORDER.iter().position(|kind| *kind == transaction.body.kind()));
        returned.extend(block.transactions.into_iter().filter(|transaction| !kept.contains(&transaction.hash())));
    }
    returned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_has_a_result_for_pushed_and_one_for_requested_blocks() {
        use ValidationResult::{FailureChainInvalid, FailureChainScoreInferior, Neutral, Success};
        let update = ChainUpdate {
            common: Height(1),
            tip: Height(2),
            replaced: vec![],
            confirmed: BTreeSet::new(),
            returned: vec![],
        };
        let outcome = |validity, scores, update| BranchOutcome { validity, scores, update };
        let rejected = Validity::Rejected(ValidationResult::FailureBlockNotHit);
        for (outcome, pushed, requested) in [
            (outcome(Validity::Valid, Some((5, 6)), Some(update)), Success, Success),
            (outcome(Validity::Valid, Some((5, 5)), None), Neutral, FailureChainScoreInferior),
            (outcome(Validity::Valid, Some((5, 0)), None), FailureChainInvalid, FailureChainScoreInferior),
            (outcome(rejected, None, None), FailureChainInvalid, FailureChainScoreInferior),
        ] {
            assert_eq!(
                (outcome.as_push_result(), outcome.as_sync_result()),
                (Ok(pushed), Ok(requested)),
                "{outcome:?}"
            );
        }
        let exception = Exception::argument("no such block");
        let outcome = outcome(Validity::Exception(exception.clone()), None, None);
        assert_eq!((outcome.as_push_result(), outcome.as_sync_result()), (Err(&exception), Err(&exception)));
    }
}
