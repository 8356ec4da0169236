//! Vested and unvested balances, and their optional history.
//!
//! NIS1 keeps a history of entries per account. Vesting is a pure function of the last entry and the height, so an
//! account stores only the last entry.
//!
//! With history, when a block changes a balance, the previous one is stored under the height from which the account had
//! it. A change costs one row, a balance that never changes costs none, and a row stays valid as long as its block is in
//! the chain. A separate row holds the range of known heights, and every block extends it. A block that stores no
//! history does not extend it; from then on no height counts as known, and the next block that stores history starts a
//! new range.

use super::account::{AccountId, account};
use super::bytes::{Stored, stored};
use super::importances;
use super::{StateError, StateResult};
use crate::codec::{ByteReader, write_varint};
use crate::model::network::ChainParameters;
use crate::model::{Address, Height};
use crate::store::{Read, Result, StoreError, Table, Write, WriteTxn, tip};

/// Maximum balance of an account in micro-units. Sending is calculated with signed numbers.
pub const MAX_BALANCE: u64 = i64::MAX as u64;

/// Balance of an account at the height of its last change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VestedBalance {
    /// Height of the last change; 0 if there was none.
    pub height: u64,
    /// Unvested part in micro-units.
    pub unvested: u64,
    /// Vested part in micro-units.
    pub vested: u64,
}

impl VestedBalance {
    /// Returns the sum of both parts in micro-units.
    pub fn total(&self) -> u64 {
        self.unvested + self.vested
    }

    /// Returns whether the sum is at most [`MAX_BALANCE`].
    pub fn is_valid(&self) -> bool {
        self.unvested.checked_add(self.vested).is_some_and(|total| total <= MAX_BALANCE)
    }

    /// Returns the balance at a later height. A tenth of the unvested part vests every day, at heights one above a
    /// multiple of the blocks per day.
    pub fn at(mut self, height: Height, chain: &ChainParameters) -> VestedBalance {
        if chain.immediate_vesting || self.height == 0 {
            return self;
        }
        let day = chain.blocks_per_day().max(1);
        let mut step = self.height.div_ceil(day).saturating_mul(day).saturating_add(1);
        // Once nothing is unvested, further steps change nothing.
        while step <= height.0 && self.unvested > 0 {
            // Nine tenths, rounded down, without overflow at 64 bits.
            let unvested = self.unvested / 10 * 9 + self.unvested % 10 * 9 / 10;
            self.vested += self.unvested - unvested;
            self.unvested = unvested;
            self.height = step;
            step = step.saturating_add(day);
        }
        self
    }

    /// Adds an amount; fails if the sum exceeds [`MAX_BALANCE`].
    pub fn receive(&mut self, height: Height, amount: u64, chain: &ChainParameters) -> StateResult {
        let mut balance = self.at(height, chain);
        balance.height = height.0;
        let part = if chain.immediate_vesting { &mut balance.vested } else { &mut balance.unvested };
        *part = part.saturating_add(amount);
        if !balance.is_valid() {
            return Err(StateError::impossible(format!("a balance exceeds {MAX_BALANCE} micro-units")));
        }
        *self = balance;
        Ok(())
    }

    /// Deducts an amount from both parts in proportion, in IEEE doubles like NIS1; fails if the balance is too low.
    pub fn send(&mut self, height: Height, amount: u64, chain: &ChainParameters) -> StateResult {
        *self = self.at(height, chain);
        self.height = height.0;
        if self.total() < amount {
            return Err(StateError::impossible(format!("a balance of {} cannot pay {amount}", self.total())));
        }
        if chain.immediate_vesting {
            self.vested -= amount;
            return Ok(());
        }
        let ratio = self.unvested as f64 / self.total() as f64;
        let from_unvested = (ratio * amount as f64) as i64;
        let unvested = self.unvested as i64 - from_unvested;
        let vested = self.vested as i64 - (amount as i64 - from_unvested);
        // Rounding can deduct one unit more than is vested.
        let (unvested, vested) = if vested < 0 { (unvested + vested, 0) } else { (unvested, vested) };
        let parts = u64::try_from(unvested).ok().zip(u64::try_from(vested).ok());
        (self.unvested, self.vested) =
            parts.ok_or_else(|| StateError::impossible("an unvested balance is below zero"))?;
        Ok(())
    }

    /// Vests everything at once, as for amounts received in the nemesis block.
    pub fn vest_all(&mut self) {
        self.vested = self.total();
        self.unvested = 0;
    }
}

/// Key of the range row. It is shorter than an account id and sorts before all of them.
const RANGE_KEY: &[u8] = &[0];

const DAMAGED: StoreError = StoreError::Damaged("the history of a balance");

/// Heights at which the balances of all accounts are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryRange {
    /// First known height.
    pub from: Height,
    /// Last known height. Lower than the tip if later blocks stored no history.
    pub to: Height,
}

stored!(HistoryRange { from, to });

impl HistoryRange {
    /// Reads the range that the last block with history stored.
    pub fn of(state: &impl Read) -> Result<Option<HistoryRange>> {
        HistoryRange::get(state, Table::BalanceHistory, RANGE_KEY, "the height range of the balance history")
    }

    /// Returns the range after a block that stores history.
    pub(super) fn with_block(state: &impl Read, height: Height) -> Result<HistoryRange> {
        let before = HistoryRange::of(state)?.filter(|range| range.to.next() == height);
        Ok(HistoryRange { from: before.map_or(height, |range| range.from), to: height })
    }

    pub(super) fn put(self, txn: &mut impl Write) -> Result<()> {
        txn.put(Table::BalanceHistory, RANGE_KEY, &self.to_stored())
    }
}

/// Returns the first height of the history; `None` if the history does not reach the tip `last`.
pub fn history_from(state: &impl Read, last: Height) -> Result<Option<Height>> {
    Ok(HistoryRange::of(state)?.filter(|range| range.to == last).map(|range| range.from))
}

/// Deletes all stored balances outside the journal, but keeps the range. For a store whose history is compared with
/// that of another store as it grows.
pub fn clear_history(txn: &mut WriteTxn<'_>) -> Result<()> {
    let range = txn.get(Table::BalanceHistory, RANGE_KEY)?.map(<[u8]>::to_vec);
    txn.clear(Table::BalanceHistory)?;
    range.map_or(Ok(()), |range| txn.put_unjournaled(Table::BalanceHistory, RANGE_KEY, &range))
}

/// Returns the height from which an account had the balance of a row; `None` if the row holds no balance.
pub fn history_height(key: &[u8]) -> Option<Height> {
    let (_, height) = AccountId::split_key(key).ok()?;
    height.try_into().map(u32::from_be_bytes).map(|height| Height(height.into())).ok()
}

/// Keys hold heights in 32 bits, like accounts.
fn history_key(id: AccountId, height: u64) -> [[u8; 4]; 2] {
    [id.key(), u32::try_from(height).unwrap_or(u32::MAX).to_be_bytes()]
}

/// Stores a balance that is no longer current.
pub(super) fn store_replaced(txn: &mut impl Write, id: AccountId, over: &VestedBalance) -> Result<()> {
    let mut out = Vec::new();
    write_varint(&mut out, over.unvested);
    write_varint(&mut out, over.vested);
    txn.insert(Table::BalanceHistory, history_key(id, over.height).as_flattened(), &out)
}

fn read_balance(height: Height, value: &[u8]) -> Option<VestedBalance> {
    let mut input = ByteReader(value);
    let balance = VestedBalance { height: height.0, unvested: input.varint()?, vested: input.varint()? };
    balance.is_valid().then_some(balance)
}

/// Balance and importance of an account at a height.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HistoryEntry {
    /// Balance, vested up to that height.
    pub balance: VestedBalance,
    /// Importance in the recalculation in force; 0 if the account was not eligible.
    pub importance: f64,
    /// Page rank in the same recalculation.
    pub page_rank: f64,
}

/// A cursor over the history of an account. Queries at consecutive heights read the store only where the balance
/// changed. It holds no reference to the store, so it stays valid between snapshots while the chain only grows.
#[derive(Clone, Debug)]
pub struct AccountHistory {
    /// `None` if no block has changed the account.
    account: Option<AccountId>,
    /// The known heights.
    pub range: HistoryRange,
    current: VestedBalance,
    /// The balance found last, and the height at which it was replaced.
    cached: VestedBalance,
    replaced_at: Height,
    /// Importance height, importance and page rank found last.
    importance: (Height, f64, f64),
}

impl AccountHistory {
    /// Returns the history of an address up to the tip; `None` if the store has no history.
    pub fn new(state: &impl Read, address: &Address) -> Result<Option<AccountHistory>> {
        let Some(last) = tip(state)? else { return Ok(None) };
        let Some(from) = history_from(state, last.height)? else { return Ok(None) };
        Ok(Some(AccountHistory {
            account: AccountId::of(state, address)?,
            range: HistoryRange { from, to: last.height },
            current: account(state, address)?.balance,
            cached: VestedBalance::default(),
            replaced_at: Height(0),
            importance: (Height(0), 0.0, 0.0),
        }))
    }

    /// Returns balance and importance at a height; `None` if the height is not known.
    pub fn at(&mut self, state: &impl Read, height: Height, chain: &ChainParameters) -> Result<Option<HistoryEntry>> {
        if height < self.range.from || height > self.range.to {
            return Ok(None);
        }
        if height.0 < self.cached.height || height >= self.replaced_at {
            (self.cached, self.replaced_at) = self.find(state, height)?;
        }
        let list = height.importance_height();
        if self.importance.0 != list {
            let entry = self.account.map_or(Ok(None), |account| importances::importance_in(state, list, account))?;
            // The list contains ineligible accounts with an older entry.
            let entry = entry.filter(|entry| entry.height == list);
            self.importance = entry.map_or((list, 0.0, 0.0), |entry| (list, entry.importance, entry.page_rank));
        }
        let (_, importance, page_rank) = self.importance;
        Ok(Some(HistoryEntry { balance: self.cached.at(height, chain), importance, page_rank }))
    }

    /// Returns the balance in force at a height, as of its last change, and the height at which it was replaced.
    fn find(&self, state: &impl Read, height: Height) -> Result<(VestedBalance, Height)> {
        const NEVER: Height = Height(u64::MAX);
        let Some(account) = self.account else { return Ok((VestedBalance::default(), NEVER)) };
        if self.current.height <= height.0 {
            return Ok((self.current, NEVER));
        }
        let end = history_key(account, height.next().0);
        let later = state.first_from(Table::BalanceHistory, &account.key(), end.as_flattened())?;
        let over = later.map_or(Some(Height(self.current.height)), |(key, _)| history_height(key)).ok_or(DAMAGED)?;
        let Some((key, value)) = state.last_before(Table::BalanceHistory, &account.key(), end.as_flattened())? else {
            return Ok((VestedBalance::default(), over));
        };
        let balance = history_height(key).and_then(|height| read_balance(height, value));
        Ok((balance.ok_or(DAMAGED)?, over))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::test_store;

    const ACCOUNT: AccountId = AccountId(7);

    fn balance(height: u64, vested: u64) -> VestedBalance {
        VestedBalance { height, unvested: 0, vested }
    }

    /// Returns the history of an account whose balance became 1, 2 and 3 at the heights 10, 20 and 30.
    fn history(txn: &mut WriteTxn<'_>) -> AccountHistory {
        store_replaced(txn, ACCOUNT, &balance(10, 1)).unwrap();
        store_replaced(txn, ACCOUNT, &balance(20, 2)).unwrap();
        AccountHistory {
            account: Some(ACCOUNT),
            range: HistoryRange { from: Height(5), to: Height(100) },
            current: balance(30, 3),
            cached: VestedBalance::default(),
            replaced_at: Height(0),
            importance: (Height(0), 0.0, 0.0),
        }
    }

    fn vested(history: &mut AccountHistory, state: &impl Read, height: u64) -> Option<u64> {
        let entry = history.at(state, Height(height), &ChainParameters::after_all_forks()).unwrap();
        entry.map(|entry| entry.balance.vested)
    }

    #[test]
    fn a_balance_is_known_at_every_height_of_the_history_in_any_order() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        let mut history = history(&mut batch);
        let expected = |height| match height {
            5..10 => Some(0),
            10..20 => Some(1),
            20..30 => Some(2),
            30..=100 => Some(3),
            _ => None,
        };
        for height in (0..110).chain((0..110).rev()) {
            assert_eq!(vested(&mut history, &batch, height), expected(height), "at {height}");
        }
    }

    #[test]
    fn a_balance_is_read_once_for_all_heights_at_which_it_is_in_force() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        let mut history = history(&mut batch);
        assert_eq!(vested(&mut history, &batch, 25), Some(2));
        batch.clear(Table::BalanceHistory).unwrap();
        assert_eq!([20, 29, 20].map(|height| vested(&mut history, &batch, height)), [Some(2); 3]);
        assert_eq!(vested(&mut history, &batch, 19), Some(0), "the row is gone");
    }

    #[test]
    fn a_cleared_history_keeps_its_range_only() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        clear_history(&mut batch).unwrap();
        assert_eq!(HistoryRange::of(&batch).unwrap(), None);
        let range = HistoryRange { from: Height(5), to: Height(100) };
        range.put(&mut batch).unwrap();
        history(&mut batch);
        clear_history(&mut batch).unwrap();
        assert_eq!(HistoryRange::of(&batch).unwrap(), Some(range));
        assert_eq!(batch.keys_with_prefix(Table::BalanceHistory, &[]).unwrap(), [RANGE_KEY]);
    }

    #[test]
    fn a_tenth_vests_every_day() {
        let chain = ChainParameters::after_all_forks();
        let mut balance = VestedBalance::default();
        balance.receive(Height(1), 123_000_000, &chain).unwrap();
        let vested = |height| balance.at(Height(height), &chain).vested;
        assert_eq!(vested(1440), 0);
        assert_eq!(vested(1441), 12_300_000);
        assert_eq!(vested(2880), 12_300_000);
        assert_eq!(vested(2881), 23_370_000);
        assert_eq!(vested(4321), 33_333_000);
    }

    #[test]
    fn the_largest_balance_vests() {
        let chain = ChainParameters::after_all_forks();
        let balance = VestedBalance { height: 1, unvested: MAX_BALANCE, vested: 0 }.at(Height(1441), &chain);
        assert_eq!((balance.total(), balance.vested), (MAX_BALANCE, MAX_BALANCE / 10 + 1));
    }

    #[test]
    fn sending_takes_from_both_parts_with_the_rounding_of_doubles() {
        let chain = ChainParameters::after_all_forks();
        let mut balance = VestedBalance { height: 5, unvested: 900_000_000, vested: 100_000_001 };
        balance.send(Height(5), 333_333_333, &chain).unwrap();
        assert_eq!(balance, VestedBalance { height: 5, unvested: 600_000_001, vested: 66_666_667 });
        let mut balance = VestedBalance { height: 5, unvested: 15, vested: 7 };
        balance.send(Height(5), 22, &chain).unwrap();
        assert_eq!(balance.total(), 0);
    }

    #[test]
    fn an_unrepresentable_balance_cannot_be_received() {
        let chain = ChainParameters::after_all_forks();
        let mut balance = VestedBalance { height: 5, unvested: MAX_BALANCE - 16, vested: 7 };
        assert!(balance.receive(Height(5), 9, &chain).is_ok());
        for amount in [1, u64::MAX] {
            assert!(balance.receive(Height(5), amount, &chain).is_err());
            balance = VestedBalance { height: 5, unvested: MAX_BALANCE, vested: 0 };
        }
    }

    #[test]
    fn more_than_the_balance_cannot_be_sent() {
        let mut balance = VestedBalance { height: 5, unvested: 15, vested: 7 };
        assert!(balance.send(Height(5), 23, &ChainParameters::after_all_forks()).is_err());
    }

    #[test]
    fn a_balance_changes_with_time_only_while_a_part_of_it_has_to_vest() {
        let chain = ChainParameters::after_all_forks();
        assert_eq!(balance(5, 10).at(Height(100_000), &chain), balance(5, 10));
        let unvested = VestedBalance { height: 5, unvested: 10, vested: 0 };
        assert_ne!(unvested.at(Height(100_000), &chain), unvested);
        let never = VestedBalance { height: 0, ..unvested };
        assert_eq!(never.at(Height(100_000), &chain), never);
        let immediate = ChainParameters { immediate_vesting: true, ..chain };
        assert_eq!(unvested.at(Height(100_000), &immediate), unvested);
    }
}
