//! Namespaces (specification 06 §7.8).

use crate::api::call::Call;
use crate::api::failure::Failure;
use crate::api::views::Listing;

/// `GET /namespace`
pub fn by_name(call: &mut Call<'_>) -> Result<(), Failure> {
    let name = call.namespace()?;
    let missing = || Failure::NotFound(format!("invalid namespace '{name}' (org.nem.core.model.namespace.Namespace)"));
    let namespace = call.ledger.namespace(&name)?.ok_or_else(missing)?;
    call.send(&namespace)
}

/// `GET /namespace/root/page`
pub fn roots(call: &mut Call<'_>) -> Result<(), Failure> {
    let roots = call.ledger.root_namespaces(call.page()?)?;
    call.send(&Listing(&roots))
}

/// `GET /account/namespace/page`: the number is checked, but has no effect.
pub fn by_owner(call: &mut Call<'_>) -> Result<(), Failure> {
    let (owner, parent) = (call.address()?, call.parent()?);
    let namespaces = call.ledger.namespaces_of(&owner, parent.as_ref(), call.page()?.size)?;
    call.send(&Listing(&namespaces))
}
