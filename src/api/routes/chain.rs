//! Handlers of the chain and its blocks.

use crate::api::error::ApiError;
use crate::api::request_context::{RequestContext, positive_height};
use crate::api::streams::{BlockByHashStream, BlockStream, ExplorerBlockStream, ExplorerBlocksStream};
use crate::model::{Hash256, Height};
use crate::peer::wire::Score;

/// Maximum number of blocks in a response for explorers.
const MAX_BLOCKS: u64 = 10;

/// `GET /chain/height`
pub fn height(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.send(&context.chain.height)
}

/// `GET /chain/score`
pub fn score(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let score = context.chain.score()?;
    context.send(&Score(score))
}

/// `GET /chain/last-block`
pub fn last_block(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    send_block(context, context.chain.height)
}

/// `POST /block/at/public`
pub fn block_at(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let height = context.body()?;
    send_block(context, height)
}

/// `GET /block/get`: the block with a hash, if a reorg can still replace it. Blocks are stored by height: an index of
/// all hashes would cost each block the write of a row at a random position.
pub fn block_by_hash(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let hash = Hash256::try_from(context.hex("hash")?.as_slice());
    let hash = hash.map_err(|_| ApiError::argument("the hash of a block has 32 bytes"))?;
    context.send_stream(BlockByHashStream::new(hash, context.chain))
}

fn send_block(context: &mut RequestContext<'_>, height: Height) -> Result<(), ApiError> {
    if !context.chain.has_block(height) {
        return Err(ApiError::no_block(height));
    }
    context.send_stream(BlockStream::new(height))
}

/// `POST /local/block/at`
pub fn explorer_block(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let height = context.body()?;
    if !context.chain.has_block(height) {
        return Err(ApiError::Internal(format!("there is no block at height {height}").into()));
    }
    context.send_stream(ExplorerBlockStream::new(height))
}

/// `POST /local/chain/blocks-after`
pub fn explorer_blocks(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let Height(after) = context.body()?;
    // In NIS1 the height after the maximum is negative.
    let first = positive_height((after as i64).wrapping_add(1))?;
    let last = Height(after.saturating_add(MAX_BLOCKS)).min(context.chain.height);
    context.send_stream(ExplorerBlocksStream::new(first, last))
}
