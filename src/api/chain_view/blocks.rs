//! Blocks and their transactions.

use super::ChainView;
use crate::codec::block::{Outline, transaction_at};
use crate::codec::transaction::MultisigOutline;
use crate::codec::{Context, Form};
use crate::model::transaction::kind;
use crate::model::{Block, Hash256, Height, Transaction};
use crate::state::{self, HashEntry, Place};
use crate::store::{StoreError, StoredBlock, stored_block, stored_header};

const DAMAGED: StoreError = StoreError::Damaged("a block");

impl ChainView<'_> {
    /// The block at a height, if there is one, read as a whole: for those who know that it is small.
    pub fn block(&self, height: Height) -> Result<Option<Block>, StoreError> {
        Ok(stored_block(self.snapshot, height, self.context())?.map(|(_, block)| block))
    }

    /// Score of the chain.
    pub fn score(&self) -> Result<i128, StoreError> {
        Ok(stored_header(self.snapshot, self.height)?.ok_or(DAMAGED)?.0.score)
    }

    /// Whether the chain has a block at a height.
    pub fn has_block(&self, height: Height) -> bool {
        (1..=self.height.0).contains(&height.0)
    }

    /// What is known of the block at a height, if there is one.
    pub fn header(&self, height: Height) -> Result<Option<StoredBlock>, StoreError> {
        Ok(stored_header(self.snapshot, height)?.map(|(header, _)| header))
    }

    /// The block at a height without its transactions, and what reads them.
    pub fn open_block(&self, height: Height) -> Result<Option<(Block, BlockReader<'_>)>, StoreError> {
        let Some((header, bytes)) = stored_header(self.snapshot, height)? else { return Ok(None) };
        let context = self.context().trusting();
        let outline = Outline::read(bytes, context).map_err(|_| DAMAGED)?;
        let cursor =
            BlockCursor { height, hash: header.hash, count: outline.transactions, index: 0, place: outline.first };
        Ok(Some((outline.block, BlockReader { header, bytes, context, cursor })))
    }

    /// Goes on in a block; `None` if it is not in the chain any more.
    pub fn reopen_block(&self, cursor: BlockCursor) -> Result<Option<BlockReader<'_>>, StoreError> {
        let Some((header, bytes)) = stored_header(self.snapshot, cursor.height)? else { return Ok(None) };
        let context = self.context().trusting();
        Ok((header.hash == cursor.hash).then_some(BlockReader { header, bytes, context, cursor }))
    }

    /// Transactions of the block at a height: from an index on, at most so many; none if there is no such block. Passing
    /// those before costs little, but a [`BlockCursor`] passes them only once.
    pub fn transactions(&self, height: Height, from: usize, most: usize) -> Result<Vec<Transaction>, StoreError> {
        let Some((_, mut reader)) = self.open_block(height)? else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        while let Some(raw) = reader.next_raw()? {
            if found.len() >= most {
                break;
            }
            if reader.index() > from {
                found.push(raw.read()?);
            }
        }
        Ok(found)
    }

    /// The number of the transaction at a place in the chain.
    pub fn transaction_id(&self, place: Place) -> Result<Option<u64>, StoreError> {
        state::transaction_id(self.snapshot, place)
    }

    /// Where the confirmed transaction with a hash is, however old it is.
    pub fn find_hash(&self, hash: &Hash256) -> Result<Option<HashEntry>, StoreError> {
        state::find_hash(self.snapshot, hash)
    }

    /// The same, unless the protocol has forgotten the hash.
    pub fn hash_entry(&self, hash: &Hash256) -> Result<Option<HashEntry>, StoreError> {
        state::hash_entry(self.snapshot, hash)
    }
}

/// A place between the transactions of a block in the chain. It holds nothing of the block, so that it can be kept while
/// the chain goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockCursor {
    height: Height,
    hash: Hash256,
    count: usize,
    index: usize,
    place: usize,
}

/// Reads the transactions of a block from a place on.
pub struct BlockReader<'v> {
    /// What is known of the block.
    pub header: StoredBlock,
    bytes: &'v [u8],
    context: Context,
    cursor: BlockCursor,
}

/// The binary form of a transaction in a block.
#[derive(Clone, Copy, Debug)]
pub struct RawTransaction<'v> {
    /// Its verifiable form.
    pub bytes: &'v [u8],
    context: Context,
}

impl<'v> BlockReader<'v> {
    /// How many transactions the block has.
    pub fn count(&self) -> usize {
        self.cursor.count
    }

    /// How many of them have been passed.
    pub fn index(&self) -> usize {
        self.cursor.index
    }

    /// The place that it has come to.
    pub fn into_cursor(self) -> BlockCursor {
        self.cursor
    }

    /// Passes the next transaction.
    pub fn next_raw(&mut self) -> Result<Option<RawTransaction<'v>>, StoreError> {
        if self.cursor.index == self.cursor.count {
            return Ok(None);
        }
        let (bytes, next) = transaction_at(self.bytes, self.cursor.place).ok_or(DAMAGED)?;
        self.cursor.place = next;
        self.cursor.index += 1;
        Ok(Some(RawTransaction { bytes, context: self.context }))
    }
}

impl RawTransaction<'_> {
    /// The number of its kind.
    pub fn kind(&self) -> Result<i32, StoreError> {
        self.bytes.first_chunk().map(|bytes| i32::from_le_bytes(*bytes)).ok_or(DAMAGED)
    }

    /// What it holds, if it is a multisig transaction.
    pub fn multisig_outline(&self) -> Result<Option<MultisigOutline>, StoreError> {
        match self.kind()? {
            kind::MULTISIG => MultisigOutline::of(self.bytes).ok_or(DAMAGED).map(Some),
            _ => Ok(None),
        }
    }

    /// The transaction.
    pub fn read(&self) -> Result<Transaction, StoreError> {
        // Not `map_err`: a transaction is long, and would be copied once more.
        match Transaction::from_bytes(self.bytes, Form::Verifiable, self.context) {
            Ok(transaction) => Ok(transaction),
            Err(_) => Err(DAMAGED),
        }
    }
}
