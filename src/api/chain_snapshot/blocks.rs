//! Queries of blocks and their transactions.

use super::ChainSnapshot;
use crate::codec::block::read_without_transactions;
use crate::codec::transaction::stored_transaction_hash;
use crate::codec::{Context, SigningForm};
use crate::model::{Block, Hash256, Height, Transaction};
use crate::state::{self, HashEntry, TxLocation};
use crate::store::{BlockRow, StoreError, StoredHeader, block_row, stored_block, stored_header};

const DAMAGED: StoreError = StoreError::Damaged("a block");

impl ChainSnapshot<'_> {
    /// Reads the whole block at a height. Only for callers that know that it is small.
    pub fn block(&self, height: Height) -> Result<Option<Block>, StoreError> {
        Ok(stored_block(self.snapshot, height, self.context())?.map(|(_, block)| block))
    }

    /// Returns the score of the chain.
    pub fn score(&self) -> Result<i128, StoreError> {
        Ok(stored_header(self.snapshot, self.height)?.ok_or(DAMAGED)?.score)
    }

    /// Returns whether the chain has a block at a height.
    pub fn has_block(&self, height: Height) -> bool {
        (1..=self.height.0).contains(&height.0)
    }

    /// Returns the header of the block at a height.
    pub fn header(&self, height: Height) -> Result<Option<StoredHeader>, StoreError> {
        stored_header(self.snapshot, height)
    }

    /// Returns the block at a height without its transactions, and a reader of these.
    pub fn open_block(&self, height: Height) -> Result<Option<(Block, BlockReader<'_>)>, StoreError> {
        let Some(row) = block_row(self.snapshot, height)? else { return Ok(None) };
        let context = self.context().trusted();
        let block = read_without_transactions(row.head(), context).map_err(|_| DAMAGED)?;
        let header = row.header()?;
        let cursor = BlockCursor { height, hash: header.hash, index: 0 };
        Ok(Some((block, BlockReader { header, row, context, cursor })))
    }

    /// Returns a reader that continues at a cursor; `None` if the block is no longer in the chain.
    pub fn reopen_block(&self, cursor: BlockCursor) -> Result<Option<BlockReader<'_>>, StoreError> {
        let Some(row) = block_row(self.snapshot, cursor.height)? else { return Ok(None) };
        let header = row.header()?;
        let context = self.context().trusted();
        Ok((header.hash == cursor.hash).then_some(BlockReader { header, row, context, cursor }))
    }

    /// Returns up to `limit` transactions of the block at a height from an index on; none if there is no such block.
    pub fn transactions(&self, height: Height, from: usize, limit: usize) -> Result<Vec<Transaction>, StoreError> {
        let Some(row) = block_row(self.snapshot, height)? else { return Ok(Vec::new()) };
        let context = self.context().trusted();
        let read = |index| row.transaction(index)?.map(|bytes| RawTransaction { bytes, context }.read()).transpose();
        (from..row.count()).take(limit).filter_map(|index| read(index).transpose()).collect()
    }

    /// Returns the transaction at a location in the chain.
    pub fn transaction(&self, location: TxLocation) -> Result<Option<RawTransaction<'_>>, StoreError> {
        let Some(row) = block_row(self.snapshot, location.height)? else { return Ok(None) };
        let context = self.context().trusted();
        Ok(row.transaction(location.index as usize)?.map(|bytes| RawTransaction { bytes, context }))
    }

    /// Returns the size of the block at a height as peers count it.
    pub fn size_for_peers(&self, height: Height) -> Result<Option<PeerBlockSize>, StoreError> {
        let Some(row) = block_row(self.snapshot, height)? else { return Ok(None) };
        let (plain, with_children) = (row.count() as u64, row.nis1_transaction_count());
        Ok(Some(PeerBlockSize { hash: row.header()?.hash, plain, with_children, bytes: row.bytes() }))
    }

    /// Returns the id of the transaction at a location in the chain.
    pub fn transaction_id(&self, location: TxLocation) -> Result<Option<u64>, StoreError> {
        state::transaction_id(self.snapshot, location)
    }

    /// Returns the location of the confirmed transaction with a hash, however old.
    pub fn find_hash(&self, hash: &Hash256) -> Result<Option<HashEntry>, StoreError> {
        state::find_hash(self.snapshot, hash)
    }

    /// Returns the same, unless the protocol has pruned the hash.
    pub fn hash_entry(&self, hash: &Hash256) -> Result<Option<HashEntry>, StoreError> {
        state::find_remembered_hash(self.snapshot, hash)
    }
}

/// Size of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerBlockSize {
    /// Its hash.
    pub hash: Hash256,
    /// Number of its top-level transactions.
    pub plain: u64,
    /// Number of its transactions including inner transactions and cosignatures.
    pub with_children: u64,
    /// Size in bytes of its verifiable binary form.
    pub bytes: usize,
}

/// A position between the transactions of a block. It holds no data, so it can be kept while the chain changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockCursor {
    height: Height,
    hash: Hash256,
    index: usize,
}

/// Reader of the transactions of a block from a position on.
pub struct BlockReader<'v> {
    /// Header of the block.
    pub header: StoredHeader,
    row: BlockRow<'v>,
    context: Context,
    cursor: BlockCursor,
}

/// The binary form of a transaction in a block.
#[derive(Clone, Copy, Debug)]
pub struct RawTransaction<'v> {
    /// Verifiable form.
    pub bytes: &'v [u8],
    context: Context,
}

impl<'v> BlockReader<'v> {
    /// Returns the number of transactions of the block.
    pub fn count(&self) -> usize {
        self.row.count()
    }

    /// Returns the total size in bytes of the verifiable forms of its transactions, with their length prefixes.
    pub fn transaction_bytes(&self) -> usize {
        self.row.bytes() - self.row.head().len()
    }

    /// Returns the number of transactions read so far.
    pub fn index(&self) -> usize {
        self.cursor.index
    }

    /// Returns the current position.
    pub fn into_cursor(self) -> BlockCursor {
        self.cursor
    }

    /// Returns the next transaction.
    pub fn next_raw(&mut self) -> Result<Option<RawTransaction<'v>>, StoreError> {
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
