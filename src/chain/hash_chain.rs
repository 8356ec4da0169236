//! Follows the hash chain of stored blocks.

use std::fmt;

use crate::codec::block_file::block_links;
use crate::model::{Hash256, Height};

/// A stored block that does not belong at its height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokenChain {
    /// The block at this height is missing.
    Missing(Height),
    /// The row at this height is not a block, or the block has another height or hash.
    WrongBlock(Height),
    /// The block at this height names another parent.
    Parent(Height),
}

impl fmt::Display for BrokenChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BrokenChain::Missing(height) => write!(f, "the store is damaged: the block at height {height} is missing"),
            BrokenChain::WrongBlock(height) => {
                write!(f, "the store is damaged: the block at height {height} (table blocks) does not match its hash")
            }
            BrokenChain::Parent(height) => write!(
                f,
                "the store is damaged: the block at height {height} (table blocks) does not follow the one before it"
            ),
        }
    }
}

impl std::error::Error for BrokenChain {}

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
