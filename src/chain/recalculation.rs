//! Recalculating importances after the blocks that call for it.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::vec;

use super::error::BlockError;
use crate::importance::{Calculation, CalculationProgress, Importance, Settings};
use crate::model::{Address, Amount, Height, Network};
use crate::state::{self, Account, AccountImportance, ListWriter, Outlink};
use crate::store::{Batch, Read, StoreError, Table};

/// Accounts, outlinks or results that are dealt with in one step.
const ENTRIES_PER_STEP: usize = 64;
/// Work of the calculation in one step; about as much as checking a signature.
const BUDGET: u32 = 2_000;

/// A recalculation in the making. It reads the state as the block has left it, and so must be over before the next
/// block begins.
pub struct Recalculation {
    height: Height,
    handed_over: u64,
    stage: Stage,
}

enum Stage {
    /// Accounts that existed before the block are counted, beginning with this key.
    Counting(u64, Vec<u8>),
    /// Accounts are read, beginning with this key.
    Accounts(Box<Calculation>, Vec<u8>),
    /// Outlinks are read, beginning with this key.
    Outlinks(Box<Calculation>, Vec<u8>),
    /// The calculation runs.
    Calculating(Box<Calculation>),
    /// The result is merged with the list before and written.
    Writing(Box<Merge>, ListWriter),
    /// Lists that no rollback comes back to are forgotten.
    Forgetting,
    /// Nothing is left to do.
    Done,
}

/// The grouped height for which importances are calculated after a block; `None` if none are due: they are after the
/// first block and after every 359th.
pub fn due_after(height: Height) -> Option<Height> {
    let next = height.next().grouped();
    (height == Height::NEMESIS || next != height.grouped()).then_some(next)
}

impl Recalculation {
    /// Begins one at a grouped height.
    pub fn new(height: Height) -> Recalculation {
        Recalculation { height, handed_over: 0, stage: Stage::Counting(0, Vec::new()) }
    }

    /// Does one piece of work; whether there is more.
    pub fn step(&mut self, batch: &mut Batch<'_>, network: &Network) -> Result<bool, BlockError> {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Counting(count, from) => self.count_accounts(count, &from, batch, network)?,
            Stage::Accounts(calculation, from) => self.read_accounts(calculation, &from, batch, network)?,
            Stage::Outlinks(calculation, from) => read_outlinks(calculation, &from, batch)?,
            Stage::Calculating(calculation) => self.calculate(calculation, batch)?,
            Stage::Writing(merge, writer) => write(merge, writer, batch)?,
            Stage::Forgetting => {
                let lowest = self.height.minus(network.chain.rewrite_limit).grouped();
                if state::forget_below(batch, lowest)? { Stage::Forgetting } else { Stage::Done }
            }
            Stage::Done => Stage::Done,
        };
        Ok(!matches!(self.stage, Stage::Done))
    }

    fn count_accounts(
        &self,
        mut count: u64,
        from: &[u8],
        batch: &Batch<'_>,
        network: &Network,
    ) -> Result<Stage, BlockError> {
        let next = visit_some(batch, Table::Accounts, from, |_, value| {
            count += u64::from(Account::from_bytes(value)?.first_height < self.height.0);
            Ok(())
        })?;
        Ok(match next {
            Some(key) => Stage::Counting(count, key),
            None => {
                let settings = Settings::new(self.height, network.chain.blocks_per_day(), count);
                Stage::Accounts(Box::new(Calculation::new(network.chain.importance, settings)), Vec::new())
            }
        })
    }

    fn read_accounts(
        &mut self,
        mut calculation: Box<Calculation>,
        from: &[u8],
        batch: &Batch<'_>,
        network: &Network,
    ) -> Result<Stage, BlockError> {
        let next = visit_some(batch, Table::Accounts, from, |key, value| {
            let address = Address::from_stored(key.try_into().map_err(|_| StoreError::Damaged("an address"))?);
            let account = Account::from_bytes(value)?;
            if account.is_known() && address != network.nemesis_signer {
                let vested = Amount(account.balance.at(self.height, &network.chain).vested);
                calculation.add_account(address, vested, Height(account.first_height));
                self.handed_over += 1;
            }
            Ok(())
        })?;
        Ok(match next {
            Some(key) => Stage::Accounts(calculation, key),
            None => {
                let first = self.height.minus(network.chain.blocks_per_month());
                Stage::Outlinks(calculation, first.0.to_be_bytes().to_vec())
            }
        })
    }

    fn calculate(&self, mut calculation: Box<Calculation>, batch: &mut Batch<'_>) -> Result<Stage, BlockError> {
        if calculation.step(BUDGET)? == CalculationProgress::Working {
            return Ok(Stage::Calculating(calculation));
        }
        let results = calculation.into_results();
        let before = state::last_recalculation(batch)?.map(|last| last.height);
        let eligible = results.accounts.len() as u64;
        let recalculation = state::RecalculationRecord { height: self.height, handed_over: self.handed_over, eligible };
        let writer = ListWriter::begin(recalculation, batch)?;
        Ok(Stage::Writing(Box::new(Merge::new(self.height, results.accounts, before)), writer))
    }
}

/// Calls `visit` with as many entries of a table as one step deals with, beginning at a key. The key at which the next
/// step begins; `None` once the end is reached.
fn visit_some(
    batch: &Batch<'_>,
    table: Table,
    from: &[u8],
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), StoreError>,
) -> Result<Option<Vec<u8>>, StoreError> {
    let mut walk = batch.walk(table)?;
    let mut entry = walk.seek(from)?;
    for _ in 0..ENTRIES_PER_STEP {
        let Some((key, value)) = entry else { return Ok(None) };
        visit(key, value)?;
        entry = walk.next()?;
    }
    Ok(entry.map(|(key, _)| key.to_vec()))
}

fn read_outlinks(mut calculation: Box<Calculation>, from: &[u8], batch: &Batch<'_>) -> Result<Stage, BlockError> {
    let next = visit_some(batch, Table::Outlinks, from, |key, value| {
        let outlink = Outlink::from_entry(key, value)?;
        calculation.add_outlink(outlink.height, &outlink.sender, &outlink.recipient, outlink.weight);
        Ok(())
    })?;
    Ok(match next {
        Some(key) => Stage::Outlinks(calculation, key),
        None => Stage::Calculating(calculation),
    })
}

fn write(mut merge: Box<Merge>, mut writer: ListWriter, batch: &mut Batch<'_>) -> Result<Stage, BlockError> {
    for _ in 0..ENTRIES_PER_STEP {
        match merge.next(batch)? {
            Some(entry) => writer.push(entry, batch)?,
            None => {
                writer.finish(batch)?;
                return Ok(Stage::Forgetting);
            }
        }
    }
    Ok(Stage::Writing(merge, writer))
}

/// The results of a recalculation together with what the accounts that took no part had before, by address.
struct Merge {
    height: Height,
    results: Peekable<vec::IntoIter<Importance>>,
    /// The list before; `None` once it is read to its end.
    list: Option<Height>,
    old: VecDeque<AccountImportance>,
    last: Option<Address>,
}

impl Merge {
    fn new(height: Height, results: Vec<Importance>, list: Option<Height>) -> Merge {
        Merge { height, results: results.into_iter().peekable(), list, old: VecDeque::new(), last: None }
    }

    fn next(&mut self, batch: &Batch<'_>) -> Result<Option<AccountImportance>, StoreError> {
        if let Some(list) = self.list.filter(|_| self.old.is_empty()) {
            self.old = state::chunk_after(batch, list, self.last.as_ref())?.into();
            self.last = self.old.back().map(|entry| entry.address);
            self.list = self.last.map(|_| list);
        }
        let new = self.results.peek().map(|result| result.address);
        let old = self.old.front().map(|entry| entry.address);
        if let (Some(new), Some(old)) = (new, old)
            && new == old
        {
            self.old.pop_front();
        }
        match (new, old) {
            (Some(new), old) if old.is_none_or(|old| new <= old) => Ok(self.results.next().map(|result| {
                let Importance { address, importance, page_rank } = result;
                AccountImportance { address, height: self.height, importance, page_rank }
            })),
            _ => Ok(self.old.pop_front()),
        }
    }
}
