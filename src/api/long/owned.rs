//! The mosaics of accounts: anybody can send any number of kinds to any account.

use std::collections::BTreeSet;
use std::vec;

use super::{Found, Items};
use crate::api::budget::{Budget, cost};
use crate::api::chain_view::ChainView;
use crate::api::failure::Failure;
use crate::model::{Address, Mosaic, MosaicDefinition, MosaicId};

/// Mosaics of an account that are looked for at a time.
const CHUNK: usize = 32;
/// Memory that the name of a mosaic takes, roughly.
const ID_BYTES: usize = 160;

/// What an account has: `nem:xem` first, then the other mosaics in which it is invested, by text.
pub struct OwnedMosaics {
    account: Address,
    has_begun: bool,
    /// Those that were found and are still to come.
    ahead: vec::IntoIter<MosaicId>,
    /// Where to look for more, if there may be any.
    after: Option<Option<MosaicId>>,
}

impl OwnedMosaics {
    /// Of the account of an address.
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

/// The definitions of all mosaics that accounts have, of those in which their levies are paid, and of `nem:xem`, each
/// once, by text. First all are found, then they are read.
pub struct OwnedDefinitions {
    accounts: vec::IntoIter<Address>,
    /// The account whose mosaics are looked at, and the last of them that was.
    account: Option<(Address, Option<MosaicId>)>,
    found: BTreeSet<MosaicId>,
    /// Whether all have been found.
    has_all: bool,
}

impl OwnedDefinitions {
    /// Of the accounts of some addresses.
    pub fn new(accounts: Vec<Address>) -> OwnedDefinitions {
        OwnedDefinitions { accounts: accounts.into_iter(), account: None, found: BTreeSet::new(), has_all: false }
    }

    /// Looks at the mosaics of the next few accounts; whether all have been looked at.
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

/// Notes a mosaic that somebody has, and the one in which its levy is paid. Of a mosaic that was noted before, for
/// whatever reason, the levy is not looked at.
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
