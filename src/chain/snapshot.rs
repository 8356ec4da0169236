//! A snapshot of the chain, and its blocks as they are stored.

use crate::codec::transaction::stored_transaction_hash;
use crate::codec::{Context, SigningForm};
use crate::model::{Block, Hash256, Height, Network, Timestamp, Transaction};
use crate::state::TxLocation;
use crate::store::{BlockRow, Snapshot, StoreError, StoredHeader, block_row, parent_hash};

const DAMAGED: StoreError = StoreError::Damaged("a block");

/// The chain and its state at one commit, and the network time of the step that reads it.
#[derive(Clone, Copy)]
pub struct ChainSnapshot<'a> {
    /// The commit.
    pub snapshot: &'a Snapshot<'a>,
    /// The network and its parameters.
    pub network: &'a Network,
    /// Height of the tip.
    pub height: Height,
    /// Network time.
    pub now: Timestamp,
}

impl<'a> ChainSnapshot<'a> {
    /// Returns the context for decoding data from outside.
    pub fn context(&self) -> Context {
        Context::of(self.network)
    }

    /// Returns whether the chain has a block at a height.
    pub fn has_block(&self, height: Height) -> bool {
        (1..=self.height.0).contains(&height.0)
    }

    /// Returns the block at a height without its transactions, and a reader of these.
    pub fn open_block(&self, height: Height) -> Result<Option<(Block, BlockReader<'a>)>, StoreError> {
        let Some(row) = block_row(self.snapshot, height)? else { return Ok(None) };
        let block = row.block_head(parent_hash(self.snapshot, height)?);
        let cursor = BlockCursor { height, hash: row.hash, index: 0 };
        Ok(Some((block, BlockReader { row, context: self.context().trusted(), cursor })))
    }

    /// Returns a reader that continues at a cursor; `None` if the block is no longer in the chain.
    pub fn reopen_block(&self, cursor: BlockCursor) -> Result<Option<BlockReader<'a>>, StoreError> {
        let Some(row) = block_row(self.snapshot, cursor.height)? else { return Ok(None) };
        let context = self.context().trusted();
        Ok((row.hash == cursor.hash).then_some(BlockReader { row, context, cursor }))
    }

    /// Returns up to `limit` transactions of the block at a height from an index on; none if there is no such block.
    pub fn transactions(&self, height: Height, from: usize, limit: usize) -> Result<Vec<Transaction>, StoreError> {
        let Some(row) = block_row(self.snapshot, height)? else { return Ok(Vec::new()) };
        let context = self.context().trusted();
        let read = |index| row.transaction(index)?.map(|bytes| RawTransaction { bytes, context }.read()).transpose();
        (from..row.count()).take(limit).filter_map(|index| read(index).transpose()).collect()
    }

    /// Returns the transaction at a location in the chain.
    pub fn transaction(&self, location: TxLocation) -> Result<Option<RawTransaction<'a>>, StoreError> {
        Ok(self.in_block(location)?.map(|(_, transaction)| transaction))
    }

    /// The same with the header of its block.
    pub fn transaction_and_header(
        &self,
        location: TxLocation,
    ) -> Result<Option<(StoredHeader, RawTransaction<'a>)>, StoreError> {
        Ok(self.in_block(location)?.map(|(row, transaction)| (row.header(), transaction)))
    }

    fn in_block(&self, location: TxLocation) -> Result<Option<(BlockRow<'a>, RawTransaction<'a>)>, StoreError> {
        let Some(row) = block_row(self.snapshot, location.height)? else { return Ok(None) };
        let context = self.context().trusted();
        Ok(row.transaction(location.index as usize)?.map(|bytes| (row, RawTransaction { bytes, context })))
    }
}

/// A position between the transactions of a block. It holds no data, so it can be kept while the chain changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockCursor {
    height: Height,
    hash: Hash256,
    index: usize,
}

/// Reader of the transactions of a block from a position on.
pub struct BlockReader<'a> {
    row: BlockRow<'a>,
    context: Context,
    /// The current position.
    pub cursor: BlockCursor,
}

/// The binary form of a transaction in a block.
#[derive(Clone, Copy, Debug)]
pub struct RawTransaction<'a> {
    /// Verifiable form.
    pub bytes: &'a [u8],
    context: Context,
}

impl<'a> BlockReader<'a> {
    /// Returns the header of the block.
    pub fn header(&self) -> StoredHeader {
        self.row.header()
    }

    /// Returns the number of transactions of the block.
    pub fn count(&self) -> usize {
        self.row.count()
    }

    /// Returns the total size in bytes of the verifiable forms of its transactions, with their length prefixes.
    pub fn transaction_bytes(&self) -> usize {
        self.row.transaction_bytes()
    }

    /// Returns the next transaction.
    pub fn next_raw(&mut self) -> Result<Option<RawTransaction<'a>>, StoreError> {
        let Some(bytes) = self.row.transaction(self.cursor.index)? else { return Ok(None) };
        self.cursor.index += 1;
        Ok(Some(RawTransaction { bytes, context: self.context }))
    }
}

impl RawTransaction<'_> {
    /// Returns the hash of `transaction`, which was decoded from these bytes.
    pub fn hash(&self, transaction: &Transaction) -> Hash256 {
        stored_transaction_hash(self.bytes).unwrap_or_else(|| transaction.hash())
    }

    /// Decodes the transaction.
    pub fn read(&self) -> Result<Transaction, StoreError> {
        // Not `map_err`, which would copy the long transaction once more.
        match Transaction::from_bytes(self.bytes, SigningForm::Verifiable, self.context) {
            Ok(transaction) => Ok(transaction),
            Err(_) => Err(DAMAGED),
        }
    }
}
