//! Data for the websocket API, read from one commit.

use std::borrow::Cow;
use std::rc::Rc;

use super::ApiContext;
use crate::api::media::Format;
use crate::api::streams::{ItemSource, NextItem, RentedNamespaces};
use crate::api::views::{DefinitionAndSupply, View};
use crate::api::{AccountStream, ApiError, BodyWriter, Budget, ChainSnapshot, NodeHandle, ResponseStream};
use crate::codec::json::JsonEncoder;
use crate::model::{Address, Height, MosaicDefinition, MosaicId, Transaction};
use crate::net::service::Progress;
use crate::store::StoreError;
use crate::websocket_api::{
    AccountText, BlockText, ChainSource, ChainSourceError, OwnedCursor, OwnedItems, TransfersText,
};

/// Maximum number of rents examined for the namespaces of an account.
const MAX_RENTS: usize = 1_000;

/// The node's implementation of [`ChainSource`].
pub struct QueryContext<'a, 's> {
    pub api: ApiContext<'a, 's>,
}

impl QueryContext<'_, '_> {
    fn view(&self) -> &ChainSnapshot<'_> {
        &self.api.view
    }

    /// Continues a JSON text within `units`, which it reduces. Returns true when the text is complete.
    fn write_chunk(
        &self,
        writer: &mut dyn ResponseStream,
        text: &mut Vec<u8>,
        units: &mut u32,
    ) -> Result<bool, ChainSourceError> {
        let mut sheet = BodyWriter { format: Format::Json, body: text, json: &mut JsonEncoder::default() };
        let mut budget = Budget::new(*units);
        let taken = writer.write_chunk(self.view(), &mut sheet, &mut budget);
        *units = units.saturating_sub(budget.used());
        Ok(taken.map_err(query_error)? == Progress::Done)
    }

    fn next_item(
        &self,
        cursor: &mut OwnedCursor,
        address: &Address,
        budget: &mut Budget,
    ) -> Result<NextItem<Vec<u8>>, ApiError> {
        let view = self.view();
        Ok(match cursor {
            OwnedCursor::Namespaces(names) => {
                let names = match names {
                    Some(names) => names,
                    None => names.insert(RentedNamespaces::new(view, *address, None, MAX_RENTS)?.current()),
                };
                names.next(view, budget)?.map(|namespace| text_of(&namespace))
            }
            OwnedCursor::Mosaics(mosaics) => mosaics.next(view, budget)?.map(|mosaic| text_of(&mosaic)),
            OwnedCursor::Definitions(definitions) => match definitions.next(view, budget)? {
                NextItem::Item(definition) => NextItem::Item(definition_text(&definition, view)?),
                NextItem::Pending => NextItem::Pending,
                NextItem::End => NextItem::End,
            },
        })
    }
}

fn text_of(view: &impl View) -> Vec<u8> {
    JsonEncoder::document(|sink| view.write(sink))
}

fn definition_text(definition: &MosaicDefinition, view: &ChainSnapshot<'_>) -> Result<Vec<u8>, StoreError> {
    let supply = view.supply(&definition.id)?.unwrap_or(0);
    Ok(text_of(&DefinitionAndSupply { definition, supply }))
}

impl ChainSource for QueryContext<'_, '_> {
    fn height(&self) -> Height {
        self.view().height
    }

    fn block_signer(&self, height: Height) -> Result<Option<Address>, ChainSourceError> {
        let opened = self.view().open_block(height).map_err(store_error)?;
        Ok(opened.map(|(block, _)| Address::from_public_key(&block.signer, self.view().network.byte)))
    }

    fn write_block(&self, block: &mut BlockText, budget: &mut u32) -> Result<bool, ChainSourceError> {
        self.write_chunk(&mut block.writer, &mut block.text, budget)
    }

    fn transactions(&self, height: Height, from: usize, most: usize) -> Result<Vec<Transaction>, ChainSourceError> {
        self.view().transactions(height, from, most).map_err(store_error)
    }

    fn write_account(&self, account: &mut AccountText, budget: &mut u32) -> Result<bool, ChainSourceError> {
        let AccountText { address, text, writer } = account;
        let writer = match writer {
            Some(writer) => writer,
            None => {
                let mut units = Budget::new(*budget);
                let begun = AccountStream::new(self.view(), &self.api, *address, &mut units);
                *budget = budget.saturating_sub(units.used());
                writer.insert(begun.map_err(query_error)?)
            }
        };
        self.write_chunk(writer, text, budget)
    }

    fn write_transfers(&self, transfers: &mut TransfersText, budget: &mut u32) -> Result<bool, ChainSourceError> {
        self.write_chunk(&mut transfers.writer, &mut transfers.text, budget)
    }

    fn next_owned(&self, owned: &mut OwnedItems, budget: &mut u32) -> Result<NextItem<Vec<u8>>, ChainSourceError> {
        let mut units = Budget::new(*budget);
        let found = self.next_item(&mut owned.cursor, &owned.address, &mut units);
        *budget = budget.saturating_sub(units.used());
        found.map_err(query_error)
    }

    fn node_info(&self) -> Result<Vec<u8>, ChainSourceError> {
        match self.view().is_booted() {
            true => Ok(text_of(&self.api.description().info)),
            false => Err(query_error(ApiError::NOT_BOOTED)),
        }
    }

    fn levy_recipient(&self, mosaic: &MosaicId) -> Result<Option<Address>, ChainSourceError> {
        let definition = self.view().mosaic_definition(mosaic).map_err(store_error)?;
        Ok(definition.and_then(|definition| definition.levy).map(|levy| levy.recipient))
    }

    fn unconfirmed(&self, address: &Address, limit: usize) -> Result<Vec<Rc<Transaction>>, ChainSourceError> {
        self.api.unconfirmed(address, limit).map_err(store_error)
    }
}

fn query_error(error: ApiError) -> ChainSourceError {
    ChainSourceError(Cow::Owned(error.message().to_owned()))
}

/// The client cannot do anything about it; the code that works on the store informs the operator.
fn store_error(_: StoreError) -> ChainSourceError {
    ChainSourceError(Cow::Borrowed("the node's store failed"))
}
