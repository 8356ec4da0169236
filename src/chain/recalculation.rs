//! Recalculates importances after the blocks at which they are due.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::vec;

use super::error::BlockError;
use crate::importance::{Calculation, CalculationProgress, Importance, Party, Settings};
use crate::model::network::ImportanceScheme;
use crate::model::{Amount, Height, Network};
use crate::state::{self, AccountImportance, AccountNumber, AccountTotals, ListWriter, Outlink};
use crate::store::{Batch, Read, StoreError, Table, block_key};

/// Accounts, outlinks or results processed in one step.
const ENTRIES_PER_STEP: usize = 64;
/// Budget of the calculation for one step: about the cost of a signature check.
const BUDGET: u32 = 2_000;

/// A recalculation in progress. It reads the state after the block, and must be finished before the next block starts.
pub struct Recalculation {
    height: Height,
    handed_over: u64,
    stage: Stage,
}

/// Numbers of accounts passed to a calculation one by one.
#[derive(Clone, Copy, Default)]
struct Handed {
    all: u64,
    /// Those that first occur in the block itself.
    young: u64,
}

enum Stage {
    /// Nothing is read yet.
    Beginning,
    /// Candidate accounts are read from this number on; the counts so far.
    Accounts(Box<Calculation>, AccountNumber, Handed),
    /// Outlinks are read from this height and index in the block on.
    Outlinks(Box<Calculation>, Height, usize),
    /// The calculation runs.
    Calculating(Box<Calculation>),
    /// The result is merged with the previous list and written.
    Writing(Box<Merge>, ListWriter),
    /// Lists below a height are deleted.
    Forgetting(Height),
    Done,
}

/// Returns the importance height for which importances are calculated after a block, or `None` if none are due. They
/// are due after the first block and after every 359th.
pub fn due_after(height: Height) -> Option<Height> {
    let next = height.next().grouped();
    (height == Height::NEMESIS || next != height.grouped()).then_some(next)
}

impl Recalculation {
    /// Creates the recalculation for a importance height.
    pub fn new(height: Height) -> Recalculation {
        Recalculation { height, handed_over: 0, stage: Stage::Beginning }
    }

    /// Does one piece of work. Returns whether there is more.
    pub fn step(&mut self, batch: &mut Batch<'_>, network: &Network) -> Result<bool, BlockError> {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Beginning => self.begin(batch, network)?,
            Stage::Accounts(calculation, from, handed) => {
                self.read_accounts(calculation, from, handed, batch, network)?
            }
            Stage::Outlinks(calculation, height, from) => read_outlinks(calculation, height, from, batch)?,
            Stage::Calculating(calculation) => self.calculate(calculation, batch)?,
            Stage::Writing(merge, writer) => match write(merge, writer, batch)? {
                Some((merge, writer)) => Stage::Writing(merge, writer),
                None => Stage::Forgetting(self.forgettable_below(batch, network)?),
            },
            Stage::Forgetting(lowest) => match state::forget_below(batch, lowest)? {
                true => Stage::Forgetting(lowest),
                false => Stage::Done,
            },
            Stage::Done => Stage::Done,
        };
        Ok(!matches!(self.stage, Stage::Done))
    }

    /// Returns the height below which lists can be deleted: no rollback needs them, and they are not kept as history.
    fn forgettable_below(&self, batch: &Batch<'_>, network: &Network) -> Result<Height, StoreError> {
        let lowest = self.height.minus(network.chain.rewrite_limit).grouped();
        let history = match network.chain.history_from {
            Some(_) => state::history_from(batch, self.height)?,
            None => None,
        };
        let lowest = history.map_or(lowest, |from| lowest.min(from.grouped()));
        state::forgettable_below(batch, lowest)
    }

    fn begin(&self, batch: &Batch<'_>, network: &Network) -> Result<Stage, BlockError> {
        let totals = AccountTotals::of(batch)?;
        // Accounts that existed before the block.
        let known = u64::from(totals.numbered - totals.new_at(self.height));
        let settings = Settings::new(self.height, network.chain.blocks_per_day(), known);
        let settings = Settings { expected: totals.stakes.into(), ..settings };
        let calculation = Box::new(Calculation::new(network.chain.importance, settings));
        Ok(Stage::Accounts(calculation, AccountNumber(0), Handed::default()))
    }

    /// Passes accounts to the calculation: all for proof of stake, those that may be eligible for proof of importance.
    fn read_accounts(
        &mut self,
        mut calculation: Box<Calculation>,
        from: AccountNumber,
        mut handed: Handed,
        batch: &Batch<'_>,
        network: &Network,
    ) -> Result<Stage, BlockError> {
        let table = match network.chain.importance {
            ImportanceScheme::ProofOfImportance => Table::Stakes,
            ImportanceScheme::ProofOfStake => Table::Accounts,
        };
        let mut walk = batch.walk(table)?;
        let mut entry = walk.seek(&from.key())?;
        for _ in 0..ENTRIES_PER_STEP {
            let Some((key, _)) = entry else { break };
            let (number, _) = AccountNumber::split_key(key)?;
            let account = state::account_at(batch, number)?;
            let address = number.address(batch)?;
            if account.is_known() && address != network.nemesis_signer {
                let vested = Amount(account.balance.at(self.height, &network.chain).vested);
                calculation.add_account(Party { number: number.0, address }, vested, Height(account.first_height));
                handed.all += 1;
                handed.young += u64::from(account.first_height == self.height.0);
            }
            entry = walk.next()?;
        }
        if let Some((key, _)) = entry {
            return Ok(Stage::Accounts(calculation, AccountNumber::split_key(key)?.0, handed));
        }
        self.pass_over(&mut calculation, handed, batch, network)?;
        let first = self.height.minus(network.chain.blocks_per_month());
        Ok(Stage::Outlinks(calculation, first, 0))
    }

    /// Adds the number of the accounts that were not passed.
    fn pass_over(
        &mut self,
        calculation: &mut Calculation,
        handed: Handed,
        batch: &Batch<'_>,
        network: &Network,
    ) -> Result<(), BlockError> {
        let nemesis = state::account(batch, &network.nemesis_signer)?;
        let totals = AccountTotals::of(batch)?;
        let all = u64::from(totals.known) - u64::from(nemesis.is_known());
        let young = u64::from(totals.new_at(self.height)) - u64::from(nemesis.first_height == self.height.0);
        let rest = all.checked_sub(handed.all).zip(young.checked_sub(handed.young));
        let (rest, young) = rest.ok_or(StoreError::Damaged("what is counted of the accounts"))?;
        calculation.pass_over(rest, young);
        self.handed_over = all;
        Ok(())
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

fn read_outlinks(
    mut calculation: Box<Calculation>,
    height: Height,
    from: usize,
    batch: &Batch<'_>,
) -> Result<Stage, BlockError> {
    let mut walk = batch.walk(Table::Outlinks)?;
    let Some((key, value)) = walk.seek(&block_key(height))? else { return Ok(Stage::Calculating(calculation)) };
    let found = key.try_into().map(u64::from_be_bytes).map(Height).map_err(|_| StoreError::Damaged("outlinks"))?;
    let from = if found == height { from } else { 0 };
    let (outlinks, is_more) = Outlink::read_some(value, from, ENTRIES_PER_STEP)?;
    for Outlink { sender, recipient, weight } in &outlinks {
        calculation.add_outlink(found, sender.0, recipient.0, *weight, || recipient.address(batch))?;
    }
    Ok(match is_more {
        true => Stage::Outlinks(calculation, found, from + outlinks.len()),
        false => Stage::Outlinks(calculation, found.next(), 0),
    })
}

/// Writes some entries. Returns the rest to write.
fn write(
    mut merge: Box<Merge>,
    mut writer: ListWriter,
    batch: &mut Batch<'_>,
) -> Result<Option<(Box<Merge>, ListWriter)>, BlockError> {
    for _ in 0..ENTRIES_PER_STEP {
        match merge.next(batch)? {
            Some(entry) => writer.push(entry, batch)?,
            None => {
                writer.finish(batch)?;
                return Ok(None);
            }
        }
    }
    Ok(Some((merge, writer)))
}

/// Merges the results of a recalculation with the previous values of the other accounts, by account number.
struct Merge {
    height: Height,
    results: Peekable<vec::IntoIter<Importance>>,
    /// The previous list; `None` once it is read to its end.
    list: Option<Height>,
    old: VecDeque<AccountImportance>,
    last: Option<AccountNumber>,
}

impl Merge {
    fn new(height: Height, results: Vec<Importance>, list: Option<Height>) -> Merge {
        Merge { height, results: results.into_iter().peekable(), list, old: VecDeque::new(), last: None }
    }

    fn next(&mut self, batch: &Batch<'_>) -> Result<Option<AccountImportance>, StoreError> {
        if let Some(list) = self.list.filter(|_| self.old.is_empty()) {
            self.old = state::chunk_after(batch, list, self.last)?.into();
            self.last = self.old.back().map(|entry| entry.account);
            self.list = self.last.map(|_| list);
        }
        let new = self.results.peek().map(|result| AccountNumber(result.account));
        let old = self.old.front().map(|entry| entry.account);
        if let (Some(new), Some(old)) = (new, old)
            && new == old
        {
            self.old.pop_front();
        }
        match (new, old) {
            (Some(new), old) if old.is_none_or(|old| new <= old) => Ok(self.results.next().map(|result| {
                let Importance { account, importance, page_rank } = result;
                AccountImportance { account: AccountNumber(account), height: self.height, importance, page_rank }
            })),
            _ => Ok(self.old.pop_front()),
        }
    }
}
