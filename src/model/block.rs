//! Blocks.

use std::str::FromStr;

use super::hash::{Hash256, WireHash};
use super::transaction::Transaction;
use super::units::{Amount, Height, Timestamp};
use crate::crypto::{PublicKey, Signature};

wire_enum! {
    /// Kind of a block.
    BlockKind {
        /// The first block of a chain.
        Nemesis = -1,
        /// Any other block.
        Regular = 1,
    }
}

/// A block of transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Nemesis or regular.
    pub kind: BlockKind,
    /// Network byte and entity version, as on the wire.
    pub version: i32,
    /// Time of creation.
    pub timestamp: Timestamp,
    /// Key of the harvester.
    pub signer: PublicKey,
    /// The harvester's signature; `None` in a block under construction or read in its non-verifiable form.
    pub signature: Option<Signature>,
    /// Hash of the parent.
    pub previous_hash: WireHash,
    /// Height of the block.
    pub height: Height,
    /// The transactions, in order.
    pub transactions: Vec<Transaction>,
}

impl Block {
    /// Returns the fees of all transactions, including nested ones. Wraps at 64 bits as in NIS1.
    pub fn total_fee(&self) -> Amount {
        let fees = self.transactions.iter().map(|transaction| transaction.total_fee().0);
        Amount(fees.fold(0, u64::wrapping_add))
    }
}

/// A trusted block, written `HEIGHT:HASH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Height of the block.
    pub height: Height,
    /// Hash of the block.
    pub hash: Hash256,
}

impl FromStr for Checkpoint {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let parse = || {
            let (height, hash) = text.split_once(':')?;
            let height = height.parse().ok().filter(|height| (2..=i64::MAX as u64).contains(height))?;
            Some(Checkpoint { height: Height(height), hash: Hash256::from_hex(hash)? })
        };
        parse().ok_or("write HEIGHT:HASH, a height of at least 2 and the 64 hex digits of its block's hash")
    }
}
