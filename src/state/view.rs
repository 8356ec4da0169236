//! What rules ask of a state, be it the last commit or that in the middle of a block.

use std::borrow::Cow;

use super::account::Account;
use super::hashes;
use super::mosaics::{self, MosaicEntry};
use super::namespaces::{self, Lease};
use super::numbers::AccountNumber;
use super::queries;
use crate::model::network::NAMESPACE_SINK;
use crate::model::{Address, Hash256, Height, MosaicId, NamespaceId, NetworkByte};
use crate::store::{Read, StoreError, Table};

/// A state that can be asked. Every question fails only if the store does.
pub trait StateView {
    /// The account of an address; an unknown one has the default state.
    fn account(&self, address: &Address) -> Result<Cow<'_, Account>, StoreError>;

    /// Who may sign for an account, by address; none if it is no multisig account.
    fn cosignatories(&self, account: &Address) -> Result<Vec<Address>, StoreError>;

    /// Whether an account may sign for another.
    fn is_cosignatory(&self, account: &Address) -> Result<bool, StoreError>;

    /// The leases of a root namespace, the oldest first; empty if it is unknown, as the built-in `nem` is.
    fn leases(&self, root: &str) -> Result<Vec<Lease>, StoreError>;

    /// Whether a namespace exists in a lease of its root.
    fn is_in_lease(&self, lease: &Lease, name: &NamespaceId) -> Result<bool, StoreError>;

    /// Whether a namespace is active at a height, with leases of `term` blocks.
    fn is_namespace_active(&self, name: &NamespaceId, height: Height, term: u64) -> Result<bool, StoreError> {
        if name.is_built_in() {
            return Ok(true);
        }
        // The oldest lease that is active decides.
        let active = self.leases(name.root())?.into_iter().find(|lease| lease.is_active(height, term));
        active.map_or(Ok(false), |lease| self.is_in_lease(&lease, name))
    }

    /// The owner of a namespace that exists in the newest lease of its root; the lease may have expired.
    fn namespace_owner(&self, name: &NamespaceId) -> Result<Option<Address>, StoreError> {
        if name.is_built_in() {
            // NIS1 has the sink's testnet address on every network.
            return Ok(Some(Address::from_public_key(&NAMESPACE_SINK, NetworkByte::TESTNET)));
        }
        let Some(newest) = self.leases(name.root())?.pop() else { return Ok(None) };
        Ok(self.is_in_lease(&newest, name)?.then_some(newest.owner))
    }

    /// Whether an account owns the newest lease of a root namespace; the lease may have expired.
    fn owns_namespace(&self, account: &Address) -> Result<bool, StoreError>;

    /// Whether an account counts as invested in a mosaic.
    fn holds_mosaic(&self, account: &Address) -> Result<bool, StoreError>;

    /// The newest definition of a mosaic and its supply in whole units; the built-in `nem:xem` included.
    fn mosaic(&self, id: &MosaicId) -> Result<Option<MosaicEntry>, StoreError>;

    /// Smallest units that an account has under the newest definition of a mosaic other than `nem:xem`.
    fn mosaic_balance(&self, id: &MosaicId, account: &Address) -> Result<u64, StoreError>;

    /// Whether a transaction is in the chain, as far back as hashes are kept.
    fn knows_hash(&self, hash: &Hash256) -> Result<bool, StoreError>;
}

impl<R: Read> StateView for R {
    fn account(&self, address: &Address) -> Result<Cow<'_, Account>, StoreError> {
        queries::account(self, address).map(Cow::Owned)
    }

    fn cosignatories(&self, account: &Address) -> Result<Vec<Address>, StoreError> {
        queries::cosignatories(self, account)
    }

    fn is_cosignatory(&self, account: &Address) -> Result<bool, StoreError> {
        self.any(Table::CosignatoryOf, account.as_bytes())
    }

    fn leases(&self, root: &str) -> Result<Vec<Lease>, StoreError> {
        namespaces::leases(self, root)
    }

    fn is_in_lease(&self, lease: &Lease, name: &NamespaceId) -> Result<bool, StoreError> {
        namespaces::is_in_lease(self, lease, name)
    }

    fn owns_namespace(&self, account: &Address) -> Result<bool, StoreError> {
        self.any(Table::NamespacesByOwner, account.as_bytes())
    }

    fn holds_mosaic(&self, account: &Address) -> Result<bool, StoreError> {
        AccountNumber::of(self, account)?.map_or(Ok(false), |account| mosaics::holds_any(self, account))
    }

    fn mosaic(&self, id: &MosaicId) -> Result<Option<MosaicEntry>, StoreError> {
        if id.is_xem() {
            return Ok(Some(MosaicEntry::xem()));
        }
        Ok(mosaics::current(self, id)?.map(|mosaic| mosaic.entry))
    }

    fn mosaic_balance(&self, id: &MosaicId, account: &Address) -> Result<u64, StoreError> {
        Ok(queries::owned_mosaic(self, account, id.clone())?.map_or(0, |owned| owned.quantity))
    }

    fn knows_hash(&self, hash: &Hash256) -> Result<bool, StoreError> {
        hashes::knows_hash(self, hash)
    }
}
