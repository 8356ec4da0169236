//! Historical account data: handlers, view and stream.

use super::accounts::{batch_list, parse_name, read_names};
use super::request_context::positive_height;
use super::routes::{BodyLimit, Route, get, post};
use super::streams::{ListStep, list_stream};
use super::{ApiError, NodeContext, RequestContext, View};
use crate::budget::cost;
use crate::codec::{Decoder, Encoder, ReadError, Readable};
use crate::model::{Address, Height};
use crate::state::{AccountHistory, HistoryEntry};

/// Routes.
pub const ROUTES: &[Route] = &[
    get("/account/historical/get", history).cached(),
    post("/account/historical/get/batch", histories).with_bodies(BodyLimit::Large).reading_store(),
];

/// Maximum number of heights of a request, for all accounts together.
const MAX_POINTS: u64 = 10_000;
const NO_HISTORY: ApiError = ApiError::internal("this node does not support historical account data retrieval");
const NOT_KEPT: ApiError = ApiError::argument("this node has no historical account data of the last block");

/// State of an account at a height.
struct HistoryPoint {
    height: Height,
    address: Address,
    entry: HistoryEntry,
}

impl View for HistoryPoint {
    fn write(&self, sink: &mut impl Encoder) {
        let HistoryEntry { balance, importance, page_rank } = self.entry;
        sink.u64("height", self.height.0);
        sink.string("address", Some(self.address.as_str()));
        sink.u64("balance", balance.total());
        sink.u64("vestedBalance", balance.vested);
        sink.u64("unvestedBalance", balance.unvested);
        sink.f64("importance", importance);
        sink.f64("pageRank", page_rank);
    }
}

/// The requested heights: `start`, `start + step`, … up to `end`, inclusive. The step is not 0.
#[derive(Clone, Copy)]
struct HistoryPoints {
    start: Height,
    end: Height,
    step: u64,
}

impl HistoryPoints {
    fn new(start: i64, end: i64, increment: i64) -> Result<HistoryPoints, ApiError> {
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

    /// Writes the state of an account at these heights. The next step continues with the new `start`.
    fn write(&mut self, address: &Address, step: &mut ListStep<'_, '_, '_>) -> Result<(), ApiError> {
        let chain = step.node.chain;
        // Recreated in each step, as a reorg may have happened meanwhile.
        let mut history = AccountHistory::new(chain.snapshot, address)?.ok_or(NOT_KEPT)?;
        step.node.budget.charge(cost::HISTORY);
        while self.start <= self.end.min(chain.height) {
            let known = history.range;
            let entry = history.at(chain.snapshot, self.start, &chain.network.chain)?.ok_or_else(|| {
                ApiError::new(400, format!("the historical account data of this node begins at height {}", known.from))
            })?;
            step.push(&HistoryPoint { height: self.start, address: *address, entry });
            self.start = self.start.plus(self.step);
            step.node.budget.charge(cost::HISTORY);
            if step.must_pause() {
                break;
            }
        }
        Ok(())
    }
}

/// Accounts, and the start, the end and the increment of the requested heights.
struct HistoryBatch(Vec<String>, [i64; 3]);

impl Readable for HistoryBatch {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let accounts = read_names(source, "accounts")?;
        let mut number = |label| source.need_i64(label);
        Ok(HistoryBatch(accounts, [number("startHeight")?, number("endHeight")?, number("incrementBy")?]))
    }
}

/// `GET /account/historical/get`
fn history(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    require_history(context)?;
    let address = context.address()?;
    let [start, end, increment] = ["startHeight", "endHeight", "increment"].map(|name| context.number(name));
    let mut points = HistoryPoints::new(start?, end?, increment?)?;
    context.send_stream(list_stream(move |step| points.write(&address, step)))
}

/// `POST /account/historical/get/batch`: a list for each account. All addresses are checked before the first is written.
fn histories(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    require_history(context)?;
    let HistoryBatch(accounts, [start, end, increment]) = context.body()?;
    let points = HistoryPoints::new(start, end, increment)?;
    let count = (points.end.0 - points.start.0) / points.step;
    if count.saturating_mul(accounts.len() as u64) > MAX_POINTS {
        return Err(ApiError::argument("only up to 10000 data points are supported for batch operations"));
    }
    let open = move |_: &mut NodeContext<'_>, address| Ok((address, points));
    let write =
        |(address, left): &mut (Address, HistoryPoints), step: &mut ListStep<'_, '_, '_>| left.write(address, step);
    context.send_stream(batch_list(accounts, parse_name, open, write))
}

fn require_history(context: &RequestContext<'_>) -> Result<(), ApiError> {
    if context.settings.features.historical_account_data { Ok(()) } else { Err(NO_HISTORY) }
}
