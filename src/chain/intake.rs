//! Taking blocks in, in small steps.

use std::fmt;
use std::io::Read as _;

use super::apply::{self, apply_transaction, check_place, finish};
use super::difficulty::Window;
use super::error::BlockError;
use super::nemesis::nemesis_block;
use super::verify::{Unverified, Verified};
use crate::codec::block_file::{BlockFile, BlockFileError};
use crate::crypto::Verifier;
use crate::model::{Height, Network};
use crate::state::{BlockContext, Ledger};
use crate::store::{Batch, Store, StoredBlock, stored_header, tip};

/// How blocks are taken in.
#[derive(Clone, Copy, Debug)]
pub struct IntakeOptions {
    /// Steps after which a batch is committed, at the end of the block that reaches them.
    pub batch_steps: u32,
    /// Blocks after which a batch is committed.
    pub batch_blocks: u32,
    /// The last height to take in.
    pub stop_at: Option<Height>,
}

/// What a step has brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Work goes on.
    Working,
    /// Blocks have become visible and durable: the first and the last of them.
    Committed { first: Height, last: Height },
    /// There is nothing left to take in.
    Done,
}

/// Why no more blocks can be taken in. Those before were committed.
#[derive(Debug)]
pub enum IntakeError {
    /// The block at this height is refused.
    Block(Height, BlockError),
    /// A file cannot be read on after this height.
    File(Height, BlockFileError),
    /// A file holds another block at a height that the store has already.
    OtherChain(Height),
}

impl fmt::Display for IntakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The block may be fine.
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

/// What reading on in the files has given.
enum Next {
    /// A block that the chain does not have.
    New,
    /// One that it has, or the end of a file; there may be more.
    Nothing,
    /// There are no more blocks.
    End,
}

enum Stage {
    /// The next block is to be read.
    Reading,
    /// Its signatures are being checked.
    Verifying(Box<Unverified>),
    /// Its transactions are to be applied.
    Verified(Box<Verified>),
    /// Its transactions are being applied; how many were.
    Applying(Box<Verified>, Box<BlockContext>, usize),
}

/// Takes blocks from files into a store. Every call of [`Intake::step`] does a small piece of work: one
/// signature, one transaction, or what is left of a block.
pub struct Intake<'s> {
    store: &'s Store,
    network: &'s Network,
    nemesis: Vec<u8>,
    files: std::vec::IntoIter<BlockFile<'s>>,
    file: Option<BlockFile<'s>>,
    /// Bytes of all files, and of those that were read to their ends.
    size: Option<u64>,
    finished: u64,
    options: IntakeOptions,
    verifier: Verifier,
    buffer: Vec<u8>,
    batch: Option<Batch<'s>>,
    first_of_batch: Option<Height>,
    steps: u32,
    tip: Option<StoredBlock>,
    committed: Height,
    window: Window,
    stage: Stage,
    failure: Option<IntakeError>,
}

impl<'s> Intake<'s> {
    /// Continues the chain of a store, beginning with the nemesis block if it is empty.
    pub fn new(
        store: &'s Store,
        network: &'s Network,
        nemesis: Vec<u8>,
        files: Vec<BlockFile<'s>>,
        options: IntakeOptions,
    ) -> Result<Intake<'s>, BlockError> {
        let snapshot = store.snapshot()?;
        let tip = tip(&snapshot)?;
        let committed = tip.as_ref().map_or(Height(0), |tip| tip.height);
        let window = Window::load(&snapshot, committed)?;
        Ok(Intake {
            store,
            network,
            nemesis,
            size: files.iter().map(|file| file.progress().1).sum(),
            finished: 0,
            files: files.into_iter(),
            file: None,
            options,
            verifier: Verifier::default(),
            buffer: Vec::new(),
            batch: None,
            first_of_batch: None,
            steps: 0,
            tip,
            committed,
            window,
            stage: Stage::Reading,
            failure: None,
        })
    }

    /// Height of the last block that is committed; 0 if there is none.
    pub fn committed(&self) -> Height {
        self.committed
    }

    /// Bytes of the files that were read, and bytes of all of them if every file's size is known.
    pub fn bytes(&self) -> Option<(u64, u64)> {
        let current = self.file.as_ref().map_or(0, |file| file.progress().0);
        self.size.map(|size| (self.finished + current, size))
    }

    /// Changes after how many blocks a batch is committed.
    pub fn set_batch_blocks(&mut self, blocks: u32) {
        self.options.batch_blocks = blocks;
    }

    /// Height of the last block taken in, committed or not; 0 if there is none.
    pub fn height(&self) -> Height {
        self.tip.as_ref().map_or(Height(0), |tip| tip.height)
    }

    /// Does one piece of work. After an error nothing more can be taken in; whole blocks taken in before it
    /// are committed first.
    pub fn step(&mut self) -> Result<Progress, IntakeError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        self.steps += 1;
        let height = self.height().next();
        let result = match std::mem::replace(&mut self.stage, Stage::Reading) {
            Stage::Reading => return self.read(),
            Stage::Verifying(unverified) => self.verify(unverified),
            Stage::Verified(verified) => self.begin(verified),
            Stage::Applying(verified, context, applied) => self.apply(verified, context, applied),
        };
        match result {
            Ok(progress) => Ok(progress),
            Err(error) => self.fail(IntakeError::Block(height, error)),
        }
    }

    /// Commits the whole blocks taken in so far. One that is being applied is begun again afterwards.
    pub fn commit(&mut self) -> Result<Progress, BlockError> {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Reading) {
            Stage::Applying(verified, ..) => Stage::Verified(verified),
            other => other,
        };
        self.steps = 0;
        let Some(mut batch) = self.batch.take() else { return Ok(Progress::Working) };
        let begun = batch.take_journal();
        batch.undo(&begun)?;
        batch.commit()?;
        let last = self.height();
        self.committed = last;
        Ok(self.first_of_batch.take().map_or(Progress::Working, |first| Progress::Committed { first, last }))
    }

    fn fail(&mut self, error: IntakeError) -> Result<Progress, IntakeError> {
        if matches!(error, IntakeError::Block(_, BlockError::Store(_))) {
            // The batch cannot be trusted any more. What was committed before it stays.
            self.batch = None;
            return Err(error);
        }
        let height = self.height().next();
        match self.commit() {
            Ok(Progress::Working | Progress::Done) => Err(error),
            Ok(committed) => {
                self.failure = Some(error);
                Ok(committed)
            }
            Err(worse) => Err(IntakeError::Block(height, worse)),
        }
    }

    fn read(&mut self) -> Result<Progress, IntakeError> {
        let height = self.height().next();
        if self.options.stop_at.is_some_and(|last| height > last) {
            return self.done();
        }
        let unverified = match self.tip {
            None => nemesis_block(&self.nemesis, self.network),
            Some(_) => match self.next_block() {
                Ok(Next::New) => Unverified::read(&self.buffer, self.network),
                Ok(Next::Nothing) => return Ok(Progress::Working),
                Ok(Next::End) => return self.done(),
                Err(error) => return self.fail(error),
            },
        };
        let placed = unverified.and_then(|unverified| {
            check_place(unverified.block(), self.tip.as_ref())?;
            Ok(unverified)
        });
        match placed {
            Ok(unverified) => self.stage = Stage::Verifying(Box::new(unverified)),
            Err(error) => return self.fail(IntakeError::Block(height, error)),
        }
        Ok(Progress::Working)
    }

    fn done(&mut self) -> Result<Progress, IntakeError> {
        let height = self.height();
        match self.commit() {
            Ok(Progress::Committed { first, last }) => Ok(Progress::Committed { first, last }),
            Ok(_) => Ok(Progress::Done),
            Err(error) => Err(IntakeError::Block(height, error)),
        }
    }

    /// Reads the next block of the files into the buffer.
    fn next_block(&mut self) -> Result<Next, IntakeError> {
        let tip = self.height();
        if self.file.is_none() {
            self.file = self.files.next();
        }
        let Some(file) = &mut self.file else { return Ok(Next::End) };
        if !file.next(&mut self.buffer).map_err(|error| IntakeError::File(tip, error))? {
            self.finished += file.progress().0;
            self.file = None;
            return Ok(Next::Nothing);
        }
        match block_height(&self.buffer) {
            Some(height) if height <= tip => self.check_known(height).map(|()| Next::Nothing),
            _ => Ok(Next::New),
        }
    }

    /// A block that the chain has already must be the same.
    fn check_known(&self, height: Height) -> Result<(), IntakeError> {
        let fail = |error: BlockError| IntakeError::Block(height, error);
        let snapshot = self.store.snapshot().map_err(|error| fail(error.into()))?;
        // Blocks of an uncommitted batch come from the same file a moment ago.
        let Some((header, bytes)) = stored_header(&snapshot, height).map_err(|error| fail(error.into()))? else {
            return Ok(());
        };
        let same =
            bytes == self.buffer || Unverified::read(&self.buffer, self.network).map_err(fail)?.hash() == header.hash;
        if same { Ok(()) } else { Err(IntakeError::OtherChain(height)) }
    }

    fn verify(&mut self, mut unverified: Box<Unverified>) -> Result<Progress, BlockError> {
        if unverified.step(&mut self.verifier)? {
            self.stage = Stage::Verifying(unverified);
            return Ok(Progress::Working);
        }
        self.stage = Stage::Verified(Box::new(unverified.into_verified(self.network)?));
        Ok(Progress::Working)
    }

    fn begin(&mut self, verified: Box<Verified>) -> Result<Progress, BlockError> {
        let batch = match &mut self.batch {
            Some(batch) => batch,
            empty => empty.insert(self.store.begin()?),
        };
        let context = apply::begin(&verified.block, batch, self.network)?;
        self.stage = Stage::Applying(verified, Box::new(context), 0);
        Ok(Progress::Working)
    }

    fn apply(
        &mut self,
        verified: Box<Verified>,
        mut context: Box<BlockContext>,
        applied: usize,
    ) -> Result<Progress, BlockError> {
        let Some(batch) = &mut self.batch else { return Ok(Progress::Working) };
        let mut ledger = Ledger { batch, block: &mut context, network: self.network };
        if let Some(transaction) = verified.block.transactions.get(applied) {
            apply_transaction(&mut ledger, transaction)?;
            self.stage = Stage::Applying(verified, context, applied + 1);
            return Ok(Progress::Working);
        }
        let header = finish(&mut ledger, &verified, self.tip.as_ref(), &self.window)?;
        self.window.push(header.difficulty, header.timestamp);
        let first = *self.first_of_batch.get_or_insert(header.height);
        let blocks = header.height.0 - first.0 + 1;
        self.tip = Some(header);
        match self.steps >= self.options.batch_steps || blocks >= u64::from(self.options.batch_blocks) {
            true => self.commit(),
            false => Ok(Progress::Working),
        }
    }
}

/// Height of a block in its verifiable binary form, from its fixed place; `None` if there are too few bytes.
fn block_height(bytes: &[u8]) -> Option<Height> {
    const PLACE: usize = 4 + 4 + 4 + (4 + 32) + (4 + 64) + (4 + 4 + 32);
    let mut height = [0; 8];
    bytes.get(PLACE..)?.read_exact(&mut height).ok()?;
    Some(Height(u64::from_le_bytes(height)))
}
