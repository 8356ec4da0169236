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
//! | `filter` | what a stream tells |
//! | `feed` | what all streams share |
//! | `stream` | a stream: its steps, and the data of its events |

mod feed;
mod filter;
mod place;
mod stream;

use std::borrow::Cow;

pub use feed::{EventFeed, MAX_BYTES, MAX_CHANGE_BYTES, MempoolEvent};

use filter::{AddressReader, Filter, Kinds};
use place::Place;
use stream::{EventStream, Start};

use super::request_context::positive_height;
use super::routes::{BodyLimit, Route, get, post};
use super::{ApiError, RequestContext};
use crate::codec::text::parse_i64;
use crate::model::MosaicId;

/// Routes.
pub const ROUTES: &[Route] = &[
    get("/events", of_query).with_any_accept().reading_store().own(),
    post("/events", of_body).with_any_accept().with_bodies(BodyLimit::Addresses).reading_store().own(),
];

/// Maximum number of addresses of a stream.
pub const MAX_ADDRESSES: usize = 10_000;
/// Maximum number of confirmations for which a stream can wait.
const MAX_CONFIRMATIONS: i64 = 1_000_000;

/// `GET /events`
fn of_query(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let addresses = context.parameter("address")?;
    start(context, addresses.as_deref().map(AddressReader::of_list))
}

/// `POST /events`
fn of_body(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let addresses = AddressReader::of_body(context.json_body())?;
    start(context, Some(addresses))
}

/// Starts a stream for the accounts with these addresses, or for all accounts.
fn start(context: &mut RequestContext<'_>, addresses: Option<AddressReader>) -> Result<(), ApiError> {
    let (confirmations, start) = (confirmations(context)?, start_of(context)?);
    let mosaic = context.parameter("mosaic")?.map(|text| MosaicId::parse(&text)).transpose();
    let mosaic = mosaic.map_err(|_| ApiError::argument("mosaic must be a namespace and a name, such as nem:xem"))?;
    let kinds = context.parameter("kinds")?.map_or(Ok(Kinds::default()), |text| Kinds::parse(&text))?;
    let filter = Filter { addresses: None, mosaic, kinds, confirmations };
    let stream = EventStream::new(context.connection, addresses, filter, start);
    context.send_events(stream)
}

fn confirmations(context: &RequestContext<'_>) -> Result<u64, ApiError> {
    let Some(text) = context.parameter("confirmations")? else { return Ok(1) };
    let number = parse_i64(&text).ok().filter(|number| (0..=MAX_CONFIRMATIONS).contains(number));
    let number = number.ok_or(ApiError::argument("confirmations must be a number from 0 to 1000000"))?;
    Ok(number.unsigned_abs())
}

/// Returns where a stream begins: after the event with an id, or with the block at a height, or now.
fn start_of(context: &RequestContext<'_>) -> Result<Start, ApiError> {
    let header = context.request.header("Last-Event-ID").filter(|id| !id.is_empty()).map(Cow::Borrowed);
    let id = match header {
        Some(id) => Some(id),
        None => context.parameter("after")?,
    };
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

#[cfg(test)]
mod tests;
