//! Queries of accounts.

use crate::api::chain_snapshot::ChainSnapshot;
use crate::api::views::{AccountInfo, MultisigInfo, Namespace, RemoteStatus};
use crate::crypto::PublicKey;
use crate::model::{Address, Amount, Height, Mosaic, MosaicDefinition, MosaicId, NamespaceId};
use crate::state;
use crate::state::registry::{ListingIndex, Provision};
use crate::state::{Account, AccountId, AccountImportance, AccountTotals, HoldingsPage, LinkPhase, LinkRole, registry};
use crate::store::{StoreError, StoredHeader, stored_header};

impl ChainSnapshot<'_> {
    /// Returns the stored account of an address.
    pub fn stored_account(&self, address: &Address) -> Result<Account, StoreError> {
        state::account(self.snapshot, address)
    }

    /// Returns the account of an address; an empty one for an address that the chain has not seen.
    pub fn account(&self, address: &Address) -> Result<AccountInfo, StoreError> {
        let cosignatories = self.cosignatories(address)?.len();
        self.account_info(address, &self.stored_account(address)?, cosignatories)
    }

    /// Builds the view of a stored account with this number of cosignatories.
    pub fn account_info(
        &self,
        address: &Address,
        account: &Account,
        cosignatories: usize,
    ) -> Result<AccountInfo, StoreError> {
        let balance = account.balance.at(self.height, &self.network.chain);
        let importance = state::importance(self.snapshot, address)?.map_or(0.0, |last| last.importance);
        Ok(AccountInfo {
            address: *address,
            public_key: if account.has_key { state::public_key(self.snapshot, address)? } else { None },
            balance: Amount(balance.total()),
            vested_balance: Amount(balance.vested),
            harvested_blocks: account.harvested_blocks,
            importance,
            multisig: (cosignatories > 0).then_some(MultisigInfo {
                cosignatories: cosignatories as u32,
                min_cosignatories: account.min_cosignatories,
            }),
        })
    }

    /// Returns the cosignatories of an account, ordered by address. The rules of the chain limit their number.
    pub fn cosignatories(&self, address: &Address) -> Result<Vec<Address>, StoreError> {
        state::cosignatories(self.snapshot, address)
    }

    /// Returns the multisig accounts that an account cosigns, ordered by address: those after an address, or from the
    /// first, at most `limit`.
    pub fn cosignatory_of_after(
        &self,
        address: &Address,
        after: Option<&Address>,
        limit: usize,
    ) -> Result<Vec<Address>, StoreError> {
        state::cosignatory_of_after(self.snapshot, address, after, limit)
    }

    /// Returns the remote harvesting status of an address.
    pub fn remote_status(&self, address: &Address) -> Result<RemoteStatus, StoreError> {
        Ok(self.remote_status_of(&self.stored_account(address)?))
    }

    /// Returns the remote harvesting status of a stored account.
    pub fn remote_status_of(&self, account: &Account) -> RemoteStatus {
        match account.remote_status(self.height, self.network.chain.rewrite_limit) {
            state::RemoteStatus::NotSet | state::RemoteStatus::Owner(LinkPhase::Inactive) => RemoteStatus::Inactive,
            state::RemoteStatus::Owner(LinkPhase::Activating) => RemoteStatus::Activating,
            state::RemoteStatus::Owner(LinkPhase::Active) => RemoteStatus::Active,
            state::RemoteStatus::Owner(LinkPhase::Deactivating) => RemoteStatus::Deactivating,
            state::RemoteStatus::Remote(_) => RemoteStatus::Remote,
        }
    }

    /// Returns the public key of an account, if the chain has it.
    pub fn public_key(&self, address: &Address) -> Result<Option<PublicKey>, StoreError> {
        state::public_key(self.snapshot, address)
    }

    /// Returns the owner of a remote account, also of one that is not yet active; `None` if it is not remote.
    pub fn linked_owner(&self, address: &Address) -> Result<Option<Address>, StoreError> {
        let account = self.stored_account(address)?;
        Ok(account.links.last().filter(|link| link.role == LinkRole::Remote).map(|link| link.linked_address))
    }

    /// Returns the number of accounts.
    pub fn account_count(&self) -> Result<u32, StoreError> {
        Ok(AccountTotals::of(self.snapshot)?.allocated)
    }

    /// As [`state::for_each_account_after`].
    pub fn each_account_after(
        &self,
        after: Option<AccountId>,
        visit: impl FnMut(AccountId, Address, Option<AccountImportance>) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        state::for_each_account_after(self.snapshot, after, visit)
    }

    /// Calls `visit` with the blocks below a height harvested by or for an account, newest first, until it returns
    /// `false`.
    pub fn each_harvest_before(
        &self,
        address: &Address,
        before: Height,
        mut visit: impl FnMut(StoredHeader) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let Some(account) = AccountId::of(self.snapshot, address)? else { return Ok(()) };
        state::for_each_harvest_before(self.snapshot, account, before, |height| {
            let block = stored_header(self.snapshot, height)?;
            visit(block.ok_or(StoreError::Damaged("a harvested block"))?)
        })
    }

    /// Returns the `nem:xem` balance of an account.
    pub fn xem_balance(&self, address: &Address) -> Result<Mosaic, StoreError> {
        let quantity = self.stored_account(address)?.balance.total();
        Ok(Mosaic { id: MosaicId::xem(), quantity })
    }

    /// Returns the mosaics that an account holds, without `nem:xem`, ordered by name: those after one, or from the
    /// first. At most `limit` entries are scanned. Some mosaics may no longer exist.
    pub fn holdings_after(
        &self,
        address: &Address,
        after: Option<&MosaicId>,
        limit: usize,
    ) -> Result<HoldingsPage, StoreError> {
        state::holdings_after(self.snapshot, address, after, limit)
    }

    /// Returns the balance of an account in a mosaic other than `nem:xem`; `None` if the mosaic no longer exists.
    pub fn mosaic_balance(&self, address: &Address, id: MosaicId) -> Result<Option<Mosaic>, StoreError> {
        state::owned_mosaic(self.snapshot, address, id)
    }
}

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
