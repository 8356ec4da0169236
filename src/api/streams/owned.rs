//! Streamed mosaics of accounts. Anyone can send any number of mosaics to any account.

use std::collections::BTreeSet;
use std::vec;

use super::{ItemSource, NextItem};
use crate::api::budget::{Budget, cost};
use crate::api::chain_snapshot::ChainSnapshot;
use crate::api::error::ApiError;
use crate::model::{Address, Mosaic, MosaicDefinition, MosaicId};

/// Mosaics fetched at a time.
const CHUNK: usize = 32;
/// Approximate memory in bytes of the name of a mosaic.
const ID_BYTES: usize = 160;

/// The mosaics that an account holds: `nem:xem` first, then the others, ordered by name.
pub struct OwnedMosaics {
    account: Address,
    has_started: bool,
    /// Fetched mosaics that are not returned yet.
    fetched: vec::IntoIter<MosaicId>,
    /// Where to fetch more, if there may be any.
    after: Option<Option<MosaicId>>,
}

impl OwnedMosaics {
    /// Creates the source of the mosaics of an address.
    pub fn new(account: Address) -> OwnedMosaics {
        OwnedMosaics { account, has_started: false, fetched: Vec::new().into_iter(), after: Some(None) }
    }
}

impl ItemSource for OwnedMosaics {
    type Item = Mosaic;

    fn next(&mut self, view: &ChainSnapshot<'_>, budget: &mut Budget) -> Result<NextItem<Mosaic>, ApiError> {
        if !self.has_started {
            self.has_started = true;
            budget.charge(cost::MOSAIC);
            return Ok(NextItem::Item(view.xem_balance(&self.account)?));
        }
        loop {
            for id in self.fetched.by_ref() {
                budget.charge(cost::MOSAIC);
                if let Some(mosaic) = view.mosaic_balance(&self.account, id)? {
                    return Ok(NextItem::Item(mosaic));
                }
                if budget.is_exhausted() {
                    return Ok(NextItem::Pending);
                }
            }
            let Some(after) = self.after.take() else { return Ok(NextItem::End) };
            let part = view.holdings_after(&self.account, after.as_ref(), CHUNK)?;
            budget.charge(cost::HOLDINGS);
            self.fetched = part.ids.into_iter();
            self.after = part.next_after.map(Some);
            if budget.is_exhausted() {
                return Ok(NextItem::Pending);
            }
        }
    }

    fn held_bytes(&self) -> usize {
        self.fetched.len() * ID_BYTES
    }
}

/// The definitions of all mosaics that accounts hold, of the mosaics of their levies, and of `nem:xem`, each once,
/// ordered by name. All names are collected before the definitions are read.
pub struct OwnedDefinitions {
    accounts: vec::IntoIter<Address>,
    /// The current account and the last of its mosaics that was scanned.
    account: Option<(Address, Option<MosaicId>)>,
    found: BTreeSet<MosaicId>,
    /// Whether collecting is complete.
    has_all: bool,
}

impl OwnedDefinitions {
    /// Creates the source for the accounts of some addresses.
    pub fn new(accounts: Vec<Address>) -> OwnedDefinitions {
        OwnedDefinitions { accounts: accounts.into_iter(), account: None, found: BTreeSet::new(), has_all: false }
    }

    /// Scans the mosaics of the next few accounts; returns whether all are scanned.
    fn find(&mut self, view: &ChainSnapshot<'_>, budget: &mut Budget) -> Result<bool, ApiError> {
        loop {
            if self.account.is_none() {
                let Some(account) = self.accounts.next() else { return Ok(true) };
                self.found.insert(MosaicId::xem());
                self.account = Some((account, None));
            }
            let Some((account, after)) = &mut self.account else { return Ok(true) };
            let part = view.holdings_after(account, after.as_ref(), CHUNK)?;
            budget.charge(cost::HOLDINGS);
            for id in part.ids {
                *after = Some(id.clone());
                add_with_levy(&mut self.found, id, view, budget)?;
                if budget.is_exhausted() {
                    return Ok(false);
                }
            }
            match part.next_after {
                None => self.account = None,
                last => *after = last,
            }
            if budget.is_exhausted() {
                return Ok(false);
            }
        }
    }
}

/// Adds a mosaic and the mosaic of its levy. The levy of a mosaic added before, for whatever reason, is ignored.
fn add_with_levy(
    found: &mut BTreeSet<MosaicId>,
    id: MosaicId,
    view: &ChainSnapshot<'_>,
    budget: &mut Budget,
) -> Result<(), ApiError> {
    budget.charge(cost::SKIP);
    if found.contains(&id) {
        return Ok(());
    }
    budget.charge(cost::DEFINITION);
    let Some(definition) = view.mosaic_definition(&id)? else { return Ok(()) };
    if let Some(levy) = definition.levy {
        found.insert(levy.mosaic);
    }
    found.insert(id);
    Ok(())
}

impl ItemSource for OwnedDefinitions {
    type Item = MosaicDefinition;

    fn next(&mut self, view: &ChainSnapshot<'_>, budget: &mut Budget) -> Result<NextItem<MosaicDefinition>, ApiError> {
        if !self.has_all {
            self.has_all = self.find(view, budget)?;
        }
        while self.has_all {
            let Some(id) = self.found.pop_first() else { return Ok(NextItem::End) };
            budget.charge(cost::DEFINITION);
            if let Some(definition) = view.mosaic_definition(&id)? {
                return Ok(NextItem::Item(definition));
            }
            if budget.is_exhausted() {
                break;
            }
        }
        Ok(NextItem::Pending)
    }

    fn held_bytes(&self) -> usize {
        self.accounts.len() * size_of::<Address>() + self.found.len() * ID_BYTES
    }
}
