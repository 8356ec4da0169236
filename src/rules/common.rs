//! Rules for transactions of every kind.

use super::context::TransactionContext;
use super::result::ValidationResult::{
    FailureEntityInvalidVersion, FailureFutureDeadline, FailureMultisigV2AggregateModificationBeforeFork,
    FailureNemesisAccountTransactionAfterNemesisBlock, FailurePastDeadline, FailureTimestampTooFarInFuture,
    FailureTransactionBeforeSecondFork, FailureWrongNetwork,
};
use super::result::{Exception, RuleResult, require};
use crate::model::transaction::wire_network;
use crate::model::{Body, Height};
use crate::state::StateView;

/// Maximum time in seconds between time stamp and deadline.
const MAX_LIFETIME: i32 = 86_400;

/// T1: the deadline is after the time stamp, by a day at most.
pub fn deadline_is_in_window<V: StateView>(subject: &TransactionContext<'_, '_, V>) -> RuleResult {
    let (timestamp, deadline) = (subject.transaction.timestamp.0, subject.transaction.deadline.0);
    require(timestamp < deadline, FailurePastDeadline)?;
    let latest = timestamp.checked_add(MAX_LIFETIME).ok_or_else(|| Exception::argument("time must be non-negative"))?;
    require(deadline <= latest, FailureFutureDeadline)
}

/// T3: the version exists and is allowed at this height.
pub fn version_is_known<V: StateView>(subject: &TransactionContext<'_, '_, V>) -> RuleResult {
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
pub fn is_not_in_future<V: StateView>(subject: &TransactionContext<'_, '_, V>) -> RuleResult {
    require(!subject.context.is_in_future(subject.transaction.timestamp), FailureTimestampTooFarInFuture)
}

/// T5: the nemesis account signs only in the nemesis block and in the block of the treasury re-issuance.
pub fn nemesis_signs_only_at_forks<V: StateView>(subject: &TransactionContext<'_, '_, V>) -> RuleResult {
    let may_sign = subject.context.height == Height::NEMESIS || subject.context.is_treasury();
    require(may_sign || !subject.is_by_nemesis(), FailureNemesisAccountTransactionAfterNemesisBlock)
}

/// T7: the transaction was made for this network.
pub fn network_matches<V: StateView>(subject: &TransactionContext<'_, '_, V>) -> RuleResult {
    require(wire_network(subject.transaction.version) == subject.context.network.byte, FailureWrongNetwork)
}

/// U1: neither the deadline of the transaction nor that of a direct child has passed.
pub fn is_not_expired<V: StateView>(subject: &TransactionContext<'_, '_, V>) -> RuleResult {
    let mut all = subject.transaction.self_and_children();
    require(all.all(|transaction| transaction.deadline >= subject.context.now), FailurePastDeadline)
}
