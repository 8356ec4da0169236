//! Packs old hash rows into runs and merges runs, incrementally along with the blocks.
//!
//! Packed rows never change again, because no rollback reaches them, so packing is not journaled. Its progress is not
//! stored either; the tables show it. An epoch is packed from its lowest row on, and a row leaves one table when its
//! page enters the other. A run that is being merged keeps a page until all its rows are in the new run, so a row may
//! be in both runs but is always in at least one.

use super::row::HashRow;
use super::runs::{FAN_IN, LAST_LEVEL, PAGE_ROWS, Page, Run};
use super::{Era, HashTotals, first_row, parse_key, row_key};
use crate::model::Height;
use crate::store::{Batch, Read, StoreError, Table, Walk, stored_header};

/// Number of new hashes per additional page. Packing or merging a hash costs one page per [`PAGE_ROWS`] hashes each
/// time, so this suffices for more levels than there are, and for catching up.
const HASHES_PER_PAGE: usize = 16;

/// Packing and merging work of one block.
#[derive(Debug)]
pub struct HashPacking {
    /// The first epoch that may still change.
    below: Era,
    /// Pages left to write.
    pages: usize,
}

impl HashPacking {
    /// Plans the work of a block with `hashes` hashes. No rollback reaches the block at height `settled` or a lower
    /// one.
    pub fn new(state: &impl Read, settled: Height, hashes: usize) -> Result<HashPacking, StoreError> {
        let pages = 1 + hashes / HASHES_PER_PAGE;
        // The nemesis block starts the first epoch and may be large.
        let header = if settled > Height::NEMESIS { stored_header(state, settled)? } else { None };
        let below = match header {
            Some(header) => HashTotals::of(state)?.era(header.ids.0),
            None => 0,
        };
        Ok(HashPacking { below, pages })
    }

    /// Writes at most one page; returns whether work remains.
    pub fn step(&mut self, batch: &mut Batch<'_>) -> Result<bool, StoreError> {
        if self.pages == 0 || self.below == 0 {
            return Ok(false);
        }
        self.pages -= 1;
        Ok(pack_some(batch, self.below)? > 0)
    }
}

/// Writes one page: of the first epoch if it is lower than `below`, otherwise of a merge. Returns the number of rows
/// moved; 0 if there is nothing to do.
pub fn pack_some(batch: &mut Batch<'_>, below: Era) -> Result<usize, StoreError> {
    match first_row(batch)? {
        Some((era, _)) if era < below => pack_page(batch, era),
        _ => match next_merge(batch, below)? {
            Some(run) => merge_page(batch, run),
            None => Ok(0),
        },
    }
}

/// Moves the first rows of an epoch to its run.
fn pack_page(batch: &mut Batch<'_>, era: Era) -> Result<usize, StoreError> {
    let mut rows = Vec::with_capacity(PAGE_ROWS);
    batch.each(Table::Hashes, &era.to_be_bytes(), |key, _| {
        rows.push(parse_key(key)?.1);
        Ok(rows.len() < PAGE_ROWS)
    })?;
    if let (Some(first), Some(last)) = (rows.first(), rows.last()) {
        write_page(batch, Run::holding(era, 0), &rows)?;
        batch.delete_range_unjournaled(Table::Hashes, &row_key(era, *first), &row_key(era, *last))?;
    }
    Ok(rows.len())
}

fn write_page(batch: &mut Batch<'_>, run: Run, rows: &[HashRow]) -> Result<(), StoreError> {
    let Some(last) = rows.last() else { return Ok(()) };
    let page: Vec<u8> = rows.iter().flat_map(|row| row.to_bytes()).collect();
    batch.put_unjournaled(Table::HashRuns, &run.key(*last), &page)
}

/// Returns the target of the next merge: of the lowest mergeable level, the oldest runs. All its epochs are packed.
fn next_merge(state: &impl Read, below: Era) -> Result<Option<Run>, StoreError> {
    let mut walk = state.walk(Table::HashRuns)?;
    let mut level = 0;
    while level < LAST_LEVEL {
        let Some(page) = Page::seek(&mut walk, Run::holding(0, level), HashRow::LOWEST)? else { break };
        let Some(parent) = page.run.parent() else { break };
        if parent.end() <= u64::from(below) {
            return Ok(Some(parent));
        }
        level = page.run.level + 1;
    }
    Ok(None)
}

/// Writes the next page of a merged run, and deletes the source pages that are now redundant.
fn merge_page(batch: &mut Batch<'_>, run: Run) -> Result<usize, StoreError> {
    let (mut rows, mut needless) = (Vec::with_capacity(PAGE_ROWS), Vec::new());
    {
        let merged = run.last_row(batch)?;
        let mut readers = Vec::with_capacity(FAN_IN as usize);
        for child in run.children() {
            readers.push(RunReader::new(batch.walk(Table::HashRuns)?, child, merged, &mut needless)?);
        }
        while rows.len() < PAGE_ROWS {
            let next =
                readers.iter_mut().filter_map(|reader| Some((reader.row()?, reader))).min_by_key(|(row, _)| *row);
            let Some((row, reader)) = next else { break };
            rows.push(row);
            reader.pass(&mut needless)?;
        }
    }
    write_page(batch, run, &rows)?;
    needless.iter().try_for_each(|key| batch.delete_unjournaled(Table::HashRuns, key))?;
    Ok(rows.len())
}

/// Reads the rows of a run in order.
struct RunReader<'a> {
    walk: Walk<'a>,
    page: Option<Page<'a>>,
    place: usize,
}

impl<'a> RunReader<'a> {
    /// Starts after the rows already merged. Appends the keys of fully merged pages to `needless`.
    fn new(
        mut walk: Walk<'a>,
        run: Run,
        merged: Option<HashRow>,
        needless: &mut Vec<Vec<u8>>,
    ) -> Result<RunReader<'a>, StoreError> {
        let page = Page::seek(&mut walk, run, HashRow::LOWEST)?.filter(|page| page.run == run);
        let mut reader = RunReader { walk, page, place: 0 };
        while let (Some(row), Some(merged)) = (reader.row(), merged) {
            if row > merged {
                break;
            }
            reader.pass(needless)?;
        }
        Ok(reader)
    }

    /// Returns the current row.
    fn row(&self) -> Option<HashRow> {
        self.page.and_then(|page| page.get(self.place))
    }

    /// Moves to the next row. Appends the key of a page that is finished to `needless`.
    fn pass(&mut self, needless: &mut Vec<Vec<u8>>) -> Result<(), StoreError> {
        self.place += 1;
        if let Some(page) = self.page.filter(|page| page.len() == self.place) {
            needless.push(page.run.key(page.last()).to_vec());
            let next = self.walk.next()?.map(Page::read).transpose()?;
            self.page = next.filter(|next| next.run == page.run);
            self.place = 0;
        }
        Ok(())
    }
}
