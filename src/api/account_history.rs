//! Historical account data: handlers and stream.

use super::accounts::read_names;
use crate::api::budget::{Budget, cost};
use crate::api::chain_snapshot::ChainSnapshot;
use crate::api::error::ApiError;
use crate::api::request_context::{Readable, RequestContext, positive_height};
use crate::api::streams::{BodyWriter, ListWriter, ResponseStream, list_bytes};
use crate::api::views::{DataListHead, HistoryPoint};
use crate::codec::{Decoder, ReadError};
use crate::model::{Address, Height};
use crate::net::service::Progress;
use crate::state::AccountHistory;

/// Maximum number of heights of a request, for all accounts together.
const MAX_POINTS: u64 = 10_000;
const NO_HISTORY: ApiError = ApiError::internal("this node does not support historical account data retrieval");
const NOT_KEPT: ApiError = ApiError::argument("this node has no historical account data of the last block");

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
pub struct HistoryStream {
    accounts: Accounts,
    points: HistoryPoints,
    /// Current account and next height.
    current: Option<(Address, Height)>,
    /// Outer list, if there are several accounts.
    outer: Option<ListWriter>,
    list: Option<ListWriter>,
}

enum Accounts {
    One(Option<Address>),
    Many { names: Vec<String>, found: Vec<Address>, next: usize },
}

impl HistoryStream {
    /// Creates a stream of one account.
    pub fn of_one(account: Address, points: HistoryPoints) -> HistoryStream {
        HistoryStream::new(Accounts::One(Some(account)), points)
    }

    /// Creates a stream with a list for each of these addresses, in this order.
    pub fn of_many(names: Vec<String>, points: HistoryPoints) -> HistoryStream {
        HistoryStream::new(Accounts::Many { names, found: Vec::new(), next: 0 }, points)
    }

    fn new(accounts: Accounts, points: HistoryPoints) -> HistoryStream {
        HistoryStream { accounts, points, current: None, outer: None, list: None }
    }

    /// Validates addresses; returns whether all are checked.
    fn check(&mut self, view: &ChainSnapshot<'_>, budget: &mut Budget) -> Result<bool, ApiError> {
        let Accounts::Many { names, found, .. } = &mut self.accounts else { return Ok(true) };
        while let Some(name) = names.get(found.len()) {
            found.push(Address::parse(name, view.network.byte).ok_or(ApiError::BAD_ADDRESS)?);
            budget.charge(cost::ADDRESS);
            if budget.is_exhausted() {
                break;
            }
        }
        Ok(names.len() == found.len())
    }

    /// Starts the next account; returns `false` if there is none.
    fn begin_next(&mut self, writer: &mut BodyWriter<'_>) -> bool {
        let account = match &mut self.accounts {
            Accounts::One(account) => account.take(),
            Accounts::Many { found, next, .. } => {
                *next += 1;
                found.get(*next - 1).copied()
            }
        };
        self.current = account.map(|account| (account, self.points.start));
        if account.is_some() {
            self.list = Some(match &mut self.outer {
                Some(outer) => outer.open_element(writer, &DataListHead),
                None => ListWriter::open(writer, &DataListHead),
            });
        }
        account.is_some()
    }

    /// Continues the current account; returns whether it is complete.
    fn continue_account(
        &mut self,
        view: &ChainSnapshot<'_>,
        writer: &mut BodyWriter<'_>,
        budget: &mut Budget,
    ) -> Result<bool, ApiError> {
        let (Some((account, next)), Some(list)) = (&mut self.current, &mut self.list) else { return Ok(true) };
        // Recreated in each step, as a reorg may have happened meanwhile.
        let mut history = AccountHistory::new(view.snapshot, account)?.ok_or(NOT_KEPT)?;
        budget.charge(cost::HISTORY);
        let end = self.points.end.min(view.height);
        while *next <= end {
            let known = history.range();
            let entry = history.at(view.snapshot, *next, &view.network.chain)?.ok_or_else(|| {
                ApiError::Argument(
                    format!("the historical account data of this node begins at height {}", known.from).into(),
                )
            })?;
            list.push(writer, &HistoryPoint { height: *next, address: *account, entry });
            *next = next.plus(self.points.step);
            budget.charge(cost::HISTORY);
            if budget.is_exhausted() {
                return Ok(false);
            }
        }
        list.close(writer);
        self.current = None;
        Ok(true)
    }
}

impl ResponseStream for HistoryStream {
    fn write_chunk(
        &mut self,
        view: &ChainSnapshot<'_>,
        writer: &mut BodyWriter<'_>,
        budget: &mut Budget,
    ) -> Result<Progress, ApiError> {
        if !self.check(view, budget)? {
            return Ok(Progress::Yield);
        }
        if matches!(self.accounts, Accounts::Many { .. }) && self.outer.is_none() {
            self.outer = Some(ListWriter::open(writer, &DataListHead));
        }
        loop {
            if self.current.is_none() && !self.begin_next(writer) {
                break;
            }
            if !self.continue_account(view, writer, budget)? || budget.is_exhausted() {
                return Ok(Progress::Yield);
            }
        }
        if let Some(outer) = &mut self.outer {
            outer.close(writer);
        }
        Ok(Progress::Done)
    }

    fn held_bytes(&self) -> usize {
        let accounts = match &self.accounts {
            Accounts::One(_) => 0,
            Accounts::Many { names, found, .. } => {
                names.iter().map(|name| name.capacity() + size_of::<String>()).sum::<usize>()
                    + found.len() * size_of::<Address>()
            }
        };
        list_bytes(&self.outer) + list_bytes(&self.list) + accounts
    }
}

/// Accounts and the requested heights.
struct HistoryBatch {
    accounts: Vec<String>,
    start: i64,
    end: i64,
    increment: i64,
}

impl Readable for HistoryBatch {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        Ok(HistoryBatch {
            accounts: read_names(source, "accounts")?,
            start: source.need_i64("startHeight")?,
            end: source.need_i64("endHeight")?,
            increment: source.need_i64("incrementBy")?,
        })
    }
}

/// `GET /account/historical/get`
pub fn history(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    require_history(context)?;
    let account = context.address()?;
    let [start, end, increment] = ["startHeight", "endHeight", "increment"].map(|name| context.number(name));
    let points = points(start?, end?, increment?)?;
    context.send_stream(HistoryStream::of_one(account, points))
}

/// `POST /account/historical/get/batch`
pub fn histories(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    require_history(context)?;
    let HistoryBatch { accounts, start, end, increment } = context.body()?;
    let points = points(start, end, increment)?;
    let steps = (points.end.0 - points.start.0) / points.step;
    if steps.saturating_mul(accounts.len() as u64) > MAX_POINTS {
        return Err(ApiError::argument("only up to 10000 data points are supported for batch operations"));
    }
    context.send_stream(HistoryStream::of_many(accounts, points))
}

fn require_history(context: &RequestContext<'_>) -> Result<(), ApiError> {
    if context.settings.features.historical_account_data { Ok(()) } else { Err(NO_HISTORY) }
}

fn points(start: i64, end: i64, increment: i64) -> Result<HistoryPoints, ApiError> {
    let (start, end) = (positive_height(start)?, positive_height(end)?);
    if end < start {
        return Err(ApiError::argument("start and end height are out of valid range"));
    }
    let step = u64::try_from(increment).ok().filter(|step| *step > 0);
    let step = step.ok_or(ApiError::argument("increment must be a positive integer"))?;
    if (end.0 - start.0) / step > MAX_POINTS {
        return Err(ApiError::argument("only up to 10000 data points are supported"));
    }
    Ok(HistoryPoints { start, end, step })
}
