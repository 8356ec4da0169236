//! Index of transactions by hash.
//!
//! A row holds a prefix of the hash and the location of the transaction, which verifies the rest. New rows are grouped
//! by epoch, a range of transaction ids: a block writes only to the last epoch, which is small. Epochs that no rollback
//! reaches are packed into sorted, immutable runs, and runs are merged into longer ones. So a lookup searches few
//! places however many transactions there are, and a hash is written few times, in whole pages.
//!
//! NIS1 forgets hashes after some time. Their rows stay; the totals record what is forgotten.

mod compaction;
mod row;
mod runs;
#[cfg(test)]
mod tests;
mod verifier;

use std::collections::BTreeMap;

pub use compaction::HashCompaction;
pub use verifier::HashVerifier;

use self::row::HashRow;
use super::bytes::{ByteReader, ByteWriter};
use crate::codec::transaction::latest_timestamp;
use crate::codec::{Context, SigningForm};
use crate::model::{Hash256, Height, Timestamp, Transaction};
use crate::store::{Read, StoreError, Table, Write, block_row, stored_block, stored_header};

/// Log₂ of the transaction ids per epoch, unless the store was initialized with another value.
const EPOCH_BITS: u8 = 13;

const DAMAGED: StoreError = StoreError::Damaged("a transaction's hash");

/// Location of a transaction that was found by its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashEntry {
    /// Height of its block.
    pub height: Height,
    /// Time stamp of the transaction itself.
    pub timestamp: Timestamp,
    /// Index of the transaction in the block; for a nested transaction, that of its parent.
    pub index: u32,
    /// Whether it is nested in a transaction of the block.
    pub is_nested: bool,
}

/// Number of a hash epoch.
pub type HashEpoch = u32;

/// Global state of the hash index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HashTotals {
    /// Log₂ of the transaction ids per epoch.
    epoch_bits: u8,
    /// The first epoch with hashes that are not forgotten.
    first_epoch: HashEpoch,
    /// Hashes below this height are forgotten.
    forgotten_below: u64,
    /// Of the other blocks below `pruned_at`, hashes of transactions with time stamps below `limit` are forgotten.
    pruned_at: u64,
    limit: i32,
}

/// Key of this row among the totals. It depends not only on the blocks, but also on hash retention and epoch size.
pub const TOTALS_KEY: &[u8] = b"hashes";

impl Default for HashTotals {
    fn default() -> HashTotals {
        HashTotals { epoch_bits: EPOCH_BITS, first_epoch: 0, forgotten_below: 0, pruned_at: 0, limit: 0 }
    }
}

impl HashTotals {
    fn of(state: &impl Read) -> Result<HashTotals, StoreError> {
        let Some(row) = state.get(Table::Totals, TOTALS_KEY)? else { return Ok(HashTotals::default()) };
        let mut input = ByteReader::new(row, "the hash totals");
        Ok(HashTotals {
            epoch_bits: input.u8()?,
            first_epoch: input.u32()?,
            forgotten_below: input.u64()?,
            pruned_at: input.u64()?,
            limit: input.u32()? as i32,
        })
    }

    fn put(self, txn: &mut impl Write) -> Result<(), StoreError> {
        let mut out = ByteWriter::default();
        out.u8(self.epoch_bits);
        out.u32(self.first_epoch);
        out.u64(self.forgotten_below);
        out.u64(self.pruned_at);
        out.u32(self.limit as u32);
        txn.put(Table::Totals, TOTALS_KEY, &out.0)
    }

    fn has_forgotten(&self, entry: &HashEntry) -> bool {
        entry.height.0 < self.forgotten_below || entry.height.0 < self.pruned_at && entry.timestamp.0 < self.limit
    }

    /// Returns the epoch of a block by its first transaction id.
    fn epoch(&self, id: u64) -> HashEpoch {
        let epoch = id.checked_shr(self.epoch_bits.into()).unwrap_or(0);
        HashEpoch::try_from(epoch).unwrap_or(HashEpoch::MAX)
    }
}

/// Sets the epoch size of a store without blocks to 2 to the power of `bits` transaction ids.
pub fn set_epoch_size(txn: &mut impl Write, bits: u8) -> Result<(), StoreError> {
    HashTotals { epoch_bits: bits, ..HashTotals::default() }.put(txn)
}

/// Copies the epoch size of another store to a store without blocks.
pub fn copy_epoch_size(state: &impl Read, txn: &mut impl Write) -> Result<(), StoreError> {
    match HashTotals::of(state)?.epoch_bits {
        EPOCH_BITS => Ok(()),
        bits => set_epoch_size(txn, bits),
    }
}

/// Returns the epoch of a block's hashes; `id` is its first transaction id.
pub fn hash_epoch(state: &impl Read, id: u64) -> Result<HashEpoch, StoreError> {
    Ok(HashTotals::of(state)?.epoch(id))
}

/// Inserts the hashes of a transaction and of its nested transactions into the epoch of their block.
pub fn insert_hashes<'a>(
    txn: &mut impl Write,
    epoch: HashEpoch,
    height: Height,
    index: u32,
    hashes: impl Iterator<Item = &'a Hash256>,
) -> Result<(), StoreError> {
    for (number, hash) in hashes.enumerate() {
        let row = HashRow::new(hash, height, index, number > 0);
        txn.insert(Table::Hashes, &row_key(epoch, row), &[])?;
    }
    Ok(())
}

const ROW_KEY_BYTES: usize = size_of::<HashEpoch>() + HashRow::BYTES;

/// Returns the key of an unpacked row.
fn row_key(epoch: HashEpoch, row: HashRow) -> [u8; ROW_KEY_BYTES] {
    let mut key = [0; ROW_KEY_BYTES];
    let (first, last) = key.split_at_mut(size_of::<HashEpoch>());
    first.copy_from_slice(&epoch.to_be_bytes());
    last.copy_from_slice(&row.to_bytes());
    key
}

fn parse_key(key: &[u8]) -> Result<(HashEpoch, HashRow), StoreError> {
    let (epoch, row) = key.split_first_chunk().ok_or(DAMAGED)?;
    Ok((HashEpoch::from_be_bytes(*epoch), HashRow::from_bytes(row.try_into().map_err(|_| DAMAGED)?)))
}

/// Returns the first unpacked row.
fn first_row(state: &impl Read) -> Result<Option<(HashEpoch, HashRow)>, StoreError> {
    state.cursor(Table::Hashes)?.seek(&[])?.map(|(key, _)| parse_key(key)).transpose()
}

/// Finds a transaction by its hash, whatever its age.
pub fn find_hash(state: &impl Read, hash: &Hash256) -> Result<Option<HashEntry>, StoreError> {
    find_from(state, hash, 0, Height(0))
}

/// Finds a transaction by its hash, unless NIS1 has forgotten the hash.
pub fn find_remembered_hash(state: &impl Read, hash: &Hash256) -> Result<Option<HashEntry>, StoreError> {
    let totals = HashTotals::of(state)?;
    let found = find_from(state, hash, totals.first_epoch, Height(totals.forgotten_below))?;
    Ok(found.filter(|entry| !totals.has_forgotten(entry)))
}

/// Returns the first height whose hashes are not all forgotten.
pub fn remembered_from(state: &impl Read) -> Result<Height, StoreError> {
    Ok(Height(HashTotals::of(state)?.forgotten_below.max(1)))
}

/// Finds the newest transaction with a hash, at or above the epoch `oldest` and the height `lowest`.
fn find_from(
    state: &impl Read,
    hash: &Hash256,
    oldest: HashEpoch,
    lowest: Height,
) -> Result<Option<HashEntry>, StoreError> {
    match find_in_rows(state, hash, oldest, lowest)? {
        Some(found) => Ok(Some(found)),
        None => runs::search(state, oldest, hash, |row| entry_at(state, hash, row, lowest)),
    }
}

/// Finds the same among the unpacked rows.
fn find_in_rows(
    state: &impl Read,
    hash: &Hash256,
    oldest: HashEpoch,
    lowest: Height,
) -> Result<Option<HashEntry>, StoreError> {
    let (mut cursor, first) = (state.cursor(Table::Hashes)?, HashRow::lowest_for(hash));
    let (mut from, mut found) = (Some(oldest), None);
    while let Some(epoch) = from {
        let mut next = cursor.seek(&row_key(epoch, first))?.map(|(key, _)| parse_key(key)).transpose()?;
        while let Some((_, row)) = next.filter(|(here, row)| *here == epoch && row.matches_prefix(hash)) {
            found = entry_at(state, hash, row, lowest)?.or(found);
            next = cursor.next()?.map(|(key, _)| parse_key(key)).transpose()?;
        }
        // Epochs without rows are skipped.
        from = next.and_then(|(here, _)| if here > epoch { Some(here) } else { epoch.checked_add(1) });
    }
    Ok(found)
}

/// Reads the transaction of a row, and returns its location if it or one of its nested transactions has the hash.
fn entry_at(state: &impl Read, hash: &Hash256, row: HashRow, lowest: Height) -> Result<Option<HashEntry>, StoreError> {
    if row.height() < lowest {
        return Ok(None);
    }
    let transaction = transaction_at(state, row.height(), row.index() as usize)?;
    let found = match row.is_nested() {
        false => Some(&transaction).filter(|transaction| transaction.hash() == *hash),
        true => transaction.children().find(|child| child.hash() == *hash),
    };
    let entry = |found: &Transaction| HashEntry {
        height: row.height(),
        timestamp: found.timestamp,
        index: row.index(),
        is_nested: row.is_nested(),
    };
    Ok(found.map(entry))
}

fn transaction_at(state: &impl Read, height: Height, index: usize) -> Result<Transaction, StoreError> {
    let row = block_row(state, height)?.ok_or(DAMAGED)?;
    let bytes = row.transaction(index)?.ok_or(DAMAGED)?;
    Transaction::from_bytes(bytes, SigningForm::Verifiable, Context::trusted_store()).map_err(|_| DAMAGED)
}

/// Forgets the hashes of transactions in the blocks so far with time stamps before `limit`. The caller then calls
/// [`forget_step`] until done.
pub(super) fn forget(txn: &mut impl Write, height: Height, limit: Timestamp) -> Result<(), StoreError> {
    let totals = HashTotals::of(txn)?;
    let limit = totals.limit.max(limit.0);
    HashTotals { pruned_at: height.0, limit, ..totals }.put(txn)
}

/// Advances `forgotten_below` by one block if all hashes of that block are forgotten, so that lookups skip it. Returns
/// whether work may remain.
pub(super) fn forget_step(txn: &mut impl Write) -> Result<bool, StoreError> {
    let totals = HashTotals::of(txn)?;
    let next = Height(totals.forgotten_below.max(1));
    if next.0 >= totals.pruned_at {
        return Ok(false);
    }
    let Some(block) = block_row(txn, next)? else { return Ok(false) };
    for transaction in block.transactions() {
        if latest_timestamp(transaction?).ok_or(DAMAGED)?.0 >= totals.limit {
            return Ok(false);
        }
    }
    let behind = stored_header(txn, next.next())?.map(|header| totals.epoch(header.ids.0));
    let first = behind.unwrap_or(totals.first_epoch);
    HashTotals { forgotten_below: next.0 + 1, first_epoch: first, ..totals }.put(txn)?;
    Ok(true)
}

/// Returns every hash that is not forgotten, ascending, with its location. Holds all of them in memory.
pub(super) fn remembered(state: &impl Read) -> Result<BTreeMap<Hash256, HashEntry>, StoreError> {
    let totals = HashTotals::of(state)?;
    let mut found = BTreeMap::new();
    let mut height = Height(totals.forgotten_below.max(1));
    while let Some((_, block)) = stored_block(state, height, Context::trusted_store())? {
        for (index, transaction) in (0..).zip(&block.transactions) {
            for (number, one) in transaction.self_and_children().enumerate() {
                let entry = HashEntry { height, timestamp: one.timestamp, index, is_nested: number > 0 };
                if !totals.has_forgotten(&entry) {
                    found.insert(one.hash(), entry);
                }
            }
        }
        height = height.next();
    }
    Ok(found)
}
