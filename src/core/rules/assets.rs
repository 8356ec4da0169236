//! Rules for namespaces and mosaics.

use super::result::ValidationResult::*;
use super::result::{RuleResult, require};
use super::{FeeSchedule, TransactionContext, ValidationContext};
use crate::model::transaction::{
    MosaicDefinitionCreation, MosaicSupplyChange, ProvisionNamespace, SupplyChangeKind, Transfer,
};
use crate::model::units::MICRO;
use crate::model::{Address, Height, MosaicDefinition, MosaicId, NamespaceId};
use crate::state::{self, Exception, Lease, MosaicEntry};
use crate::store::Result;

/// Names that cannot be rented, at any level.
const RESERVED: [&str; 11] = ["nem", "user", "account", "org", "com", "biz", "net", "edu", "mil", "gov", "info"];
/// Maximum number of mosaics in a transfer, `nem:xem` not counted.
const MAX_MOSAICS: usize = 10;

/// T16: the namespace may be rented. A name that is too long or too deep fails earlier, when the effects are computed,
/// so NIS1's result `FAILURE_NAMESPACE_INVALID_NAME` cannot occur.
pub fn may_be_rented(body: &ProvisionNamespace, subject: &TransactionContext<'_>) -> RuleResult {
    let context = subject.context;
    let name = body.name().map_err(Exception::argument)?;
    require(!name.parts().any(|part| RESERVED.contains(&part)), FailureNamespaceNotClaimable)?;
    require(body.rental_fee_sink == context.network.namespace_sink(), FailureNamespaceInvalidRentalFeeSink)?;
    let leases = state::leases(&context.state, name.root())?;
    if let Some(parent) = &body.parent {
        let newest = leases.last().ok_or(FailureNamespaceUnknown)?;
        require(state::is_in_lease(&context.state, newest, parent)?, FailureNamespaceUnknown)?;
        let term = context.chain().blocks_per_year();
        require(leases.iter().any(|lease| lease.is_active(context.height, term)), FailureNamespaceExpired)?;
        require(newest.owner == subject.signer, FailureNamespaceOwnerConflict)?;
    }
    if let Some(newest) = leases.last()
        && state::is_in_lease(&context.state, newest, &name)?
    {
        require(name.is_root(), FailureNamespaceAlreadyExists)?;
        renewal_is_due(newest, &subject.signer, context)?;
    }
    let rental_fee = FeeSchedule::at(context.forks(), context.height).rental_fee(&name);
    require(body.rental_fee >= rental_fee, FailureNamespaceInvalidRentalFee)
}

/// The owner may renew from a month before the end of the lease; other accounts may rent from a month after its end.
fn renewal_is_due(lease: &Lease, signer: &Address, context: &ValidationContext<'_>) -> RuleResult {
    let month = context.chain().blocks_per_month();
    let expiry = lease.height.plus(context.chain().blocks_per_year());
    let first = if *signer == lease.owner { Height(expiry.0.saturating_sub(month)) } else { expiry.plus(month) };
    require(context.height >= first, FailureNamespaceProvisionTooEarly)
}

/// T17: the mosaic may be defined or redefined.
pub fn may_be_defined(body: &MosaicDefinitionCreation, subject: &TransactionContext<'_>) -> RuleResult {
    let (context, definition) = (subject.context, &body.definition);
    let namespace = &definition.id.namespace;
    namespace_is_active(namespace, context)?;
    let owner = state::namespace_owner(&context.state, namespace)?;
    require(owner == Some(subject.signer), FailureNamespaceOwnerConflict)?;
    if let Some(existing) = state::mosaic(&context.state, &definition.id)? {
        require(may_be_redefined(&existing, definition, context)?, FailureMosaicModificationNotAllowed)?;
    }
    require(body.creation_fee_sink == context.network.mosaic_sink(), FailureMosaicInvalidCreationFeeSink)?;
    let creation_fee = FeeSchedule::at(context.forks(), context.height).creation_fee();
    require(body.creation_fee >= creation_fee, FailureMosaicInvalidCreationFee)?;
    // The mosaic of the levy exists and is transferable. NIS1 checks nothing else about a levy.
    let is_transferable = match &definition.levy {
        Some(levy) if levy.mosaic != definition.id => {
            let entry = state::mosaic(&context.state, &levy.mosaic)?.ok_or(FailureMosaicUnknown)?;
            entry.definition.properties.transferable
        }
        Some(_) => definition.properties.transferable,
        None => true,
    };
    require(is_transferable, FailureMosaicLevyNotTransferable)
}

/// Requires that the namespace of a mosaic is active.
fn namespace_is_active(namespace: &NamespaceId, context: &ValidationContext<'_>) -> RuleResult {
    let term = context.chain().blocks_per_year();
    let is_active = state::is_namespace_active(&context.state, namespace, context.height, term)?;
    require(is_active, FailureNamespaceExpired)
}

/// Returns whether a definition may replace another. With equal terms, the description must differ. Terms may change
/// only while the creator owns the whole supply, and `transferable` may never change.
fn may_be_redefined(old: &MosaicEntry, new: &MosaicDefinition, context: &ValidationContext<'_>) -> Result<bool> {
    let MosaicEntry { definition, supply } = old;
    if definition.has_terms_of(new) {
        return Ok(definition.description != new.description);
    }
    let creator = Address::from_public_key(&definition.creator, context.network.byte);
    let owned = state::mosaic_balance(&context.state, &new.id, &creator)?;
    Ok(definition.properties.transferable == new.properties.transferable
        && owned == supply * definition.properties.multiplier())
}

/// T18: the supply may change by this amount.
pub fn supply_may_change(body: &MosaicSupplyChange, subject: &TransactionContext<'_>) -> RuleResult {
    let context = subject.context;
    let entry = state::mosaic(&context.state, &body.mosaic)?.ok_or(FailureMosaicUnknown)?;
    let MosaicEntry { definition, supply } = entry;
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
            let owned = state::mosaic_balance(&context.state, &body.mosaic, &subject.signer)?;
            require(owned / properties.multiplier() >= body.delta, FailureMosaicSupplyNegative)
        }
    }
}

/// T19: the attached mosaics exist and may be transferred. `nem:xem` is not counted.
pub fn mosaics_may_move(body: &Transfer, subject: &TransactionContext<'_>) -> RuleResult {
    let count = body.other_mosaics().count();
    require(count <= MAX_MOSAICS, FailureTooManyMosaicTransfers)?;
    require(count == 0 || body.amount.0.is_multiple_of(MICRO), FailureMosaicDivisibilityViolated)?;
    body.other_mosaics().try_for_each(|mosaic| mosaic_may_move(&mosaic.id, body, subject))
}

fn mosaic_may_move(id: &MosaicId, body: &Transfer, subject: &TransactionContext<'_>) -> RuleResult {
    let context = subject.context;
    let definition = state::mosaic(&context.state, id)?.ok_or(FailureMosaicUnknown)?.definition;
    namespace_is_active(&id.namespace, context)?;
    if !definition.properties.transferable {
        let creator = Address::from_public_key(&definition.creator, context.network.byte);
        require([subject.signer, body.recipient].contains(&creator), FailureMosaicNotTransferable)?;
    }
    match definition.levy {
        Some(levy) => require(state::mosaic(&context.state, &levy.mosaic)?.is_some(), FailureMosaicLevyUnknown),
        None => Ok(()),
    }
}
