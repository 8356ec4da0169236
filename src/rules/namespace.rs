//! Rules for renting namespaces.

use super::context::{TransactionContext, ValidationContext};
use super::fees::rental_fee;
use super::result::ValidationResult::{
    FailureNamespaceAlreadyExists, FailureNamespaceExpired, FailureNamespaceInvalidRentalFee,
    FailureNamespaceInvalidRentalFeeSink, FailureNamespaceNotClaimable, FailureNamespaceOwnerConflict,
    FailureNamespaceProvisionTooEarly, FailureNamespaceUnknown,
};
use super::result::{Exception, RuleResult, require};
use crate::model::transaction::ProvisionNamespace;
use crate::model::{Address, Height, NamespaceId};
use crate::state::{Lease, StateView};

/// Names that cannot be rented, at any level.
const RESERVED: [&str; 11] = ["nem", "user", "account", "org", "com", "biz", "net", "edu", "mil", "gov", "info"];

/// T16: the namespace may be rented. A name that is too long or too deep fails earlier, when the effects are computed,
/// so NIS1's result `FAILURE_NAMESPACE_INVALID_NAME` cannot occur.
pub fn may_be_rented<V: StateView>(body: &ProvisionNamespace, subject: &TransactionContext<'_, '_, V>) -> RuleResult {
    let context = subject.context;
    let name = body.name().map_err(|error| Exception::argument(error.to_string()))?;
    require(!name.parts().any(|part| RESERVED.contains(&part)), FailureNamespaceNotClaimable)?;
    require(body.rental_fee_sink == context.network.namespace_sink(), FailureNamespaceInvalidRentalFeeSink)?;
    let leases = context.state.leases(name.root())?;
    if let Some(parent) = &body.parent {
        parent_is_owned(parent, &leases, subject)?;
    }
    if let Some(newest) = leases.last()
        && context.state.is_in_lease(newest, &name)?
    {
        require(name.is_root(), FailureNamespaceAlreadyExists)?;
        renewal_is_due(newest, &subject.signer, context)?;
    }
    require(body.rental_fee >= rental_fee(&name, context), FailureNamespaceInvalidRentalFee)
}

fn parent_is_owned<V: StateView>(
    parent: &NamespaceId,
    leases: &[Lease],
    subject: &TransactionContext<'_, '_, V>,
) -> RuleResult {
    let (height, term) = (subject.context.height, subject.context.chain().blocks_per_year());
    let newest = leases.last().ok_or(FailureNamespaceUnknown)?;
    require(subject.context.state.is_in_lease(newest, parent)?, FailureNamespaceUnknown)?;
    require(leases.iter().any(|lease| lease.is_active(height, term)), FailureNamespaceExpired)?;
    require(newest.owner == subject.signer, FailureNamespaceOwnerConflict)
}

/// The owner may renew from a month before the end of the lease; other accounts may rent from a month after its end.
fn renewal_is_due<V: StateView>(lease: &Lease, signer: &Address, context: &ValidationContext<'_, V>) -> RuleResult {
    let month = context.chain().blocks_per_month();
    let expiry = lease.height.plus(context.chain().blocks_per_year());
    let first = if *signer == lease.owner { Height(expiry.0.saturating_sub(month)) } else { expiry.plus(month) };
    require(context.height >= first, FailureNamespaceProvisionTooEarly)
}
