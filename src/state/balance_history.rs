//! What accounts had at earlier heights, on a node that is told to keep it.
//!
//! When a block changes a balance, the one before is kept under the height from which on the account had it. So a
//! change costs one row, a balance that never changed costs none, and what is kept stays true as long as its block is in
//! the chain. Which heights are known is in a row of its own that every block moves on. A block that keeps nothing leaves
//! it behind, and from then on nothing counts as known; the next one that keeps something begins anew.

use super::bytes::{ByteReader, ByteWriter};
use super::importances;
use super::numbers::AccountNumber;
use super::queries;
use super::vesting::VestedBalance;
use crate::model::network::ChainParameters;
use crate::model::{Address, Height};
use crate::store::{Batch, Read, StoreError, Table, Write, tip};

/// Key of the row that says what is known: shorter than the number of an account, and before all of them.
const RANGE_KEY: &[u8] = &[0];

const DAMAGED: StoreError = StoreError::Damaged("the history of a balance");

/// Heights at which the balances of all accounts are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryRange {
    /// The first of them.
    pub from: Height,
    /// The last of them: what is known ends there if later blocks have kept nothing.
    pub to: Height,
}

impl HistoryRange {
    /// As the last block that kept anything has left it.
    pub fn of(state: &impl Read) -> Result<Option<HistoryRange>, StoreError> {
        let Some(row) = state.get(Table::BalanceHistory, RANGE_KEY)? else { return Ok(None) };
        let mut input = ByteReader::new(row, "the heights whose balances are known");
        Ok(Some(HistoryRange { from: Height(input.u64()?), to: Height(input.u64()?) }))
    }

    /// The heights that are known after a block that keeps what it changes.
    pub(super) fn with_block(state: &impl Read, height: Height) -> Result<HistoryRange, StoreError> {
        let before = HistoryRange::of(state)?.filter(|range| range.to.next() == height);
        Ok(HistoryRange { from: before.map_or(height, |range| range.from), to: height })
    }

    /// Whether the last of these blocks has to keep the balances that it changes.
    pub(super) fn keeps_changes(&self) -> bool {
        self.from < self.to
    }

    pub(super) fn put(self, batch: &mut impl Write) -> Result<(), StoreError> {
        let mut out = ByteWriter::default();
        out.u64(self.from.0);
        out.u64(self.to.0);
        batch.put(Table::BalanceHistory, RANGE_KEY, &out.0)
    }
}

/// The height from which on the history of all accounts is known up to a block, which is the last one; `None` if it is
/// not kept.
pub fn history_from(state: &impl Read, last: Height) -> Result<Option<Height>, StoreError> {
    Ok(HistoryRange::of(state)?.filter(|range| range.to == last).map(|range| range.from))
}

/// Removes all balances that are kept, outside of the journal. What is known counts as known still: for a store whose
/// history is compared with another's as it grows.
pub fn forget_history(batch: &mut Batch<'_>) -> Result<(), StoreError> {
    let range = batch.get(Table::BalanceHistory, RANGE_KEY)?.map(<[u8]>::to_vec);
    batch.clear(Table::BalanceHistory)?;
    range.map_or(Ok(()), |range| batch.put_unjournaled(Table::BalanceHistory, RANGE_KEY, &range))
}

/// Height from which on an account had the balance in a row; `None` if the row is not about a balance.
pub fn history_height(key: &[u8]) -> Option<Height> {
    let (_, height) = AccountNumber::split_key(key).ok()?;
    height.try_into().map(u32::from_be_bytes).map(|height| Height(height.into())).ok()
}

/// Keys hold heights in 32 bits, as accounts do.
fn history_key(account: AccountNumber, height: u64) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&account.key());
    key[4..].copy_from_slice(&u32::try_from(height).unwrap_or(u32::MAX).to_be_bytes());
    key
}

/// Keeps a balance that is over.
pub(super) fn keep(batch: &mut impl Write, account: AccountNumber, over: &VestedBalance) -> Result<(), StoreError> {
    let mut out = ByteWriter::default();
    out.variable(over.unvested);
    out.variable(over.vested);
    batch.insert(Table::BalanceHistory, &history_key(account, over.height), &out.0)
}

fn read_kept(height: Height, value: &[u8]) -> Result<VestedBalance, StoreError> {
    let mut input = ByteReader::new(value, "the history of a balance");
    let balance = VestedBalance { height: height.0, unvested: input.variable()?, vested: input.variable()? };
    Some(balance).filter(VestedBalance::is_possible).ok_or(DAMAGED)
}

/// What an account had at a height.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HistoryEntry {
    /// Its balance, vested as far as it was then.
    pub balance: VestedBalance,
    /// Its importance in the recalculation that was in force; 0 if it did not take part.
    pub importance: f64,
    /// The same of its page rank.
    pub page_rank: f64,
}

/// The history of an account. It is asked for height after height, and searches anew only where something changed. It
/// holds nothing of the store, so that it can be kept while the chain goes on, as long as that only grows.
#[derive(Clone, Debug)]
pub struct AccountHistory {
    /// `None` if no block has changed the account.
    account: Option<AccountNumber>,
    known: HistoryRange,
    present: VestedBalance,
    /// The balance that was found last, and the height at which it was over.
    found: VestedBalance,
    over: Height,
    /// Importance and page rank that were found last, and for which grouped height.
    importance: (Height, f64, f64),
}

impl AccountHistory {
    /// The history of an address up to the last block; `None` if it is not kept.
    pub fn new(state: &impl Read, address: &Address) -> Result<Option<AccountHistory>, StoreError> {
        let Some(last) = tip(state)? else { return Ok(None) };
        let Some(from) = history_from(state, last.height)? else { return Ok(None) };
        Ok(Some(AccountHistory {
            account: AccountNumber::of(state, address)?,
            known: HistoryRange { from, to: last.height },
            present: queries::account(state, address)?.balance,
            found: VestedBalance::default(),
            over: Height(0),
            importance: (Height(0), 0.0, 0.0),
        }))
    }

    /// The heights that can be asked for.
    pub fn known(&self) -> HistoryRange {
        self.known
    }

    /// What the account had at a height; `None` if that is not known.
    pub fn at(
        &mut self,
        state: &impl Read,
        height: Height,
        chain: &ChainParameters,
    ) -> Result<Option<HistoryEntry>, StoreError> {
        if height < self.known.from || height > self.known.to {
            return Ok(None);
        }
        if height.0 < self.found.height || height >= self.over {
            (self.found, self.over) = self.find(state, height)?;
        }
        if self.importance.0 != height.grouped() {
            self.importance = self.find_importance(state, height.grouped())?;
        }
        let (_, importance, page_rank) = self.importance;
        Ok(Some(HistoryEntry { balance: self.found.at(height, chain), importance, page_rank }))
    }

    /// The balance at a height, as of when it had last changed, and the height at which it was over.
    fn find(&self, state: &impl Read, height: Height) -> Result<(VestedBalance, Height), StoreError> {
        const NEVER: Height = Height(u64::MAX);
        let Some(account) = self.account else { return Ok((VestedBalance::default(), NEVER)) };
        if self.present.height <= height.0 {
            return Ok((self.present, NEVER));
        }
        let mut walk = state.walk(Table::BalanceHistory)?;
        let later = walk.seek(&history_key(account, height.next().0))?;
        let over = later.filter(|(key, _)| key.starts_with(&account.key())).map(|(key, _)| history_height(key));
        let over = over.unwrap_or(Some(Height(self.present.height))).ok_or(DAMAGED)?;
        let earlier = if later.is_some() { walk.previous()? } else { walk.last()? };
        let Some((key, value)) = earlier.filter(|(key, _)| key.starts_with(&account.key())) else {
            return Ok((VestedBalance::default(), over));
        };
        Ok((read_kept(history_height(key).ok_or(DAMAGED)?, value)?, over))
    }

    fn find_importance(&self, state: &impl Read, group: Height) -> Result<(Height, f64, f64), StoreError> {
        let entry = self.account.map_or(Ok(None), |account| importances::importance_in(state, group, account))?;
        // Who took no part then is in the list with what he had before.
        let entry = entry.filter(|entry| entry.height == group);
        Ok(entry.map_or((group, 0.0, 0.0), |entry| (group, entry.importance, entry.page_rank)))
    }
}
