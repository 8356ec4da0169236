//! Streamed holders of a mosaic.

use super::{BodyWriter, ListWriter, ResponseStream, list_bytes};
use crate::api::budget::{Budget, cost};
use crate::api::chain_snapshot::{ChainSnapshot, Page};
use crate::api::error::ApiError;
use crate::api::views::{DataListHead, MosaicBalance, Numbered};
use crate::model::MosaicId;
use crate::net::service::Progress;
use crate::state::{AccountId, for_each_holder_after};

/// Stream of a page of the holders of a mosaic, by account number. The next page starts after the last entry's id.
pub struct HolderPage {
    mosaic: MosaicId,
    after: Option<AccountId>,
    left: usize,
    list: Option<ListWriter>,
}

impl HolderPage {
    /// Creates a stream of a page of the holders of a mosaic.
    pub fn new(mosaic: MosaicId, page: Page) -> HolderPage {
        let after = (!page.is_first()).then(|| AccountId(u32::try_from(page.before).unwrap_or(u32::MAX)));
        HolderPage { mosaic, after, left: page.size, list: None }
    }
}

impl ResponseStream for HolderPage {
    fn write_chunk(
        &mut self,
        view: &ChainSnapshot<'_>,
        writer: &mut BodyWriter<'_>,
        budget: &mut Budget,
    ) -> Result<Progress, ApiError> {
        let HolderPage { mosaic, after, left, list } = self;
        let list = list.get_or_insert_with(|| ListWriter::open(writer, &DataListHead));
        let mut is_interrupted = false;
        for_each_holder_after(view.snapshot, mosaic, *after, |account, quantity| {
            *after = Some(account);
            budget.charge(cost::BALANCE);
            if quantity > 0 {
                let item = MosaicBalance { address: account.address(view.snapshot)?, quantity };
                list.push(writer, &Numbered { id: account.0.into(), item });
                *left -= 1;
            }
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
        list_bytes(&self.list) + self.mosaic.to_string().len()
    }
}
