//! Rules for transactions of every kind.

use super::case::Subject;
use super::result::ValidationResult::{
    FailureEntityInvalidVersion, FailureFutureDeadline, FailureMultisigV2AggregateModificationBeforeFork,
    FailureNemesisAccountTransactionAfterNemesisBlock, FailurePastDeadline, FailureTimestampTooFarInFuture,
    FailureTransactionBeforeSecondFork, FailureWrongNetwork,
};
use super::result::{Exception, Verdict, require};
use crate::model::transaction::wire_network;
use crate::model::{Body, Height};
use crate::state::StateView;

/// Maximum time in seconds between time stamp and deadline.
const MAX_LIFE: i32 = 86_400;

/// T1: the deadline is after the time stamp, by a day at most.
pub fn deadline_is_in_window<V: StateView>(subject: &Subject<'_, '_, V>) -> Verdict {
    let (timestamp, deadline) = (subject.transaction.timestamp.0, subject.transaction.deadline.0);
    require(timestamp < deadline, FailurePastDeadline)?;
    let latest = timestamp.checked_add(MAX_LIFE).ok_or_else(|| Exception::argument("time must be non-negative"))?;
    require(deadline <= latest, FailureFutureDeadline)
}

/// T3: the version exists and is allowed at this height.
pub fn version_is_known<V: StateView>(subject: &Subject<'_, '_, V>) -> Verdict {
    let (case, forks) = (subject.case, subject.case.forks());
    match (&subject.transaction.body, subject.transaction.entity_version()) {
        (Body::ProvisionNamespace(_) | Body::MosaicDefinitionCreation(_) | Body::MosaicSupplyChange(_), 1)
        | (Body::Transfer(_), 2) => require(case.is_since(forks.mosaics), FailureTransactionBeforeSecondFork),
        (Body::AggregateModification(_), 2) => {
            require(case.is_since(forks.multisig_m_of_n), FailureMultisigV2AggregateModificationBeforeFork)
        }
        (_, version) => require(version == 1, FailureEntityInvalidVersion),
    }
}

/// T4: the time stamp is not in the future.
pub fn is_not_in_future<V: StateView>(subject: &Subject<'_, '_, V>) -> Verdict {
    require(!subject.case.is_in_future(subject.transaction.timestamp), FailureTimestampTooFarInFuture)
}

/// T5: the nemesis account signs only in the nemesis block and in the block of the treasury re-issuance.
pub fn nemesis_account_rests<V: StateView>(subject: &Subject<'_, '_, V>) -> Verdict {
    let may_sign = subject.case.height == Height::NEMESIS || subject.case.is_treasury();
    require(may_sign || !subject.is_by_nemesis(), FailureNemesisAccountTransactionAfterNemesisBlock)
}

/// T7: the transaction was made for this network.
pub fn network_is_ours<V: StateView>(subject: &Subject<'_, '_, V>) -> Verdict {
    require(wire_network(subject.transaction.version) == subject.case.network.byte, FailureWrongNetwork)
}

/// U1: neither the deadline of the transaction nor that of a direct child has passed.
pub fn is_not_expired<V: StateView>(subject: &Subject<'_, '_, V>) -> Verdict {
    let mut all = subject.transaction.self_and_children();
    require(all.all(|transaction| transaction.deadline >= subject.case.now), FailurePastDeadline)
}
