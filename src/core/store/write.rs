//! Writing: the write transaction, one for many blocks, with its undo journal; and changes in memory on top of a commit.

use std::cell::Cell;
use std::collections::BTreeMap;

use lmdb::{Cursor, RwTransaction, Transaction, WriteFlags};
use smallvec::SmallVec;

use super::checksums::{
    MAX_RANGE_BYTES, NEXT, RangeSum, SET_RANGE, append_checksum, row_value, split_range, stored_length,
};
use super::error::{Result, StoreError};
use super::open::Store;
use super::read::{CheckedTxn, Read, Snapshot, TableCursor, Verify as _};
use super::tables::Table;
use crate::codec::ByteReader;
use crate::model::Height;

/// Size of a page of LMDB. Longer values take overflow pages.
pub(super) const PAGE: usize = 4096;
/// Checksums of ranges written in one step.
const CHECKSUMS_PER_STEP: usize = 64;
/// Collected rows written in one step.
const ROWS_PER_STEP: usize = 64;
/// Maximum memory of a collected change besides its key and value: both in a node of the map that is two thirds full, and
/// what the allocator adds to the value.
const ENTRY_BYTES: usize = 112;

/// Returns the bytes of a row's overflow pages: LMDB gives pages of its own to a row that takes more than half a page.
fn overflow_of(row: RangeSum) -> usize {
    let bytes = row.bytes as usize;
    if bytes > PAGE / 2 { bytes.next_multiple_of(PAGE) } else { 0 }
}

/// A state that can be changed, and read with its changes.
pub trait Write: Read {
    /// Sets a key; without a value, removes it if it is present.
    fn set(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) -> Result<()>;

    /// Sets a key.
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.set(table, key, Some(value))
    }

    /// Removes a key, if present.
    fn delete(&mut self, table: Table, key: &[u8]) -> Result<()> {
        self.set(table, key, None)
    }

    /// Sets a key that the caller knows to be absent, which may save looking up an old value.
    fn insert(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.put(table, key, value)
    }

    /// Sets or removes a key, outside the undo journal, if there is one.
    fn set_unjournaled(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.set(table, key, value)
    }

    /// Sets a key, outside the undo journal.
    fn put_unjournaled(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.set_unjournaled(table, key, Some(value))
    }

    /// Removes a key, if present, outside the undo journal.
    fn delete_unjournaled(&mut self, table: Table, key: &[u8]) -> Result<()> {
        self.set_unjournaled(table, key, None)
    }

    /// Removes all keys from `first` to `last`, outside the undo journal.
    fn delete_range_unjournaled(&mut self, table: Table, first: &[u8], last: &[u8]) -> Result<()>;
}

/// Changes that become visible together. Dropping it without [`WriteTxn::commit`] discards them. At most one exists in a
/// process: it is the permit to change the chain.
pub struct WriteTxn<'env> {
    base: CheckedTxn<'env, RwTransaction<'env>>,
    /// Old values in the order in which they were overwritten.
    journal: Vec<u8>,
    rows: u32,
    /// Bytes of the written overflow pages, less those of removed rows.
    overflow_bytes: usize,
    /// Changes that are collected in memory and written in the order of their keys; `None` if every change is written at
    /// once.
    collected: Option<Changes>,
    _permit: WritePermit<'env>,
}

/// The permit to change the chain. It is released when it is dropped, after the transaction.
struct WritePermit<'env>(&'env Cell<bool>);

impl Drop for WritePermit<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl Store {
    /// Begins the write transaction. Fails if this process has one already, or has read-only access.
    pub fn begin_write(&self) -> Result<WriteTxn<'_>> {
        if self.has_write_txn.replace(true) {
            return Err(StoreError::WriteInProgress);
        }
        let _permit = WritePermit(&self.has_write_txn);
        self.durability.ensure_record()?;
        self.release_ended_readers();
        let base = CheckedTxn::new(self, self.begun(self.environment.begin_rw_txn())?);
        Ok(WriteTxn { base, journal: Vec::new(), rows: 0, overflow_bytes: 0, collected: None, _permit })
    }

    /// Returns the result of a change; an error of the operating system names the folder.
    pub(super) fn written<T>(&self, result: Result<T, lmdb::Error>) -> Result<T> {
        result.map_err(|error| StoreError::of_write(&self.folder, error))
    }
}

impl WriteTxn<'_> {
    /// Collects changes of rows that many blocks change in memory from now on. A row that changes again and again is then
    /// written once, and a page with several changed rows is copied once. The rows reach the transaction in
    /// [`WriteTxn::prepare_commit_step`].
    pub fn collect_changes(&mut self) {
        self.collected.get_or_insert_default();
    }

    /// Returns the bytes of memory that collected changes take.
    pub fn collected_bytes(&self) -> usize {
        self.collected.as_ref().map_or(0, Changes::memory)
    }

    /// Returns the bytes of overflow pages, which LMDB keeps in memory until the commit: it bounds their rows only.
    pub fn overflow_bytes(&self) -> usize {
        self.overflow_bytes
    }

    /// Does a part of what a commit does first: writes collected changes, then the checksums of ranges. Returns whether
    /// there may be more.
    pub fn prepare_commit_step(&mut self) -> Result<bool> {
        Ok(self.write_collected_step()? || self.write_checksums_step()?)
    }

    /// Writes some of the collected changes. Returns whether there may be more.
    fn write_collected_step(&mut self) -> Result<bool> {
        for _ in 0..ROWS_PER_STEP {
            let Some((table, key, change)) = self.collected.as_mut().and_then(Changes::pop_first) else {
                return Ok(false);
            };
            self.set_row(table, &key, change.as_deref())?;
        }
        Ok(true)
    }

    /// Writes all collected changes, before a table is changed as a whole.
    fn write_collected(&mut self, table: Table) -> Result<()> {
        while table.is_collected() && self.write_collected_step()? {}
        Ok(())
    }

    /// Returns the collected changes, if those of the table are collected.
    fn collected_mut(&mut self, table: Table) -> Option<&mut Changes> {
        self.collected.as_mut().filter(|_| table.is_collected())
    }

    /// Returns the number of row changes, written or collected. A change of a long value counts once more for each of its
    /// pages. Each change takes at most a page of memory, or a few more, and the bytes that the commit copies.
    pub fn rows(&self) -> u32 {
        self.rows + self.collected.as_ref().map_or(0, |changes| changes.count as u32)
    }

    /// Writes a row. Large transactions reach the disk before they are committed. Returns the row's sum.
    fn write(&mut self, table: Table, key: &[u8], value: &[u8], flags: WriteFlags) -> Result<RangeSum> {
        let (store, length) = (self.base.store, stored_length(table, value));
        let place = store.written(self.base.transaction.reserve(store.database(table)?, &key, length, flags))?;
        append_checksum(table, key, value, place);
        let sum = RangeSum::of_row(table, key, place);
        self.rows += 1 + (value.len() / PAGE) as u32;
        self.overflow_bytes += overflow_of(sum);
        Ok(sum)
    }

    /// Removes a row.
    fn remove(&mut self, table: Table, key: &[u8]) -> Result<()> {
        let store = self.base.store;
        store.written(self.base.transaction.del(store.database(table)?, &key, None))
    }

    /// Writes a row that may come after all others. If it does, its page is filled before the next one is started;
    /// otherwise LMDB would leave every page half empty. Returns `false` if there is already a row with the key.
    fn append(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<bool> {
        let is_unverified = self.base.store.verified.first_unverified(table, key, Some(key)).is_some();
        if is_unverified && self.base.get(table, key)?.is_some() {
            return Ok(false);
        }
        let append = Some(WriteFlags::APPEND).filter(|_| table.appends_at_end());
        for flags in append.into_iter().chain([WriteFlags::NO_OVERWRITE]) {
            match self.write(table, key, value, flags) {
                Err(StoreError::Lmdb(lmdb::Error::KeyExist)) => {}
                Err(error) => return Err(error),
                Ok(sum) => {
                    self.update_checksum(table, key, RangeSum::default(), sum, flags == WriteFlags::APPEND)?;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Updates the checksum of a row's range. Once that is too large, a row after all others starts a range, and any other
    /// one splits it.
    fn update_checksum(
        &mut self,
        table: Table,
        key: &[u8],
        before: RangeSum,
        after: RangeSum,
        is_appended: bool,
    ) -> Result<()> {
        if table == Table::Checksums {
            return Ok(());
        }
        let (sum, is_last) = self.checksum(table, key)?;
        if is_appended && is_last && sum.bytes > 0 && sum.plus(after).bytes > MAX_RANGE_BYTES {
            self.base.changed.start_range(table, key, after);
            return Ok(());
        }
        *sum = sum.minus(before).plus(after);
        if !is_appended && sum.bytes > MAX_RANGE_BYTES && after.bytes > before.bytes {
            let range = self.base.range(table, key)?;
            let halves = split_range(&self.base.raw_cursor(table)?, table, &range)?;
            halves.into_iter().flatten().for_each(|range| self.base.changed.set(table, range));
        }
        Ok(())
    }

    /// Returns the checksum of the range of a key, and whether that is the last range.
    fn checksum(&mut self, table: Table, key: &[u8]) -> Result<(&mut RangeSum, bool)> {
        if self.base.changed.get_mut(table, key).is_none() {
            let range = self.base.range(table, key)?;
            self.base.changed.set(table, range);
            self.rows += 1;
        }
        self.base.changed.get_mut(table, key).ok_or(StoreError::Damaged("the checksums of ranges"))
    }

    /// Returns the sum of a stored row; zero if there is none.
    fn row_sum(&self, table: Table, key: &[u8]) -> Result<RangeSum> {
        let Some(row) = self.base.raw_row(table, key)? else { return Ok(RangeSum::default()) };
        row_value(table, key, row, true)?;
        Ok(RangeSum::of_row(table, key, row))
    }

    /// Writes some of the changed checksums. Returns whether there may be more.
    fn write_checksums_step(&mut self) -> Result<bool> {
        for _ in 0..CHECKSUMS_PER_STEP {
            let Some((key, sum)) = self.base.changed.pop() else { return Ok(false) };
            match sum {
                Some(sum) => {
                    self.write(Table::Checksums, &key, sum.to_bytes().as_flattened(), WriteFlags::empty())?;
                }
                None => match self.remove(Table::Checksums, &key) {
                    Err(StoreError::Lmdb(lmdb::Error::NotFound)) => {}
                    removed => removed?,
                },
            }
        }
        Ok(true)
    }

    /// Writes or removes a row.
    fn set_row(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        if let Some(value) = value
            && self.append(table, key, value)?
        {
            return Ok(());
        }
        let before = self.row_sum(table, key)?;
        let after = match value {
            Some(value) => self.write(table, key, value, WriteFlags::empty())?,
            None if before == RangeSum::default() => return self.base.ensure_verified(table, key, Some(key)),
            None => {
                self.rows += 1;
                self.remove(table, key)?;
                RangeSum::default()
            }
        };
        self.overflow_bytes = self.overflow_bytes.saturating_sub(overflow_of(before));
        self.update_checksum(table, key, before, after, false)
    }

    /// Empties a table, outside the journal.
    pub fn clear(&mut self, table: Table) -> Result<()> {
        self.write_collected(table)?;
        for key in self.keys_with_prefix(Table::Checksums, &[table as u8])? {
            self.remove(Table::Checksums, &key)?;
        }
        self.base.changed.clear(table);
        self.base.store.written(self.base.transaction.clear_db(self.base.store.database(table)?))
    }

    /// Returns the old values of all changes since the last call.
    pub fn take_journal(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.journal)
    }

    /// Restores the old values of a journal, last change first.
    pub fn undo(&mut self, journal: &[u8]) -> Result<()> {
        let mut changes = parse_journal(journal)?.into_iter().rev();
        changes.try_for_each(|Change { table, key, before }| self.set_unjournaled(table, key, before))
    }

    /// Makes all changes visible and durable. After an error they may be visible.
    pub fn commit(self) -> Result<()> {
        let durability = &self.base.store.durability;
        durability.timed(|| {
            durability.sync_and_record()?;
            self.commit_unsynced()?;
            durability.sync_and_record()
        })
    }

    /// Makes all changes visible. They are durable once [`super::Durability::sync`] has returned, or the next transaction
    /// is committed. Waits until earlier commits are durable.
    pub fn commit_deferred_sync(self) -> Result<()> {
        let durability = &self.base.store.durability;
        durability.timed(|| {
            durability.sync_and_record()?;
            self.commit_unsynced()
        })
    }

    /// Makes all changes visible, but not yet durable.
    pub(super) fn commit_unsynced(mut self) -> Result<()> {
        while self.prepare_commit_step()? {}
        let CheckedTxn { transaction, store, .. } = self.base;
        store.written(transaction.commit())?;
        store.durability.on_commit();
        Ok(())
    }
}

impl Read for WriteTxn<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>> {
        let change = self.collected.as_ref().and_then(|changes| changes.get(table, key));
        change.map_or_else(|| self.base.get(table, key), Ok)
    }

    fn cursor(&self, table: Table) -> Result<TableCursor<'_>> {
        let changes = self.collected.as_ref().and_then(|changes| changes.tables.get(&table));
        Ok(self.base.cursor(table)?.with_changes(changes))
    }

    fn block_bytes(&self, height: Height) -> Result<Option<&[u8]>> {
        self.base.block_bytes(height)
    }
}

impl Write for WriteTxn<'_> {
    /// Sets or removes a key, and records its old value in the journal.
    fn set(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let before = self.get(table, key)?.map(<[u8]>::to_vec);
        if before.is_none() && value.is_none() {
            return Ok(());
        }
        append_to_journal(&mut self.journal, table, key, before.as_deref());
        self.set_unjournaled(table, key, value)
    }

    /// Sets a key that the caller knows to be absent, which saves looking up an old value. Fails if the key is present.
    fn insert(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        append_to_journal(&mut self.journal, table, key, None);
        let is_new = if self.collected_mut(table).is_none() {
            self.append(table, key, value)?
        } else {
            let is_new = !self.contains(table, key)?;
            self.put_unjournaled(table, key, value)?;
            is_new
        };
        if is_new { Ok(()) } else { Err(StoreError::Damaged("a new key is already present")) }
    }

    fn set_unjournaled(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let Some(changes) = self.collected_mut(table) else { return self.set_row(table, key, value) };
        changes.set(table, key, Some(value.map(<[u8]>::to_vec)));
        Ok(())
    }

    /// [`WriteTxn::rows`] counts the pages that the rows fill.
    fn delete_range_unjournaled(&mut self, table: Table, first: &[u8], last: &[u8]) -> Result<()> {
        self.write_collected(table)?;
        self.base.ensure_verified(table, first, Some(last))?;
        let mut cursor = self.base.transaction.open_rw_cursor(self.base.store.database(table)?)?;
        let (mut removed, mut found) = (Vec::new(), cursor.get(Some(first), None, SET_RANGE));
        while let Ok((Some(key), row)) = found
            && key <= last
        {
            removed.push((key.to_vec(), RangeSum::of_row(table, key, row)));
            self.base.store.written(cursor.del(WriteFlags::empty()))?;
            // The row after the deleted one.
            found = cursor.get(None, None, NEXT);
        }
        match found {
            Err(lmdb::Error::NotFound) => {}
            found => drop(self.base.store.written(found)?),
        }
        drop(cursor);
        let bytes: u64 = removed.iter().map(|(_, row)| row.bytes).sum();
        self.overflow_bytes =
            removed.iter().fold(self.overflow_bytes, |left, (_, row)| left.saturating_sub(overflow_of(*row)));
        self.rows += 1 + (bytes / PAGE as u64) as u32;
        removed.iter().try_for_each(|(key, row)| self.update_checksum(table, key, *row, RangeSum::default(), false))
    }
}

/// A change of an undo journal: the old value of a key.
#[derive(Debug, PartialEq, Eq)]
struct Change<'a> {
    table: Table,
    key: &'a [u8],
    /// `None` if the key was absent.
    before: Option<&'a [u8]>,
}

/// Appends a change to an undo journal: table (1 byte), length of the key (2), key, length of the old value plus one, or
/// zero if there was none (4), old value. Lengths are little-endian.
fn append_to_journal(journal: &mut Vec<u8>, table: Table, key: &[u8], before: Option<&[u8]>) {
    journal.push(table as u8);
    journal.extend_from_slice(&(key.len() as u16).to_le_bytes());
    journal.extend_from_slice(key);
    let length = before.map_or(0, |value| value.len() as u32 + 1);
    journal.extend_from_slice(&length.to_le_bytes());
    journal.extend_from_slice(before.unwrap_or_default());
}

/// Parses an undo journal.
fn parse_journal(bytes: &[u8]) -> Result<Vec<Change<'_>>> {
    let mut input = ByteReader(bytes);
    let mut changes = Vec::new();
    while !input.0.is_empty() {
        let mut change = || {
            let [table] = input.array()?;
            let key_length = u16::from_le_bytes(input.array()?);
            let key = input.slice(key_length.into())?;
            let before = match u32::from_le_bytes(input.array()?) {
                0 => None,
                length => Some(input.slice(length as usize - 1)?),
            };
            Some(Change { table: Table::from_number(table)?, key, before })
        };
        changes.push(change().ok_or(StoreError::Damaged("an undo journal"))?);
    }
    Ok(changes)
}

/// Returns whether two undo journals are equal, except for changes of the table `but_in`.
pub fn journals_equal_except(a: &[u8], b: &[u8], but_in: Table) -> bool {
    let changes = |bytes| Some(parse_journal(bytes).ok()?.into_iter().filter(|change| change.table != but_in));
    a == b || changes(a).zip(changes(b)).is_some_and(|(a, b)| a.eq(b))
}

/// New values by key; `None` for a removed key.
pub(super) type TableChanges = BTreeMap<Key, Option<Vec<u8>>>;

/// A key. Most are short enough to lie in the map itself, where a search compares them without following a pointer.
pub(super) type Key = SmallVec<[u8; 32]>;

/// The replaced change of a key; `None` if there was no change.
type ReplacedChange = (Table, Key, Option<Option<Vec<u8>>>);

/// Changes on top of a commit. They are valid for that commit only.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    tables: BTreeMap<Table, TableChanges>,
    /// Bytes of all keys and values.
    bytes: usize,
    /// Number of changed keys.
    count: usize,
    /// The changes that those since the savepoint replaced, oldest first; `None` without a savepoint.
    replaced: Option<Vec<ReplacedChange>>,
    /// Number of changes and reverts.
    #[cfg(test)]
    pub writes: usize,
}

impl Changes {
    /// Returns the bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the changed keys.
    pub fn keys(&self) -> impl Iterator<Item = (Table, &[u8])> {
        self.tables.iter().flat_map(|(table, changes)| changes.keys().map(|key| (*table, key.as_ref())))
    }

    /// Sets the savepoint to which [`Changes::revert_to_savepoint`] returns.
    pub fn set_savepoint(&mut self) {
        self.replaced = Some(Vec::new());
    }

    /// Reverts all changes since the savepoint.
    pub fn revert_to_savepoint(&mut self) {
        for (table, key, old) in self.replaced.take().into_iter().flatten().rev() {
            self.set(table, &key, old);
        }
    }

    /// Returns the new value of a key; the inner `None` if it was removed, the outer one if it was not changed.
    fn get(&self, table: Table, key: &[u8]) -> Option<Option<&[u8]>> {
        self.tables.get(&table)?.get(key).map(Option::as_deref)
    }

    /// Takes the first change in the order of tables and keys.
    fn pop_first(&mut self) -> Option<(Table, Key, Option<Vec<u8>>)> {
        let mut tables = self.tables.iter_mut();
        let (table, (key, value)) = tables.find_map(|(table, changes)| Some((*table, changes.pop_first()?)))?;
        self.count -= 1;
        self.bytes -= key.len() + value.as_ref().map_or(0, Vec::len);
        Some((table, key, value))
    }

    /// Returns the bytes of memory that the changes take at most.
    fn memory(&self) -> usize {
        self.bytes + self.count * ENTRY_BYTES
    }

    /// Sets or removes the change of a key.
    fn set(&mut self, table: Table, key: &[u8], change: Option<Option<Vec<u8>>>) {
        let size = |change: &Option<Vec<u8>>| key.len() + change.as_ref().map_or(0, Vec::len);
        self.bytes += change.as_ref().map_or(0, size);
        let is_change = change.is_some();
        let changes = self.tables.entry(table).or_default();
        let old = match change {
            Some(change) => changes.insert(Key::from_slice(key), change),
            None => changes.remove(key),
        };
        self.bytes -= old.as_ref().map_or(0, size);
        self.count = self.count + usize::from(is_change) - usize::from(old.is_some());
        if let Some(replaced) = &mut self.replaced {
            replaced.push((table, Key::from_slice(key), old));
        }
        #[cfg(test)]
        {
            self.writes += 1;
        }
    }
}

/// A snapshot with changes on top.
pub struct Overlay<'a> {
    base: &'a Snapshot<'a>,
    changes: &'a mut Changes,
}

impl<'a> Overlay<'a> {
    /// Creates an overlay of changes on the commit for which they were made.
    pub fn new(base: &'a Snapshot<'a>, changes: &'a mut Changes) -> Overlay<'a> {
        Overlay { base, changes }
    }
}

impl Read for Overlay<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>> {
        self.changes.get(table, key).map_or_else(|| self.base.get(table, key), Ok)
    }

    fn cursor(&self, table: Table) -> Result<TableCursor<'_>> {
        Ok(self.base.cursor(table)?.with_changes(self.changes.tables.get(&table)))
    }
}

impl Write for Overlay<'_> {
    fn set(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.changes.set(table, key, Some(value.map(<[u8]>::to_vec)));
        Ok(())
    }

    fn delete_range_unjournaled(&mut self, table: Table, first: &[u8], last: &[u8]) -> Result<()> {
        let mut removed = Vec::new();
        for entry in self.entries_from(table, &[], first)? {
            match entry?.0 {
                key if key <= last => removed.push(key.to_vec()),
                _ => break,
            }
        }
        removed.iter().try_for_each(|key| self.delete(table, key))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::store::test_store;

    const TABLE: Table = Table::Accounts;

    /// Short keys over few letters, so that they often coincide.
    fn keys() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(0u8..3, 1..3)
    }

    fn entries<'a>(cursor: &mut TableCursor<'a>, forward: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found = Vec::new();
        let mut entry = if forward { cursor.seek(&[]) } else { cursor.last() }.unwrap();
        while let Some((key, value)) = entry {
            found.push((key.to_vec(), value.to_vec()));
            entry = if forward { cursor.next() } else { cursor.previous() }.unwrap();
        }
        found
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn an_overlay_reads_like_the_changed_map(
            base in proptest::collection::btree_map(keys(), any::<u8>(), 0..12),
            changes in proptest::collection::vec((keys(), any::<Option<u8>>()), 0..12),
            place in keys(),
        ) {
            let (store, _folder) = test_store();
            let mut batch = store.begin_write().unwrap();
            let mut map = BTreeMap::new();
            for (key, value) in &base {
                batch.put(TABLE, key, &[*value]).unwrap();
                map.insert(key.clone(), vec![*value]);
            }
            batch.commit().unwrap();
            let (snapshot, mut kept) = (store.snapshot().unwrap(), Changes::default());
            let mut overlay = Overlay::new(&snapshot, &mut kept);
            for (key, value) in &changes {
                match value {
                    Some(value) => {
                        overlay.put(TABLE, key, &[*value]).unwrap();
                        map.insert(key.clone(), vec![*value]);
                    }
                    None => {
                        overlay.delete(TABLE, key).unwrap();
                        map.remove(key);
                    }
                }
            }
            let expected: Vec<_> = map.clone().into_iter().collect();
            prop_assert_eq!(entries(&mut overlay.cursor(TABLE).unwrap(), true), expected.clone());
            let backward: Vec<_> = expected.into_iter().rev().collect();
            prop_assert_eq!(entries(&mut overlay.cursor(TABLE).unwrap(), false), backward);
            prop_assert_eq!(overlay.get(TABLE, &place).unwrap(), map.get(&place).map(Vec::as_slice));
            prop_assert_eq!(overlay.get(TABLE, &place).unwrap(), map.get(&place).map(Vec::as_slice));
            let mut walk = overlay.cursor(TABLE).unwrap();
            let found = walk.seek(&place).unwrap().map(|(key, _)| key.to_vec());
            prop_assert_eq!(found.as_ref(), map.range(place.clone()..).next().map(|(key, _)| key));
            if found.is_some() {
                let before = walk.previous().unwrap().map(|(key, _)| key.to_vec());
                prop_assert_eq!(before.as_ref(), map.range(..place.clone()).next_back().map(|(key, _)| key));
            }
            drop(walk);
            let changed: usize = kept.tables.values().flatten().map(|(k, v)| k.len() + v.as_ref().map_or(0, Vec::len)).sum();
            prop_assert_eq!(kept.bytes(), changed);
            prop_assert_eq!(kept.count, kept.tables.values().flatten().count());
            // The changes come out in the order of their keys, and then none are left.
            let all: Vec<_> = kept.tables.get(&TABLE).cloned().unwrap_or_default().into_iter().collect();
            let taken: Vec<_> = std::iter::from_fn(|| kept.pop_first()).map(|(_, key, value)| (key, value)).collect();
            prop_assert_eq!(taken, all);
            prop_assert_eq!((kept.bytes(), kept.count), (0, 0));
        }
    }

    #[test]
    fn changes_of_rows_and_of_checksums_are_counted_and_the_pages_of_long_values() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        let mut counts = vec![batch.rows()];
        // The row, and the checksum of its range.
        batch.put(TABLE, b"a", b"short").unwrap();
        counts.push(batch.rows());
        batch.put(TABLE, b"b", &[7; 3 * PAGE]).unwrap();
        counts.push(batch.rows());
        batch.delete(TABLE, b"a").unwrap();
        counts.push(batch.rows());
        batch.delete_range_unjournaled(TABLE, b"b", b"b").unwrap();
        counts.push(batch.rows());
        assert_eq!(counts, [0, 2, 2 + 4, 6 + 1, 7 + 4]);
    }

    #[test]
    fn overflow_pages_are_counted_until_their_rows_are_removed() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        let mut counts = Vec::new();
        let mut change = |act: &dyn Fn(&mut WriteTxn<'_>)| {
            act(&mut batch);
            counts.push(batch.overflow_bytes() / PAGE);
        };
        change(&|batch| batch.put(TABLE, b"a", &[7; PAGE / 3]).unwrap());
        change(&|batch| batch.put(TABLE, b"b", &[7; 2 * PAGE]).unwrap());
        change(&|batch| batch.put(TABLE, b"c", &[7; PAGE]).unwrap());
        change(&|batch| batch.put(TABLE, b"b", &[7; 4 * PAGE]).unwrap());
        change(&|batch| batch.delete(TABLE, b"c").unwrap());
        change(&|batch| batch.put(TABLE, b"d", &[7; PAGE - 100]).unwrap());
        change(&|batch| batch.delete_range_unjournaled(TABLE, b"b", b"b").unwrap());
        // A row with its checksum is a little longer than its value.
        assert_eq!(counts, [0, 3, 3 + 2, 5 + 5 - 3, 7 - 2, 5 + 1, 6 - 5]);
    }

    #[test]
    fn collected_changes_are_read_at_once_and_written_once_however_often_a_row_changes() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        batch.put(TABLE, b"b", b"stored").unwrap();
        batch.commit().unwrap();
        let mut batch = store.begin_write().unwrap();
        batch.collect_changes();
        for number in 0..100u8 {
            batch.put(TABLE, b"a", &[number]).unwrap();
            assert_eq!(batch.get(TABLE, b"a").unwrap(), Some(&[number][..]));
        }
        batch.delete(TABLE, b"b").unwrap();
        assert_eq!(batch.get(TABLE, b"b").unwrap(), None);
        assert_eq!((batch.rows(), batch.collected_bytes()), (2, 2 * ENTRY_BYTES + 3));
        // The rows of the store are still as before.
        assert_eq!(batch.base.raw_row(TABLE, b"a").unwrap(), None);
        assert!(batch.base.raw_row(TABLE, b"b").unwrap().is_some());
        while batch.prepare_commit_step().unwrap() {}
        // Two rows and the checksum of their range.
        assert_eq!((batch.rows(), batch.collected_bytes()), (2 + 2, 0));
        assert!(batch.base.raw_row(TABLE, b"a").unwrap().is_some());
        batch.commit().unwrap();
        assert_eq!(entries(&mut store.snapshot().unwrap().cursor(TABLE).unwrap(), true), [(b"a".to_vec(), vec![99])]);
    }

    #[test]
    fn a_collected_row_that_is_inserted_twice_is_damage() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        batch.insert(TABLE, b"stored", b"1").unwrap();
        batch.collect_changes();
        batch.insert(TABLE, b"collected", b"1").unwrap();
        for key in [&b"stored"[..], b"collected"] {
            assert!(matches!(batch.insert(TABLE, key, b"2"), Err(StoreError::Damaged(_))));
        }
    }

    #[test]
    fn changes_since_a_savepoint_are_reverted() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        [b"a", b"b"].into_iter().for_each(|key| batch.put(TABLE, key, b"stored").unwrap());
        batch.commit().unwrap();
        let (snapshot, mut changes) = (store.snapshot().unwrap(), Changes::default());
        Overlay::new(&snapshot, &mut changes).put(TABLE, b"b", b"before").unwrap();
        let found = |changes: &mut Changes| {
            let overlay = Overlay::new(&snapshot, changes);
            (entries(&mut overlay.cursor(TABLE).unwrap(), true), overlay.changes.bytes())
        };
        let before = found(&mut changes);
        changes.set_savepoint();
        let mut overlay = Overlay::new(&snapshot, &mut changes);
        overlay.put(TABLE, b"a", b"changed").unwrap();
        overlay.delete(TABLE, b"b").unwrap();
        overlay.put(TABLE, b"c", b"new").unwrap();
        overlay.put(TABLE, b"a", b"changed again").unwrap();
        assert_ne!(found(&mut changes), before);
        changes.revert_to_savepoint();
        assert_eq!(found(&mut changes), before);
    }

    #[test]
    fn a_journal_round_trips() {
        let mut bytes = Vec::new();
        append_to_journal(&mut bytes, Table::Accounts, b"key", None);
        append_to_journal(&mut bytes, Table::Harvests, b"", Some(b""));
        append_to_journal(&mut bytes, Table::Hashes, b"k", Some(b"old"));
        let changes = parse_journal(&bytes).unwrap();
        assert_eq!(changes.len(), 3);
        assert_eq!(changes[0], Change { table: Table::Accounts, key: b"key", before: None });
        assert_eq!(changes[1].before, Some(&b""[..]));
        assert_eq!(changes[2].before, Some(&b"old"[..]));
    }

    #[test]
    fn a_truncated_journal_is_corruption_and_no_panic() {
        let mut bytes = Vec::new();
        append_to_journal(&mut bytes, Table::Hashes, b"key", Some(b"old"));
        for length in 1..bytes.len() {
            assert!(parse_journal(&bytes[..length]).is_err(), "{length}");
        }
    }
}
