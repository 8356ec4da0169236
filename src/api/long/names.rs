//! The namespaces of an account.

use super::{LongView, OpenList, Sheet, held_by};
use crate::api::budget::{Budget, cost};
use crate::api::chain_view::ChainView;
use crate::api::failure::Failure;
use crate::api::views::DataGap;
use crate::model::{Address, NamespaceId};
use crate::net::machine::Taken;
use crate::state::catalogue::ProvisionWalk;
use crate::store::StoreError;

/// Writes the namespaces that are active and that an account rented once, all or those below another.
pub struct RentedNames {
    owner: Address,
    /// `None` if there are none.
    walk: Option<ProvisionWalk>,
    /// Provisions that are still looked at.
    left: usize,
    /// The name of the last one; a name may have many.
    last: Option<NamespaceId>,
    list: Option<OpenList>,
}

impl RentedNames {
    /// Of `owner`, those below `parent` or all. At most so many of the account's provisions are looked at.
    pub fn new(
        view: &ChainView<'_>,
        owner: Address,
        parent: Option<&NamespaceId>,
        provisions: usize,
    ) -> Result<RentedNames, StoreError> {
        let walk = ProvisionWalk::new(view.snapshot, owner, parent)?;
        Ok(RentedNames { owner, walk, left: provisions, last: None, list: None })
    }
}

impl LongView for RentedNames {
    fn write_on(&mut self, view: &ChainView<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<Taken, Failure> {
        let RentedNames { owner, walk, left, last, list } = self;
        let list = list.get_or_insert_with(|| OpenList::open(sheet, &DataGap));
        let is_at_end = match walk {
            Some(walk) => walk.go_on(view.snapshot, |name, is_wanted| {
                budget.spend(cost::STEP);
                if is_wanted {
                    *left = left.saturating_sub(1);
                    if last.as_ref() != Some(&name) {
                        budget.spend(cost::NAMESPACE);
                        *last = Some(name.clone());
                        if view.is_active(&name)? {
                            list.push(sheet, &view.rented(owner, name)?);
                        }
                    }
                }
                Ok(*left > 0 && !budget.is_spent())
            })?,
            None => true,
        };
        if !is_at_end && *left > 0 {
            return Ok(Taken::Unfinished);
        }
        list.close(sheet);
        Ok(Taken::Done)
    }

    fn held_bytes(&self) -> usize {
        held_by(&self.list)
    }
}
