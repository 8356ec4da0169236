//! Namespace leases that end with a block.

use std::vec;

use super::catalogue::{self, Relisting};
use super::error::StateError;
use super::ledger::Ledger;
use super::namespaces::{self, Lease};
use crate::model::Height;
use crate::model::network::ChainParameters;
use crate::store::{Read, StoreError, Write};

/// The leases that end with a block, processed in steps of a few rows each. The number of steps of a lease depends on
/// the definitions ever made in it, not on the number of holders.
pub struct Expiry {
    roots: vec::IntoIter<(String, Lease)>,
    relisting: Option<Relisting>,
}

impl Expiry {
    /// Finds the leases that end at a height.
    pub(super) fn due(state: &impl Read, height: Height, chain: &ChainParameters) -> Result<Expiry, StoreError> {
        let roots = namespaces::ending_at(state, height, chain.blocks_per_year())?;
        Ok(Expiry { roots: roots.into_iter(), relisting: None })
    }

    /// Runs one step; returns whether work remains.
    pub fn step(&mut self, ledger: &mut Ledger<'_, impl Write>) -> Result<bool, StateError> {
        if let Some(relisting) = &mut self.relisting {
            if !relisting.step(ledger.batch, ledger.network.byte)? {
                self.relisting = None;
            }
            return Ok(true);
        }
        let Some((root, lease)) = self.roots.next() else { return Ok(false) };
        namespaces::end(ledger.batch, &lease, &mut ledger.block.log)?;
        self.relisting = Some(catalogue::expire(ledger.batch, &root, lease)?);
        Ok(true)
    }
}
