//! The chain and its blocks: handlers, views and streams. A block can have thousands of transactions.

use super::peer_requests::{send_signed, signature_of};
use super::request_context::positive_height;
use super::routes::{Route, get, post};
use super::streams::{ListStep, ListStream, list_stream};
use super::{ApiError, Format, NodeContext, RequestContext, View};
use crate::budget::cost;
use crate::chain::BlockCursor;
use crate::codec::{self, Encoder};
use crate::crypto::Signature;
use crate::model::{Address, Block, Height, Transaction};
use crate::peer::wire::Score;
use crate::store::{StoreError, StoredHeader, stored_header};

/// Routes.
pub const ROUTES: &[Route] = &[
    get("/chain/height", height).while_loading(),
    get("/chain/score", score),
    get("/chain/last-block", last_block).cached(),
    post("/block/at/public", block_at).cached(),
    get("/block/get", block_by_hash).cached().own(),
    post("/local/block/at", explorer_block).local().reading_store(),
    post("/local/chain/blocks-after", explorer_blocks).local().reading_store(),
];

/// Maximum number of blocks in a response for explorers.
const MAX_BLOCKS: u64 = 10;
/// A reorg replaced the block meanwhile.
pub(super) const REPLACED: ApiError = ApiError::unavailable("the block was replaced while it was shown");

/// `/chain/height`
pub(super) fn height(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let height = context.node.chain.height;
    send_signed(context, &height)
}

/// `/chain/score`
pub(super) fn score(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let score = chain_score(&context.node)?;
    send_signed(context, &Score(score))
}

/// Returns the score of the chain.
pub(super) fn chain_score(node: &NodeContext<'_>) -> Result<i128, StoreError> {
    let tip = stored_header(node.chain.snapshot, node.chain.height)?;
    Ok(tip.ok_or(StoreError::Damaged("a block"))?.score)
}

/// `/chain/last-block`
pub(super) fn last_block(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let (height, signature) = (context.node.chain.height, signature_of(context)?);
    send_block(context, height, signature)
}

/// `POST /block/at/public`
fn block_at(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let height = context.body()?;
    send_block(context, height, None)
}

/// Responds with a block, to a peer with the signature of its challenge.
pub(super) fn send_block(
    context: &mut RequestContext<'_>,
    height: Height,
    signature: Option<Signature>,
) -> Result<(), ApiError> {
    if !context.node.chain.has_block(height) {
        return Err(ApiError::no_block(height));
    }
    context.send_stream(BlockBody::new(height).into_stream().signed(signature))
}

/// `GET /block/get`: the block with a hash, if a reorg can still replace it; it is searched from the tip down. Blocks are
/// stored by height: an index of all hashes would cost each block the write of a row at a random position.
fn block_by_hash(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let hash = context.hash()?;
    let chain = context.node.chain;
    let lowest = chain.network.chain.lowest_rollback(chain.height);
    let (mut next, mut found) = (chain.height, None);
    context.send_stream(list_stream(move |step| {
        while found.is_none() {
            if next < lowest {
                return Err(ApiError::new(404, format!("no block from height {lowest} on has the hash {hash}")));
            }
            if step.must_pause() {
                return Ok(());
            }
            step.node.budget.charge(cost::HEADER);
            if stored_header(step.node.chain.snapshot, next)?.is_some_and(|header| header.hash == hash) {
                found = Some(BlockBody::new(next));
            }
            next = Height(next.0.saturating_sub(1));
        }
        found.as_mut().map_or(Ok(()), |block| block.write(step))
    }))
}

/// `POST /local/block/at`
fn explorer_block(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let height = context.body()?;
    if !context.node.chain.has_block(height) {
        return Err(ApiError::new(500, format!("there is no block at height {height}")));
    }
    context.send_stream(BlockBody::for_explorers(height).into_stream())
}

/// `POST /local/chain/blocks-after`
fn explorer_blocks(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let Height(after) = context.body()?;
    // In NIS1 the height after the maximum is negative.
    let first = positive_height((after as i64).wrapping_add(1))?;
    let last = Height(after.saturating_add(MAX_BLOCKS)).min(context.node.chain.height);
    let mut block = BlockBody::for_explorers(first);
    context.send_stream(list_stream(move |step| {
        while block.height <= last && step.element(|step| block.write(step))? {
            block = BlockBody::for_explorers(block.height.next());
            if step.must_pause() {
                break;
            }
        }
        Ok(())
    }))
}

/// A block with an [`Encoder::spliced_list`] for its transactions.
struct BlockHead<'a>(&'a Block);

impl View for BlockHead<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        codec::block::write_spliced(sink, self.0);
    }
}

/// A block with header data and two [`Encoder::spliced_list`]s: for its transactions, and for those with hashes (first in
/// JSON).
struct ExplorerBlockHead<'a> {
    block: &'a Block,
    header: &'a StoredHeader,
    /// Account that received its fees.
    beneficiary: Address,
}

impl View for ExplorerBlockHead<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("block", |sink| codec::block::write_spliced(sink, self.block));
        sink.bytes("hash", Some(&self.header.hash.0));
        sink.u64("difficulty", self.header.difficulty);
        sink.spliced_list("txes");
        sink.string("beneficiary", Some(self.beneficiary.as_str()));
        sink.u64("totalFee", self.header.total_fee.0);
    }
}

/// A transaction of a block with its hash, and the hash of the inner transaction of a multisig transaction.
struct ExplorerEntry<'a>(&'a Transaction);

impl View for ExplorerEntry<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("tx", |sink| self.0.write(sink));
        sink.bytes("hash", Some(&self.0.hash().0));
        if let Some(inner) = self.0.inner() {
            sink.bytes("innerHash", Some(&inner.hash().0));
        }
    }
}

/// A block, with the output of [`crate::codec::block::write`], or with the data for explorers and its transactions
/// twice. Fails if the block leaves the chain before it is written.
pub struct BlockBody {
    /// Height.
    pub height: Height,
    is_for_explorers: bool,
    /// Start of the block, while the first of two lists is being written.
    start: Option<BlockCursor>,
    /// Position in the current list, once the block is open.
    cursor: Option<BlockCursor>,
}

impl BlockBody {
    /// Creates the body of the block at a height.
    pub fn new(height: Height) -> BlockBody {
        BlockBody { height, is_for_explorers: false, start: None, cursor: None }
    }

    fn for_explorers(height: Height) -> BlockBody {
        BlockBody { is_for_explorers: true, ..BlockBody::new(height) }
    }

    /// Returns the stream of the block.
    pub fn into_stream(mut self) -> ListStream {
        list_stream(move |step| self.write(step))
    }

    /// Writes the block, or continues with it.
    pub fn write(&mut self, step: &mut ListStep<'_, '_, '_>) -> Result<(), ApiError> {
        let chain = step.node.chain;
        let mut reader = match self.cursor.take() {
            Some(cursor) => chain.reopen_block(cursor)?.ok_or(REPLACED)?,
            None => {
                let (block, reader) = chain.open_block(self.height)?.ok_or_else(|| ApiError::no_block(self.height))?;
                if self.is_for_explorers {
                    let header = &reader.row.header;
                    let signer = || Address::from_public_key(&block.signer, chain.network.byte);
                    let beneficiary = header.beneficiary.unwrap_or_else(signer);
                    step.open(&ExplorerBlockHead { block: &block, header, beneficiary });
                    self.start = Some(reader.cursor.clone());
                } else {
                    step.open_sized(&BlockHead(&block), reader.row.count(), reader.row.transaction_bytes());
                }
                reader
            }
        };
        loop {
            while let Some(raw) = reader.next_raw()? {
                let read = cost::TRANSACTION + cost::bytes(raw.bytes.len());
                let units = match step.format() {
                    format if self.is_for_explorers && (format == Format::Json) == self.start.is_some() => {
                        step.push(&ExplorerEntry(&raw.read()?));
                        read + cost::HASH
                    }
                    Format::Json => {
                        step.push(&raw.read()?);
                        read
                    }
                    // They are stored in the form in which they are sent.
                    Format::Binary => {
                        step.push_binary(raw.bytes);
                        cost::copied(raw.bytes.len())
                    }
                };
                step.node.budget.charge(units);
                if step.must_pause() {
                    self.cursor = Some(reader.cursor);
                    return Ok(());
                }
            }
            let Some(start) = self.start.take() else { return Ok(()) };
            step.next_list();
            reader = chain.reopen_block(start)?.ok_or(REPLACED)?;
        }
    }
}

#[cfg(test)]
mod tests;
