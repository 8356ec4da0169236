//! Streamed mosaics of accounts. Anyone can send any number of mosaics to any account.

use std::collections::BTreeSet;
use std::vec;

use super::{Found, Items};
use crate::api::budget::{Budget, cost};
use crate::api::chain_view::ChainView;
use crate::api::failure::Failure;
use crate::model::{Address, Mosaic, MosaicDefinition, MosaicId};

/// Mosaics fetched at a time.
const CHUNK: usize = 32;
/// Approximate memory in bytes of the name of a mosaic.
const ID_BYTES: usize = 160;

/// The mosaics that an account holds: `nem:xem` first, then the others, ordered by name.
pub struct OwnedMosaics {
    account: Address,
    has_begun: bool,
    /// Fetched mosaics that are not returned yet.
    ahead: vec::IntoIter<MosaicId>,
    /// Where to fetch more, if there may be any.
    after: Option<Option<MosaicId>>,
}

impl OwnedMosaics {
    /// Creates the source of the mosaics of an address.
    pub fn new(account: Address) -> OwnedMosaics {
        OwnedMosaics { account, has_begun: false, ahead: Vec::new().into_iter(), after: Some(None) }
    }
}

impl Items for OwnedMosaics {
    type Item = Mosaic;

    fn next(&mut self, view: &ChainView<'_>, budget: &mut Budget) -> Result<Found<Mosaic>, Failure> {
        if !self.has_begun {
            self.has_begun = true;
            budget.spend(cost::MOSAIC);
            return Ok(Found::One(view.currency_of(&self.account)?));
        }
        loop {
            for id in self.ahead.by_ref() {
                budget.spend(cost::MOSAIC);
                if let Some(mosaic) = view.owned(&self.account, id)? {
                    return Ok(Found::One(mosaic));
                }
                if budget.is_spent() {
                    return Ok(Found::NotYet);
                }
            }
            let Some(after) = self.after.take() else { return Ok(Found::End) };
            let part = view.holdings_after(&self.account, after.as_ref(), CHUNK)?;
            budget.spend(cost::HOLDINGS);
            self.ahead = part.ids.into_iter();
            self.after = part.last.map(Some);
            if budget.is_spent() {
                return Ok(Found::NotYet);
            }
        }
    }

    fn held_bytes(&self) -> usize {
        self.ahead.len() * ID_BYTES
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
    fn find(&mut self, view: &ChainView<'_>, budget: &mut Budget) -> Result<bool, Failure> {
        loop {
            if self.account.is_none() {
                let Some(account) = self.accounts.next() else { return Ok(true) };
                self.found.insert(MosaicId::xem());
                self.account = Some((account, None));
            }
            let Some((account, after)) = &mut self.account else { return Ok(true) };
            let part = view.holdings_after(account, after.as_ref(), CHUNK)?;
            budget.spend(cost::HOLDINGS);
            for id in part.ids {
                *after = Some(id.clone());
                note(&mut self.found, id, view, budget)?;
                if budget.is_spent() {
                    return Ok(false);
                }
            }
            match part.last {
                None => self.account = None,
                last => *after = last,
            }
            if budget.is_spent() {
                return Ok(false);
            }
        }
    }
}

/// Adds a mosaic and the mosaic of its levy. The levy of a mosaic added before, for whatever reason, is ignored.
fn note(
    found: &mut BTreeSet<MosaicId>,
    id: MosaicId,
    view: &ChainView<'_>,
    budget: &mut Budget,
) -> Result<(), Failure> {
    budget.spend(cost::STEP);
    if found.contains(&id) {
        return Ok(());
    }
    budget.spend(cost::DEFINITION);
    let Some(definition) = view.mosaic_definition(&id)? else { return Ok(()) };
    if let Some(levy) = definition.levy {
        found.insert(levy.mosaic);
    }
    found.insert(id);
    Ok(())
}

impl Items for OwnedDefinitions {
    type Item = MosaicDefinition;

    fn next(&mut self, view: &ChainView<'_>, budget: &mut Budget) -> Result<Found<MosaicDefinition>, Failure> {
        if !self.has_all {
            self.has_all = self.find(view, budget)?;
        }
        while self.has_all {
            let Some(id) = self.found.pop_first() else { return Ok(Found::End) };
            budget.spend(cost::DEFINITION);
            if let Some(definition) = view.mosaic_definition(&id)? {
                return Ok(Found::One(definition));
            }
            if budget.is_spent() {
                break;
            }
        }
        Ok(Found::NotYet)
    }

    fn held_bytes(&self) -> usize {
        self.accounts.len() * size_of::<Address>() + self.found.len() * ID_BYTES
    }
}
