//! Imports blocks in small steps.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;

use super::admission::{Admission, Conditions};
use super::apply::Keeping;
use super::error::BlockError;
use super::head::ChainHead;
use super::nemesis::nemesis_block;
use super::signatures::{BadSignature, SignatureCheck};
use super::source::{BlockSource, SourceError};
use crate::codec::Context;
use crate::codec::block_file::{BlockFile, BlockFileError, BlockFiles, block_height};
use crate::crypto::Verifier;
use crate::model::{Block, Hash256, Height, Network, Timestamp};
use crate::rules::ValidationResult;
use crate::store::{Batch, Store, StoreError, StoredBlock, block_row};

/// Default limit of changed rows per batch. Each changed row takes at most a page of memory, or a few more.
const BATCH_ROWS: u32 = 28_000;

/// How blocks are imported.
#[derive(Clone, Copy, Debug)]
pub struct IntakeOptions {
    /// Steps after which a batch is committed, at the end of the block that reaches them.
    pub batch_steps: u32,
    /// Blocks after which a batch is committed.
    pub batch_blocks: u32,
    /// The last height to import.
    pub stop_at: Option<Height>,
    /// Blocks below this height are trusted: their signatures and proofs are not checked.
    pub trusted_below: Height,
}

/// Result of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntakeProgress {
    /// There is more to do.
    Working,
    /// Committed blocks are being synchronised to the disk, and nothing can continue before that is done: see
    /// [`Store::waits_for_disk`].
    Settling,
    /// Blocks were committed and are visible: the first and the last of them. They are durable at the next `Committed`
    /// or at `Done`.
    Committed { first: Height, last: Height },
    /// There is nothing left to import, and everything imported is durable.
    Done,
}

/// Why the import stopped. The blocks before were committed.
#[derive(Debug)]
pub enum IntakeError {
    /// The block at this height is rejected.
    Block(Height, BlockError),
    /// A file cannot be read further after this height.
    File(Height, BlockFileError),
    /// A file holds another block at a height that the store already has.
    OtherChain(Height),
}

impl fmt::Display for IntakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The store failed, not the block.
            IntakeError::Block(height, BlockError::Store(error)) => write!(f, "at height {height}: {error}"),
            IntakeError::Block(height, error) => write!(f, "the block at height {height} is refused: {error}"),
            IntakeError::File(height, error) => write!(f, "after height {height}: {error}"),
            IntakeError::OtherChain(height) => write!(
                f,
                "the file holds another block at height {height} than the store; \
                 use an empty data folder for another chain, or roll back below that height"
            ),
        }
    }
}

impl std::error::Error for IntakeError {}

/// Result of reading the next block of the source.
enum Next {
    /// A block that the chain does not have.
    New,
    /// A block that the chain already has; there may be more.
    Known,
    End,
}

enum Stage {
    /// The next block is to be read.
    Reading,
    /// The signatures of its transactions are being checked.
    Checking(Box<(Block, SignatureCheck)>),
    /// It is being processed on top of the chain.
    Admitting(Box<Admission>),
}

/// Imports blocks from a source, such as files, into a store. Every call of [`Intake::step`] does a small piece of
/// work: one signature, one transaction, or a part of the work at the end of a block.
pub struct Intake<'s> {
    store: &'s Store,
    network: &'s Network,
    /// The bytes of the nemesis block, until it is committed.
    nemesis: Vec<u8>,
    source: Box<dyn BlockSource + 's>,
    options: IntakeOptions,
    keep_from: Option<Height>,
    verifier: Verifier,
    buffer: Vec<u8>,
    /// A block that was handed over, to be processed instead of reading one.
    handed: Option<Box<Block>>,
    /// Whether blocks are kept in memory until they are committed.
    can_retry: bool,
    /// Uncommitted blocks of the source, kept because the store may fail to commit them.
    uncommitted: VecDeque<Vec<u8>>,
    /// Blocks to import again after a failure, before further blocks are read from the source.
    again: VecDeque<Vec<u8>>,
    batch: Option<Batch<'s>>,
    first_of_batch: Option<Height>,
    steps: u32,
    batch_rows: u32,
    /// The batch is to be committed once the commit before it is durable.
    is_full: bool,
    head: ChainHead,
    seen: BTreeSet<Hash256>,
    committed: Height,
    stage: Stage,
    failure: Option<IntakeError>,
}

impl<'s> Intake<'s> {
    /// Continues the chain of a store with the blocks of files. An empty store starts with the nemesis block.
    pub fn new(
        store: &'s Store,
        network: &'s Network,
        nemesis: Vec<u8>,
        files: Vec<BlockFile<'s>>,
        options: IntakeOptions,
    ) -> Result<Intake<'s>, StoreError> {
        Intake::of(store, network, nemesis, Box::new(BlockFiles::new(files)), options)
    }

    /// Like [`Intake::new`], with blocks from any source.
    pub fn of(
        store: &'s Store,
        network: &'s Network,
        nemesis: Vec<u8>,
        source: Box<dyn BlockSource + 's>,
        options: IntakeOptions,
    ) -> Result<Intake<'s>, StoreError> {
        let snapshot = store.snapshot()?;
        let head = ChainHead::load(&snapshot)?;
        let committed = head.height();
        let nemesis = if head.tip.is_none() { nemesis } else { Vec::new() };
        Ok(Intake {
            store,
            network,
            nemesis,
            source,
            options,
            keep_from: None,
            verifier: Verifier::default(),
            buffer: Vec::new(),
            handed: None,
            can_retry: false,
            uncommitted: VecDeque::new(),
            again: VecDeque::new(),
            batch: None,
            first_of_batch: None,
            steps: 0,
            batch_rows: BATCH_ROWS,
            is_full: false,
            head,
            seen: BTreeSet::new(),
            committed,
            stage: Stage::Reading,
            failure: None,
        })
    }

    /// Makes a scratch store hold little more than the state: the last blocks, and undo journals from a height on. Such
    /// an import cannot be continued later.
    pub fn keeping_state_only(self, old_values_from: Height) -> Intake<'s> {
        Intake { keep_from: Some(old_values_from), ..self }
    }

    /// Returns the last imported block, committed or not; `None` if there is none.
    pub fn tip(&self) -> Option<&StoredBlock> {
        self.head.tip.as_ref()
    }

    /// Returns the height of the last committed block; 0 if there is none.
    pub fn committed(&self) -> Height {
        self.committed
    }

    /// Returns the bytes read from the source, and its total size, if that is known.
    pub fn bytes(&self) -> Option<(u64, u64)> {
        self.source.progress()
    }

    /// Sets the number of changed rows after which a batch is committed, at the end of the block that reaches them.
    pub fn set_batch_rows(&mut self, rows: u32) {
        self.batch_rows = rows;
    }

    /// Keeps blocks in memory until they are committed, so that [`Intake::retry`] works. Must be called before the
    /// first step.
    pub fn allow_retry(&mut self) {
        self.can_retry = true;
    }

    /// Returns whether the next step would read a block, so that one can be handed over.
    pub fn wants_block(&self) -> bool {
        matches!(self.stage, Stage::Reading) && self.handed.is_none() && !self.is_full && self.failure.is_none()
    }

    /// Sets the block to process next, instead of one of the source. [`Intake::retry`] does not repeat it.
    pub fn hand_over(&mut self, block: Box<Block>) {
        self.handed = Some(block);
    }

    /// Returns the height of the last imported block, committed or not; 0 if there is none.
    pub fn height(&self) -> Height {
        self.head.height()
    }

    /// Does one piece of work; `now` is network time. After an error nothing more can be imported. The whole blocks
    /// before it are committed first, unless the store failed.
    pub fn step(&mut self, now: Timestamp) -> Result<IntakeProgress, IntakeError> {
        self.steps += 1;
        let height = self.height().next();
        if self.is_full {
            return self.commit_full().or_else(|error| self.fail(IntakeError::Block(self.height(), error)));
        }
        if self.failure.is_some() {
            return match self.settle_soon(IntakeProgress::Working) {
                Ok(IntakeProgress::Working) => self.failure.take().map_or(Ok(IntakeProgress::Working), Err),
                other => other,
            };
        }
        let result = match std::mem::replace(&mut self.stage, Stage::Reading) {
            Stage::Reading => return self.read(),
            Stage::Checking(work) => self.check(work),
            Stage::Admitting(admission) => self.admit(admission, now),
        };
        match result {
            Ok(progress) => Ok(progress),
            Err(error) => self.fail(IntakeError::Block(height, error)),
        }
    }

    /// Commits the whole blocks imported so far and waits until they are durable. A block in progress starts again
    /// afterwards.
    pub fn commit(&mut self) -> Result<IntakeProgress, BlockError> {
        let progress = self.commit_by(Batch::commit)?;
        self.store.settle()?;
        Ok(progress)
    }

    /// Makes the next steps commit the whole blocks imported so far. Returns whether there are any.
    pub fn commit_soon(&mut self) -> bool {
        self.is_full = self.first_of_batch.is_some();
        self.is_full
    }

    /// Commits a full batch, after making the commit before it durable.
    fn commit_full(&mut self) -> Result<IntakeProgress, BlockError> {
        let was_unsettled = self.store.is_unsettled();
        match self.store.settle_soon()? {
            true if !was_unsettled => self.commit_by(Batch::commit_soon),
            // The commit is a step of its own, so that it can be measured.
            _ => Ok(IntakeProgress::Settling),
        }
    }

    /// Makes all commits durable. Returns `then` once they are.
    fn settle_soon(&self, then: IntakeProgress) -> Result<IntakeProgress, IntakeError> {
        match self.store.settle_soon() {
            Ok(true) => Ok(then),
            Ok(false) => Ok(IntakeProgress::Settling),
            Err(error) => Err(IntakeError::Block(self.height(), error.into())),
        }
    }

    fn commit_by(&mut self, commit: fn(Batch<'s>) -> Result<(), StoreError>) -> Result<IntakeProgress, BlockError> {
        self.steps = 0;
        self.is_full = false;
        let Some(mut batch) = self.batch.take() else { return Ok(IntakeProgress::Working) };
        if let Stage::Admitting(admission) = &mut self.stage {
            admission.restart(&mut batch, &self.head)?;
            self.seen.clear();
        }
        commit(batch)?;
        let in_hand = usize::from(!matches!(self.stage, Stage::Reading));
        self.uncommitted.drain(..self.uncommitted.len().saturating_sub(in_hand));
        let last = self.height();
        self.committed = last;
        self.nemesis = Vec::new();
        Ok(self
            .first_of_batch
            .take()
            .map_or(IntakeProgress::Working, |first| IntakeProgress::Committed { first, last }))
    }

    /// Continues after a failure of the store. Uncommitted blocks are imported again, if [`Intake::allow_retry`] was
    /// called.
    pub fn retry(&mut self) -> Result<(), StoreError> {
        self.head = ChainHead::load(&self.store.snapshot()?)?;
        self.batch = None;
        self.first_of_batch = None;
        self.stage = Stage::Reading;
        self.failure = None;
        self.steps = 0;
        self.is_full = false;
        self.seen.clear();
        self.uncommitted.append(&mut self.again);
        self.again = std::mem::take(&mut self.uncommitted);
        Ok(())
    }

    fn fail(&mut self, error: IntakeError) -> Result<IntakeProgress, IntakeError> {
        if matches!(error, IntakeError::Block(_, BlockError::Store(_))) {
            // The write transaction is in an unknown state. Earlier commits stay.
            self.batch = None;
            return Err(error);
        }
        // The whole blocks before it are committed first.
        self.is_full = self.batch.is_some();
        self.failure = Some(error);
        Ok(IntakeProgress::Working)
    }

    fn read(&mut self) -> Result<IntakeProgress, IntakeError> {
        let height = self.height().next();
        if self.options.stop_at.is_some_and(|last| height > last) {
            return self.done();
        }
        let handed = self.handed.take();
        let is_read = handed.is_none();
        let block = match (self.head.tip.as_ref(), handed) {
            (None, _) => nemesis_block(&self.nemesis, self.network),
            (Some(_), Some(block)) => Ok(*block),
            (Some(_), None) => match self.next_block() {
                Ok(Next::New) => Block::from_bytes(&self.buffer, Context::of(self.network)).map_err(BlockError::from),
                Ok(Next::Known) => return Ok(IntakeProgress::Working),
                Ok(Next::End) => return self.done(),
                Err(error) => return self.fail(error),
            },
        };
        match block.and_then(|block| self.place(block)) {
            Ok(block) => {
                if height > Height::NEMESIS && self.can_retry && is_read {
                    self.uncommitted.push_back(self.buffer.clone());
                }
                let check = SignatureCheck::new(&block, self.network, height < self.options.trusted_below);
                self.stage = Stage::Checking(Box::new((block, check)));
                Ok(IntakeProgress::Working)
            }
            Err(error) => self.fail(IntakeError::Block(height, error)),
        }
    }

    /// Checks height and parent hash. A block of a file must name its parent. A block from a peer need not: its
    /// signature covers the right hash.
    fn place(&self, block: Block) -> Result<Block, BlockError> {
        let expected = self.height().next();
        if block.height != expected {
            return Err(BlockError::Height { expected, found: block.height });
        }
        let parent = self.head.tip.as_ref().map_or(Hash256::default(), |parent| parent.hash);
        if block.previous_hash == parent { Ok(block) } else { Err(BlockError::Parent) }
    }

    fn done(&mut self) -> Result<IntakeProgress, IntakeError> {
        match self.batch.is_some() {
            true => {
                self.is_full = true;
                Ok(IntakeProgress::Working)
            }
            false => self.settle_soon(IntakeProgress::Done),
        }
    }

    /// Reads the next block of the source into the buffer.
    fn next_block(&mut self) -> Result<Next, IntakeError> {
        let tip = self.height();
        if let Some(block) = self.again.pop_front() {
            self.buffer = block;
        } else {
            let read = self.source.next(&mut self.buffer).map_err(|error| match error {
                SourceError::File(error) => IntakeError::File(tip, error),
                SourceError::Store(error) => IntakeError::Block(tip.next(), BlockError::Store(error)),
            });
            if !read? {
                return Ok(Next::End);
            }
        }
        match block_height(&self.buffer) {
            Some(height) if height <= tip => self.check_known(height).map(|()| Next::Known),
            _ => Ok(Next::New),
        }
    }

    /// Checks that a block that the chain already has is the same.
    fn check_known(&self, height: Height) -> Result<(), IntakeError> {
        let fail = |error: BlockError| IntakeError::Block(height, error);
        let snapshot = self.store.snapshot().map_err(|error| fail(error.into()))?;
        // A block of an uncommitted batch came from the same file just before.
        let Some(known) = block_row(&snapshot, height).map_err(|error| fail(error.into()))? else {
            return Ok(());
        };
        let hash = known.header().map_err(|error| fail(error.into()))?.hash;
        if known.whole().map_err(|error| fail(error.into()))? == self.buffer
            || self.hash_of_buffer().map_err(fail)? == hash
        {
            Ok(())
        } else {
            Err(IntakeError::OtherChain(height))
        }
    }

    fn hash_of_buffer(&self) -> Result<Hash256, BlockError> {
        Ok(Block::from_bytes(&self.buffer, Context::of(self.network))?.hash())
    }

    fn check(&mut self, mut work: Box<(Block, SignatureCheck)>) -> Result<IntakeProgress, BlockError> {
        let (block, check) = &mut *work;
        let more = check.step(block, &mut self.verifier).map_err(|BadSignature(index)| {
            BlockError::Refused(ValidationResult::FailureTransactionUnverifiable, Some(index))
        })?;
        self.stage = if more {
            Stage::Checking(work)
        } else {
            let trusted = block.height < self.options.trusted_below;
            let (block, check) = *work;
            Stage::Admitting(Box::new(Admission::new(block, check.into_hashes(), trusted)))
        };
        Ok(IntakeProgress::Working)
    }

    fn admit(&mut self, mut admission: Box<Admission>, now: Timestamp) -> Result<IntakeProgress, BlockError> {
        let batch = match &mut self.batch {
            Some(batch) => batch,
            empty => empty.insert(self.store.begin()?),
        };
        let keeping = self.keep_from.map_or(Keeping::Chain, Keeping::State);
        let mut conditions =
            Conditions { network: self.network, now, keeping, verifier: &mut self.verifier, seen: &mut self.seen };
        match admission.step(batch, &self.head, &mut conditions) {
            Ok(Some(header)) => self.take(header),
            unfinished => {
                // If the block was rejected, its changes of the batch are undone through this stage.
                self.stage = Stage::Admitting(admission);
                unfinished.map(|_| IntakeProgress::Working)
            }
        }
    }

    fn take(&mut self, header: StoredBlock) -> Result<IntakeProgress, BlockError> {
        self.seen.clear();
        let first = *self.first_of_batch.get_or_insert(header.height);
        let blocks = header.height.0 - first.0 + 1;
        self.head.push(header);
        let rows = self.batch.as_ref().map_or(0, Batch::rows);
        self.is_full = self.steps >= self.options.batch_steps
            || blocks >= u64::from(self.options.batch_blocks)
            || rows >= self.batch_rows;
        Ok(IntakeProgress::Working)
    }
}
