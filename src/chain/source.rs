//! Sources of blocks to import.

use std::fmt;

use crate::codec::block_file::{BlockFileError, BlockFiles};
use crate::model::Height;
use crate::store::StoreError;

/// A source of blocks in the order of their heights.
pub trait BlockSource {
    /// Reads the bytes of the next block into `block`. Returns `false` if there are no more.
    fn next(&mut self, block: &mut Vec<u8>) -> Result<bool, SourceError>;

    /// Returns the bytes read, and the total size, if that is known.
    fn progress(&self) -> Option<(u64, u64)> {
        None
    }
}

/// Why a source cannot be read further.
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
pub struct StoredBlockSource<F> {
    block_at: F,
    next: Height,
}

impl<'a, F: Fn(Height) -> Result<Option<&'a [u8]>, StoreError>> StoredBlockSource<F> {
    /// Creates the source. `block_at` returns the verifiable binary form of the block at a height.
    pub fn new(first: Height, block_at: F) -> StoredBlockSource<F> {
        StoredBlockSource { block_at, next: first }
    }
}

impl<'a, F: Fn(Height) -> Result<Option<&'a [u8]>, StoreError>> BlockSource for StoredBlockSource<F> {
    fn next(&mut self, block: &mut Vec<u8>) -> Result<bool, SourceError> {
        let Some(bytes) = (self.block_at)(self.next).map_err(SourceError::Store)? else { return Ok(false) };
        block.clear();
        block.extend_from_slice(bytes);
        self.next = self.next.next();
        Ok(true)
    }
}
