//! Changes in memory that can be reverted.

use crate::store::{Overlay, Read, StoreError, Table, TableCursor, Write};

/// The changes of one transaction, on top of those of the transactions before it.
pub struct ScratchOverlay<'a> {
    overlay: Overlay<'a>,
    /// The old value of each change, oldest first.
    old_values: Vec<OldValue>,
}

/// The old value of a key.
struct OldValue {
    table: Table,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

impl<'a> ScratchOverlay<'a> {
    /// Creates a set without changes.
    pub fn new(overlay: Overlay<'a>) -> ScratchOverlay<'a> {
        ScratchOverlay { overlay, old_values: Vec::new() }
    }

    /// Reverts all changes.
    pub fn revert(self) -> Result<(), StoreError> {
        let ScratchOverlay { mut overlay, old_values: before } = self;
        before.iter().rev().try_for_each(|OldValue { table, key, value }| match value {
            Some(value) => overlay.put(*table, key, value),
            None => overlay.delete(*table, key),
        })
    }

    fn record_old_value(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        let value = self.overlay.get(table, key)?.map(<[u8]>::to_vec);
        self.old_values.push(OldValue { table, key: key.to_vec(), value });
        Ok(())
    }
}

impl Read for ScratchOverlay<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, StoreError> {
        self.overlay.get(table, key)
    }

    fn get_unverified(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, StoreError> {
        self.overlay.get_unverified(table, key)
    }

    fn cursor(&self, table: Table) -> Result<TableCursor<'_>, StoreError> {
        self.overlay.cursor(table)
    }
}

impl Write for ScratchOverlay<'_> {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.record_old_value(table, key)?;
        self.overlay.put(table, key, value)
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        self.record_old_value(table, key)?;
        self.overlay.delete(table, key)
    }
}
