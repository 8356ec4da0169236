//! Streamed harvested blocks.

use super::{BodyWriter, ListWriter, ResponseStream, list_bytes};
use crate::api::budget::{Budget, cost};
use crate::api::chain_snapshot::{ChainSnapshot, Page};
use crate::api::error::ApiError;
use crate::api::views::{DataListHead, HarvestInfo};
use crate::model::{Address, Height};
use crate::net::service::Progress;

/// Stream of a page of the blocks that an account or its remote account harvested, newest first.
pub struct HarvestPage {
    account: Address,
    before: Height,
    left: usize,
    list: Option<ListWriter>,
}

impl HarvestPage {
    /// Creates a stream of a page. The id of a block is its height.
    pub fn new(account: Address, page: Page) -> HarvestPage {
        HarvestPage { account, before: Height(page.before), left: page.size, list: None }
    }
}

impl ResponseStream for HarvestPage {
    fn write_chunk(
        &mut self,
        view: &ChainSnapshot<'_>,
        writer: &mut BodyWriter<'_>,
        budget: &mut Budget,
    ) -> Result<Progress, ApiError> {
        let HarvestPage { account, before, left, list } = self;
        let list = list.get_or_insert_with(|| ListWriter::open(writer, &DataListHead));
        let mut is_interrupted = false;
        view.each_harvest_before(account, *before, |block| {
            *before = block.height;
            *left -= 1;
            list.push(writer, &HarvestInfo(&block));
            budget.charge(cost::HEADER);
            is_interrupted = *left > 0 && budget.is_exhausted();
            Ok(*left > 0 && !is_interrupted)
        })?;
        if is_interrupted {
            return Ok(Progress::Yield);
        }
        list.close(writer);
        Ok(Progress::Done)
    }

    fn held_bytes(&self) -> usize {
        list_bytes(&self.list)
    }
}
