//! The node's reader of the store, which keeps one reader slot for the life of the process.

use std::cell::{Cell, OnceCell};

use super::error::StoreError;
use super::open::Store;
use super::read::{InactiveSnapshot, Snapshot};

/// Provides a snapshot of the last commit, from its first use until it is released. It keeps its reader slot meanwhile,
/// so that others cannot take it.
pub struct SnapshotCache<'env> {
    store: &'env Store,
    snapshot: OnceCell<Snapshot<'env>>,
    inactive: Cell<Option<InactiveSnapshot<'env>>>,
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
    pub fn snapshot(&self) -> Result<&Snapshot<'env>, StoreError> {
        if let Some(snapshot) = self.snapshot.get() {
            return Ok(snapshot);
        }
        let taken = self.inactive.take().map_or_else(|| self.store.snapshot(), InactiveSnapshot::renew)?;
        Ok(self.snapshot.get_or_init(|| taken))
    }

    /// Releases the snapshot, so that the next use takes a snapshot of the last commit.
    pub fn release(&mut self) {
        if let Some(snapshot) = self.snapshot.take() {
            self.inactive.set(Some(snapshot.reset()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::test_store;

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
