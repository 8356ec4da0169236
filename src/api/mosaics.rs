//! Mosaics: handlers and streams.

use std::collections::HashSet;

use crate::api::budget::{Budget, cost};
use crate::api::chain_snapshot::{ChainSnapshot, Page};
use crate::api::error::ApiError;
use crate::api::request_context::{Readable, RequestContext};
use crate::api::streams::{
    BodyWriter, ListWriter, OwnedDefinitions, OwnedMosaics, ResponseStream, item_list, list_bytes, list_stream,
};
use crate::api::views::{DataListHead, ExpiredMosaicHead, ExpiringDefinition, MosaicBalance, MosaicSupply, Numbered};
use crate::codec::mosaic::read_mosaic_id;
use crate::codec::{Decoder, Measure, ReadError, limits};
use crate::model::mosaic::MAX_DESCRIPTION_UNITS;
use crate::model::{Address, Height, MosaicDefinition, MosaicId, NamespaceId};
use crate::net::service::Progress;
use crate::state::registry::{ListingIndex, SupplyQuery, definition_at};
use crate::state::{AccountId, ExpiredCursor, ExpiredMosaic, ExpiredRow, for_each_holder_after};

const NO_LEASE: ApiError =
    ApiError::internal("the namespace of the mosaic was first rented in the block of its definition");
/// Approximate memory in bytes of the name of a mosaic.
const ID_BYTES: usize = 160;

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
    context.send_stream(definition_page(DefinitionRows::All, page))
}

/// `GET /namespace/mosaic/definition/page`: the page parameters are not parsed if the namespace is not active.
pub fn in_namespace(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let namespace = context.namespace()?;
    if !context.chain.is_active(&namespace)? {
        return send_empty_list(context);
    }
    let page = context.page()?;
    context.send_stream(definition_page(DefinitionRows::In(namespace), page))
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
    context.send_stream(definition_page(rows, page))
}

fn is_active(context: &RequestContext<'_>, namespace: &NamespaceId) -> Result<bool, ApiError> {
    Ok(context.chain.is_active(namespace)?)
}

/// Responds with an empty list.
fn send_empty_list(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.send_stream(list_stream(|_| Ok(())))
}

/// `GET /account/mosaic/owned`
pub fn owned(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let account = context.address()?;
    context.send_stream(item_list(OwnedMosaics::new(account)))
}

/// `GET /account/mosaic/owned/definition`
pub fn owned_definitions(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let account = context.address()?;
    context.send_stream(item_list(OwnedDefinitions::new(vec![account])))
}

/// `POST /account/mosaic/owned/definition/batch`
pub fn owned_definitions_of_all(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let Accounts(accounts) = context.body()?;
    context.send_stream(item_list(OwnedDefinitions::new(accounts)))
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
    context.send_stream(holder_page(id, page))
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
    context.send_stream(supply_list(ids))
}

/// `GET /local/mosaic/definition/supply`
pub fn supply_at(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let (id, height) = (context.mosaic_id()?, context.height()?);
    let cursor = SupplyQuery::new(context.chain.snapshot, &id, height)?;
    context.send_stream(supply_at_height(cursor))
}

/// `GET /local/mosaics/expired`
pub fn expired(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    if !context.settings.features.track_expired_mosaics {
        return Err(ApiError::internal("this node does not support tracking expired mosaics"));
    }
    let height = context.height()?;
    context.send_stream(ExpiredMosaics::new(height))
}

/// Newest definitions of mosaics. Except for `In` and `ByIn`, only active ones are listed.
enum DefinitionRows {
    /// Of all mosaics.
    All,
    /// Of the mosaics in exactly this namespace.
    In(NamespaceId),
    /// Of the mosaics of a creator, without ids.
    By(Address),
    /// Of a creator's mosaics in exactly this namespace, without ids. A namespace has few creators: its owners so far.
    ByIn(Address, NamespaceId),
}

/// A page of definitions, newest first.
fn definition_page(rows: DefinitionRows, page: Page) -> impl ResponseStream {
    let (mut before, mut left) = (page.before, page.size);
    list_stream(move |step| {
        let list = match &rows {
            DefinitionRows::All => ListingIndex::Definitions,
            DefinitionRows::By(creator) => ListingIndex::DefinitionsBy(creator),
            DefinitionRows::In(namespace) | DefinitionRows::ByIn(_, namespace) => {
                ListingIndex::DefinitionsIn(namespace.as_str())
            }
        };
        let view = step.view;
        list.for_each_before(view.snapshot, before, |id| {
            before = id;
            step.budget.charge(cost::DEFINITION);
            let item = definition_at(view.snapshot, id)?;
            match &rows {
                DefinitionRows::ByIn(creator, _)
                    if Address::from_public_key(&item.creator, view.network.byte) != *creator =>
                {
                    return Ok(step.should_continue(left));
                }
                DefinitionRows::All | DefinitionRows::In(_) => step.push(&Numbered { id, item }),
                DefinitionRows::By(_) | DefinitionRows::ByIn(..) => step.push(&item),
            }
            left -= 1;
            Ok(step.should_continue(left))
        })?;
        Ok(())
    })
}

/// A page of the holders of a mosaic, by account number. The next page starts after the last entry's id.
fn holder_page(mosaic: MosaicId, page: Page) -> impl ResponseStream {
    let mut after = (!page.is_first()).then(|| AccountId(u32::try_from(page.before).unwrap_or(u32::MAX)));
    let mut left = page.size;
    let held_bytes = mosaic.to_string().len();
    let list = list_stream(move |step| {
        let view = step.view;
        for_each_holder_after(view.snapshot, &mosaic, after, |account, quantity| {
            after = Some(account);
            step.budget.charge(cost::BALANCE);
            if quantity > 0 {
                let item = MosaicBalance { address: account.address(view.snapshot)?, quantity };
                step.push(&Numbered { id: account.0.into(), item });
                left -= 1;
            }
            Ok(step.should_continue(left))
        })?;
        Ok(())
    });
    list.holding(held_bytes)
}

/// A list with the definition of a mosaic that was in force at a height, its supply then and its expiration height; an
/// empty list if there was none.
fn supply_at_height(mut cursor: Option<SupplyQuery>) -> impl ResponseStream {
    let held_bytes = cursor.as_ref().map_or(0, |_| 2 * ID_BYTES + MAX_DESCRIPTION_UNITS * 3);
    let list = list_stream(move |step| {
        let Some(cursor) = &mut cursor else { return Ok(()) };
        let (view, budget) = (step.view, &mut *step.budget);
        let found = cursor.resume(view.snapshot, || {
            budget.charge(cost::SKIP);
            !budget.is_exhausted()
        })?;
        let Some(supply) = found else {
            step.interrupt();
            return Ok(());
        };
        let expiration = supply.expiration.ok_or(NO_LEASE)?;
        // Units deleted under one definition may have been created under another that does not count.
        let units = u64::try_from(supply.units).map_err(|_| ReadError::Negative(Measure::Quantity, supply.units))?;
        step.push(&ExpiringDefinition { definition: &supply.definition, supply: units, expiration });
        Ok(())
    });
    list.holding(held_bytes).failing_as_a_whole()
}

/// The supplies of mosaics, in this order. Fails if one of them does not exist.
fn supply_list(ids: Vec<MosaicId>) -> impl ResponseStream {
    let held_bytes = ids.len() * ID_BYTES;
    let mut ids = ids.into_iter();
    let list = list_stream(move |step| {
        while let Some(id) = ids.next() {
            let supply = step.view.supply(&id)?.ok_or_else(|| ApiError::no_mosaic(&id))?;
            step.push(&MosaicSupply { id: &id, supply });
            step.budget.charge(cost::DEFINITION);
            *step.held_bytes = ids.len() * ID_BYTES;
            if !step.should_continue(ids.len()) {
                break;
            }
        }
        Ok(())
    });
    list.holding(held_bytes).failing_as_a_whole()
}

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
