//! The mosaics of accounts: anybody can send any number of kinds to any account.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::vec;

use super::{LongView, OpenList, Sheet, held_by};
use crate::api::budget::{Budget, cost};
use crate::api::chain_view::ChainView;
use crate::api::failure::Failure;
use crate::api::views::DataGap;
use crate::model::{Address, MosaicId};
use crate::net::machine::Taken;

/// Mosaics of an account that are looked for at a time.
const CHUNK: usize = 32;
/// Memory that the name of a mosaic takes, roughly.
const ID_BYTES: usize = 160;

/// Writes what an account has: `nem:xem` first, then the other mosaics in which it is invested, by text.
pub struct OwnedMosaics {
    account: Address,
    after: Option<MosaicId>,
    list: Option<OpenList>,
}

impl OwnedMosaics {
    /// Of the account of an address.
    pub fn new(account: Address) -> OwnedMosaics {
        OwnedMosaics { account, after: None, list: None }
    }
}

impl LongView for OwnedMosaics {
    fn write_on(&mut self, view: &ChainView<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<Taken, Failure> {
        if self.list.is_none() {
            let mut list = OpenList::open(sheet, &DataGap);
            list.push(sheet, &view.currency_of(&self.account)?);
            self.list = Some(list);
        }
        let Some(list) = &mut self.list else { return Ok(Taken::Done) };
        loop {
            let part = view.holdings_after(&self.account, self.after.as_ref(), CHUNK)?;
            budget.spend(cost::HOLDINGS);
            for id in part.ids {
                if let Some(mosaic) = view.owned(&self.account, id.clone())? {
                    list.push(sheet, &mosaic);
                }
                self.after = Some(id);
                budget.spend(cost::MOSAIC);
                if budget.is_spent() {
                    return Ok(Taken::Unfinished);
                }
            }
            if part.last.is_none() {
                list.close(sheet);
                return Ok(Taken::Done);
            }
            self.after = part.last;
            if budget.is_spent() {
                return Ok(Taken::Unfinished);
            }
        }
    }

    fn held_bytes(&self) -> usize {
        held_by(&self.list)
    }
}

/// Writes the definitions of all mosaics that accounts have, of those in which their levies are paid, and of `nem:xem`,
/// each once, by text. First all are found, then they are written.
pub struct OwnedDefinitions {
    accounts: vec::IntoIter<Address>,
    /// The account whose mosaics are looked at, and the last of them that was.
    account: Option<(Address, Option<MosaicId>)>,
    found: BTreeSet<MosaicId>,
    list: Option<OpenList>,
    /// The last mosaic that was written.
    after: Option<MosaicId>,
}

impl OwnedDefinitions {
    /// Of the accounts of some addresses.
    pub fn new(accounts: Vec<Address>) -> OwnedDefinitions {
        let found = BTreeSet::new();
        OwnedDefinitions { accounts: accounts.into_iter(), account: None, found, list: None, after: None }
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

impl LongView for OwnedDefinitions {
    fn write_on(&mut self, view: &ChainView<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<Taken, Failure> {
        if self.list.is_none() && !self.find(view, budget)? {
            return Ok(Taken::Unfinished);
        }
        let list = self.list.get_or_insert_with(|| OpenList::open(sheet, &DataGap));
        let after = self.after.clone().map_or(Bound::Unbounded, Bound::Excluded);
        for id in self.found.range((after, Bound::Unbounded)) {
            if let Some(definition) = view.mosaic_definition(id)? {
                list.push(sheet, &definition);
            }
            budget.spend(cost::DEFINITION);
            if budget.is_spent() {
                self.after = Some(id.clone());
                return Ok(Taken::Unfinished);
            }
        }
        list.close(sheet);
        Ok(Taken::Done)
    }

    fn held_bytes(&self) -> usize {
        held_by(&self.list) + self.accounts.len() * size_of::<Address>() + self.found.len() * ID_BYTES
    }
}
