//! Checks for what NIS1's rules accept but no node can store.
//!
//! NIS1 nodes accept these and then fail to store them, so the chain can never contain one. They are rejected here,
//! after all rules, so that everything else gets NIS1's result.

use super::context::{Purpose, TransactionContext};
use super::result::ValidationResult::{FailureBlockUnverifiable, FailureTransactionNotAllowedForMultisig};
use super::result::{RuleResult, require};
use crate::model::{Block, BlockKind, Body, Height};
use crate::state::StateView;

/// Rejects a cosignature as the inner transaction of a multisig transaction, and a cosignature on its own in a block.
pub fn transaction_is_storable<V: StateView>(subject: &TransactionContext<'_, '_, V>) -> RuleResult {
    let wraps_cosignature = subject.transaction.inner().is_some_and(|inner| matches!(inner.body, Body::Cosignature(_)));
    require(!wraps_cosignature, FailureTransactionNotAllowedForMultisig)?;
    let is_for_block = matches!(subject.context.purpose, Purpose::BlockProcessing | Purpose::NewBlock);
    let is_cosignature = matches!(subject.transaction.body, Body::Cosignature(_));
    require(!(is_for_block && is_cosignature), FailureTransactionNotAllowedForMultisig)
}

/// Rejects a block of the nemesis kind at any height but the first.
pub fn block_is_storable(block: &Block) -> RuleResult {
    require(block.kind == BlockKind::Regular || block.height == Height::NEMESIS, FailureBlockUnverifiable)
}
