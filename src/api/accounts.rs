//! Accounts, their transactions and their history: handlers, views and streams. An account may be cosignatory of any number
//! of multisig accounts, which need not consent.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::harvesting::read_key;
use super::request_context::{Page, parse_page, positive_height};
use super::routes::{BodyLimit, Route, get, post};
use super::streams::{DataListHead, ListSize, ListStep, ListStream, MAX_LIST_ELEMENTS, list_stream};
use super::transactions::{DAMAGED, TransactionPair};
use super::{ApiError, NodeContext, RequestContext, View};
use crate::budget::{Budget, cost};
use crate::chain::ChainSnapshot;
use crate::codec::wipe::Wiped;
use crate::codec::{Decoder, Encoder, ReadError, Readable, limits};
use crate::crypto::cipher::decrypt;
use crate::crypto::keys::decode_hex;
use crate::crypto::{KeyPair, PrivateKey, PublicKey};
use crate::model::transaction::{Message, MessageKind, wire_version};
use crate::model::{Address, Amount, Body, Height, Transaction};
use crate::state::{
    self, Account, AccountHistory, AccountId, AccountImportance, AccountTotals, AccountTxCursor, Direction,
    HistoryEntry, LinkPhase, LinkRole, RemoteStatus, TxLocation,
};
use crate::store::{StoreError, StoredHeader};

/// Routes.
pub const ROUTES: &[Route] = &[
    get("/account/get", by_address).cached_with_account_status(),
    get("/account/get/from-public-key", by_public_key).cached_with_account_status(),
    get("/account/get/forwarded", forwarded).cached_with_account_status(),
    get("/account/get/forwarded/from-public-key", forwarded_by_public_key).cached_with_account_status(),
    post("/account/get/batch", batch).with_bodies(BodyLimit::Large).reading_store(),
    get("/account/status", status).cached_with_account_status(),
    get("/account/harvests", harvests).cached(),
    get("/account/importances", importances).reading_store(),
    get("/account/transfers/incoming", |context| of_address(context, INCOMING)).cached(),
    get("/account/transfers/outgoing", |context| of_address(context, OUTGOING)).cached(),
    get("/account/transfers/all", |context| of_address(context, ALL_TRANSFERS)).cached(),
    post("/local/account/transfers/incoming", |context| of_key(context, INCOMING)).local(),
    post("/local/account/transfers/outgoing", |context| of_key(context, OUTGOING)).local(),
    post("/local/account/transfers/all", |context| of_key(context, ALL_TRANSFERS)).local(),
    get("/account/historical/get", history).cached(),
    post("/account/historical/get/batch", histories).with_bodies(BodyLimit::Large).reading_store(),
];

/// Accounts were removed by a reorg while they were listed.
pub(super) const CHANGED: ApiError = ApiError::unavailable("the accounts have changed while they were listed");

/// An account.
pub struct AccountInfo {
    /// Address.
    pub address: Address,
    /// Public key, if the chain has it.
    pub public_key: Option<PublicKey>,
    /// Confirmed balance.
    pub balance: Amount,
    /// Vested part of the balance at the tip.
    pub vested_balance: Amount,
    /// Number of blocks harvested.
    pub harvested_blocks: u64,
    /// Last importance, 0 if there is none.
    pub importance: f64,
    /// Set if it has cosignatories.
    pub multisig: Option<MultisigInfo>,
}

/// Multisig parameters of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultisigInfo {
    /// Number of cosignatories.
    pub cosignatories: u32,
    /// Signatures needed, as stored: 0 means all. NIS1 shows this value too, not the effective number.
    pub min_cosignatories: u32,
}

impl AccountInfo {
    /// Returns the account of an address; an empty one for an address that the chain has not seen.
    fn at(chain: &ChainSnapshot<'_>, address: &Address) -> Result<AccountInfo, StoreError> {
        let cosignatories = state::cosignatories(chain.snapshot, address)?.len();
        let (id, account) = state::account_with_id(chain.snapshot, address)?;
        AccountInfo::of(chain, address, id, &account, cosignatories)
    }

    /// Builds the view of a stored account with this number of cosignatories.
    fn of(
        chain: &ChainSnapshot<'_>,
        address: &Address,
        id: Option<AccountId>,
        account: &Account,
        cosignatories: usize,
    ) -> Result<AccountInfo, StoreError> {
        let balance = account.balance.at(chain.height, &chain.network.chain);
        let importance = id.map_or(Ok(None), |id| state::importance_at(chain.snapshot, id))?;
        Ok(AccountInfo {
            address: *address,
            public_key: id.filter(|_| account.has_key).map_or(Ok(None), |id| id.public_key(chain.snapshot))?,
            balance: Amount(balance.total()),
            vested_balance: Amount(balance.vested),
            harvested_blocks: account.harvested_blocks,
            importance: importance.map_or(0.0, |last| last.importance),
            multisig: (cosignatories > 0).then_some(MultisigInfo {
                cosignatories: cosignatories as u32,
                min_cosignatories: account.min_cosignatories,
            }),
        })
    }
}

impl View for AccountInfo {
    fn write(&self, sink: &mut impl Encoder) {
        sink.string("address", Some(self.address.as_str()));
        sink.bytes("publicKey", self.public_key.as_ref().map(|key| key.0.as_slice()));
        sink.u64("balance", self.balance.0);
        sink.u64("vestedBalance", self.vested_balance.0);
        sink.u64("harvestedBlocks", self.harvested_blocks);
        sink.string("label", None);
        sink.f64("importance", self.importance);
        sink.optional("multisigInfo", self.multisig, |sink, multisig| {
            sink.i32("cosignatoriesCount", multisig.cosignatories as i32);
            sink.i32("minCosignatories", multisig.min_cosignatories as i32);
        });
    }
}

/// Metadata of an account, with an [`Encoder::spliced_list`] for the multisig accounts that it cosigns.
pub struct AccountMeta {
    /// Whether it harvests on this node.
    pub unlocked: bool,
    /// State of remote harvesting.
    pub remote_status: RemoteStatus,
    /// Its cosignatories.
    pub cosignatories: Vec<AccountInfo>,
}

impl View for AccountMeta {
    fn write(&self, sink: &mut impl Encoder) {
        sink.string("status", Some(if self.unlocked { "UNLOCKED" } else { "LOCKED" }));
        sink.string(
            "remoteStatus",
            Some(match self.remote_status {
                RemoteStatus::NotSet | RemoteStatus::Owner(LinkPhase::Inactive) => "INACTIVE",
                RemoteStatus::Owner(LinkPhase::Activating) => "ACTIVATING",
                RemoteStatus::Owner(LinkPhase::Active) => "ACTIVE",
                RemoteStatus::Owner(LinkPhase::Deactivating) => "DEACTIVATING",
                RemoteStatus::Remote(_) => "REMOTE",
            }),
        );
        sink.spliced_list("cosignatoryOf");
        sink.list("cosignatories", &self.cosignatories, |sink, account| account.write(sink));
    }
}

/// An account with its metadata.
pub struct AccountPair<'a> {
    /// The account.
    pub account: &'a AccountInfo,
    /// The metadata.
    pub meta: &'a AccountMeta,
}

impl View for AccountPair<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("account", |sink| self.account.write(sink));
        sink.object("meta", |sink| self.meta.write(sink));
    }
}

/// A block harvested by or for an account.
struct HarvestInfo<'a>(&'a StoredHeader);

impl View for HarvestInfo<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        let block = self.0;
        sink.u64("id", block.height.0);
        sink.u64("height", block.height.0);
        sink.i32("timeStamp", block.timestamp.0);
        sink.u64("totalFee", block.total_fee.0);
        sink.u64("difficulty", block.difficulty);
    }
}

/// An account and its importance of the last recalculation that included it.
struct ImportanceEntry {
    address: Address,
    importance: Option<AccountImportance>,
}

impl View for ImportanceEntry {
    fn write(&self, sink: &mut impl Encoder) {
        sink.string("address", Some(self.address.as_str()));
        sink.object("importance", |sink| {
            sink.i32("isSet", self.importance.is_some().into());
            if let Some(importance) = &self.importance {
                sink.f64("score", importance.importance);
                sink.f64("ev", importance.page_rank);
                sink.u64("height", importance.height.0);
            }
        });
    }
}

/// `{"data": [{"account": address}]}`, in this order; the addresses are not validated yet.
struct Batch(Vec<String>);

impl Readable for Batch {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        read_names(source, "data").map(Batch)
    }
}

fn read_names<'a, S: Decoder<'a>>(source: &mut S, label: &'static str) -> Result<Vec<String>, ReadError> {
    source.need_list(label, |source| Ok(source.need_string("account", limits::MAX_TEXT_UTF16)?.into_owned()))
}

/// `GET /account/get`
fn by_address(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let address = context.address()?;
    send_account(context, address, None)
}

/// Responds with an account, which is shown with a public key, if given, whether or not the chain has it.
fn send_account(context: &mut RequestContext<'_>, address: Address, key: Option<PublicKey>) -> Result<(), ApiError> {
    let mut account = AccountBody::new(&mut context.node, address)?;
    if let Some((account, _)) = account.head.as_deref_mut().filter(|_| key.is_some()) {
        account.public_key = key;
    }
    context.send_stream(account.into_stream())
}

/// `GET /account/get/from-public-key`: the response shows the given key, whether or not the chain has it.
fn by_public_key(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let key = context.public_key()?;
    let address = context.address_of(&key);
    send_account(context, address, Some(key))
}

/// `GET /account/get/forwarded`: a remote account is replaced by its owner.
fn forwarded(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let address = context.address()?;
    let shown = owner_of(context, address)?;
    send_account(context, shown, None)
}

/// `GET /account/get/forwarded/from-public-key`: the response shows the given key only if the account is unknown.
fn forwarded_by_public_key(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let key = context.public_key()?;
    let address = context.address_of(&key);
    let shown = owner_of(context, address)?;
    let is_known = state::account(context.node.chain.snapshot, &address)?.is_known();
    send_account(context, shown, Some(key).filter(|_| !is_known))
}

/// Returns the owner of a remote account, also of one that is not yet active; the address itself if it is not remote.
fn owner_of(context: &mut RequestContext<'_>, address: Address) -> Result<Address, ApiError> {
    context.node.budget.charge(cost::ACCOUNT);
    let account = state::account(context.node.chain.snapshot, &address)?;
    let link = account.links.last().filter(|link| link.role == LinkRole::Remote);
    Ok(link.map_or(address, |link| link.linked_address))
}

/// `GET /account/status`
fn status(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let address = context.address()?;
    let account = AccountBody::new(&mut context.node, address)?;
    context.send_stream(AccountBody { is_meta_only: true, ..account }.into_stream())
}

/// `POST /account/get/batch`
fn batch(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let Batch(names) = context.body()?;
    context.send_stream(batch_list(names, check_name, AccountBody::new, AccountBody::write))
}

/// The stream of a list with an element for each of some accounts. All addresses are checked before the first element is
/// opened, so that the response fails as a whole if one cannot be shown.
fn batch_list<T: 'static>(
    names: Vec<String>,
    check: impl Fn(&str, &mut NodeContext<'_>) -> Result<Address, ApiError> + 'static,
    open: impl Fn(&mut NodeContext<'_>, Address) -> Result<T, ApiError> + 'static,
    write: impl Fn(&mut T, &mut ListStep<'_, '_, '_>) -> Result<(), ApiError> + 'static,
) -> ListStream {
    let bytes_of = |name: &String| name.capacity() + size_of::<String>();
    let mut text_bytes = names.iter().map(bytes_of).sum::<usize>();
    let mut names = names.into_iter();
    let (mut checked, mut current) = (VecDeque::new(), None);
    list_stream(move |step| {
        while let Some(name) = names.next() {
            text_bytes -= bytes_of(&name);
            checked.push_back(check(&name, step.node)?);
            *step.held_bytes = text_bytes + checked.len() * size_of::<Address>();
            if step.node.budget.is_exhausted() && names.len() > 0 {
                step.is_interrupted = true;
                return Ok(());
            }
        }
        while let Some(address) = checked.front() {
            let element = match &mut current {
                Some(element) => element,
                None => current.insert(open(step.node, *address)?),
            };
            if !step.element(|step| write(element, step))? {
                break;
            }
            current = None;
            checked.pop_front();
            *step.held_bytes = checked.len() * size_of::<Address>();
            if !checked.is_empty() && step.must_pause() {
                break;
            }
        }
        Ok(())
    })
}

/// Parses an address.
fn parse_name(name: &str, node: &mut NodeContext<'_>) -> Result<Address, ApiError> {
    node.budget.charge(cost::ADDRESS);
    Address::parse(name, node.chain.network.byte).ok_or(ApiError::BAD_ADDRESS)
}

/// Parses an address, and checks that the status of its account can be shown.
fn check_name(name: &str, node: &mut NodeContext<'_>) -> Result<Address, ApiError> {
    let address = parse_name(name, node)?;
    if node.mempool.has_importance_transfer(&address) {
        node.budget.charge(cost::ACCOUNT);
        shown_status(node, &address, &state::account(node.chain.snapshot, &address)?)?;
    }
    Ok(address)
}

/// `GET /account/harvests`: blocks that the account or its remote account harvested, newest first. The id of a block is
/// its height, and `id` must be that of an existing block.
fn harvests(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let (address, page) = (context.address()?, context.page()?);
    let (mut before, mut left) = (Height(page.before), page.size);
    if !page.is_first() && !context.node.chain.has_block(before) {
        return Err(ApiError::internal("there is no block with this id"));
    }
    context.send_stream(list_stream(move |step| {
        let snapshot = step.node.chain.snapshot;
        state::for_each_harvest_before(snapshot, &address, before, |block| {
            (before, left) = (block.height, left - 1);
            step.push(&HarvestInfo(&block));
            step.node.budget.charge(cost::HEADER);
            Ok(step.should_continue(left))
        })?;
        Ok(())
    }))
}

/// `GET /account/importances`: all accounts that exist when it starts. The list is written once for all clients, and sent
/// when it is whole; one that is too long to be kept is streamed to each. The count comes first, so that it can be streamed
/// in both formats; it fails if the chain loses some of the accounts meanwhile.
fn importances(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let count = AccountTotals::of(context.node.chain.snapshot)?.allocated as usize;
    let (mut after, mut left) = (None, count);
    let list = list_stream(move |step| {
        // No enclosing length includes the list: it is the whole response.
        step.open_sized(&DataListHead, ListSize { count, bytes: 0 });
        if left == 0 {
            return Ok(());
        }
        state::for_each_account_after(step.node.chain.snapshot, after, |number, address, importance| {
            (after, left) = (Some(number), left - 1);
            step.push(&ImportanceEntry { address, importance });
            step.node.budget.charge(cost::IMPORTANCE);
            Ok(step.should_continue(left))
        })?;
        if left > 0 && !step.is_interrupted { Err(CHANGED) } else { Ok(()) }
    });
    match context.response.accept.format {
        Some(format) if count <= MAX_LIST_ELEMENTS => {
            let kept = context.kept_lists.stream(format, || Box::new(list));
            context.send_stream(kept)
        }
        _ => context.send_stream(list),
    }
}

/// An account with its metadata ([`AccountPair`]), as chain, mempool and harvester together give it.
pub struct AccountBody {
    address: Address,
    /// Everything except the accounts that it cosigns, until it is written.
    head: Option<Box<(AccountInfo, AccountMeta)>>,
    /// Only the metadata is written.
    is_meta_only: bool,
    /// The last cosigned account that was written.
    after: Option<Address>,
}

impl AccountBody {
    /// Reads the account of an address. An unconfirmed importance transfer is shown as if confirmed; fails where the
    /// chain does not allow it.
    pub fn new(node: &mut NodeContext<'_>, address: Address) -> Result<AccountBody, ApiError> {
        let chain = node.chain;
        let (id, stored) = state::account_with_id(chain.snapshot, &address)?;
        let cosignatories = state::cosignatories(chain.snapshot, &address)?;
        node.budget.charge(cost::ACCOUNT * (1 + cosignatories.len() as u32));
        let account = AccountInfo::of(&chain, &address, id, &stored, cosignatories.len())?;
        let meta = AccountMeta {
            unlocked: node.unlocked.contains(&address),
            remote_status: shown_status(node, &address, &stored)?,
            cosignatories: cosignatories.iter().map(|one| AccountInfo::at(&chain, one)).collect::<Result<_, _>>()?,
        };
        Ok(AccountBody { address, head: Some(Box::new((account, meta))), is_meta_only: false, after: None })
    }

    /// Returns the stream of the account.
    pub fn into_stream(mut self) -> ListStream {
        list_stream(move |step| self.write(step))
    }

    fn write(&mut self, step: &mut ListStep<'_, '_, '_>) -> Result<(), ApiError> {
        if let Some((account, meta)) = self.head.take().as_deref() {
            if self.is_meta_only {
                step.open(meta);
            } else {
                step.open(&AccountPair { account, meta });
            }
        }
        let chain = step.node.chain;
        for address in state::cosignatory_of_after(chain.snapshot, &self.address, self.after.as_ref())? {
            let address = address?;
            step.push(&AccountInfo::at(&chain, &address)?);
            self.after = Some(address);
            step.node.budget.charge(cost::ACCOUNT);
            if step.must_pause() {
                break;
            }
        }
        Ok(())
    }
}

/// Returns the remote harvesting status of an account, as if an unconfirmed importance transfer were confirmed.
fn shown_status(node: &NodeContext<'_>, address: &Address, account: &Account) -> Result<RemoteStatus, ApiError> {
    let status = account.remote_status(node.chain.height, node.chain.network.chain.rewrite_limit);
    match (node.mempool.has_importance_transfer(address), status) {
        (false, status) => Ok(status),
        (true, RemoteStatus::NotSet | RemoteStatus::Owner(LinkPhase::Inactive)) => {
            Ok(RemoteStatus::Owner(LinkPhase::Activating))
        }
        (true, RemoteStatus::Owner(LinkPhase::Active)) => Ok(RemoteStatus::Owner(LinkPhase::Deactivating)),
        (true, _) => Err(ApiError::internal("unexpected remote state for account with pending importance transfer")),
    }
}

/// The transactions that an account received.
const INCOMING: &[Direction] = &[Direction::Incoming];
/// Those that it sent, or that a multisig account sent of which it was a cosignatory.
const OUTGOING: &[Direction] = &[Direction::Outgoing];
/// All transactions of an account, each once.
pub const ALL_TRANSFERS: &[Direction] = &[Direction::Incoming, Direction::Outgoing];

fn of_address(context: &mut RequestContext<'_>, directions: &'static [Direction]) -> Result<(), ApiError> {
    let (account, hash) = (context.address()?, context.optional_hash()?);
    let page = context.page()?;
    let page = page_of(context, &account, hash, page)?;
    context.send_stream(transfer_page(account, directions, page, None))
}

fn of_key(context: &mut RequestContext<'_>, directions: &'static [Direction]) -> Result<(), ApiError> {
    let query: KeyQuery = context.body()?;
    let hash = query.hash.as_deref().map(|text| decode_hex(text)).transpose()?;
    let page = parse_page(query.id.as_deref().map(String::as_str), query.size.as_deref().map(String::as_str))?;
    let key = Box::new(KeyPair::new(&query.key));
    context.node.budget.charge(cost::KEY);
    let account = context.address_of(&key.public());
    let page = page_of(context, &account, hash, page)?;
    context.send_stream(transfer_page(account, directions, page, Some(key)))
}

/// Returns the page that begins after the transaction with a hash, unless the page has an id.
fn page_of(
    context: &RequestContext<'_>,
    account: &Address,
    hash: Option<Vec<u8>>,
    page: Page,
) -> Result<Page, ApiError> {
    let Some(hash) = hash.filter(|_| page.is_first()) else { return Ok(page) };
    if !context.settings.features.transaction_hash_lookup {
        return Err(ApiError::internal("this node does not support transaction hash lookup"));
    }
    let Some((hash, entry)) = context.find_hash(&hash)? else {
        return Err(ApiError::argument("Neither transaction id was supplied nor hash was found in cache"));
    };
    if AccountId::of(context.node.chain.snapshot, account)?.is_none() {
        return Ok(page);
    }
    if entry.is_nested {
        return Err(ApiError::no_transaction(&hash));
    }
    let before =
        state::transaction_id(context.node.chain.snapshot, TxLocation { height: entry.height, index: entry.index })?;
    Ok(Page { before: before.ok_or_else(|| ApiError::no_transaction(&hash))?, ..page })
}

/// `{"value": private key, "hash": hex, "id": digits, "pageSize": digits}`. All but the key are texts that may be
/// absent or empty. They are erased too, as a client may put a key in the wrong field.
struct KeyQuery {
    key: PrivateKey,
    hash: Option<Wiped<String>>,
    id: Option<Wiped<String>>,
    size: Option<Wiped<String>>,
}

impl Readable for KeyQuery {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let key = read_key(source, "value")?;
        Ok(KeyQuery {
            key,
            hash: read_text(source, "hash")?,
            id: read_text(source, "id")?,
            size: read_text(source, "pageSize")?,
        })
    }
}

fn read_text<'a, S: Decoder<'a>>(source: &mut S, label: &'static str) -> Result<Option<Wiped<String>>, ReadError> {
    let text = source.string(label, limits::MAX_TEXT_UTF16)?.map(Cow::into_owned).map(Wiped);
    Ok(text.filter(|text| !text.is_empty()))
}

/// A page of the transactions of an account with their locations in the chain, highest ids first. A key decrypts the
/// messages that it can read.
///
/// Each step starts anew after the last transaction written, so it shows the chain as of that step, also after a reorg.
pub fn transfer_page(
    account: Address,
    directions: &'static [Direction],
    page: Page,
    key: Option<Box<KeyPair>>,
) -> ListStream {
    let (mut before, mut left) = (page.before, page.size);
    let held_bytes = key.as_ref().map_or(0, |_| size_of::<KeyPair>());
    let list = list_stream(move |step| {
        let chain = step.node.chain;
        let lists = directions.iter();
        let lists = lists.map(|direction| AccountTxCursor::new(chain.snapshot, &account, *direction, before));
        let mut lists = lists.collect::<Result<Vec<_>, _>>()?;
        step.node.budget.charge(cost::TX_LIST * lists.len() as u32);
        while left > 0 {
            let Some((id, place)) = next_transfer(&mut lists, &chain)? else { break };
            let raw = chain.transaction(place)?.ok_or(DAMAGED)?;
            let transaction = raw.read()?;
            let hash = raw.hash(&transaction);
            let transaction = match &key {
                Some(key) => decrypted(transaction, key, &account, &chain, &mut step.node.budget)?,
                None => transaction,
            };
            step.push(&TransactionPair::new(&transaction, place.height, id, hash));
            (before, left) = (id, left - 1);
            step.node.budget.charge(cost::TRANSACTION + cost::SKIP + cost::bytes(2 * raw.bytes.len()));
            if !step.should_continue(left) {
                break;
            }
        }
        Ok(())
    });
    list.holding(held_bytes)
}

/// Returns the highest id in lists of transactions, and its location. A transaction in several lists is returned once.
fn next_transfer(
    lists: &mut [AccountTxCursor],
    chain: &ChainSnapshot<'_>,
) -> Result<Option<(u64, TxLocation)>, StoreError> {
    let next = lists.iter().filter_map(AccountTxCursor::peek).max();
    for list in lists {
        if list.peek() == next {
            list.advance(chain.snapshot)?;
        }
    }
    Ok(next)
}

/// Decrypts the message of a transfer, if the account's key can read it.
fn decrypted(
    mut transaction: Transaction,
    key: &KeyPair,
    account: &Address,
    chain: &ChainSnapshot<'_>,
    budget: &mut Budget,
) -> Result<Transaction, StoreError> {
    let network = chain.network.byte;
    let is_sender = transaction.signer_address(network) == *account;
    let Body::Transfer(body) = &mut transaction.body else { return Ok(transaction) };
    let Some(message) = body.message.as_mut().filter(|message| message.kind == MessageKind::Secure) else {
        return Ok(transaction);
    };
    let other = if is_sender { state::public_key(chain.snapshot, &body.recipient)? } else { Some(transaction.signer) };
    let Some(other) = other else { return Ok(transaction) };
    budget.charge(cost::SHARED_KEY);
    if let Ok(Some(payload)) = decrypt(key, &other, &message.payload) {
        *message = Message { kind: MessageKind::Plain, payload };
        // NIS1 builds a new transaction from it, which has the newer version.
        transaction.version = wire_version(network, 2);
    }
    Ok(transaction)
}

/// Maximum number of heights of a request, for all accounts together.
const MAX_POINTS: u64 = 10_000;
const NO_HISTORY: ApiError = ApiError::internal("this node does not support historical account data retrieval");
const NOT_KEPT: ApiError = ApiError::argument("this node has no historical account data of the last block");

/// State of an account at a height.
struct HistoryPoint {
    height: Height,
    address: Address,
    entry: HistoryEntry,
}

impl View for HistoryPoint {
    fn write(&self, sink: &mut impl Encoder) {
        let HistoryEntry { balance, importance, page_rank } = self.entry;
        sink.u64("height", self.height.0);
        sink.string("address", Some(self.address.as_str()));
        sink.u64("balance", balance.total());
        sink.u64("vestedBalance", balance.vested);
        sink.u64("unvestedBalance", balance.unvested);
        sink.f64("importance", importance);
        sink.f64("pageRank", page_rank);
    }
}

/// The requested heights: `start`, `start + step`, … up to `end`, inclusive. The step is not 0.
#[derive(Clone, Copy)]
struct HistoryPoints {
    start: Height,
    end: Height,
    step: u64,
}

impl HistoryPoints {
    fn new(start: i64, end: i64, increment: i64) -> Result<HistoryPoints, ApiError> {
        let (start, end) = (positive_height(start)?, positive_height(end)?);
        if end < start {
            return Err(ApiError::argument("start and end height are out of valid range"));
        }
        let step = u64::try_from(increment).ok().filter(|step| *step > 0);
        let step = step.ok_or(ApiError::argument("increment must be a positive integer"))?;
        if (end.0 - start.0) / step > MAX_POINTS {
            return Err(ApiError::argument("only up to 10000 data points are supported"));
        }
        Ok(HistoryPoints { start, end, step })
    }

    /// Writes the state of an account at these heights. The next step continues with the new `start`.
    fn write(&mut self, address: &Address, step: &mut ListStep<'_, '_, '_>) -> Result<(), ApiError> {
        let chain = step.node.chain;
        // Recreated in each step, as a reorg may have happened meanwhile.
        let mut history = AccountHistory::new(chain.snapshot, address)?.ok_or(NOT_KEPT)?;
        step.node.budget.charge(cost::HISTORY);
        while self.start <= self.end.min(chain.height) {
            let known = history.range;
            let entry = history.at(chain.snapshot, self.start, &chain.network.chain)?.ok_or_else(|| {
                ApiError::new(400, format!("the historical account data of this node begins at height {}", known.from))
            })?;
            step.push(&HistoryPoint { height: self.start, address: *address, entry });
            self.start = self.start.plus(self.step);
            step.node.budget.charge(cost::HISTORY);
            if step.must_pause() {
                break;
            }
        }
        Ok(())
    }
}

/// Accounts, and the start, the end and the increment of the requested heights.
struct HistoryBatch(Vec<String>, [i64; 3]);

impl Readable for HistoryBatch {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let accounts = read_names(source, "accounts")?;
        let mut number = |label| source.need_i64(label);
        Ok(HistoryBatch(accounts, [number("startHeight")?, number("endHeight")?, number("incrementBy")?]))
    }
}

/// `GET /account/historical/get`
fn history(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    require_history(context)?;
    let address = context.address()?;
    let [start, end, increment] = ["startHeight", "endHeight", "increment"].map(|name| context.number(name));
    let mut points = HistoryPoints::new(start?, end?, increment?)?;
    context.send_stream(list_stream(move |step| points.write(&address, step)))
}

/// `POST /account/historical/get/batch`: a list for each account. All addresses are checked before the first is written.
fn histories(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    require_history(context)?;
    let HistoryBatch(accounts, [start, end, increment]) = context.body()?;
    let points = HistoryPoints::new(start, end, increment)?;
    let count = (points.end.0 - points.start.0) / points.step;
    if count.saturating_mul(accounts.len() as u64) > MAX_POINTS {
        return Err(ApiError::argument("only up to 10000 data points are supported for batch operations"));
    }
    let open = move |_: &mut NodeContext<'_>, address| Ok((address, points));
    let write =
        |(address, left): &mut (Address, HistoryPoints), step: &mut ListStep<'_, '_, '_>| left.write(address, step);
    context.send_stream(batch_list(accounts, parse_name, open, write))
}

fn require_history(context: &RequestContext<'_>) -> Result<(), ApiError> {
    if context.settings.features.historical_account_data { Ok(()) } else { Err(NO_HISTORY) }
}

#[cfg(test)]
mod tests;
