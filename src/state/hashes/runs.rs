//! Sorted runs of packed hash rows.
//!
//! A run holds the rows of some adjacent epochs, sorted and split into pages; a row of [`Table::HashRuns`] holds as
//! many hash rows as fill a page of the file. The key of a page is level and first epoch of its run and the last row of
//! the page, so one seek finds the page that may contain a row.

use super::HashEpoch;
use super::row::HashRow;
use crate::model::Hash256;
use crate::store::{Entry, Read, StoreError, Table, TableCursor};

/// Rows of a full page. With key and checksum they fill one page of the file.
pub const PAGE_ROWS: usize = 254;
/// Log₂ of the number of runs that are merged into one of the next level.
const FAN_IN_BITS: u32 = 2;
/// Number of runs that are merged into one.
pub const FAN_IN: u64 = 1 << FAN_IN_BITS;
/// Level at which one run would hold all epochs.
pub const LAST_LEVEL: u8 = (HashEpoch::BITS / FAN_IN_BITS) as u8;

const RUN_BYTES: usize = 1 + size_of::<HashEpoch>();
const KEY_BYTES: usize = RUN_BYTES + HashRow::BYTES;

/// Identifies a run, which may have no pages. It starts at a multiple of the epochs per run of its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SortedRun {
    /// Level; a run of level 0 holds one epoch.
    pub level: u8,
    /// First epoch.
    pub start: HashEpoch,
}

impl SortedRun {
    /// Returns the run of a level that contains an epoch.
    pub fn containing(epoch: HashEpoch, level: u8) -> SortedRun {
        let behind = u64::from(epoch) / SortedRun::epochs(level) * SortedRun::epochs(level);
        SortedRun { level, start: behind as HashEpoch }
    }

    /// Returns the number of epochs per run of a level.
    fn epochs(level: u8) -> u64 {
        1 << (FAN_IN_BITS * u32::from(level))
    }

    /// Returns the epoch after the last one.
    pub fn end(self) -> u64 {
        u64::from(self.start) + SortedRun::epochs(self.level)
    }

    /// Returns the next run of the level or, after the last, the first run of the next level.
    pub(super) fn next(self) -> Option<SortedRun> {
        match HashEpoch::try_from(self.end()) {
            Ok(start) => Some(SortedRun { start, ..self }),
            Err(_) => (self.level < LAST_LEVEL).then_some(SortedRun { level: self.level + 1, start: 0 }),
        }
    }

    /// Returns the run into which it is merged.
    pub fn parent(self) -> Option<SortedRun> {
        (self.level < LAST_LEVEL).then(|| SortedRun::containing(self.start, self.level + 1))
    }

    /// Returns the runs that are merged into it.
    pub fn children(self) -> impl Iterator<Item = SortedRun> {
        let level = self.level.checked_sub(1);
        let child = move |level| {
            (0..FAN_IN).map(move |place| (level, u64::from(self.start) + place * SortedRun::epochs(level)))
        };
        level.into_iter().flat_map(child).map(|(level, start)| SortedRun { level, start: start as HashEpoch })
    }

    /// Returns the key of the page that ends with the row `last`.
    pub fn key(self, last: HashRow) -> [u8; KEY_BYTES] {
        let mut key = [0; KEY_BYTES];
        key[0] = self.level;
        key[1..RUN_BYTES].copy_from_slice(&self.start.to_be_bytes());
        key[RUN_BYTES..].copy_from_slice(&last.to_bytes());
        key
    }

    /// Returns the last row; `None` if the run has no pages.
    pub fn last_row(self, state: &impl Read) -> Result<Option<HashRow>, StoreError> {
        let mut cursor = state.cursor(Table::HashRuns)?;
        let behind = match self.next() {
            Some(next) => cursor.seek(&next.key(HashRow::LOWEST))?,
            None => None,
        };
        let last = if behind.is_some() { cursor.previous()? } else { cursor.last()? };
        let page = last.map(RunPage::read).transpose()?;
        Ok(page.filter(|page| page.run == self).map(|page| page.last()))
    }

    /// Returns whether the run contains a row.
    pub fn contains(self, state: &impl Read, row: HashRow) -> Result<bool, StoreError> {
        let page = RunPage::seek(&mut state.cursor(Table::HashRuns)?, self, row)?;
        Ok(page.is_some_and(|page| page.run == self && page.get(page.position_of(row)) == Some(row)))
    }
}

/// A page of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunPage<'a> {
    /// Run of the page.
    pub run: SortedRun,
    rows: &'a [[u8; HashRow::BYTES]],
}

impl<'a> RunPage<'a> {
    /// Decodes an entry of the table.
    pub fn read((key, value): Entry<'a>) -> Result<RunPage<'a>, StoreError> {
        let page = RunPage::parse(key, value);
        page.ok_or_else(|| StoreError::Corrupt { table: Table::HashRuns, key: key.to_vec() })
    }

    fn parse(key: &[u8], value: &'a [u8]) -> Option<RunPage<'a>> {
        let (level, rest) = key.split_first()?;
        let (start, last) = rest.split_first_chunk()?;
        let (rows, []) = value.as_chunks() else { return None };
        let (level, start) = (*level, HashEpoch::from_be_bytes(*start));
        let is_valid = level <= LAST_LEVEL
            && SortedRun::containing(start, level).start == start
            && last == rows.last()?.as_slice();
        is_valid.then_some(RunPage { run: SortedRun { level, start }, rows })
    }

    /// Returns the page of a run that contains a row if any does, or else the first page of a later run.
    pub fn seek(cursor: &mut TableCursor<'a>, run: SortedRun, row: HashRow) -> Result<Option<RunPage<'a>>, StoreError> {
        cursor.seek(&run.key(row))?.map(RunPage::read).transpose()
    }

    /// Returns the number of rows, at least one.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the row at an index.
    pub fn get(&self, place: usize) -> Option<HashRow> {
        self.rows.get(place).copied().map(HashRow::from_bytes)
    }

    /// Returns the last row.
    pub fn last(&self) -> HashRow {
        self.rows.last().copied().map_or(HashRow::LOWEST, HashRow::from_bytes)
    }

    /// Returns the index of the first row at or above `row`.
    pub fn position_of(&self, row: HashRow) -> usize {
        self.rows.partition_point(|bytes| HashRow::from_bytes(*bytes) < row)
    }

    /// Iterates over the rows from an index on.
    pub fn rows_from(self, place: usize) -> impl Iterator<Item = HashRow> {
        self.rows.iter().skip(place).copied().map(HashRow::from_bytes)
    }
}

/// Calls `visit` with the rows that may belong to a hash, in runs with epochs from `oldest` on. Stops after a level
/// with a result, because higher levels are older. Returns the last result.
pub fn search<T>(
    state: &impl Read,
    oldest: HashEpoch,
    hash: &Hash256,
    mut visit: impl FnMut(HashRow) -> Result<Option<T>, StoreError>,
) -> Result<Option<T>, StoreError> {
    let (mut cursor, mut found) = (state.cursor(Table::HashRuns)?, None);
    let first = HashRow::lowest_for(hash);
    let mut from = Some(SortedRun::containing(oldest, 0));
    while let Some(run) = from {
        let Some(page) = RunPage::seek(&mut cursor, run, first)? else { break };
        if page.run.level > run.level && found.is_some() {
            break;
        }
        let lowest = SortedRun::containing(oldest, page.run.level);
        from = if page.run < lowest {
            Some(lowest)
        } else if page.last() < first {
            // The first page of a later run than the one sought.
            Some(page.run)
        } else {
            found = search_page(&mut cursor, page, hash, &mut visit)?.or(found);
            page.run.next()
        };
    }
    Ok(found)
}

/// Searches the same in one run, starting at the page that contains the first candidate row if there is one.
fn search_page<'a, T>(
    cursor: &mut TableCursor<'a>,
    mut page: RunPage<'a>,
    hash: &Hash256,
    visit: &mut impl FnMut(HashRow) -> Result<Option<T>, StoreError>,
) -> Result<Option<T>, StoreError> {
    let (run, mut found) = (page.run, None);
    let mut place = page.position_of(HashRow::lowest_for(hash));
    while let Some(row) = page.get(place).filter(|row| row.matches_prefix(hash)) {
        found = visit(row)?.or(found);
        place += 1;
        if place == page.len() {
            let Some(next) = cursor.next()?.map(RunPage::read).transpose()?.filter(|next| next.run == run) else {
                break;
            };
            (page, place) = (next, 0);
        }
    }
    Ok(found)
}
