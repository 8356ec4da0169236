//! Checksums, which detect what a disk has damaged.
//!
//! **Of rows.** Each value is followed by a checksum over table, key and value, so that a row in the wrong place is
//! detected too. [`Table::Meta`] has none, so that a program of any version can read it; it is compared with the
//! checksum of its range whenever a store is opened. A part of a long value that contains its own checksum can be read
//! without the rest ([`super::Read::block_bytes`]).
//!
//! **Of ranges.** The checksum of a row does not help if the row is not found: after a bit flip in a key, or if a page
//! is replaced by another one or by one of an earlier commit, LMDB finds nothing or an outdated row. So the rows of each
//! table are divided, by key, into ranges of about [`MAX_RANGE_BYTES`], and [`Table::Checksums`] holds the bytes of each
//! range and the sum of a hash of each row. A change of a row subtracts the old hash and adds the new one in the same
//! commit, without reading other rows. A range that is too large is split; an empty one is merged into the one before
//! it. The boundaries of ranges depend on the history of the store, their content does not.
//!
//! A row that is found by its key proves itself by its own checksum. A range is compared with its checksum before the
//! absence of a row is believed, and before a cursor passes its rows, once per opening of the store ([`VerifiedRanges`]):
//! a row that is not found in a verified range is truly absent, and a cursor over verified ranges has skipped nothing. A
//! damaged range causes an error; all others stay readable. That a row is outdated, because the disk lost a write that it
//! had confirmed, only its range shows: the verification in the background finds it, and then no row of the table is used
//! before its range is verified.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Bound;

use lmdb::{Cursor as _, RoCursor};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::error::{Result, StoreError};
use super::read::Entry;
use super::tables::Table;

// Numbers of LMDB's cursor operations.
pub const LAST: u32 = 6;
pub const NEXT: u32 = 8;
pub const PREVIOUS: u32 = 12;
pub const SET: u32 = 15;
pub const SET_RANGE: u32 = 17;

/// Bytes of a checksum (CRC-32, little-endian) after the value.
pub const CHECKSUM_BYTES: usize = 4;
/// Maximum bytes of rows in a range, unless it is a single row. This much is read before the first answer from a range: some
/// five reads of a slow disk. It is about 300 times the size of the checksum.
pub const MAX_RANGE_BYTES: u64 = 16 << 10;
/// Maximum length of a key that starts a range. The checksum's key of a longer one would be too long for LMDB.
const MAX_BOUNDARY: usize = 500;

/// Returns the result of a lookup; `None` if nothing was found.
pub fn found<T>(result: Result<T, lmdb::Error>) -> Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(lmdb::Error::NotFound) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns key and stored row to which an operation moves a cursor, if there are any.
pub fn raw_entry<'a>(cursor: &RoCursor<'a>, key: Option<&[u8]>, operation: u32) -> Result<Option<Entry<'a>>> {
    match found(cursor.get(key, None, operation))? {
        Some((Some(key), row)) => Ok(Some((key, row))),
        Some((None, _)) => Err(StoreError::Damaged("an entry without a key")),
        None => Ok(None),
    }
}

fn checksum_bytes(table: Table) -> usize {
    if table == Table::Meta { 0 } else { CHECKSUM_BYTES }
}

/// Returns the stored length of a value in a table.
pub fn stored_length(table: Table, value: &[u8]) -> usize {
    value.len() + checksum_bytes(table)
}

/// Writes a value with its checksum into `place`, which has the length [`stored_length`].
pub fn append_checksum(table: Table, key: &[u8], value: &[u8], place: &mut [u8]) {
    let (own, after) = place.split_at_mut(value.len());
    own.copy_from_slice(value);
    if table != Table::Meta {
        after.copy_from_slice(&checksum(table, key, &[value]).to_le_bytes());
    }
}

/// Returns the value of a row, after comparing it with its checksum if it `is_checked`.
pub fn row_value<'a>(table: Table, key: &[u8], row: &'a [u8], is_checked: bool) -> Result<&'a [u8]> {
    let parts = row.len().checked_sub(checksum_bytes(table)).map(|length| row.split_at(length));
    let is_valid = |(value, after): &(&[u8], &[u8])| {
        !is_checked || table == Table::Meta || *after == checksum(table, key, &[value]).to_le_bytes()
    };
    let parts = parts.filter(is_valid);
    parts.map(|(value, _)| value).ok_or_else(|| StoreError::Corrupt { table, key: key.to_vec() })
}

/// Returns the checksum of a value, or of a part of one, given in pieces.
pub fn checksum(table: Table, key: &[u8], pieces: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[table as u8]);
    hasher.update(key);
    pieces.iter().for_each(|piece| hasher.update(piece));
    hasher.finalize()
}

/// Number of bytes of rows with their keys, and the sum of the rows' hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeSum {
    pub bytes: u64,
    hash: u64,
}

impl RangeSum {
    /// Returns the sum of one row, as it is stored.
    pub fn of_row(table: Table, key: &[u8], row: &[u8]) -> RangeSum {
        let checksum = match row.last_chunk::<CHECKSUM_BYTES>() {
            Some(checksum) if table != Table::Meta => u32::from_le_bytes(*checksum),
            _ => checksum(table, key, &[row]),
        };
        // The hash covers the row's checksum instead of its value.
        let seed = u64::from(table as u8) << 32 | u64::from(checksum);
        RangeSum { bytes: (key.len() + row.len()) as u64, hash: xxh3_64_with_seed(key, seed) }
    }

    pub fn plus(self, other: RangeSum) -> RangeSum {
        RangeSum { bytes: self.bytes.wrapping_add(other.bytes), hash: self.hash.wrapping_add(other.hash) }
    }

    pub fn minus(self, other: RangeSum) -> RangeSum {
        RangeSum { bytes: self.bytes.wrapping_sub(other.bytes), hash: self.hash.wrapping_sub(other.hash) }
    }

    /// Returns the value of a row of [`Table::Checksums`].
    pub fn to_bytes(self) -> [[u8; 8]; 2] {
        [self.bytes, self.hash].map(u64::to_le_bytes)
    }

    pub fn from_bytes(value: &[u8]) -> Result<RangeSum> {
        match value.as_chunks() {
            ([bytes, hash], []) => Ok(RangeSum { bytes: u64::from_le_bytes(*bytes), hash: u64::from_le_bytes(*hash) }),
            _ => Err(StoreError::Damaged("the checksum of a range")),
        }
    }
}

/// The rows of a table from a key up to another key or to the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// First key; empty for the first range.
    pub first: Vec<u8>,
    pub end: Option<Vec<u8>>,
    pub sum: RangeSum,
}

impl Range {
    pub fn contains(&self, key: &[u8]) -> bool {
        self.first.as_slice() <= key && self.end.as_deref().is_none_or(|end| key < end)
    }
}

/// Returns the key of the checksum of the range that starts at a key.
pub fn checksum_key(table: Table, first: &[u8]) -> Vec<u8> {
    [&[table as u8], first].concat()
}

/// Returns the first key of the range whose checksum has this key; `None` if it belongs to another table.
pub fn range_start(table: Table, checksum_key: &[u8]) -> Option<Vec<u8>> {
    checksum_key.split_first().filter(|(of, _)| **of == table as u8).map(|(_, first)| first.to_vec())
}

/// Compares the rows of a range with its checksum, and looks up each of them: if the path to a row is damaged, a scan
/// still finds it, but a lookup does not.
pub fn verify([rows, search]: [&RoCursor<'_>; 2], table: Table, range: &Range) -> Result<()> {
    let (mut sum, mut before, mut is_right) = (RangeSum::default(), None, true);
    for_each_row(rows, range, |key, row| {
        row_value(table, key, row, true)?;
        let is_behind = before.replace(key).is_none_or(|before| before < key);
        sum = sum.plus(RangeSum::of_row(table, key, row));
        let is_found = search.get(Some(key), None, SET).is_ok_and(|(_, found)| found.as_ptr() == row.as_ptr());
        // A damaged page may lead back to a page that was already read.
        is_right = is_found && is_behind && range.contains(key) && sum.bytes <= range.sum.bytes;
        Ok(is_right)
    })?;
    if is_right && sum == range.sum {
        return Ok(());
    }
    Err(StoreError::Incomplete { table, first: range.first.clone() })
}

/// Splits a range at half of its bytes. Returns `None` if no row can start a second range.
pub fn split_range(rows: &RoCursor<'_>, table: Table, range: &Range) -> Result<Option<[Range; 2]>, StoreError> {
    let (mut sum, mut boundary) = (RangeSum::default(), None);
    for_each_row(rows, range, |key, row| {
        if sum.bytes > 0
            && sum.bytes + (key.len() + row.len()) as u64 > range.sum.bytes / 2
            && key.len() <= MAX_BOUNDARY
        {
            boundary = Some(key.to_vec());
            return Ok(false);
        }
        sum = sum.plus(RangeSum::of_row(table, key, row));
        Ok(true)
    })?;
    Ok(boundary.map(|boundary| {
        let before = Range { first: range.first.clone(), end: Some(boundary.clone()), sum };
        // An error in the range's checksum remains in one of the halves.
        let after = Range { first: boundary, end: range.end.clone(), sum: range.sum.minus(sum) };
        [before, after]
    }))
}

/// Calls `visit` with the stored rows of a range until it returns `false`.
fn for_each_row<'a>(
    rows: &RoCursor<'a>,
    range: &Range,
    mut visit: impl FnMut(&'a [u8], &'a [u8]) -> Result<bool>,
) -> Result<()> {
    let first = if range.first.is_empty() { &[0] } else { range.first.as_slice() };
    let mut found = raw_entry(rows, Some(first), SET_RANGE)?;
    while let Some((key, row)) = found
        && range.end.as_deref().is_none_or(|end| key < end)
        && visit(key, row)?
    {
        found = raw_entry(rows, None, NEXT)?;
    }
    Ok(())
}

/// Start and end of each verified interval of keys; `None` is the end of the table.
type Intervals = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// What was verified of a table since the store was opened.
#[derive(Default)]
struct VerifiedTable {
    intervals: RefCell<Intervals>,
    /// Whether a verification has found damage.
    is_damaged: Cell<bool>,
}

/// The key intervals of each table that were verified since the store was opened.
pub struct VerifiedRanges([VerifiedTable; Table::ALL.len()]);

impl Default for VerifiedRanges {
    fn default() -> VerifiedRanges {
        VerifiedRanges(Table::ALL.map(|_| VerifiedTable::default()))
    }
}

impl VerifiedRanges {
    /// Returns whether a whole table is verified.
    pub fn is_fully_verified(&self, table: Table) -> bool {
        self.0[table as usize]
            .intervals
            .borrow()
            .first_key_value()
            .is_some_and(|(first, end)| first.is_empty() && end.is_none())
    }

    /// Returns the first unverified key between `from` and `to`, or the end of the table.
    pub fn first_unverified(&self, table: Table, from: &[u8], to: Option<&[u8]>) -> Option<Vec<u8>> {
        let intervals = self.0[table as usize].intervals.borrow();
        let (_, end) = intervals.range::<[u8], _>((Bound::Unbounded, Bound::Included(from))).next_back().unzip();
        match end {
            Some(None) => None,
            Some(Some(end)) if end.as_slice() > from => to.is_none_or(|to| to >= end.as_slice()).then(|| end.clone()),
            _ => Some(from.to_vec()),
        }
    }

    /// Marks a range as verified. Intervals that touch are joined.
    pub fn add(&self, table: Table, range: Range) {
        let mut intervals = self.0[table as usize].intervals.borrow_mut();
        let Range { mut first, mut end, .. } = range;
        let touches = |end: &Option<Vec<u8>>, first: &[u8]| end.as_deref().is_none_or(|end| end >= first);
        let to_first = (Bound::Unbounded, Bound::Included(first.as_slice()));
        if let Some((before, to)) = intervals.range::<[u8], _>(to_first).next_back()
            && touches(to, &first)
        {
            (first, end) = (before.clone(), later(end, to.clone()));
        }
        while let Some((next, to)) = intervals.range::<[u8], _>((Bound::Excluded(&first[..]), Bound::Unbounded)).next()
            && touches(&end, next)
        {
            let next = next.clone();
            end = later(end, to.clone());
            intervals.remove(&next);
        }
        intervals.insert(first, end);
    }

    /// Marks a table as damaged and unverified: from now on each range of it is verified before a row of it is used.
    pub fn record_damage(&self, table: Table) {
        self.0[table as usize].is_damaged.set(true);
        self.invalidate(table);
    }

    /// Returns whether damage was found in a table.
    pub fn is_damaged(&self, table: Table) -> bool {
        self.0[table as usize].is_damaged.get()
    }

    /// Marks a whole table as unverified.
    fn invalidate(&self, table: Table) {
        self.0[table as usize].intervals.borrow_mut().clear();
    }
}

fn later(a: Option<Vec<u8>>, b: Option<Vec<u8>>) -> Option<Vec<u8>> {
    a.zip(b).map(|(a, b)| a.max(b))
}

/// Start of each range, with its end and checksum.
type RangesByStart = BTreeMap<Vec<u8>, (Option<Vec<u8>>, RangeSum)>;

/// The ranges that a write transaction has changed.
pub struct ChangedRanges {
    tables: [RangesByStart; Table::ALL.len()],
}

impl Default for ChangedRanges {
    fn default() -> ChangedRanges {
        ChangedRanges { tables: Table::ALL.map(|_| BTreeMap::new()) }
    }
}

impl ChangedRanges {
    /// Returns the range of a key, if it was changed.
    pub fn get(&self, table: Table, key: &[u8]) -> Option<Range> {
        let ranges = &self.tables[table as usize];
        let (first, (end, sum)) = ranges.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back()?;
        let is_inside = end.as_deref().is_none_or(|end| key < end);
        is_inside.then(|| Range { first: first.clone(), end: end.clone(), sum: *sum })
    }

    /// Returns the checksum of the range of a key, to be changed, and whether that is the last range of its table.
    pub fn get_mut(&mut self, table: Table, key: &[u8]) -> Option<(&mut RangeSum, bool)> {
        let ranges = &mut self.tables[table as usize];
        let (_, (end, sum)) = ranges.range_mut::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back()?;
        end.as_deref().is_none_or(|end| key < end).then_some((sum, end.is_none()))
    }

    pub fn set(&mut self, table: Table, range: Range) {
        self.tables[table as usize].insert(range.first, (range.end, range.sum));
    }

    /// Starts a range at a key that comes after all others.
    pub fn start_range(&mut self, table: Table, key: &[u8], sum: RangeSum) {
        let ranges = &mut self.tables[table as usize];
        if let Some((_, (end @ None, _))) = ranges.iter_mut().next_back() {
            *end = Some(key.to_vec());
        }
        ranges.insert(key.to_vec(), (None, sum));
    }

    /// Replaces the ranges of a table by a single empty one.
    pub fn clear(&mut self, table: Table) {
        self.tables[table as usize] = BTreeMap::from([(Vec::new(), (None, RangeSum::default()))]);
    }

    /// Takes the first range: returns the key of its checksum with the new one; `None` for an empty range.
    pub fn pop(&mut self) -> Option<(Vec<u8>, Option<RangeSum>)> {
        let mut tables = Table::ALL.into_iter().zip(&mut self.tables);
        let (table, (first, (_, sum))) = tables.find_map(|(table, ranges)| Some((table, ranges.pop_first()?)))?;
        // If no rows are left but the sum is not zero, a row was lost: the checksum stays as evidence.
        let is_empty = sum == RangeSum::default();
        Some((checksum_key(table, &first), Some(sum).filter(|_| !is_empty)))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use lmdb::{Environment, EnvironmentFlags, Transaction, WriteFlags};
    use proptest::prelude::*;

    use super::super::read::{Snapshot, VerifyPosition};
    use super::super::{AccessMode, Options, Read, Store, Write, WriteTxn, test_store};
    use super::*;

    type Rows = BTreeMap<(Table, Vec<u8>), Vec<u8>>;

    /// A table that is appended to, one of long rows and one of short rows.
    const TABLES: [Table; 3] = [Table::AccountTxLists, Table::Balances, Table::EligibleAccounts];

    #[derive(Clone, Debug)]
    enum Change {
        Put(u8, u16, u16),
        PutUnjournaled(u8, u16, u16),
        Delete(u8, u16),
        DeleteRange(u8, u16, u16),
        Clear(u8),
        Undo,
        PrepareCommit,
    }

    fn changes() -> impl Strategy<Value = Change> {
        let (table, key, length) = (0u8..3, 0u16..300, 0u16..6000);
        prop_oneof![
            12 => (table.clone(), key.clone(), length.clone()).prop_map(|(t, k, l)| Change::Put(t, k, l)),
            6 => (table.clone(), key.clone(), length).prop_map(|(t, k, l)| Change::PutUnjournaled(t, k, l)),
            6 => (table.clone(), key.clone()).prop_map(|(t, k)| Change::Delete(t, k)),
            1 => (table.clone(), key.clone(), key).prop_map(|(t, a, b)| Change::DeleteRange(t, a, b)),
            1 => table.prop_map(Change::Clear),
            1 => Just(Change::Undo),
            1 => Just(Change::PrepareCommit),
        ]
    }

    /// Applies a change to a batch and to its expected rows. `before` is the state that an undo restores.
    fn apply(txn: &mut WriteTxn<'_>, rows: &mut Rows, before: &mut Rows, change: &Change) {
        let place = |table: u8, key: u16| (TABLES[usize::from(table)], key.to_be_bytes().to_vec());
        // Unjournaled changes cannot be undone.
        let unjournaled = |txn: &mut WriteTxn<'_>, rows: &Rows, before: &mut Rows| {
            txn.take_journal();
            before.clone_from(rows);
        };
        match *change {
            Change::Put(table, key, length) => {
                let ((table, key), value) = (place(table, key), vec![length as u8; length.into()]);
                txn.put(table, &key, &value).unwrap();
                rows.insert((table, key), value);
            }
            Change::PutUnjournaled(table, key, length) => {
                let ((table, key), value) = (place(table, key), vec![length as u8; length.into()]);
                txn.put_unjournaled(table, &key, &value).unwrap();
                rows.insert((table, key), value);
                unjournaled(txn, rows, before);
            }
            Change::Delete(table, key) => {
                let (table, key) = place(table, key);
                txn.delete(table, &key).unwrap();
                rows.remove(&(table, key));
            }
            Change::DeleteRange(table, a, b) => {
                let ((table, first), (_, last)) = (place(table, a.min(b)), place(table, a.max(b)));
                txn.delete_range_unjournaled(table, &first, &last).unwrap();
                rows.retain(|(of, key), _| *of != table || *key < first || *key > last);
                unjournaled(txn, rows, before);
            }
            Change::Clear(table) => {
                let table = TABLES[usize::from(table)];
                txn.clear(table).unwrap();
                rows.retain(|(of, _), _| *of != table);
                unjournaled(txn, rows, before);
            }
            Change::PrepareCommit => drop(txn.prepare_commit_step().unwrap()),
            Change::Undo => {
                let journal = txn.take_journal();
                txn.undo(&journal).unwrap();
                rows.clone_from(before);
            }
        }
    }

    fn rows_of(state: &impl Read) -> Rows {
        let mut rows = Rows::new();
        for table in TABLES {
            for (key, value) in state.entries(table, &[]).unwrap().map(Result::unwrap) {
                rows.insert((table, key.to_vec()), value.to_vec());
            }
        }
        rows
    }

    fn forget(store: &Store) {
        Table::ALL.into_iter().for_each(|table| store.verified.invalidate(table));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_row_with_a_flipped_bit_is_rejected(key: [u8; 12], value: Vec<u8>, place: usize) {
            let mut row = vec![0; stored_length(Table::Accounts, &value)];
            append_checksum(Table::Accounts, &key, &value, &mut row);
            prop_assert_eq!(row_value(Table::Accounts, &key, &row, true).unwrap(), value.as_slice());
            prop_assert!(row_value(Table::EligibleAccounts, &key, &row, true).is_err());
            let mut other = key;
            other[place % 12] ^= 1 << (place % 8);
            prop_assert!(row_value(Table::Accounts, &other, &row, true).is_err());
            let bits = row.len() * 8;
            row[place % bits / 8] ^= 1 << (place % 8);
            prop_assert!(row_value(Table::Accounts, &key, &row, true).is_err());
        }

        #[test]
        fn checksums_equal_those_of_the_rows_after_changes_and_undo(
            batches in proptest::collection::vec(
                (proptest::collection::vec(changes(), 0..60), any::<bool>(), any::<bool>()),
                1..6,
            ),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let store = Store::scratch(folder.path(), Options { map_size: 1 << 26 }).unwrap();
            let mut rows = Rows::new();
            for (changes, is_kept, is_collecting) in batches {
                forget(&store);
                let (mut batch, mut changed, mut before) = (store.begin_write().unwrap(), rows.clone(), rows.clone());
                if is_collecting {
                    batch.collect_changes();
                }
                changes.iter().for_each(|change| apply(&mut batch, &mut changed, &mut before, change));
                prop_assert!(rows_of(&batch) == changed);
                if is_kept {
                    batch.commit().unwrap();
                    rows = changed;
                } else {
                    drop(batch);
                }
                forget(&store);
                let snapshot = store.snapshot().unwrap();
                snapshot.verify_all().unwrap();
                TABLES.into_iter().for_each(|table| assert!(store.verified.is_fully_verified(table)));
                forget(&store);
                prop_assert!(rows_of(&snapshot) == rows);
            }
        }
    }

    /// Returns a store with a thousand rows in several ranges.
    fn filled() -> (Store, tempfile::TempDir) {
        let (store, folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        (0..1000u16).for_each(|key| batch.put(Table::AccountIds, &key.to_be_bytes(), &[key as u8; 300]).unwrap());
        batch.commit().unwrap();
        (store, folder)
    }

    /// Changes rows without updating checksums, and reopens the store.
    fn damage(store: Store, folder: &Path, change: impl FnOnce(&mut lmdb::RwTransaction<'_>, lmdb::Database)) -> Store {
        damage_in(Table::AccountIds, store, folder, change)
    }

    fn damage_in(
        table: Table,
        store: Store,
        folder: &Path,
        change: impl FnOnce(&mut lmdb::RwTransaction<'_>, lmdb::Database),
    ) -> Store {
        drop(store);
        let environment = Environment::new()
            .set_max_dbs(1)
            .set_flags(EnvironmentFlags::NO_SYNC)
            .set_map_size(1 << 22)
            .open(folder)
            .unwrap();
        let table = environment.open_db(Some(table.name())).unwrap();
        let mut transaction = environment.begin_rw_txn().unwrap();
        change(&mut transaction, table);
        transaction.commit().unwrap();
        drop(environment);
        Store::open_existing(folder, AccessMode::Shared, Options { map_size: 1 << 22 }).unwrap().0
    }

    /// Returns the ranges of a table.
    fn ranges(snapshot: &Snapshot<'_>, table: Table) -> Vec<Range> {
        let (mut ranges, mut key) = (Vec::new(), Some(Vec::new()));
        while let Some(first) = key {
            ranges.push(snapshot.range(table, &first).unwrap());
            key = ranges.last().and_then(|range| range.end.clone());
        }
        ranges
    }

    /// Puts rows into a table in one commit. Returns the bytes of each range of the table.
    fn range_bytes(store: &Store, table: Table, rows: &[(&[u8], &[u8])]) -> Vec<u64> {
        let mut batch = store.begin_write().unwrap();
        rows.iter().for_each(|(key, value)| batch.put_unjournaled(table, key, value).unwrap());
        batch.commit().unwrap();
        ranges(&store.snapshot().unwrap(), table).iter().map(|range| range.sum.bytes).collect()
    }

    #[test]
    fn a_table_is_divided_into_ranges_of_bounded_size() {
        let (store, _folder) = filled();
        let snapshot = store.snapshot().unwrap();
        let ranges = ranges(&snapshot, Table::AccountIds);
        assert!((20..48).contains(&ranges.len()), "{}", ranges.len());
        for range in &ranges {
            assert_eq!(snapshot.next_range(Table::AccountIds, &range.first).unwrap(), range.end);
        }
        assert!(ranges.iter().all(|range| range.sum.bytes <= MAX_RANGE_BYTES && range.sum.bytes > MAX_RANGE_BYTES / 4));
    }

    /// New rows of the first one come last and start a range. The second one's ranges are split.
    const APPENDED_AND_SPLIT: [Table; 2] = [Table::AccountTxLists, Table::Balances];

    #[test]
    fn a_range_holds_as_many_bytes_as_allowed_and_not_more() {
        const QUARTER: u64 = MAX_RANGE_BYTES / 4;
        let value = [7; QUARTER as usize - 1 - CHECKSUM_BYTES];
        for (table, quarters) in APPENDED_AND_SPLIT.into_iter().zip([[4, 1], [2, 3]]) {
            let (store, _folder) = test_store();
            let rows = [b"a", b"b", b"c", b"d"].map(|key| (&key[..], &value[..]));
            assert_eq!(range_bytes(&store, table, &rows), [MAX_RANGE_BYTES], "{table:?}");
            let expected = quarters.map(|count| count * QUARTER);
            assert_eq!(range_bytes(&store, table, &[(b"e", &value)]), expected, "{table:?}");
        }
    }

    #[test]
    fn a_row_that_is_longer_than_a_range_may_be_is_alone_in_its_range() {
        let long = [7; MAX_RANGE_BYTES as usize];
        let bytes = MAX_RANGE_BYTES + 1 + CHECKSUM_BYTES as u64;
        for table in APPENDED_AND_SPLIT {
            let (store, _folder) = test_store();
            assert_eq!(range_bytes(&store, table, &[(b"a", &long)]), [bytes], "{table:?}");
            assert_eq!(range_bytes(&store, table, &[(b"b", b"short")]), [bytes, 10], "{table:?}");
        }
    }

    #[test]
    fn a_range_that_is_still_too_large_after_a_split_is_split_when_it_grows() {
        let (long, table) = ([7; MAX_RANGE_BYTES as usize], Table::Balances);
        let bytes = MAX_RANGE_BYTES + 1 + CHECKSUM_BYTES as u64;
        let (store, _folder) = test_store();
        let rows: [(&[u8], &[u8]); 3] = [(b"a", b"1"), (b"c", b"1"), (b"b", &long)];
        assert_eq!(range_bytes(&store, table, &rows), [6, bytes + 6]);
        assert_eq!(range_bytes(&store, table, &[(b"c", b"2")]), [6, bytes + 6]);
        assert_eq!(range_bytes(&store, table, &[(b"c", b"10")]), [6, bytes, 7]);
    }

    #[test]
    fn a_range_is_split_at_half_of_its_bytes() {
        let (store, _folder) = test_store();
        let rows = [b"aa", b"bb", b"cc", b"dd"].map(|key| (&key[..], &b"value"[..]));
        assert_eq!(range_bytes(&store, Table::Balances, &rows), [44]);
        let snapshot = store.snapshot().unwrap();
        let range = snapshot.range(Table::Balances, &[]).unwrap();
        let halves = split_range(&snapshot.raw_cursor(Table::Balances).unwrap(), Table::Balances, &range).unwrap();
        let halves = halves.unwrap().map(|half| (half.first, half.end, half.sum.bytes));
        assert_eq!(halves, [(Vec::new(), Some(b"cc".to_vec()), 22), (b"cc".to_vec(), None, 22)]);
    }

    #[test]
    fn only_keys_outside_the_verified_ranges_are_unverified() {
        let verified = VerifiedRanges::default();
        let (first, end) = (b"b".to_vec(), Some(b"d".to_vec()));
        verified.add(Table::Accounts, Range { first, end, sum: RangeSum::default() });
        let unverified = |from: &[u8], to| verified.first_unverified(Table::Accounts, from, to);
        for (key, expected) in [(b"a", Some(b"a")), (b"b", None), (b"c", None), (b"d", Some(b"d")), (b"e", Some(b"e"))]
        {
            assert_eq!(unverified(key, Some(key)), expected.map(|key| key.to_vec()));
        }
        for to in [None, Some(&b"d"[..]), Some(b"e")] {
            assert_eq!(unverified(b"c", to), Some(b"d".to_vec()));
        }
    }

    #[test]
    fn a_row_that_a_scan_finds_and_a_lookup_does_not_is_damage() {
        let (store, _folder) = filled();
        let snapshot = store.snapshot().unwrap();
        let range = snapshot.range(Table::AccountIds, &[]).unwrap();
        // A lookup in another table finds none of the rows.
        let cursor = |table| snapshot.raw_cursor(table).unwrap();
        let verified = |search| verify([&cursor(Table::AccountIds), &cursor(search)], Table::AccountIds, &range);
        assert!(verified(Table::AccountIds).is_ok());
        assert!(matches!(verified(Table::Accounts), Err(StoreError::Incomplete { table: Table::AccountIds, .. })));
    }

    #[test]
    fn a_cursor_notices_the_loss_of_all_rows_of_a_range_exactly_when_it_passes_them() {
        let (store, folder) = filled();
        let lost = ranges(&store.snapshot().unwrap(), Table::AccountIds).swap_remove(2);
        let [first, end] = [lost.first, lost.end.unwrap()].map(|key| u16::from_be_bytes(key.try_into().unwrap()));
        let store = damage(store, folder.path(), |transaction, table| {
            (first..end).for_each(|key| transaction.del(table, &key.to_be_bytes(), None).unwrap());
        });
        let snapshot = store.snapshot().unwrap();
        // Returns whether a cursor moves from a key to another row as if nothing were lost.
        let moves = |from: u16, is_forward: bool| {
            forget(&store);
            let mut cursor = snapshot.cursor(Table::AccountIds).unwrap();
            assert!(cursor.seek(&from.to_be_bytes()).unwrap().is_some_and(|(key, _)| key == from.to_be_bytes()));
            let moved = if is_forward { cursor.next() } else { cursor.previous() };
            assert!(matches!(moved, Ok(Some(_)) | Err(StoreError::Incomplete { .. })), "{moved:?}");
            moved.is_ok()
        };
        assert_eq!([moves(first - 1, false), moves(first - 1, true)], [true, false]);
        assert_eq!([moves(end, false), moves(end, true)], [false, true]);
        forget(&store);
        let behind_the_last_row = super::super::next_key(&(first - 1).to_be_bytes());
        let found = snapshot.cursor(Table::AccountIds).unwrap().seek(&behind_the_last_row).map(|_| ());
        assert!(matches!(found, Err(StoreError::Incomplete { .. })), "{found:?}");
    }

    #[test]
    fn a_lost_surplus_or_stale_row_is_reported_as_corruption_by_a_lookup_of_what_is_absent_a_walk_and_a_verification() {
        type Damage = fn(&mut lmdb::RwTransaction<'_>, lmdb::Database);
        // An earlier value of the row, with a valid checksum of its own.
        let old: Damage = |transaction, table| {
            let mut row = vec![0; stored_length(Table::AccountIds, &[7; 300])];
            append_checksum(Table::AccountIds, &500u16.to_be_bytes(), &[7; 300], &mut row);
            transaction.put(table, &500u16.to_be_bytes(), &row, WriteFlags::empty()).unwrap();
        };
        let damages: [Damage; 4] = [
            |transaction, table| transaction.del(table, &500u16.to_be_bytes(), None).unwrap(),
            // The key gets one more bit, and its row is not read.
            |transaction, table| {
                let row = transaction.get(table, &500u16.to_be_bytes()).unwrap().to_vec();
                transaction.del(table, &500u16.to_be_bytes(), None).unwrap();
                transaction.put(table, &(500u16 | 1 << 15).to_be_bytes(), &row, WriteFlags::empty()).unwrap();
            },
            |transaction, table| {
                (480..520u16).for_each(|key| transaction.del(table, &key.to_be_bytes(), None).unwrap());
            },
            old,
        ];
        for (number, change) in damages.into_iter().enumerate() {
            let (store, folder) = filled();
            let store = damage(store, folder.path(), change);
            let snapshot = store.snapshot().unwrap();
            let key = 500u16.to_be_bytes();
            let is_damage =
                |error: StoreError| matches!(error, StoreError::Incomplete { table: Table::AccountIds, .. });
            match snapshot.get(Table::AccountIds, &key) {
                Ok(stale) => assert_eq!((number, stale), (3, Some(&[7; 300][..]))),
                Err(error) => assert!(number < 3 && is_damage(error), "{number}"),
            }
            assert!(snapshot.has_prefix(Table::AccountIds, &key).is_err(), "{number}");
            assert!(snapshot.entries(Table::AccountIds, &[]).unwrap().any(|entry| entry.is_err()), "{number}");
            let mut reverse = snapshot.entries_before(Table::AccountIds, &[], &[9]).unwrap();
            assert!(reverse.any(|entry| entry.is_err()), "{number}");
            assert!(snapshot.verify_all().is_err(), "{number}");
            assert!(snapshot.get(Table::AccountIds, &key).is_err(), "{number}: known damage");
            // All other rows are readable.
            assert!(snapshot.get(Table::AccountIds, &3u16.to_be_bytes()).unwrap().is_some(), "{number}");
            assert!(snapshot.get(Table::Accounts, &key).unwrap().is_none(), "{number}");
        }
    }

    #[test]
    fn all_corrupt_ranges_are_found_in_one_pass() {
        let (store, folder) = filled();
        let store = damage(store, folder.path(), |transaction, table| {
            [10u16, 990].iter().for_each(|key| transaction.del(table, &key.to_be_bytes(), None).unwrap());
        });
        let (mut position, mut damaged) = (VerifyPosition::default(), 0);
        let snapshot = store.snapshot().unwrap();
        loop {
            match snapshot.verify_next(&mut position) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => damaged += 1,
            }
        }
        assert_eq!(damaged, 2);
        assert_eq!(position, VerifyPosition::default());
    }

    #[test]
    fn a_verification_that_is_led_back_goes_on_with_the_next_table() {
        for (next, expected) in [(&b"c"[..], b"c".to_vec()), (b"b", Vec::new()), (b"a", Vec::new())] {
            let mut position = VerifyPosition::at(Table::AccountIds, b"b");
            let (table, key) = position.advance().unwrap();
            position.continue_at(table, &key, Some(next));
            let is_of_same_table = position.table == Table::AccountIds as u8;
            assert_eq!((is_of_same_table, position.key), (!expected.is_empty(), expected));
        }
    }

    /// Returns the number of calls that find damage until all ranges were compared.
    fn damages(snapshot: &Snapshot<'_>) -> usize {
        let (mut position, mut damaged) = (VerifyPosition::default(), 0);
        for _ in 0..1000 {
            match snapshot.verify_next(&mut position) {
                Ok(Some(_)) => {}
                Ok(None) => return damaged,
                Err(_) => damaged += 1,
            }
        }
        panic!("it has no end")
    }

    #[test]
    fn a_corrupt_checksum_invalidates_the_ranges_before_it_and_later_ones_are_verified() {
        let (store, folder) = filled();
        let store = damage(store, folder.path(), |transaction, table| {
            transaction.del(table, &990u16.to_be_bytes(), None).unwrap();
        });
        let store = damage_in(Table::Checksums, store, folder.path(), |transaction, table| {
            let first = checksum_key(Table::AccountIds, &[]);
            let mut row = transaction.get(table, &first).unwrap().to_vec();
            row[3] ^= 1;
            transaction.put(table, &first, &row, WriteFlags::empty()).unwrap();
        });
        let snapshot = store.snapshot().unwrap();
        assert_eq!(damages(&snapshot), 2);
        let error = snapshot.verify_range(Table::AccountIds, &[]).unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { table: Table::Checksums, .. }), "{error}");
        drop(snapshot);

        // The checksum is damaged while the store is open.
        let (store, _folder) = filled();
        store.snapshot().unwrap().verify_all().unwrap();
        assert!(store.verified.is_fully_verified(Table::AccountIds));
        let mut batch = store.begin_write().unwrap();
        batch.put_unjournaled(Table::Checksums, &checksum_key(Table::AccountIds, &[]), &[9; 15]).unwrap();
        batch.commit().unwrap();
        let snapshot = store.snapshot().unwrap();
        assert_eq!(damages(&snapshot), 1);
        assert!(snapshot.has_prefix(Table::AccountIds, &3u16.to_be_bytes()).is_err());
        assert!(snapshot.has_prefix(Table::AccountIds, &990u16.to_be_bytes()).unwrap());
    }

    #[test]
    fn a_checksum_with_an_impossible_byte_count_does_not_break_a_later_write() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        batch.put_unjournaled(Table::AccountTxLists, b"1", b"a row").unwrap();
        batch.commit().unwrap();
        store.snapshot().unwrap().verify_all().unwrap();
        let mut batch = store.begin_write().unwrap();
        batch.put_unjournaled(Table::Checksums, &checksum_key(Table::AccountTxLists, &[]), &[0xff; 16]).unwrap();
        batch.commit().unwrap();
        let mut batch = store.begin_write().unwrap();
        batch.put_unjournaled(Table::AccountTxLists, b"2", b"another one").unwrap();
        batch.commit().unwrap();
        assert!(store.snapshot().unwrap().verify_all().is_err());
    }

    #[test]
    fn a_replaced_block_that_the_disk_restores_is_detected_by_a_verification() {
        let key = |height: u64| height.to_be_bytes();
        let (store, folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        (1..=9).for_each(|height| batch.put_unjournaled(Table::Blocks, &key(height), b"a block").unwrap());
        (6..=9).for_each(|height| batch.put_unjournaled(Table::Undo, &key(height), b"old values").unwrap());
        batch.commit().unwrap();
        let store = damage_in(Table::Blocks, store, folder.path(), |transaction, table| {
            let value = b"another one";
            let mut row = vec![0; stored_length(Table::Blocks, value)];
            append_checksum(Table::Blocks, &key(8), value, &mut row);
            transaction.put(table, &key(8), &row, WriteFlags::empty()).unwrap();
        });
        let snapshot = store.snapshot().unwrap();
        let is_damage = |error: StoreError| matches!(error, StoreError::Incomplete { table: Table::Blocks, .. });
        assert!(snapshot.verify_all().is_err_and(is_damage));
        assert!(snapshot.get(Table::Blocks, &key(8)).is_err_and(is_damage));
        drop(snapshot);
        // The record names the state before the damage.
        std::fs::remove_file(folder.path().join("settled")).unwrap();
        let (store, _) =
            Store::open_existing(folder.path(), AccessMode::Exclusive, Options { map_size: 1 << 22 }).unwrap();
        assert!(store.snapshot().unwrap().verify_all().is_err_and(is_damage));
    }

    #[test]
    fn a_lost_block_is_damage_and_an_absent_checksum_is_not() {
        let (store, folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        (1..=9u64).for_each(|height| batch.put(Table::Blocks, &height.to_be_bytes(), b"a block").unwrap());
        batch.commit().unwrap();
        let store = damage_in(Table::Blocks, store, folder.path(), |transaction, table| {
            transaction.del(table, &3u64.to_be_bytes(), None).unwrap();
        });
        let snapshot = store.snapshot().unwrap();
        let found = snapshot.get(Table::Blocks, &3u64.to_be_bytes());
        assert!(matches!(found, Err(StoreError::Incomplete { table: Table::Blocks, .. })), "{found:?}");
        assert_eq!(snapshot.get(Table::Checksums, b"absent").unwrap(), None);
    }

    #[test]
    fn a_range_contains_its_first_key_and_not_its_end() {
        let range =
            |end: Option<&[u8]>| Range { first: b"b".to_vec(), end: end.map(<[u8]>::to_vec), sum: RangeSum::default() };
        let contained = |range: Range| [b"a", b"b", b"c", b"d"].map(|key| range.contains(key));
        assert_eq!(contained(range(Some(b"d"))), [false, true, true, false]);
        assert_eq!(contained(range(None)), [false, true, true, true]);
    }
}
