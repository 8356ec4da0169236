//! What is kept of a hash: its beginning, and where its transaction is.

use crate::model::{Hash256, Height};

/// Bytes of a hash in a row. Two transactions may have them in common.
const PREFIX: usize = 8;
/// Set in the index of what is nested in the transaction that has the index.
const NESTED: u32 = 1 << 31;

/// First bytes of a hash, height of the block (4 bytes), index in the block (4 bytes), as one big-endian number: rows
/// are sorted by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HashRow(u128);

impl HashRow {
    /// Bytes of a row.
    pub const BYTES: usize = 16;
    /// The lowest row there may be.
    pub const LOWEST: HashRow = HashRow(0);

    /// A transaction of a block, or what is nested in it.
    pub fn new(hash: &Hash256, height: Height, index: u32, is_nested: bool) -> HashRow {
        let index = if is_nested { index | NESTED } else { index };
        HashRow(HashRow::first_of(hash).0 | u128::from(height.0 as u32) << 32 | u128::from(index))
    }

    /// The lowest row there may be for a hash.
    pub fn first_of(hash: &Hash256) -> HashRow {
        let mut bytes = [0; HashRow::BYTES];
        bytes[..PREFIX].copy_from_slice(&hash.0[..PREFIX]);
        HashRow::from_bytes(bytes)
    }

    /// Whether the row may be that of a hash, and is that of another one otherwise.
    pub fn may_be_of(self, hash: &Hash256) -> bool {
        self.0 >> 64 == HashRow::first_of(hash).0 >> 64
    }

    /// Height of the block.
    pub fn height(self) -> Height {
        Height(u64::from((self.0 >> 32) as u32))
    }

    /// The transaction's index in the block.
    pub fn index(self) -> u32 {
        self.0 as u32 & !NESTED
    }

    /// Whether the hash is that of something nested in the transaction.
    pub fn is_nested(self) -> bool {
        self.0 as u32 & NESTED != 0
    }

    /// The stored form.
    pub fn to_bytes(self) -> [u8; HashRow::BYTES] {
        self.0.to_be_bytes()
    }

    /// Reads the stored form.
    pub fn from_bytes(bytes: [u8; HashRow::BYTES]) -> HashRow {
        HashRow(u128::from_be_bytes(bytes))
    }
}
