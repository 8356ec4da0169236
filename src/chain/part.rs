//! Validates a candidate branch as a whole: blocks that follow one of ours and may replace our blocks above it.
//!
//! All work is done in one write transaction. It is committed if the branch is valid and better, and dropped otherwise,
//! so that the chain is never between two states. The outcome is returned once it is durable.

use std::collections::{BTreeSet, VecDeque};

use super::admission::{Admission, Conditions};
use super::apply::Keeping;
use super::comparison::{Decision, decide};
use super::error::BlockError;
use super::head::ChainHead;
use super::reorgs::Replaced;
use super::rollback::{RollbackError, lowest_undoable, undo_tip};
use super::signatures::{BadSignature, SignatureCheck};
use crate::codec::Context;
use crate::crypto::Verifier;
use crate::model::transaction::{Hashes, kind};
use crate::model::{Block, Hash256, Height, Network, Timestamp, Transaction};
use crate::rules::{Exception, ExceptionKind, ValidationResult};
use crate::store::{Batch, Store, StoreError, stored_block, stored_header, tip};

/// Validation result of a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Validity {
    /// All its blocks are valid.
    Valid,
    /// The branch is rejected; its first error.
    Refused(ValidationResult),
    /// Validation fails with an exception; the text is NIS1's where it has one.
    Exception(Exception),
}

/// Outcome of a branch.
#[derive(Clone, Debug)]
pub struct PartOutcome {
    /// Validation result.
    pub validity: Validity,
    /// Scores of our blocks above the common one, and of the branch, if the branch is valid.
    pub scores: Option<(i64, i64)>,
    /// The change of our chain, if the branch was better.
    pub switch: Option<Switch>,
}

/// A change of our chain.
#[derive(Clone, Debug)]
pub struct Switch {
    /// The last common block.
    pub common: Height,
    /// The new tip.
    pub last: Height,
    /// Our replaced blocks, lowest first.
    pub replaced: Vec<Replaced>,
    /// Hashes of the branch's top-level transactions.
    pub confirmed: BTreeSet<Hash256>,
    /// Top-level transactions of our replaced blocks that the branch does not contain, in the order in which they
    /// return to the mempool.
    pub returned: Vec<Transaction>,
}

impl PartOutcome {
    fn of(validity: Validity) -> PartOutcome {
        PartOutcome { validity, scores: None, switch: None }
    }

    /// Returns the result for a pushed or harvested block.
    pub fn of_push(&self) -> Result<ValidationResult, &Exception> {
        match (&self.validity, self.scores) {
            (Validity::Exception(exception), _) => Err(exception),
            _ if self.switch.is_some() => Ok(ValidationResult::Success),
            (Validity::Valid, Some((ours, theirs))) if decide(ours, theirs) == Decision::Keep => {
                Ok(ValidationResult::Neutral)
            }
            _ => Ok(ValidationResult::FailureChainInvalid),
        }
    }

    /// Returns the result for a branch that was requested because its sender reported a better chain.
    pub fn of_synchronisation(&self) -> Result<ValidationResult, &Exception> {
        match &self.validity {
            Validity::Exception(exception) => Err(exception),
            _ if self.switch.is_some() => Ok(ValidationResult::Success),
            _ => Ok(ValidationResult::FailureChainScoreInferior),
        }
    }
}

/// A candidate branch that is being processed.
pub struct ChainPart<'s> {
    store: &'s Store,
    work: Work<'s>,
}

enum Work<'s> {
    /// It is being validated.
    Judging(Box<Trial<'s>>),
    /// It has become our chain, and is being synchronised to the disk.
    Settling(PartOutcome),
}

/// The validation of a branch, with its changes of the chain.
struct Trial<'s> {
    network: &'s Network,
    batch: Batch<'s>,
    verifier: Verifier,
    seen: BTreeSet<Hash256>,
    common: Height,
    /// Our undone blocks, highest first.
    undone: Vec<Block>,
    ours: i128,
    base: i128,
    /// Hashes of the branch's top-level transactions.
    direct: BTreeSet<Hash256>,
    /// Hashes of the transactions of its only block, if their signatures are known to be valid.
    verified: Option<Vec<Hashes>>,
    stage: Stage,
}

enum Stage {
    /// Our blocks above the common one are undone; the blocks of the branch.
    Undoing(VecDeque<Block>),
    /// Signatures of the branch's transactions are checked: blocks to check, the current one, and checked ones.
    Checking(VecDeque<Block>, Option<Box<(Block, SignatureCheck)>>, VecDeque<(Block, Vec<Hashes>)>),
    /// Blocks are processed: the tip, the blocks to come, and the current one.
    Admitting(Box<ChainHead>, VecDeque<(Block, Vec<Hashes>)>, Option<Box<Admission>>),
}

/// Result of one step of a branch.
pub enum PartProgress<'s> {
    /// There is more to do.
    Working(Box<ChainPart<'s>>),
    /// The branch is validated, and its outcome is durable.
    Done(PartOutcome),
}

impl<'s> ChainPart<'s> {
    /// Creates a branch of blocks that follow our block at the height `common`. Fails if that is above our tip or
    /// deeper than our blocks can be undone. They can be undone down to the rewrite limit below the highest block that
    /// the chain ever had: a rollback does not extend that.
    pub fn new(
        store: &'s Store,
        network: &'s Network,
        common: Height,
        blocks: Vec<Block>,
    ) -> Result<ChainPart<'s>, RollbackError> {
        let batch = store.begin()?;
        let last = tip(&batch)?.ok_or(StoreError::Empty)?;
        if common > last.height || common.0 == 0 {
            return Err(RollbackError::NotBelow { tip: last.height });
        }
        let lowest = lowest_undoable(&batch, last.height)?;
        if common < lowest {
            return Err(RollbackError::TooDeep { lowest });
        }
        let base = stored_header(&batch, common)?.ok_or(StoreError::Damaged("a block is missing"))?;
        let trial = Trial {
            network,
            batch,
            verifier: Verifier::default(),
            seen: BTreeSet::new(),
            common,
            undone: Vec::new(),
            ours: last.score - base.score,
            base: base.score,
            direct: BTreeSet::new(),
            verified: None,
            stage: Stage::Undoing(blocks.into()),
        };
        Ok(ChainPart { store, work: Work::Judging(Box::new(trial)) })
    }

    /// Like [`ChainPart::new`], with one block whose transactions have valid signatures and these hashes.
    pub fn of_verified(
        store: &'s Store,
        network: &'s Network,
        common: Height,
        block: Block,
        hashes: Vec<Hashes>,
    ) -> Result<ChainPart<'s>, RollbackError> {
        let mut part = ChainPart::new(store, network, common, vec![block])?;
        if let Work::Judging(trial) = &mut part.work {
            trial.verified = Some(hashes);
        }
        Ok(part)
    }

    /// Returns whether the branch has become our chain but its outcome was not returned yet.
    pub fn is_committed(&self) -> bool {
        matches!(self.work, Work::Settling(_))
    }

    /// Does one piece of work; `now` is network time. Must not be called while the store waits for the disk
    /// ([`Store::waits_for_disk`]). Fails only if the store does; then nothing has changed, or it is not known whether
    /// the change is durable.
    #[allow(clippy::boxed_local, reason = "who carries a part on keeps it in a box")]
    pub fn step(self: Box<Self>, now: Timestamp) -> Result<PartProgress<'s>, StoreError> {
        let ChainPart { store, work } = *self;
        let go_on = |work| Ok(PartProgress::Working(Box::new(ChainPart { store, work })));
        let outcome = match work {
            Work::Judging(mut trial) => match trial.work(now) {
                Ok(false) => return go_on(Work::Judging(trial)),
                // At most one commit may be not yet durable.
                Ok(true) if !store.settle_soon()? => return go_on(Work::Judging(trial)),
                Ok(true) => trial.decide()?,
                Err(BlockError::Store(error)) => return Err(error),
                Err(refusal) => PartOutcome::of(Validity::of(refusal)),
            },
            Work::Settling(outcome) => outcome,
        };
        if outcome.switch.is_some() && !store.settle_soon()? {
            return go_on(Work::Settling(outcome));
        }
        Ok(PartProgress::Done(outcome))
    }
}

impl Trial<'_> {
    /// Does one piece of work. Returns whether the whole branch is processed.
    fn work(&mut self, now: Timestamp) -> Result<bool, BlockError> {
        let undoing = Stage::Undoing(VecDeque::new());
        self.stage = match std::mem::replace(&mut self.stage, undoing) {
            Stage::Undoing(blocks) => self.undo(blocks)?,
            Stage::Checking(to_check, in_hand, checked) => self.check(to_check, in_hand, checked)?,
            Stage::Admitting(head, blocks, None) if blocks.is_empty() => {
                self.stage = Stage::Admitting(head, blocks, None);
                return Ok(true);
            }
            Stage::Admitting(head, blocks, in_hand) => self.admit(head, blocks, in_hand, now)?,
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
            return Err(BlockError::Refused(ValidationResult::FailureMaxChainSizeExceeded, None));
        }
        let checked = VecDeque::with_capacity(blocks.len());
        Ok(Stage::Checking(blocks, None, checked))
    }

    /// Checks that all difficulties are defined. NIS1 does this before everything else.
    fn check_difficulties(&self, blocks: &VecDeque<Block>) -> Result<(), BlockError> {
        let mut window = ChainHead::load_at(&self.batch, self.common)?.window;
        for block in blocks {
            let difficulty = window.difficulty(self.network.chain.target_time).ok_or(BlockError::NoTimePasses)?;
            window.push(difficulty, block.timestamp);
        }
        Ok(())
    }

    fn check(
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
            let head = ChainHead::load_at(&self.batch, self.common)?;
            return Ok(Stage::Admitting(Box::new(head), checked, None));
        };
        if let Some(hashes) = self.verified.take() {
            self.pass(in_hand.0, hashes, &mut checked);
            return Ok(Stage::Checking(to_check, None, checked));
        }
        let (block, check) = &mut *in_hand;
        let more = check.step(block, &mut self.verifier).map_err(|BadSignature(index)| {
            BlockError::Refused(ValidationResult::FailureTransactionUnverifiable, Some(index))
        })?;
        if more {
            return Ok(Stage::Checking(to_check, Some(in_hand), checked));
        }
        let (block, check) = *in_hand;
        self.pass(block, check.into_hashes(), &mut checked);
        Ok(Stage::Checking(to_check, None, checked))
    }

    fn pass(&mut self, block: Block, hashes: Vec<Hashes>, checked: &mut VecDeque<(Block, Vec<Hashes>)>) {
        self.direct.extend(hashes.iter().map(|hashes| hashes.own));
        checked.push_back((block, hashes));
    }

    fn admit(
        &mut self,
        mut head: Box<ChainHead>,
        mut blocks: VecDeque<(Block, Vec<Hashes>)>,
        in_hand: Option<Box<Admission>>,
        now: Timestamp,
    ) -> Result<Stage, BlockError> {
        let next = |(block, hashes)| Box::new(Admission::new(block, hashes, false));
        let Some(mut admission) = in_hand.or_else(|| blocks.pop_front().map(next)) else {
            return Ok(Stage::Admitting(head, blocks, None));
        };
        let (network, keeping) = (self.network, Keeping::Chain);
        let mut conditions = Conditions { network, now, keeping, verifier: &mut self.verifier, seen: &mut self.seen };
        let stored = admission.step(&mut self.batch, &head, &mut conditions)?;
        let in_hand = stored.is_none().then_some(admission);
        stored.into_iter().for_each(|block| head.push(block));
        Ok(Stage::Admitting(head, blocks, in_hand))
    }

    /// Commits a valid branch if its score is higher; on a tie our blocks stay.
    fn decide(self: Box<Self>) -> Result<PartOutcome, StoreError> {
        let last = tip(&self.batch)?.ok_or(StoreError::Empty)?;
        // As in NIS1, sums wrap at 64 bits.
        let (ours, theirs) = (self.ours as i64, (last.score - self.base) as i64);
        let mut outcome = PartOutcome { validity: Validity::Valid, scores: Some((ours, theirs)), switch: None };
        if decide(ours, theirs) == Decision::Switch {
            let replaced = self.undone.iter().rev().map(replaced).collect();
            let returned = returned(self.undone, &self.direct);
            self.batch.commit_soon()?;
            let (common, last) = (self.common, last.height);
            outcome.switch = Some(Switch { common, last, replaced, confirmed: self.direct, returned });
        }
        Ok(outcome)
    }
}

impl Validity {
    fn of(error: BlockError) -> Validity {
        match error {
            BlockError::Refused(result, _) => Validity::Refused(result),
            BlockError::Exception(exception, _) => Validity::Exception(exception),
            BlockError::NoTimePasses => Validity::Exception(Exception {
                kind: ExceptionKind::Other,
                text: "BigInteger divide by zero".to_owned(),
            }),
            other => Validity::Exception(Exception { kind: ExceptionKind::Other, text: other.to_string() }),
        }
    }
}

fn replaced(block: &Block) -> Replaced {
    Replaced {
        height: block.height,
        hash: block.hash(),
        signer: block.signer,
        timestamp: block.timestamp,
        transactions: block.transactions.len(),
        is_own: false,
    }
}

/// Order of kinds in which the transactions of a replaced block return to the mempool.
const KINDS: [i32; 7] = [
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
        block.transactions.sort_by_key(|transaction| KINDS.iter().position(|kind| *kind == transaction.body.kind()));
        returned.extend(block.transactions.into_iter().filter(|transaction| !kept.contains(&transaction.hash())));
    }
    returned
}
