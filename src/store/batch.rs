//! Writing: one transaction for many blocks.

use std::cell::Cell;

use lmdb::{Database, RwTransaction, Transaction, WriteFlags};

use super::error::StoreError;
use super::journal::{self, Journal};
use super::read::{Read, Walk, found};
use super::tables::Table;
use super::write::Write;

/// Changes that become visible and durable together. Dropped without [`Batch::commit`] they are gone. There is one at
/// a time in a process: it is the right to change the chain.
pub struct Batch<'env> {
    transaction: RwTransaction<'env>,
    databases: &'env [Database],
    journal: Journal,
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
        right: Right<'env>,
    ) -> Batch<'env> {
        Batch { transaction, databases, journal: Journal::default(), _right: right }
    }

    /// Sets a key outside of the journal.
    pub fn put_unjournaled(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        Ok(self.transaction.put(self.databases[table as usize], &key, &value, WriteFlags::empty())?)
    }

    /// Removes a key, if present, outside of the journal.
    pub fn delete_unjournaled(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        match self.transaction.del(self.databases[table as usize], &key, None) {
            Ok(()) | Err(lmdb::Error::NotFound) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The old values of all changes since the journal was last taken.
    pub fn take_journal(&mut self) -> Vec<u8> {
        self.journal.take()
    }

    /// Puts back the old values of a journal, the last change first.
    pub fn undo(&mut self, journal: &[u8]) -> Result<(), StoreError> {
        for change in journal::parse(journal)?.into_iter().rev() {
            match change.before {
                Some(value) => self.put_unjournaled(change.table, change.key, value)?,
                None => self.delete_unjournaled(change.table, change.key)?,
            }
        }
        Ok(())
    }

    /// Makes all changes visible and durable.
    pub fn commit(self) -> Result<(), StoreError> {
        Ok(self.transaction.commit()?)
    }
}

impl Read for Batch<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, StoreError> {
        found(self.transaction.get(self.databases[table as usize], &key))
    }

    fn walk(&self, table: Table) -> Result<Walk<'_>, StoreError> {
        Ok(Walk::new(self.transaction.open_ro_cursor(self.databases[table as usize])?, None))
    }
}

impl Write for Batch<'_> {
    /// Sets a key and remembers its old value in the journal.
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let database = self.databases[table as usize];
        self.journal.record(table, key, found(self.transaction.get(database, &key))?);
        Ok(self.transaction.put(database, &key, &value, WriteFlags::empty())?)
    }

    /// Sets a key that the caller knows to be absent, which saves looking for an old value. An old value is a
    /// broken invariant and refused.
    fn insert(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.journal.record(table, key, None);
        match self.transaction.put(self.databases[table as usize], &key, &value, WriteFlags::NO_OVERWRITE) {
            Err(lmdb::Error::KeyExist) => Err(StoreError::Damaged("a key is present that should be new")),
            other => Ok(other?),
        }
    }

    /// Sets a key whose old value the caller knows, which saves looking for it.
    fn replace(&mut self, table: Table, key: &[u8], before: Option<&[u8]>, value: &[u8]) -> Result<(), StoreError> {
        self.journal.record(table, key, before);
        Ok(self.transaction.put(self.databases[table as usize], &key, &value, WriteFlags::empty())?)
    }

    /// Removes a key, if present, and remembers its value in the journal.
    fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        let database = self.databases[table as usize];
        if let Some(value) = found(self.transaction.get(database, &key))? {
            self.journal.record(table, key, Some(value));
            self.transaction.del(database, &key, None)?;
        }
        Ok(())
    }
}
