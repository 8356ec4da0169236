//! One reader for the life of a process.

use std::cell::{Cell, OnceCell};

use super::error::StoreError;
use super::open::Store;
use super::read::{Resting, Snapshot};

/// Shows the last commit from the first look on until it is released, and keeps its place among the readers
/// meanwhile, so that others cannot take it.
pub struct Reader<'env> {
    store: &'env Store,
    snapshot: OnceCell<Snapshot<'env>>,
    resting: Cell<Option<Resting<'env>>>,
}

impl<'env> Reader<'env> {
    /// A reader that has not looked yet.
    pub fn new(store: &'env Store) -> Reader<'env> {
        Reader { store, snapshot: OnceCell::new(), resting: Cell::new(None) }
    }

    /// The store.
    pub fn store(&self) -> &'env Store {
        self.store
    }

    /// The snapshot in use, or a new one.
    pub fn snapshot(&self) -> Result<&Snapshot<'env>, StoreError> {
        if let Some(snapshot) = self.snapshot.get() {
            return Ok(snapshot);
        }
        let taken = self.resting.take().map_or_else(|| self.store.snapshot(), Resting::wake)?;
        Ok(self.snapshot.get_or_init(|| taken))
    }

    /// Lets go of the snapshot, so that the next look shows what is the last commit by then.
    pub fn release(&mut self) {
        if let Some(snapshot) = self.snapshot.take() {
            self.resting.set(Some(snapshot.rest()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::test_store;

    #[test]
    fn a_reader_keeps_its_place_when_others_take_all_there_are() {
        let (store, _folder) = test_store();
        let mut reader = Reader::new(&store);
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
