//! Streamed holders of a mosaic.

use super::{LongView, OpenList, Sheet, held_by};
use crate::api::budget::{Budget, cost};
use crate::api::chain_view::{ChainView, Page};
use crate::api::failure::Failure;
use crate::api::views::{DataGap, MosaicBalance, Numbered};
use crate::model::MosaicId;
use crate::net::machine::Taken;
use crate::state::{AccountNumber, each_holder_after};

/// Stream of a page of the holders of a mosaic, by account number. The next page starts after the last entry's id.
pub struct HolderPage {
    mosaic: MosaicId,
    after: Option<AccountNumber>,
    left: usize,
    list: Option<OpenList>,
}

impl HolderPage {
    /// Creates a stream of a page of the holders of a mosaic.
    pub fn new(mosaic: MosaicId, page: Page) -> HolderPage {
        let after = (!page.is_first()).then(|| AccountNumber(u32::try_from(page.before).unwrap_or(u32::MAX)));
        HolderPage { mosaic, after, left: page.size, list: None }
    }
}

impl LongView for HolderPage {
    fn write_on(&mut self, view: &ChainView<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<Taken, Failure> {
        let HolderPage { mosaic, after, left, list } = self;
        let list = list.get_or_insert_with(|| OpenList::open(sheet, &DataGap));
        let mut is_interrupted = false;
        each_holder_after(view.snapshot, mosaic, *after, |account, quantity| {
            *after = Some(account);
            budget.spend(cost::BALANCE);
            if quantity > 0 {
                let item = MosaicBalance { address: account.address(view.snapshot)?, quantity };
                list.push(sheet, &Numbered { id: account.0.into(), item });
                *left -= 1;
            }
            is_interrupted = *left > 0 && budget.is_spent();
            Ok(*left > 0 && !is_interrupted)
        })?;
        if is_interrupted {
            return Ok(Taken::Unfinished);
        }
        list.close(sheet);
        Ok(Taken::Done)
    }

    fn held_bytes(&self) -> usize {
        held_by(&self.list) + self.mosaic.to_string().len()
    }
}
