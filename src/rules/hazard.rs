//! What the protocol's own rules let through although no node can store it.
//!
//! The reference network accepts these and then fails while storing them, so that its chain can never hold one. They
//! are refused here, and last, so that everything else is answered as there.

use super::case::{Purpose, Subject};
use super::result::ValidationResult::{FailureBlockUnverifiable, FailureTransactionNotAllowedForMultisig};
use super::result::{Verdict, require};
use crate::model::{Block, BlockKind, Body, Height};
use crate::state::StateView;

/// A cosignature stands neither inside a multisig transaction in the place of the inner one, nor alone in a block.
pub fn transaction_can_be_kept<V: StateView>(subject: &Subject<'_, '_, V>) -> Verdict {
    let wraps_cosignature = subject.transaction.inner().is_some_and(|inner| matches!(inner.body, Body::Cosignature(_)));
    require(!wraps_cosignature, FailureTransactionNotAllowedForMultisig)?;
    let is_for_block = matches!(subject.case.purpose, Purpose::ChainPart | Purpose::NewBlock);
    let is_cosignature = matches!(subject.transaction.body, Body::Cosignature(_));
    require(!(is_for_block && is_cosignature), FailureTransactionNotAllowedForMultisig)
}

/// Only the first block is of the kind of the first block.
pub fn block_can_be_kept(block: &Block) -> Verdict {
    require(block.kind == BlockKind::Regular || block.height == Height::NEMESIS, FailureBlockUnverifiable)
}
