//! Verifies the hash index of a store against its blocks, whatever is packed.

use super::row::HashRow;
use super::runs::{LAST_LEVEL, RunPage, SortedRun};
use super::{HashEpoch, HashTotals, first_row, row_key};
use crate::codec::Context;
use crate::model::Height;
use crate::store::{Read, StoreError, Table, stored_block};

/// Counts the rows that the blocks require.
#[derive(Clone, Copy, Debug, Default)]
pub struct HashVerifier {
    rows: u64,
    packed: u64,
}

impl HashVerifier {
    /// Checks the rows of the block at a height. Returns table and key of the first missing row.
    pub fn verify_block(&mut self, state: &impl Read, height: Height) -> Result<Option<(Table, Vec<u8>)>, StoreError> {
        let Some((header, block)) = stored_block(state, height, Context::trusted_store())? else { return Ok(None) };
        let epoch = HashTotals::of(state)?.epoch(header.ids.0);
        for (index, transaction) in (0..).zip(&block.transactions) {
            for (number, one) in transaction.self_and_children().enumerate() {
                let row = HashRow::new(&one.hash(), height, index, number > 0);
                if state.contains(Table::Hashes, &row_key(epoch, row))? {
                    self.rows += 1;
                } else if is_packed(state, epoch, row)? {
                    self.packed += 1;
                } else {
                    return expected_key(state, epoch, row).map(Some);
                }
            }
        }
        Ok(None)
    }

    /// Once all blocks were checked, returns a table with more rows than required, and the surplus.
    pub fn surplus(&self, state: &impl Read) -> Result<Option<(Table, u64)>, StoreError> {
        let mut rows = 0;
        state.for_each_prefix(Table::Hashes, &[], |_, _| {
            rows += 1;
            Ok(true)
        })?;
        let counts = [(Table::Hashes, rows, self.rows), (Table::HashRuns, count_packed(state)?, self.packed)];
        let more = |(table, there, asked_for): (Table, u64, u64)| Some((table, there.checked_sub(asked_for)?));
        Ok(counts.into_iter().filter_map(more).find(|(_, more)| *more > 0))
    }
}

fn is_packed(state: &impl Read, epoch: HashEpoch, row: HashRow) -> Result<bool, StoreError> {
    for level in 0..=LAST_LEVEL {
        if SortedRun::containing(epoch, level).contains(state, row)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns table and key where a missing row belongs.
pub(super) fn expected_key(state: &impl Read, epoch: HashEpoch, row: HashRow) -> Result<(Table, Vec<u8>), StoreError> {
    let run = SortedRun::containing(epoch, 0);
    let is_packed = match first_row(state)? {
        Some((first, _)) if first < epoch => false,
        Some((first, _)) if first == epoch => run.last_row(state)? >= Some(row),
        _ => state.has_prefix(Table::HashRuns, &[])?,
    };
    Ok(match is_packed {
        true => (Table::HashRuns, run.key(row).to_vec()),
        false => (Table::Hashes, row_key(epoch, row).to_vec()),
    })
}

/// Counts the rows in runs. A row that is in both an old and a merged run counts once.
fn count_packed(state: &impl Read) -> Result<u64, StoreError> {
    let (mut count, mut merging) = (0, None);
    state.for_each_prefix(Table::HashRuns, &[], |key, value| {
        let page = RunPage::read((key, value))?;
        let parent = match merging {
            Some((run, parent)) if run == page.run => parent,
            _ => match page.run.parent() {
                Some(parent) => parent.last_row(state)?.map(|_| parent),
                None => None,
            },
        };
        merging = Some((page.run, parent));
        for row in page.rows_from(0) {
            count += match parent {
                Some(parent) if parent.contains(state, row)? => 0,
                _ => 1,
            };
        }
        Ok(true)
    })?;
    Ok(count)
}
