//! Streamed expired and restored mosaics, which any number of accounts may hold.

use super::{BodyWriter, ListWriter, ResponseStream, list_bytes};
use crate::api::budget::{Budget, cost};
use crate::api::chain_snapshot::ChainSnapshot;
use crate::api::error::ApiError;
use crate::api::views::{DataListHead, ExpiredMosaicHead, MosaicBalance};
use crate::model::Height;
use crate::net::service::Progress;
use crate::state::{AccountId, ExpiredCursor, ExpiredMosaic, ExpiredRow};

/// Stream of the mosaics that expired or were restored at a height, each with all balances at that time.
pub struct ExpiredMosaics {
    cursor: ExpiredCursor,
    /// The mosaic being written, and the last account written.
    current: Option<(ExpiredMosaic, Option<AccountId>)>,
    outer: Option<ListWriter>,
    list: Option<ListWriter>,
}

impl ExpiredMosaics {
    /// Creates a stream for a height.
    pub fn new(height: Height) -> ExpiredMosaics {
        ExpiredMosaics { cursor: ExpiredCursor::new(height), current: None, outer: None, list: None }
    }
}

impl ResponseStream for ExpiredMosaics {
    fn write_chunk(
        &mut self,
        view: &ChainSnapshot<'_>,
        writer: &mut BodyWriter<'_>,
        budget: &mut Budget,
    ) -> Result<Progress, ApiError> {
        let ExpiredMosaics { cursor: walk, current: present, outer, list } = self;
        let outer = outer.get_or_insert_with(|| ListWriter::open(writer, &DataListHead));
        loop {
            if let (Some((mosaic, after)), Some(balances)) = (&mut *present, &mut *list) {
                if !write_balances(mosaic, after, balances, view, writer, budget)? {
                    return Ok(Progress::Yield);
                }
                balances.close(writer);
                *present = None;
            }
            budget.charge(cost::MOSAIC);
            match walk.step(view.snapshot)? {
                ExpiredRow::Mosaic(mosaic) => {
                    *list = Some(outer.open_element(writer, &ExpiredMosaicHead(&mosaic)));
                    *present = Some((mosaic, None));
                }
                ExpiredRow::Absent => {}
                ExpiredRow::End => break,
            }
            if budget.is_exhausted() {
                return Ok(Progress::Yield);
            }
        }
        outer.close(writer);
        Ok(Progress::Done)
    }

    fn held_bytes(&self) -> usize {
        list_bytes(&self.outer) + list_bytes(&self.list)
    }
}

/// Continues with the balances of a mosaic after an account; returns whether all are written.
fn write_balances(
    mosaic: &ExpiredMosaic,
    after: &mut Option<AccountId>,
    balances: &mut ListWriter,
    view: &ChainSnapshot<'_>,
    writer: &mut BodyWriter<'_>,
    budget: &mut Budget,
) -> Result<bool, ApiError> {
    let mut is_interrupted = false;
    mosaic.for_each_balance(view.snapshot, *after, |account, quantity| {
        *after = Some(account);
        budget.charge(cost::BALANCE);
        if quantity > 0 {
            balances.push(writer, &MosaicBalance { address: account.address(view.snapshot)?, quantity });
        }
        is_interrupted = budget.is_exhausted();
        Ok(!is_interrupted)
    })?;
    Ok(!is_interrupted)
}
