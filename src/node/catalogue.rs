//! Namespaces and mosaics as the interface reads them, from a snapshot of the store.

use super::ledger::ChainLedger;
use crate::api::{Catalogue, Definitions, Failure, Namespace, Numbered, Page};
use crate::model::{Address, Mosaic, MosaicDefinition, MosaicId, NamespaceId};
use crate::state::catalogue::{self, List, Provision};
use crate::state::{self, View};
use crate::store::StoreError;

impl Catalogue for ChainLedger<'_> {
    fn is_active(&self, name: &NamespaceId) -> Result<bool, Failure> {
        let term = self.network.chain.blocks_per_year();
        Ok(self.snapshot.is_namespace_active(name, self.height, term)?)
    }

    fn namespace(&self, name: &NamespaceId) -> Result<Option<Namespace>, Failure> {
        if !self.is_active(name)? {
            return Ok(None);
        }
        let lease = self.snapshot.leases(name.root())?.pop();
        Ok(lease.map(|lease| Namespace { name: name.clone(), owner: lease.owner, height: lease.height }))
    }

    fn root_namespaces(&self, page: Page) -> Result<Vec<Numbered<Namespace>>, Failure> {
        let mut found = Vec::with_capacity(page.size);
        List::Roots.each_before(self.snapshot, page.before, |id| {
            let Provision { height, owner, name } = Provision::at(self.snapshot, id)?;
            found.push(Numbered { id, item: Namespace { name, owner, height } });
            Ok(found.len() < page.size)
        })?;
        Ok(found)
    }

    fn namespaces_of(
        &self,
        owner: &Address,
        parent: Option<&NamespaceId>,
        provisions: usize,
    ) -> Result<Vec<Namespace>, Failure> {
        let mut found = Vec::new();
        for name in catalogue::names_by(self.snapshot, owner, parent, provisions)? {
            if self.is_active(&name)? {
                let root = List::ProvisionsBy(owner, name.root()).last(self.snapshot)?;
                let root = root.ok_or(StoreError::Damaged("the root of a namespace"))?;
                let height = Provision::at(self.snapshot, root)?.height;
                found.push(Namespace { name, owner: *owner, height });
            }
        }
        Ok(found)
    }

    fn definition(&self, id: &MosaicId) -> Result<Option<MosaicDefinition>, Failure> {
        if id.is_xem() {
            return Ok(Some(MosaicDefinition::xem()));
        }
        let row = List::DefinitionsOf(id).last(self.snapshot)?;
        Ok(row.map(|row| catalogue::definition_at(self.snapshot, row)).transpose()?)
    }

    fn definitions(&self, of: Definitions<'_>, page: Page) -> Result<Vec<Numbered<MosaicDefinition>>, Failure> {
        let (list, creator) = match of {
            Definitions::All => (List::Definitions, None),
            Definitions::In(namespace) => (List::DefinitionsIn(namespace.as_str()), None),
            Definitions::By(creator, None) => (List::DefinitionsBy(creator), None),
            Definitions::By(_, Some(namespace)) if !self.is_active(namespace)? => return Ok(Vec::new()),
            // Those in one namespace have few creators: the account that rents it, and the ones before.
            Definitions::By(creator, Some(namespace)) => (List::DefinitionsIn(namespace.as_str()), Some(creator)),
        };
        let is_by = |definition: &MosaicDefinition, creator: &Address| {
            Address::from_public_key(&definition.creator, self.network.byte) == *creator
        };
        let mut found = Vec::new();
        list.each_before(self.snapshot, page.before, |id| {
            let item = catalogue::definition_at(self.snapshot, id)?;
            if creator.is_none_or(|creator| is_by(&item, creator)) {
                found.push(Numbered { id, item });
            }
            Ok(found.len() < page.size)
        })?;
        Ok(found)
    }

    fn supply(&self, id: &MosaicId) -> Result<Option<u64>, Failure> {
        Ok(self.snapshot.mosaic(id)?.map(|entry| entry.supply))
    }

    fn mosaics_of(&self, account: &Address) -> Result<Vec<Mosaic>, Failure> {
        let quantity = state::account(self.snapshot, account)?.balance.total();
        let mut mosaics = vec![Mosaic { id: MosaicId::xem(), quantity }];
        mosaics.extend(state::owned_mosaics(self.snapshot, account)?);
        Ok(mosaics)
    }
}
