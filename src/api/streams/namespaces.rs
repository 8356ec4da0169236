//! Streamed namespaces of an account.

use super::{ItemSource, NextItem};
use crate::api::budget::{Budget, cost};
use crate::api::chain_snapshot::ChainSnapshot;
use crate::api::error::ApiError;
use crate::api::views::Namespace;
use crate::model::{Address, NamespaceId};
use crate::state::registry::ProvisionCursor;
use crate::store::StoreError;

/// The active namespaces that an account has rented, all or those below a parent.
pub struct RentedNamespaces {
    owner: Address,
    /// `None` if there are none.
    cursor: Option<ProvisionCursor>,
    /// Provisions left to scan.
    left: usize,
    /// Name of the last provision; a name may have many.
    last: Option<NamespaceId>,
    /// Namespaces that another account has rented since are left out.
    only_current: bool,
}

impl RentedNamespaces {
    /// Creates the source of all namespaces of `owner`, or those below `parent`. Scans at most `provisions` provisions.
    pub fn new(
        view: &ChainSnapshot<'_>,
        owner: Address,
        parent: Option<&NamespaceId>,
        provisions: usize,
    ) -> Result<RentedNamespaces, StoreError> {
        let walk = ProvisionCursor::new(view.snapshot, owner, parent)?;
        Ok(RentedNamespaces { owner, cursor: walk, left: provisions, last: None, only_current: false })
    }

    /// Leaves out namespaces that another account has rented since.
    pub fn current(self) -> RentedNamespaces {
        RentedNamespaces { only_current: true, ..self }
    }
}

impl ItemSource for RentedNamespaces {
    type Item = Namespace;

    fn next(&mut self, view: &ChainSnapshot<'_>, budget: &mut Budget) -> Result<NextItem<Namespace>, ApiError> {
        let RentedNamespaces { owner, cursor: walk, left, last, only_current } = self;
        let Some(walk) = walk.as_mut().filter(|_| *left > 0) else { return Ok(NextItem::End) };
        let mut found = None;
        let is_at_end = walk.resume(view.snapshot, |name, is_wanted| {
            budget.charge(cost::SKIP);
            if is_wanted {
                *left -= 1;
                if last.as_ref() != Some(&name) {
                    budget.charge(cost::NAMESPACE);
                    *last = Some(name.clone());
                    found = match only_current {
                        true => view.namespace(&name)?.filter(|namespace| namespace.owner == *owner),
                        false if view.is_active(&name)? => Some(view.rented(owner, name)?),
                        false => None,
                    };
                }
            }
            Ok(found.is_none() && *left > 0 && !budget.is_exhausted())
        })?;
        Ok(match found {
            Some(namespace) => NextItem::Item(namespace),
            None if is_at_end || *left == 0 => NextItem::End,
            None => NextItem::Pending,
        })
    }

    fn held_bytes(&self) -> usize {
        0
    }
}
