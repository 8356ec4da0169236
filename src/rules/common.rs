//! Rules that read the transaction alone.

use super::result::ValidationResult::*;
use super::result::{Exception, RuleResult, require};
use super::{Purpose, TransactionContext};
use crate::model::network::Forks;
use crate::model::transaction::{Transfer, wire_network};
use crate::model::{Body, Height};

/// Maximum time in seconds between time stamp and deadline.
const MAX_LIFETIME: i32 = 86_400;

/// T1: the deadline is after the time stamp, by a day at most.
pub fn deadline_is_in_window(subject: &TransactionContext<'_, '_>) -> RuleResult {
    let (timestamp, deadline) = (subject.transaction.timestamp.0, subject.transaction.deadline.0);
    require(timestamp < deadline, FailurePastDeadline)?;
    let latest = timestamp.checked_add(MAX_LIFETIME).ok_or_else(|| Exception::argument("time must be non-negative"))?;
    require(deadline <= latest, FailureFutureDeadline)
}

/// T3: the version exists and is allowed at this height.
pub fn version_is_known(subject: &TransactionContext<'_, '_>) -> RuleResult {
    let (context, forks) = (subject.context, subject.context.forks());
    match (&subject.transaction.body, subject.transaction.entity_version()) {
        (Body::ProvisionNamespace(_) | Body::MosaicDefinitionCreation(_) | Body::MosaicSupplyChange(_), 1)
        | (Body::Transfer(_), 2) => require(context.is_since(forks.mosaics), FailureTransactionBeforeSecondFork),
        (Body::AggregateModification(_), 2) => {
            require(context.is_since(forks.multisig_m_of_n), FailureMultisigV2AggregateModificationBeforeFork)
        }
        (_, version) => require(version == 1, FailureEntityInvalidVersion),
    }
}

/// T4: the time stamp is not in the future.
pub fn is_not_in_future(subject: &TransactionContext<'_, '_>) -> RuleResult {
    require(!subject.context.is_in_future(subject.transaction.timestamp), FailureTimestampTooFarInFuture)
}

/// T5: the nemesis account signs only in the nemesis block and in the block of the treasury re-issuance.
pub fn nemesis_signs_only_at_forks(subject: &TransactionContext<'_, '_>) -> RuleResult {
    let may_sign = subject.context.height == Height::NEMESIS || subject.context.is_treasury();
    require(may_sign || !subject.is_by_nemesis(), FailureNemesisAccountTransactionAfterNemesisBlock)
}

/// T7: the transaction was made for this network.
pub fn network_matches(subject: &TransactionContext<'_, '_>) -> RuleResult {
    require(wire_network(subject.transaction.version) == subject.context.network.byte, FailureWrongNetwork)
}

/// T10: the message is not too long.
pub fn message_fits(body: &Transfer, subject: &TransactionContext<'_, '_>) -> RuleResult {
    let length = body.message.as_ref().map_or(0, |message| message.payload.len());
    require(length <= max_message_length(subject.context.forks(), subject.context.height), FailureMessageTooLarge)
}

/// Returns the maximum length of a message in bytes.
pub fn max_message_length(forks: &Forks, height: Height) -> usize {
    match height.0 {
        height if height >= forks.remote_account => 1024,
        height if height >= forks.multisig_m_of_n => 160,
        _ => 96,
    }
}

/// U1: neither the deadline of the transaction nor that of a direct child has passed.
pub fn is_not_expired(subject: &TransactionContext<'_, '_>) -> RuleResult {
    let mut all = subject.transaction.self_and_children();
    require(all.all(|transaction| transaction.deadline >= subject.context.now), FailurePastDeadline)
}

/// Rejects a cosignature as the inner transaction of a multisig transaction, and a cosignature on its own in a block.
/// NIS1 nodes accept these and then fail to store them, so the chain can never contain one. They are rejected after all
/// rules, so that everything else gets NIS1's result.
pub fn is_storable(subject: &TransactionContext<'_, '_>) -> RuleResult {
    let wraps_cosignature = subject.transaction.inner().is_some_and(|inner| matches!(inner.body, Body::Cosignature(_)));
    require(!wraps_cosignature, FailureTransactionNotAllowedForMultisig)?;
    let is_for_block = matches!(subject.context.purpose, Purpose::BlockProcessing | Purpose::NewBlock);
    let is_cosignature = matches!(subject.transaction.body, Body::Cosignature(_));
    require(!(is_for_block && is_cosignature), FailureTransactionNotAllowedForMultisig)
}
