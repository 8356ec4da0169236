//! Single blocks that a peer pushes or that this node harvested.

use super::candidate_branch::CandidateBranch;
use super::harvest::Harvested;
use super::rollback::RollbackError;
use super::signatures::check_block_signature;
use crate::crypto::Verifier;
use crate::model::transaction::wire_network;
use crate::model::{Block, Height, Network};
use crate::rules::{Exception, ExceptionKind, Rejection, ValidationResult};
use crate::store::{Read, Store, StoreError, stored_header, tip};

/// Checks a pushed block before any work is done for it: it must be of this network, and follow our tip or be its
/// sibling. The signature of a sibling is checked later, like those of all candidate branches.
pub fn check_pushed(
    block: &Block,
    state: &impl Read,
    network: &Network,
    verifier: &mut Verifier,
) -> Result<(), Rejection> {
    if wire_network(block.version) != network.byte {
        return Err(ValidationResult::FailureWrongNetwork.into());
    }
    let last = tip(state)?.ok_or(StoreError::Empty)?;
    if block.previous_hash == last.hash {
        let (_, good) = check_block_signature(block, false, verifier);
        return if good { Ok(()) } else { Err(ValidationResult::FailureSignatureNotVerifiable.into()) };
    }
    let before = match last.height {
        Height::NEMESIS => Default::default(),
        height => stored_header(state, Height(height.0 - 1))?.map(|header| header.hash).unwrap_or_default(),
    };
    let is_sibling = block.previous_hash == before;
    if is_sibling { Ok(()) } else { Err(ValidationResult::FailureEntityUnusableOutOfSync.into()) }
}

/// Creates a branch of one pushed block. A block that is known or follows none of ours is rejected as neutral.
pub fn pushed_branch<'s>(
    store: &'s Store,
    network: &'s Network,
    block: Block,
) -> Result<Box<CandidateBranch<'s>>, Rejection> {
    let common = new_block_parent_height(store, &block)?;
    boxed(CandidateBranch::new(store, network, common, vec![block]))
}

/// Like [`pushed_branch`], for a block that this node harvested: its transaction signatures are known to be valid.
pub fn harvested_branch<'s>(
    store: &'s Store,
    network: &'s Network,
    Harvested { block, hashes, .. }: Harvested,
) -> Result<Box<CandidateBranch<'s>>, Rejection> {
    let common = new_block_parent_height(store, &block)?;
    boxed(CandidateBranch::with_verified_hashes(store, network, common, block, hashes))
}

/// Returns the height of the block's parent, if the block is new and follows one of ours.
fn new_block_parent_height(store: &Store, block: &Block) -> Result<Height, Rejection> {
    if block.height <= Height::NEMESIS {
        let text = "height must be positive".to_owned();
        return Err(Exception { kind: ExceptionKind::Argument, text }.into());
    }
    let common = Height(block.height.0 - 1);
    let snapshot = store.snapshot()?;
    let known = stored_header(&snapshot, block.height)?;
    let is_known = known.is_some_and(|ours| ours.hash == block.hash());
    let parent = stored_header(&snapshot, common)?;
    let is_of_use = !is_known && parent.is_some_and(|parent| block.previous_hash == parent.hash);
    is_of_use.then_some(common).ok_or(ValidationResult::Neutral.into())
}

fn boxed(part: Result<CandidateBranch<'_>, RollbackError>) -> Result<Box<CandidateBranch<'_>>, Rejection> {
    match part {
        Ok(part) => Ok(Box::new(part)),
        Err(RollbackError::Store(error)) => Err(error.into()),
        // Blocks deeper than the rewrite limit are never replaced.
        Err(RollbackError::NotBelow { .. } | RollbackError::TooDeep { .. }) => Err(ValidationResult::Neutral.into()),
    }
}
