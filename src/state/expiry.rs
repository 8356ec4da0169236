//! Leases that end with a block.

use std::vec;

use super::catalogue::{self, Relisting};
use super::error::StateError;
use super::ledger::Ledger;
use super::namespaces::{self, Lease};
use crate::model::Height;
use crate::model::network::ChainParameters;
use crate::store::{Read, StoreError, Write};

/// What ends with a block: one step after the other, each at the cost of some rows. How many steps a lease takes depends
/// on what was ever defined in it, not on who has it.
pub struct Expiry {
    roots: vec::IntoIter<(String, Lease)>,
    relisting: Option<Relisting>,
}

impl Expiry {
    /// The leases that end at a height.
    pub(super) fn due(state: &impl Read, height: Height, chain: &ChainParameters) -> Result<Expiry, StoreError> {
        let roots = namespaces::ending_at(state, height, chain.blocks_per_year())?;
        Ok(Expiry { roots: roots.into_iter(), relisting: None })
    }

    /// Does one step; whether there is more to do.
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
