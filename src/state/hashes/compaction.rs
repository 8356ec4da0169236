//! Packs old hash rows into runs and merges runs, incrementally along with the blocks.
//!
//! Packed rows never change again, because no rollback reaches them, so packing is not journaled. Its progress is not
//! stored either; the tables show it. An epoch is packed from its lowest row on, and a row leaves one table when its
//! page enters the other. A run that is being merged keeps a page until all its rows are in the new run, so a row may
//! be in both runs but is always in at least one.

use super::row::HashRow;
use super::runs::{FAN_IN, LAST_LEVEL, PAGE_ROWS, RunPage, SortedRun};
use super::{HashEpoch, HashTotals, first_row, parse_key, row_key};
use crate::model::Height;
use crate::store::{Read, StoreError, Table, TableCursor, WriteTxn, stored_header};

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
    pub fn new(state: &impl Read, final_height: Height, hashes: usize) -> Result<HashCompaction, StoreError> {
        let pages = 1 + hashes / HASHES_PER_PAGE;
        // The nemesis block starts the first epoch and may be large.
        let header = if final_height > Height::NEMESIS { stored_header(state, final_height)? } else { None };
        let below = match header {
            Some(header) => HashTotals::of(state)?.epoch(header.ids.0),
            None => 0,
        };
        Ok(HashCompaction { below, pages })
    }

    /// Writes at most one page; returns whether work remains.
    pub fn step(&mut self, txn: &mut WriteTxn<'_>) -> Result<bool, StoreError> {
        if self.pages == 0 || self.below == 0 {
            return Ok(false);
        }
        self.pages -= 1;
        Ok(compact_page(txn, self.below)? > 0)
    }
}

/// Writes one page: of the first epoch if it is lower than `below`, otherwise of a merge. Returns the number of rows
/// moved; 0 if there is nothing to do.
pub fn compact_page(txn: &mut WriteTxn<'_>, below: HashEpoch) -> Result<usize, StoreError> {
    match first_row(txn)? {
        Some((epoch, _)) if epoch < below => pack_page(txn, epoch),
        _ => match next_merge(txn, below)? {
            Some(run) => merge_page(txn, run),
            None => Ok(0),
        },
    }
}

/// Moves the first rows of an epoch to its run.
fn pack_page(txn: &mut WriteTxn<'_>, epoch: HashEpoch) -> Result<usize, StoreError> {
    let mut rows = Vec::with_capacity(PAGE_ROWS);
    txn.for_each_prefix(Table::Hashes, &epoch.to_be_bytes(), |key, _| {
        rows.push(parse_key(key)?.1);
        Ok(rows.len() < PAGE_ROWS)
    })?;
    if let (Some(first), Some(last)) = (rows.first(), rows.last()) {
        write_page(txn, SortedRun::containing(epoch, 0), &rows)?;
        txn.delete_range_unjournaled(Table::Hashes, &row_key(epoch, *first), &row_key(epoch, *last))?;
    }
    Ok(rows.len())
}

fn write_page(txn: &mut WriteTxn<'_>, run: SortedRun, rows: &[HashRow]) -> Result<(), StoreError> {
    let Some(last) = rows.last() else { return Ok(()) };
    let page: Vec<u8> = rows.iter().flat_map(|row| row.to_bytes()).collect();
    txn.put_unjournaled(Table::HashRuns, &run.key(*last), &page)
}

/// Returns the target of the next merge: of the lowest mergeable level, the oldest runs. All its epochs are packed.
fn next_merge(state: &impl Read, below: HashEpoch) -> Result<Option<SortedRun>, StoreError> {
    let mut cursor = state.cursor(Table::HashRuns)?;
    let mut level = 0;
    while level < LAST_LEVEL {
        let Some(page) = RunPage::seek(&mut cursor, SortedRun::containing(0, level), HashRow::LOWEST)? else { break };
        let Some(parent) = page.run.parent() else { break };
        if parent.end() <= u64::from(below) {
            return Ok(Some(parent));
        }
        level = page.run.level + 1;
    }
    Ok(None)
}

/// Writes the next page of a merged run, and deletes the source pages that are now redundant.
fn merge_page(txn: &mut WriteTxn<'_>, run: SortedRun) -> Result<usize, StoreError> {
    let (mut rows, mut redundant) = (Vec::with_capacity(PAGE_ROWS), Vec::new());
    {
        let merged = run.last_row(txn)?;
        let mut readers = Vec::with_capacity(FAN_IN as usize);
        for child in run.children() {
            readers.push(RunReader::new(txn.cursor(Table::HashRuns)?, child, merged, &mut redundant)?);
        }
        while rows.len() < PAGE_ROWS {
            let next =
                readers.iter_mut().filter_map(|reader| Some((reader.row()?, reader))).min_by_key(|(row, _)| *row);
            let Some((row, reader)) = next else { break };
            rows.push(row);
            reader.advance(&mut redundant)?;
        }
    }
    write_page(txn, run, &rows)?;
    redundant.iter().try_for_each(|key| txn.delete_unjournaled(Table::HashRuns, key))?;
    Ok(rows.len())
}

/// Reads the rows of a run in order.
struct RunReader<'a> {
    cursor: TableCursor<'a>,
    page: Option<RunPage<'a>>,
    index: usize,
}

impl<'a> RunReader<'a> {
    /// Starts after the rows already merged. Appends the keys of fully merged pages to `redundant`.
    fn new(
        mut cursor: TableCursor<'a>,
        run: SortedRun,
        merged: Option<HashRow>,
        redundant: &mut Vec<Vec<u8>>,
    ) -> Result<RunReader<'a>, StoreError> {
        let page = RunPage::seek(&mut cursor, run, HashRow::LOWEST)?.filter(|page| page.run == run);
        let mut reader = RunReader { cursor, page, index: 0 };
        while let (Some(row), Some(merged)) = (reader.row(), merged) {
            if row > merged {
                break;
            }
            reader.advance(redundant)?;
        }
        Ok(reader)
    }

    /// Returns the current row.
    fn row(&self) -> Option<HashRow> {
        self.page.and_then(|page| page.get(self.index))
    }

    /// Moves to the next row. Appends the key of a page that is finished to `redundant`.
    fn advance(&mut self, redundant: &mut Vec<Vec<u8>>) -> Result<(), StoreError> {
        self.index += 1;
        if let Some(page) = self.page.filter(|page| page.len() == self.index) {
            redundant.push(page.run.key(page.last()).to_vec());
            let next = self.cursor.next()?.map(RunPage::read).transpose()?;
            self.page = next.filter(|next| next.run == page.run);
            self.index = 0;
        }
        Ok(())
    }
}
