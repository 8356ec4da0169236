//! Handlers of pushes by peers. A push with a valid signature of its sender succeeds, whatever the validation result.

use std::vec;

use super::transactions::submit;
use crate::api::budget::{Budget, cost};
use crate::api::chain_snapshot::ChainSnapshot;
use crate::api::error::ApiError;
use crate::api::media::Format;
use crate::api::node_handle::NodeHandle;
use crate::api::request_context::RequestContext;
use crate::api::streams::{BodyWriter, ResponseStream};
use crate::api::views::View;
use crate::codec::binary::BinaryDecoder;
use crate::codec::{Context, Decoder, ReadError, Readable};
use crate::model::transaction::wire_network;
use crate::model::{Block, Transaction};
use crate::net::service::Progress;
use crate::peer::wire::{List, SecureEntity};

/// A transaction pushed by a peer.
type Pushed = SecureEntity<Transaction>;

/// Approximate memory in bytes of a pushed transaction.
const TRANSACTION_BYTES: usize = 2048;

/// Returns what was pushed, if its sender has signed it.
fn verified<T: View>(pushed: SecureEntity<T>, budget: &mut Budget) -> Result<T, ApiError> {
    let (is_genuine, hashed) = pushed.verify();
    budget.charge(cost::VERIFICATION + cost::bytes(hashed));
    if is_genuine { Ok(pushed.entity) } else { Err(ApiError::internal("entity source cannot be verified")) }
}

/// Submits a list of pushed transactions one after another.
enum PushedList {
    /// Decoded while they are submitted: `left` transactions from a position of the body on.
    Binary { at: usize, left: usize },
    /// Already decoded. JSON can only be parsed as a whole.
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

    /// Returns the next transaction.
    fn next(&mut self, body: &[u8], context: Context, budget: &mut Budget) -> Option<Result<Pushed, ReadError>> {
        match self {
            PushedList::Decoded(pushed) => pushed.next().map(Ok),
            PushedList::Binary { left: 0, .. } => None,
            PushedList::Binary { at, left } => {
                let rest = body.get(*at..).unwrap_or_default();
                let mut source = BinaryDecoder::new(rest, context);
                let read = source.need_object("data", Pushed::read);
                let length = rest.len() - source.remaining().len();
                budget.charge(cost::bytes(length));
                (*at, *left) = (*at + length, *left - 1);
                Some(read)
            }
        }
    }

    fn left(&self) -> usize {
        match self {
            PushedList::Decoded(pushed) => pushed.len(),
            PushedList::Binary { left, .. } => *left,
        }
    }
}

impl ResponseStream for PushedList {
    fn prepare(
        &mut self,
        body: &[u8],
        view: &ChainSnapshot<'_>,
        node: &mut dyn NodeHandle,
        budget: &mut Budget,
    ) -> Result<(), ApiError> {
        while let Some(pushed) = self.next(body, view.context(), budget) {
            let pushed = pushed?;
            let by = pushed.identity.key;
            let transaction = verified(pushed, budget)?;
            let result = submit(transaction, view, node, budget)?;
            node.record_push_result(&by, result);
            if budget.is_exhausted() {
                break;
            }
        }
        Ok(())
    }

    fn write_chunk(
        &mut self,
        _: &ChainSnapshot<'_>,
        _: &mut BodyWriter<'_>,
        _: &mut Budget,
    ) -> Result<Progress, ApiError> {
        Ok(if self.left() == 0 { Progress::Done } else { Progress::Yield })
    }

    fn held_bytes(&self) -> usize {
        match self {
            PushedList::Decoded(pushed) => pushed.len() * TRANSACTION_BYTES,
            PushedList::Binary { .. } => size_of::<PushedList>(),
        }
    }
}

/// `POST /push/transaction`
pub fn transaction(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let pushed = context.body()?;
    context.run_stream(PushedList::Decoded(vec![pushed].into_iter()))
}

/// `POST /push/transactions`
pub fn transactions(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let importer = match context.raw_body()? {
        (Format::Binary, body) => PushedList::of_binary(body, context.chain.context())?,
        (Format::Json, _) => {
            let List(pushed) = context.body()?;
            PushedList::Decoded(pushed.into_iter())
        }
    };
    context.run_stream(importer)
}

/// `POST /push/block`: the block is validated after the response.
pub fn block(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let pushed: SecureEntity<Block> = context.body()?;
    let by = pushed.identity.key;
    let block = verified(pushed, context.budget)?;
    if wire_network(block.version) != context.chain.network.byte {
        return Ok(());
    }
    // For the hash and signature of the block itself.
    context.budget.charge(cost::VERIFICATION + 2 * cost::bytes(context.request.body.len()));
    match context.node.push_block(block, by)? {
        true => Ok(()),
        false => Err(ApiError::NOT_BOOTED),
    }
}
