//! Streamed harvested blocks.

use super::{LongView, OpenList, Sheet, held_by};
use crate::api::budget::{Budget, cost};
use crate::api::chain_view::{ChainView, Page};
use crate::api::failure::Failure;
use crate::api::views::{DataGap, HarvestInfo};
use crate::model::{Address, Height};
use crate::net::machine::Taken;

/// Stream of a page of the blocks that an account or its remote account harvested, newest first.
pub struct HarvestPage {
    account: Address,
    before: Height,
    left: usize,
    list: Option<OpenList>,
}

impl HarvestPage {
    /// Creates a stream of a page. The id of a block is its height.
    pub fn new(account: Address, page: Page) -> HarvestPage {
        HarvestPage { account, before: Height(page.before), left: page.size, list: None }
    }
}

impl LongView for HarvestPage {
    fn write_on(&mut self, view: &ChainView<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<Taken, Failure> {
        let HarvestPage { account, before, left, list } = self;
        let list = list.get_or_insert_with(|| OpenList::open(sheet, &DataGap));
        let mut is_interrupted = false;
        view.each_harvest_before(account, *before, |block| {
            *before = block.height;
            *left -= 1;
            list.push(sheet, &HarvestInfo(&block));
            budget.spend(cost::HEADER);
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
        held_by(&self.list)
    }
}
