//! Handlers of accounts.

use crate::api::budget::cost;
use crate::api::error::ApiError;
use crate::api::request_context::{Readable, RequestContext, positive_height};
use crate::api::streams::{
    AccountBatchStream, AccountStream, HarvestPage, HistoryPoints, HistoryStream, ImportanceList,
};
use crate::codec::{Decoder, ReadError, limits};
use crate::model::Address;

/// Maximum number of heights of a request, for all accounts together.
const MAX_POINTS: u64 = 10_000;
const NO_HISTORY: ApiError = ApiError::internal("this node does not support historical account data retrieval");

/// `{"data": [{"account": address}]}`, in this order; the addresses are not validated yet.
struct Batch(Vec<String>);

impl Readable for Batch {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        read_names(source, "data").map(Batch)
    }
}

fn read_names<'a, S: Decoder<'a>>(source: &mut S, label: &'static str) -> Result<Vec<String>, ReadError> {
    source.need_list(label, |source| Ok(source.need_string("account", limits::MAX_TEXT_UTF16)?.into_owned()))
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

/// `GET /account/get`
pub fn by_address(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let address = context.address()?;
    let account = AccountStream::new(context.chain, context.node, address, context.budget)?;
    context.send_stream(account)
}

/// `GET /account/get/from-public-key`: the response shows the given key, whether or not the chain has it.
pub fn by_public_key(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let key = context.public_key()?;
    let account = AccountStream::new(context.chain, context.node, context.address_of(&key), context.budget)?;
    context.send_stream(account.with_key(key))
}

/// `GET /account/get/forwarded`: a remote account is replaced by its owner.
pub fn forwarded(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let address = context.address()?;
    let address = owner_of(context, address)?;
    let account = AccountStream::new(context.chain, context.node, address, context.budget)?;
    context.send_stream(account)
}

/// `GET /account/get/forwarded/from-public-key`: the response shows the given key only if the account is unknown.
pub fn forwarded_by_public_key(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let key = context.public_key()?;
    let address = context.address_of(&key);
    let shown = owner_of(context, address)?;
    let account = AccountStream::new(context.chain, context.node, shown, context.budget)?;
    let is_known = context.chain.stored_account(&address)?.is_known();
    context.send_stream(if is_known { account } else { account.with_key(key) })
}

fn owner_of(context: &mut RequestContext<'_>, address: Address) -> Result<Address, ApiError> {
    context.budget.charge(cost::ACCOUNT);
    Ok(context.chain.linked_owner(&address)?.unwrap_or(address))
}

/// `GET /account/status`
pub fn status(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let address = context.address()?;
    let account = AccountStream::new(context.chain, context.node, address, context.budget)?;
    context.send_stream(account.meta_only())
}

/// `POST /account/get/batch`
pub fn batch(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let Batch(names) = context.body()?;
    context.send_stream(AccountBatchStream::new(names))
}

/// `GET /account/harvests`: the id of a block is its height, and `id` must be that of an existing block.
pub fn harvests(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let (account, page) = (context.address()?, context.page()?);
    let is_first = context.parameter("id")?.is_none();
    if !is_first && !(1..=context.chain.height.0).contains(&page.before) {
        return Err(ApiError::internal("there is no block with this id"));
    }
    context.send_stream(HarvestPage::new(account, page))
}

/// `GET /account/importances`
pub fn importances(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.send_stream(ImportanceList::default())
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
