//! Handlers of mosaics.

use std::collections::HashSet;

use crate::api::call::{Call, Readable};
use crate::api::failure::Failure;
use crate::api::long::{
    DefinitionRows, ExpiredMosaics, HolderPage, ListWriter, OwnedDefinitions, OwnedMosaics, PageWriter, SupplyAtHeight,
    SupplyBatch,
};
use crate::api::views::MosaicSupply;
use crate::codec::mosaic::read_mosaic_id;
use crate::codec::{ReadError, Source, limits};
use crate::model::{Address, MosaicDefinition, MosaicId, NamespaceId};

/// Maximum number of different accounts in a batch. A larger batch is a 400 with a message that says so.
pub const MAX_BATCH_ACCOUNTS: usize = 512;

/// `{"data": [{"account": address}]}`, each account once.
struct Accounts(Vec<Address>);

impl Readable for Accounts {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let (mut seen, mut accounts) = (HashSet::new(), Vec::new());
        source.need_list("data", |source| {
            let text = source.need_string("account", limits::TEXT_UNITS)?;
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
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let mut seen = HashSet::new();
        let mut ids = source.need_list("data", |source| read_mosaic_id(source))?;
        ids.retain(|id| seen.insert(id.clone()));
        Ok(MosaicIds(ids))
    }
}

/// `GET /mosaic/definition`
pub fn definition(call: &mut Call<'_>) -> Result<(), Failure> {
    let id = call.mosaic_id()?;
    let is_active = call.view.is_active(&id.namespace)?;
    let definition = if is_active { call.view.last_definition(&id)? } else { None };
    send_definition(call, &id, definition)
}

/// `GET /mosaic/definition/last`
pub fn last_definition(call: &mut Call<'_>) -> Result<(), Failure> {
    let id = call.mosaic_id()?;
    let definition = call.view.last_definition(&id)?;
    send_definition(call, &id, definition)
}

fn send_definition(call: &mut Call<'_>, id: &MosaicId, found: Option<MosaicDefinition>) -> Result<(), Failure> {
    let kind = "org.nem.core.model.mosaic.MosaicDefinition";
    let unknown = || Failure::NotFound(format!("invalid mosaic definition '{id}' ({kind})"));
    call.send(&found.ok_or_else(unknown)?)
}

/// `GET /mosaic/definition/page`
pub fn definitions(call: &mut Call<'_>) -> Result<(), Failure> {
    let page = call.page()?;
    call.send_long(PageWriter::new(DefinitionRows::All, page))
}

/// `GET /namespace/mosaic/definition/page`: the page parameters are not parsed if the namespace is not active.
pub fn in_namespace(call: &mut Call<'_>) -> Result<(), Failure> {
    let namespace = call.namespace()?;
    if !call.view.is_active(&namespace)? {
        return send_nothing(call);
    }
    let page = call.page()?;
    call.send_long(PageWriter::new(DefinitionRows::In(namespace), page))
}

/// `GET /account/mosaic/definition/page`
pub fn by_creator(call: &mut Call<'_>) -> Result<(), Failure> {
    let (creator, parent) = (call.address()?, call.parent()?);
    let page = call.page()?;
    let rows = match parent {
        None => DefinitionRows::By(creator),
        Some(namespace) if !is_active(call, &namespace)? => return send_nothing(call),
        Some(namespace) => DefinitionRows::ByIn(creator, namespace),
    };
    call.send_long(PageWriter::new(rows, page))
}

fn is_active(call: &Call<'_>, namespace: &NamespaceId) -> Result<bool, Failure> {
    Ok(call.view.is_active(namespace)?)
}

/// Responds with an empty list.
fn send_nothing(call: &mut Call<'_>) -> Result<(), Failure> {
    call.send_long(ListWriter::new(OwnedDefinitions::new(Vec::new())))
}

/// `GET /account/mosaic/owned`
pub fn owned(call: &mut Call<'_>) -> Result<(), Failure> {
    let account = call.address()?;
    call.send_long(ListWriter::new(OwnedMosaics::new(account)))
}

/// `GET /account/mosaic/owned/definition`
pub fn owned_definitions(call: &mut Call<'_>) -> Result<(), Failure> {
    let account = call.address()?;
    call.send_long(ListWriter::new(OwnedDefinitions::new(vec![account])))
}

/// `POST /account/mosaic/owned/definition/batch`
pub fn owned_definitions_of_all(call: &mut Call<'_>) -> Result<(), Failure> {
    let Accounts(accounts) = call.body()?;
    call.send_long(ListWriter::new(OwnedDefinitions::new(accounts)))
}

/// `GET /mosaic/holders`: of a mosaic in force. Every account has `nem:xem`, which has no such list.
pub fn holders(call: &mut Call<'_>) -> Result<(), Failure> {
    let (id, page) = (call.mosaic_id()?, call.page()?);
    if id.is_xem() {
        return Err(Failure::argument("nem:xem has no list of holders: every account has it"));
    }
    if !call.view.is_active(&id.namespace)? || call.view.supply(&id)?.is_none() {
        return Err(Failure::no_mosaic(&id));
    }
    call.send_long(HolderPage::new(id, page))
}

/// `GET /mosaic/supply`
pub fn supply(call: &mut Call<'_>) -> Result<(), Failure> {
    let id = call.mosaic_id()?;
    let supply = call.view.supply(&id)?.ok_or_else(|| Failure::no_mosaic(&id))?;
    call.send(&MosaicSupply { id: &id, supply })
}

/// `POST /mosaic/supply/batch`, which never worked in NIS1.
pub fn supplies(call: &mut Call<'_>) -> Result<(), Failure> {
    let MosaicIds(ids) = call.body()?;
    call.send_long(SupplyBatch::new(ids))
}

/// `GET /local/mosaic/definition/supply`
pub fn supply_at(call: &mut Call<'_>) -> Result<(), Failure> {
    let (id, height) = (call.mosaic_id()?, call.height()?);
    let supply = SupplyAtHeight::new(call.view, &id, height)?;
    call.send_long(supply)
}

/// `GET /local/mosaics/expired`
pub fn expired(call: &mut Call<'_>) -> Result<(), Failure> {
    if !call.settings.features.track_expired_mosaics {
        return Err(Failure::internal("this node does not support tracking expired mosaics"));
    }
    let height = call.height()?;
    call.send_long(ExpiredMosaics::new(height))
}
