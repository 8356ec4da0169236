//! The write transaction: one for many blocks.

use std::cell::Cell;
use std::io;
use std::path::Path;

use lmdb::{Cursor, Database, RoCursor, RwTransaction, Transaction, WriteFlags};
use rustix::io::Errno;

use super::checksums::{
    ChangedRanges, MAX_RANGE_BYTES, Range, RangeSum, VerifiedRanges, Verify, split_range, stored_range,
};
use super::durability::Durability;
use super::error::StoreError;
use super::journal::{self, Journal};
use super::open::free_bytes;
use super::read::{NEXT, Read, SET_RANGE, TableCursor, found_value};
use super::row_checksum;
use super::tables::Table;
use super::write::Write;

/// With fewer free bytes than this, a failed write means a full disk: writes are larger.
const LOW_SPACE: u64 = 1 << 20;

/// Longer values take overflow pages.
const PAGE: usize = 4096;

/// Changes that become visible together. Dropping it without [`WriteTxn::commit`] discards them. At most one exists in a
/// process: it is the permit to change the chain.
pub struct WriteTxn<'env> {
    transaction: RwTransaction<'env>,
    databases: &'env [Database],
    folder: &'env Path,
    /// `None` for a scratch store.
    durability: Option<&'env Durability>,
    journal: Journal,
    verified: &'env VerifiedRanges,
    changed: ChangedRanges,
    rows: u32,
    _permit: WritePermit<'env>,
}

/// The permit to change the chain. It is released when it is dropped, after the transaction.
pub(super) struct WritePermit<'env>(&'env Cell<bool>);

impl<'env> WritePermit<'env> {
    /// Takes the permit. Returns `None` if it is taken.
    pub fn acquire(taken: &'env Cell<bool>) -> Option<WritePermit<'env>> {
        (!taken.replace(true)).then_some(WritePermit(taken))
    }
}

impl Drop for WritePermit<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl<'env> WriteTxn<'env> {
    pub(super) fn new(
        transaction: RwTransaction<'env>,
        databases: &'env [Database],
        folder: &'env Path,
        durability: Option<&'env Durability>,
        verified: &'env VerifiedRanges,
        right: WritePermit<'env>,
    ) -> WriteTxn<'env> {
        let (journal, changed) = (Journal::default(), ChangedRanges::default());
        WriteTxn { transaction, databases, folder, durability, journal, verified, changed, rows: 0, _permit: right }
    }

    /// Returns the number of row changes. A change of a long value counts once more for each of its pages. Each change
    /// takes at most a page of memory, or a few more, and the bytes that the commit copies.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Writes a row. Large transactions reach the disk before they are committed. Returns the row's sum.
    fn write(&mut self, table: Table, key: &[u8], value: &[u8], flags: WriteFlags) -> Result<RangeSum, StoreError> {
        let (database, folder) = (self.databases[table as usize], self.folder);
        let place = self.transaction.reserve(database, &key, row_checksum::stored_length(table, value), flags);
        let place = place.map_err(|error| disk_error(error, folder))?;
        row_checksum::append_checksum(table, key, value, place);
        let sum = RangeSum::of_row(table, key, place);
        self.rows += 1 + (value.len() / PAGE) as u32;
        Ok(sum)
    }

    /// Writes a row in place of the row with the sum `before`, if any.
    fn overwrite(&mut self, table: Table, key: &[u8], before: RangeSum, value: &[u8]) -> Result<(), StoreError> {
        let after = self.write(table, key, value, WriteFlags::empty())?;
        self.update_checksum(table, key, before, after)
    }

    /// Writes a row that may come after all others. If it does, its page is filled before the next one is started;
    /// otherwise LMDB would leave every page half empty. Returns `false` if there is already a row with the key.
    fn append(&mut self, table: Table, key: &[u8], value: &[u8], is_behind_all: bool) -> Result<bool, StoreError> {
        self.ensure_row_verified(table, key)?;
        if is_behind_all || table.appends_at_end() {
            match self.write(table, key, value, WriteFlags::APPEND) {
                Err(StoreError::Lmdb(lmdb::Error::KeyExist)) if !is_behind_all => {}
                Err(error) => return Err(error),
                Ok(sum) => return self.update_last_checksum(table, key, sum).map(|()| true),
            }
        }
        match self.write(table, key, value, WriteFlags::NO_OVERWRITE) {
            Err(StoreError::Lmdb(lmdb::Error::KeyExist)) => Ok(false),
            Err(error) => Err(error),
            Ok(sum) => self.update_checksum(table, key, RangeSum::default(), sum).map(|()| true),
        }
    }

    /// Updates the checksum of a row's range. Splits the range once it is too large.
    fn update_checksum(
        &mut self,
        table: Table,
        key: &[u8],
        before: RangeSum,
        after: RangeSum,
    ) -> Result<(), StoreError> {
        if table == Table::Checksums {
            return Ok(());
        }
        let (sum, _) = self.checksum(table, key)?;
        *sum = sum.minus(before).plus(after);
        if sum.bytes > MAX_RANGE_BYTES && after.bytes > before.bytes {
            let range = self.range(table, key)?;
            let halves = split_range(&self.raw_cursor(table)?, table, &range)?;
            halves.into_iter().flatten().for_each(|range| self.changed.set(table, range));
        }
        Ok(())
    }

    /// Updates a checksum for a row that was written after all others.
    fn update_last_checksum(&mut self, table: Table, key: &[u8], row: RangeSum) -> Result<(), StoreError> {
        if table == Table::Checksums {
            return Ok(());
        }
        let (sum, is_last) = self.checksum(table, key)?;
        if is_last && sum.bytes > 0 && sum.plus(row).bytes > MAX_RANGE_BYTES {
            self.changed.start_range(table, key, row);
        } else {
            *sum = sum.plus(row);
        }
        Ok(())
    }

    /// Returns the checksum of the range of a key, and whether that is the last range.
    fn checksum(&mut self, table: Table, key: &[u8]) -> Result<(&mut RangeSum, bool), StoreError> {
        if self.changed.get_mut(table, key).is_none() {
            let range = self.range(table, key)?;
            self.changed.set(table, range);
            self.rows += 1;
        }
        self.changed.get_mut(table, key).ok_or(StoreError::Damaged("the checksums of ranges"))
    }

    /// Returns the sum of a stored row; zero if there is none.
    fn row_sum(&self, table: Table, key: &[u8]) -> Result<RangeSum, StoreError> {
        match self.transaction.get(self.databases[table as usize], &key) {
            Ok(row) => Ok(RangeSum::of_row(table, key, row)),
            Err(lmdb::Error::NotFound) => Ok(RangeSum::default()),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the changed checksums.
    fn write_checksums(&mut self) -> Result<(), StoreError> {
        for (key, sum) in self.changed.take() {
            match sum {
                Some(sum) => drop(self.write(Table::Checksums, &key, &sum.to_bytes(), WriteFlags::empty())?),
                None => match self.transaction.del(self.databases[Table::Checksums as usize], &key, None) {
                    Ok(()) | Err(lmdb::Error::NotFound) => {}
                    Err(error) => return Err(disk_error(error, self.folder)),
                },
            }
        }
        Ok(())
    }

    /// Sets a key, outside the journal.
    pub fn put_unjournaled(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        if self.append(table, key, value, false)? {
            return Ok(());
        }
        let before = self.row_sum(table, key)?;
        self.overwrite(table, key, before, value)
    }

    /// Writes a row after all others of its table, outside the journal. Fails if its key does not come after all
    /// others.
    pub fn append_unjournaled(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.append(table, key, value, true).map(drop)
    }

    /// Removes a key, if present, outside the journal.
    pub fn delete_unjournaled(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        self.ensure_row_verified(table, key)?;
        let before = self.row_sum(table, key)?;
        self.remove(table, key, before)
    }

    /// Removes a row with the sum `before`, unless that is zero: then there is none.
    fn remove(&mut self, table: Table, key: &[u8], before: RangeSum) -> Result<(), StoreError> {
        if before == RangeSum::default() {
            return Ok(());
        }
        self.rows += 1;
        self.transaction
            .del(self.databases[table as usize], &key, None)
            .map_err(|error| disk_error(error, self.folder))?;
        self.update_checksum(table, key, before, RangeSum::default())
    }

    /// Removes all keys from `first` to `last`, outside the journal. [`WriteTxn::rows`] counts the pages that they fill.
    pub fn delete_range_unjournaled(&mut self, table: Table, first: &[u8], last: &[u8]) -> Result<(), StoreError> {
        self.ensure_verified(table, first, Some(last))?;
        let mut cursor = self.transaction.open_rw_cursor(self.databases[table as usize])?;
        let (mut removed, mut found) = (Vec::new(), cursor.get(Some(first), None, SET_RANGE));
        while let Ok((Some(key), row)) = found
            && key <= last
        {
            removed.push((key.to_vec(), RangeSum::of_row(table, key, row)));
            cursor.del(WriteFlags::empty()).map_err(|error| disk_error(error, self.folder))?;
            // The row after the deleted one.
            found = cursor.get(None, None, NEXT);
        }
        match found {
            Ok(_) | Err(lmdb::Error::NotFound) => {}
            Err(error) => return Err(disk_error(error, self.folder)),
        }
        drop(cursor);
        let bytes: u64 = removed.iter().map(|(_, row)| row.bytes).sum();
        self.rows += 1 + (bytes / PAGE as u64) as u32;
        removed.iter().try_for_each(|(key, row)| self.update_checksum(table, key, *row, RangeSum::default()))
    }

    /// Empties a table, outside the journal.
    pub fn clear(&mut self, table: Table) -> Result<(), StoreError> {
        let keys = self.keys_with_prefix(Table::Checksums, &[table as u8])?;
        for key in keys {
            let removed = self.transaction.del(self.databases[Table::Checksums as usize], &key, None);
            removed.map_err(|error| disk_error(error, self.folder))?;
        }
        self.changed.clear(table);
        self.transaction.clear_db(self.databases[table as usize]).map_err(|error| disk_error(error, self.folder))
    }

    /// Returns the old values of all changes since the last call.
    pub fn take_journal(&mut self) -> Vec<u8> {
        self.journal.take()
    }

    /// Restores the old values of a journal, last change first.
    pub fn undo(&mut self, journal: &[u8]) -> Result<(), StoreError> {
        for change in journal::parse(journal)?.into_iter().rev() {
            match change.before {
                Some(value) => self.put_unjournaled(change.table, change.key, value)?,
                None => self.delete_unjournaled(change.table, change.key)?,
            }
        }
        Ok(())
    }

    /// Makes all changes visible and durable. After an error they may be visible.
    pub fn commit(self) -> Result<(), StoreError> {
        let Some(durability) = self.durability else { return self.commit_unsynced() };
        durability.timed(|| {
            self.commit_unsynced()?;
            durability.sync_and_record()
        })
    }

    /// Makes all changes visible. They are durable once [`super::Store::sync`] has returned, or the next transaction
    /// is committed. Waits until earlier commits are durable.
    pub fn commit_deferred_sync(self) -> Result<(), StoreError> {
        let Some(durability) = self.durability else { return self.commit_unsynced() };
        durability.timed(|| {
            durability.sync_and_record()?;
            self.commit_unsynced()
        })
    }

    /// Makes all changes visible, but not yet durable.
    pub(super) fn commit_unsynced(mut self) -> Result<(), StoreError> {
        self.write_checksums()?;
        let WriteTxn { transaction, folder, durability, .. } = self;
        transaction.commit().map_err(|error| disk_error(error, folder))?;
        if let Some(durability) = durability {
            durability.on_commit();
        }
        Ok(())
    }
}

/// Converts an error of the operating system to one that names the folder.
pub(super) fn disk_error(error: lmdb::Error, folder: &Path) -> StoreError {
    match error {
        lmdb::Error::Other(number) if number > 0 => {
            let free = free_bytes(folder).ok();
            // LMDB reports a write that was only partly possible as an I/O error.
            let is_full = free.is_some_and(|free| free < LOW_SPACE) && number == Errno::IO.raw_os_error();
            let number = if is_full { Errno::NOSPC.raw_os_error() } else { number };
            StoreError::Disk { folder: folder.to_owned(), error: io::Error::from_raw_os_error(number), free }
        }
        error => error.into(),
    }
}

impl Verify for WriteTxn<'_> {
    fn verified(&self) -> &VerifiedRanges {
        self.verified
    }

    fn range(&self, table: Table, key: &[u8]) -> Result<Range, StoreError> {
        match self.changed.get(table, key) {
            Some(range) => Ok(range),
            None => stored_range(
                TableCursor::new(Table::Checksums, self.raw_cursor(Table::Checksums)?, None, None),
                table,
                key,
            ),
        }
    }

    fn raw_cursor(&self, table: Table) -> Result<RoCursor<'_>, StoreError> {
        Ok(self.transaction.open_ro_cursor(self.databases[table as usize])?)
    }
}

impl Read for WriteTxn<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, StoreError> {
        self.ensure_row_verified(table, key)?;
        let row = self.transaction.get(self.databases[table as usize], &key);
        match found_value(row, |row| row_checksum::verify(table, key, row))? {
            Some(value) => Ok(Some(value)),
            None => self.ensure_absence_verified(table, key).map(|()| None),
        }
    }

    fn get_unverified(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, StoreError> {
        self.ensure_row_verified(table, key)?;
        let row = self.transaction.get(self.databases[table as usize], &key);
        match found_value(row, |row| row_checksum::strip(table, key, row))? {
            Some(value) => Ok(Some(value)),
            None => self.ensure_absence_verified(table, key).map(|()| None),
        }
    }

    fn cursor(&self, table: Table) -> Result<TableCursor<'_>, StoreError> {
        Ok(TableCursor::new(table, self.raw_cursor(table)?, None, Some(self)))
    }
}

impl Write for WriteTxn<'_> {
    /// Sets a key and records its old value in the journal.
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.ensure_row_verified(table, key)?;
        let before = self.journal_old_value(table, key)?;
        self.overwrite(table, key, before, value)
    }

    /// Sets a key that the caller knows to be absent, which saves looking up an old value. Fails if the key is present.
    fn insert(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.journal.record(table, key, None);
        match self.append(table, key, value, false)? {
            true => Ok(()),
            false => Err(StoreError::Damaged("a new key is already present")),
        }
    }

    /// Sets a key whose old value the caller knows, which saves looking it up.
    fn replace(&mut self, table: Table, key: &[u8], before: Option<&[u8]>, value: &[u8]) -> Result<(), StoreError> {
        let Some(before) = before else { return self.insert(table, key, value) };
        self.ensure_row_verified(table, key)?;
        self.journal.record(table, key, Some(before));
        self.overwrite(table, key, RangeSum::of_value(table, key, before), value)
    }

    /// Removes a key, if present, and records its value in the journal.
    fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        self.ensure_row_verified(table, key)?;
        let database = self.databases[table as usize];
        if let Some(value) =
            found_value(self.transaction.get(database, &key), |row| row_checksum::verify(table, key, row))?
        {
            self.journal.record(table, key, Some(value));
            let before = self.row_sum(table, key)?;
            self.remove(table, key, before)?;
        }
        Ok(())
    }
}

impl WriteTxn<'_> {
    /// Records the old value of a key in the journal. Returns the sum of the old row.
    fn journal_old_value(&mut self, table: Table, key: &[u8]) -> Result<RangeSum, StoreError> {
        match self.transaction.get(self.databases[table as usize], &key) {
            Ok(row) => {
                self.journal.record(table, key, Some(row_checksum::verify(table, key, row)?));
                Ok(RangeSum::of_row(table, key, row))
            }
            Err(lmdb::Error::NotFound) => {
                self.journal.record(table, key, None);
                Ok(RangeSum::default())
            }
            Err(error) => Err(error.into()),
        }
    }
}
