//! Handlers of namespaces.

use crate::api::error::ApiError;
use crate::api::request_context::RequestContext;
use crate::api::streams::{ListStream, PageStream, RentedNamespaces, RootRows};

/// `GET /namespace`
pub fn by_name(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let name = context.namespace()?;
    let missing = || ApiError::NotFound(format!("invalid namespace '{name}' (org.nem.core.model.namespace.Namespace)"));
    let namespace = context.chain.namespace(&name)?.ok_or_else(missing)?;
    context.send(&namespace)
}

/// `GET /namespace/root/page`
pub fn roots(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let page = context.page()?;
    context.send_stream(PageStream::new(RootRows, page))
}

/// `GET /account/namespace/page`: `id` is validated but has no effect.
pub fn by_owner(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let (owner, parent) = (context.address()?, context.parent()?);
    let names = RentedNamespaces::new(context.chain, owner, parent.as_ref(), context.page()?.size)?;
    context.send_stream(ListStream::new(names))
}
