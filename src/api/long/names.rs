//! Streamed namespaces of an account.

use super::{Found, Items};
use crate::api::budget::{Budget, cost};
use crate::api::chain_view::ChainView;
use crate::api::failure::Failure;
use crate::api::views::Namespace;
use crate::model::{Address, NamespaceId};
use crate::state::catalogue::ProvisionWalk;
use crate::store::StoreError;

/// The active namespaces that an account has rented, all or those below a parent.
pub struct RentedNames {
    owner: Address,
    /// `None` if there are none.
    walk: Option<ProvisionWalk>,
    /// Provisions left to scan.
    left: usize,
    /// Name of the last provision; a name may have many.
    last: Option<NamespaceId>,
    /// Namespaces that another account has rented since are left out.
    only_current: bool,
}

impl RentedNames {
    /// Creates the source of all namespaces of `owner`, or those below `parent`. Scans at most `provisions` provisions.
    pub fn new(
        view: &ChainView<'_>,
        owner: Address,
        parent: Option<&NamespaceId>,
        provisions: usize,
    ) -> Result<RentedNames, StoreError> {
        let walk = ProvisionWalk::new(view.snapshot, owner, parent)?;
        Ok(RentedNames { owner, walk, left: provisions, last: None, only_current: false })
    }

    /// Leaves out namespaces that another account has rented since.
    pub fn current(self) -> RentedNames {
        RentedNames { only_current: true, ..self }
    }
}

impl Items for RentedNames {
    type Item = Namespace;

    fn next(&mut self, view: &ChainView<'_>, budget: &mut Budget) -> Result<Found<Namespace>, Failure> {
        let RentedNames { owner, walk, left, last, only_current } = self;
        let Some(walk) = walk.as_mut().filter(|_| *left > 0) else { return Ok(Found::End) };
        let mut found = None;
        let is_at_end = walk.go_on(view.snapshot, |name, is_wanted| {
            budget.spend(cost::STEP);
            if is_wanted {
                *left -= 1;
                if last.as_ref() != Some(&name) {
                    budget.spend(cost::NAMESPACE);
                    *last = Some(name.clone());
                    found = match only_current {
                        true => view.namespace(&name)?.filter(|namespace| namespace.owner == *owner),
                        false if view.is_active(&name)? => Some(view.rented(owner, name)?),
                        false => None,
                    };
                }
            }
            Ok(found.is_none() && *left > 0 && !budget.is_spent())
        })?;
        Ok(match found {
            Some(namespace) => Found::One(namespace),
            None if is_at_end || *left == 0 => Found::End,
            None => Found::NotYet,
        })
    }

    fn held_bytes(&self) -> usize {
        0
    }
}
