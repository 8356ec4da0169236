//! Streamed expired and restored mosaics, which any number of accounts may hold.

use super::{LongView, OpenList, Sheet, held_by};
use crate::api::budget::{Budget, cost};
use crate::api::chain_view::ChainView;
use crate::api::failure::Failure;
use crate::api::views::{DataGap, ExpiredWithGap, MosaicBalance};
use crate::model::Height;
use crate::net::machine::Taken;
use crate::state::{AccountNumber, ExpiredMosaic, ExpiredRow, ExpiredWalk};

/// Stream of the mosaics that expired or were restored at a height, each with all balances at that time.
pub struct ExpiredMosaics {
    walk: ExpiredWalk,
    /// The mosaic being written, and the last account written.
    present: Option<(ExpiredMosaic, Option<AccountNumber>)>,
    outer: Option<OpenList>,
    list: Option<OpenList>,
}

impl ExpiredMosaics {
    /// Creates a stream for a height.
    pub fn new(height: Height) -> ExpiredMosaics {
        ExpiredMosaics { walk: ExpiredWalk::new(height), present: None, outer: None, list: None }
    }
}

impl LongView for ExpiredMosaics {
    fn write_on(&mut self, view: &ChainView<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<Taken, Failure> {
        let ExpiredMosaics { walk, present, outer, list } = self;
        let outer = outer.get_or_insert_with(|| OpenList::open(sheet, &DataGap));
        loop {
            if let (Some((mosaic, after)), Some(balances)) = (&mut *present, &mut *list) {
                if !write_balances(mosaic, after, balances, view, sheet, budget)? {
                    return Ok(Taken::Unfinished);
                }
                balances.close(sheet);
                *present = None;
            }
            budget.spend(cost::MOSAIC);
            match walk.step(view.snapshot)? {
                ExpiredRow::Mosaic(mosaic) => {
                    *list = Some(outer.open_element(sheet, &ExpiredWithGap(&mosaic)));
                    *present = Some((mosaic, None));
                }
                ExpiredRow::Nothing => {}
                ExpiredRow::End => break,
            }
            if budget.is_spent() {
                return Ok(Taken::Unfinished);
            }
        }
        outer.close(sheet);
        Ok(Taken::Done)
    }

    fn held_bytes(&self) -> usize {
        held_by(&self.outer) + held_by(&self.list)
    }
}

/// Continues with the balances of a mosaic after an account; returns whether all are written.
fn write_balances(
    mosaic: &ExpiredMosaic,
    after: &mut Option<AccountNumber>,
    balances: &mut OpenList,
    view: &ChainView<'_>,
    sheet: &mut Sheet<'_>,
    budget: &mut Budget,
) -> Result<bool, Failure> {
    let mut is_interrupted = false;
    mosaic.each_balance(view.snapshot, *after, |account, quantity| {
        *after = Some(account);
        budget.spend(cost::BALANCE);
        if quantity > 0 {
            balances.push(sheet, &MosaicBalance { address: account.address(view.snapshot)?, quantity });
        }
        is_interrupted = budget.is_spent();
        Ok(!is_interrupted)
    })?;
    Ok(!is_interrupted)
}
