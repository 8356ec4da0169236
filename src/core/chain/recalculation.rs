//! Recalculates importances after the blocks at which they are due.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::ops::Range;
use std::vec;

use crate::importance::{Calculation, CalculationParameters, Importances};
use crate::model::{Address, Amount, Hash256, Height, Network};
use crate::rules::{Rejection, RuleResult};
use crate::state::{self, AccountId, AccountImportance, AccountTotals, ImportanceListWriter, Outlink, VestedBalance};
use crate::store::{Read, Result, Store, StoreError, Table, WriteTxn, block_key, height_of_key};

/// Rows, outlinks or results processed in one step.
const ENTRIES_PER_STEP: usize = 64;
/// Kept accounts processed in one step, and how many of them cost as much as reading one.
const KEPT_PER_STEP: usize = 512;
const KEPT_PER_READ: usize = KEPT_PER_STEP / ENTRIES_PER_STEP;
/// Maximum number of accounts kept between recalculations, about 8 MB. With more, each recalculation reads all of them.
const MAX_KEPT: usize = 100_000;
/// Maximum number of changes remembered between recalculations.
const MAX_CHANGES: usize = 200_000;
/// Accounts, and blocks with outlinks, that are read ahead together.
const ACCOUNTS_PER_PART: u64 = 20_000;
const BLOCKS_PER_PART: u64 = 5_000;
/// Budget of the calculation for one step: about the cost of a signature check.
const BUDGET: u32 = 2_000;

/// An account that is eligible once its whole balance is vested.
#[derive(Debug)]
struct Stake {
    account: AccountId,
    address: Address,
    first_height: Height,
    balance: VestedBalance,
}

impl Stake {
    /// Reads an account. Returns `None` if it is unknown, or is the nemesis account.
    fn read(state: &impl Read, account: AccountId, network: &Network) -> Result<Option<Stake>> {
        let state::Account { balance, first_height, .. } = state::account_at(state, account)?;
        let address = account.address(state)?;
        let counts = first_height > 0 && address != network.nemesis_signer;
        Ok(counts.then_some(Stake { account, address, first_height: Height(first_height), balance }))
    }
}

/// The accounts with a stake as of the last recalculation, and which of them blocks have changed since, so that the next
/// recalculation reads only those. It follows one chain block by block, and is empty after anything else.
#[derive(Debug, Default)]
pub struct StakeCache {
    /// Hash of the last block; `None` if nothing is known.
    tip: Option<Hash256>,
    /// In ascending order of their ids.
    stakes: Vec<Stake>,
    changed: Vec<AccountId>,
}

impl StakeCache {
    /// Adds a block, which has changed the stakes of these accounts.
    pub fn follow(&mut self, parent: Option<Hash256>, block: Hash256, changed: Vec<AccountId>) {
        if self.tip != parent || self.changed.len() + changed.len() > MAX_CHANGES {
            return *self = StakeCache::default();
        }
        self.tip = Some(block);
        self.changed.extend(changed);
    }
}

/// A part of the rows that a recalculation reads of accounts, of the last month and of lists before it, to be read ahead:
/// those of a table whose keys begin with these numbers, with the accounts of these numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecalculationPart {
    table: Table,
    numbers: Range<u64>,
}

impl RecalculationPart {
    /// Returns the parts for the recalculation after the block at a height; nothing if none is due. Accounts that the
    /// `cache` keeps are not read, nor any if the store fails.
    pub fn all(height: Height, store: &Store, network: &Network, cache: &StakeCache) -> Vec<RecalculationPart> {
        let Some(due) = due_after(height) else { return Vec::new() };
        let totals = || store.snapshot().and_then(|snapshot| AccountTotals::of(&snapshot)).unwrap_or_default();
        let accounts = if cache.tip.is_none() { u64::from(totals().allocated) } else { 0 };
        let part = |table, step: u64| move |start| RecalculationPart { table, numbers: start..start + step };
        let accounts = (0..accounts).step_by(ACCOUNTS_PER_PART as usize);
        let accounts = accounts.map(part(candidates(network), ACCOUNTS_PER_PART));
        let month = (due.minus(network.chain.blocks_per_month()).0..=height.0).step_by(BLOCKS_PER_PART as usize);
        // From the list that is deleted to the one whose entries are kept.
        let lowest = due.minus(network.chain.rewrite_limit).importance_height();
        let lists =
            RecalculationPart { table: Table::Importances, numbers: lowest.minus(1).importance_height().0..due.0 };
        accounts.chain(month.map(part(Table::Outlinks, BLOCKS_PER_PART))).chain([lists]).collect()
    }

    /// Encodes the part: the number of its table in one byte, the first number, and the one after the last.
    pub fn to_bytes(&self) -> Vec<u8> {
        [&[self.table as u8][..], &self.numbers.start.to_be_bytes(), &self.numbers.end.to_be_bytes()].concat()
    }

    /// Decodes a part.
    pub fn from_bytes(bytes: &[u8]) -> Option<RecalculationPart> {
        let (table, rest) = bytes.split_first()?;
        let ([start, end], []) = rest.as_chunks() else { return None };
        let numbers = u64::from_be_bytes(*start)..u64::from_be_bytes(*end);
        Some(RecalculationPart { table: Table::from_number(*table)?, numbers })
    }

    /// Reads the rows. Returns whether it was done before the time `is_over`.
    pub fn read(&self, state: &impl Read, network: &Network, is_over: impl Fn() -> bool) -> Result<bool> {
        let has_accounts = !matches!(self.table, Table::Outlinks | Table::Importances);
        let start = self.numbers.start;
        let first = if has_accounts { (start as u32).to_be_bytes().to_vec() } else { start.to_be_bytes().to_vec() };
        for entry in state.entries_from(self.table, &[], &first)? {
            let number = entry?.0.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
            if number >= self.numbers.end {
                break;
            }
            if has_accounts {
                Stake::read(state, AccountId(number as u32), network)?;
            }
            if is_over() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Returns the table with the numbers of all accounts that may get an importance.
fn candidates(network: &Network) -> Table {
    if network.chain.proof_of_stake { Table::Accounts } else { Table::EligibleAccounts }
}

/// A recalculation in progress. It reads the state after the block, and must be finished before the next block starts.
pub struct Recalculation {
    height: Height,
    /// Hash of the block.
    block: Hash256,
    calculation: Calculation,
    stage: RecalculationStage,
}

enum RecalculationStage {
    /// Nothing is read yet.
    Starting,
    /// All candidate accounts are read from this number on.
    AllAccounts(AccountId),
    /// The accounts whose stakes have changed are read and replace those kept, and all are passed to the calculation.
    Merging(Peekable<vec::IntoIter<AccountId>>, Peekable<vec::IntoIter<Stake>>),
    /// Outlinks are read from this height and index in the block on.
    Outlinks(Height, usize),
    /// The calculation runs.
    Calculating,
    /// The result is merged with the previous list and written.
    Writing(Merge, ImportanceListWriter),
    /// Lists below a height are deleted.
    DeletingOldLists(Height),
    Done,
}

/// The stage that follows a step.
type NextStage = RuleResult<RecalculationStage>;

/// Returns the importance height for which importances are calculated after a block, or `None` if none are due. They
/// are due after the first block and after every 359th.
pub fn due_after(height: Height) -> Option<Height> {
    let next = height.next().importance_height();
    (height == Height::NEMESIS || next != height.importance_height()).then_some(next)
}

impl Recalculation {
    /// Creates the recalculation for an importance height, after a block with this hash.
    pub fn new(height: Height, block: Hash256) -> Recalculation {
        Recalculation { height, block, calculation: Calculation::default(), stage: RecalculationStage::Starting }
    }

    /// Does one piece of work. Returns whether there is more.
    pub fn step(&mut self, txn: &mut WriteTxn<'_>, network: &Network, cache: &mut StakeCache) -> RuleResult<bool> {
        self.stage = match std::mem::replace(&mut self.stage, RecalculationStage::Done) {
            RecalculationStage::Starting => self.begin(txn, network, cache)?,
            RecalculationStage::AllAccounts(from) => self.read_accounts(from, txn, network, cache)?,
            RecalculationStage::Merging(changed, kept) => self.merge(changed, kept, txn, network, cache)?,
            RecalculationStage::Outlinks(height, from) => self.read_outlinks(height, from, txn)?,
            RecalculationStage::Calculating => self.calculate(txn)?,
            RecalculationStage::Writing(merge, writer) => self.write(merge, writer, txn, network)?,
            RecalculationStage::DeletingOldLists(lowest) if state::delete_lists_below(txn, lowest)? => {
                RecalculationStage::DeletingOldLists(lowest)
            }
            RecalculationStage::DeletingOldLists(_) | RecalculationStage::Done => RecalculationStage::Done,
        };
        Ok(!matches!(self.stage, RecalculationStage::Done))
    }

    /// Returns the height below which lists can be deleted: no rollback needs them, and they are not kept as history.
    fn deletable_below(&self, txn: &WriteTxn<'_>, network: &Network) -> Result<Height> {
        let lowest = self.height.minus(network.chain.rewrite_limit).importance_height();
        let history = network.chain.history_from.map_or(Ok(None), |_| state::history_from(txn, self.height))?;
        let lowest = history.map_or(lowest, |from| lowest.min(from.importance_height()));
        state::deletable_below(txn, lowest)
    }

    fn begin(&mut self, txn: &WriteTxn<'_>, network: &Network, cache: &mut StakeCache) -> NextStage {
        self.calculation = Calculation::new(self.parameters(txn, network)?);
        // The cache is complete again once all accounts are read.
        if cache.tip.take() != Some(self.block) || network.chain.proof_of_stake {
            *cache = StakeCache::default();
            return Ok(RecalculationStage::AllAccounts(AccountId(0)));
        }
        let mut changed = std::mem::take(&mut cache.changed);
        changed.sort_unstable();
        changed.dedup();
        let kept = std::mem::take(&mut cache.stakes);
        cache.stakes.reserve_exact(kept.len() + changed.len());
        Ok(RecalculationStage::Merging(changed.into_iter().peekable(), kept.into_iter().peekable()))
    }

    fn parameters(&self, txn: &WriteTxn<'_>, network: &Network) -> Result<CalculationParameters> {
        let totals = AccountTotals::of(txn)?;
        // Accounts that existed before the block.
        let known = u64::from(totals.allocated - totals.new_at(self.height));
        Ok(CalculationParameters {
            proof_of_stake: network.chain.proof_of_stake,
            expected_eligible: totals.eligible.into(),
            account_ids: totals.allocated,
            ..CalculationParameters::new(self.height, network.chain.blocks_per_day(), known)
        })
    }

    /// Returns the number of known accounts and of those that are new, without the nemesis account.
    fn known_accounts(&self, txn: &WriteTxn<'_>, network: &Network) -> Result<(u64, u64)> {
        let (totals, nemesis) = (AccountTotals::of(txn)?, state::account(txn, &network.nemesis_signer)?);
        let all = u64::from(totals.known) - u64::from(nemesis.is_known());
        let new = u64::from(totals.new_at(self.height)) - u64::from(nemesis.first_height == self.height.0);
        Ok((all, new))
    }

    /// Passes accounts to the calculation: all for proof of stake, those that may be eligible for proof of importance.
    fn read_accounts(
        &mut self,
        from: AccountId,
        txn: &WriteTxn<'_>,
        network: &Network,
        cache: &mut StakeCache,
    ) -> NextStage {
        let mut entries = txn.entries_from(candidates(network), &[], &from.key())?;
        for entry in entries.by_ref().take(ENTRIES_PER_STEP) {
            if let Some(stake) = Stake::read(txn, AccountId::split_key(entry?.0)?.0, network)? {
                let stake = self.add(stake, network);
                if !network.chain.proof_of_stake && cache.stakes.len() <= MAX_KEPT {
                    cache.stakes.push(stake);
                }
            }
        }
        match entries.next().transpose()? {
            Some((key, _)) => Ok(RecalculationStage::AllAccounts(AccountId::split_key(key)?.0)),
            None => self.begin_outlinks(txn, network, cache),
        }
    }

    /// Passes the accounts to the calculation that the cache keeps, or that have changed and still have a stake.
    fn merge(
        &mut self,
        mut changed: Peekable<vec::IntoIter<AccountId>>,
        mut kept: Peekable<vec::IntoIter<Stake>>,
        txn: &WriteTxn<'_>,
        network: &Network,
        cache: &mut StakeCache,
    ) -> NextStage {
        let mut budget = KEPT_PER_STEP;
        while budget > 0 {
            let next_kept = kept.peek().map(|stake| stake.account);
            let stake = match changed.next_if(|account| next_kept.is_none_or(|kept| *account <= kept)) {
                Some(account) => {
                    budget = budget.saturating_sub(KEPT_PER_READ);
                    let _ = kept.next_if(|stake| stake.account == account);
                    let has_stake = txn.contains(Table::EligibleAccounts, &account.key())?;
                    if has_stake { Stake::read(txn, account, network)? } else { None }
                }
                None if next_kept.is_none() => return self.begin_outlinks(txn, network, cache),
                None => {
                    budget -= 1;
                    kept.next()
                }
            };
            cache.stakes.extend(stake.map(|stake| self.add(stake, network)));
        }
        Ok(RecalculationStage::Merging(changed, kept))
    }

    /// Passes an account to the calculation, with its balance at the height.
    fn add(&mut self, mut stake: Stake, network: &Network) -> Stake {
        stake.balance = stake.balance.at(self.height, &network.chain);
        let vested = Amount(stake.balance.vested);
        self.calculation.add_account(stake.account.0, stake.address, vested, stake.first_height);
        stake
    }

    /// All accounts are read: the cache is that of the chain up to the block.
    fn begin_outlinks(&mut self, txn: &WriteTxn<'_>, network: &Network, cache: &mut StakeCache) -> NextStage {
        if network.chain.proof_of_stake || cache.stakes.len() > MAX_KEPT {
            *cache = StakeCache::default();
        } else {
            cache.tip = Some(self.block);
        }
        let (all, new) = self.known_accounts(txn, network)?;
        if !self.calculation.set_known(all, new) {
            return Err(StoreError::Damaged("the account totals").into());
        }
        Ok(RecalculationStage::Outlinks(self.height.minus(network.chain.blocks_per_month()), 0))
    }

    fn read_outlinks(&mut self, height: Height, from: usize, txn: &WriteTxn<'_>) -> NextStage {
        let ids = AccountTotals::of(txn)?.allocated;
        let mut left = ENTRIES_PER_STEP;
        for entry in txn.entries_from(Table::Outlinks, &[], &block_key(height))? {
            let (key, row) = entry?;
            let found = height_of_key(key, "outlinks")?;
            let outlinks = Outlink::read_all(row)?;
            if outlinks.iter().any(|outlink| outlink.sender.max(outlink.recipient).0 >= ids) {
                return Err(StoreError::Damaged("outlinks").into());
            }
            let start = if found == height { from.min(outlinks.len()) } else { 0 };
            let end = outlinks.len().min(start + left);
            left -= end - start;
            self.calculation.add_outlinks(found, outlinks[start..end].iter().copied());
            if end < outlinks.len() {
                return Ok(RecalculationStage::Outlinks(found, end));
            }
            if left == 0 {
                return Ok(RecalculationStage::Outlinks(found.next(), 0));
            }
        }
        Ok(RecalculationStage::Calculating)
    }

    fn calculate(&mut self, txn: &mut WriteTxn<'_>) -> NextStage {
        if self.calculation.step(BUDGET).map_err(Rejection::impossible)? {
            return Ok(RecalculationStage::Calculating);
        }
        let Importances { accounts, accounts_counted, .. } = std::mem::take(&mut self.calculation).into_results();
        let list = state::last_recalculation(txn)?.map(|last| last.height);
        let eligible = accounts.len() as u64;
        let recalculation = state::RecalculationRecord { height: self.height, accounts_counted, eligible };
        let writer = ImportanceListWriter::begin(recalculation, txn)?;
        let results = accounts.into_iter().peekable();
        Ok(RecalculationStage::Writing(Merge { results, list, previous: VecDeque::new(), last: None }, writer))
    }

    /// Writes some entries.
    fn write(
        &self,
        mut merge: Merge,
        mut writer: ImportanceListWriter,
        txn: &mut WriteTxn<'_>,
        network: &Network,
    ) -> NextStage {
        for _ in 0..ENTRIES_PER_STEP {
            let Some(entry) = merge.next(txn)? else {
                writer.finish(txn)?;
                return Ok(RecalculationStage::DeletingOldLists(self.deletable_below(txn, network)?));
            };
            writer.push(entry, txn)?;
        }
        Ok(RecalculationStage::Writing(merge, writer))
    }
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
    fn next(&mut self, txn: &WriteTxn<'_>) -> Result<Option<AccountImportance>> {
        if let Some(list) = self.list.filter(|_| self.previous.is_empty()) {
            self.previous = state::chunk_after(txn, list, self.last)?.into();
            self.last = self.previous.back().map(|entry| entry.account);
            self.list = self.last.map(|_| list);
        }
        let old = self.previous.front().map(|entry| entry.account);
        let Some(new) = self.results.next_if(|result| old.is_none_or(|old| result.account <= old)) else {
            return Ok(self.previous.pop_front());
        };
        if old == Some(new.account) {
            self.previous.pop_front();
        }
        Ok(Some(new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::PublicKey;
    use crate::model::NetworkByte;
    use crate::model::network::test_network;
    use crate::model::units::MICRO;
    use crate::state::{BlockContext, Effect, Ledger, RecalculationRecord};
    use crate::store::{Write as _, test_store};

    const NEMESIS: u8 = b'A';
    const ACCOUNTS: u8 = 60;

    fn address(number: u8) -> Address {
        Address::from_public_key(&PublicKey([number; 32]), NetworkByte::TESTNET)
    }

    fn hash(height: u64) -> Hash256 {
        Hash256([height as u8; 32])
    }

    fn network() -> Network {
        test_network(NetworkByte::TESTNET, address(NEMESIS))
    }

    /// References accounts in a block, the first of which gets a stake, and the nemesis account in its block.
    fn refer(txn: &mut WriteTxn<'_>, height: u64, accounts: &[u8]) {
        let (network, mut block) = (network(), BlockContext::new(Height(height)));
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
            let recalculation = Recalculation::new(Height(height), hash(height));
            let parameters = recalculation.parameters(txn, &network()).unwrap();
            assert_eq!((parameters.height, parameters.blocks_per_day), (Height(height), 1440));
            let known = recalculation.known_accounts(txn, &network()).unwrap();
            (parameters.known_accounts, parameters.expected_eligible, known)
        };
        refer(&mut batch, 1, b"BC");
        // The nemesis account has a stake.
        assert_eq!(counts(&batch, 1), (Some(0), 2, (2, 2)));
        refer(&mut batch, 359, b"DEF");
        assert_eq!(counts(&batch, 359), (Some(3), 3, (5, 3)));
        assert_eq!(counts(&batch, 718), (Some(6), 3, (5, 0)));
    }

    #[test]
    fn parts_that_are_read_ahead_have_each_account_that_is_not_kept_and_each_block_of_the_month_once() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        refer(&mut batch, 1, b"BCDE");
        let (network, last) = (network(), 300 * 359);
        let accounts = batch.entries(Table::EligibleAccounts, &[]).unwrap().count();
        let first = Height(last).next().importance_height().minus(network.chain.blocks_per_month()).0;
        for height in [1, first - 1, first, first + BLOCKS_PER_PART, last] {
            batch.put(Table::Outlinks, &block_key(Height(height)), &[]).unwrap();
        }
        // The second of these lists is going to be deleted, and the last one has the values of the other accounts.
        let lists = [296, 297, 298, 299].map(|list| list * 359);
        lists.iter().for_each(|height| put_list(&mut batch, *height, &[1]));
        batch.commit().unwrap();
        let snapshot = store.snapshot().unwrap();
        let parts = |height, cache: &StakeCache| RecalculationPart::all(Height(height), &store, &network, cache);
        // Each row is read before the clock is looked at.
        let rows_of = |part: &RecalculationPart| {
            let rows = std::cell::Cell::new(0);
            let part = RecalculationPart::from_bytes(&part.to_bytes()).unwrap();
            let count = || {
                rows.set(rows.get() + 1);
                false
            };
            assert!(part.read(&snapshot, &network, count).unwrap());
            rows.get()
        };
        let new = StakeCache::default();
        let followed = StakeCache { tip: Some(hash(last)), ..StakeCache::default() };
        assert!(parts(last, &new).iter().map(rows_of).eq([accounts, 1, 1, 0, 0, 0, 0, 0, 0, 1, 2 * 3]), "{accounts}");
        assert_eq!(parts(last, &followed), parts(last, &new)[1..]);
        assert!(parts(last + 1, &new).is_empty());
        assert!(!parts(last, &new)[0].read(&snapshot, &network, || true).unwrap());
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
        let results = [2, 5].map(|account| entry(account, Height(359))).to_vec().into_iter().peekable();
        let mut merge = Merge { results, list: Some(Height(1)), previous: VecDeque::new(), last: None };
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
        let below =
            |txn: &WriteTxn<'_>| Recalculation::new(Height(1795), hash(1795)).deletable_below(txn, &network()).unwrap();
        assert_eq!(below(&batch), Height(719));
        while state::delete_lists_below(&mut batch, Height(719)).unwrap() {}
        // A rollback by 360 blocks reaches the block at height 1435, whose list is that of height 1077.
        assert_eq!(below(&batch), Height(1077));
    }

    /// Applies the payments of a block: sender, recipient and whole units. Returns the accounts whose stakes changed.
    fn apply(txn: &mut WriteTxn<'_>, network: &Network, height: u64, payments: &[(u8, u8, u64)]) -> Vec<AccountId> {
        let mut block = BlockContext::new(Height(height));
        let mut ledger = Ledger { txn, block: &mut block, network };
        if height == 1 {
            ledger.seed().unwrap();
        }
        for (from, to, units) in payments {
            let (from, to) = (address(*from), address(*to));
            ledger.apply(&Effect::Reference(to)).unwrap();
            ledger.apply(&Effect::Transfer { from, to, amount: units * MICRO }).unwrap();
        }
        ledger.flush().unwrap();
        block.changed_stakes
    }

    /// Returns the importances that are calculated after a block, and deletes them.
    fn recalculate(
        txn: &mut WriteTxn<'_>,
        network: &Network,
        height: u64,
        cache: &mut StakeCache,
    ) -> Vec<AccountImportance> {
        let mut recalculation = Recalculation::new(Height(height), hash(height));
        while recalculation.step(txn, network, cache).unwrap() {}
        let mut list = Vec::new();
        state::for_each_importance(txn, |entry| {
            list.push(entry);
            Ok(())
        })
        .unwrap();
        state::delete_lists_above(txn, Height(0)).unwrap();
        list
    }

    #[test]
    fn accounts_kept_between_recalculations_give_the_importances_of_all_accounts_read_anew() {
        let (store, _folder) = test_store();
        let network = network();
        let mut txn = store.begin_write().unwrap();
        let first: Vec<_> = (1..=ACCOUNTS / 2).map(|to| (NEMESIS, to, 9_900 + 10 * u64::from(to))).collect();
        let (mut cache, mut sizes) = (StakeCache::default(), Vec::new());
        for height in 1..=48_u64 {
            // Accounts fall below the minimum stake, reach it again, and appear.
            let payments = match height {
                1 => first.clone(),
                _ if height % 2 == 0 => vec![(NEMESIS, (height * 7 % 61) as u8, 2_000 * (height % 11))],
                _ => vec![((height % 29 + 1) as u8, (height * 5 % 31 + 1) as u8, 100 * (height % 7))],
            };
            let payments: Vec<_> = payments.into_iter().filter(|(from, to, _)| from != to).collect();
            let changed = apply(&mut txn, &network, height, &payments);
            cache.follow((height > 1).then(|| hash(height - 1)), hash(height), changed);
            if height % 6 == 0 {
                assert_eq!(cache.tip, Some(hash(height)), "the cache follows the chain");
                let anew = recalculate(&mut txn, &network, height, &mut StakeCache::default());
                assert_eq!(recalculate(&mut txn, &network, height, &mut cache), anew, "height {height}");
                sizes.push((cache.stakes.len(), anew.len()));
            }
        }
        assert!(sizes.iter().any(|size| size.0 != sizes[0].0), "stakes come and go: {sizes:?}");
    }

    #[test]
    fn kept_accounts_belong_to_one_chain_and_have_a_limit() {
        let mut cache = StakeCache::default();
        cache.follow(None, hash(1), vec![AccountId(1)]);
        cache.follow(Some(hash(1)), hash(2), vec![AccountId(2), AccountId(1)]);
        assert_eq!((cache.tip, cache.changed.len()), (Some(hash(2)), 3));
        cache.follow(Some(hash(1)), hash(3), vec![AccountId(3)]);
        assert_eq!((cache.tip, cache.changed.len()), (None, 0), "another block at the same height");
        cache.follow(Some(hash(3)), hash(4), vec![AccountId(3)]);
        assert_eq!(cache.tip, None, "nothing is known until all accounts are read");
        cache.tip = Some(hash(4));
        cache.follow(Some(hash(4)), hash(5), vec![AccountId(1); MAX_CHANGES]);
        assert_eq!((cache.tip, cache.changed.len()), (Some(hash(5)), MAX_CHANGES));
        cache.follow(Some(hash(5)), hash(6), vec![AccountId(1)]);
        assert_eq!((cache.tip, cache.changed.len()), (None, 0));
    }
}
