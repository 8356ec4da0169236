//! Changes in memory on top of a commit, for data that is not in the chain yet.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::error::StoreError;
use super::read::{Read, Snapshot, TableCursor};
use super::tables::Table;
use super::write::Write;

/// New values by key; `None` for a removed key.
pub(super) type TableChanges = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Changes on top of a commit. They are valid for that commit only.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    tables: BTreeMap<Table, TableChanges>,
    bytes: usize,
}

impl Changes {
    /// Returns the bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn set(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) {
        let size = |value: Option<&[u8]>| key.len() + value.map_or(0, <[u8]>::len);
        let old = self.tables.entry(table).or_default().insert(key.to_vec(), value.map(<[u8]>::to_vec));
        self.bytes += size(value);
        self.bytes -= old.map_or(0, |old| size(old.as_deref()));
    }
}

/// A snapshot with changes on top.
pub struct Overlay<'a> {
    base: &'a Snapshot<'a>,
    changes: &'a mut Changes,
}

impl<'a> Overlay<'a> {
    /// Creates an overlay of changes on the commit for which they were made.
    pub fn new(base: &'a Snapshot<'a>, changes: &'a mut Changes) -> Overlay<'a> {
        Overlay { base, changes }
    }
}

impl Read for Overlay<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, StoreError> {
        match self.changes.tables.get(&table).and_then(|changes| changes.get(key)) {
            Some(value) => Ok(value.as_deref()),
            None => self.base.get(table, key),
        }
    }

    fn get_unverified(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, StoreError> {
        match self.changes.tables.get(&table).and_then(|changes| changes.get(key)) {
            Some(value) => Ok(value.as_deref()),
            None => self.base.get_unverified(table, key),
        }
    }

    fn cursor(&self, table: Table) -> Result<TableCursor<'_>, StoreError> {
        let cursor = self.base.cursor(table)?;
        Ok(match self.changes.tables.get(&table) {
            Some(changes) => cursor.with_changes(changes),
            None => cursor,
        })
    }
}

impl Write for Overlay<'_> {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.changes.set(table, key, Some(value));
        Ok(())
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        self.changes.set(table, key, None);
        Ok(())
    }
}

/// Returns the first change at or after a bound.
pub(super) fn first_from<'a>(changes: &'a TableChanges, from: Bound<&[u8]>) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    let (key, value) = changes.range::<[u8], _>((from, Bound::Unbounded)).next()?;
    Some((key, value.as_deref()))
}

/// Returns the last change before a key, or of all.
pub(super) fn last_before<'a>(changes: &'a TableChanges, key: Option<&[u8]>) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    let end = key.map_or(Bound::Unbounded, Bound::Excluded);
    let (key, value) = changes.range::<[u8], _>((Bound::Unbounded, end)).next_back()?;
    Some((key, value.as_deref()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::store::test_store;

    const TABLE: Table = Table::Accounts;

    /// Short keys over few letters, so that they often coincide.
    fn keys() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(0u8..3, 1..3)
    }

    fn entries<'a>(cursor: &mut TableCursor<'a>, forward: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found = Vec::new();
        let mut entry = if forward { cursor.seek(&[]) } else { cursor.last() }.unwrap();
        while let Some((key, value)) = entry {
            found.push((key.to_vec(), value.to_vec()));
            entry = if forward { cursor.next() } else { cursor.previous() }.unwrap();
        }
        found
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn an_overlay_reads_like_the_changed_map(
            base in proptest::collection::btree_map(keys(), any::<u8>(), 0..12),
            changes in proptest::collection::vec((keys(), any::<Option<u8>>()), 0..12),
            place in keys(),
        ) {
            let (store, _folder) = test_store();
            let mut batch = store.begin_write().unwrap();
            let mut map = BTreeMap::new();
            for (key, value) in &base {
                batch.put(TABLE, key, &[*value]).unwrap();
                map.insert(key.clone(), vec![*value]);
            }
            batch.commit().unwrap();
            let (snapshot, mut kept) = (store.snapshot().unwrap(), Changes::default());
            let mut overlay = Overlay::new(&snapshot, &mut kept);
            for (key, value) in &changes {
                match value {
                    Some(value) => {
                        overlay.put(TABLE, key, &[*value]).unwrap();
                        map.insert(key.clone(), vec![*value]);
                    }
                    None => {
                        overlay.delete(TABLE, key).unwrap();
                        map.remove(key);
                    }
                }
            }
            let expected: Vec<_> = map.clone().into_iter().collect();
            prop_assert_eq!(entries(&mut overlay.cursor(TABLE).unwrap(), true), expected.clone());
            let backward: Vec<_> = expected.into_iter().rev().collect();
            prop_assert_eq!(entries(&mut overlay.cursor(TABLE).unwrap(), false), backward);
            prop_assert_eq!(overlay.get(TABLE, &place).unwrap(), map.get(&place).map(Vec::as_slice));
            prop_assert_eq!(overlay.get_unverified(TABLE, &place).unwrap(), map.get(&place).map(Vec::as_slice));
            let mut walk = overlay.cursor(TABLE).unwrap();
            let found = walk.seek(&place).unwrap().map(|(key, _)| key.to_vec());
            prop_assert_eq!(found.as_ref(), map.range(place.clone()..).next().map(|(key, _)| key));
            if found.is_some() {
                let before = walk.previous().unwrap().map(|(key, _)| key.to_vec());
                prop_assert_eq!(before.as_ref(), map.range(..place.clone()).next_back().map(|(key, _)| key));
            }
            drop(walk);
            let changed: usize = kept.tables.values().flatten().map(|(k, v)| k.len() + v.as_ref().map_or(0, Vec::len)).sum();
            prop_assert_eq!(kept.bytes(), changed);
        }
    }
}
