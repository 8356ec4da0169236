//! Reading: single values, cursors in key order, and snapshots. Each row is compared with its checksum before it is used;
//! ranges of rows are, before the absence of a row is believed.

use std::cell::{Cell, OnceCell};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};

use lmdb::{Cursor as _, InactiveTransaction, RoCursor, RoTransaction, Transaction};

use super::blocks::{block_in, block_key};
use super::checksums::{
    self, ChangedRanges, LAST, MAX_RANGE_BYTES, NEXT, PREVIOUS, Range, RangeSum, SET_RANGE, checksum_key, found,
    range_start, raw_entry, row_value, split_range,
};
use super::error::{Result, StoreError};
use super::open::Store;
use super::tables::Table;
use super::write::{Key, TableChanges};
use crate::model::Height;

/// A readable state: a snapshot, or a write transaction with its own changes.
pub trait Read {
    /// Returns the value of a key, after comparing it with its checksum.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>>;

    /// Opens a cursor over a table.
    fn cursor(&self, table: Table) -> Result<TableCursor<'_>>;

    /// Returns the bytes of the block at a height. They have checksums of their own, which are not verified here.
    fn block_bytes(&self, height: Height) -> Result<Option<&[u8]>> {
        let row = self.cursor(Table::Blocks)?.seek(&block_key(height))?;
        row.map_or(Ok(None), |(key, row)| block_in(key, row, height))
    }

    /// Returns whether a key is present.
    fn contains(&self, table: Table, key: &[u8]) -> Result<bool> {
        Ok(self.get(table, key)?.is_some())
    }

    /// Returns the entries whose keys start with `prefix`, in key order.
    fn entries(&self, table: Table, prefix: &[u8]) -> Result<Entries<'_>> {
        self.entries_from(table, prefix, prefix)
    }

    /// Like [`Read::entries`], starting at the key `from`.
    fn entries_from(&self, table: Table, prefix: &[u8], from: &[u8]) -> Result<Entries<'_>> {
        Ok(Entries {
            cursor: self.cursor(table)?,
            prefix: Key::from_slice(prefix),
            start: Some(Key::from_slice(from)),
            is_reverse: false,
        })
    }

    /// Like [`Read::entries`] for the entries before the key `end`, in reverse order.
    fn entries_before(&self, table: Table, prefix: &[u8], end: &[u8]) -> Result<Entries<'_>> {
        Ok(Entries { is_reverse: true, ..self.entries_from(table, prefix, end)? })
    }

    /// Returns the first entry from the key `from` on, if its key starts with `prefix`.
    fn first_from(&self, table: Table, prefix: &[u8], from: &[u8]) -> Result<Option<Entry<'_>>> {
        self.entries_from(table, prefix, from)?.next().transpose()
    }

    /// Returns a copy of the first key of a table if it is below `limit`, for callers that remove the oldest rows.
    fn first_key_below(&self, table: Table, limit: &[u8]) -> Result<Option<Vec<u8>>> {
        let first = self.first_from(table, &[], &[])?.filter(|(key, _)| *key < limit);
        Ok(first.map(|(key, _)| key.to_vec()))
    }

    /// Returns the last entry before the key `end`, if its key starts with `prefix`.
    fn last_before(&self, table: Table, prefix: &[u8], end: &[u8]) -> Result<Option<Entry<'_>>> {
        self.entries_before(table, prefix, end)?.next().transpose()
    }

    /// Returns whether there is a key that starts with `prefix`.
    fn has_prefix(&self, table: Table, prefix: &[u8]) -> Result<bool> {
        Ok(self.first_from(table, prefix, prefix)?.is_some())
    }

    /// Returns copies of the keys that start with `prefix`, for callers that change the table meanwhile.
    fn keys_with_prefix(&self, table: Table, prefix: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.entries(table, prefix)?.map(|entry| Ok(entry?.0.to_vec())).collect()
    }
}

impl<R: Read + ?Sized> Read for &R {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>> {
        (**self).get(table, key)
    }

    fn cursor(&self, table: Table) -> Result<TableCursor<'_>> {
        (**self).cursor(table)
    }

    fn block_bytes(&self, height: Height) -> Result<Option<&[u8]>> {
        (**self).block_bytes(height)
    }
}

/// Key and value of an entry.
pub type Entry<'a> = (&'a [u8], &'a [u8]);

/// Entries of a table whose keys start with a prefix. The first other key ends them.
pub struct Entries<'a> {
    cursor: TableCursor<'a>,
    prefix: Key,
    /// The key to start from, until the first entry is read.
    start: Option<Key>,
    is_reverse: bool,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>>;

    fn next(&mut self) -> Option<Result<Entry<'a>>> {
        let found = match (self.start.take(), self.is_reverse) {
            (Some(start), false) => self.cursor.seek(&start),
            (Some(end), true) => self.cursor.seek_before(&end),
            (None, false) => self.cursor.next(),
            (None, true) => self.cursor.previous(),
        };
        found.map(|entry| entry.filter(|(key, _)| key.starts_with(&self.prefix))).transpose()
    }
}

/// A cursor over the entries of a table.
pub struct TableCursor<'a> {
    table: Table,
    cursor: RoCursor<'a>,
    stop: Option<&'a AtomicBool>,
    /// Verifies the ranges that are passed, if that is still needed.
    verify: Option<&'a dyn Verify>,
    /// Key of the current entry of the table.
    current_key: Option<&'a [u8]>,
    /// Changes on top of the table.
    changes: Option<&'a TableChanges>,
    /// Key of the current entry, if there are changes.
    merged_key: Vec<u8>,
}

impl<'a> TableCursor<'a> {
    pub(super) fn new(
        table: Table,
        cursor: RoCursor<'a>,
        stop: Option<&'a AtomicBool>,
        verify: Option<&'a dyn Verify>,
    ) -> TableCursor<'a> {
        TableCursor { table, cursor, stop, verify, current_key: None, changes: None, merged_key: Vec::new() }
    }

    /// Returns the same cursor with changes on top, if there are any.
    pub(super) fn with_changes(self, changes: Option<&'a TableChanges>) -> TableCursor<'a> {
        TableCursor { changes, ..self }
    }

    /// Returns the same cursor without verification of ranges, so that it may pass lost rows without an error: for callers
    /// to whom an entry proves that it is the one they want.
    pub fn unverified(self) -> TableCursor<'a> {
        TableCursor { verify: None, ..self }
    }

    /// Moves to the first entry whose key is not less than `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<Option<Entry<'a>>> {
        let Some(changes) = self.changes else { return self.seek_base(key) };
        self.seek_merged(changes, key.to_vec())
    }

    /// Moves to the last entry whose key is less than `end`.
    pub fn seek_before(&mut self, end: &[u8]) -> Result<Option<Entry<'a>>> {
        if self.seek(end)?.is_some() { self.previous() } else { self.last() }
    }

    /// Moves to the last entry of the table.
    pub fn last(&mut self) -> Result<Option<Entry<'a>>> {
        let Some(changes) = self.changes else { return self.move_to(None, LAST) };
        self.previous_merged(changes, None)
    }

    /// Moves to the next entry.
    #[allow(clippy::should_implement_trait)] // fallible, and lends from the transaction
    pub fn next(&mut self) -> Result<Option<Entry<'a>>> {
        let Some(changes) = self.changes else { return self.move_to(None, NEXT) };
        self.seek_merged(changes, next_key(&self.merged_key))
    }

    /// Moves to the previous entry.
    pub fn previous(&mut self) -> Result<Option<Entry<'a>>> {
        let Some(changes) = self.changes else { return self.move_to(None, PREVIOUS) };
        self.previous_merged(changes, Some(self.merged_key.clone()))
    }

    fn seek_base(&mut self, key: &[u8]) -> Result<Option<Entry<'a>>> {
        // LMDB does not allow an empty key; the smallest allowed key is before all others.
        let key = if key.is_empty() { &[0] } else { key };
        self.move_to(Some(key), SET_RANGE)
    }

    /// Takes the lower key of the table's entry and the change; with equal keys, the change.
    fn seek_merged(&mut self, changes: &'a TableChanges, mut from: Vec<u8>) -> Result<Option<Entry<'a>>> {
        let found = loop {
            let below = self.seek_base(&from)?;
            let change = changes.range::<[u8], _>((Bound::Included(from.as_slice()), Bound::Unbounded)).next();
            match (below, change) {
                (below, None) => break below,
                (Some(entry), Some((key, _))) if entry.0 < &key[..] => break Some(entry),
                (_, Some((key, Some(value)))) => break Some((key, value)),
                (_, Some((key, None))) => from = next_key(key),
            }
        };
        Ok(self.set_position(found))
    }

    fn previous_merged(&mut self, changes: &'a TableChanges, mut before: Option<Vec<u8>>) -> Result<Option<Entry<'a>>> {
        let found = loop {
            let below = match &before {
                Some(key) if self.seek_base(key)?.is_some() => self.move_to(None, PREVIOUS)?,
                _ => self.move_to(None, LAST)?,
            };
            let end = before.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            match (below, changes.range::<[u8], _>((Bound::Unbounded, end)).next_back()) {
                (below, None) => break below,
                (Some(entry), Some((key, _))) if entry.0 > &key[..] => break Some(entry),
                (_, Some((key, Some(value)))) => break Some((key, value)),
                (_, Some((key, None))) => before = Some(key.to_vec()),
            }
        };
        Ok(self.set_position(found))
    }

    fn set_position(&mut self, found: Option<Entry<'a>>) -> Option<Entry<'a>> {
        found.inspect(|(key, _)| self.merged_key = key.to_vec())
    }

    fn move_to(&mut self, key: Option<&[u8]>, operation: u32) -> Result<Option<Entry<'a>>> {
        check_stop(self.stop)?;
        let Some(verify) = self.verify else { return self.read_entry(key, operation) };
        if let Some(key) = key {
            verify.ensure_verified(self.table, key, Some(key))?;
        }
        let (before, entry) = (self.current_key, self.read_entry(key, operation)?);
        let found = entry.map(|(key, _)| key);
        // All keys between these must be verified, so that nothing was skipped.
        let (low, high) = match operation {
            SET_RANGE => (key, found),
            NEXT => (before, found),
            PREVIOUS => (found, before),
            _ => (found, None),
        };
        let is_in_order = |(low, high)| low < high || operation == SET_RANGE && low == high;
        if !low.zip(high).is_none_or(is_in_order) {
            return Err(StoreError::Incomplete { table: self.table, first: low.unwrap_or_default().to_vec() });
        }
        verify.ensure_verified(self.table, low.unwrap_or_default(), high)?;
        self.current_key = found.or(before);
        Ok(entry)
    }

    fn read_entry(&self, key: Option<&[u8]>, operation: u32) -> Result<Option<Entry<'a>>> {
        let entry = raw_entry(&self.cursor, key, operation)?;
        entry.map(|(key, row)| Ok((key, row_value(self.table, key, row, true)?))).transpose()
    }
}

/// Returns the next possible key.
pub fn next_key(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

pub(super) fn check_stop(stop: Option<&AtomicBool>) -> Result<()> {
    if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) { Err(StoreError::Interrupted) } else { Ok(()) }
}

/// Finds the range of a key in the checksums of all ranges.
fn stored_range(mut checksums: TableCursor<'_>, table: Table, key: &[u8]) -> Result<Range> {
    let wanted = checksum_key(table, key);
    // Only the start of the next range is needed, even if its checksum is damaged.
    let (begin, next) = match checksums.seek(&wanted) {
        Ok(Some(found)) if found.0 == wanted => match checksums.next() {
            Ok(next) => (Some(found), next.map(|(key, _)| key.to_vec())),
            Err(StoreError::Corrupt { key, .. }) => (Some(found), Some(key)),
            Err(error) => return Err(error),
        },
        Ok(Some((next, _))) => (checksums.previous()?, Some(next.to_vec())),
        Ok(None) => (checksums.last()?, None),
        Err(StoreError::Corrupt { key, .. }) if key != wanted => (checksums.previous()?, Some(key)),
        Err(error) => return Err(error),
    };
    let begin = begin.and_then(|(found, value)| range_start(table, found).map(|first| (first, value)));
    let end = next.and_then(|found| range_start(table, &found));
    let (first, sum) = match begin {
        Some((first, value)) => (first, RangeSum::from_bytes(value)?),
        None => (Vec::new(), RangeSum::default()),
    };
    let range = Range { first, end, sum };
    if range.contains(key) { Ok(range) } else { Err(StoreError::Damaged("the checksums of ranges")) }
}

/// Verifies ranges for a cursor, which does not depend on the kind of its transaction.
pub trait Verify {
    /// Verifies all unverified ranges from a key up to another key or to the end. Checksums of ranges have no ranges.
    fn ensure_verified(&self, table: Table, from: &[u8], to: Option<&[u8]>) -> Result<()>;
}

/// A transaction of LMDB, whose rows are compared with their checksums before they are used.
pub struct CheckedTxn<'env, T> {
    pub(super) transaction: T,
    /// The store, which knows what is already verified.
    pub(super) store: &'env Store,
    /// The ranges that the transaction has changed.
    pub(super) changed: ChangedRanges,
}

/// A snapshot of the last commit at its creation. Cheap, but to be dropped soon: LMDB keeps old pages for it.
pub type Snapshot<'env> = CheckedTxn<'env, RoTransaction<'env>>;

impl<T: Transaction> Verify for CheckedTxn<'_, T> {
    fn ensure_verified(&self, table: Table, from: &[u8], to: Option<&[u8]>) -> Result<()> {
        if table == Table::Checksums {
            return Ok(());
        }
        while let Some(key) = self.store.verified.first_unverified(table, from, to) {
            self.verify_range(table, &key)?;
        }
        Ok(())
    }
}

impl<'env, T: Transaction> CheckedTxn<'env, T> {
    pub(super) fn new(store: &'env Store, transaction: T) -> CheckedTxn<'env, T> {
        CheckedTxn { transaction, store, changed: ChangedRanges::default() }
    }

    /// Returns a row as it is stored.
    pub(super) fn raw_row(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>> {
        found(self.transaction.get(self.store.database(table)?, &key))
    }

    /// Opens a cursor over the rows of a table, without verification.
    pub(super) fn raw_cursor(&self, table: Table) -> Result<RoCursor<'_>> {
        Ok(self.transaction.open_ro_cursor(self.store.database(table)?)?)
    }

    /// Returns the range of a key, with its expected checksum.
    pub(super) fn range(&self, table: Table, key: &[u8]) -> Result<Range> {
        let stored = || stored_range(self.cursor(Table::Checksums)?, table, key);
        self.changed.get(table, key).map_or_else(stored, Ok)
    }

    /// Compares the range of a key with its checksum, even if that was done before.
    pub(super) fn verify_range(&self, table: Table, key: &[u8]) -> Result<Range> {
        let range = self.range(table, key)?;
        checksums::verify([&self.raw_cursor(table)?, &self.raw_cursor(table)?], table, &range)?;
        self.store.verified.add(table, range.clone());
        Ok(range)
    }
}

impl<T: Transaction> Read for CheckedTxn<'_, T> {
    /// Returns the value of a row, after comparing it with its own checksum. Its range is verified only if the row is not
    /// found, since it is absent if the range is complete, or if the table is known to be damaged.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>> {
        check_stop(self.store.stop.as_deref())?;
        let row = self.raw_row(table, key)?;
        if row.is_none() || self.store.verified.is_damaged(table) {
            self.ensure_verified(table, key, Some(key))?;
        }
        row.map(|row| row_value(table, key, row, true)).transpose()
    }

    fn cursor(&self, table: Table) -> Result<TableCursor<'_>> {
        let is_verified = table == Table::Checksums || self.store.verified.is_fully_verified(table);
        let verify = Some(self as &dyn Verify).filter(|_| !is_verified);
        Ok(TableCursor::new(table, self.raw_cursor(table)?, self.store.stop.as_deref(), verify))
    }

    /// If the block is not found, the rows that could hold it are verified.
    fn block_bytes(&self, height: Height) -> Result<Option<&[u8]>> {
        let (table, key) = (Table::Blocks, block_key(height));
        check_stop(self.store.stop.as_deref())?;
        let (last, block) = match raw_entry(&self.raw_cursor(table)?, Some(&key), SET_RANGE)? {
            Some((last, row)) => (Some(last), block_in(last, row_value(table, last, row, false)?, height)?),
            None => (None, None),
        };
        if block.is_none() || self.store.verified.is_damaged(table) {
            self.ensure_verified(table, &key, last)?;
        }
        Ok(block)
    }
}

impl Snapshot<'_> {
    /// Reads what a write of a row reads: what it replaces, or the range in which there is nothing, and the checksum of that
    /// range. Brings it into memory, and ignores errors.
    pub fn read_for_write(&self, table: Table, key: &[u8]) {
        let _ = self.get(table, key);
        // A range that an earlier version has left larger is split by the write.
        if let (Ok(range), Ok(rows)) = (self.range(table, key), self.raw_cursor(table))
            && range.sum.bytes > MAX_RANGE_BYTES
        {
            let _ = split_range(&rows, table, &range);
        }
    }

    /// Compares the next range of rows with its checksum, even if that was done before. A position may be used with
    /// snapshots of different commits. Returns the bytes of the range's rows; `None` after all ranges, and resets the
    /// position. If a range is damaged or cannot be read, the next call continues after it.
    pub fn verify_next(&self, position: &mut VerifyPosition) -> Result<Option<u64>> {
        let Some((table, key)) = position.advance() else { return Ok(None) };
        let range = self.range(table, &key);
        let next = match &range {
            Ok(range) => range.end.clone(),
            Err(_) => self.next_range(table, &key)?,
        };
        position.continue_at(table, &key, next.as_deref());
        let verified = range.and_then(|range| self.verify_range(table, &range.first));
        verified.map(|range| Some(range.sum.bytes)).inspect_err(|_| self.store.verified.record_damage(table))
    }

    /// Returns the start of the next range after a key, even if checksums are damaged.
    pub(super) fn next_range(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let after = next_key(&checksum_key(table, key));
        let found = self.raw_cursor(Table::Checksums)?.get(Some(&after), None, SET_RANGE);
        Ok(found.ok().and_then(|(found, _)| range_start(table, found?)))
    }

    /// Compares all ranges of rows with their checksums.
    pub fn verify_all(&self) -> Result<()> {
        let mut position = VerifyPosition::default();
        while self.verify_next(&mut position)?.is_some() {
            check_stop(self.store.stop.as_deref())?;
        }
        Ok(())
    }
}

/// Position of a verification of all tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyPosition {
    pub(super) table: u8,
    pub(super) key: Vec<u8>,
}

impl VerifyPosition {
    /// Returns the position of the range of a key.
    pub fn at(table: Table, key: &[u8]) -> VerifyPosition {
        VerifyPosition { table: table as u8, key: key.to_vec() }
    }

    /// Returns the table of the next range and a key in it; nothing after the last range.
    pub fn next(&self) -> Option<(Table, &[u8])> {
        let table = Table::from_number(self.table).filter(|table| *table != Table::Checksums)?;
        Some((table, &self.key))
    }

    /// Returns the position, and moves to the next table; `None` after the last table, and then back to the first.
    pub(super) fn advance(&mut self) -> Option<(Table, Vec<u8>)> {
        let table = self.next().map(|(table, _)| table);
        let key = std::mem::take(&mut self.key);
        self.table = table.map_or(0, |table| table as u8 + 1);
        table.map(|table| (table, key))
    }

    /// Moves on from a key of a table to the range that starts at `next`. Stays at the next table if there is none, or
    /// if it does not follow the key: a damaged page may lead back.
    pub(super) fn continue_at(&mut self, table: Table, key: &[u8], next: Option<&[u8]>) {
        if let Some(next) = next.filter(|next| *next > key) {
            *self = VerifyPosition::at(table, next);
        }
    }
}

/// Provides a snapshot of the last commit, from its first use until it is released. It keeps its reader slot meanwhile,
/// so that others cannot take it: there is a limited number.
pub struct SnapshotCache<'env> {
    store: &'env Store,
    snapshot: OnceCell<Snapshot<'env>>,
    inactive: Cell<Option<InactiveTransaction<'env>>>,
}

impl<'env> SnapshotCache<'env> {
    /// Creates a reader without a snapshot.
    pub fn new(store: &'env Store) -> SnapshotCache<'env> {
        SnapshotCache { store, snapshot: OnceCell::new(), inactive: Cell::new(None) }
    }

    /// Returns the store.
    pub fn store(&self) -> &'env Store {
        self.store
    }

    /// Returns the current snapshot, or takes a new one.
    pub fn snapshot(&self) -> Result<&Snapshot<'env>> {
        if let Some(snapshot) = self.snapshot.get() {
            return Ok(snapshot);
        }
        let taken = match self.inactive.take() {
            Some(inactive) => CheckedTxn::new(self.store, self.store.begun(inactive.renew())?),
            None => self.store.snapshot()?,
        };
        Ok(self.snapshot.get_or_init(|| taken))
    }

    /// Releases the snapshot, so that the next use takes a snapshot of the last commit.
    pub fn release(&mut self) {
        if let Some(snapshot) = self.snapshot.take() {
            self.inactive.set(Some(snapshot.transaction.reset()));
        }
    }
}

impl Store {
    /// Returns a snapshot of the last commit.
    pub fn snapshot(&self) -> Result<Snapshot<'_>> {
        Ok(CheckedTxn::new(self, self.begun(self.environment.begin_ro_txn())?))
    }
}

#[cfg(test)]
mod tests {
    use lmdb::{DatabaseFlags, Environment, WriteFlags};

    use super::super::checksums::{append_checksum, stored_length};
    use super::*;
    use crate::store::test_store;

    #[test]
    fn a_cursor_that_is_led_back_by_a_damaged_page_reports_damage() {
        const TABLE: Table = Table::Accounts;
        let (store, _folder) = test_store();
        // With these flags LMDB returns rows in an order that no table has: a key twice, and `ba` before `ab`.
        for (flags, keys) in [(DatabaseFlags::DUP_SORT, [b"aa", b"aa"]), (DatabaseFlags::REVERSE_KEY, [b"ba", b"ab"])] {
            let folder = tempfile::tempdir().unwrap();
            let environment = Environment::new().open(folder.path()).unwrap();
            let rows = environment.create_db(None, flags).unwrap();
            let mut transaction = environment.begin_rw_txn().unwrap();
            for (key, value) in keys.into_iter().zip([b"1", b"2"]) {
                let mut row = vec![0; stored_length(TABLE, value)];
                append_checksum(TABLE, key, value, &mut row);
                transaction.put(rows, key, &row, WriteFlags::empty()).unwrap();
            }
            transaction.commit().unwrap();
            // The keys are verified, but not the whole table, of which a cursor would verify nothing.
            store.verified.record_damage(TABLE);
            store.verified.add(TABLE, Range { first: Vec::new(), end: Some(b"z".to_vec()), sum: RangeSum::default() });
            let (snapshot, reader) = (store.snapshot().unwrap(), environment.begin_ro_txn().unwrap());
            let cursor = || TableCursor::new(TABLE, reader.open_ro_cursor(rows).unwrap(), None, Some(&snapshot));
            let is_damage = |moved| matches!(moved, Err(StoreError::Incomplete { table: TABLE, .. }));
            let mut forward = cursor();
            assert_eq!(forward.seek(&[]).unwrap(), Some((&keys[0][..], &b"1"[..])));
            assert!(is_damage(forward.next()), "{flags:?}");
            let mut backward = cursor();
            assert_eq!(backward.last().unwrap(), Some((&keys[1][..], &b"2"[..])));
            assert!(is_damage(backward.previous()), "{flags:?}");
        }
    }

    #[test]
    fn a_cached_snapshot_keeps_its_reader_slot_when_all_slots_are_taken() {
        let (store, _folder) = test_store();
        let mut reader = SnapshotCache::new(&store);
        reader.snapshot().unwrap();
        reader.release();
        let mut others = Vec::new();
        while let Ok(snapshot) = store.snapshot() {
            others.push(snapshot);
            assert!(others.len() < 10_000);
        }
        assert!(reader.snapshot().is_ok());
    }
}
