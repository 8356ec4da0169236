//! Where the transaction with a hash is, of any age.
//!
//! A row holds the first bytes of a hash and where its transaction is, and the transaction has the rest. Rows are kept
//! by eras, ranges of transaction numbers: a block writes to the last era only, however many transactions there are, and
//! a search goes through the eras from the last to the first.
//!
//! The protocol forgets hashes after some time. Nothing is removed for that: it is enough to know what was forgotten.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::bytes::{ByteReader, ByteWriter};
use crate::codec::block::{self, Outline};
use crate::codec::{Context, Form};
use crate::model::{Hash256, Height, Timestamp, Transaction};
use crate::store::{Read, StoreError, Table, Write, stored_block, stored_header};

/// Transaction numbers of an era, as a power of two. Its rows fill some 9 MiB.
const ERA_BITS: u32 = 18;
/// Bytes of a hash in a key. Two transactions may have them in common.
const PREFIX: usize = 8;
/// Set in the index of what is nested in the transaction that has the index.
const NESTED: u32 = 1 << 31;

const DAMAGED: StoreError = StoreError::Damaged("a transaction's hash");

/// Where the transaction with a hash is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashEntry {
    /// Height of its block.
    pub height: Height,
    /// Its own time stamp.
    pub timestamp: Timestamp,
    /// Its place among the block's transactions; `None` if it is nested in one of them.
    pub index: Option<u32>,
}

type Era = u16;

/// What is known of all hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct HashTotals {
    /// The first era that has hashes which are not forgotten.
    first: Era,
    /// The last era that has any.
    last: Era,
    /// Hashes below this height are forgotten.
    forgotten_below: u64,
    /// Of the other blocks below `pruned_at`, those of transactions with an earlier time stamp are.
    pruned_at: u64,
    limit: i32,
}

/// Key of what is known of hashes among the totals. It follows not from the blocks alone, but also from how long the
/// operator has hashes remembered.
pub const TOTALS_KEY: &[u8] = b"hashes";

impl HashTotals {
    fn of(state: &impl Read) -> Result<HashTotals, StoreError> {
        let Some(row) = state.get(Table::Totals, TOTALS_KEY)? else { return Ok(HashTotals::default()) };
        let mut input = ByteReader::new(row, "what is known of hashes");
        Ok(HashTotals {
            first: input.u32()? as Era,
            last: input.u32()? as Era,
            forgotten_below: input.u64()?,
            pruned_at: input.u64()?,
            limit: input.u32()? as i32,
        })
    }

    fn put(self, batch: &mut impl Write) -> Result<(), StoreError> {
        let mut out = ByteWriter::default();
        out.u32(self.first.into());
        out.u32(self.last.into());
        out.u64(self.forgotten_below);
        out.u64(self.pruned_at);
        out.u32(self.limit as u32);
        batch.put(Table::Totals, TOTALS_KEY, &out.0)
    }

    fn has_forgotten(&self, entry: &HashEntry) -> bool {
        entry.height.0 < self.forgotten_below || entry.height.0 < self.pruned_at && entry.timestamp.0 < self.limit
    }
}

/// Before the hashes of a block's transactions are inserted; `id` is its first transaction number.
pub fn begin_hashes(batch: &mut impl Write, id: u64) -> Result<(), StoreError> {
    let (totals, era) = (HashTotals::of(batch)?, era(id));
    match totals.last == era {
        true => Ok(()),
        false => HashTotals { last: era, ..totals }.put(batch),
    }
}

/// The hash of a transaction of a block and those nested in it, to be found from now on; `id` is the block's first
/// transaction number.
pub fn insert_hashes<'a>(
    batch: &mut impl Write,
    id: u64,
    height: Height,
    index: u32,
    hashes: impl Iterator<Item = &'a Hash256>,
) -> Result<(), StoreError> {
    let era = era(id);
    for (number, hash) in hashes.enumerate() {
        let index = if number == 0 { index } else { index | NESTED };
        let mut key = prefix(era, hash).to_vec();
        key.extend_from_slice(&(height.0 as u32).to_be_bytes());
        key.extend_from_slice(&index.to_be_bytes());
        batch.insert(Table::Hashes, &key, &[])?;
    }
    Ok(())
}

/// The era of a block whose first transaction number is this.
fn era(id: u64) -> Era {
    Era::try_from(id >> ERA_BITS).unwrap_or(Era::MAX)
}

fn prefix(era: Era, hash: &Hash256) -> [u8; 2 + PREFIX] {
    let mut key = [0; 2 + PREFIX];
    key[..2].copy_from_slice(&era.to_be_bytes());
    key[2..].copy_from_slice(&hash.0[..PREFIX]);
    key
}

/// Where the transaction with a hash is, however old it is.
pub fn find_hash(state: &impl Read, hash: &Hash256) -> Result<Option<HashEntry>, StoreError> {
    let totals = HashTotals::of(state)?;
    find_in(state, hash, 0..=totals.last, Height(0))
}

/// The same, unless the protocol has forgotten the hash.
pub fn hash_entry(state: &impl Read, hash: &Hash256) -> Result<Option<HashEntry>, StoreError> {
    let totals = HashTotals::of(state)?;
    let found = find_in(state, hash, totals.first..=totals.last, Height(totals.forgotten_below))?;
    Ok(found.filter(|entry| !totals.has_forgotten(entry)))
}

/// The first height whose transactions the protocol may still remember by their hashes.
pub fn remembered_from(state: &impl Read) -> Result<Height, StoreError> {
    Ok(Height(HashTotals::of(state)?.forgotten_below.max(1)))
}

/// The newest transaction with a hash in some eras, and not below a height.
fn find_in(
    state: &impl Read,
    hash: &Hash256,
    eras: RangeInclusive<Era>,
    lowest: Height,
) -> Result<Option<HashEntry>, StoreError> {
    let mut walk = state.walk(Table::Hashes)?;
    for era in eras.rev() {
        let prefix = prefix(era, hash);
        let (mut entry, mut found) = (walk.seek(&prefix)?, None);
        while let Some(place) = entry.and_then(|(key, _)| key.strip_prefix(prefix.as_slice())) {
            found = entry_at(state, hash, place, lowest)?.or(found);
            entry = walk.next()?;
        }
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Reads the transaction at a place, and sees whether it or what is nested in it has the hash.
fn entry_at(state: &impl Read, hash: &Hash256, place: &[u8], lowest: Height) -> Result<Option<HashEntry>, StoreError> {
    let (height, rest) = place.split_first_chunk().ok_or(DAMAGED)?;
    let index = u32::from_be_bytes(rest.try_into().map_err(|_| DAMAGED)?);
    let height = Height(u64::from(u32::from_be_bytes(*height)));
    if height < lowest {
        return Ok(None);
    }
    let transaction = transaction_at(state, height, (index & !NESTED) as usize)?;
    let found = match index & NESTED {
        0 => Some(&transaction).filter(|transaction| transaction.hash() == *hash),
        _ => transaction.children().find(|child| child.hash() == *hash),
    };
    let entry = |found: &Transaction| {
        let index = Some(index).filter(|index| index & NESTED == 0);
        HashEntry { height, timestamp: found.timestamp, index }
    };
    Ok(found.map(entry))
}

fn transaction_at(state: &impl Read, height: Height, index: usize) -> Result<Transaction, StoreError> {
    let (_, bytes) = stored_header(state, height)?.ok_or(DAMAGED)?;
    let context = Context::of_store();
    let outline = Outline::read(bytes, context).map_err(|_| DAMAGED)?;
    let mut next = outline.first;
    for number in 0..=index.min(outline.transactions) {
        let (transaction, behind) = block::transaction_at(bytes, next).ok_or(DAMAGED)?;
        if number == index {
            return Transaction::from_bytes(transaction, Form::Verifiable, context).map_err(|_| DAMAGED);
        }
        next = behind;
    }
    Err(DAMAGED)
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
    let Some((_, block)) = stored_block(batch, next, Context::of_store())? else { return Ok(false) };
    let mut times = block.transactions.iter().flat_map(Transaction::self_and_children).map(|one| one.timestamp.0);
    if times.any(|time| time >= totals.limit) {
        return Ok(false);
    }
    let behind = stored_header(batch, next.next())?.map(|(header, _)| era(header.ids.0));
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
                let entry = HashEntry { height, timestamp: one.timestamp, index: (number == 0).then_some(index) };
                if !totals.has_forgotten(&entry) {
                    found.insert(one.hash(), entry);
                }
            }
        }
        height = height.next();
    }
    Ok(found)
}
