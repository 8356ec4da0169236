//! Rules for transfers.

use super::context::{TransactionContext, ValidationContext};
use super::mosaic::namespace_is_active;
use super::result::ValidationResult::{
    FailureMessageTooLarge, FailureMosaicDivisibilityViolated, FailureMosaicLevyUnknown, FailureMosaicNotTransferable,
    FailureMosaicUnknown, FailureTooManyMosaicTransfers,
};
use super::result::{RuleResult, require};
use crate::model::transaction::Transfer;
use crate::model::units::MICRO;
use crate::model::{Address, MosaicId};
use crate::state::StateView;

/// Maximum number of mosaics in a transfer, `nem:xem` not counted.
const MAX_MOSAICS: usize = 10;

/// T10: the message is not too long.
pub fn message_fits<V: StateView>(body: &Transfer, subject: &TransactionContext<'_, '_, V>) -> RuleResult {
    let length = body.message.as_ref().map_or(0, |message| message.payload.len());
    require(length <= max_message_length(subject.context), FailureMessageTooLarge)
}

/// Returns the maximum length of a message in bytes.
pub fn max_message_length<V: StateView>(context: &ValidationContext<'_, V>) -> usize {
    let forks = context.forks();
    match () {
        _ if context.is_since(forks.remote_account) => 1024,
        _ if context.is_since(forks.multisig_m_of_n) => 160,
        _ => 96,
    }
}

/// T19: the attached mosaics exist and may be transferred. `nem:xem` is not counted.
pub fn mosaics_may_move<V: StateView>(body: &Transfer, subject: &TransactionContext<'_, '_, V>) -> RuleResult {
    let count = body.other_mosaics().count();
    require(count <= MAX_MOSAICS, FailureTooManyMosaicTransfers)?;
    require(count == 0 || body.amount.0.is_multiple_of(MICRO), FailureMosaicDivisibilityViolated)?;
    body.other_mosaics().try_for_each(|mosaic| mosaic_may_move(&mosaic.id, body, subject))
}

fn mosaic_may_move<V: StateView>(
    id: &MosaicId,
    body: &Transfer,
    subject: &TransactionContext<'_, '_, V>,
) -> RuleResult {
    let context = subject.context;
    let definition = context.state.mosaic(id)?.ok_or(FailureMosaicUnknown)?.definition;
    namespace_is_active(&id.namespace, context)?;
    if !definition.properties.transferable {
        let creator = Address::from_public_key(&definition.creator, context.network.byte);
        require([subject.signer, body.recipient].contains(&creator), FailureMosaicNotTransferable)?;
    }
    match definition.levy {
        Some(levy) => require(context.state.mosaic(&levy.mosaic)?.is_some(), FailureMosaicLevyUnknown),
        None => Ok(()),
    }
}
