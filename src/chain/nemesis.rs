//! The first block of a chain.

use super::error::BlockError;
use super::signatures::check_block_signature;
use crate::codec::Context;
use crate::crypto::Verifier;
use crate::model::{Address, Block, BlockKind, Hash256, Height, Network};

/// Reads a nemesis block and checks that it belongs to the network.
pub fn nemesis_block(bytes: &[u8], network: &Network) -> Result<Block, BlockError> {
    let block = Block::from_bytes(bytes, Context::of(network))?;
    if block.kind != BlockKind::Nemesis || block.height != Height::NEMESIS {
        return Err(BlockError::Nemesis("it is not the first block of a chain"));
    }
    if Address::from_public_key(&block.signer, network.byte) != network.nemesis_signer {
        return Err(BlockError::Nemesis("it is signed by another account"));
    }
    Ok(block)
}

/// Like [`nemesis_block`], for a block from an untrusted source: also checks its hash, if known, and its signature. The
/// signatures of its transactions are checked when it is imported.
pub fn authentic_nemesis_block(
    bytes: &[u8],
    network: &Network,
    known_hash: Option<Hash256>,
) -> Result<Block, BlockError> {
    let block = nemesis_block(bytes, network)?;
    let (hash, is_signed) = check_block_signature(&block, false, &mut Verifier::default());
    if known_hash.is_some_and(|known| known != hash) {
        return Err(BlockError::Nemesis("it does not have the expected hash"));
    }
    if !is_signed {
        return Err(BlockError::Nemesis("its signature is wrong"));
    }
    Ok(block)
}
