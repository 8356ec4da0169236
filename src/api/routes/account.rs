//! Handlers of accounts.

use crate::api::budget::cost;
use crate::api::call::{Call, Readable, positive_height};
use crate::api::failure::Failure;
use crate::api::long::{AccountBatch, AccountWriter, HarvestPage, HistoryPoints, HistoryWriter, ImportanceList};
use crate::codec::{ReadError, Source, limits};
use crate::model::Address;

/// Maximum number of heights of a request, for all accounts together.
const MOST_POINTS: u64 = 10_000;
const NO_HISTORY: Failure = Failure::internal("this node does not support historical account data retrieval");

/// `{"data": [{"account": address}]}`, in this order; the addresses are not validated yet.
struct Batch(Vec<String>);

impl Readable for Batch {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        read_names(source, "data").map(Batch)
    }
}

fn read_names<'a, S: Source<'a>>(source: &mut S, label: &'static str) -> Result<Vec<String>, ReadError> {
    source.need_list(label, |source| Ok(source.need_string("account", limits::TEXT_UNITS)?.into_owned()))
}

/// Accounts and the requested heights.
struct HistoryBatch {
    accounts: Vec<String>,
    start: i64,
    end: i64,
    increment: i64,
}

impl Readable for HistoryBatch {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        Ok(HistoryBatch {
            accounts: read_names(source, "accounts")?,
            start: source.need_i64("startHeight")?,
            end: source.need_i64("endHeight")?,
            increment: source.need_i64("incrementBy")?,
        })
    }
}

/// `GET /account/get`
pub fn by_address(call: &mut Call<'_>) -> Result<(), Failure> {
    let address = call.address()?;
    let account = AccountWriter::new(call.view, call.actions, address, call.budget)?;
    call.send_long(account)
}

/// `GET /account/get/from-public-key`: the response shows the given key, whether or not the chain has it.
pub fn by_public_key(call: &mut Call<'_>) -> Result<(), Failure> {
    let key = call.public_key()?;
    let account = AccountWriter::new(call.view, call.actions, call.address_of(&key), call.budget)?;
    call.send_long(account.with_key(key))
}

/// `GET /account/get/forwarded`: a remote account is replaced by its owner.
pub fn forwarded(call: &mut Call<'_>) -> Result<(), Failure> {
    let address = call.address()?;
    let address = owner_of(call, address)?;
    let account = AccountWriter::new(call.view, call.actions, address, call.budget)?;
    call.send_long(account)
}

/// `GET /account/get/forwarded/from-public-key`: the response shows the given key only if the account is unknown.
pub fn forwarded_by_public_key(call: &mut Call<'_>) -> Result<(), Failure> {
    let key = call.public_key()?;
    let address = call.address_of(&key);
    let shown = owner_of(call, address)?;
    let account = AccountWriter::new(call.view, call.actions, shown, call.budget)?;
    let is_known = call.view.stored_account(&address)?.is_known();
    call.send_long(if is_known { account } else { account.with_key(key) })
}

fn owner_of(call: &mut Call<'_>, address: Address) -> Result<Address, Failure> {
    call.budget.spend(cost::ACCOUNT);
    Ok(call.view.linked_owner(&address)?.unwrap_or(address))
}

/// `GET /account/status`
pub fn status(call: &mut Call<'_>) -> Result<(), Failure> {
    let address = call.address()?;
    let account = AccountWriter::new(call.view, call.actions, address, call.budget)?;
    call.send_long(account.meta_only())
}

/// `POST /account/get/batch`
pub fn batch(call: &mut Call<'_>) -> Result<(), Failure> {
    let Batch(names) = call.body()?;
    call.send_long(AccountBatch::new(names))
}

/// `GET /account/harvests`: the id of a block is its height, and `id` must be that of an existing block.
pub fn harvests(call: &mut Call<'_>) -> Result<(), Failure> {
    let (account, page) = (call.address()?, call.page()?);
    let is_first = call.parameter("id")?.is_none();
    if !is_first && !(1..=call.view.height.0).contains(&page.before) {
        return Err(Failure::internal("there is no block with this id"));
    }
    call.send_long(HarvestPage::new(account, page))
}

/// `GET /account/importances`
pub fn importances(call: &mut Call<'_>) -> Result<(), Failure> {
    call.send_long(ImportanceList::default())
}

/// `GET /account/historical/get`
pub fn history(call: &mut Call<'_>) -> Result<(), Failure> {
    need_history(call)?;
    let account = call.address()?;
    let [start, end, increment] = ["startHeight", "endHeight", "increment"].map(|name| call.number(name));
    let points = points(start?, end?, increment?)?;
    call.send_long(HistoryWriter::of_one(account, points))
}

/// `POST /account/historical/get/batch`
pub fn histories(call: &mut Call<'_>) -> Result<(), Failure> {
    need_history(call)?;
    let HistoryBatch { accounts, start, end, increment } = call.body()?;
    let points = points(start, end, increment)?;
    let steps = (points.end.0 - points.start.0) / points.step;
    if steps.saturating_mul(accounts.len() as u64) > MOST_POINTS {
        return Err(Failure::argument("only up to 10000 data points are supported for batch operations"));
    }
    call.send_long(HistoryWriter::of_many(accounts, points))
}

fn need_history(call: &Call<'_>) -> Result<(), Failure> {
    if call.settings.features.historical_account_data { Ok(()) } else { Err(NO_HISTORY) }
}

fn points(start: i64, end: i64, increment: i64) -> Result<HistoryPoints, Failure> {
    let (start, end) = (positive_height(start)?, positive_height(end)?);
    if end < start {
        return Err(Failure::argument("start and end height are out of valid range"));
    }
    let step = u64::try_from(increment).ok().filter(|step| *step > 0);
    let step = step.ok_or(Failure::argument("increment must be a positive integer"))?;
    if (end.0 - start.0) / step > MOST_POINTS {
        return Err(Failure::argument("only up to 10000 data points are supported"));
    }
    Ok(HistoryPoints { start, end, step })
}
