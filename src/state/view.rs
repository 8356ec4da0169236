//! Queries of the validation rules, on a snapshot or on the state in the middle of a block.

use std::borrow::Cow;

use super::account::Account;
use super::account_ids::AccountId;
use super::hashes;
use super::mosaics::{self, MosaicEntry};
use super::namespaces::{self, Lease};
use super::queries;
use crate::model::network::NAMESPACE_SINK;
use crate::model::{Address, Hash256, Height, MosaicId, NamespaceId, NetworkByte};
use crate::store::{Read, StoreError, Table};

/// A state that rules can query. Every query fails only if the store fails.
pub trait StateView {
    /// Returns the account of an address; the default state if it is unknown.
    fn account(&self, address: &Address) -> Result<Cow<'_, Account>, StoreError>;

    /// Returns the cosignatories of an account, by address; empty if it is no multisig account.
    fn cosignatories(&self, account: &Address) -> Result<Vec<Address>, StoreError>;

    /// Returns whether an account is a cosignatory of another.
    fn is_cosignatory(&self, account: &Address) -> Result<bool, StoreError>;

    /// Returns the leases of a root namespace, oldest first; empty if it is unknown or the built-in `nem`.
    fn leases(&self, root: &str) -> Result<Vec<Lease>, StoreError>;

    /// Returns whether a namespace exists in a lease of its root.
    fn is_in_lease(&self, lease: &Lease, name: &NamespaceId) -> Result<bool, StoreError>;

    /// Returns whether a namespace is active at a height, with leases of `term` blocks.
    fn is_namespace_active(&self, name: &NamespaceId, height: Height, term: u64) -> Result<bool, StoreError> {
        if name.is_built_in() {
            return Ok(true);
        }
        // The oldest active lease decides.
        let active = self.leases(name.root())?.into_iter().find(|lease| lease.is_active(height, term));
        active.map_or(Ok(false), |lease| self.is_in_lease(&lease, name))
    }

    /// Returns the owner of a namespace that exists in the newest lease of its root; the lease may have expired.
    fn namespace_owner(&self, name: &NamespaceId) -> Result<Option<Address>, StoreError> {
        if name.is_built_in() {
            // NIS1 uses the sink's testnet address on every network.
            return Ok(Some(Address::from_public_key(&NAMESPACE_SINK, NetworkByte::TESTNET)));
        }
        let Some(newest) = self.leases(name.root())?.pop() else { return Ok(None) };
        Ok(self.is_in_lease(&newest, name)?.then_some(newest.owner))
    }

    /// Returns whether an account owns the newest lease of a root namespace; the lease may have expired.
    fn owns_namespace(&self, account: &Address) -> Result<bool, StoreError>;

    /// Returns whether an account is invested in any mosaic.
    fn holds_mosaic(&self, account: &Address) -> Result<bool, StoreError>;

    /// Returns the newest definition of a mosaic and its supply in whole units; `nem:xem` included.
    fn mosaic(&self, id: &MosaicId) -> Result<Option<MosaicEntry>, StoreError>;

    /// Returns the smallest units an account has under the newest definition of a mosaic other than `nem:xem`.
    fn mosaic_balance(&self, id: &MosaicId, account: &Address) -> Result<u64, StoreError>;

    /// Returns whether a transaction is in the chain and its hash is not forgotten.
    fn contains_hash(&self, hash: &Hash256) -> Result<bool, StoreError>;
}

impl<R: Read> StateView for R {
    fn account(&self, address: &Address) -> Result<Cow<'_, Account>, StoreError> {
        queries::account(self, address).map(Cow::Owned)
    }

    fn cosignatories(&self, account: &Address) -> Result<Vec<Address>, StoreError> {
        queries::cosignatories(self, account)
    }

    fn is_cosignatory(&self, account: &Address) -> Result<bool, StoreError> {
        self.has_prefix(Table::CosignatoryOf, account.as_bytes())
    }

    fn leases(&self, root: &str) -> Result<Vec<Lease>, StoreError> {
        namespaces::leases(self, root)
    }

    fn is_in_lease(&self, lease: &Lease, name: &NamespaceId) -> Result<bool, StoreError> {
        namespaces::is_in_lease(self, lease, name)
    }

    fn owns_namespace(&self, account: &Address) -> Result<bool, StoreError> {
        self.has_prefix(Table::NamespacesByOwner, account.as_bytes())
    }

    fn holds_mosaic(&self, account: &Address) -> Result<bool, StoreError> {
        AccountId::of(self, account)?.map_or(Ok(false), |account| mosaics::holds_any(self, account))
    }

    fn mosaic(&self, id: &MosaicId) -> Result<Option<MosaicEntry>, StoreError> {
        if id.is_xem() {
            return Ok(Some(MosaicEntry::xem()));
        }
        Ok(mosaics::current_mosaic(self, id)?.map(|mosaic| mosaic.entry))
    }

    fn mosaic_balance(&self, id: &MosaicId, account: &Address) -> Result<u64, StoreError> {
        Ok(queries::owned_mosaic(self, account, id.clone())?.map_or(0, |owned| owned.quantity))
    }

    fn contains_hash(&self, hash: &Hash256) -> Result<bool, StoreError> {
        hashes::contains_hash(self, hash)
    }
}
