//! Reading: single values, and cursors in key order.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};

use lmdb::{Cursor, Database, InactiveTransaction, RoCursor, RoTransaction, Transaction};

use super::checksums::{Range, VerifiedRanges, Verify, VerifyPosition, checksum_key, range_start, stored_range};
use super::error::StoreError;
use super::overlay::{TableChanges, first_from, last_before};
use super::row_checksum;
use super::tables::Table;

// Numbers of LMDB's cursor operations.
pub(super) const FIRST: u32 = 0;
pub(super) const NEXT: u32 = 8;
const PREVIOUS: u32 = 12;
pub(super) const LAST: u32 = 6;
pub(super) const SET: u32 = 15;
pub(super) const SET_RANGE: u32 = 17;

/// A readable state: a snapshot, or a write transaction with its own changes.
pub trait Read {
    /// Returns the value of a key.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, StoreError>;

    /// Returns the value of a key without verifying its checksum, for callers that read a part of it and verify that.
    fn get_unverified(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, StoreError>;

    /// Opens a cursor over a table.
    fn cursor(&self, table: Table) -> Result<TableCursor<'_>, StoreError>;

    /// Returns whether a key is present.
    fn contains(&self, table: Table, key: &[u8]) -> Result<bool, StoreError> {
        Ok(self.get(table, key)?.is_some())
    }

    /// Calls `visit` with every entry whose key starts with `prefix`, in key order, until it returns `false`.
    fn for_each_prefix(
        &self,
        table: Table,
        prefix: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError>
    where
        Self: Sized,
    {
        let mut cursor = self.cursor(table)?;
        let mut entry = cursor.seek(prefix)?;
        while let Some((key, value)) = entry {
            if !key.starts_with(prefix) || !visit(key, value)? {
                break;
            }
            entry = cursor.next()?;
        }
        Ok(())
    }

    /// Like [`Read::for_each_prefix`] for the entries before the key `end`, in reverse order.
    fn for_each_prefix_rev(
        &self,
        table: Table,
        prefix: &[u8],
        end: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError>
    where
        Self: Sized,
    {
        let mut cursor = self.cursor(table)?;
        let mut entry = match cursor.seek(end)? {
            Some(_) => cursor.previous()?,
            None => cursor.last()?,
        };
        while let Some((key, value)) = entry {
            if !key.starts_with(prefix) || !visit(key, value)? {
                break;
            }
            entry = cursor.previous()?;
        }
        Ok(())
    }

    /// Returns whether there is a key that starts with `prefix`.
    fn has_prefix(&self, table: Table, prefix: &[u8]) -> Result<bool, StoreError> {
        let entry = self.cursor(table)?.seek(prefix)?;
        Ok(entry.is_some_and(|(key, _)| key.starts_with(prefix)))
    }

    /// Returns copies of the keys that start with `prefix`, for callers that change the table meanwhile.
    fn keys_with_prefix(&self, table: Table, prefix: &[u8]) -> Result<Vec<Vec<u8>>, StoreError>
    where
        Self: Sized,
    {
        let mut keys = Vec::new();
        self.for_each_prefix(table, prefix, |key, _| {
            keys.push(key.to_vec());
            Ok(true)
        })?;
        Ok(keys)
    }
}

impl<R: Read + ?Sized> Read for &R {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, StoreError> {
        (**self).get(table, key)
    }

    fn get_unverified(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, StoreError> {
        (**self).get_unverified(table, key)
    }

    fn cursor(&self, table: Table) -> Result<TableCursor<'_>, StoreError> {
        (**self).cursor(table)
    }
}

/// Key and value of an entry.
pub type Entry<'a> = (&'a [u8], &'a [u8]);

/// A cursor over the entries of a table.
pub struct TableCursor<'a> {
    table: Table,
    cursor: RoCursor<'a>,
    stop: Option<&'a AtomicBool>,
    /// Verifies the ranges that are passed, if that is still needed.
    verify: Option<&'a dyn Verify>,
    /// Key of the current entry.
    current_key: Option<&'a [u8]>,
    overlay: Option<OverlayCursor<'a>>,
}

/// Changes on top of the table.
struct OverlayCursor<'a> {
    changes: &'a TableChanges,
    current_key: Vec<u8>,
}

impl<'a> TableCursor<'a> {
    pub(super) fn new(
        table: Table,
        cursor: RoCursor<'a>,
        stop: Option<&'a AtomicBool>,
        verify: Option<&'a dyn Verify>,
    ) -> TableCursor<'a> {
        let verify = verify.filter(|verify| table != Table::Checksums && !verify.verified().is_fully_verified(table));
        TableCursor { table, cursor, stop, verify, current_key: None, overlay: None }
    }

    /// Returns the same cursor with changes on top.
    pub(super) fn with_changes(self, changes: &'a TableChanges) -> TableCursor<'a> {
        TableCursor { overlay: Some(OverlayCursor { changes, current_key: Vec::new() }), ..self }
    }

    /// Moves to the first entry whose key is not less than `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<Option<Entry<'a>>, StoreError> {
        match self.overlay.take() {
            None => self.seek_base(key),
            Some(layer) => self.seek_merged(layer, key.to_vec()),
        }
    }

    /// Moves to the last entry of the table.
    pub fn last(&mut self) -> Result<Option<Entry<'a>>, StoreError> {
        match self.overlay.take() {
            None => self.move_to(None, LAST),
            Some(layer) => self.previous_merged(layer, None),
        }
    }

    /// Moves to the next entry.
    #[allow(clippy::should_implement_trait)] // fallible, and lends from the transaction
    pub fn next(&mut self) -> Result<Option<Entry<'a>>, StoreError> {
        match self.overlay.take() {
            None => self.move_to(None, NEXT),
            Some(layer) => {
                let behind = next_key(&layer.current_key);
                self.seek_merged(layer, behind)
            }
        }
    }

    /// Moves to the previous entry.
    pub fn previous(&mut self) -> Result<Option<Entry<'a>>, StoreError> {
        match self.overlay.take() {
            None => self.move_to(None, PREVIOUS),
            Some(layer) => {
                let here = layer.current_key.clone();
                self.previous_merged(layer, Some(here))
            }
        }
    }

    fn seek_base(&mut self, key: &[u8]) -> Result<Option<Entry<'a>>, StoreError> {
        // LMDB does not allow an empty key; the smallest allowed key is before all others.
        let key = if key.is_empty() { &[0] } else { key };
        self.move_to(Some(key), SET_RANGE)
    }

    /// Takes the lower key of the table's entry and the change; with equal keys, the change.
    fn seek_merged(&mut self, layer: OverlayCursor<'a>, mut from: Vec<u8>) -> Result<Option<Entry<'a>>, StoreError> {
        let changes = layer.changes;
        let found = loop {
            let below = self.seek_base(&from)?;
            let change = first_from(changes, Bound::Included(&from));
            match (below, change) {
                (below, None) => break below,
                (Some(entry), Some((key, _))) if entry.0 < key => break Some(entry),
                (_, Some((key, Some(value)))) => break Some((key, value)),
                (_, Some((key, None))) => from = next_key(key),
            }
        };
        self.set_position(layer, found)
    }

    fn previous_merged(
        &mut self,
        layer: OverlayCursor<'a>,
        mut before: Option<Vec<u8>>,
    ) -> Result<Option<Entry<'a>>, StoreError> {
        let changes = layer.changes;
        let found = loop {
            let below = match &before {
                None => self.move_to(None, LAST)?,
                Some(key) => match self.seek_base(key)? {
                    Some(_) => self.move_to(None, PREVIOUS)?,
                    None => self.move_to(None, LAST)?,
                },
            };
            match (below, last_before(changes, before.as_deref())) {
                (below, None) => break below,
                (Some(entry), Some((key, _))) if entry.0 > key => break Some(entry),
                (_, Some((key, Some(value)))) => break Some((key, value)),
                (_, Some((key, None))) => before = Some(key.to_vec()),
            }
        };
        self.set_position(layer, found)
    }

    fn set_position(
        &mut self,
        layer: OverlayCursor<'a>,
        found: Option<Entry<'a>>,
    ) -> Result<Option<Entry<'a>>, StoreError> {
        let here = found.map_or(layer.current_key, |(key, _)| key.to_vec());
        self.overlay = Some(OverlayCursor { changes: layer.changes, current_key: here });
        Ok(found)
    }

    fn move_to(&mut self, key: Option<&[u8]>, operation: u32) -> Result<Option<Entry<'a>>, StoreError> {
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
        let is_in_order = match (low, high) {
            (Some(low), Some(high)) if operation == SET_RANGE => low <= high,
            (Some(low), Some(high)) => low < high,
            _ => true,
        };
        if !is_in_order {
            return Err(StoreError::Incomplete { table: self.table, first: low.unwrap_or_default().to_vec() });
        }
        verify.ensure_verified(self.table, low.unwrap_or_default(), high)?;
        self.current_key = found.or(before);
        Ok(entry)
    }

    fn read_entry(&self, key: Option<&[u8]>, operation: u32) -> Result<Option<Entry<'a>>, StoreError> {
        match self.cursor.get(key, None, operation) {
            Ok((Some(key), row)) => Ok(Some((key, row_checksum::verify(self.table, key, row)?))),
            Ok((None, _)) => Err(StoreError::Damaged("an entry without a key")),
            Err(lmdb::Error::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the next possible key.
fn next_key(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// A snapshot of the last commit at its creation. Cheap, but to be dropped soon: LMDB keeps old pages for it.
pub struct Snapshot<'env> {
    transaction: RoTransaction<'env>,
    databases: &'env [Database],
    stop: Option<&'env AtomicBool>,
    verified: &'env VerifiedRanges,
}

impl<'env> Snapshot<'env> {
    pub(super) fn new(
        transaction: RoTransaction<'env>,
        databases: &'env [Database],
        stop: Option<&'env AtomicBool>,
        verified: &'env VerifiedRanges,
    ) -> Snapshot<'env> {
        Snapshot { transaction, databases, stop, verified }
    }

    /// Releases the commit but keeps the reader slot, of which there is a limited number.
    pub fn reset(self) -> InactiveSnapshot<'env> {
        let Snapshot { transaction, databases, stop, verified } = self;
        InactiveSnapshot { transaction: transaction.reset(), databases, stop, verified }
    }

    /// Compares the next range of rows with its checksum, even if that was done before. A position may be used with
    /// snapshots of different commits. Returns `false` and resets the position after all ranges. If a range is damaged
    /// or cannot be read, the next call continues after it.
    pub fn verify_next(&self, position: &mut VerifyPosition) -> Result<bool, StoreError> {
        let Some((table, key)) = position.advance() else { return Ok(false) };
        let compared = match self.range(table, &key) {
            Ok(range) => {
                position.continue_at(table, &key, range.end.as_deref());
                self.verify_range(table, &range.first).map(drop)
            }
            Err(error) => {
                position.continue_at(table, &key, self.next_range(table, &key)?.as_deref());
                Err(error)
            }
        };
        compared.inspect_err(|_| self.verified.invalidate(table)).map(|()| true)
    }

    /// Returns the start of the next range after a key, even if checksums are damaged.
    pub(super) fn next_range(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let behind = next_key(&checksum_key(table, key));
        match self.raw_cursor(Table::Checksums)?.get(Some(&behind), None, SET_RANGE) {
            Ok((found, _)) => Ok(found.and_then(|found| range_start(table, found))),
            Err(_) => Ok(None),
        }
    }

    /// Compares all ranges of rows with their checksums.
    pub fn verify_all(&self) -> Result<(), StoreError> {
        let mut position = VerifyPosition::default();
        while self.verify_next(&mut position)? {
            check_stop(self.stop)?;
        }
        Ok(())
    }
}

/// An inactive snapshot, which keeps its reader slot.
pub struct InactiveSnapshot<'env> {
    transaction: InactiveTransaction<'env>,
    databases: &'env [Database],
    stop: Option<&'env AtomicBool>,
    verified: &'env VerifiedRanges,
}

impl<'env> InactiveSnapshot<'env> {
    /// Returns a snapshot of what is now the last commit.
    pub fn renew(self) -> Result<Snapshot<'env>, StoreError> {
        let InactiveSnapshot { transaction, databases, stop, verified } = self;
        Ok(Snapshot { transaction: transaction.renew()?, databases, stop, verified })
    }
}

fn check_stop(stop: Option<&AtomicBool>) -> Result<(), StoreError> {
    match stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
        true => Err(StoreError::Interrupted),
        false => Ok(()),
    }
}

impl Verify for Snapshot<'_> {
    fn verified(&self) -> &VerifiedRanges {
        self.verified
    }

    fn range(&self, table: Table, key: &[u8]) -> Result<Range, StoreError> {
        stored_range(
            TableCursor::new(Table::Checksums, self.raw_cursor(Table::Checksums)?, self.stop, None),
            table,
            key,
        )
    }

    fn raw_cursor(&self, table: Table) -> Result<RoCursor<'_>, StoreError> {
        Ok(self.transaction.open_ro_cursor(self.databases[table as usize])?)
    }
}

impl Read for Snapshot<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, StoreError> {
        check_stop(self.stop)?;
        self.ensure_row_verified(table, key)?;
        let row = self.transaction.get(self.databases[table as usize], &key);
        match found_value(row, |row| row_checksum::verify(table, key, row))? {
            Some(value) => Ok(Some(value)),
            None => self.ensure_absence_verified(table, key).map(|()| None),
        }
    }

    fn get_unverified(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, StoreError> {
        check_stop(self.stop)?;
        self.ensure_row_verified(table, key)?;
        let row = self.transaction.get(self.databases[table as usize], &key);
        match found_value(row, |row| row_checksum::strip(table, key, row))? {
            Some(value) => Ok(Some(value)),
            None => self.ensure_absence_verified(table, key).map(|()| None),
        }
    }

    fn cursor(&self, table: Table) -> Result<TableCursor<'_>, StoreError> {
        Ok(TableCursor::new(table, self.raw_cursor(table)?, self.stop, Some(self)))
    }
}

/// Returns the value of the row that LMDB found, if any.
pub(super) fn found_value<'a>(
    row: Result<&'a [u8], lmdb::Error>,
    value: impl FnOnce(&'a [u8]) -> Result<&'a [u8], StoreError>,
) -> Result<Option<&'a [u8]>, StoreError> {
    match row {
        Ok(row) => value(row).map(Some),
        Err(lmdb::Error::NotFound) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
