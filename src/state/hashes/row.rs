//! Row format of the hash index: hash prefix and location.

use crate::model::{Hash256, Height};

/// Bytes of a hash in a row. Two transactions may share them.
const PREFIX: usize = 8;
/// Flag in the index that marks a nested transaction; the rest is the index of its parent.
const NESTED: u32 = 1 << 31;

/// Hash prefix (8 bytes), height of the block (4 bytes) and index in the block (4 bytes) as one big-endian number,
/// which is the sort order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HashRow(u128);

impl HashRow {
    /// Length of a row in bytes.
    pub const BYTES: usize = 16;
    /// The lowest possible row.
    pub const LOWEST: HashRow = HashRow(0);

    /// Creates the row of a transaction of a block or of one nested in it.
    pub fn new(hash: &Hash256, height: Height, index: u32, is_nested: bool) -> HashRow {
        let index = if is_nested { index | NESTED } else { index };
        HashRow(HashRow::lowest_for(hash).0 | u128::from(height.0 as u32) << 32 | u128::from(index))
    }

    /// Returns the lowest possible row for a hash.
    pub fn lowest_for(hash: &Hash256) -> HashRow {
        let mut bytes = [0; HashRow::BYTES];
        bytes[..PREFIX].copy_from_slice(&hash.0[..PREFIX]);
        HashRow::from_bytes(bytes)
    }

    /// Returns whether the row has the prefix of the hash. If not, it belongs to another hash.
    pub fn matches_prefix(self, hash: &Hash256) -> bool {
        self.0 >> 64 == HashRow::lowest_for(hash).0 >> 64
    }

    /// Returns the height of the block.
    pub fn height(self) -> Height {
        Height(u64::from((self.0 >> 32) as u32))
    }

    /// Returns the index of the transaction in the block.
    pub fn index(self) -> u32 {
        self.0 as u32 & !NESTED
    }

    /// Returns whether the hash is that of a nested transaction.
    pub fn is_nested(self) -> bool {
        self.0 as u32 & NESTED != 0
    }

    /// Encodes the row.
    pub fn to_bytes(self) -> [u8; HashRow::BYTES] {
        self.0.to_be_bytes()
    }

    /// Decodes a row.
    pub fn from_bytes(bytes: [u8; HashRow::BYTES]) -> HashRow {
        HashRow(u128::from_be_bytes(bytes))
    }
}
