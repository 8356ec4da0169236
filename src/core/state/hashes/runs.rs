//! Sorted runs of packed hash rows, their packing and merging.
//!
//! A run holds the rows of some adjacent epochs, sorted and split into pages; a row of [`Table::HashRuns`] holds as
//! many hash rows as fill a page of the file. The key of a page is level and first epoch of its run and the last row of
//! the page, so one seek finds the page that may contain a row.
//!
//! Rows are packed, and runs merged, incrementally along with the blocks. Packed rows never change again, because no
//! rollback reaches them, so packing is not journaled. Its progress is not stored either; the tables show it. An epoch
//! is packed from its lowest row on, and a row leaves one table when its page enters the other. A run that is being
//! merged keeps a page until all its rows are in the new run, so a row may be in both runs but is always in at least one.

use super::{HashEpoch, HashRow, HashTotals, first_row, parse_key, row_key};
use crate::model::{Hash256, Height};
use crate::store::{Entry, Read, Result, StoreError, StoredHeader, Table, TableCursor, Write, stored_header};

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
        let start = u64::from(epoch) / SortedRun::epochs(level) * SortedRun::epochs(level);
        SortedRun { level, start: start as HashEpoch }
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
        let starts = |level| (0..FAN_IN).map(move |place| (level, place * SortedRun::epochs(level)));
        let children = self.level.checked_sub(1).into_iter().flat_map(starts);
        children.map(move |(level, offset)| SortedRun { level, start: self.start + offset as HashEpoch })
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
    pub fn last_row(self, state: &impl Read) -> Result<Option<HashRow>> {
        let prefix = &self.key(HashRow::LOWEST)[..RUN_BYTES];
        let last = state.last_before(Table::HashRuns, prefix, &[prefix, &[0xFF; HashRow::BYTES + 1]].concat())?;
        Ok(last.map(RunPage::read).transpose()?.map(|page| page.last()))
    }

    /// Returns whether the run contains a row.
    pub fn contains(self, state: &impl Read, row: HashRow) -> Result<bool> {
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
    pub fn read((key, value): Entry<'a>) -> Result<RunPage<'a>> {
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
    pub fn seek(cursor: &mut TableCursor<'a>, run: SortedRun, row: HashRow) -> Result<Option<RunPage<'a>>> {
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

    /// Iterates over the rows.
    pub fn rows(self) -> impl Iterator<Item = HashRow> {
        self.rows.iter().copied().map(HashRow::from_bytes)
    }
}

/// Calls `visit` with the rows that may belong to a hash, in runs with epochs from `oldest` on. Stops after a level
/// with a result, because higher levels are older. Returns the last result.
pub fn search<T>(
    state: &impl Read,
    oldest: HashEpoch,
    hash: &Hash256,
    mut visit: impl FnMut(HashRow) -> Result<Option<T>>,
) -> Result<Option<T>> {
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
            let mut reader = RunReader { cursor: &mut cursor, page: Some(page), index: page.position_of(first) };
            while let Some(row) = reader.row().filter(|row| row.matches_prefix(hash)) {
                found = visit(row)?.or(found);
                reader.advance()?;
            }
            page.run.next()
        };
    }
    Ok(found)
}

/// Number of new hashes per additional page. Packing or merging a hash costs one page per [`PAGE_ROWS`] hashes each
/// time, so this suffices for more levels than there are, and for catching up.
const HASHES_PER_PAGE: usize = 16;

/// Packing and merging work of one block.
#[derive(Debug)]
pub struct HashCompaction {
    /// The first epoch that may still change.
    below: HashEpoch,
    /// Pages left to write.
    pages: usize,
}

impl HashCompaction {
    /// Plans the work of a block with `hashes` hashes. No rollback reaches the block at height `final_height` or a lower
    /// one.
    pub fn new(state: &impl Read, final_height: Height, hashes: usize) -> Result<HashCompaction> {
        let pages = 1 + hashes / HASHES_PER_PAGE;
        // The nemesis block starts the first epoch and may be large.
        let header = if final_height > Height::NEMESIS { stored_header(state, final_height)? } else { None };
        let epoch = |header: StoredHeader| HashTotals::of(state).map(|totals| totals.epoch(header.ids.0));
        let below = header.map_or(Ok(0), epoch)?;
        Ok(HashCompaction { below, pages })
    }

    /// Writes at most one page; returns whether work remains.
    pub fn step(&mut self, txn: &mut impl Write) -> Result<bool> {
        if self.pages == 0 || self.below == 0 {
            return Ok(false);
        }
        self.pages -= 1;
        Ok(compact_page(txn, self.below)? > 0)
    }
}

/// Writes one page: of the first epoch if it is lower than `below`, otherwise of a merge. Returns the number of rows
/// moved; 0 if there is nothing to do.
pub fn compact_page(txn: &mut impl Write, below: HashEpoch) -> Result<usize> {
    match first_row(txn)? {
        Some((epoch, _)) if epoch < below => pack_page(txn, epoch),
        _ => next_merge(txn, below)?.map_or(Ok(0), |run| merge_page(txn, run)),
    }
}

/// Moves the first rows of an epoch to its run.
fn pack_page(txn: &mut impl Write, epoch: HashEpoch) -> Result<usize> {
    let entries = txn.entries(Table::Hashes, &epoch.to_be_bytes())?.take(PAGE_ROWS);
    let rows = entries.map(|entry| Ok(parse_key(entry?.0)?.1)).collect::<Result<Vec<_>>>()?;
    if let (Some(first), Some(last)) = (rows.first(), rows.last()) {
        write_page(txn, SortedRun::containing(epoch, 0), &rows)?;
        txn.delete_range_unjournaled(Table::Hashes, &row_key(epoch, *first), &row_key(epoch, *last))?;
    }
    Ok(rows.len())
}

fn write_page(txn: &mut impl Write, run: SortedRun, rows: &[HashRow]) -> Result<()> {
    let Some(last) = rows.last() else { return Ok(()) };
    let page: Vec<u8> = rows.iter().flat_map(|row| row.to_bytes()).collect();
    txn.put_unjournaled(Table::HashRuns, &run.key(*last), &page)
}

/// Returns the target of the next merge: of the lowest mergeable level, the oldest runs. All its epochs are packed.
fn next_merge(state: &impl Read, below: HashEpoch) -> Result<Option<SortedRun>> {
    let mut cursor = state.cursor(Table::HashRuns)?;
    let mut level = 0;
    while let Some(page) = RunPage::seek(&mut cursor, SortedRun::containing(0, level), HashRow::LOWEST)? {
        let Some(parent) = page.run.parent() else { break };
        if parent.end() <= u64::from(below) {
            return Ok(Some(parent));
        }
        level = page.run.level + 1;
    }
    Ok(None)
}

/// Writes the next page of a merged run, and deletes the source pages that are now redundant.
fn merge_page(txn: &mut impl Write, run: SortedRun) -> Result<usize> {
    let (mut rows, mut redundant) = (Vec::with_capacity(PAGE_ROWS), Vec::new());
    {
        let merged = run.last_row(txn)?;
        let cursors = run.children().map(|_| txn.cursor(Table::HashRuns));
        let mut cursors = cursors.collect::<Result<Vec<_>>>()?;
        let mut readers = Vec::with_capacity(FAN_IN as usize);
        for (child, cursor) in run.children().zip(&mut cursors) {
            let page = RunPage::seek(cursor, child, HashRow::LOWEST)?.filter(|page| page.run == child);
            let mut reader = RunReader { cursor, page, index: 0 };
            while reader.row().is_some_and(|row| Some(row) <= merged) {
                redundant.extend(reader.advance()?);
            }
            readers.push(reader);
        }
        while rows.len() < PAGE_ROWS {
            let next =
                readers.iter_mut().filter_map(|reader| Some((reader.row()?, reader))).min_by_key(|(row, _)| *row);
            let Some((row, reader)) = next else { break };
            rows.push(row);
            redundant.extend(reader.advance()?);
        }
    }
    write_page(txn, run, &rows)?;
    redundant.iter().try_for_each(|key| txn.delete_unjournaled(Table::HashRuns, key))?;
    Ok(rows.len())
}

/// Reads the rows of a run in order.
struct RunReader<'c, 'a> {
    cursor: &'c mut TableCursor<'a>,
    page: Option<RunPage<'a>>,
    index: usize,
}

impl RunReader<'_, '_> {
    /// Returns the current row.
    fn row(&self) -> Option<HashRow> {
        self.page.and_then(|page| page.get(self.index))
    }

    /// Moves to the next row. Returns the key of a page that is finished.
    fn advance(&mut self) -> Result<Option<[u8; KEY_BYTES]>> {
        self.index += 1;
        let Some(page) = self.page.filter(|page| page.len() == self.index) else { return Ok(None) };
        let next = self.cursor.next()?.map(RunPage::read).transpose()?;
        (self.page, self.index) = (next.filter(|next| next.run == page.run), 0);
        Ok(Some(page.run.key(page.last())))
    }
}

/// Returns whether a row is in a run.
pub fn is_packed(state: &impl Read, epoch: HashEpoch, row: HashRow) -> Result<bool> {
    for level in 0..=LAST_LEVEL {
        if SortedRun::containing(epoch, level).contains(state, row)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns table and key where a missing row belongs.
pub fn expected_key(state: &impl Read, epoch: HashEpoch, row: HashRow) -> Result<(Table, Vec<u8>)> {
    let run = SortedRun::containing(epoch, 0);
    let is_packed = match first_row(state)? {
        Some((first, _)) if first < epoch => false,
        Some((first, _)) if first == epoch => run.last_row(state)? >= Some(row),
        _ => state.has_prefix(Table::HashRuns, &[])?,
    };
    Ok(if is_packed { (Table::HashRuns, run.key(row).to_vec()) } else { (Table::Hashes, row_key(epoch, row).to_vec()) })
}

/// Counts the rows in runs. A row that is in both an old and a merged run counts once.
pub fn count_packed(state: &impl Read) -> Result<u64> {
    let mut count = 0;
    for entry in state.entries(Table::HashRuns, &[])? {
        let page = RunPage::read(entry?)?;
        let merging = match page.run.parent() {
            Some(parent) if parent.last_row(state)?.is_some() => Some(parent),
            _ => None,
        };
        for row in page.rows() {
            count += u64::from(!merging.map_or(Ok(false), |parent| parent.contains(state, row))?);
        }
    }
    Ok(count)
}
