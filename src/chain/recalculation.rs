//! Recalculates importances after the blocks at which they are due.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::vec;

use super::error::BlockError;
use crate::importance::{Calculation, Settings};
use crate::model::{Amount, Height, Network};
use crate::state::{self, AccountId, AccountImportance, AccountTotals, ImportanceListWriter, Outlink};
use crate::store::{Read, StoreError, Table, WriteTxn, block_key};

/// Accounts, outlinks or results processed in one step.
const ENTRIES_PER_STEP: usize = 64;
/// Budget of the calculation for one step: about the cost of a signature check.
const BUDGET: u32 = 2_000;

/// A recalculation in progress. It reads the state after the block, and must be finished before the next block starts.
pub struct Recalculation {
    height: Height,
    stage: Stage,
}

enum Stage {
    /// Nothing is read yet.
    Starting,
    /// Candidate accounts are read from this number on.
    Accounts(Box<Calculation>, AccountId),
    /// Outlinks are read from this height and index in the block on.
    Outlinks(Box<Calculation>, Height, usize),
    /// The calculation runs.
    Calculating(Box<Calculation>),
    /// The result is merged with the previous list and written.
    Writing(Box<Merge>, ImportanceListWriter),
    /// Lists below a height are deleted.
    DeletingOldLists(Height),
    Done,
}

/// Returns the importance height for which importances are calculated after a block, or `None` if none are due. They
/// are due after the first block and after every 359th.
pub fn due_after(height: Height) -> Option<Height> {
    let next = height.next().importance_height();
    (height == Height::NEMESIS || next != height.importance_height()).then_some(next)
}

impl Recalculation {
    /// Creates the recalculation for a importance height.
    pub fn new(height: Height) -> Recalculation {
        Recalculation { height, stage: Stage::Starting }
    }

    /// Does one piece of work. Returns whether there is more.
    pub fn step(&mut self, txn: &mut WriteTxn<'_>, network: &Network) -> Result<bool, BlockError> {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Starting => {
                let calculation = Calculation::new(self.settings(txn, network)?);
                Stage::Accounts(Box::new(calculation), AccountId(0))
            }
            Stage::Accounts(calculation, from) => self.read_accounts(calculation, from, txn, network)?,
            Stage::Outlinks(calculation, height, from) => read_outlinks(calculation, height, from, txn)?,
            Stage::Calculating(calculation) => self.calculate(calculation, txn)?,
            Stage::Writing(merge, writer) => match write_some(merge, writer, txn)? {
                Some((merge, writer)) => Stage::Writing(merge, writer),
                None => Stage::DeletingOldLists(self.deletable_below(txn, network)?),
            },
            Stage::DeletingOldLists(lowest) => match state::delete_lists_below(txn, lowest)? {
                true => Stage::DeletingOldLists(lowest),
                false => Stage::Done,
            },
            Stage::Done => Stage::Done,
        };
        Ok(!matches!(self.stage, Stage::Done))
    }

    /// Returns the height below which lists can be deleted: no rollback needs them, and they are not kept as history.
    fn deletable_below(&self, txn: &WriteTxn<'_>, network: &Network) -> Result<Height, StoreError> {
        let lowest = self.height.minus(network.chain.rewrite_limit).importance_height();
        let history = match network.chain.history_from {
            Some(_) => state::history_from(txn, self.height)?,
            None => None,
        };
        let lowest = history.map_or(lowest, |from| lowest.min(from.importance_height()));
        state::deletable_below(txn, lowest)
    }

    fn settings(&self, txn: &WriteTxn<'_>, network: &Network) -> Result<Settings, StoreError> {
        let totals = AccountTotals::of(txn)?;
        // Accounts that existed before the block.
        let known = u64::from(totals.allocated - totals.new_at(self.height));
        let settings = Settings::new(self.height, network.chain.blocks_per_day(), known);
        let proof_of_stake = network.chain.proof_of_stake;
        Ok(Settings { proof_of_stake, expected_eligible: totals.stakes.into(), ..settings })
    }

    /// Returns the number of known accounts and of those that are new, without the nemesis account.
    fn known_accounts(&self, txn: &WriteTxn<'_>, network: &Network) -> Result<(u64, u64), StoreError> {
        let (totals, nemesis) = (AccountTotals::of(txn)?, state::account(txn, &network.nemesis_signer)?);
        let all = u64::from(totals.known) - u64::from(nemesis.is_known());
        let new = u64::from(totals.new_at(self.height)) - u64::from(nemesis.first_height == self.height.0);
        Ok((all, new))
    }

    /// Passes accounts to the calculation: all for proof of stake, those that may be eligible for proof of importance.
    fn read_accounts(
        &self,
        mut calculation: Box<Calculation>,
        from: AccountId,
        txn: &WriteTxn<'_>,
        network: &Network,
    ) -> Result<Stage, BlockError> {
        let table = if network.chain.proof_of_stake { Table::Accounts } else { Table::EligibleAccounts };
        let mut cursor = txn.cursor(table)?;
        let mut entry = cursor.seek(&from.key())?;
        for _ in 0..ENTRIES_PER_STEP {
            let Some((key, _)) = entry else { break };
            let (number, _) = AccountId::split_key(key)?;
            let account = state::account_at(txn, number)?;
            let address = number.address(txn)?;
            if account.is_known() && address != network.nemesis_signer {
                let vested = Amount(account.balance.at(self.height, &network.chain).vested);
                calculation.add_account(number.0, address, vested, Height(account.first_height));
            }
            entry = cursor.next()?;
        }
        if let Some((key, _)) = entry {
            return Ok(Stage::Accounts(calculation, AccountId::split_key(key)?.0));
        }
        let (all, new) = self.known_accounts(txn, network)?;
        if !calculation.set_known(all, new) {
            return Err(StoreError::Damaged("the account totals").into());
        }
        let first = self.height.minus(network.chain.blocks_per_month());
        Ok(Stage::Outlinks(calculation, first, 0))
    }

    fn calculate(&self, mut calculation: Box<Calculation>, txn: &mut WriteTxn<'_>) -> Result<Stage, BlockError> {
        if calculation.step(BUDGET)? {
            return Ok(Stage::Calculating(calculation));
        }
        let results = calculation.into_results();
        let before = state::last_recalculation(txn)?.map(|last| last.height);
        let eligible = results.accounts.len() as u64;
        let (height, accounts_counted) = (self.height, results.accounts_counted);
        let recalculation = state::RecalculationRecord { height, accounts_counted, eligible };
        let writer = ImportanceListWriter::begin(recalculation, txn)?;
        Ok(Stage::Writing(Box::new(Merge::new(results.accounts, before)), writer))
    }
}

fn read_outlinks(
    mut calculation: Box<Calculation>,
    height: Height,
    from: usize,
    txn: &WriteTxn<'_>,
) -> Result<Stage, BlockError> {
    let mut cursor = txn.cursor(Table::Outlinks)?;
    let Some((key, value)) = cursor.seek(&block_key(height))? else { return Ok(Stage::Calculating(calculation)) };
    let found = key.try_into().map(u64::from_be_bytes).map(Height).map_err(|_| StoreError::Damaged("outlinks"))?;
    let from = if found == height { from } else { 0 };
    let (outlinks, is_more) = Outlink::read_range(value, from, ENTRIES_PER_STEP)?;
    for Outlink { sender, recipient, weight } in &outlinks {
        calculation.add_outlink(found, sender.0, recipient.0, *weight, || recipient.address(txn))?;
    }
    Ok(match is_more {
        true => Stage::Outlinks(calculation, found, from + outlinks.len()),
        false => Stage::Outlinks(calculation, found.next(), 0),
    })
}

/// Writes some entries. Returns the rest to write.
fn write_some(
    mut merge: Box<Merge>,
    mut writer: ImportanceListWriter,
    txn: &mut WriteTxn<'_>,
) -> Result<Option<(Box<Merge>, ImportanceListWriter)>, BlockError> {
    for _ in 0..ENTRIES_PER_STEP {
        match merge.next(txn)? {
            Some(entry) => writer.push(entry, txn)?,
            None => {
                writer.finish(txn)?;
                return Ok(None);
            }
        }
    }
    Ok(Some((merge, writer)))
}

/// Merges the results of a recalculation with the previous values of the other accounts, by account number.
struct Merge {
    results: Peekable<vec::IntoIter<AccountImportance>>,
    /// The previous list; `None` once it is read to its end.
    list: Option<Height>,
    previous: VecDeque<AccountImportance>,
    last: Option<AccountId>,
}

impl Merge {
    fn new(results: Vec<AccountImportance>, list: Option<Height>) -> Merge {
        Merge { results: results.into_iter().peekable(), list, previous: VecDeque::new(), last: None }
    }

    fn next(&mut self, txn: &WriteTxn<'_>) -> Result<Option<AccountImportance>, StoreError> {
        if let Some(list) = self.list.filter(|_| self.previous.is_empty()) {
            self.previous = state::chunk_after(txn, list, self.last)?.into();
            self.last = self.previous.back().map(|entry| entry.account);
            self.list = self.last.map(|_| list);
        }
        let new = self.results.peek().map(|result| result.account);
        let old = self.previous.front().map(|entry| entry.account);
        if let (Some(new), Some(old)) = (new, old)
            && new == old
        {
            self.previous.pop_front();
        }
        match (new, old) {
            (Some(new), old) if old.is_none_or(|old| new <= old) => Ok(self.results.next()),
            _ => Ok(self.previous.pop_front()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::network::test_network;
    use crate::model::{Address, NetworkByte, Timestamp};
    use crate::state::{BlockContext, Effect, Ledger, RecalculationRecord};
    use crate::store::test_store;

    fn address(number: u8) -> Address {
        Address::from_stored([number; 40])
    }

    fn network() -> Network {
        test_network(NetworkByte::TESTNET, address(b'A'))
    }

    /// References accounts in a block, the first of which gets a stake, and the nemesis account in its block.
    fn refer(txn: &mut WriteTxn<'_>, height: u64, accounts: &[u8]) {
        let (network, mut block) = (network(), BlockContext::new(Height(height), Timestamp(0)));
        let mut ledger = Ledger { txn, block: &mut block, network: &network };
        if height == 1 {
            ledger.seed().unwrap();
        }
        for number in accounts {
            ledger.apply(&Effect::Reference(address(*number))).unwrap();
        }
        if let Some(number) = accounts.first() {
            ledger.account(&address(*number)).unwrap().balance.vested = Amount::whole(10_000).0;
        }
        ledger.flush().unwrap();
    }

    #[test]
    fn new_accounts_are_distinguished_from_older_ones_and_the_nemesis_account_does_not_count() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        let counts = |txn: &WriteTxn<'_>, height| {
            let recalculation = Recalculation::new(Height(height));
            let settings = recalculation.settings(txn, &network()).unwrap();
            assert_eq!((settings.height, settings.blocks_per_day), (Height(height), 1440));
            let known = recalculation.known_accounts(txn, &network()).unwrap();
            (settings.known_accounts, settings.expected_eligible, known)
        };
        refer(&mut batch, 1, b"BC");
        // The nemesis account has a stake.
        assert_eq!(counts(&batch, 1), (Some(0), 2, (2, 2)));
        refer(&mut batch, 359, b"DEF");
        assert_eq!(counts(&batch, 359), (Some(3), 3, (5, 3)));
        assert_eq!(counts(&batch, 718), (Some(6), 3, (5, 0)));
    }

    fn put_list(txn: &mut WriteTxn<'_>, height: u64, accounts: &[u32]) {
        let height = Height(height);
        let record = RecalculationRecord { height, accounts_counted: 9, eligible: 9 };
        let mut list = ImportanceListWriter::begin(record, txn).unwrap();
        accounts.iter().for_each(|account| list.push(entry(*account, height), txn).unwrap());
        list.finish(txn).unwrap();
    }

    fn entry(account: u32, height: Height) -> AccountImportance {
        AccountImportance { account: AccountId(account), height, importance: 0.5, page_rank: 0.5 }
    }

    #[test]
    fn results_replace_the_previous_values_of_their_accounts_and_the_others_stay_in_order() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        put_list(&mut batch, 1, &[1, 2, 3, 6]);
        let results = [2, 5].map(|account| entry(account, Height(359))).to_vec();
        let mut merge = Merge::new(results, Some(Height(1)));
        let mut merged = Vec::new();
        while let Some(entry) = merge.next(&batch).unwrap() {
            merged.push((entry.account.0, entry.height.0));
        }
        assert_eq!(merged, [(1, 1), (2, 359), (3, 1), (5, 359), (6, 1)]);
    }

    #[test]
    fn lists_that_no_rollback_needs_are_deleted_at_most_two_at_a_time() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        let heights = [359, 718, 1077, 1436, 1795];
        heights.iter().for_each(|height| put_list(&mut batch, *height, &[1]));
        let below = |txn: &WriteTxn<'_>| Recalculation::new(Height(1795)).deletable_below(txn, &network()).unwrap();
        assert_eq!(below(&batch), Height(719));
        while state::delete_lists_below(&mut batch, Height(719)).unwrap() {}
        // A rollback by 360 blocks reaches the block at height 1435, whose list is that of height 1077.
        assert_eq!(below(&batch), Height(1077));
    }
}
