//! Namespaces: handlers, view and streams.

use super::mosaics::Numbered;
use super::routes::{Route, get};
use super::streams::{ListStream, list_stream};
use super::{ApiError, RequestContext, View};
use crate::budget::cost;
use crate::chain::ChainSnapshot;
use crate::codec::Encoder;
use crate::codec::mosaic::truncate_name;
use crate::model::{Address, Height, NamespaceId};
use crate::state;
use crate::state::registry::{ListingIndex, Provision, ProvisionCursor};
use crate::store::StoreError;

/// Routes.
pub const ROUTES: &[Route] = &[
    get("/namespace", by_name).cached(),
    get("/namespace/root/page", roots).cached(),
    get("/account/namespace/page", by_owner).cached(),
];

/// A namespace.
pub struct Namespace {
    /// Full name.
    pub name: NamespaceId,
    /// Owner of its root.
    pub owner: Address,
    /// Height at which the lease of its root began.
    pub height: Height,
}

impl Namespace {
    /// Returns a namespace if it is active; `nem` is not included.
    fn active(chain: &ChainSnapshot<'_>, name: &NamespaceId) -> Result<Option<Namespace>, StoreError> {
        if !is_active(chain, name)? {
            return Ok(None);
        }
        let lease = state::leases(chain.snapshot, name.root())?.pop();
        Ok(lease.map(|lease| Namespace { name: name.clone(), owner: lease.owner, height: lease.height }))
    }

    /// Returns a namespace that an account rented at some time, with the height of its last lease of the root.
    fn rented(chain: &ChainSnapshot<'_>, owner: &Address, name: NamespaceId) -> Result<Namespace, StoreError> {
        let root = ListingIndex::ProvisionsBy(owner, name.root()).last(chain.snapshot)?;
        let root = root.ok_or(StoreError::Damaged("the root of a namespace"))?;
        let height = Provision::at(chain.snapshot, root)?.height;
        Ok(Namespace { name, owner: *owner, height })
    }
}

impl View for Namespace {
    fn write(&self, sink: &mut impl Encoder) {
        sink.string("fqn", Some(truncate_name(self.name.as_str())));
        sink.string("owner", Some(self.owner.as_str()));
        sink.u64("height", self.height.0);
    }
}

/// Returns whether a namespace is active; the built-in `nem` always is.
pub fn is_active(chain: &ChainSnapshot<'_>, name: &NamespaceId) -> Result<bool, StoreError> {
    state::is_namespace_active(chain.snapshot, name, chain.height, chain.network.chain.blocks_per_year())
}

/// `GET /namespace`
fn by_name(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let name = context.namespace()?;
    let missing = || ApiError::new(404, format!("invalid namespace '{name}' (org.nem.core.model.namespace.Namespace)"));
    let namespace = Namespace::active(&context.node.chain, &name)?.ok_or_else(missing)?;
    context.response.send(&namespace)
}

/// `GET /namespace/root/page`: the active root namespaces, newest first.
fn roots(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let page = context.page()?;
    let (mut before, mut left) = (page.before, page.size);
    context.send_stream(list_stream(move |step| {
        let chain = step.node.chain;
        for id in ListingIndex::Roots.before(chain.snapshot, before)? {
            (before, left) = (id?, left - 1);
            let Provision { height, owner, name } = Provision::at(chain.snapshot, before)?;
            step.push(&Numbered { label: "namespace", id: before, item: Namespace { name, owner, height } });
            step.node.budget.charge(cost::DEFINITION);
            if !step.should_continue(left) {
                break;
            }
        }
        Ok(())
    }))
}

/// `GET /account/namespace/page`: `id` is validated but has no effect.
fn by_owner(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let (owner, parent) = (context.address()?, context.parent()?);
    let names = namespaces_rented_by(&context.node.chain, owner, parent.as_ref(), context.page()?.size, false)?;
    context.send_stream(names)
}

/// Creates the list of the active namespaces that an account has rented, all or those below a parent. Scans at most
/// `provisions` provisions. Those that another account has rented since are left out if `is_current`.
pub fn namespaces_rented_by(
    chain: &ChainSnapshot<'_>,
    owner: Address,
    parent: Option<&NamespaceId>,
    provisions: usize,
    is_current: bool,
) -> Result<ListStream, StoreError> {
    // There is none if the account has rented nothing there.
    let mut cursor = ProvisionCursor::new(chain.snapshot, owner, parent)?;
    // A name may have many provisions.
    let (mut left, mut last) = (provisions, None);
    Ok(list_stream(move |step| {
        let Some(cursor) = cursor.as_mut().filter(|_| left > 0) else { return Ok(()) };
        let chain = step.node.chain;
        Ok(cursor.resume(chain.snapshot, |name, is_wanted| {
            step.node.budget.charge(cost::SKIP);
            if is_wanted {
                left -= 1;
                if last.as_ref() != Some(&name) {
                    step.node.budget.charge(cost::NAMESPACE);
                    last = Some(name.clone());
                    let found = if is_current {
                        Namespace::active(&chain, &name)?.filter(|namespace| namespace.owner == owner)
                    } else if is_active(&chain, &name)? {
                        Some(Namespace::rented(&chain, &owner, name)?)
                    } else {
                        None
                    };
                    if let Some(namespace) = found {
                        step.push(&namespace);
                    }
                }
            }
            Ok(step.should_continue(left))
        })?)
    }))
}
