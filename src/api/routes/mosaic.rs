//! Handlers of mosaics.

use std::collections::HashSet;

use crate::api::error::ApiError;
use crate::api::request_context::{Readable, RequestContext};
use crate::api::streams::{
    DefinitionRows, ExpiredMosaics, HolderPage, ListStream, OwnedDefinitions, OwnedMosaics, PageStream, SupplyAtHeight,
    SupplyBatch,
};
use crate::api::views::MosaicSupply;
use crate::codec::mosaic::read_mosaic_id;
use crate::codec::{Decoder, ReadError, limits};
use crate::model::{Address, MosaicDefinition, MosaicId, NamespaceId};

/// Maximum number of different accounts in a batch. A larger batch is a 400 with a message that says so.
pub const MAX_BATCH_ACCOUNTS: usize = 512;

/// `{"data": [{"account": address}]}`, each account once.
struct Accounts(Vec<Address>);

impl Readable for Accounts {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let (mut seen, mut accounts) = (HashSet::new(), Vec::new());
        source.need_list("data", |source| {
            let text = source.need_string("account", limits::MAX_TEXT_UTF16)?;
            if seen.contains(&*text) {
                return Ok(());
            }
            if accounts.len() == MAX_BATCH_ACCOUNTS {
                let text = format!("a batch may name at most {MAX_BATCH_ACCOUNTS} accounts");
                return Err(ReadError::Argument(text));
            }
            let address = Address::parse(&text, source.context().network);
            accounts.push(address.ok_or_else(|| ReadError::Argument("address must be valid".to_owned()))?);
            seen.insert(text.into_owned());
            Ok(())
        })?;
        Ok(Accounts(accounts))
    }
}

/// `{"data": [{"namespaceId": text, "name": text}]}`, each mosaic once.
struct MosaicIds(Vec<MosaicId>);

impl Readable for MosaicIds {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let mut seen = HashSet::new();
        let mut ids = source.need_list("data", |source| read_mosaic_id(source))?;
        ids.retain(|id| seen.insert(id.clone()));
        Ok(MosaicIds(ids))
    }
}

/// `GET /mosaic/definition`
pub fn definition(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let id = context.mosaic_id()?;
    let is_active = context.chain.is_active(&id.namespace)?;
    let definition = if is_active { context.chain.last_definition(&id)? } else { None };
    send_definition(context, &id, definition)
}

/// `GET /mosaic/definition/last`
pub fn last_definition(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let id = context.mosaic_id()?;
    let definition = context.chain.last_definition(&id)?;
    send_definition(context, &id, definition)
}

fn send_definition(
    context: &mut RequestContext<'_>,
    id: &MosaicId,
    found: Option<MosaicDefinition>,
) -> Result<(), ApiError> {
    let kind = "org.nem.core.model.mosaic.MosaicDefinition";
    let unknown = || ApiError::NotFound(format!("invalid mosaic definition '{id}' ({kind})"));
    context.send(&found.ok_or_else(unknown)?)
}

/// `GET /mosaic/definition/page`
pub fn definitions(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let page = context.page()?;
    context.send_stream(PageStream::new(DefinitionRows::All, page))
}

/// `GET /namespace/mosaic/definition/page`: the page parameters are not parsed if the namespace is not active.
pub fn in_namespace(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let namespace = context.namespace()?;
    if !context.chain.is_active(&namespace)? {
        return send_empty_list(context);
    }
    let page = context.page()?;
    context.send_stream(PageStream::new(DefinitionRows::In(namespace), page))
}

/// `GET /account/mosaic/definition/page`
pub fn by_creator(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let (creator, parent) = (context.address()?, context.parent()?);
    let page = context.page()?;
    let rows = match parent {
        None => DefinitionRows::By(creator),
        Some(namespace) if !is_active(context, &namespace)? => return send_empty_list(context),
        Some(namespace) => DefinitionRows::ByIn(creator, namespace),
    };
    context.send_stream(PageStream::new(rows, page))
}

fn is_active(context: &RequestContext<'_>, namespace: &NamespaceId) -> Result<bool, ApiError> {
    Ok(context.chain.is_active(namespace)?)
}

/// Responds with an empty list.
fn send_empty_list(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.send_stream(ListStream::new(OwnedDefinitions::new(Vec::new())))
}

/// `GET /account/mosaic/owned`
pub fn owned(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let account = context.address()?;
    context.send_stream(ListStream::new(OwnedMosaics::new(account)))
}

/// `GET /account/mosaic/owned/definition`
pub fn owned_definitions(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let account = context.address()?;
    context.send_stream(ListStream::new(OwnedDefinitions::new(vec![account])))
}

/// `POST /account/mosaic/owned/definition/batch`
pub fn owned_definitions_of_all(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let Accounts(accounts) = context.body()?;
    context.send_stream(ListStream::new(OwnedDefinitions::new(accounts)))
}

/// `GET /mosaic/holders`: of a mosaic in force. Every account has `nem:xem`, which has no such list.
pub fn holders(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let (id, page) = (context.mosaic_id()?, context.page()?);
    if id.is_xem() {
        return Err(ApiError::argument("nem:xem has no list of holders: every account has it"));
    }
    if !context.chain.is_active(&id.namespace)? || context.chain.supply(&id)?.is_none() {
        return Err(ApiError::no_mosaic(&id));
    }
    context.send_stream(HolderPage::new(id, page))
}

/// `GET /mosaic/supply`
pub fn supply(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let id = context.mosaic_id()?;
    let supply = context.chain.supply(&id)?.ok_or_else(|| ApiError::no_mosaic(&id))?;
    context.send(&MosaicSupply { id: &id, supply })
}

/// `POST /mosaic/supply/batch`, which never worked in NIS1.
pub fn supplies(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let MosaicIds(ids) = context.body()?;
    context.send_stream(SupplyBatch::new(ids))
}

/// `GET /local/mosaic/definition/supply`
pub fn supply_at(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let (id, height) = (context.mosaic_id()?, context.height()?);
    let supply = SupplyAtHeight::new(context.chain, &id, height)?;
    context.send_stream(supply)
}

/// `GET /local/mosaics/expired`
pub fn expired(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    if !context.settings.features.track_expired_mosaics {
        return Err(ApiError::internal("this node does not support tracking expired mosaics"));
    }
    let height = context.height()?;
    context.send_stream(ExpiredMosaics::new(height))
}
