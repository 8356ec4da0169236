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
    fn lookup(&self, table: Table, key: &[u8], is_checked: bool) -> Result<Option<&[u8]>, StoreError> {
        self.overlay.lookup(table, key, is_checked)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Changes, test_store};

    const TABLE: Table = Table::Accounts;

    /// Returns what each kind of read finds under the keys `a`, `b` and `c`.
    fn values(state: &impl Read) -> Vec<[Option<Vec<u8>>; 3]> {
        let seek = |key: &[u8]| {
            let found = state.cursor(TABLE).unwrap().seek(key).unwrap();
            found.filter(|(found, _)| *found == key).map(|(_, value)| value.to_vec())
        };
        let get = |key: &[u8]| state.get(TABLE, key).unwrap().map(<[u8]>::to_vec);
        let get_unverified = |key: &[u8]| state.get_unverified(TABLE, key).unwrap().map(<[u8]>::to_vec);
        [b"a", b"b", b"c"].map(|key| [get(key), get_unverified(key), seek(key)]).to_vec()
    }

    fn found_everywhere(values: [Option<&[u8]>; 3]) -> Vec<[Option<Vec<u8>>; 3]> {
        values.map(|value| [0; 3].map(|_| value.map(<[u8]>::to_vec))).to_vec()
    }

    #[test]
    fn changes_are_read_until_they_are_reverted() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        batch.put(TABLE, b"a", b"first").unwrap();
        batch.put(TABLE, b"b", b"second").unwrap();
        batch.commit().unwrap();
        let (snapshot, mut changes) = (store.snapshot().unwrap(), Changes::default());
        let mut scratch = ScratchOverlay::new(Overlay::new(&snapshot, &mut changes));
        let before = found_everywhere([Some(b"first"), Some(b"second"), None]);
        assert_eq!(values(&scratch), before);
        scratch.put(TABLE, b"a", b"changed").unwrap();
        scratch.delete(TABLE, b"b").unwrap();
        scratch.put(TABLE, b"c", b"third").unwrap();
        scratch.put(TABLE, b"a", b"changed again").unwrap();
        assert_eq!(values(&scratch), found_everywhere([Some(b"changed again"), None, Some(b"third")]));
        scratch.revert().unwrap();
        assert_eq!(values(&Overlay::new(&snapshot, &mut changes)), before);
    }
}
