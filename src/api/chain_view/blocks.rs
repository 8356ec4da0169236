//! Blocks and their transactions.

use super::ChainView;
use crate::codec::block::read_without_transactions;
use crate::codec::transaction::hash_of_stored;
use crate::codec::{Context, Form};
use crate::model::{Block, Hash256, Height, Transaction};
use crate::state::{self, HashEntry, Place};
use crate::store::{BlockRow, StoreError, StoredBlock, block_row, stored_block, stored_header};

const DAMAGED: StoreError = StoreError::Damaged("a block");

impl ChainView<'_> {
    /// The block at a height, if there is one, read as a whole: for those who know that it is small.
    pub fn block(&self, height: Height) -> Result<Option<Block>, StoreError> {
        Ok(stored_block(self.snapshot, height, self.context())?.map(|(_, block)| block))
    }

    /// Score of the chain.
    pub fn score(&self) -> Result<i128, StoreError> {
        Ok(stored_header(self.snapshot, self.height)?.ok_or(DAMAGED)?.score)
    }

    /// Whether the chain has a block at a height.
    pub fn has_block(&self, height: Height) -> bool {
        (1..=self.height.0).contains(&height.0)
    }

    /// What is known of the block at a height, if there is one.
    pub fn header(&self, height: Height) -> Result<Option<StoredBlock>, StoreError> {
        stored_header(self.snapshot, height)
    }

    /// The block at a height without its transactions, and what reads them.
    pub fn open_block(&self, height: Height) -> Result<Option<(Block, BlockReader<'_>)>, StoreError> {
        let Some(row) = block_row(self.snapshot, height)? else { return Ok(None) };
        let context = self.context().trusting();
        let block = read_without_transactions(row.head(), context).map_err(|_| DAMAGED)?;
        let header = row.header()?;
        let cursor = BlockCursor { height, hash: header.hash, index: 0 };
        Ok(Some((block, BlockReader { header, row, context, cursor })))
    }

    /// Goes on in a block; `None` if it is not in the chain any more.
    pub fn reopen_block(&self, cursor: BlockCursor) -> Result<Option<BlockReader<'_>>, StoreError> {
        let Some(row) = block_row(self.snapshot, cursor.height)? else { return Ok(None) };
        let header = row.header()?;
        let context = self.context().trusting();
        Ok((header.hash == cursor.hash).then_some(BlockReader { header, row, context, cursor }))
    }

    /// Transactions of the block at a height: from an index on, at most so many; none if there is no such block.
    pub fn transactions(&self, height: Height, from: usize, most: usize) -> Result<Vec<Transaction>, StoreError> {
        let Some(row) = block_row(self.snapshot, height)? else { return Ok(Vec::new()) };
        let context = self.context().trusting();
        let read = |index| row.transaction(index)?.map(|bytes| RawTransaction { bytes, context }.read()).transpose();
        (from..row.count()).take(most).filter_map(|index| read(index).transpose()).collect()
    }

    /// The transaction at a place in the chain.
    pub fn transaction(&self, place: Place) -> Result<Option<RawTransaction<'_>>, StoreError> {
        let Some(row) = block_row(self.snapshot, place.height)? else { return Ok(None) };
        let context = self.context().trusting();
        Ok(row.transaction(place.index as usize)?.map(|bytes| RawTransaction { bytes, context }))
    }

    /// How large the block at a height is to other nodes.
    pub fn counted_by_peers(&self, height: Height) -> Result<Option<Counted>, StoreError> {
        let Some(row) = block_row(self.snapshot, height)? else { return Ok(None) };
        let (plain, with_children) = (row.count() as u64, row.counted_by_peers());
        Ok(Some(Counted { hash: row.header()?.hash, plain, with_children, bytes: row.bytes() }))
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

/// How large a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Its hash.
    pub hash: Hash256,
    /// Those of the block.
    pub plain: u64,
    /// With what is nested in multisig transactions, and their cosignatures.
    pub with_children: u64,
    /// Bytes of its verifiable binary form.
    pub bytes: usize,
}

/// A place between the transactions of a block in the chain. It holds nothing of the block, so that it can be kept while
/// the chain goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockCursor {
    height: Height,
    hash: Hash256,
    index: usize,
}

/// Reads the transactions of a block from a place on.
pub struct BlockReader<'v> {
    /// What is known of the block.
    pub header: StoredBlock,
    row: BlockRow<'v>,
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
        self.row.count()
    }

    /// Bytes of all its transactions in their verifiable form, with the length before each.
    pub fn transaction_bytes(&self) -> usize {
        self.row.bytes() - self.row.head().len()
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
        let Some(bytes) = self.row.transaction(self.cursor.index)? else { return Ok(None) };
        self.cursor.index += 1;
        Ok(Some(RawTransaction { bytes, context: self.context }))
    }
}

impl RawTransaction<'_> {
    /// The hash of the transaction, which was read of it.
    pub fn hash(&self, transaction: &Transaction) -> Hash256 {
        hash_of_stored(self.bytes).unwrap_or_else(|| transaction.hash())
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
