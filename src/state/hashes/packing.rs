//! Packing old rows of hashes into runs, and merging these, little by little along with the blocks.
//!
//! What is packed never changes again: no rollback comes to it. So all this is done outside of the journal. There is no
//! record of how far it has come, as the tables show it: an era is packed from its lowest row on, and a row leaves the one
//! table with its page in the other. Runs that are merged keep their pages until all rows of a page are in the new run,
//! so that a row may be in both, and is in one at any time.

use super::row::HashRow;
use super::runs::{FAN_IN, LAST_LEVEL, PAGE_ROWS, Page, Run};
use super::{Era, HashTotals, first_row, parse_key, row_key};
use crate::model::Height;
use crate::store::{Batch, Read, StoreError, Table, Walk, stored_header};

/// New hashes for which one page more is written. Packing and merging a hash takes a page for [`PAGE_ROWS`] each time:
/// this is enough for more levels than there are, and for catching up.
const HASHES_PER_PAGE: usize = 16;

/// What is packed and merged along with a block.
#[derive(Debug)]
pub struct HashPacking {
    /// The first era that may change.
    below: Era,
    /// Pages that are still to be written.
    pages: usize,
}

impl HashPacking {
    /// Begins, with a block that has so many hashes. No rollback comes to the block at the height `settled` nor to those
    /// below.
    pub fn new(state: &impl Read, settled: Height, hashes: usize) -> Result<HashPacking, StoreError> {
        let pages = 1 + hashes / HASHES_PER_PAGE;
        // The first block begins the first era, and may be a large one.
        let header = if settled > Height::NEMESIS { stored_header(state, settled)? } else { None };
        let below = match header {
            Some(header) => HashTotals::of(state)?.era(header.ids.0),
            None => 0,
        };
        Ok(HashPacking { below, pages })
    }

    /// Writes a page at most; whether there is more to do.
    pub fn step(&mut self, batch: &mut Batch<'_>) -> Result<bool, StoreError> {
        if self.pages == 0 || self.below == 0 {
            return Ok(false);
        }
        self.pages -= 1;
        Ok(pack_some(batch, self.below)? > 0)
    }
}

/// Writes one page: of the first era, if it is below one, or else of runs that can be merged. How many rows were
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

/// Moves the first rows of an era to its run.
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

/// The run that comes of the oldest ones that can be merged, those of low levels first. All of its eras are packed.
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

/// Writes the next page of a run that others are merged into, and removes those of their pages that it makes needless.
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

/// Reads the rows of a run in their order.
struct RunReader<'a> {
    walk: Walk<'a>,
    page: Option<Page<'a>>,
    place: usize,
}

impl<'a> RunReader<'a> {
    /// Begins behind the rows that are merged. Keys of pages that have no others are added to `needless`.
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

    /// The row at hand.
    fn row(&self) -> Option<HashRow> {
        self.page.and_then(|page| page.get(self.place))
    }

    /// Goes on to the next row. The key of a page that was left behind is added to `needless`.
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
