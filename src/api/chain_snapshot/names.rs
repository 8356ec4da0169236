//! Queries of namespaces and mosaics.

use super::ChainSnapshot;
use crate::api::views::Namespace;
use crate::model::{Address, MosaicDefinition, MosaicId, NamespaceId};
use crate::state;
use crate::state::registry::{self, ListingIndex, Provision};
use crate::store::StoreError;

/// A page of a list, newest entries first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Exclusive upper bound of the ids.
    pub before: u64,
    /// Maximum number of entries.
    pub size: usize,
}

impl Page {
    /// Returns whether the page begins with the newest entry.
    pub fn is_first(&self) -> bool {
        self.before == u64::MAX
    }
}

impl ChainSnapshot<'_> {
    /// Returns whether a namespace is active; the built-in `nem` always is.
    pub fn is_active(&self, name: &NamespaceId) -> Result<bool, StoreError> {
        state::is_namespace_active(self.snapshot, name, self.height, self.network.chain.blocks_per_year())
    }

    /// Returns a namespace if it is active; `nem` is not included.
    pub fn namespace(&self, name: &NamespaceId) -> Result<Option<Namespace>, StoreError> {
        if !self.is_active(name)? {
            return Ok(None);
        }
        let lease = state::leases(self.snapshot, name.root())?.pop();
        Ok(lease.map(|lease| Namespace { name: name.clone(), owner: lease.owner, height: lease.height }))
    }

    /// Returns a namespace that an account rented at some time, with the height of its last lease of the root.
    pub fn rented(&self, owner: &Address, name: NamespaceId) -> Result<Namespace, StoreError> {
        let root = ListingIndex::ProvisionsBy(owner, name.root()).last(self.snapshot)?;
        let root = root.ok_or(StoreError::Damaged("the root of a namespace"))?;
        let height = Provision::at(self.snapshot, root)?.height;
        Ok(Namespace { name, owner: *owner, height })
    }

    /// Returns the newest definition of a mosaic, which may have expired; the built-in `nem:xem` is included.
    pub fn last_definition(&self, id: &MosaicId) -> Result<Option<MosaicDefinition>, StoreError> {
        if id.is_xem() {
            return Ok(Some(MosaicDefinition::xem()));
        }
        let row = ListingIndex::DefinitionsOf(id).last(self.snapshot)?;
        row.map(|row| registry::definition_at(self.snapshot, row)).transpose()
    }

    /// Returns the definition of a mosaic that is in force in the state; `nem:xem` is included.
    pub fn mosaic_definition(&self, id: &MosaicId) -> Result<Option<MosaicDefinition>, StoreError> {
        state::mosaic_definition(self.snapshot, id)
    }

    /// Returns the supply in whole units of a mosaic that the state still has; `nem:xem` is included.
    pub fn supply(&self, id: &MosaicId) -> Result<Option<u64>, StoreError> {
        Ok(state::mosaic(self.snapshot, id)?.map(|entry| entry.supply))
    }
}
