//! Namespace leases that end with a block.

use std::vec;

use super::error::StateError;
use super::ledger::Ledger;
use super::namespaces::{self, Lease};
use super::registry::{self, ListingUpdate};
use crate::model::Height;
use crate::model::network::ChainParameters;
use crate::store::{Read, StoreError, Write};

/// The leases that end with a block, processed in steps of a few rows each. The number of steps of a lease depends on
/// the definitions ever made in it, not on the number of holders.
pub struct Expiry {
    roots: vec::IntoIter<(String, Lease)>,
    listing_update: Option<ListingUpdate>,
}

impl Expiry {
    /// Finds the leases that end at a height.
    pub(super) fn due(state: &impl Read, height: Height, chain: &ChainParameters) -> Result<Expiry, StoreError> {
        let roots = namespaces::ending_at(state, height, chain.blocks_per_year())?;
        Ok(Expiry { roots: roots.into_iter(), listing_update: None })
    }

    /// Runs one step; returns whether work remains.
    pub fn step(&mut self, ledger: &mut Ledger<'_, impl Write>) -> Result<bool, StateError> {
        if let Some(relisting) = &mut self.listing_update {
            if !relisting.step(ledger.txn, ledger.network.byte)? {
                self.listing_update = None;
            }
            return Ok(true);
        }
        let Some((root, lease)) = self.roots.next() else { return Ok(false) };
        namespaces::end_lease(ledger.txn, &lease, &mut ledger.block.log)?;
        self.listing_update = Some(registry::expire(ledger.txn, &root, lease)?);
        Ok(true)
    }
}
