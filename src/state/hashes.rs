//! Where the transaction with a hash is, of any age.
//!
//! A row holds the first bytes of a hash and where its transaction is, and the transaction has the rest. New rows are kept
//! by eras, ranges of transaction numbers: a block writes to the last era only, which is small. Eras to which no rollback
//! comes are packed into runs, each of which is sorted and never changes, and runs are merged into longer ones. So there
//! are few places to look in however many transactions there are, and a hash is written some times in whole pages.
//!
//! The protocol forgets hashes after some time. Nothing is removed for that: it is enough to know what was forgotten.

mod comparison;
mod packing;
mod row;
mod runs;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use comparison::HashComparison;
pub use packing::HashPacking;

use self::row::HashRow;
use super::bytes::{ByteReader, ByteWriter};
use crate::codec::transaction::latest_timestamp;
use crate::codec::{Context, Form};
use crate::model::{Hash256, Height, Timestamp, Transaction};
use crate::store::{Read, StoreError, Table, Write, block_row, stored_block, stored_header};

/// Transaction numbers of an era, as a power of two, unless a store was begun with another.
const ERA_BITS: u8 = 13;

const DAMAGED: StoreError = StoreError::Damaged("a transaction's hash");

/// Where the transaction with a hash is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashEntry {
    /// Height of its block.
    pub height: Height,
    /// Its own time stamp.
    pub timestamp: Timestamp,
    /// Its place among the block's transactions, or that of the one in which it is nested.
    pub index: u32,
    /// Whether it is nested in a transaction of the block.
    pub is_nested: bool,
}

/// The number of an era.
pub type Era = u32;

/// What is known of all hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HashTotals {
    /// Transaction numbers of an era, as a power of two.
    era_bits: u8,
    /// The first era that has hashes which are not forgotten.
    first: Era,
    /// Hashes below this height are forgotten.
    forgotten_below: u64,
    /// Of the other blocks below `pruned_at`, those of transactions with an earlier time stamp are.
    pruned_at: u64,
    limit: i32,
}

/// Key of what is known of hashes among the totals. It follows not from the blocks alone, but also from how long the
/// operator has hashes remembered, and from the size of eras.
pub const TOTALS_KEY: &[u8] = b"hashes";

impl Default for HashTotals {
    fn default() -> HashTotals {
        HashTotals { era_bits: ERA_BITS, first: 0, forgotten_below: 0, pruned_at: 0, limit: 0 }
    }
}

impl HashTotals {
    fn of(state: &impl Read) -> Result<HashTotals, StoreError> {
        let Some(row) = state.get(Table::Totals, TOTALS_KEY)? else { return Ok(HashTotals::default()) };
        let mut input = ByteReader::new(row, "what is known of hashes");
        Ok(HashTotals {
            era_bits: input.u8()?,
            first: input.u32()?,
            forgotten_below: input.u64()?,
            pruned_at: input.u64()?,
            limit: input.u32()? as i32,
        })
    }

    fn put(self, batch: &mut impl Write) -> Result<(), StoreError> {
        let mut out = ByteWriter::default();
        out.u8(self.era_bits);
        out.u32(self.first);
        out.u64(self.forgotten_below);
        out.u64(self.pruned_at);
        out.u32(self.limit as u32);
        batch.put(Table::Totals, TOTALS_KEY, &out.0)
    }

    fn has_forgotten(&self, entry: &HashEntry) -> bool {
        entry.height.0 < self.forgotten_below || entry.height.0 < self.pruned_at && entry.timestamp.0 < self.limit
    }

    /// The era of a block whose first transaction number is this.
    fn era(&self, id: u64) -> Era {
        let era = id.checked_shr(self.era_bits.into()).unwrap_or(0);
        Era::try_from(era).unwrap_or(Era::MAX)
    }
}

/// Has eras hold other than the usual transaction numbers, 2 to the power of `bits`, in a store without blocks.
pub fn begin_eras(batch: &mut impl Write, bits: u8) -> Result<(), StoreError> {
    HashTotals { era_bits: bits, ..HashTotals::default() }.put(batch)
}

/// Has eras in a store without blocks be like those in another one.
pub fn begin_eras_like(state: &impl Read, batch: &mut impl Write) -> Result<(), StoreError> {
    match HashTotals::of(state)?.era_bits {
        ERA_BITS => Ok(()),
        bits => begin_eras(batch, bits),
    }
}

/// The era in which the hashes of a block are inserted; `id` is its first transaction number.
pub fn hash_era(state: &impl Read, id: u64) -> Result<Era, StoreError> {
    Ok(HashTotals::of(state)?.era(id))
}

/// The hash of a transaction of a block and those nested in it, to be found from now on, in the block's era.
pub fn insert_hashes<'a>(
    batch: &mut impl Write,
    era: Era,
    height: Height,
    index: u32,
    hashes: impl Iterator<Item = &'a Hash256>,
) -> Result<(), StoreError> {
    for (number, hash) in hashes.enumerate() {
        let row = HashRow::new(hash, height, index, number > 0);
        batch.insert(Table::Hashes, &row_key(era, row), &[])?;
    }
    Ok(())
}

const ROW_KEY_BYTES: usize = size_of::<Era>() + HashRow::BYTES;

/// Key of a row that is not packed.
fn row_key(era: Era, row: HashRow) -> [u8; ROW_KEY_BYTES] {
    let mut key = [0; ROW_KEY_BYTES];
    let (first, last) = key.split_at_mut(size_of::<Era>());
    first.copy_from_slice(&era.to_be_bytes());
    last.copy_from_slice(&row.to_bytes());
    key
}

fn parse_key(key: &[u8]) -> Result<(Era, HashRow), StoreError> {
    let (era, row) = key.split_first_chunk().ok_or(DAMAGED)?;
    Ok((Era::from_be_bytes(*era), HashRow::from_bytes(row.try_into().map_err(|_| DAMAGED)?)))
}

/// The first row that is not packed.
fn first_row(state: &impl Read) -> Result<Option<(Era, HashRow)>, StoreError> {
    state.walk(Table::Hashes)?.seek(&[])?.map(|(key, _)| parse_key(key)).transpose()
}

/// Where the transaction with a hash is, however old it is.
pub fn find_hash(state: &impl Read, hash: &Hash256) -> Result<Option<HashEntry>, StoreError> {
    find_from(state, hash, 0, Height(0))
}

/// The same, unless the protocol has forgotten the hash.
pub fn hash_entry(state: &impl Read, hash: &Hash256) -> Result<Option<HashEntry>, StoreError> {
    let totals = HashTotals::of(state)?;
    let found = find_from(state, hash, totals.first, Height(totals.forgotten_below))?;
    Ok(found.filter(|entry| !totals.has_forgotten(entry)))
}

/// The first height whose transactions the protocol may still remember by their hashes.
pub fn remembered_from(state: &impl Read) -> Result<Height, StoreError> {
    Ok(Height(HashTotals::of(state)?.forgotten_below.max(1)))
}

/// The newest transaction with a hash, in eras from one on, and not below a height.
fn find_from(state: &impl Read, hash: &Hash256, oldest: Era, lowest: Height) -> Result<Option<HashEntry>, StoreError> {
    match find_in_rows(state, hash, oldest, lowest)? {
        Some(found) => Ok(Some(found)),
        None => runs::search(state, oldest, hash, |row| entry_at(state, hash, row, lowest)),
    }
}

/// The same among the rows that are not packed.
fn find_in_rows(
    state: &impl Read,
    hash: &Hash256,
    oldest: Era,
    lowest: Height,
) -> Result<Option<HashEntry>, StoreError> {
    let (mut walk, first) = (state.walk(Table::Hashes)?, HashRow::first_of(hash));
    let (mut from, mut found) = (Some(oldest), None);
    while let Some(era) = from {
        let mut next = walk.seek(&row_key(era, first))?.map(|(key, _)| parse_key(key)).transpose()?;
        while let Some((_, row)) = next.filter(|(here, row)| *here == era && row.may_be_of(hash)) {
            found = entry_at(state, hash, row, lowest)?.or(found);
            next = walk.next()?.map(|(key, _)| parse_key(key)).transpose()?;
        }
        // Eras that have no rows are passed over.
        from = next.and_then(|(here, _)| if here > era { Some(here) } else { era.checked_add(1) });
    }
    Ok(found)
}

/// Reads the transaction at a place, and sees whether it or what is nested in it has the hash.
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
    Transaction::from_bytes(bytes, Form::Verifiable, Context::of_store()).map_err(|_| DAMAGED)
}

/// Whether the hash of a transaction is one that the protocol remembers, so that it cannot come again.
pub fn knows_hash(state: &impl Read, hash: &Hash256) -> Result<bool, StoreError> {
    Ok(hash_entry(state, hash)?.is_some())
}

/// Forgets the hashes of transactions in the blocks so far whose time stamps are before `limit`. To be followed by
/// [`forget_some`].
pub(super) fn forget(batch: &mut impl Write, height: Height, limit: Timestamp) -> Result<(), StoreError> {
    let totals = HashTotals::of(batch)?;
    let limit = totals.limit.max(limit.0);
    HashTotals { pruned_at: height.0, limit, ..totals }.put(batch)
}

/// Looks whether all hashes of one block more are forgotten, so that they need not be looked for any more; whether there
/// may be further ones.
pub(super) fn forget_some(batch: &mut impl Write) -> Result<bool, StoreError> {
    let totals = HashTotals::of(batch)?;
    let next = Height(totals.forgotten_below.max(1));
    if next.0 >= totals.pruned_at {
        return Ok(false);
    }
    let Some(block) = block_row(batch, next)? else { return Ok(false) };
    for transaction in block.transactions() {
        if latest_timestamp(transaction?).ok_or(DAMAGED)?.0 >= totals.limit {
            return Ok(false);
        }
    }
    let behind = stored_header(batch, next.next())?.map(|header| totals.era(header.ids.0));
    let first = behind.unwrap_or(totals.first);
    HashTotals { forgotten_below: next.0 + 1, first, ..totals }.put(batch)?;
    Ok(true)
}

/// Every hash that is not forgotten: in ascending order, and where its transaction is. Takes as much memory as they do.
pub(super) fn remembered(state: &impl Read) -> Result<BTreeMap<Hash256, HashEntry>, StoreError> {
    let totals = HashTotals::of(state)?;
    let mut found = BTreeMap::new();
    let mut height = Height(totals.forgotten_below.max(1));
    while let Some((_, block)) = stored_block(state, height, Context::of_store())? {
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
