//! Accounts: handlers and streams. An account may be cosignatory of any number of multisig accounts, which need not
//! consent.

use std::collections::VecDeque;
use std::vec;

use crate::api::budget::{Budget, cost};
use crate::api::chain_snapshot::{ChainSnapshot, Page};
use crate::api::error::ApiError;
use crate::api::node_handle::NodeHandle;
use crate::api::request_context::{Readable, RequestContext};
use crate::api::streams::{BodyWriter, ListWriter, ResponseStream, list_bytes, list_stream};
use crate::api::views::{
    AccountInfo, AccountMeta, AccountMetaHead, AccountPair, AccountPairHead, DataListHead, HarvestInfo,
    ImportanceEntry, RemoteStatus,
};
use crate::codec::{Decoder, ReadError, limits};
use crate::crypto::PublicKey;
use crate::model::{Address, Height};
use crate::net::service::Progress;

/// Accounts fetched at a time.
const CHUNK: usize = 32;
/// Accounts of a batch that are read ahead of writing.
const READ_AHEAD: usize = 16;
/// Approximate memory in bytes of an account that was read, with most of its cosignatories.
const ACCOUNT_BYTES: usize = 1024;
/// Approximate memory in bytes of the text of an address.
const NAME_BYTES: usize = 64;

/// Accounts were removed by a reorg while they were listed.
const CHANGED: ApiError = ApiError::Unavailable("the accounts have changed while they were listed");

/// `{"data": [{"account": address}]}`, in this order; the addresses are not validated yet.
struct Batch(Vec<String>);

impl Readable for Batch {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        read_names(source, "data").map(Batch)
    }
}

pub(super) fn read_names<'a, S: Decoder<'a>>(source: &mut S, label: &'static str) -> Result<Vec<String>, ReadError> {
    source.need_list(label, |source| Ok(source.need_string("account", limits::MAX_TEXT_UTF16)?.into_owned()))
}

/// `GET /account/get`
pub fn by_address(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let address = context.address()?;
    let account = AccountStream::new(context.chain, context.node, address, context.budget)?;
    context.send_stream(account)
}

/// `GET /account/get/from-public-key`: the response shows the given key, whether or not the chain has it.
pub fn by_public_key(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let key = context.public_key()?;
    let account = AccountStream::new(context.chain, context.node, context.address_of(&key), context.budget)?;
    context.send_stream(account.with_key(key))
}

/// `GET /account/get/forwarded`: a remote account is replaced by its owner.
pub fn forwarded(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let address = context.address()?;
    let address = owner_of(context, address)?;
    let account = AccountStream::new(context.chain, context.node, address, context.budget)?;
    context.send_stream(account)
}

/// `GET /account/get/forwarded/from-public-key`: the response shows the given key only if the account is unknown.
pub fn forwarded_by_public_key(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let key = context.public_key()?;
    let address = context.address_of(&key);
    let shown = owner_of(context, address)?;
    let account = AccountStream::new(context.chain, context.node, shown, context.budget)?;
    let is_known = context.chain.stored_account(&address)?.is_known();
    context.send_stream(if is_known { account } else { account.with_key(key) })
}

fn owner_of(context: &mut RequestContext<'_>, address: Address) -> Result<Address, ApiError> {
    context.budget.charge(cost::ACCOUNT);
    Ok(context.chain.linked_owner(&address)?.unwrap_or(address))
}

/// `GET /account/status`
pub fn status(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let address = context.address()?;
    let account = AccountStream::new(context.chain, context.node, address, context.budget)?;
    context.send_stream(account.meta_only())
}

/// `POST /account/get/batch`
pub fn batch(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let Batch(names) = context.body()?;
    context.send_stream(AccountBatchStream::new(names))
}

/// `GET /account/harvests`: the id of a block is its height, and `id` must be that of an existing block.
pub fn harvests(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let (account, page) = (context.address()?, context.page()?);
    let is_first = context.parameter("id")?.is_none();
    if !is_first && !(1..=context.chain.height.0).contains(&page.before) {
        return Err(ApiError::internal("there is no block with this id"));
    }
    context.send_stream(harvest_page(account, page))
}

/// `GET /account/importances`
pub fn importances(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.send_stream(importance_list(context.chain)?)
}

/// The blocks that an account or its remote account harvested, newest first. The id of a block is its height.
fn harvest_page(account: Address, page: Page) -> impl ResponseStream {
    let (mut before, mut left) = (Height(page.before), page.size);
    list_stream(move |step| {
        step.view.each_harvest_before(&account, before, |block| {
            (before, left) = (block.height, left - 1);
            step.push(&HarvestInfo(&block));
            step.budget.charge(cost::HEADER);
            Ok(step.should_continue(left))
        })?;
        Ok(())
    })
}

/// All accounts that exist when it starts, with their importances. The count comes first, so that the list can be
/// streamed in both formats; it fails if the chain loses some of the accounts meanwhile.
fn importance_list(chain: &ChainSnapshot<'_>) -> Result<impl ResponseStream + use<>, ApiError> {
    let count = chain.account_count()? as usize;
    let (mut after, mut left) = (None, count);
    let list = list_stream(move |step| {
        if left == 0 {
            return Ok(());
        }
        step.view.each_account_after(after, |number, address, importance| {
            (after, left) = (Some(number), left - 1);
            step.push(&ImportanceEntry { address, importance });
            step.budget.charge(cost::IMPORTANCE);
            Ok(step.should_continue(left))
        })?;
        if left > 0 && !step.is_interrupted() { Err(CHANGED) } else { Ok(()) }
    });
    Ok(list.with_count(count))
}

/// Stream of an account with its metadata ([`AccountPair`]), as chain, mempool and harvester together give it.
pub struct AccountStream {
    address: Address,
    /// Everything except the accounts that it cosigns, until it is written.
    head: Option<Box<(AccountInfo, AccountMeta)>>,
    /// Only the metadata is written.
    is_meta_only: bool,
    list: Option<ListWriter>,
    /// The last cosigned account that was written.
    after: Option<Address>,
}

impl AccountStream {
    /// Reads the account of an address. An unconfirmed importance transfer is shown as if confirmed; fails where the
    /// chain does not allow it.
    pub fn new(
        view: &ChainSnapshot<'_>,
        node: &dyn NodeHandle,
        address: Address,
        budget: &mut Budget,
    ) -> Result<AccountStream, ApiError> {
        let stored = view.stored_account(&address)?;
        let cosignatories = view.cosignatories(&address)?;
        budget.charge(cost::ACCOUNT * (1 + cosignatories.len() as u32));
        let account = view.account_info(&address, &stored, cosignatories.len())?;
        let is_changing = node.has_importance_transfer(&address)?;
        let meta = AccountMeta {
            unlocked: node.is_unlocked(&address),
            remote_status: shown_status(view.remote_status_of(&stored), is_changing)?,
            cosignatory_of: Vec::new(),
            cosignatories: cosignatories.iter().map(|one| view.account(one)).collect::<Result<_, _>>()?,
        };
        let head = Some(Box::new((account, meta)));
        Ok(AccountStream { address, head, is_meta_only: false, list: None, after: None })
    }

    /// Shows a public key, whether or not the chain has it.
    pub fn with_key(mut self, key: PublicKey) -> AccountStream {
        if let Some(head) = &mut self.head {
            head.0.public_key = Some(key);
        }
        self
    }

    /// Leaves out the account itself.
    pub fn meta_only(self) -> AccountStream {
        AccountStream { is_meta_only: true, ..self }
    }

    /// Opens the account as an element of a list.
    fn open_in(&mut self, outer: &mut ListWriter, writer: &mut BodyWriter<'_>) {
        if let Some(head) = self.head.take() {
            let pair = AccountPair { account: &head.0, meta: &head.1 };
            self.list = Some(outer.open_element(writer, &AccountPairHead(pair)));
        }
    }
}

fn shown_status(status: RemoteStatus, is_changing: bool) -> Result<RemoteStatus, ApiError> {
    match (is_changing, status) {
        (false, status) => Ok(status),
        (true, RemoteStatus::Inactive) => Ok(RemoteStatus::Activating),
        (true, RemoteStatus::Active) => Ok(RemoteStatus::Deactivating),
        (true, _) => Err(ApiError::internal("unexpected remote state for account with pending importance transfer")),
    }
}

impl ResponseStream for AccountStream {
    fn write_chunk(
        &mut self,
        view: &ChainSnapshot<'_>,
        writer: &mut BodyWriter<'_>,
        budget: &mut Budget,
    ) -> Result<Progress, ApiError> {
        if let Some(head) = self.head.take() {
            let pair = AccountPair { account: &head.0, meta: &head.1 };
            self.list = Some(match self.is_meta_only {
                true => ListWriter::open(writer, &AccountMetaHead(&head.1)),
                false => ListWriter::open(writer, &AccountPairHead(pair)),
            });
        }
        let Some(list) = &mut self.list else { return Ok(Progress::Done) };
        loop {
            let next = view.cosignatory_of_after(&self.address, self.after.as_ref(), CHUNK)?;
            let is_last = next.len() < CHUNK;
            for address in next {
                list.push(writer, &view.account(&address)?);
                self.after = Some(address);
                budget.charge(cost::ACCOUNT);
                if budget.is_exhausted() {
                    return Ok(Progress::Yield);
                }
            }
            if is_last {
                list.close(writer);
                return Ok(Progress::Done);
            }
        }
    }

    fn held_bytes(&self) -> usize {
        list_bytes(&self.list)
    }
}

/// Stream of accounts with their metadata. All are checked before the first is written, so that the response fails as a
/// whole if one cannot be shown.
pub struct AccountBatchStream {
    /// Addresses that are not checked yet.
    names: vec::IntoIter<String>,
    checked: VecDeque<Address>,
    /// Accounts to write next.
    ready: VecDeque<AccountStream>,
    list: Option<ListWriter>,
}

impl AccountBatchStream {
    /// Creates a stream of the accounts at these addresses, in this order.
    pub fn new(names: Vec<String>) -> AccountBatchStream {
        AccountBatchStream { names: names.into_iter(), checked: VecDeque::new(), ready: VecDeque::new(), list: None }
    }

    fn check(&mut self, view: &ChainSnapshot<'_>, node: &dyn NodeHandle, budget: &mut Budget) -> Result<(), ApiError> {
        for name in self.names.by_ref() {
            let address = Address::parse(&name, view.network.byte).ok_or(ApiError::BAD_ADDRESS)?;
            budget.charge(cost::ADDRESS);
            if node.has_importance_transfer(&address)? {
                budget.charge(cost::ACCOUNT);
                shown_status(view.remote_status(&address)?, true)?;
            }
            self.checked.push_back(address);
            if budget.is_exhausted() {
                break;
            }
        }
        Ok(())
    }
}

impl ResponseStream for AccountBatchStream {
    fn prepare(
        &mut self,
        _: &[u8],
        view: &ChainSnapshot<'_>,
        node: &mut dyn NodeHandle,
        budget: &mut Budget,
    ) -> Result<(), ApiError> {
        self.check(view, node, budget)?;
        if self.names.len() == 0 {
            while self.ready.is_empty() || (self.ready.len() < READ_AHEAD && !budget.is_exhausted()) {
                let Some(address) = self.checked.pop_front() else { break };
                self.ready.push_back(AccountStream::new(view, node, address, budget)?);
            }
        }
        Ok(())
    }

    fn write_chunk(
        &mut self,
        view: &ChainSnapshot<'_>,
        writer: &mut BodyWriter<'_>,
        budget: &mut Budget,
    ) -> Result<Progress, ApiError> {
        if self.names.len() > 0 {
            return Ok(Progress::Yield);
        }
        let list = self.list.get_or_insert_with(|| ListWriter::open(writer, &DataListHead));
        while let Some(account) = self.ready.front_mut() {
            account.open_in(list, writer);
            if account.write_chunk(view, writer, budget)? == Progress::Yield {
                return Ok(Progress::Yield);
            }
            self.ready.pop_front();
        }
        if !self.checked.is_empty() {
            return Ok(Progress::Yield);
        }
        list.close(writer);
        Ok(Progress::Done)
    }

    fn held_bytes(&self) -> usize {
        let names = self.names.len() * NAME_BYTES + self.checked.len() * size_of::<Address>();
        list_bytes(&self.list) + names + self.ready.len() * ACCOUNT_BYTES
    }
}
