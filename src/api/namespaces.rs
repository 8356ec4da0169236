//! Namespaces: handlers and stream.

use crate::api::budget::cost;
use crate::api::chain_snapshot::Page;
use crate::api::error::ApiError;
use crate::api::request_context::RequestContext;
use crate::api::streams::{RentedNamespaces, ResponseStream, item_list, list_stream};
use crate::api::views::{Namespace, Numbered};
use crate::state::registry::{ListingIndex, Provision};

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
    context.send_stream(root_page(page))
}

/// `GET /account/namespace/page`: `id` is validated but has no effect.
pub fn by_owner(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let (owner, parent) = (context.address()?, context.parent()?);
    let names = RentedNamespaces::new(context.chain, owner, parent.as_ref(), context.page()?.size)?;
    context.send_stream(item_list(names))
}

/// A page of the active root namespaces, newest first.
fn root_page(page: Page) -> impl ResponseStream {
    let (mut before, mut left) = (page.before, page.size);
    list_stream(move |step| {
        let view = step.view;
        ListingIndex::Roots.for_each_before(view.snapshot, before, |id| {
            (before, left) = (id, left - 1);
            let Provision { height, owner, name } = Provision::at(view.snapshot, id)?;
            step.push(&Numbered { id, item: Namespace { name, owner, height } });
            step.budget.charge(cost::DEFINITION);
            Ok(step.should_continue(left))
        })?;
        Ok(())
    })
}
