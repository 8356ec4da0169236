//! Data for the websocket API, read from one commit.

use std::borrow::Cow;
use std::rc::Rc;
use std::task::Poll;

use crate::api::streams::{BodyWriter, ItemSource};
use crate::api::{
    ALL_TRANSFERS, AccountBody, ApiError, BlockBody, DefinitionAndSupply, Format, NodeContext, OwnedDefinitions,
    OwnedMosaics, Page, RentedNamespaces, TransactionStatus, View, supply_of, transfer_page,
};
use crate::budget::Budget;
use crate::codec::json::JsonEncoder;
use crate::model::{Address, Height, MosaicDefinition, MosaicId, Transaction};
use crate::net::service::Progress;
use crate::state;
use crate::store::StoreError;
use crate::websocket_api::{BodyProgress, BodyStream, ChainSource, ChainSourceError, Item, OwnedKind};

/// Length of the list of an account's newest transactions.
const RECENT_TRANSFERS: usize = 25;
/// Maximum number of rents examined for the namespaces of an account.
const MAX_RENTS: usize = 1_000;

/// The node's implementation of [`ChainSource`].
pub struct QueryContext<'a> {
    pub node: NodeContext<'a>,
    /// Old confirmed transactions are not found by their hashes.
    pub prunes_hashes: bool,
}

impl QueryContext<'_> {
    /// Starts a body.
    fn open(&mut self, item: &Item) -> Result<BodyStream, ApiError> {
        Ok(match item {
            Item::Account(address) => {
                BodyStream::Text(Box::new(AccountBody::new(&mut self.node, *address)?.into_stream()))
            }
            Item::RecentTransfers(address) => {
                let page = Page { before: u64::MAX, size: RECENT_TRANSFERS };
                BodyStream::Text(Box::new(transfer_page(*address, ALL_TRANSFERS, page, None)))
            }
            Item::Owned(OwnedKind::Namespaces, address) => {
                let names = RentedNamespaces::new(&self.node.chain, *address, None, MAX_RENTS)?;
                BodyStream::Namespaces(names.current())
            }
            Item::Owned(OwnedKind::Definitions, address) => {
                BodyStream::Definitions(OwnedDefinitions::new(vec![*address]))
            }
            Item::Owned(OwnedKind::Mosaics, address) => BodyStream::Mosaics(OwnedMosaics::new(*address)),
            Item::Block(height) => BodyStream::Text(Box::new(BlockBody::new(*height, None).into_stream())),
            _ => return Err(ApiError::internal("no such body")),
        })
    }

    fn next(&mut self, item: &Item, progress: &mut BodyProgress) -> Result<Poll<Option<Vec<u8>>>, ApiError> {
        if matches!(item, Item::NodeInfo) {
            self.node.require_joined()?;
            return Ok(Poll::Ready(Some(text_of(&self.node.description.info))));
        }
        if let Item::Status(hash) = item {
            let status = TransactionStatus::look_up(*hash, &mut self.node, self.prunes_hashes)?;
            return Ok(Poll::Ready(Some(text_of(&status))));
        }
        let BodyProgress { text, rest } = progress;
        let rest = match rest {
            Some(rest) => rest,
            None => rest.insert(self.open(item)?),
        };
        let node = &mut self.node;
        Ok(match rest {
            BodyStream::Text(stream) => {
                let mut writer = BodyWriter { format: Format::Json, body: text, json: &mut JsonEncoder::default() };
                match stream.write_chunk(node, &mut writer)? {
                    Progress::Done => Poll::Ready(Some(std::mem::take(text))),
                    _ => Poll::Pending,
                }
            }
            BodyStream::Namespaces(names) => names.next(node)?.map(|found| found.map(|namespace| text_of(&namespace))),
            BodyStream::Mosaics(mosaics) => mosaics.next(node)?.map(|found| found.map(|mosaic| text_of(&mosaic))),
            BodyStream::Definitions(definitions) => {
                let found = definitions.next(node)?;
                found.map(|found| found.map(|definition| definition_text(&definition, node)).transpose())?
            }
        })
    }
}

fn text_of(view: &impl View) -> Vec<u8> {
    JsonEncoder::document(|sink| view.write(sink))
}

fn definition_text(definition: &MosaicDefinition, node: &NodeContext<'_>) -> Result<Vec<u8>, StoreError> {
    let supply = supply_of(&node.chain, &definition.id)?.unwrap_or(0);
    Ok(text_of(&DefinitionAndSupply { definition, supply, expiration: None }))
}

impl ChainSource for QueryContext<'_> {
    fn height(&self) -> Height {
        self.node.chain.height
    }

    fn block_signer(&self, height: Height) -> Result<Option<Address>, ChainSourceError> {
        let chain = &self.node.chain;
        let opened = chain.open_block(height).map_err(store_error)?;
        Ok(opened.map(|(block, _)| Address::from_public_key(&block.signer, chain.network.byte)))
    }

    fn transactions(&self, height: Height, from: usize, most: usize) -> Result<Vec<Transaction>, ChainSourceError> {
        self.node.chain.transactions(height, from, most).map_err(store_error)
    }

    fn next_body(
        &mut self,
        item: &Item,
        progress: &mut BodyProgress,
        budget: &mut Budget,
    ) -> Result<Poll<Option<Vec<u8>>>, ChainSourceError> {
        std::mem::swap(&mut self.node.budget, budget);
        let next = self.next(item, progress);
        std::mem::swap(&mut self.node.budget, budget);
        next.map_err(|error| ChainSourceError(Cow::Owned(error.message().to_owned())))
    }

    fn levy_recipient(&self, mosaic: &MosaicId) -> Result<Option<Address>, ChainSourceError> {
        let definition = state::mosaic_definition(self.node.chain.snapshot, mosaic).map_err(store_error)?;
        Ok(definition.and_then(|definition| definition.levy).map(|levy| levy.recipient))
    }

    fn unconfirmed(&self, address: &Address, limit: usize) -> Result<Vec<Rc<Transaction>>, ChainSourceError> {
        let found = self.node.mempool.most_recent(address, limit, &self.node.chain).map_err(store_error)?;
        Ok(found.into_iter().map(|entry| Rc::clone(&entry.transaction)).collect())
    }
}

/// The client cannot do anything about it; the code that works on the store informs the operator.
fn store_error(_: StoreError) -> ChainSourceError {
    ChainSourceError(Cow::Borrowed("the node's store failed"))
}
