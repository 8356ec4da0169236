//! Handlers of the chain and its blocks.

use crate::api::call::{Call, positive_height};
use crate::api::failure::Failure;
use crate::api::long::{BlockByHash, BlockWriter, ExplorerBlocks, ExplorerWriter};
use crate::model::{Hash256, Height};
use crate::peer::wire::Score;

/// Maximum number of blocks in a response for explorers.
const MOST_BLOCKS: u64 = 10;

/// `GET /chain/height`
pub fn height(call: &mut Call<'_>) -> Result<(), Failure> {
    call.send(&call.view.height)
}

/// `GET /chain/score`
pub fn score(call: &mut Call<'_>) -> Result<(), Failure> {
    let score = call.view.score()?;
    call.send(&Score(score))
}

/// `GET /chain/last-block`
pub fn last_block(call: &mut Call<'_>) -> Result<(), Failure> {
    send_block(call, call.view.height)
}

/// `POST /block/at/public`
pub fn block_at(call: &mut Call<'_>) -> Result<(), Failure> {
    let height = call.body()?;
    send_block(call, height)
}

/// `GET /block/get`: the block with a hash, if a reorg can still replace it. Blocks are stored by height: an index of
/// all hashes would cost each block the write of a row at a random position.
pub fn block_by_hash(call: &mut Call<'_>) -> Result<(), Failure> {
    let hash = Hash256::try_from(call.hex("hash")?.as_slice());
    let hash = hash.map_err(|_| Failure::argument("the hash of a block has 32 bytes"))?;
    call.send_long(BlockByHash::new(hash, call.view))
}

fn send_block(call: &mut Call<'_>, height: Height) -> Result<(), Failure> {
    if !call.view.has_block(height) {
        return Err(Failure::no_block(height));
    }
    call.send_long(BlockWriter::new(height))
}

/// `POST /local/block/at`
pub fn explorer_block(call: &mut Call<'_>) -> Result<(), Failure> {
    let height = call.body()?;
    if !call.view.has_block(height) {
        return Err(Failure::Internal(format!("there is no block at height {height}").into()));
    }
    call.send_long(ExplorerWriter::new(height))
}

/// `POST /local/chain/blocks-after`
pub fn explorer_blocks(call: &mut Call<'_>) -> Result<(), Failure> {
    let Height(after) = call.body()?;
    // In NIS1 the height after the maximum is negative.
    let first = positive_height((after as i64).wrapping_add(1))?;
    let last = Height(after.saturating_add(MOST_BLOCKS)).min(call.view.height);
    call.send_long(ExplorerBlocks::new(first, last))
}
