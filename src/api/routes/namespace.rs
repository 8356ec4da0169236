//! Handlers of namespaces.

use crate::api::call::Call;
use crate::api::failure::Failure;
use crate::api::long::{ListWriter, PageWriter, RentedNames, RootRows};

/// `GET /namespace`
pub fn by_name(call: &mut Call<'_>) -> Result<(), Failure> {
    let name = call.namespace()?;
    let missing = || Failure::NotFound(format!("invalid namespace '{name}' (org.nem.core.model.namespace.Namespace)"));
    let namespace = call.view.namespace(&name)?.ok_or_else(missing)?;
    call.send(&namespace)
}

/// `GET /namespace/root/page`
pub fn roots(call: &mut Call<'_>) -> Result<(), Failure> {
    let page = call.page()?;
    call.send_long(PageWriter::new(RootRows, page))
}

/// `GET /account/namespace/page`: `id` is validated but has no effect.
pub fn by_owner(call: &mut Call<'_>) -> Result<(), Failure> {
    let (owner, parent) = (call.address()?, call.parent()?);
    let names = RentedNames::new(call.view, owner, parent.as_ref(), call.page()?.size)?;
    call.send_long(ListWriter::new(names))
}
