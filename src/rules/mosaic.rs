//! Rules for mosaics and their supply.

use super::context::{TransactionContext, ValidationContext};
use super::fees::creation_fee;
use super::result::ValidationResult::{
    FailureMosaicCreatorConflict, FailureMosaicInvalidCreationFee, FailureMosaicInvalidCreationFeeSink,
    FailureMosaicLevyNotTransferable, FailureMosaicMaxSupplyExceeded, FailureMosaicModificationNotAllowed,
    FailureMosaicSupplyImmutable, FailureMosaicSupplyNegative, FailureMosaicUnknown, FailureNamespaceExpired,
    FailureNamespaceOwnerConflict,
};
use super::result::{RuleResult, require};
use crate::model::transaction::{MosaicDefinitionCreation, MosaicSupplyChange, SupplyChangeKind};
use crate::model::{Address, MosaicDefinition, NamespaceId};
use crate::state::{MosaicEntry, StateView};
use crate::store::StoreError;

/// T17: the mosaic may be defined or redefined.
pub fn may_be_defined<V: StateView>(
    body: &MosaicDefinitionCreation,
    subject: &TransactionContext<'_, '_, V>,
) -> RuleResult {
    let (context, definition) = (subject.context, &body.definition);
    let namespace = &definition.id.namespace;
    namespace_is_active(namespace, context)?;
    let owner = context.state.namespace_owner(namespace)?;
    require(owner == Some(subject.signer), FailureNamespaceOwnerConflict)?;
    if let Some(existing) = context.state.mosaic(&definition.id)? {
        require(may_be_redefined(&existing, definition, context)?, FailureMosaicModificationNotAllowed)?;
    }
    require(body.creation_fee_sink == context.network.mosaic_sink(), FailureMosaicInvalidCreationFeeSink)?;
    require(body.creation_fee >= creation_fee(context), FailureMosaicInvalidCreationFee)?;
    levy_can_be_paid(definition, context)
}

/// Requires that the namespace of a mosaic is active.
pub fn namespace_is_active<V: StateView>(namespace: &NamespaceId, context: &ValidationContext<'_, V>) -> RuleResult {
    let term = context.chain().blocks_per_year();
    require(context.state.is_namespace_active(namespace, context.height, term)?, FailureNamespaceExpired)
}

/// Returns whether a definition may replace another. With equal terms, the description must differ. Terms may change
/// only while the creator owns the whole supply, and `transferable` may never change.
fn may_be_redefined<V: StateView>(
    old: &MosaicEntry,
    new: &MosaicDefinition,
    context: &ValidationContext<'_, V>,
) -> Result<bool, StoreError> {
    let MosaicEntry { definition, supply } = old;
    if definition.properties == new.properties && definition.levy == new.levy {
        return Ok(definition.description != new.description);
    }
    let creator = Address::from_public_key(&definition.creator, context.network.byte);
    let owned = context.state.mosaic_balance(&new.id, &creator)?;
    Ok(definition.properties.transferable == new.properties.transferable
        && owned == supply * definition.properties.multiplier())
}

/// Requires that the mosaic of the levy exists and is transferable. NIS1 checks nothing else about a levy.
fn levy_can_be_paid<V: StateView>(definition: &MosaicDefinition, context: &ValidationContext<'_, V>) -> RuleResult {
    let Some(levy) = &definition.levy else { return Ok(()) };
    let is_transferable = if levy.mosaic == definition.id {
        definition.properties.transferable
    } else {
        let entry = context.state.mosaic(&levy.mosaic)?.ok_or(FailureMosaicUnknown)?;
        entry.definition.properties.transferable
    };
    require(is_transferable, FailureMosaicLevyNotTransferable)
}

/// T18: the supply may change by this amount.
pub fn supply_may_change<V: StateView>(
    body: &MosaicSupplyChange,
    subject: &TransactionContext<'_, '_, V>,
) -> RuleResult {
    let context = subject.context;
    let MosaicEntry { definition, supply } = context.state.mosaic(&body.mosaic)?.ok_or(FailureMosaicUnknown)?;
    let properties = definition.properties;
    namespace_is_active(&body.mosaic.namespace, context)?;
    require(definition.creator == subject.transaction.signer, FailureMosaicCreatorConflict)?;
    require(properties.supply_mutable, FailureMosaicSupplyImmutable)?;
    match body.kind {
        SupplyChangeKind::Create => {
            let fits = supply.checked_add(body.delta).is_some_and(|sum| sum <= properties.max_supply());
            require(fits, FailureMosaicMaxSupplyExceeded)
        }
        SupplyChangeKind::Delete => {
            let owned = context.state.mosaic_balance(&body.mosaic, &subject.signer)?;
            require(owned / properties.multiplier() >= body.delta, FailureMosaicSupplyNegative)
        }
    }
}
