//! A snapshot of the chain, and its blocks as they are stored and with all that is told about them.

use std::collections::HashMap;

use crate::codec::Context;
use crate::crypto::PublicKey;
use crate::model::{Address, Block, Hash256, Height, Network, Timestamp, Transaction};
use crate::state::{AccountId, TxLocation, affected_in_block};
use crate::store::{
    BlockRow, Read, Result, Snapshot, StoreError, StoredHeader, StoredTransaction, block_row, parent_hash, stored_block,
};

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
    pub fn open_block(&self, height: Height) -> Result<Option<(Block, BlockReader<'a>)>> {
        let Some(row) = block_row(self.snapshot, height)? else { return Ok(None) };
        let block = row.block_head(parent_hash(self.snapshot, height)?);
        let cursor = BlockCursor { height, hash: row.header.hash, index: 0 };
        Ok(Some((block, BlockReader { row, cursor })))
    }

    /// Returns a reader that continues at a cursor; `None` if the block is no longer in the chain.
    pub fn reopen_block(&self, cursor: BlockCursor) -> Result<Option<BlockReader<'a>>> {
        let Some(row) = block_row(self.snapshot, cursor.height)? else { return Ok(None) };
        Ok((row.header.hash == cursor.hash).then_some(BlockReader { row, cursor }))
    }

    /// Returns up to `limit` transactions of the block at a height from an index on; none if there is no such block.
    pub fn transactions(&self, height: Height, from: usize, limit: usize) -> Result<Vec<Transaction>> {
        let Some(row) = block_row(self.snapshot, height)? else { return Ok(Vec::new()) };
        let read = |index| row.transaction(index)?.map(|stored| stored.read()).transpose();
        (from..row.count()).take(limit).filter_map(|index| read(index).transpose()).collect()
    }

    /// Returns the transaction at a location in the chain.
    pub fn transaction(&self, location: TxLocation) -> Result<Option<StoredTransaction<'a>>> {
        Ok(self.transaction_and_header(location)?.map(|(_, transaction)| transaction))
    }

    /// The same with the header of its block.
    pub fn transaction_and_header(
        &self,
        location: TxLocation,
    ) -> Result<Option<(StoredHeader, StoredTransaction<'a>)>> {
        let Some(row) = block_row(self.snapshot, location.height)? else { return Ok(None) };
        Ok(row.transaction(location.index as usize)?.map(|transaction| (row.header, transaction)))
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
    /// The block.
    pub row: BlockRow<'a>,
    /// The current position.
    pub cursor: BlockCursor,
}

impl<'a> BlockReader<'a> {
    /// Returns the next transaction.
    pub fn next_raw(&mut self) -> Result<Option<StoredTransaction<'a>>> {
        let next = self.row.transaction(self.cursor.index)?;
        self.cursor.index += usize::from(next.is_some());
        Ok(next)
    }
}

/// A block that is or was in the chain. It needs no store, so it can be kept when the block is undone.
#[derive(Clone, Debug)]
pub struct ConfirmedBlock {
    /// Its header.
    pub header: StoredHeader,
    /// Hash of its parent.
    pub parent: Hash256,
    /// Key that signed it.
    pub signer: PublicKey,
    /// The account credited with its fees.
    pub harvester: Address,
    /// Bytes of its transactions in the store.
    pub bytes: usize,
    /// Its top-level transactions with their ids.
    pub transactions: Vec<(u64, Transaction)>,
    /// The indexes of the transactions that affect an account, ascending.
    pub by_account: HashMap<Address, Vec<u32>>,
}

impl ConfirmedBlock {
    /// Reads the block at a height; `None` if the chain has none.
    pub fn read(state: &impl Read, height: Height, network: &Network) -> Result<Option<ConfirmedBlock>> {
        let Some((header, block)) = stored_block(state, height)? else { return Ok(None) };
        let affected = affected_in_block(state, height)?;
        if affected.len() != block.transactions.len() {
            return Err(StoreError::Damaged("the accounts that a block affects"));
        }
        let mut by_id: HashMap<AccountId, Vec<u32>> = HashMap::new();
        for (index, (_, accounts)) in (0..).zip(&affected) {
            accounts.iter().for_each(|account| by_id.entry(*account).or_default().push(index));
        }
        let by_account = by_id.into_iter().map(|(id, indexes)| Ok((id.address(state)?, indexes)));
        let by_account = by_account.collect::<Result<HashMap<Address, Vec<u32>>>>()?;
        let signer = block.signer;
        let harvester = header.beneficiary.unwrap_or_else(|| Address::from_public_key(&signer, network.byte));
        let ids = affected.into_iter().map(|(id, _)| id);
        let transactions = ids.zip(block.transactions).collect();
        let parent = parent_hash(state, height)?;
        let bytes = block_row(state, height)?.map_or(0, |row| row.transaction_bytes());
        Ok(Some(ConfirmedBlock { header, parent, signer, harvester, bytes, transactions, by_account }))
    }
}
