//! The rules for a transaction, in their order.

use super::context::{Purpose, TransactionContext, ValidationContext};
use super::result::{Rejection, RuleResult};
use super::{balance, common, fees, importance_transfer, mosaic, multisig, namespace, remote, transfer, unstorable};
use crate::model::{Body, Transaction};
use crate::state::{Effect, StateView, effects_with_signer};

/// Applies the rules T1–T21 and U1 to a transaction and then to each direct child.
///
/// Returns the effects of the transaction in order. They are computed from the state before the transaction, so the
/// caller must apply them before any other change.
pub fn check_transaction<'t, V: StateView>(
    transaction: &'t Transaction,
    context: &ValidationContext<'_, V>,
) -> Result<Vec<Effect<'t>>, Rejection> {
    let subject = TransactionContext::new(transaction, context);
    let mut list = Vec::with_capacity(8);
    rules_before_effects(&subject)?;
    effects_with_signer(subject.signer, transaction, context.state, context.network.byte, &mut list)?;
    balance::currency_suffices(&list, context)?; // T6
    rules_on_state(&subject)?;
    balance::mosaics_suffice(&list, context)?; // T20
    rules_at_the_end(&subject)?;
    for child in transaction.children() {
        let child = TransactionContext::new(child, context);
        rules_before_effects(&child)?;
        // T6 and T20 hold: the effects of the children are part of the parent's effects.
        rules_on_state(&child)?;
        rules_at_the_end(&child)?;
    }
    unstorable::transaction_is_storable(&subject)?;
    Ok(list)
}

fn rules_before_effects<V: StateView>(subject: &TransactionContext<'_, '_, V>) -> RuleResult {
    common::deadline_is_in_window(subject)?; // T1
    fees::fee_suffices(subject)?; // T2
    common::version_is_known(subject)?; // T3
    common::is_not_in_future(subject)?; // T4
    common::nemesis_signs_only_at_forks(subject) // T5
}

fn rules_on_state<V: StateView>(subject: &TransactionContext<'_, '_, V>) -> RuleResult {
    common::network_matches(subject)?; // T7
    remote::no_remote_takes_part(subject)?; // T8
    multisig::multisig_account_does_not_sign(subject)?; // T9
    match &subject.transaction.body {
        Body::Transfer(body) => {
            transfer::message_fits(body, subject)?; // T10
            transfer::mosaics_may_move(body, subject) // T19
        }
        Body::ImportanceTransfer(body) => importance_transfer::link_may_change(body, subject), // T11
        Body::Multisig(body) => {
            multisig::initiator_is_cosignatory(body, subject)?; // T12
            multisig::fee_sink_cannot_spend(body, subject) // T13
        }
        Body::AggregateModification(body) => {
            multisig::modifications_are_possible(body, subject)?; // T14
            multisig::counts_are_in_range(body, subject) // T15
        }
        Body::ProvisionNamespace(body) => namespace::may_be_rented(body, subject), // T16
        Body::MosaicDefinitionCreation(body) => mosaic::may_be_defined(body, subject), // T17
        Body::MosaicSupplyChange(body) => mosaic::supply_may_change(body, subject), // T18
        Body::Cosignature(_) => Ok(()),
    }
}

fn rules_at_the_end<V: StateView>(subject: &TransactionContext<'_, '_, V>) -> RuleResult {
    match (subject.context.purpose, &subject.transaction.body) {
        // A multisig transaction in the mempool may still lack cosignatures.
        (Purpose::Mempool, _) => common::is_not_expired(subject), // U1
        (Purpose::BlockProcessing | Purpose::NewBlock, Body::Multisig(body)) => {
            multisig::signatures_are_complete(body, subject)
        } // T21
        _ => Ok(()),
    }
}
