//! The first block of a chain.

use super::error::BlockError;
use crate::codec::Context;
use crate::model::{Address, Block, BlockKind, Height, Network};

/// Reads a nemesis block and checks that it belongs to the network.
pub fn nemesis_block(bytes: &[u8], network: &Network) -> Result<Block, BlockError> {
    let block = Block::from_bytes(bytes, Context::of(network))?;
    if block.kind != BlockKind::Nemesis || block.height != Height::NEMESIS {
        return Err(BlockError::Nemesis("the file holds another block"));
    }
    if Address::from_public_key(&block.signer, network.byte) != network.nemesis_signer {
        return Err(BlockError::Nemesis("it is signed by another account"));
    }
    Ok(block)
}
