//! Changes in memory that can be reverted.

use crate::store::{Overlay, Read, StoreError, Table, Walk, Write};

/// The changes of one transaction, on top of those of the transactions before it.
pub struct Trial<'a> {
    overlay: Overlay<'a>,
    /// The old value of each change, oldest first.
    before: Vec<Before>,
}

/// The old value of a key.
struct Before {
    table: Table,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

impl<'a> Trial<'a> {
    /// Creates a set without changes.
    pub fn new(overlay: Overlay<'a>) -> Trial<'a> {
        Trial { overlay, before: Vec::new() }
    }

    /// Reverts all changes.
    pub fn take_back(self) -> Result<(), StoreError> {
        let Trial { mut overlay, before } = self;
        before.iter().rev().try_for_each(|Before { table, key, value }| match value {
            Some(value) => overlay.put(*table, key, value),
            None => overlay.delete(*table, key),
        })
    }

    fn remember(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        let value = self.overlay.get(table, key)?.map(<[u8]>::to_vec);
        self.before.push(Before { table, key: key.to_vec(), value });
        Ok(())
    }
}

impl Read for Trial<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, StoreError> {
        self.overlay.get(table, key)
    }

    fn peek(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, StoreError> {
        self.overlay.peek(table, key)
    }

    fn walk(&self, table: Table) -> Result<Walk<'_>, StoreError> {
        self.overlay.walk(table)
    }
}

impl Write for Trial<'_> {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.remember(table, key)?;
        self.overlay.put(table, key, value)
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        self.remember(table, key)?;
        self.overlay.delete(table, key)
    }
}
