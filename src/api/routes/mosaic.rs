//! Mosaics (specification 06 §7.9).

use crate::api::call::{Call, Readable};
use crate::api::catalogue::{Definitions, definitions_owned};
use crate::api::failure::Failure;
use crate::api::views::{Listing, MosaicSupply};
use crate::codec::{ReadError, Source, limits};
use crate::model::{Address, MosaicId};

/// `{"data": [{"account": address}]}`.
struct Accounts(Vec<Address>);

impl Readable for Accounts {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let accounts = source.need_list("data", |source| {
            let text = source.need_string("account", limits::TEXT_UNITS)?;
            let address = Address::parse(&text, source.context().network);
            address.ok_or_else(|| ReadError::Argument("address must be valid".to_owned()))
        })?;
        Ok(Accounts(accounts))
    }
}

/// `GET /mosaic/definition`
pub fn definition(call: &mut Call<'_>) -> Result<(), Failure> {
    let id = call.mosaic_id()?;
    match call.ledger.is_active(&id.namespace)? {
        true => send_definition(call, &id),
        false => Err(unknown_definition(&id)),
    }
}

/// `GET /mosaic/definition/last`
pub fn last_definition(call: &mut Call<'_>) -> Result<(), Failure> {
    let id = call.mosaic_id()?;
    send_definition(call, &id)
}

fn send_definition(call: &mut Call<'_>, id: &MosaicId) -> Result<(), Failure> {
    let definition = call.ledger.definition(id)?.ok_or_else(|| unknown_definition(id))?;
    call.send(&definition)
}

fn unknown_definition(id: &MosaicId) -> Failure {
    Failure::NotFound(format!("invalid mosaic definition '{id}' (org.nem.core.model.mosaic.MosaicDefinition)"))
}

/// `GET /mosaic/definition/page`
pub fn definitions(call: &mut Call<'_>) -> Result<(), Failure> {
    let definitions = call.ledger.definitions(Definitions::All, call.page()?)?;
    call.send(&Listing(&definitions))
}

/// `GET /namespace/mosaic/definition/page`: nobody looks at the page if the namespace is not active.
pub fn in_namespace(call: &mut Call<'_>) -> Result<(), Failure> {
    let namespace = call.namespace()?;
    let definitions = match call.ledger.is_active(&namespace)? {
        true => call.ledger.definitions(Definitions::In(&namespace), call.page()?)?,
        false => Vec::new(),
    };
    call.send(&Listing(&definitions))
}

/// `GET /account/mosaic/definition/page`
pub fn by_creator(call: &mut Call<'_>) -> Result<(), Failure> {
    let (creator, parent) = (call.address()?, call.parent()?);
    let definitions = call.ledger.definitions(Definitions::By(&creator, parent.as_ref()), call.page()?)?;
    let definitions: Vec<_> = definitions.into_iter().map(|definition| definition.item).collect();
    call.send(&Listing(&definitions))
}

/// `GET /account/mosaic/owned`
pub fn owned(call: &mut Call<'_>) -> Result<(), Failure> {
    let mosaics = call.ledger.mosaics_of(&call.address()?)?;
    call.send(&Listing(&mosaics))
}

/// `GET /account/mosaic/owned/definition`
pub fn owned_definitions(call: &mut Call<'_>) -> Result<(), Failure> {
    let definitions = definitions_owned(call.ledger, &[call.address()?])?;
    call.send(&Listing(&definitions))
}

/// `POST /account/mosaic/owned/definition/batch`
pub fn owned_definitions_of_all(call: &mut Call<'_>) -> Result<(), Failure> {
    let Accounts(accounts) = call.body()?;
    let definitions = definitions_owned(call.ledger, &accounts)?;
    call.send(&Listing(&definitions))
}

/// `GET /mosaic/supply`
pub fn supply(call: &mut Call<'_>) -> Result<(), Failure> {
    let id = call.mosaic_id()?;
    let kind = "org.nem.core.model.ncc.MosaicIdSupplyPair";
    let unknown = || Failure::NotFound(format!("mosaic id {id} is unknown '{id}' ({kind})"));
    let supply = call.ledger.supply(&id)?.ok_or_else(unknown)?;
    call.send(&MosaicSupply { id: &id, supply })
}
