//! Streamed supplies of mosaics.

use std::vec;

use super::{BodyWriter, ListWriter, ResponseStream, list_bytes};
use crate::api::budget::{Budget, cost};
use crate::api::chain_snapshot::ChainSnapshot;
use crate::api::error::ApiError;
use crate::api::views::{DataListHead, ExpiringDefinition, MosaicSupply};
use crate::codec::{Measure, ReadError};
use crate::model::{Height, MosaicId};
use crate::net::service::Progress;
use crate::state::registry::SupplyQuery;
use crate::store::StoreError;

const NO_LEASE: ApiError =
    ApiError::internal("the namespace of the mosaic was first rented in the block of its definition");
/// Approximate memory in bytes of the name of a mosaic.
const ID_BYTES: usize = 160;

/// Stream of a list with the definition of a mosaic that was in force at a height, its supply then and its expiration
/// height; an empty list if there was none.
pub struct SupplyAtHeight {
    /// `None` if there was no definition.
    cursor: Option<SupplyQuery>,
}

impl SupplyAtHeight {
    /// Creates the stream for a mosaic at a height.
    pub fn new(view: &ChainSnapshot<'_>, id: &MosaicId, height: Height) -> Result<SupplyAtHeight, StoreError> {
        Ok(SupplyAtHeight { cursor: SupplyQuery::new(view.snapshot, id, height)? })
    }
}

impl ResponseStream for SupplyAtHeight {
    fn write_chunk(
        &mut self,
        view: &ChainSnapshot<'_>,
        writer: &mut BodyWriter<'_>,
        budget: &mut Budget,
    ) -> Result<Progress, ApiError> {
        let supply = match &mut self.cursor {
            Some(cursor) => cursor.resume(view.snapshot, || {
                budget.charge(cost::SKIP);
                !budget.is_exhausted()
            })?,
            None => None,
        };
        if supply.is_none() && self.cursor.is_some() {
            return Ok(Progress::Yield);
        }
        let mut list = ListWriter::open(writer, &DataListHead);
        if let Some(supply) = &supply {
            let expiration = supply.expiration.ok_or(NO_LEASE)?;
            let units = supply.units;
            // Units deleted under one definition may have been created under another that does not count.
            let units = u64::try_from(units).map_err(|_| ReadError::Negative(Measure::Quantity, units))?;
            list.push(writer, &ExpiringDefinition { definition: &supply.definition, supply: units, expiration });
        }
        list.close(writer);
        Ok(Progress::Done)
    }

    fn held_bytes(&self) -> usize {
        self.cursor.as_ref().map_or(0, |_| 2 * ID_BYTES + crate::model::mosaic::MAX_DESCRIPTION_UNITS * 3)
    }
}

/// Stream of the supplies of mosaics. Fails if one of them does not exist.
pub struct SupplyBatch {
    ids: vec::IntoIter<MosaicId>,
    list: Option<ListWriter>,
}

impl SupplyBatch {
    /// Creates the stream of these mosaics, in this order.
    pub fn new(ids: Vec<MosaicId>) -> SupplyBatch {
        SupplyBatch { ids: ids.into_iter(), list: None }
    }
}

impl ResponseStream for SupplyBatch {
    fn write_chunk(
        &mut self,
        view: &ChainSnapshot<'_>,
        writer: &mut BodyWriter<'_>,
        budget: &mut Budget,
    ) -> Result<Progress, ApiError> {
        let list = self.list.get_or_insert_with(|| ListWriter::open(writer, &DataListHead));
        for id in self.ids.by_ref() {
            let supply = view.supply(&id)?.ok_or_else(|| ApiError::no_mosaic(&id))?;
            list.push(writer, &MosaicSupply { id: &id, supply });
            budget.charge(cost::DEFINITION);
            if budget.is_exhausted() {
                return Ok(Progress::Yield);
            }
        }
        list.close(writer);
        Ok(Progress::Done)
    }

    fn held_bytes(&self) -> usize {
        list_bytes(&self.list) + self.ids.len() * ID_BYTES
    }

    /// An unknown mosaic fails the whole response.
    fn is_streamable(&self, _: crate::api::media::Format) -> bool {
        false
    }
}
