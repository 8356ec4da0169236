//! The hashes of a chain: the hash of a block fixes all blocks before it.

use thiserror::Error;

use super::block_importer::{ImportError, nemesis_block, read_block};
use crate::codec::block_file::{BlockFile, BlockFiles, block_height, block_links};
use crate::model::{Checkpoint, Hash256, Height, Network};
use crate::store::{Store, StoreError, stored_header, tip};

/// A stored block that does not belong at its height.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BrokenChain {
    /// The block at this height is missing.
    #[error("the store is damaged: the block at height {0} is missing")]
    Missing(Height),
    /// The row at this height is not a block, or the block has another height or hash.
    #[error("the store is damaged: the block at height {0} (table blocks) does not match its hash")]
    WrongBlock(Height),
    /// The block at this height names another parent.
    #[error("the store is damaged: the block at height {0} (table blocks) does not follow the one before it")]
    Parent(Height),
}

/// Follows blocks from one to the next.
#[derive(Debug)]
pub struct HashChain {
    next: Height,
    /// Hash of the last block followed; `None` if it is not known.
    last: Option<Hash256>,
}

impl HashChain {
    /// Starts at a height, with the hash of the block before it, if known.
    pub fn new(first: Height, before: Option<Hash256>) -> HashChain {
        HashChain { next: first, last: before }
    }

    /// Checks that a block in its verifiable form is the next one and has this hash.
    pub fn follow(&mut self, hash: &Hash256, block: &[u8]) -> Result<(), BrokenChain> {
        let links = block_links(block).filter(|links| links.height == self.next && links.hash == *hash);
        let links = links.ok_or(BrokenChain::WrongBlock(self.next))?;
        if self.last.is_some_and(|last| last != links.previous_hash) {
            return Err(BrokenChain::Parent(self.next));
        }
        self.next = self.next.next();
        self.last = Some(*hash);
        Ok(())
    }
}

/// Why a chain does not match the trusted checkpoint.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// The block at the checkpoint's height has another hash.
    #[error(
        "--trust-below: the block at height {} has the hash {found}, not {}; nothing was imported",
        checkpoint.height, checkpoint.hash
    )]
    OtherHash { checkpoint: Checkpoint, found: Hash256 },
    /// The files end below the checkpoint's height.
    #[error(
        "--trust-below: the blocks end at height {last}, so the hash at height {} is not known; nothing was imported",
        checkpoint.height
    )]
    TooShort { checkpoint: Checkpoint, last: Height },
    /// The block at this height does not follow its parent.
    #[error("--trust-below: the block at height {0} does not follow the one before it; nothing was imported")]
    ParentMismatch(Height),
    /// A block or a file cannot be read.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
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
                let block = block.map_err(|rejection| ImportError::new(Height::NEMESIS, None, rejection))?;
                (Height::NEMESIS, block.hash())
            }
        };
        match stored_header(&snapshot, checkpoint.height)? {
            Some(header) if header.hash == checkpoint.hash => Ok(None),
            Some(header) => Err(CheckpointError::OtherHash { checkpoint, found: header.hash }),
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
        if !read.map_err(|error| ImportError::File(self.height, error))? {
            return Err(CheckpointError::TooShort { checkpoint: self.checkpoint, last: self.height });
        }
        if block_height(&self.buffer).is_some_and(|height| height <= self.height) {
            return Ok(false);
        }
        let block = read_block(&self.buffer, self.network);
        let block = block.map_err(|rejection| ImportError::new(next, None, rejection))?;
        if block.height != next || block.previous_hash != self.hash {
            return Err(CheckpointError::ParentMismatch(next));
        }
        (self.height, self.hash) = (next, block.hash());
        let is_reached = self.height == self.checkpoint.height;
        if is_reached && self.hash != self.checkpoint.hash {
            return Err(CheckpointError::OtherHash { checkpoint: self.checkpoint, found: self.hash });
        }
        Ok(is_reached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the hash and the verifiable form of a block in which only the fields that link it to others are set.
    fn block(height: u64, previous_hash: [u8; 32]) -> (Hash256, Vec<u8>) {
        let mut bytes = vec![0; 12 + 36];
        bytes.extend_from_slice(&64u32.to_le_bytes());
        bytes.resize(bytes.len() + 64, 0);
        bytes.extend_from_slice(&36u32.to_le_bytes());
        bytes.extend_from_slice(&32u32.to_le_bytes());
        bytes.extend_from_slice(&previous_hash);
        bytes.extend_from_slice(&height.to_le_bytes());
        (block_links(&bytes).expect("links").hash, bytes)
    }

    #[test]
    fn each_block_has_its_height_its_hash_and_the_hash_of_the_one_before() {
        let (first_hash, first) = block(7, [1; 32]);
        let (second_hash, second) = block(8, first_hash.0);
        let mut chain = HashChain::new(Height(7), Some(Hash256([1; 32])));
        assert_eq!(chain.follow(&second_hash, &second), Err(BrokenChain::WrongBlock(Height(7))), "its height");
        assert_eq!(chain.follow(&second_hash, &first), Err(BrokenChain::WrongBlock(Height(7))), "its hash");
        assert_eq!(chain.follow(&first_hash, &first), Ok(()));
        let (other_hash, other) = block(8, [1; 32]);
        assert_eq!(chain.follow(&other_hash, &other), Err(BrokenChain::Parent(Height(8))));
        assert_eq!(chain.follow(&second_hash, &second), Ok(()));
        // A block whose parent is not known may follow anything.
        assert_eq!(HashChain::new(Height(8), None).follow(&other_hash, &other), Ok(()));
    }
}
