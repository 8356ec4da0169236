//! Mosaics: handlers, views and streams.

use std::collections::{BTreeSet, HashSet, VecDeque};

use super::namespaces::is_active;
use super::request_context::Page;
use super::routes::{BodyLimit, Route, get, post};
use super::streams::{ListStep, ListStream, list_of_each, list_stream};
use super::{ApiError, NodeContext, RequestContext, View};
use crate::budget::cost;
use crate::chain::ChainSnapshot;
use crate::codec::mosaic::{read_mosaic_id, write_mosaic_id};
use crate::codec::{Decoder, Encoder, Measure, ReadError, Readable, limits};
use crate::model::mosaic::MAX_DESCRIPTION_UNITS;
use crate::model::{Address, Height, Mosaic, MosaicDefinition, MosaicId, NamespaceId};
use crate::state::registry::{self, ListingIndex, SupplyQuery, definition_at};
use crate::state::{self, AccountId, ExpiredCursor, ExpiredMosaic, ExpiredRow};
use crate::store::StoreError;

/// Routes.
pub const ROUTES: &[Route] = &[
    get("/namespace/mosaic/definition/page", in_namespace).cached(),
    get("/mosaic/definition", |context| definition(context, is_active)).cached(),
    get("/mosaic/definition/last", |context| definition(context, |_, _| Ok(true))).cached(),
    get("/mosaic/definition/page", definitions).cached(),
    get("/mosaic/holders", holders).cached().own(),
    get("/mosaic/supply", supply).cached(),
    post("/mosaic/supply/batch", supplies).with_bodies(BodyLimit::Large).reading_store(),
    get("/local/mosaic/definition/supply", supply_at).local().reading_store(),
    get("/local/mosaics/expired", expired).local().reading_store(),
    get("/account/mosaic/definition/page", by_creator).cached(),
    get("/account/mosaic/owned", owned).cached(),
    get("/account/mosaic/owned/definition", owned_definitions).cached(),
    post("/account/mosaic/owned/definition/batch", owned_definitions_of_all)
        .with_bodies(BodyLimit::Large)
        .reading_store(),
];

const NO_LEASE: ApiError =
    ApiError::internal("the namespace of the mosaic was first rented in the block of its definition");
/// Approximate memory in bytes of the name of a mosaic.
const ID_BYTES: usize = 160;
/// Maximum number of different accounts in a batch. A larger batch is a 400 with a message that says so.
pub const MAX_BATCH_ACCOUNTS: usize = 512;

/// Supply of a mosaic in whole units.
struct MosaicSupply<'a> {
    id: &'a MosaicId,
    supply: u64,
}

impl View for MosaicSupply<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("mosaicId", |sink| write_mosaic_id(sink, self.id));
        sink.u64("supply", self.supply);
    }
}

/// A definition, its supply, and for a query about a height the height at which its namespace expires.
pub struct DefinitionAndSupply<'a> {
    /// The definition.
    pub definition: &'a MosaicDefinition,
    /// Whole units.
    pub supply: u64,
    /// Height at which the namespace expires, if it is to be shown.
    pub expiration: Option<Height>,
}

impl View for DefinitionAndSupply<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("mosaicDefinition", |sink| self.definition.write(sink));
        sink.u64("supply", self.supply);
        if let Some(Height(expiration)) = self.expiration {
            sink.u64("expirationHeight", expiration);
        }
    }
}

/// A mosaic that expired or was restored, with an [`Encoder::spliced_list`] for the balances at that time.
struct ExpiredMosaicHead<'a>(&'a ExpiredMosaic);

impl View for ExpiredMosaicHead<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("mosaicId", |sink| write_mosaic_id(sink, &self.0.id));
        sink.i32("expiredMosaicType", self.0.kind.code());
        sink.spliced_list("balances");
    }
}

/// Balance of an account in a mosaic, in smallest units.
struct MosaicBalance {
    address: Address,
    quantity: u64,
}

impl View for MosaicBalance {
    fn write(&self, sink: &mut impl Encoder) {
        sink.string("address", Some(self.address.as_str()));
        sink.u64("quantity", self.quantity);
    }
}

/// An item with the id by which it is paged.
pub struct Numbered<T> {
    /// Name of the item's property.
    pub label: &'static str,
    /// Id.
    pub id: u64,
    /// Item.
    pub item: T,
}

impl<T: View> View for Numbered<T> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object(self.label, |sink| self.item.write(sink));
        sink.object("meta", |sink| sink.u64("id", self.id));
    }
}

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

/// `GET /mosaic/definition` and `GET /mosaic/definition/last`: the newest definition of a mosaic, if its namespace is to
/// be shown.
fn definition(
    context: &mut RequestContext<'_>,
    is_shown: fn(&ChainSnapshot<'_>, &NamespaceId) -> Result<bool, StoreError>,
) -> Result<(), ApiError> {
    let (id, chain) = (context.mosaic_id()?, &context.node.chain);
    let found = if is_shown(chain, &id.namespace)? { newest_definition(chain, &id)? } else { None };
    let kind = "org.nem.core.model.mosaic.MosaicDefinition";
    let unknown = || ApiError::new(404, format!("invalid mosaic definition '{id}' ({kind})"));
    context.response.send(&found.ok_or_else(unknown)?)
}

/// `GET /mosaic/definition/page`
fn definitions(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let page = context.page()?;
    context.send_stream(definition_page(None, None, page))
}

/// `GET /namespace/mosaic/definition/page`: the page parameters are not parsed if the namespace is not active.
fn in_namespace(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let namespace = context.namespace()?;
    if !is_active(&context.node.chain, &namespace)? {
        return send_empty_list(context);
    }
    let page = context.page()?;
    context.send_stream(definition_page(None, Some(namespace), page))
}

/// `GET /account/mosaic/definition/page`
fn by_creator(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let (creator, parent) = (context.address()?, context.parent()?);
    let page = context.page()?;
    match &parent {
        Some(namespace) if !is_active(&context.node.chain, namespace)? => send_empty_list(context),
        _ => context.send_stream(definition_page(Some(creator), parent, page)),
    }
}

/// Returns the newest definition of a mosaic, which may have expired; the built-in `nem:xem` is included.
fn newest_definition(chain: &ChainSnapshot<'_>, id: &MosaicId) -> Result<Option<MosaicDefinition>, StoreError> {
    if id.is_xem() {
        return Ok(Some(MosaicDefinition::xem()));
    }
    let row = ListingIndex::DefinitionsOf(id).last(chain.snapshot)?;
    row.map(|row| Ok(registry::definition_at(chain.snapshot, row)?.1)).transpose()
}

/// Returns the supply in whole units of a mosaic that the state still has; `nem:xem` is included.
pub fn supply_of(chain: &ChainSnapshot<'_>, id: &MosaicId) -> Result<Option<u64>, StoreError> {
    Ok(state::mosaic(chain.snapshot, id)?.map(|entry| entry.supply))
}

/// Responds with an empty list.
fn send_empty_list(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.send_stream(list_stream(|_| Ok(())))
}

/// `GET /account/mosaic/owned`
fn owned(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let account = context.address()?;
    context.send_stream(mosaics_owned_by(account))
}

/// `GET /account/mosaic/owned/definition`
fn owned_definitions(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let account = context.address()?;
    send_owned_definitions(context, vec![account])
}

/// `POST /account/mosaic/owned/definition/batch`
fn owned_definitions_of_all(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let Accounts(accounts) = context.body()?;
    send_owned_definitions(context, accounts)
}

fn send_owned_definitions(context: &mut RequestContext<'_>, accounts: Vec<Address>) -> Result<(), ApiError> {
    context.send_stream(definitions_owned_by(accounts, |step, definition| {
        step.push(&definition);
        Ok(())
    }))
}

/// `GET /mosaic/holders`: a page of the holders of a mosaic in force, by account number. The next page starts after the last
/// entry's id. Every account has `nem:xem`, which has no such list.
fn holders(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let (id, page) = (context.mosaic_id()?, context.page()?);
    if id.is_xem() {
        return Err(ApiError::argument("nem:xem has no list of holders: every account has it"));
    }
    if !is_active(&context.node.chain, &id.namespace)? || supply_of(&context.node.chain, &id)?.is_none() {
        return Err(ApiError::no_mosaic(&id));
    }
    let mut after = (!page.is_first()).then(|| AccountId(u32::try_from(page.before).unwrap_or(u32::MAX)));
    let mut left = page.size;
    let held_bytes = id.to_string().len();
    context.send_stream(list_stream(move |step| {
        *step.held_bytes = held_bytes;
        let chain = step.node.chain;
        Ok(state::for_each_holder_after(chain.snapshot, &id, after, |account, quantity| {
            after = Some(account);
            step.node.budget.charge(cost::BALANCE);
            if quantity > 0 {
                let item = MosaicBalance { address: account.address(chain.snapshot)?, quantity };
                step.push(&Numbered { label: "holder", id: account.0.into(), item });
                left -= 1;
            }
            Ok(step.should_continue(left))
        })?)
    }))
}

/// `GET /mosaic/supply`
fn supply(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let id = context.mosaic_id()?;
    let supply = supply_of(&context.node.chain, &id)?.ok_or_else(|| ApiError::no_mosaic(&id))?;
    context.response.send(&MosaicSupply { id: &id, supply })
}

/// `POST /mosaic/supply/batch`, which never worked in NIS1: the supplies in the order of the mosaics. Fails if one of them
/// does not exist.
fn supplies(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let MosaicIds(ids) = context.body()?;
    let list = list_of_each(ids, ID_BYTES, |step, id| {
        let supply = supply_of(&step.node.chain, &id)?.ok_or_else(|| ApiError::no_mosaic(&id))?;
        step.push(&MosaicSupply { id: &id, supply });
        step.node.budget.charge(cost::DEFINITION);
        Ok(())
    });
    context.send_stream(list.failing_as_a_whole())
}

/// `GET /local/mosaic/definition/supply`: a list with the definition of a mosaic that was in force at a height, its supply
/// then and its expiration height; an empty list if there was none.
fn supply_at(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let (id, height) = (context.mosaic_id()?, context.height()?);
    let mut cursor = SupplyQuery::new(context.node.chain.snapshot, &id, height)?;
    let list = list_stream(move |step| {
        let Some(cursor) = &mut cursor else { return Ok(()) };
        *step.held_bytes = 2 * ID_BYTES + MAX_DESCRIPTION_UNITS * 3;
        let (chain, budget) = (step.node.chain, &mut step.node.budget);
        let found = cursor.resume(chain.snapshot, || {
            budget.charge(cost::SKIP);
            !budget.is_exhausted()
        })?;
        let Some(supply) = found else {
            step.is_interrupted = true;
            return Ok(());
        };
        let expiration = supply.expiration.ok_or(NO_LEASE)?;
        // Units deleted under one definition may have been created under another that does not count.
        let units = u64::try_from(supply.units).map_err(|_| ReadError::Negative(Measure::Quantity, supply.units))?;
        let definition = &supply.definition;
        step.push(&DefinitionAndSupply { definition, supply: units, expiration: Some(expiration) });
        Ok(())
    });
    context.send_stream(list.failing_as_a_whole())
}

/// `GET /local/mosaics/expired`: the mosaics that expired or were restored at a height, each with all balances at that
/// time.
fn expired(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    if !context.settings.features.track_expired_mosaics {
        return Err(ApiError::internal("this node does not support tracking expired mosaics"));
    }
    let height = context.height()?;
    let mut cursor = ExpiredCursor::new(height);
    // The mosaic being written, and the last account written.
    let mut current: Option<(ExpiredMosaic, Option<AccountId>)> = None;
    context.send_stream(list_stream(move |step| {
        loop {
            if let Some((mosaic, after)) = &mut current {
                if !step.element(|step| write_balances(mosaic, after, step))? {
                    return Ok(());
                }
                current = None;
            }
            step.node.budget.charge(cost::MOSAIC);
            match cursor.step(step.node.chain.snapshot)? {
                ExpiredRow::Mosaic(mosaic) => current = Some((mosaic, None)),
                ExpiredRow::Absent => {}
                ExpiredRow::End => return Ok(()),
            }
            if step.must_pause() {
                return Ok(());
            }
        }
    }))
}

/// A page of the newest definitions of mosaics, newest first: of all active ones; of a creator's active ones; or of all in
/// exactly one namespace, whether of all creators or of one. The definitions of a creator have no ids. A namespace has few
/// creators: its owners so far.
fn definition_page(creator: Option<Address>, namespace: Option<NamespaceId>, page: Page) -> ListStream {
    let (mut before, mut left) = (page.before, page.size);
    list_stream(move |step| {
        let list = match (&creator, &namespace) {
            (_, Some(namespace)) => ListingIndex::DefinitionsIn(namespace.as_str()),
            (Some(creator), None) => ListingIndex::DefinitionsBy(creator),
            (None, None) => ListingIndex::Definitions,
        };
        let chain = step.node.chain;
        for id in list.before(chain.snapshot, before)? {
            before = id?;
            step.node.budget.charge(cost::DEFINITION);
            let (_, item) = definition_at(chain.snapshot, before)?;
            let is_of = |creator| Address::from_public_key(&item.creator, chain.network.byte) == creator;
            if creator.is_none_or(|creator| namespace.is_none() || is_of(creator)) {
                left -= 1;
                match creator {
                    None => step.push(&Numbered { label: "mosaic", id: before, item }),
                    Some(_) => step.push(&item),
                }
            }
            if !step.should_continue(left) {
                break;
            }
        }
        Ok(())
    })
}

/// Writes a mosaic with the balances after an account.
fn write_balances(
    mosaic: &ExpiredMosaic,
    after: &mut Option<AccountId>,
    step: &mut ListStep<'_, '_, '_>,
) -> Result<(), ApiError> {
    step.open(&ExpiredMosaicHead(mosaic));
    let chain = step.node.chain;
    Ok(mosaic.for_each_balance(chain.snapshot, *after, |account, quantity| {
        *after = Some(account);
        step.node.budget.charge(cost::BALANCE);
        if quantity > 0 {
            step.push(&MosaicBalance { address: account.address(chain.snapshot)?, quantity });
        }
        Ok(!step.must_pause())
    })?)
}

/// Creates the list of the mosaics that an account holds: `nem:xem` first, then the others, ordered by name.
pub fn mosaics_owned_by(account: Address) -> ListStream {
    let (mut has_started, mut after) = (false, None::<MosaicId>);
    list_stream(move |step| {
        let snapshot = step.node.chain.snapshot;
        if !has_started {
            has_started = true;
            step.node.budget.charge(cost::MOSAIC);
            let quantity = state::account(snapshot, &account)?.balance.total();
            step.push(&Mosaic { id: MosaicId::xem(), quantity });
            if step.must_pause() {
                return Ok(());
            }
        }
        let last = after.take();
        Ok(state::for_each_holding_after(snapshot, &account, last.as_ref(), |id, is_invested| {
            after = Some(id.clone());
            step.node.budget.charge(cost::SKIP);
            if is_invested {
                step.node.budget.charge(cost::MOSAIC);
                if let Some(mosaic) = state::owned_mosaic(snapshot, &account, id)? {
                    step.push(&mosaic);
                }
            }
            Ok(!step.must_pause())
        })?)
    })
}

/// Creates the list of the definitions of all mosaics that accounts hold, of the mosaics of their levies, and of `nem:xem`,
/// each once, ordered by name. All names are collected before the definitions are read; `write` writes each of these.
pub fn definitions_owned_by(
    accounts: Vec<Address>,
    write: impl Fn(&mut ListStep<'_, '_, '_>, MosaicDefinition) -> Result<(), ApiError> + 'static,
) -> ListStream {
    let (mut accounts, mut after) = (VecDeque::from(accounts), None::<MosaicId>);
    let mut found = BTreeSet::new();
    list_stream(move |step| {
        let snapshot = step.node.chain.snapshot;
        while let Some(account) = accounts.front() {
            step.node.budget.charge(cost::SKIP);
            found.insert(MosaicId::xem());
            let last = after.take();
            state::for_each_holding_after(snapshot, account, last.as_ref(), |id, is_invested| {
                after = Some(id.clone());
                step.node.budget.charge(cost::SKIP);
                if is_invested {
                    add_with_levy(&mut found, id, step.node)?;
                }
                Ok(!step.must_pause())
            })?;
            if !step.is_interrupted {
                (_, after) = (accounts.pop_front(), None);
            }
            *step.held_bytes = accounts.len() * size_of::<Address>() + found.len() * ID_BYTES;
            if step.must_pause() {
                return Ok(());
            }
        }
        while let Some(id) = found.pop_first() {
            step.node.budget.charge(cost::DEFINITION);
            if let Some(definition) = state::mosaic_definition(snapshot, &id)? {
                write(step, definition)?;
            }
            *step.held_bytes = found.len() * ID_BYTES;
            if !step.should_continue(found.len()) {
                break;
            }
        }
        Ok(())
    })
}

/// Adds a mosaic and the mosaic of its levy. The levy of a mosaic added before, for whatever reason, is ignored.
fn add_with_levy(found: &mut BTreeSet<MosaicId>, id: MosaicId, node: &mut NodeContext<'_>) -> Result<(), StoreError> {
    node.budget.charge(cost::SKIP);
    if found.contains(&id) {
        return Ok(());
    }
    node.budget.charge(cost::DEFINITION);
    let Some(definition) = state::mosaic_definition(node.chain.snapshot, &id)? else { return Ok(()) };
    if let Some(levy) = definition.levy {
        found.insert(levy.mosaic);
    }
    found.insert(id);
    Ok(())
}
