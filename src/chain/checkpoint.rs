//! Trusted checkpoints: the hash of a block fixes all blocks before it.

use std::fmt;

use super::block_importer::ImportError;
use super::error::BlockError;
use super::nemesis::nemesis_block;
use crate::codec::Context;
use crate::codec::block_file::{BlockFile, BlockFiles, block_height};
use crate::model::{Block, Checkpoint, Hash256, Height, Network};
use crate::store::{Store, StoreError, stored_header, tip};

/// Why a chain does not match the trusted checkpoint.
#[derive(Debug)]
pub enum CheckpointError {
    /// The block at the checkpoint's height has another hash.
    OtherHash(Checkpoint, Hash256),
    /// The files end below the checkpoint's height.
    TooShort(Checkpoint, Height),
    /// The block at this height does not follow its parent.
    ParentMismatch(Height),
    /// A block or a file cannot be read.
    Import(ImportError),
    /// The store failed.
    Store(StoreError),
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckpointError::OtherHash(checkpoint, found) => write!(
                f,
                "--trust-below: the block at height {} has the hash {found}, not {}; nothing was imported",
                checkpoint.height, checkpoint.hash
            ),
            CheckpointError::TooShort(checkpoint, last) => write!(
                f,
                "--trust-below: the blocks end at height {last}, so the hash at height {} is not known; \
                 nothing was imported",
                checkpoint.height
            ),
            CheckpointError::ParentMismatch(height) => write!(
                f,
                "--trust-below: the block at height {height} does not follow the one before it; nothing was imported"
            ),
            CheckpointError::Import(error) => error.fmt(f),
            CheckpointError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CheckpointError {}

impl From<StoreError> for CheckpointError {
    fn from(error: StoreError) -> Self {
        CheckpointError::Store(error)
    }
}

/// Follows the hashes of the blocks in files from the tip of a store up to the checkpoint, before any of them is
/// imported.
pub struct CheckpointScan<'a> {
    network: &'a Network,
    files: BlockFiles<'a>,
    checkpoint: Checkpoint,
    height: Height,
    hash: Hash256,
    buffer: Vec<u8>,
}

impl<'a> CheckpointScan<'a> {
    /// Creates a scan. Returns `None` if the store already has the checkpoint's block with the right hash.
    pub fn new(
        store: &Store,
        network: &'a Network,
        nemesis: &[u8],
        files: Vec<BlockFile<'a>>,
        checkpoint: Checkpoint,
    ) -> Result<Option<CheckpointScan<'a>>, CheckpointError> {
        let snapshot = store.snapshot()?;
        let (height, hash) = match tip(&snapshot)? {
            Some(tip) => (tip.height, tip.hash),
            None => {
                let block = nemesis_block(nemesis, network);
                let block =
                    block.map_err(|error| CheckpointError::Import(ImportError::Block(Height::NEMESIS, error)))?;
                (Height::NEMESIS, block.hash())
            }
        };
        match stored_header(&snapshot, checkpoint.height)? {
            Some(header) if header.hash == checkpoint.hash => Ok(None),
            Some(header) => Err(CheckpointError::OtherHash(checkpoint, header.hash)),
            None => {
                let files = BlockFiles::new(files);
                Ok(Some(CheckpointScan { network, files, checkpoint, height, hash, buffer: Vec::new() }))
            }
        }
    }

    /// Follows one block. Returns whether the checkpoint is reached.
    pub fn step(&mut self) -> Result<bool, CheckpointError> {
        let next = self.height.next();
        let read = self.files.next(&mut self.buffer);
        if !read.map_err(|error| CheckpointError::Import(ImportError::File(self.height, error)))? {
            return Err(CheckpointError::TooShort(self.checkpoint, self.height));
        }
        if block_height(&self.buffer).is_some_and(|height| height <= self.height) {
            return Ok(false);
        }
        let block = Block::from_bytes(&self.buffer, Context::of(self.network));
        let block =
            block.map_err(|error| CheckpointError::Import(ImportError::Block(next, BlockError::Unreadable(error))))?;
        if block.height != next || block.previous_hash != self.hash {
            return Err(CheckpointError::ParentMismatch(next));
        }
        (self.height, self.hash) = (next, block.hash());
        match self.height == self.checkpoint.height {
            true if self.hash == self.checkpoint.hash => Ok(true),
            true => Err(CheckpointError::OtherHash(self.checkpoint, self.hash)),
            false => Ok(false),
        }
    }
}
