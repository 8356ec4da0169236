//! Accounts: handlers, views and streams. An account may be cosignatory of any number of multisig accounts, which need
//! not consent.

use std::collections::VecDeque;

use super::routes::{BodyLimit, Route, get, post};
use super::streams::{DataListHead, ListStep, ListStream, MAX_LIST_ELEMENTS, list_stream};
use super::{ApiError, NodeContext, RequestContext, View};
use crate::budget::cost;
use crate::chain::ChainSnapshot;
use crate::codec::{Decoder, Encoder, ReadError, Readable, limits};
use crate::crypto::PublicKey;
use crate::model::{Address, Amount, Height};
use crate::state::{self, Account, AccountId, AccountImportance, AccountTotals, LinkPhase, LinkRole, RemoteStatus};
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
                None | Some((LinkRole::Owner, LinkPhase::Inactive)) => "INACTIVE",
                Some((LinkRole::Owner, LinkPhase::Activating)) => "ACTIVATING",
                Some((LinkRole::Owner, LinkPhase::Active)) => "ACTIVE",
                Some((LinkRole::Owner, LinkPhase::Deactivating)) => "DEACTIVATING",
                Some((LinkRole::Remote, _)) => "REMOTE",
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

/// Reads the addresses of a batch, which are not validated yet.
pub(super) fn read_names<'a, S: Decoder<'a>>(source: &mut S, label: &'static str) -> Result<Vec<String>, ReadError> {
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
pub(super) fn batch_list<T: 'static>(
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
pub(super) fn parse_name(name: &str, node: &mut NodeContext<'_>) -> Result<Address, ApiError> {
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
        Ok(state::for_each_harvest_before(snapshot, &address, before, |block| {
            (before, left) = (block.height, left - 1);
            step.push(&HarvestInfo(&block));
            step.node.budget.charge(cost::HEADER);
            Ok(step.should_continue(left))
        })?)
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
        step.open_sized(&DataListHead, count, 0);
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
        (true, None | Some((LinkRole::Owner, LinkPhase::Inactive))) => {
            Ok(Some((LinkRole::Owner, LinkPhase::Activating)))
        }
        (true, Some((LinkRole::Owner, LinkPhase::Active))) => Ok(Some((LinkRole::Owner, LinkPhase::Deactivating))),
        (true, _) => Err(ApiError::internal("unexpected remote state for account with pending importance transfer")),
    }
}
