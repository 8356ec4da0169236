//! `/events`: transactions, blocks, changes of the mempool and rollbacks, as a stream of Server-Sent Events that can be
//! resumed anywhere. NIS1 does not have this.
//!
//! A stream holds a place in the chain: everything before it is told. In each step it looks where this place is now.
//! If its block was replaced, the stream tells what is undone, backwards to the last common block; else it goes on
//! from there, block by block, or, far below the tip, along the transaction lists of its accounts. So a slow client, a
//! client that returns, and one that begins with the first block are all served from the store, and nothing is kept for
//! them. Each event carries the place after it as its id.
//!
//! | part | what it is |
//! |---|---|
//! | `place` | a place in the chain, and the id of an event |
//! | `feed` | what all streams share |
//! | `stream` | a stream: its steps, and the data of its events |

mod feed;
mod place;
mod stream;

use std::borrow::Cow;
use std::collections::BTreeSet;

pub use feed::{EventFeed, MAX_BYTES, MAX_CHANGE_BYTES};
use place::Place;
use stream::{EventStream, Start};

use super::body_parser::ParsedBody;
use super::request_context::positive_height;
use super::routes::{self, BodyLimit, Route, get, post};
use super::{ApiError, RequestContext};
use crate::budget::{Budget, cost};
use crate::codec::lenient_json::{LenientJsonError, Value};
use crate::codec::text::parse_i64;
use crate::model::{Address, Body, MosaicId, NetworkByte, Transaction};
use crate::peer::wire::json_member;
use feed::FeedBlock;

/// Routes.
pub const ROUTES: &[Route] = &[
    get("/events", of_query).with_any_accept().reading_store().own(),
    post("/events", of_body).with_any_accept().with_bodies(BodyLimit::Addresses).reading_store().own(),
];

/// Maximum number of addresses of a stream.
pub const MAX_ADDRESSES: usize = 10_000;
/// Maximum number of confirmations for which a stream can wait.
const MAX_CONFIRMATIONS: i64 = 1_000_000;

/// Parameters of a stream. `POST /events` has the addresses in its body.
const PARAMETERS: [&str; 7] = ["address", "after", "confirmations", "from", "kinds", "lastEventId", "mosaic"];

/// `GET /events`
fn of_query(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    check_parameters(context, &PARAMETERS)?;
    let addresses = context.parameter("address")?;
    start(context, addresses.as_deref().map(AddressReader::of_list))
}

/// `POST /events`
fn of_body(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    check_parameters(context, &PARAMETERS[1..])?;
    let addresses = AddressReader::of_body(context.json_body())?;
    start(context, Some(addresses))
}

/// Rejects a parameter that a stream does not have: a misspelt one would tell other payments, or too early.
fn check_parameters(context: &RequestContext<'_>, known: &[&str]) -> Result<(), ApiError> {
    let unknown = routes::unknown_parameter(context.request.query, known)?;
    let error =
        |name| ApiError::new(400, format!("{name:.40} is no parameter of this stream; it has {}", known.join(", ")));
    unknown.map_or(Ok(()), |name| Err(error(name)))
}

/// Starts a stream for the accounts with these addresses, or for all accounts.
fn start(context: &mut RequestContext<'_>, addresses: Option<AddressReader>) -> Result<(), ApiError> {
    let number_of = |text: Cow<'_, str>| parse_i64(&text).ok().filter(|count| (0..=MAX_CONFIRMATIONS).contains(count));
    let confirmations = context.parameter("confirmations")?.map_or(Some(1), number_of);
    let confirmations = confirmations.ok_or(ApiError::argument("confirmations must be a number from 0 to 1000000"))?;
    let start = start_of(context)?;
    let mosaic = context.parameter("mosaic")?.map(|text| MosaicId::parse(&text)).transpose();
    let mosaic = mosaic.map_err(|_| ApiError::argument("mosaic must be a namespace and a name, such as nem:xem"))?;
    let kinds = context.parameter("kinds")?;
    let kinds = kinds.map_or(Ok(Kinds::default()), |text| Kinds::parse(&text, confirmations == 0))?;
    let filter = Filter { addresses: None, mosaic, kinds, confirmations: confirmations.unsigned_abs() };
    let stream = EventStream::new(context.connection, addresses, filter, start);
    // Proxies must not hold the events back.
    let response = &mut *context.response.response;
    response.compress = false;
    response.header("Content-Type", "text/event-stream");
    response.header("Cache-Control", "no-store");
    response.header("X-Accel-Buffering", "no");
    context.run_stream(Box::new(stream))
}

/// Returns where a stream begins: after the event with an id, or with the block at a height, or now.
fn start_of(context: &RequestContext<'_>) -> Result<Start, ApiError> {
    let mut headers = context.request.headers().filter(|(name, _)| name.eq_ignore_ascii_case(b"Last-Event-ID"));
    // What is no UTF-8 is no id either.
    let header = headers.find(|(_, id)| !id.is_empty()).map(|(_, id)| String::from_utf8_lossy(id));
    // Libraries that cannot set headers in a browser append the last id to the query.
    let appended = context.parameter("lastEventId")?.filter(|id| !id.is_empty());
    let id = [header, appended, context.parameter("after")?].into_iter().flatten().next();
    if let Some(id) = id {
        let rewrite_limit = context.node.chain.network.chain.rewrite_limit;
        let place = Place::parse(&id, rewrite_limit)
            .ok_or(ApiError::argument("the id of an event must be one that a stream sent"))?;
        return Ok(Start::After(place));
    }
    let Some(text) = context.parameter("from")? else { return Ok(Start::Now) };
    let height = parse_i64(&text).map_err(|_| ApiError::argument("from must be the height of a block"))?;
    Ok(Start::From(positive_height(height)?))
}

/// Addresses moved into their list per work unit.
const MOVED_PER_UNIT: usize = 200;

/// Validates the addresses of a stream in steps.
pub struct AddressReader {
    /// What is not validated yet.
    names: Vec<Value>,
    valid: BTreeSet<Address>,
}

impl AddressReader {
    /// Reads addresses with commas between them.
    pub fn of_list(text: &str) -> AddressReader {
        let names = text.split(',').map(|name| Value::String(name.to_owned())).collect();
        AddressReader { names, valid: BTreeSet::new() }
    }

    /// Takes the list `addresses` of a body, which has nothing else: a parameter there would be ignored.
    pub fn of_body(body: ParsedBody) -> Result<AddressReader, ApiError> {
        let mut body = body.map_err(|error| bad_body(Some(error)))?;
        if let Value::Object(members) = &*body
            && let Some((name, _)) = members.iter().find(|(name, _)| name != "addresses")
        {
            let text = format!("the body has the member addresses alone, not {name:.40}; parameters are in the query");
            return Err(ApiError::new(400, text));
        }
        let Some(Value::Array(names)) = json_member(&mut body, "addresses") else { return Err(bad_body(None)) };
        Ok(AddressReader { names: std::mem::take(names), valid: BTreeSet::new() })
    }

    /// Goes on within the budget. Returns the addresses, ascending, once all are valid.
    pub fn advance(&mut self, network: NetworkByte, budget: &mut Budget) -> Result<Option<Box<[Address]>>, ApiError> {
        if self.valid.is_empty() && !(1..=MAX_ADDRESSES).contains(&self.names.len()) {
            return Err(ApiError::argument(
                "a stream is for 1 to 10000 addresses, or without any address for all accounts",
            ));
        }
        while let Some(name) = self.names.pop() {
            budget.charge(cost::ADDRESS);
            let Value::String(name) = name else { return Err(bad_body(None)) };
            let bad = || ApiError::new(400, format!("{name:.80} is not an address of this network"));
            self.valid.insert(Address::parse(&name.replace('-', ""), network).ok_or_else(bad)?);
            if budget.is_exhausted() {
                return Ok(None);
            }
        }
        budget.charge((self.valid.len() / MOVED_PER_UNIT) as u32);
        Ok(Some(std::mem::take(&mut self.valid).into_iter().collect()))
    }

    /// Returns the approximate memory in bytes that is held.
    pub fn held_bytes(&self) -> usize {
        let texts = self.names.len() * (size_of::<Value>() + size_of::<Address>());
        size_of::<AddressReader>() + texts + 2 * self.valid.len() * size_of::<Address>()
    }
}

fn bad_body(error: Option<LenientJsonError>) -> ApiError {
    let reason = error.map_or_else(String::new, |error| format!(": {error}"));
    ApiError::new(400, format!("the body must be {{\"addresses\": [\"...\"]}}{reason}"))
}

/// Kinds of events that a client chooses. All others are always told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds {
    /// Transactions of the chain, and undone ones.
    pub transactions: bool,
    /// Blocks.
    pub blocks: bool,
    /// Arrivals in the mempool.
    pub unconfirmed: bool,
    /// Transactions that left the mempool without being confirmed.
    pub left: bool,
}

impl Default for Kinds {
    fn default() -> Kinds {
        Kinds { transactions: true, blocks: false, unconfirmed: true, left: true }
    }
}

impl Kinds {
    /// Parses a list of names with commas, for a stream that tells the mempool or not.
    pub fn parse(text: &str, has_mempool: bool) -> Result<Kinds, ApiError> {
        let mut kinds = Kinds { transactions: false, blocks: false, unconfirmed: false, left: false };
        for name in text.split(',') {
            match name.trim() {
                "transaction" => kinds.transactions = true,
                "block" => kinds.blocks = true,
                "unconfirmed" | "left" if !has_mempool => {
                    return Err(ApiError::argument(
                        "the kinds unconfirmed and left need confirmations=0: only then the mempool is told",
                    ));
                }
                "unconfirmed" => kinds.unconfirmed = true,
                "left" => kinds.left = true,
                "rollback" | "undone" | "synchronising" => {}
                _ => {
                    return Err(ApiError::argument(
                        "kinds must be some of transaction, block, unconfirmed and left, with commas",
                    ));
                }
            }
        }
        Ok(kinds)
    }
}

/// What a stream tells.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Accounts, ascending; `None` for all.
    pub addresses: Option<Box<[Address]>>,
    /// The mosaic that a transaction must move, if any.
    pub mosaic: Option<MosaicId>,
    /// Kinds of events.
    pub kinds: Kinds,
    /// Confirmations that a block must have; 0 as 1, and the mempool is told too.
    pub confirmations: u64,
}

impl Filter {
    /// Returns whether the mempool is told.
    pub fn tells_mempool(&self) -> bool {
        self.confirmations == 0 && (self.kinds.unconfirmed || self.kinds.left)
    }

    /// Returns whether anything is told of blocks that stay in the chain.
    pub fn tells_chain(&self) -> bool {
        self.kinds.transactions || self.kinds.blocks
    }

    /// Returns whether one of some accounts is told.
    pub fn has_one_of(&self, accounts: &[Address]) -> bool {
        let Some(addresses) = &self.addresses else { return true };
        accounts.iter().any(|account| addresses.binary_search(account).is_ok())
    }

    /// Returns whether a transaction moves the mosaic.
    pub fn moves_mosaic(&self, transaction: &Transaction) -> bool {
        let Some(wanted) = &self.mosaic else { return true };
        match &transaction.inner().unwrap_or(transaction).body {
            Body::Transfer(body) if body.mosaics.is_empty() => wanted.is_xem(),
            Body::Transfer(body) => body.mosaics.iter().any(|mosaic| mosaic.id == *wanted),
            Body::MosaicDefinitionCreation(body) => body.definition.id == *wanted,
            Body::MosaicSupplyChange(body) => body.mosaic == *wanted,
            _ => false,
        }
    }

    /// Returns the indexes of the transactions of a block that are told, ascending.
    pub fn indexes(&self, of: &FeedBlock) -> Vec<u32> {
        let block = &of.block;
        if !self.kinds.transactions {
            return Vec::new();
        }
        let mut indexes: Vec<u32> = match &self.addresses {
            None => (0..block.transactions.len() as u32).collect(),
            Some(addresses) if addresses.len() < block.by_account.len() => {
                addresses.iter().filter_map(|address| block.by_account.get(address)).flatten().copied().collect()
            }
            Some(addresses) => {
                let told = block.by_account.iter().filter(|(address, _)| addresses.binary_search(address).is_ok());
                told.flat_map(|(_, indexes)| indexes).copied().collect()
            }
        };
        indexes.sort_unstable();
        indexes.dedup();
        indexes.retain(|index| self.moves_mosaic(&block.transactions[*index as usize].1));
        indexes
    }
}

#[cfg(test)]
mod tests;
