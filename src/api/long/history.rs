//! Streamed historical account data.

use super::{LongView, OpenList, Sheet, held_by};
use crate::api::budget::{Budget, cost};
use crate::api::chain_view::ChainView;
use crate::api::failure::Failure;
use crate::api::views::{DataGap, HistoryPoint};
use crate::model::{Address, Height};
use crate::net::machine::Taken;
use crate::state::AccountHistory;

const NOT_KEPT: Failure = Failure::argument("this node has no historical account data of the last block");

/// The requested heights: `start`, `start + step`, … up to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryPoints {
    /// First height.
    pub start: Height,
    /// Upper bound, inclusive.
    pub end: Height,
    /// Distance, not 0.
    pub step: u64,
}

/// Stream of the historical data of accounts at some heights: one list, or one list per account.
pub struct HistoryWriter {
    accounts: Accounts,
    points: HistoryPoints,
    /// Current account and next height.
    present: Option<(Address, Height)>,
    /// Outer list, if there are several accounts.
    outer: Option<OpenList>,
    list: Option<OpenList>,
}

enum Accounts {
    One(Option<Address>),
    Many { names: Vec<String>, found: Vec<Address>, next: usize },
}

impl HistoryWriter {
    /// Creates a stream of one account.
    pub fn of_one(account: Address, points: HistoryPoints) -> HistoryWriter {
        HistoryWriter::new(Accounts::One(Some(account)), points)
    }

    /// Creates a stream with a list for each of these addresses, in this order.
    pub fn of_many(names: Vec<String>, points: HistoryPoints) -> HistoryWriter {
        HistoryWriter::new(Accounts::Many { names, found: Vec::new(), next: 0 }, points)
    }

    fn new(accounts: Accounts, points: HistoryPoints) -> HistoryWriter {
        HistoryWriter { accounts, points, present: None, outer: None, list: None }
    }

    /// Validates addresses; returns whether all are checked.
    fn check(&mut self, view: &ChainView<'_>, budget: &mut Budget) -> Result<bool, Failure> {
        let Accounts::Many { names, found, .. } = &mut self.accounts else { return Ok(true) };
        while let Some(name) = names.get(found.len()) {
            found.push(Address::parse(name, view.network.byte).ok_or(Failure::BAD_ADDRESS)?);
            budget.spend(cost::ADDRESS);
            if budget.is_spent() {
                break;
            }
        }
        Ok(names.len() == found.len())
    }

    /// Starts the next account; returns `false` if there is none.
    fn begin_next(&mut self, sheet: &mut Sheet<'_>) -> bool {
        let account = match &mut self.accounts {
            Accounts::One(account) => account.take(),
            Accounts::Many { found, next, .. } => {
                *next += 1;
                found.get(*next - 1).copied()
            }
        };
        self.present = account.map(|account| (account, self.points.start));
        if account.is_some() {
            self.list = Some(match &mut self.outer {
                Some(outer) => outer.open_element(sheet, &DataGap),
                None => OpenList::open(sheet, &DataGap),
            });
        }
        account.is_some()
    }

    /// Continues the current account; returns whether it is complete.
    fn go_on(&mut self, view: &ChainView<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<bool, Failure> {
        let (Some((account, next)), Some(list)) = (&mut self.present, &mut self.list) else { return Ok(true) };
        // Recreated in each step, as a reorg may have happened meanwhile.
        let mut history = AccountHistory::new(view.snapshot, account)?.ok_or(NOT_KEPT)?;
        budget.spend(cost::HISTORY);
        let end = self.points.end.min(view.height);
        while *next <= end {
            let known = history.known();
            let entry = history.at(view.snapshot, *next, &view.network.chain)?.ok_or_else(|| {
                Failure::Argument(format!("historical account data begins at height {} here", known.from).into())
            })?;
            list.push(sheet, &HistoryPoint { height: *next, address: *account, entry });
            *next = next.plus(self.points.step);
            budget.spend(cost::HISTORY);
            if budget.is_spent() {
                return Ok(false);
            }
        }
        list.close(sheet);
        self.present = None;
        Ok(true)
    }
}

impl LongView for HistoryWriter {
    fn write_on(&mut self, view: &ChainView<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<Taken, Failure> {
        if !self.check(view, budget)? {
            return Ok(Taken::Unfinished);
        }
        if matches!(self.accounts, Accounts::Many { .. }) && self.outer.is_none() {
            self.outer = Some(OpenList::open(sheet, &DataGap));
        }
        loop {
            if self.present.is_none() && !self.begin_next(sheet) {
                break;
            }
            if !self.go_on(view, sheet, budget)? || budget.is_spent() {
                return Ok(Taken::Unfinished);
            }
        }
        if let Some(outer) = &mut self.outer {
            outer.close(sheet);
        }
        Ok(Taken::Done)
    }

    fn held_bytes(&self) -> usize {
        let accounts = match &self.accounts {
            Accounts::One(_) => 0,
            Accounts::Many { names, found, .. } => {
                names.iter().map(|name| name.capacity() + size_of::<String>()).sum::<usize>()
                    + found.len() * size_of::<Address>()
            }
        };
        held_by(&self.outer) + held_by(&self.list) + accounts
    }
}
