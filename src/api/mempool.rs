//! Unconfirmed transactions: handlers, views and streams.

use std::rc::Rc;

use super::request_context::parse_page;
use super::routes::{Route, get};
use super::streams::{ListStep, ListStream, list_of_each, list_stream};
use super::transactions::write_hash;
use super::{ApiError, NodeContext, RequestContext, View};
use crate::budget::cost;
use crate::codec::Encoder;
use crate::codec::text::parse_i64;
use crate::mempool::{AccountSearch, MempoolEntry};
use crate::model::{Hash256, Timestamp, Transaction};

/// Routes. NIS1 does not have the second one.
pub const ROUTES: &[Route] =
    &[get("/account/unconfirmedTransactions", of_account), get("/mempool/transactions", all).local().own()];

/// An unconfirmed transaction: as NIS1 shows it, or with its hashes.
struct Unconfirmed {
    transaction: Rc<Transaction>,
    inner_hash: Option<Hash256>,
    /// Its hash, if its hashes are shown.
    hash: Option<Hash256>,
    /// Its id and when it arrived, in the list of the whole mempool.
    arrival: Option<(u64, Timestamp)>,
}

impl Unconfirmed {
    fn of(entry: &MempoolEntry) -> Unconfirmed {
        let (transaction, inner_hash) = (Rc::clone(&entry.transaction), entry.inner_hash().copied());
        Unconfirmed { transaction, inner_hash, hash: None, arrival: None }
    }
}

impl View for Unconfirmed {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("transaction", |sink| self.transaction.write(sink));
        sink.object("meta", |sink| {
            match self.arrival {
                Some((id, since)) => {
                    sink.u64("id", id);
                    sink.i32("since", since.0);
                }
                None => sink.bytes("data", self.inner_hash.as_ref().map(|hash| hash.0.as_slice())),
            }
            if let Some(hash) = &self.hash {
                sink.hash("hash", &hash.0);
                write_hash(sink, "innerHash", self.inner_hash.as_ref());
            }
        });
    }
}

/// Maximum number of unconfirmed transactions that NIS1 shows of an account.
const MAX_SHOWN: usize = 25;

/// `GET /account/unconfirmedTransactions`; with `hashes=true` also their hashes, in a page of `pageSize`. NIS1 ignores
/// both.
fn of_account(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let address = context.address()?;
    let has_hashes = context.flag("hashes")?;
    let size = context.parameter("pageSize")?;
    let limit = if has_hashes { Some(parse_page(None, size.as_deref())?.size) } else { None };
    let mut search = AccountSearch::new(address, limit.unwrap_or(MAX_SHOWN));
    let mut found: Option<std::vec::IntoIter<Unconfirmed>> = None;
    let shown =
        move |entry: &MempoolEntry| Unconfirmed { hash: limit.map(|_| entry.hashes.own), ..Unconfirmed::of(entry) };
    context.send_stream(list_stream(move |step| {
        if found.is_none() {
            let NodeContext { mempool, chain, budget, .. } = &mut *step.node;
            let entries = mempool.search(&mut search, chain, budget)?;
            *step.held_bytes = search.held_bytes();
            found = entries.map(|entries| entries.into_iter().map(shown).collect::<Vec<_>>().into_iter());
        }
        let Some(list) = &mut found else {
            step.is_interrupted = true;
            return Ok(());
        };
        step.push_each(list, TRANSACTION_BYTES, |step, transaction| write_transaction(step, &transaction))
    }))
}

/// `GET /mempool/transactions`: a page of all, in the order of arrival, from the one after the id `after` on.
fn all(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let after = context.parameter("after")?.map_or(Ok(0), |text| parse_i64(&text))?;
    let limit = parse_page(None, context.parameter("pageSize")?.as_deref())?.size;
    let shown = |entry: &MempoolEntry| {
        let (hash, arrival) = (Some(entry.hashes.own), Some((entry.id, entry.since)));
        Unconfirmed { hash, arrival, ..Unconfirmed::of(entry) }
    };
    let found = context.node.mempool.arrived_after(u64::try_from(after).unwrap_or(0)).take(limit).map(shown).collect();
    context.send_stream(list_of(found))
}

/// Approximate memory in bytes of a transaction that the mempool does not hold.
const TRANSACTION_BYTES: usize = 2048;

/// Creates a list of unconfirmed transactions.
pub(super) fn list_of<T: View + 'static>(transactions: Vec<T>) -> ListStream {
    list_of_each(transactions, TRANSACTION_BYTES, |step, transaction| write_transaction(step, &transaction))
}

fn write_transaction(step: &mut ListStep<'_, '_, '_>, transaction: &impl View) -> Result<(), ApiError> {
    let start = step.written();
    step.push(transaction);
    let written = step.written() - start;
    step.node.budget.charge(cost::TRANSACTION + cost::bytes(written));
    Ok(())
}

#[cfg(test)]
mod tests;
