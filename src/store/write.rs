//! Writing: the interface that write transactions and changes in memory share.

use super::error::StoreError;
use super::read::Read;
use super::tables::Table;

/// A state that can be changed, and read with its changes.
pub trait Write: Read {
    /// Sets a key.
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError>;

    /// Removes a key, if present.
    fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError>;

    /// Sets a key that the caller knows to be absent, which may save looking up an old value.
    fn insert(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.put(table, key, value)
    }

    /// Sets a key whose old value the caller knows, which may save looking it up.
    fn replace(&mut self, table: Table, key: &[u8], before: Option<&[u8]>, value: &[u8]) -> Result<(), StoreError> {
        let _ = before;
        self.put(table, key, value)
    }
}
