//! Data for the websocket API, read from one commit.

use std::borrow::Cow;
use std::rc::Rc;

use super::ApiContext;
use crate::api::media::Format;
use crate::api::streams::{ItemSource, NextItem, OwnedDefinitions, OwnedMosaics, RentedNamespaces};
use crate::api::views::{DefinitionAndSupply, View};
use crate::api::{
    AccountStream, ApiError, BlockStream, BodyWriter, Budget, ChainSnapshot, NodeHandle, Page, TransferFilter,
    transfer_page,
};
use crate::codec::json::JsonEncoder;
use crate::model::{Address, Height, MosaicDefinition, MosaicId, Transaction};
use crate::net::service::Progress;
use crate::store::StoreError;
use crate::websocket_api::{BodyProgress, BodyStream, ChainSource, ChainSourceError, Item, OwnedKind};

/// Length of the list of an account's newest transactions.
const RECENT_TRANSFERS: usize = 25;
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

    /// Starts a body.
    fn open(&self, item: &Item, budget: &mut Budget) -> Result<BodyStream, ApiError> {
        let view = self.view();
        Ok(match item {
            Item::Account(address) => {
                BodyStream::Text(Box::new(AccountStream::new(view, &self.api, *address, budget)?))
            }
            Item::RecentTransfers(address) => {
                let page = Page { before: u64::MAX, size: RECENT_TRANSFERS };
                BodyStream::Text(Box::new(transfer_page(*address, TransferFilter::All, page, None)))
            }
            Item::Owned(OwnedKind::Namespaces, address) => {
                BodyStream::Namespaces(RentedNamespaces::new(view, *address, None, MAX_RENTS)?.current())
            }
            Item::Owned(OwnedKind::Definitions, address) => {
                BodyStream::Definitions(OwnedDefinitions::new(vec![*address]))
            }
            Item::Owned(OwnedKind::Mosaics, address) => BodyStream::Mosaics(OwnedMosaics::new(*address)),
            Item::Block(height) => BodyStream::Text(Box::new(BlockStream::new(*height))),
            _ => return Err(ApiError::internal("no such body")),
        })
    }

    fn next(
        &self,
        item: &Item,
        progress: &mut BodyProgress,
        budget: &mut Budget,
    ) -> Result<NextItem<Vec<u8>>, ApiError> {
        let view = self.view();
        if matches!(item, Item::NodeInfo) {
            let is_booted = view.is_booted();
            return is_booted
                .then(|| NextItem::Item(text_of(&self.api.description().info)))
                .ok_or(ApiError::NOT_BOOTED);
        }
        let BodyProgress { text, rest } = progress;
        let rest = match rest {
            Some(rest) => rest,
            None => rest.insert(self.open(item, budget)?),
        };
        Ok(match rest {
            BodyStream::Text(stream) => {
                let mut writer = BodyWriter { format: Format::Json, body: text, json: &mut JsonEncoder::default() };
                match stream.write_chunk(view, &mut writer, budget)? {
                    Progress::Done => NextItem::Item(std::mem::take(text)),
                    _ => NextItem::Pending,
                }
            }
            BodyStream::Namespaces(names) => names.next(view, budget)?.map(|namespace| text_of(&namespace)),
            BodyStream::Mosaics(mosaics) => mosaics.next(view, budget)?.map(|mosaic| text_of(&mosaic)),
            BodyStream::Definitions(definitions) => match definitions.next(view, budget)? {
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

    fn transactions(&self, height: Height, from: usize, most: usize) -> Result<Vec<Transaction>, ChainSourceError> {
        self.view().transactions(height, from, most).map_err(store_error)
    }

    fn next_body(
        &self,
        item: &Item,
        progress: &mut BodyProgress,
        budget: &mut u32,
    ) -> Result<NextItem<Vec<u8>>, ChainSourceError> {
        let mut units = Budget::new(*budget);
        let next = self.next(item, progress, &mut units);
        *budget = budget.saturating_sub(units.used());
        next.map_err(query_error)
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
