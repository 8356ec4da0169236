//! Index of transactions by hash.
//!
//! A row holds a prefix of the hash and the location of the transaction, which verifies the rest. New rows are grouped
//! by epoch, a range of transaction ids: a block writes only to the last epoch, which is small. Epochs that no rollback
//! reaches are packed into sorted, immutable runs, and runs are merged into longer ones. So a lookup searches few
//! places however many transactions there are, and a hash is written few times, in whole pages.
//!
//! NIS1 forgets hashes after some time. Their rows stay; the totals record what is forgotten.

mod runs;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use self::runs::HashCompaction;

use self::runs::{count_packed, expected_key, is_packed};
use super::bytes::{Stored, stored};
use crate::codec::transaction::latest_timestamp;
use crate::model::{Hash256, Height, Timestamp};
use crate::store::{Read, Result, StoreError, Table, Write, block_row, stored_block, stored_header};

/// Log₂ of the transaction ids per epoch, unless the store was initialized with another value.
const EPOCH_BITS: u8 = 10;

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

stored!(HashTotals { epoch_bits, first_epoch, forgotten_below, pruned_at, limit });

impl HashTotals {
    fn of(state: &impl Read) -> Result<HashTotals> {
        Ok(HashTotals::get(state, Table::Totals, TOTALS_KEY, "the hash totals")?.unwrap_or_default())
    }

    fn put(self, txn: &mut impl Write) -> Result<()> {
        txn.put(Table::Totals, TOTALS_KEY, &self.to_stored())
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
pub fn set_epoch_size(txn: &mut impl Write, bits: u8) -> Result<()> {
    HashTotals { epoch_bits: bits, ..HashTotals::default() }.put(txn)
}

/// Copies the epoch size of another store to a store without blocks.
pub fn copy_epoch_size(state: &impl Read, txn: &mut impl Write) -> Result<()> {
    let bits = HashTotals::of(state)?.epoch_bits;
    if bits == EPOCH_BITS { Ok(()) } else { set_epoch_size(txn, bits) }
}

/// Returns the epoch of a block's hashes; `id` is its first transaction id.
pub fn hash_epoch(state: &impl Read, id: u64) -> Result<HashEpoch> {
    Ok(HashTotals::of(state)?.epoch(id))
}

/// Inserts the hashes of a transaction and of its nested transactions into the epoch of their block.
pub fn insert_hashes<'a>(
    txn: &mut impl Write,
    epoch: HashEpoch,
    height: Height,
    index: u32,
    hashes: impl Iterator<Item = &'a Hash256>,
) -> Result<()> {
    for (number, hash) in hashes.enumerate() {
        let row = HashRow::new(hash, height, index, number > 0);
        txn.insert(Table::Hashes, &row_key(epoch, row), &[])?;
    }
    Ok(())
}

/// Flag in the index that marks a nested transaction; the rest is the index of its parent.
const NESTED: u32 = 1 << 31;

/// Hash prefix (8 bytes, which two transactions may share), height of the block (4 bytes) and index in the block (4 bytes) as one big-endian number,
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
        let prefix = u64::from_be_bytes(hash.0.as_chunks().0[0]);
        HashRow(u128::from(prefix) << 64)
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

const ROW_KEY_BYTES: usize = size_of::<HashEpoch>() + HashRow::BYTES;

/// Returns the key of an unpacked row.
fn row_key(epoch: HashEpoch, row: HashRow) -> [u8; ROW_KEY_BYTES] {
    let mut key = [0; ROW_KEY_BYTES];
    let (first, last) = key.split_at_mut(size_of::<HashEpoch>());
    first.copy_from_slice(&epoch.to_be_bytes());
    last.copy_from_slice(&row.to_bytes());
    key
}

fn parse_key(key: &[u8]) -> Result<(HashEpoch, HashRow)> {
    let (epoch, row) = key.split_first_chunk().ok_or(DAMAGED)?;
    Ok((HashEpoch::from_be_bytes(*epoch), HashRow::from_bytes(row.try_into().map_err(|_| DAMAGED)?)))
}

/// Returns the first unpacked row.
fn first_row(state: &impl Read) -> Result<Option<(HashEpoch, HashRow)>> {
    state.first_from(Table::Hashes, &[], &[])?.map(|(key, _)| parse_key(key)).transpose()
}

/// Finds a transaction by its hash, whatever its age.
pub fn find_hash(state: &impl Read, hash: &Hash256) -> Result<Option<HashEntry>> {
    find_from(state, hash, 0, Height(0))
}

/// Finds a transaction by its hash, unless NIS1 has forgotten the hash.
pub fn find_remembered_hash(state: &impl Read, hash: &Hash256) -> Result<Option<HashEntry>> {
    let totals = HashTotals::of(state)?;
    let found = find_from(state, hash, totals.first_epoch, Height(totals.forgotten_below))?;
    Ok(found.filter(|entry| !totals.has_forgotten(entry)))
}

/// Returns the first height whose hashes are not all forgotten.
pub fn remembered_from(state: &impl Read) -> Result<Height> {
    Ok(Height(HashTotals::of(state)?.forgotten_below.max(1)))
}

/// Finds the newest transaction with a hash, at or above the epoch `oldest` and the height `lowest`.
fn find_from(state: &impl Read, hash: &Hash256, oldest: HashEpoch, lowest: Height) -> Result<Option<HashEntry>> {
    match find_in_rows(state, hash, oldest, lowest)? {
        Some(found) => Ok(Some(found)),
        None => runs::search(state, oldest, hash, |row| entry_at(state, hash, row, lowest)),
    }
}

/// Finds the same among the unpacked rows.
fn find_in_rows(state: &impl Read, hash: &Hash256, oldest: HashEpoch, lowest: Height) -> Result<Option<HashEntry>> {
    let (mut cursor, first) = (state.cursor(Table::Hashes)?, HashRow::lowest_for(hash));
    let (mut from, mut found) = (Some(oldest), None);
    while let Some(epoch) = from {
        let mut next = cursor.seek(&row_key(epoch, first))?.map(|(key, _)| parse_key(key)).transpose()?;
        while let Some((_, row)) = next.filter(|(here, row)| *here == epoch && row.matches_prefix(hash)) {
            found = entry_at(state, hash, row, lowest)?.or(found);
            next = cursor.next()?.map(|(key, _)| parse_key(key)).transpose()?;
        }
        // Epochs without rows are skipped.
        from = next.zip(epoch.checked_add(1)).map(|((here, _), following)| following.max(here));
    }
    Ok(found)
}

/// Reads the transaction of a row, and returns its location if it or one of its nested transactions has the hash.
fn entry_at(state: &impl Read, hash: &Hash256, row: HashRow, lowest: Height) -> Result<Option<HashEntry>> {
    if row.height() < lowest {
        return Ok(None);
    }
    let block = block_row(state, row.height())?.ok_or(DAMAGED)?;
    let transaction = block.transaction(row.index() as usize)?.ok_or(DAMAGED)?.read()?;
    let (height, index, is_nested) = (row.height(), row.index(), row.is_nested());
    // The transaction itself comes before those nested in it.
    let (first, last) = if is_nested { (1, usize::MAX) } else { (0, 1) };
    let found = transaction.self_and_children().take(last).skip(first).find(|one| one.hash() == *hash);
    Ok(found.map(|found| HashEntry { height, timestamp: found.timestamp, index, is_nested }))
}

/// Forgets the hashes of transactions in the blocks so far with time stamps before `limit`. The caller then calls
/// [`forget_step`] until done.
pub(super) fn forget(txn: &mut impl Write, height: Height, limit: Timestamp) -> Result<()> {
    let totals = HashTotals::of(txn)?;
    let limit = totals.limit.max(limit.0);
    HashTotals { pruned_at: height.0, limit, ..totals }.put(txn)
}

/// Advances `forgotten_below` by one block if all hashes of that block are forgotten, so that lookups skip it. Returns
/// whether work may remain.
pub(super) fn forget_step(txn: &mut impl Write) -> Result<bool> {
    let totals = HashTotals::of(txn)?;
    let next = Height(totals.forgotten_below.max(1));
    if next.0 >= totals.pruned_at {
        return Ok(false);
    }
    let Some(block) = block_row(txn, next)? else { return Ok(false) };
    for transaction in block.transactions() {
        if latest_timestamp(transaction?.bytes).ok_or(DAMAGED)?.0 >= totals.limit {
            return Ok(false);
        }
    }
    let next_epoch = stored_header(txn, next.next())?.map(|header| totals.epoch(header.ids.0));
    let first_epoch = next_epoch.unwrap_or(totals.first_epoch);
    HashTotals { forgotten_below: next.0 + 1, first_epoch, ..totals }.put(txn)?;
    Ok(true)
}

/// Returns every hash that is not forgotten, ascending, with its location. Holds all of them in memory.
pub(super) fn remembered(state: &impl Read) -> Result<BTreeMap<Hash256, HashEntry>> {
    let totals = HashTotals::of(state)?;
    let mut found = BTreeMap::new();
    let mut height = Height(totals.forgotten_below.max(1));
    while let Some((_, block)) = stored_block(state, height)? {
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

/// Verifies the index of a store against its blocks, whatever is packed: counts the rows that the blocks require.
#[derive(Clone, Copy, Debug, Default)]
pub struct HashVerifier {
    rows: u64,
    packed: u64,
}

impl HashVerifier {
    /// Checks the rows of the block at a height. Returns table and key of the first missing row.
    pub fn verify_block(&mut self, state: &impl Read, height: Height) -> Result<Option<(Table, Vec<u8>)>> {
        let Some((header, block)) = stored_block(state, height)? else { return Ok(None) };
        let epoch = HashTotals::of(state)?.epoch(header.ids.0);
        for (index, transaction) in (0..).zip(&block.transactions) {
            for (number, one) in transaction.self_and_children().enumerate() {
                let row = HashRow::new(&one.hash(), height, index, number > 0);
                if state.contains(Table::Hashes, &row_key(epoch, row))? {
                    self.rows += 1;
                } else if is_packed(state, epoch, row)? {
                    self.packed += 1;
                } else {
                    return expected_key(state, epoch, row).map(Some);
                }
            }
        }
        Ok(None)
    }

    /// Once all blocks were checked, returns a table with more rows than required, and the surplus.
    pub fn surplus(&self, state: &impl Read) -> Result<Option<(Table, u64)>> {
        let rows = state.entries(Table::Hashes, &[])?.try_fold(0u64, |rows, entry| entry.map(|_| rows + 1))?;
        let packed = count_packed(state)?.saturating_sub(self.packed);
        let surplus = [(Table::Hashes, rows.saturating_sub(self.rows)), (Table::HashRuns, packed)];
        Ok(surplus.into_iter().find(|(_, more)| *more > 0))
    }
}
