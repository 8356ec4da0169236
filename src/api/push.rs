//! Handlers of pushes by peers. A push with a valid signature of its sender succeeds, whatever the validation result.

use std::net::IpAddr;
use std::vec;

use super::mempool::TRANSACTION_BYTES;
use super::routes::{Route, post};
use super::streams::{BodyWriter, ResponseStream};
use super::transactions::submit;
use super::{ApiError, Command, Format, NodeContext, RequestContext, View};
use crate::budget::cost;
use crate::codec::binary::BinaryDecoder;
use crate::codec::json::JsonDecoder;
use crate::codec::lenient_json::Value;
use crate::codec::wipe::Wiped;
use crate::codec::{Context, Decoder, ReadError, Readable};
use crate::model::transaction::wire_network;
use crate::model::{Block, Transaction};
use crate::net::service::Progress;
use crate::peer::Pusher;
use crate::peer::wire::SecureEntity;
use crate::rules::require;

/// Routes.
pub const ROUTES: &[Route] = &[
    post("/push/transaction", transaction).with_large_bodies().needing_mempool(),
    post("/push/transactions", transactions).with_pushed_bodies().needing_mempool(),
    post("/push/block", block).with_pushed_bodies(),
];

/// A transaction pushed by a peer.
type Pushed = SecureEntity<Transaction>;

/// Returns what was pushed, if its sender has signed it.
fn verified<T: View>(pushed: SecureEntity<T>, node: &mut NodeContext<'_>) -> Result<T, ApiError> {
    let (is_genuine, hashed) = pushed.verify();
    node.budget.charge(cost::VERIFICATION + cost::bytes(hashed));
    if is_genuine { Ok(pushed.entity) } else { Err(ApiError::internal("entity source cannot be verified")) }
}

/// Pushed transactions that are still to be submitted.
enum PushedList {
    /// Decoded while they are submitted: `left` transactions from a position of the body on.
    Binary { at: usize, left: usize },
    /// JSON of `bytes` bytes, which is decoded as a whole before anything is submitted.
    Json { value: Wiped<Value>, bytes: usize, decoded: Vec<Pushed> },
    /// Decoded.
    Decoded(vec::IntoIter<Pushed>),
}

impl PushedList {
    /// Creates the list in a body of the binary format.
    fn of_binary(body: &[u8], context: Context) -> Result<PushedList, ReadError> {
        let mut source = BinaryDecoder::new(body, context);
        let left = match source.need_i32("data")? {
            -1 => return Err(ReadError::Missing("data")),
            count => usize::try_from(count).unwrap_or(0),
        };
        Ok(PushedList::Binary { at: body.len() - source.remaining().len(), left })
    }

    /// Decodes JSON until the budget is spent. Returns whether all is decoded.
    fn decode_json(&mut self, node: &mut NodeContext<'_>) -> Result<bool, ReadError> {
        let PushedList::Json { value, decoded, .. } = self else { return Ok(true) };
        let (mut count, done) = (0, decoded.len());
        let mut source = JsonDecoder::new(value, node.chain.context())?;
        let read = source.need_list("data", |source| {
            count += 1;
            if count <= done || count > done + 1 && node.budget.is_exhausted() {
                return Ok(None);
            }
            node.budget.charge(cost::DECODING);
            Pushed::read(source).map(Some)
        })?;
        decoded.extend(read.into_iter().flatten());
        let is_complete = decoded.len() == count;
        if is_complete {
            *self = PushedList::Decoded(std::mem::take(decoded).into_iter());
        }
        Ok(is_complete)
    }

    /// Returns the next transaction.
    fn next(&mut self, node: &mut NodeContext<'_>) -> Option<Result<Pushed, ReadError>> {
        match self {
            PushedList::Decoded(pushed) => pushed.next().map(Ok),
            PushedList::Json { .. } | PushedList::Binary { left: 0, .. } => None,
            PushedList::Binary { at, left } => {
                let rest = node.request_body.get(*at..).unwrap_or_default();
                let mut source = BinaryDecoder::new(rest, node.chain.context());
                let read = source.need_object("data", Pushed::read);
                let length = rest.len() - source.remaining().len();
                node.budget.charge(cost::bytes(length));
                (*at, *left) = (*at + length, *left - 1);
                Some(read)
            }
        }
    }
}

/// Submits pushed transactions one after another.
struct Submission {
    pushed: PushedList,
    /// Address of the client.
    from: IpAddr,
}

impl ResponseStream for Submission {
    fn write_chunk(&mut self, node: &mut NodeContext<'_>, _: &mut BodyWriter<'_>) -> Result<Progress, ApiError> {
        if !self.pushed.decode_json(node)? {
            return Ok(Progress::Yield);
        }
        while let Some(pushed) = self.pushed.next(node) {
            let pushed = pushed?;
            let key = pushed.identity.key;
            let transaction = verified(pushed, node)?;
            let result = submit(transaction, node)?;
            if let Some(peers) = &mut node.peers {
                peers.record_push(&Pusher { key, from: self.from }, &require(result.is_success(), result), node.now);
            }
            let is_last = match &self.pushed {
                PushedList::Decoded(pushed) => pushed.len() == 0,
                PushedList::Binary { left, .. } => *left == 0,
                PushedList::Json { .. } => false,
            };
            if node.budget.is_exhausted() && !is_last {
                return Ok(Progress::Yield);
            }
        }
        Ok(Progress::Done)
    }

    fn held_bytes(&self) -> usize {
        match &self.pushed {
            PushedList::Decoded(pushed) => pushed.len() * TRANSACTION_BYTES,
            PushedList::Binary { .. } => size_of::<Submission>(),
            PushedList::Json { bytes, decoded, .. } => 2 * bytes + decoded.len() * TRANSACTION_BYTES,
        }
    }
}

/// `POST /push/transaction`
fn transaction(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let pushed = context.body()?;
    run(context, PushedList::Decoded(vec![pushed].into_iter()))
}

/// `POST /push/transactions`
fn transactions(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let pushed = match context.raw_body()? {
        (Format::Binary, body) => PushedList::of_binary(body, context.node.chain.context())?,
        (Format::Json, body) => {
            PushedList::Json { value: context.json_body()?, bytes: body.len(), decoded: Vec::new() }
        }
    };
    run(context, pushed)
}

fn run(context: &mut RequestContext<'_>, pushed: PushedList) -> Result<(), ApiError> {
    let from = context.client.address;
    context.run_stream(Box::new(Submission { pushed, from }))
}

/// `POST /push/block`: the block is validated after the response.
fn block(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let pushed: SecureEntity<Block> = context.body()?;
    let pusher = Pusher { key: pushed.identity.key, from: context.client.address };
    let block = verified(pushed, &mut context.node)?;
    if wire_network(block.version) != context.node.chain.network.byte {
        return Ok(());
    }
    // For the hash and signature of the block itself.
    context.node.budget.charge(cost::VERIFICATION + 2 * cost::bytes(context.request.body.len()));
    context.command = Some(Command::PushBlock(Box::new(block), pusher));
    Ok(())
}
