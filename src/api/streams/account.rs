//! Streamed accounts. An account may be cosignatory of any number of multisig accounts, which need not consent.

use std::collections::VecDeque;
use std::vec;

use super::{BodyWriter, ListWriter, ResponseStream, list_bytes};
use crate::api::budget::{Budget, cost};
use crate::api::chain_snapshot::ChainSnapshot;
use crate::api::error::ApiError;
use crate::api::node_handle::NodeHandle;
use crate::api::views::{
    AccountInfo, AccountMeta, AccountMetaHead, AccountPair, AccountPairHead, DataListHead, RemoteStatus,
};
use crate::crypto::PublicKey;
use crate::model::Address;
use crate::net::service::Progress;

/// Accounts fetched at a time.
const CHUNK: usize = 32;
/// Accounts of a batch that are read ahead of writing.
const READ_AHEAD: usize = 16;
/// Approximate memory in bytes of an account that was read, with most of its cosignatories.
const ACCOUNT_BYTES: usize = 1024;
/// Approximate memory in bytes of the text of an address.
const NAME_BYTES: usize = 64;

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
