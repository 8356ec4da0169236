//! Streamed supplies of mosaics.

use std::vec;

use super::{LongView, OpenList, Sheet, held_by};
use crate::api::budget::{Budget, cost};
use crate::api::chain_view::ChainView;
use crate::api::failure::Failure;
use crate::api::views::{DataGap, ExpiringDefinition, MosaicSupply};
use crate::codec::{Measure, ReadError};
use crate::model::{Height, MosaicId};
use crate::net::machine::Taken;
use crate::state::catalogue::SupplyWalk;
use crate::store::StoreError;

const NO_LEASE: Failure =
    Failure::internal("the namespace of the mosaic was first rented in the block of its definition");
/// Approximate memory in bytes of the name of a mosaic.
const ID_BYTES: usize = 160;

/// Stream of a list with the definition of a mosaic that was in force at a height, its supply then and its expiration
/// height; an empty list if there was none.
pub struct SupplyAtHeight {
    /// `None` if there was no definition.
    walk: Option<SupplyWalk>,
}

impl SupplyAtHeight {
    /// Creates the stream for a mosaic at a height.
    pub fn new(view: &ChainView<'_>, id: &MosaicId, height: Height) -> Result<SupplyAtHeight, StoreError> {
        Ok(SupplyAtHeight { walk: SupplyWalk::new(view.snapshot, id, height)? })
    }
}

impl LongView for SupplyAtHeight {
    fn write_on(&mut self, view: &ChainView<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<Taken, Failure> {
        let supply = match &mut self.walk {
            Some(walk) => walk.go_on(view.snapshot, || {
                budget.spend(cost::STEP);
                !budget.is_spent()
            })?,
            None => None,
        };
        if supply.is_none() && self.walk.is_some() {
            return Ok(Taken::Unfinished);
        }
        let mut list = OpenList::open(sheet, &DataGap);
        if let Some(supply) = &supply {
            let expiration = supply.expiration.ok_or(NO_LEASE)?;
            let units = supply.units;
            // Units deleted under one definition may have been created under another that does not count.
            let units = u64::try_from(units).map_err(|_| ReadError::Negative(Measure::Quantity, units))?;
            list.push(sheet, &ExpiringDefinition { definition: &supply.definition, supply: units, expiration });
        }
        list.close(sheet);
        Ok(Taken::Done)
    }

    fn held_bytes(&self) -> usize {
        self.walk.as_ref().map_or(0, |_| 2 * ID_BYTES + crate::model::mosaic::MAX_DESCRIPTION_UNITS * 3)
    }
}

/// Stream of the supplies of mosaics. Fails if one of them does not exist.
pub struct SupplyBatch {
    ids: vec::IntoIter<MosaicId>,
    list: Option<OpenList>,
}

impl SupplyBatch {
    /// Creates the stream of these mosaics, in this order.
    pub fn new(ids: Vec<MosaicId>) -> SupplyBatch {
        SupplyBatch { ids: ids.into_iter(), list: None }
    }
}

impl LongView for SupplyBatch {
    fn write_on(&mut self, view: &ChainView<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<Taken, Failure> {
        let list = self.list.get_or_insert_with(|| OpenList::open(sheet, &DataGap));
        for id in self.ids.by_ref() {
            let supply = view.supply(&id)?.ok_or_else(|| Failure::no_mosaic(&id))?;
            list.push(sheet, &MosaicSupply { id: &id, supply });
            budget.spend(cost::DEFINITION);
            if budget.is_spent() {
                return Ok(Taken::Unfinished);
            }
        }
        list.close(sheet);
        Ok(Taken::Done)
    }

    fn held_bytes(&self) -> usize {
        held_by(&self.list) + self.ids.len() * ID_BYTES
    }

    /// An unknown mosaic fails the whole response.
    fn can_be_cut(&self, _: crate::api::media::Format) -> bool {
        false
    }
}
