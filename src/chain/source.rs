//! Where an intake has its blocks from.

use std::fmt;

use crate::codec::block_file::{BlockFileError, BlockFiles};
use crate::model::Height;
use crate::store::StoreError;

/// Gives blocks one after another, in the order of their heights.
pub trait BlockSource {
    /// The bytes of the next block in `block`; `false` if there are no more.
    fn next(&mut self, block: &mut Vec<u8>) -> Result<bool, SourceError>;

    /// Bytes that were read, and bytes in all if that is known.
    fn progress(&self) -> Option<(u64, u64)> {
        None
    }
}

/// Why a source cannot be read on.
#[derive(Debug)]
pub enum SourceError {
    /// A file failed.
    File(BlockFileError),
    /// A store failed.
    Store(StoreError),
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceError::File(error) => error.fmt(f),
            SourceError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SourceError {}

impl BlockSource for BlockFiles<'_> {
    fn next(&mut self, block: &mut Vec<u8>) -> Result<bool, SourceError> {
        BlockFiles::next(self, block).map_err(SourceError::File)
    }

    fn progress(&self) -> Option<(u64, u64)> {
        BlockFiles::progress(self)
    }
}

/// The blocks of a store from a height on.
pub struct StoredBlocks<F> {
    block_at: F,
    next: Height,
}

impl<'a, F: Fn(Height) -> Result<Option<&'a [u8]>, StoreError>> StoredBlocks<F> {
    /// `block_at` gives the verifiable binary form of the block at a height.
    pub fn new(first: Height, block_at: F) -> StoredBlocks<F> {
        StoredBlocks { block_at, next: first }
    }
}

impl<'a, F: Fn(Height) -> Result<Option<&'a [u8]>, StoreError>> BlockSource for StoredBlocks<F> {
    fn next(&mut self, block: &mut Vec<u8>) -> Result<bool, SourceError> {
        let Some(bytes) = (self.block_at)(self.next).map_err(SourceError::Store)? else { return Ok(false) };
        block.clear();
        block.extend_from_slice(bytes);
        self.next = self.next.next();
        Ok(true)
    }
}
