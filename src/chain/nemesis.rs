//! The first block of a chain.

use super::error::BlockError;
use super::verify::Unverified;
use crate::model::{Address, BlockKind, Height, Network};

/// Reads a nemesis block and checks that it belongs to the network.
pub fn nemesis_block(bytes: &[u8], network: &Network) -> Result<Unverified, BlockError> {
    let unverified = Unverified::read(bytes, network)?;
    let block = unverified.block();
    if block.kind != BlockKind::Nemesis || block.height != Height::NEMESIS {
        return Err(BlockError::Nemesis("the file holds another block"));
    }
    if Address::from_public_key(&block.signer, network.byte) != network.nemesis_signer {
        return Err(BlockError::Nemesis("it is signed by another account"));
    }
    Ok(unverified)
}
