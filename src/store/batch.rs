//! Writing: one transaction for many blocks.

use std::cell::Cell;
use std::io;
use std::path::Path;

use lmdb::{Cursor, Database, RwTransaction, Transaction, WriteFlags};
use rustix::io::Errno;

use super::error::StoreError;
use super::journal::{self, Journal};
use super::open::free_bytes;
use super::read::{NEXT, Read, SET_RANGE, Walk, found};
use super::sealed;
use super::settled::Durability;
use super::tables::Table;
use super::write::Write;

/// With so few bytes free a disk is full: writes are larger.
const LITTLE_ROOM: u64 = 1 << 20;

/// A longer value takes pages of its own.
const PAGE: usize = 4096;

/// Changes that become visible together. Dropped without [`Batch::commit`] they are gone. There is one at a time in a
/// process: it is the right to change the chain.
pub struct Batch<'env> {
    transaction: RwTransaction<'env>,
    databases: &'env [Database],
    folder: &'env Path,
    /// `None` for a store that is thrown away.
    durability: Option<&'env Durability>,
    journal: Journal,
    rows: u32,
    _right: Right<'env>,
}

/// The right to change the chain. Given back when it is dropped, after the transaction.
pub(super) struct Right<'env>(&'env Cell<bool>);

impl<'env> Right<'env> {
    /// Takes the one right there is; `None` if somebody has it.
    pub fn take(taken: &'env Cell<bool>) -> Option<Right<'env>> {
        (!taken.replace(true)).then_some(Right(taken))
    }
}

impl Drop for Right<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl<'env> Batch<'env> {
    pub(super) fn new(
        transaction: RwTransaction<'env>,
        databases: &'env [Database],
        folder: &'env Path,
        durability: Option<&'env Durability>,
        right: Right<'env>,
    ) -> Batch<'env> {
        Batch { transaction, databases, folder, durability, journal: Journal::default(), rows: 0, _right: right }
    }

    /// How often rows were changed; one with a long value counts for each page of that. Each change takes a page of
    /// memory at most, or few more, and what the commit copies.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Writes a pair; large batches reach the disk before they are committed.
    fn write(&mut self, table: Table, key: &[u8], value: &[u8], flags: WriteFlags) -> Result<(), StoreError> {
        let (database, folder) = (self.databases[table as usize], self.folder);
        let place = self.transaction.reserve(database, &key, sealed::length(table, value), flags);
        sealed::seal(table, key, value, place.map_err(|error| of_disk(error, folder))?);
        self.rows += 1 + (value.len() / PAGE) as u32;
        Ok(())
    }

    /// Writes a pair that may come behind all others. If it does its page is filled before the next one is begun; LMDB
    /// would leave every page half empty.
    fn append(&mut self, table: Table, key: &[u8], value: &[u8], flags: WriteFlags) -> Result<(), StoreError> {
        if table.grows_at_its_end() {
            match self.write(table, key, value, WriteFlags::APPEND) {
                Err(StoreError::Lmdb(lmdb::Error::KeyExist)) => {}
                other => return other,
            }
        }
        self.write(table, key, value, flags)
    }

    /// Sets a key outside of the journal.
    pub fn put_unjournaled(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.append(table, key, value, WriteFlags::empty())
    }

    /// Writes a row behind all others of its table, outside of the journal. A key that does not come behind all others is
    /// refused.
    pub fn append_unjournaled(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.write(table, key, value, WriteFlags::APPEND)
    }

    /// Removes a key, if present, outside of the journal.
    pub fn delete_unjournaled(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        self.rows += 1;
        match self.transaction.del(self.databases[table as usize], &key, None) {
            Ok(()) | Err(lmdb::Error::NotFound) => Ok(()),
            Err(error) => Err(of_disk(error, self.folder)),
        }
    }

    /// Removes all keys from `first` to `last`, outside of the journal. They are counted by the pages that they fill.
    pub fn delete_range_unjournaled(&mut self, table: Table, first: &[u8], last: &[u8]) -> Result<(), StoreError> {
        let mut cursor = self.transaction.open_rw_cursor(self.databases[table as usize])?;
        let (mut bytes, mut found) = (0, cursor.get(Some(first), None, SET_RANGE));
        while let Ok((Some(key), row)) = found
            && key <= last
        {
            bytes += key.len() + row.len();
            cursor.del(WriteFlags::empty()).map_err(|error| of_disk(error, self.folder))?;
            // The one behind that which is gone.
            found = cursor.get(None, None, NEXT);
        }
        self.rows += 1 + (bytes / PAGE) as u32;
        match found {
            Ok(_) | Err(lmdb::Error::NotFound) => Ok(()),
            Err(error) => Err(of_disk(error, self.folder)),
        }
    }

    /// Empties a table, outside of the journal.
    pub fn clear(&mut self, table: Table) -> Result<(), StoreError> {
        self.transaction.clear_db(self.databases[table as usize]).map_err(|error| of_disk(error, self.folder))
    }

    /// The old values of all changes since the journal was last taken.
    pub fn take_journal(&mut self) -> Vec<u8> {
        self.journal.take()
    }

    /// Puts back the old values of a journal, the last change first.
    pub fn undo(&mut self, journal: &[u8]) -> Result<(), StoreError> {
        for change in journal::parse(journal)?.into_iter().rev() {
            match change.before {
                Some(value) => self.write(change.table, change.key, value, WriteFlags::empty())?,
                None => self.delete_unjournaled(change.table, change.key)?,
            }
        }
        Ok(())
    }

    /// Makes all changes visible and durable. After an error they may be visible.
    pub fn commit(self) -> Result<(), StoreError> {
        let Some(durability) = self.durability else { return self.make_visible() };
        durability.timed(|| {
            self.make_visible()?;
            durability.settle()
        })
    }

    /// Makes all changes visible. They are durable once [`super::Store::settle`] has returned, or the next batch is
    /// committed. This one waits for what was committed before it.
    pub fn commit_soon(self) -> Result<(), StoreError> {
        let Some(durability) = self.durability else { return self.make_visible() };
        durability.timed(|| {
            durability.before_soon()?;
            self.make_visible()?;
            durability.after_soon();
            Ok(())
        })
    }

    /// Makes all changes visible; they are not durable yet.
    pub(super) fn make_visible(self) -> Result<(), StoreError> {
        let Batch { transaction, folder, durability, .. } = self;
        transaction.commit().map_err(|error| of_disk(error, folder))?;
        if let Some(durability) = durability {
            durability.committed();
        }
        Ok(())
    }
}

/// Names the disk where it is what failed.
pub(super) fn of_disk(error: lmdb::Error, folder: &Path) -> StoreError {
    match error {
        lmdb::Error::Other(number) if number > 0 => {
            let free = free_bytes(folder).ok();
            // A write that found room for its first part only is an I/O error to LMDB.
            let is_full = free.is_some_and(|free| free < LITTLE_ROOM) && number == Errno::IO.raw_os_error();
            let number = if is_full { Errno::NOSPC.raw_os_error() } else { number };
            StoreError::Disk { folder: folder.to_owned(), error: io::Error::from_raw_os_error(number), free }
        }
        error => error.into(),
    }
}

impl Read for Batch<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, StoreError> {
        found(self.transaction.get(self.databases[table as usize], &key), |row| sealed::unseal(table, key, row))
    }

    fn peek(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, StoreError> {
        found(self.transaction.get(self.databases[table as usize], &key), |row| sealed::unchecked(table, key, row))
    }

    fn walk(&self, table: Table) -> Result<Walk<'_>, StoreError> {
        Ok(Walk::new(table, self.transaction.open_ro_cursor(self.databases[table as usize])?, None))
    }
}

impl Write for Batch<'_> {
    /// Sets a key and remembers its old value in the journal.
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let database = self.databases[table as usize];
        self.journal.record(
            table,
            key,
            found(self.transaction.get(database, &key), |row| sealed::unseal(table, key, row))?,
        );
        self.write(table, key, value, WriteFlags::empty())
    }

    /// Sets a key that the caller knows to be absent, which saves looking for an old value. An old value is a
    /// broken invariant and refused.
    fn insert(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.journal.record(table, key, None);
        match self.append(table, key, value, WriteFlags::NO_OVERWRITE) {
            Err(StoreError::Lmdb(lmdb::Error::KeyExist)) => {
                Err(StoreError::Damaged("a key is present that should be new"))
            }
            other => other,
        }
    }

    /// Sets a key whose old value the caller knows, which saves looking for it.
    fn replace(&mut self, table: Table, key: &[u8], before: Option<&[u8]>, value: &[u8]) -> Result<(), StoreError> {
        self.journal.record(table, key, before);
        match before {
            Some(_) => self.write(table, key, value, WriteFlags::empty()),
            None => self.append(table, key, value, WriteFlags::empty()),
        }
    }

    /// Removes a key, if present, and remembers its value in the journal.
    fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        let database = self.databases[table as usize];
        if let Some(value) = found(self.transaction.get(database, &key), |row| sealed::unseal(table, key, row))? {
            self.journal.record(table, key, Some(value));
            self.rows += 1;
            self.transaction.del(database, &key, None).map_err(|error| of_disk(error, self.folder))?;
        }
        Ok(())
    }
}
