//! Imports blocks in small steps.

use std::collections::{BTreeSet, VecDeque};

use thiserror::Error;

use super::apply::Retention;
use super::block_execution::{BlockExecution, ExecutionContext, Verified, check_block_signature};
use super::chain_tip::ChainTip;
use super::recalculation::{RecalculationPart, StakeCache};
use crate::codec::block_file::{BlockFile, BlockFileError, BlockFiles, block_height};
use crate::codec::{Context, ReadError};
use crate::crypto::Verifier;
use crate::model::{Address, Block, BlockKind, Hash256, Height, Network, Timestamp};
use crate::rules::{Rejection, RuleResult, ValidationResult};
use crate::store::{Result, Snapshot, Store, StoreError, StoredHeader, WriteTxn, block_row, read_block_bytes};

/// Bytes of blocks kept in memory after which a batch is committed.
const MAX_KEPT_BYTES: usize = 16 << 20;

/// How blocks are imported. A batch is committed at the end of the block that reaches one of its limits.
#[derive(Clone, Copy, Debug)]
pub struct ImportOptions {
    /// Maximum changed rows of a batch. LMDB bounds the memory that they take.
    pub batch_rows: u32,
    /// Maximum blocks of a batch.
    pub batch_blocks: u32,
    /// Bytes of changes that a batch collects in memory before they are written in the order of their keys; it is
    /// committed once they take more, or its overflow pages do. If 0, every change is written at once.
    pub write_cache: usize,
    /// The last height to import.
    pub stop_at: Option<Height>,
    /// Blocks below this height are trusted: their signatures and proofs are not checked.
    pub trusted_below: Height,
    /// What is stored of the blocks. An import that keeps the state only cannot be continued later.
    pub retention: Retention,
    /// Whether blocks are kept in memory until they are committed, so that [`BlockImporter::retry`] imports them again.
    pub can_retry: bool,
}

impl ImportOptions {
    /// Imports and checks everything. A batch takes some minutes, which is the most that a crash loses.
    pub const DEFAULT: ImportOptions = ImportOptions {
        batch_rows: 8_000_000,
        batch_blocks: 400_000,
        write_cache: 0,
        stop_at: None,
        trusted_below: Height(0),
        retention: Retention::Chain,
        can_retry: false,
    };
}

/// Result of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportProgress {
    /// There is more to do.
    Working,
    /// Committed blocks are being synchronised to the disk, and nothing can continue before that is done: see
    /// [`Durability::waits_for_disk`](crate::store::Durability::waits_for_disk).
    Syncing,
    /// Blocks were committed: the first and the last of them. They are durable at the next `Committed` or at `Done`, or
    /// once [`Durability::begin_sync`](crate::store::Durability::begin_sync) says so.
    Committed { first: Height, last: Height },
    /// There is nothing left to import, and everything imported is durable.
    Done,
}

/// Why the import stopped. The blocks before were committed.
#[derive(Debug, Error)]
pub enum ImportError {
    /// The block at this height is rejected, possibly for its transaction with this index.
    #[error("the block at height {0} is rejected: {why}", why = reason(*.1, .2))]
    Rejected(Height, Option<usize>, Rejection),
    /// The store failed at this height; the block there may be valid.
    #[error("at height {0}: {1}")]
    Store(Height, StoreError),
    /// The block at this height cannot be read from the store that it comes from.
    #[error("at height {0}: {1}")]
    Source(Height, StoreError),
    /// A file cannot be read further after this height.
    #[error("after height {0}: {1}")]
    File(Height, BlockFileError),
    /// A file holds another block at a height that the store already has.
    #[error(
        "the file holds another block at height {0} than the store; use an empty data folder for another chain, or roll \
         back below that height"
    )]
    OtherChain(Height),
}

impl ImportError {
    /// Creates the error for the block at a height, whose transaction with this index is the reason, if any.
    pub fn new(height: Height, transaction: Option<usize>, rejection: Rejection) -> ImportError {
        match rejection {
            Rejection::Store(error) => ImportError::Store(height, error),
            rejection => ImportError::Rejected(height, transaction, rejection),
        }
    }
}

/// Returns the reason, with a text before a result whose name is not enough.
fn reason(transaction: Option<usize>, rejection: &Rejection) -> String {
    let of_transaction = transaction.map_or_else(String::new, |index| format!("its transaction {index}: "));
    let Rejection::Result(result) = rejection else { return format!("{of_transaction}{rejection}") };
    let text = match result {
        ValidationResult::FailureBlockUnexpectedHeight => "its height is not the next one",
        ValidationResult::FailureBlockUnverifiable => "its signature is wrong, or it follows another block",
        ValidationResult::FailureBlockNotHit => "its signer may not harvest a block at that time",
        ValidationResult::FailureTransactionUnverifiable => "a signature is wrong",
        ValidationResult::FailureTransactionDuplicateInChain => "the block contains it twice",
        ValidationResult::Neutral => "a transaction is already in the chain",
        ValidationResult::FailureUnknown => "it does not contain the transactions that the network agreed on",
        _ => return format!("{of_transaction}{result}"),
    };
    format!("{of_transaction}{text} ({result})")
}

/// Blocks to import, in the order of their heights.
pub enum BlockSource<'s> {
    /// The blocks of files.
    Files(BlockFiles<'s>),
    /// The blocks of a snapshot from a height on.
    Store(Height, &'s Snapshot<'s>),
}

impl<'s> From<Vec<BlockFile<'s>>> for BlockSource<'s> {
    fn from(files: Vec<BlockFile<'s>>) -> BlockSource<'s> {
        BlockSource::Files(BlockFiles::new(files))
    }
}

impl BlockSource<'_> {
    /// Reads the bytes of the next block, which follows the one at `height`. Returns whether there is one.
    fn next(&mut self, block: &mut Vec<u8>, height: Height) -> Result<bool, ImportError> {
        match self {
            BlockSource::Files(files) => files.next(block).map_err(|error| ImportError::File(height, error)),
            BlockSource::Store(next, snapshot) => {
                let found = read_block_bytes(*snapshot, *next, block);
                let found = found.map_err(|error| ImportError::Source(height.next(), error))?;
                if found {
                    *next = next.next();
                }
                Ok(found)
            }
        }
    }
}

/// Imports blocks from a source, such as files, into a store. Every call of [`BlockImporter::step`] does a small piece of
/// work: one signature, one transaction, or a part of the work at the end of a block.
pub struct BlockImporter<'s> {
    store: &'s Store,
    /// The network.
    pub network: &'s Network,
    /// The bytes of the nemesis block, until it is committed.
    nemesis: Vec<u8>,
    source: BlockSource<'s>,
    /// The limits of batches may change while blocks are imported.
    pub options: ImportOptions,
    verifier: Verifier,
    stakes: StakeCache,
    buffer: Vec<u8>,
    /// The uncommitted blocks, kept because the store may fail to commit them, and their size.
    kept: VecDeque<Vec<u8>>,
    kept_bytes: usize,
    /// Blocks that come before those of the source: kept ones that are to be read again, and those of files that were looked
    /// at; and why the files cannot be read further after these.
    unread: VecDeque<Result<Vec<u8>, BlockFileError>>,
    batch: Option<WriteTxn<'s>>,
    first_of_batch: Option<Height>,
    /// The batch is to be committed once the commit before it is durable.
    is_commit_due: bool,
    tip: ChainTip,
    seen: BTreeSet<Hash256>,
    /// The block in progress.
    current: Option<Box<BlockExecution>>,
    failure: Option<ImportError>,
}

impl<'s> BlockImporter<'s> {
    /// Continues the chain of a store with the blocks of a source. An empty store starts with the nemesis block.
    pub fn new(
        store: &'s Store,
        network: &'s Network,
        nemesis: Vec<u8>,
        source: impl Into<BlockSource<'s>>,
        options: ImportOptions,
    ) -> Result<BlockImporter<'s>> {
        let tip = ChainTip::load(&store.snapshot()?)?;
        let nemesis = if tip.block.is_none() { nemesis } else { Vec::new() };
        Ok(BlockImporter {
            store,
            network,
            nemesis,
            source: source.into(),
            options,
            verifier: Verifier::default(),
            stakes: StakeCache::default(),
            buffer: Vec::new(),
            kept: VecDeque::new(),
            kept_bytes: 0,
            unread: VecDeque::new(),
            batch: None,
            first_of_batch: None,
            is_commit_due: false,
            tip,
            seen: BTreeSet::new(),
            current: None,
            failure: None,
        })
    }

    /// Returns the last imported block, committed or not; `None` if there is none.
    pub fn tip(&self) -> Option<&StoredHeader> {
        self.tip.block.as_ref()
    }

    /// Returns the height of the last imported block, committed or not; 0 if there is none.
    pub fn height(&self) -> Height {
        self.tip.height()
    }

    /// Returns the height of the last committed block; 0 if there is none.
    pub fn committed(&self) -> Height {
        self.first_of_batch.map_or(self.height(), |first| Height(first.0 - 1))
    }

    /// Returns the bytes read from the files, and their total size, if that is known.
    pub fn bytes(&self) -> Option<(u64, u64)> {
        match &self.source {
            BlockSource::Files(files) => files.progress(),
            BlockSource::Store(..) => None,
        }
    }

    /// Returns the height at which a rebuild ends: its blocks are those of another store.
    pub fn rebuild_target(&self) -> Option<Height> {
        self.options.stop_at.filter(|_| matches!(self.source, BlockSource::Store(..)))
    }

    /// Returns what the recalculation after the block at a height reads, as far as it is known now; nothing if none is due.
    pub fn recalculation_after(&self, height: Height) -> Vec<RecalculationPart> {
        RecalculationPart::all(height, self.store, self.network, &self.stakes)
    }

    /// Returns whether the next step begins to execute the block in progress: its proof and all signatures are verified.
    pub fn begins_execution(&self) -> bool {
        self.current.as_ref().is_some_and(|block| block.begins_execution())
    }

    /// Returns whether the next step would read a block, so that one can be handed over instead.
    pub fn accepts_block(&self) -> bool {
        self.current.is_none() && !self.is_commit_due && self.failure.is_none()
    }

    /// Returns the block of the files that comes after `index` others, if it can be read and the chain does not have it.
    pub fn peek(&mut self, index: usize) -> Option<Block> {
        let BlockSource::Files(files) = &mut self.source else { return None };
        while self.unread.len() <= index && !matches!(self.unread.back(), Some(Err(_))) {
            let mut block = Vec::new();
            self.unread.push_back(match files.next(&mut block) {
                Ok(true) => Ok(block),
                Ok(false) => return None,
                Err(error) => Err(error),
            });
        }
        let block = self.unread.get(index)?.as_ref().ok()?;
        block_height(block).filter(|height| *height > self.height())?;
        read_block(block, self.network).ok()
    }

    /// Starts a block that follows the tip, instead of one of the source. [`BlockImporter::retry`] does not repeat it.
    pub fn submit_block(&mut self, block: Block) {
        let height = self.height().next();
        if let Err(error) = self.start(block) {
            self.end_with(ImportError::new(height, None, error));
        }
    }

    /// Does one piece of work; `now` is network time. After an error nothing more can be imported. The whole blocks
    /// before it are committed first, unless the store failed.
    pub fn step(&mut self, now: Timestamp) -> Result<ImportProgress, ImportError> {
        let height = self.height().next();
        let result = if self.is_commit_due {
            self.commit_full().map_err(|error| ImportError::Store(self.height(), error))
        } else if self.failure.is_some() {
            return if self.poll_sync()? {
                self.failure.take().map_or(Ok(ImportProgress::Working), Err)
            } else {
                Ok(ImportProgress::Syncing)
            };
        } else if let Some(block) = self.current.take() {
            let executed = self.execute(block, now);
            let transaction = self.current.as_ref().and_then(|block| block.unfinished);
            executed.map_err(|rejection| ImportError::new(height, transaction, rejection))
        } else {
            match self.read() {
                Ok(true) => Ok(ImportProgress::Working),
                Ok(false) if self.batch.is_some() => {
                    self.is_commit_due = true;
                    Ok(ImportProgress::Working)
                }
                Ok(false) => return Ok(if self.poll_sync()? { ImportProgress::Done } else { ImportProgress::Syncing }),
                Err(error) => Err(error),
            }
        };
        match result {
            // The write transaction is in an unknown state. Earlier commits stay.
            Err(error @ ImportError::Store(..)) => {
                self.batch = None;
                Err(error)
            }
            Err(error) => {
                self.end_with(error);
                Ok(ImportProgress::Working)
            }
            progress => progress,
        }
    }

    /// Ends the import with an error, after the whole blocks before it are committed.
    fn end_with(&mut self, error: ImportError) {
        self.is_commit_due = self.batch.is_some();
        self.failure = Some(error);
    }

    /// Commits the whole blocks imported so far and waits until they are durable. A block in progress starts again
    /// afterwards.
    pub fn commit(&mut self) -> Result<ImportProgress> {
        let progress = self.commit_batch()?;
        self.store.durability().sync()?;
        Ok(progress)
    }

    /// Makes the next steps commit the whole blocks imported so far. Returns whether there are any.
    pub fn request_commit(&mut self) -> bool {
        self.is_commit_due = self.first_of_batch.is_some();
        self.is_commit_due
    }

    /// Commits a full batch, after making the commit before it durable.
    fn commit_full(&mut self) -> Result<ImportProgress> {
        let was_synced = !self.store.durability().has_unsynced_commit();
        // The commit is a step of its own, so that it can be measured.
        if !(self.store.durability().poll_sync()? && was_synced) {
            return Ok(ImportProgress::Syncing);
        }
        let has_more = self.batch.as_mut().map_or(Ok(false), WriteTxn::prepare_commit_step)?;
        if has_more { Ok(ImportProgress::Working) } else { self.commit_batch() }
    }

    /// Makes all commits durable. Returns whether they are.
    fn poll_sync(&self) -> Result<bool, ImportError> {
        self.store.durability().poll_sync().map_err(|error| ImportError::Store(self.height(), error))
    }

    fn commit_batch(&mut self) -> Result<ImportProgress> {
        self.is_commit_due = false;
        let Some(mut batch) = self.batch.take() else { return Ok(ImportProgress::Working) };
        if let Some(block) = self.current.as_mut().filter(|block| block.is_verified()) {
            block.restart(&mut batch, &self.tip)?;
            self.seen.clear();
        }
        batch.commit_deferred_sync()?;
        let committed = self.kept.len().saturating_sub(usize::from(self.current.is_some()));
        self.kept_bytes -= self.kept.drain(..committed).map(|block| block.len()).sum::<usize>();
        self.nemesis = Vec::new();
        let (first, last) = (self.first_of_batch.take(), self.height());
        Ok(first.map_or(ImportProgress::Working, |first| ImportProgress::Committed { first, last }))
    }

    /// Continues after a failure of the store. Uncommitted blocks are imported again, if they are those of another store or
    /// [are kept](ImportOptions::can_retry).
    pub fn retry(&mut self) -> Result<()> {
        self.tip = ChainTip::load(&self.store.snapshot()?)?;
        self.batch = None;
        self.first_of_batch = None;
        self.current = None;
        self.failure = None;
        self.is_commit_due = false;
        self.seen.clear();
        if let BlockSource::Store(next, _) = &mut self.source {
            *next = self.tip.height().next();
        }
        let unread = std::mem::take(&mut self.unread);
        self.unread = std::mem::take(&mut self.kept).into_iter().map(Ok).chain(unread).collect();
        self.kept_bytes = 0;
        Ok(())
    }

    /// Reads and starts the next block, or skips one that the chain already has. Returns whether there was one.
    fn read(&mut self) -> Result<bool, ImportError> {
        let tip = self.height();
        if self.options.stop_at.is_some_and(|last| tip >= last) {
            return Ok(false);
        }
        let block = match self.tip.block {
            None => nemesis_block(&self.nemesis, self.network),
            Some(_) => {
                if let Some(block) = self.unread.pop_front() {
                    self.buffer = block.map_err(|error| ImportError::File(tip, error))?;
                } else if !self.source.next(&mut self.buffer, tip)? {
                    return Ok(false);
                }
                if let Some(height) = block_height(&self.buffer).filter(|height| *height <= tip) {
                    return match self.is_known(height) {
                        Ok(true) => Ok(true),
                        Ok(false) => Err(ImportError::OtherChain(height)),
                        Err(rejection) => Err(ImportError::new(height, None, rejection)),
                    };
                }
                if self.options.can_retry {
                    self.kept_bytes += self.buffer.len();
                    self.kept.push_back(self.buffer.clone());
                }
                read_block(&self.buffer, self.network)
            }
        };
        let started = block.and_then(|block| self.start(block));
        started.map(|()| true).map_err(|rejection| ImportError::new(tip.next(), None, rejection))
    }

    /// Starts a block. Its height and its parent must be right. A block of a file must name its parent. A block from a
    /// peer need not: its signature covers the right hash.
    fn start(&mut self, block: Block) -> RuleResult {
        let expected = self.height().next();
        if block.height != expected {
            return Err(Rejection::impossible(format!("it has height {} instead of {expected}", block.height)));
        }
        if block.previous_hash != self.tip.block.as_ref().map_or(Hash256::default(), |parent| parent.hash) {
            return Err(Rejection::impossible("it does not follow the block before it"));
        }
        let is_trusted = expected < self.options.trusted_below;
        self.current = Some(Box::new(BlockExecution::new(block, self.network, is_trusted, Verified::default())));
        Ok(())
    }

    /// Returns whether a block at a height that the chain already has is the same.
    fn is_known(&self, height: Height) -> RuleResult<bool> {
        let snapshot = self.store.snapshot()?;
        // A block of an uncommitted batch came from the same file just before.
        let Some(known) = block_row(&snapshot, height)? else { return Ok(true) };
        let mut ours = Vec::new();
        read_block_bytes(&snapshot, height, &mut ours)?;
        Ok(ours == self.buffer || read_block(&self.buffer, self.network)?.hash() == known.header.hash)
    }

    /// Does one step of the block in progress.
    fn execute(&mut self, mut block: Box<BlockExecution>, now: Timestamp) -> RuleResult<ImportProgress> {
        let batch = match &mut self.batch {
            Some(batch) => batch,
            empty => {
                let batch = empty.insert(self.store.begin_write()?);
                if self.options.write_cache > 0 {
                    batch.collect_changes();
                }
                batch
            }
        };
        let mut env = ExecutionContext {
            network: self.network,
            now,
            retention: self.options.retention,
            verifier: &mut self.verifier,
            stakes: &mut self.stakes,
            seen: &mut self.seen,
        };
        let stored = match block.step(batch, &self.tip, &mut env) {
            Ok(Some(header)) => header,
            unfinished => {
                // If the block was rejected, its changes of the batch are undone by the next commit.
                self.current = Some(block);
                return unfinished.map(|_| ImportProgress::Working);
            }
        };
        self.seen.clear();
        let first = *self.first_of_batch.get_or_insert(stored.height);
        let blocks = stored.height.0 - first.0 + 1;
        self.is_commit_due = self.kept_bytes >= MAX_KEPT_BYTES
            || blocks >= u64::from(self.options.batch_blocks)
            || batch.rows() >= self.options.batch_rows
            || self.options.write_cache > 0
                && batch.collected_bytes().max(batch.overflow_bytes()) > self.options.write_cache;
        self.tip.push(stored);
        Ok(ImportProgress::Working)
    }
}

pub(super) fn read_block(bytes: &[u8], network: &Network) -> RuleResult<Block> {
    let unreadable = |error: ReadError| Rejection::impossible(format!("it cannot be read: {}", error.reason()));
    Block::from_bytes(bytes, Context::of(network)).map_err(unreadable)
}

fn wrong_nemesis(why: &str) -> Rejection {
    Rejection::impossible(format!("the nemesis block does not belong to the network: {why}"))
}

/// Reads a nemesis block and checks that it belongs to the network.
pub fn nemesis_block(bytes: &[u8], network: &Network) -> RuleResult<Block> {
    if bytes.is_empty() {
        return Err(wrong_nemesis("its file is missing"));
    }
    let block = read_block(bytes, network)?;
    if block.kind != BlockKind::Nemesis || block.height != Height::NEMESIS {
        return Err(wrong_nemesis("it is not the first block of a chain"));
    }
    if Address::from_public_key(&block.signer, network.byte) != network.nemesis_signer {
        return Err(wrong_nemesis("it is signed by another account"));
    }
    Ok(block)
}

/// Like [`nemesis_block`], for a block from an untrusted source: also checks its hash, if known, and its signature. The
/// signatures of its transactions are checked when it is imported.
pub fn authentic_nemesis_block(bytes: &[u8], network: &Network, known_hash: Option<Hash256>) -> RuleResult<Block> {
    let block = nemesis_block(bytes, network)?;
    let (hash, is_signed) =
        check_block_signature(&block, &block.encode_transactions(), false, &mut Verifier::default());
    if known_hash.is_some_and(|known| known != hash) {
        return Err(wrong_nemesis("it does not have the expected hash"));
    }
    if is_signed { Ok(block) } else { Err(wrong_nemesis("its signature is wrong")) }
}
