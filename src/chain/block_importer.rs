//! Imports blocks in small steps.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;

use super::apply::Retention;
use super::block_execution::{BlockExecution, ExecutionContext};
use super::chain_tip::ChainTip;
use super::error::BlockError;
use super::nemesis::nemesis_block;
use super::signatures::{BadSignature, SignatureCheck};
use super::source::{BlockSource, SourceError};
use crate::codec::Context;
use crate::codec::block_file::{BlockFile, BlockFileError, BlockFiles, block_height};
use crate::crypto::Verifier;
use crate::model::{Block, Hash256, Height, Network, Timestamp};
use crate::rules::ValidationResult;
use crate::store::{Store, StoreError, StoredHeader, WriteTxn, block_row};

/// Default limit of changed rows per batch. Each changed row takes at most a page of memory, or a few more.
const BATCH_ROWS: u32 = 28_000;

/// How blocks are imported.
#[derive(Clone, Copy, Debug)]
pub struct ImportOptions {
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
pub enum ImportProgress {
    /// There is more to do.
    Working,
    /// Committed blocks are being synchronised to the disk, and nothing can continue before that is done: see
    /// [`Store::waits_for_disk`].
    Syncing,
    /// Blocks were committed and are visible: the first and the last of them. They are durable at the next `Committed`
    /// or at `Done`.
    Committed { first: Height, last: Height },
    /// There is nothing left to import, and everything imported is durable.
    Done,
}

/// Why the import stopped. The blocks before were committed.
#[derive(Debug)]
pub enum ImportError {
    /// The block at this height is rejected.
    Block(Height, BlockError),
    /// A file cannot be read further after this height.
    File(Height, BlockFileError),
    /// A file holds another block at a height that the store already has.
    OtherChain(Height),
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The store failed, not the block.
            ImportError::Block(height, BlockError::Store(error)) => write!(f, "at height {height}: {error}"),
            ImportError::Block(height, error) => write!(f, "the block at height {height} is rejected: {error}"),
            ImportError::File(height, error) => write!(f, "after height {height}: {error}"),
            ImportError::OtherChain(height) => write!(
                f,
                "the file holds another block at height {height} than the store; \
                 use an empty data folder for another chain, or roll back below that height"
            ),
        }
    }
}

impl std::error::Error for ImportError {}

/// Result of reading the next block of the source.
enum ReadResult {
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
    CheckingSignatures(Box<(Block, SignatureCheck)>),
    /// It is being processed on top of the chain.
    Executing(Box<BlockExecution>),
}

/// Imports blocks from a source, such as files, into a store. Every call of [`BlockImporter::step`] does a small piece of
/// work: one signature, one transaction, or a part of the work at the end of a block.
pub struct BlockImporter<'s> {
    store: &'s Store,
    network: &'s Network,
    /// The bytes of the nemesis block, until it is committed.
    nemesis: Vec<u8>,
    source: Box<dyn BlockSource + 's>,
    options: ImportOptions,
    state_only_from: Option<Height>,
    verifier: Verifier,
    buffer: Vec<u8>,
    /// A block that was handed over, to be processed instead of reading one.
    submitted: Option<Box<Block>>,
    /// Whether blocks are kept in memory until they are committed.
    can_retry: bool,
    /// Uncommitted blocks of the source, kept because the store may fail to commit them.
    uncommitted: VecDeque<Vec<u8>>,
    /// Blocks to import again after a failure, before further blocks are read from the source.
    to_retry: VecDeque<Vec<u8>>,
    batch: Option<WriteTxn<'s>>,
    first_of_batch: Option<Height>,
    steps: u32,
    batch_rows: u32,
    /// The batch is to be committed once the commit before it is durable.
    is_commit_due: bool,
    head: ChainTip,
    seen: BTreeSet<Hash256>,
    committed: Height,
    stage: Stage,
    failure: Option<ImportError>,
}

impl<'s> BlockImporter<'s> {
    /// Continues the chain of a store with the blocks of files. An empty store starts with the nemesis block.
    pub fn new(
        store: &'s Store,
        network: &'s Network,
        nemesis: Vec<u8>,
        files: Vec<BlockFile<'s>>,
        options: ImportOptions,
    ) -> Result<BlockImporter<'s>, StoreError> {
        BlockImporter::from_source(store, network, nemesis, Box::new(BlockFiles::new(files)), options)
    }

    /// Like [`BlockImporter::new`], with blocks from any source.
    pub fn from_source(
        store: &'s Store,
        network: &'s Network,
        nemesis: Vec<u8>,
        source: Box<dyn BlockSource + 's>,
        options: ImportOptions,
    ) -> Result<BlockImporter<'s>, StoreError> {
        let snapshot = store.snapshot()?;
        let head = ChainTip::load(&snapshot)?;
        let committed = head.height();
        let nemesis = if head.tip.is_none() { nemesis } else { Vec::new() };
        Ok(BlockImporter {
            store,
            network,
            nemesis,
            source,
            options,
            state_only_from: None,
            verifier: Verifier::default(),
            buffer: Vec::new(),
            submitted: None,
            can_retry: false,
            uncommitted: VecDeque::new(),
            to_retry: VecDeque::new(),
            batch: None,
            first_of_batch: None,
            steps: 0,
            batch_rows: BATCH_ROWS,
            is_commit_due: false,
            head,
            seen: BTreeSet::new(),
            committed,
            stage: Stage::Reading,
            failure: None,
        })
    }

    /// Makes a scratch store hold little more than the state: the last blocks, and undo journals from a height on. Such
    /// an import cannot be continued later.
    pub fn retain_state_only(self, old_values_from: Height) -> BlockImporter<'s> {
        BlockImporter { state_only_from: Some(old_values_from), ..self }
    }

    /// Returns the last imported block, committed or not; `None` if there is none.
    pub fn tip(&self) -> Option<&StoredHeader> {
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

    /// Keeps blocks in memory until they are committed, so that [`BlockImporter::retry`] works. Must be called before the
    /// first step.
    pub fn allow_retry(&mut self) {
        self.can_retry = true;
    }

    /// Returns whether the next step would read a block, so that one can be handed over.
    pub fn accepts_block(&self) -> bool {
        matches!(self.stage, Stage::Reading)
            && self.submitted.is_none()
            && !self.is_commit_due
            && self.failure.is_none()
    }

    /// Sets the block to process next, instead of one of the source. [`BlockImporter::retry`] does not repeat it.
    pub fn submit_block(&mut self, block: Box<Block>) {
        self.submitted = Some(block);
    }

    /// Returns the height of the last imported block, committed or not; 0 if there is none.
    pub fn height(&self) -> Height {
        self.head.height()
    }

    /// Does one piece of work; `now` is network time. After an error nothing more can be imported. The whole blocks
    /// before it are committed first, unless the store failed.
    pub fn step(&mut self, now: Timestamp) -> Result<ImportProgress, ImportError> {
        self.steps += 1;
        let height = self.height().next();
        if self.is_commit_due {
            return self.commit_full().or_else(|error| self.fail(ImportError::Block(self.height(), error)));
        }
        if self.failure.is_some() {
            return match self.poll_sync(ImportProgress::Working) {
                Ok(ImportProgress::Working) => self.failure.take().map_or(Ok(ImportProgress::Working), Err),
                other => other,
            };
        }
        let result = match std::mem::replace(&mut self.stage, Stage::Reading) {
            Stage::Reading => return self.read(),
            Stage::CheckingSignatures(work) => self.check_signatures(work),
            Stage::Executing(admission) => self.execute(admission, now),
        };
        match result {
            Ok(progress) => Ok(progress),
            Err(error) => self.fail(ImportError::Block(height, error)),
        }
    }

    /// Commits the whole blocks imported so far and waits until they are durable. A block in progress starts again
    /// afterwards.
    pub fn commit(&mut self) -> Result<ImportProgress, BlockError> {
        let progress = self.commit_by(WriteTxn::commit)?;
        self.store.sync()?;
        Ok(progress)
    }

    /// Makes the next steps commit the whole blocks imported so far. Returns whether there are any.
    pub fn request_commit(&mut self) -> bool {
        self.is_commit_due = self.first_of_batch.is_some();
        self.is_commit_due
    }

    /// Commits a full batch, after making the commit before it durable.
    fn commit_full(&mut self) -> Result<ImportProgress, BlockError> {
        let was_unsettled = self.store.has_unsynced_commit();
        match self.store.poll_sync()? {
            true if !was_unsettled => self.commit_by(WriteTxn::commit_deferred_sync),
            // The commit is a step of its own, so that it can be measured.
            _ => Ok(ImportProgress::Syncing),
        }
    }

    /// Makes all commits durable. Returns `then` once they are.
    fn poll_sync(&self, then: ImportProgress) -> Result<ImportProgress, ImportError> {
        match self.store.poll_sync() {
            Ok(true) => Ok(then),
            Ok(false) => Ok(ImportProgress::Syncing),
            Err(error) => Err(ImportError::Block(self.height(), error.into())),
        }
    }

    fn commit_by(&mut self, commit: fn(WriteTxn<'s>) -> Result<(), StoreError>) -> Result<ImportProgress, BlockError> {
        self.steps = 0;
        self.is_commit_due = false;
        let Some(mut batch) = self.batch.take() else { return Ok(ImportProgress::Working) };
        if let Stage::Executing(admission) = &mut self.stage {
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
            .map_or(ImportProgress::Working, |first| ImportProgress::Committed { first, last }))
    }

    /// Continues after a failure of the store. Uncommitted blocks are imported again, if [`BlockImporter::allow_retry`] was
    /// called.
    pub fn retry(&mut self) -> Result<(), StoreError> {
        self.head = ChainTip::load(&self.store.snapshot()?)?;
        self.batch = None;
        self.first_of_batch = None;
        self.stage = Stage::Reading;
        self.failure = None;
        self.steps = 0;
        self.is_commit_due = false;
        self.seen.clear();
        self.uncommitted.append(&mut self.to_retry);
        self.to_retry = std::mem::take(&mut self.uncommitted);
        Ok(())
    }

    fn fail(&mut self, error: ImportError) -> Result<ImportProgress, ImportError> {
        if matches!(error, ImportError::Block(_, BlockError::Store(_))) {
            // The write transaction is in an unknown state. Earlier commits stay.
            self.batch = None;
            return Err(error);
        }
        // The whole blocks before it are committed first.
        self.is_commit_due = self.batch.is_some();
        self.failure = Some(error);
        Ok(ImportProgress::Working)
    }

    fn read(&mut self) -> Result<ImportProgress, ImportError> {
        let height = self.height().next();
        if self.options.stop_at.is_some_and(|last| height > last) {
            return self.done();
        }
        let handed = self.submitted.take();
        let is_read = handed.is_none();
        let block = match (self.head.tip.as_ref(), handed) {
            (None, _) => nemesis_block(&self.nemesis, self.network),
            (Some(_), Some(block)) => Ok(*block),
            (Some(_), None) => match self.next_block() {
                Ok(ReadResult::New) => {
                    Block::from_bytes(&self.buffer, Context::of(self.network)).map_err(BlockError::from)
                }
                Ok(ReadResult::Known) => return Ok(ImportProgress::Working),
                Ok(ReadResult::End) => return self.done(),
                Err(error) => return self.fail(error),
            },
        };
        match block.and_then(|block| self.check_position(block)) {
            Ok(block) => {
                if height > Height::NEMESIS && self.can_retry && is_read {
                    self.uncommitted.push_back(self.buffer.clone());
                }
                let check = SignatureCheck::new(&block, self.network, height < self.options.trusted_below);
                self.stage = Stage::CheckingSignatures(Box::new((block, check)));
                Ok(ImportProgress::Working)
            }
            Err(error) => self.fail(ImportError::Block(height, error)),
        }
    }

    /// Checks height and parent hash. A block of a file must name its parent. A block from a peer need not: its
    /// signature covers the right hash.
    fn check_position(&self, block: Block) -> Result<Block, BlockError> {
        let expected = self.height().next();
        if block.height != expected {
            return Err(BlockError::Height { expected, found: block.height });
        }
        let parent = self.head.tip.as_ref().map_or(Hash256::default(), |parent| parent.hash);
        if block.previous_hash == parent { Ok(block) } else { Err(BlockError::Parent) }
    }

    fn done(&mut self) -> Result<ImportProgress, ImportError> {
        match self.batch.is_some() {
            true => {
                self.is_commit_due = true;
                Ok(ImportProgress::Working)
            }
            false => self.poll_sync(ImportProgress::Done),
        }
    }

    /// Reads the next block of the source into the buffer.
    fn next_block(&mut self) -> Result<ReadResult, ImportError> {
        let tip = self.height();
        if let Some(block) = self.to_retry.pop_front() {
            self.buffer = block;
        } else {
            let read = self.source.next(&mut self.buffer).map_err(|error| match error {
                SourceError::File(error) => ImportError::File(tip, error),
                SourceError::Store(error) => ImportError::Block(tip.next(), BlockError::Store(error)),
            });
            if !read? {
                return Ok(ReadResult::End);
            }
        }
        match block_height(&self.buffer) {
            Some(height) if height <= tip => self.check_known(height).map(|()| ReadResult::Known),
            _ => Ok(ReadResult::New),
        }
    }

    /// Checks that a block that the chain already has is the same.
    fn check_known(&self, height: Height) -> Result<(), ImportError> {
        let fail = |error: BlockError| ImportError::Block(height, error);
        let snapshot = self.store.snapshot().map_err(|error| fail(error.into()))?;
        // A block of an uncommitted batch came from the same file just before.
        let Some(known) = block_row(&snapshot, height).map_err(|error| fail(error.into()))? else {
            return Ok(());
        };
        let hash = known.header().map_err(|error| fail(error.into()))?.hash;
        if known.verified_bytes().map_err(|error| fail(error.into()))? == self.buffer
            || self.hash_of_buffer().map_err(fail)? == hash
        {
            Ok(())
        } else {
            Err(ImportError::OtherChain(height))
        }
    }

    fn hash_of_buffer(&self) -> Result<Hash256, BlockError> {
        Ok(Block::from_bytes(&self.buffer, Context::of(self.network))?.hash())
    }

    fn check_signatures(&mut self, mut work: Box<(Block, SignatureCheck)>) -> Result<ImportProgress, BlockError> {
        let (block, check) = &mut *work;
        let more = check.step(block, &mut self.verifier).map_err(|BadSignature(index)| {
            BlockError::Rejected(ValidationResult::FailureTransactionUnverifiable, Some(index))
        })?;
        self.stage = if more {
            Stage::CheckingSignatures(work)
        } else {
            let trusted = block.height < self.options.trusted_below;
            let (block, check) = *work;
            Stage::Executing(Box::new(BlockExecution::new(block, check.into_hashes(), trusted)))
        };
        Ok(ImportProgress::Working)
    }

    fn execute(&mut self, mut admission: Box<BlockExecution>, now: Timestamp) -> Result<ImportProgress, BlockError> {
        let batch = match &mut self.batch {
            Some(batch) => batch,
            empty => empty.insert(self.store.begin_write()?),
        };
        let keeping = self.state_only_from.map_or(Retention::Chain, Retention::State);
        let mut conditions = ExecutionContext {
            network: self.network,
            now,
            retention: keeping,
            verifier: &mut self.verifier,
            seen: &mut self.seen,
        };
        match admission.step(batch, &self.head, &mut conditions) {
            Ok(Some(header)) => self.finish_block(header),
            unfinished => {
                // If the block was rejected, its changes of the batch are undone through this stage.
                self.stage = Stage::Executing(admission);
                unfinished.map(|_| ImportProgress::Working)
            }
        }
    }

    fn finish_block(&mut self, header: StoredHeader) -> Result<ImportProgress, BlockError> {
        self.seen.clear();
        let first = *self.first_of_batch.get_or_insert(header.height);
        let blocks = header.height.0 - first.0 + 1;
        self.head.push(header);
        let rows = self.batch.as_ref().map_or(0, WriteTxn::rows);
        self.is_commit_due = self.steps >= self.options.batch_steps
            || blocks >= u64::from(self.options.batch_blocks)
            || rows >= self.batch_rows;
        Ok(ImportProgress::Working)
    }
}
