//! Streamed accounts. An account may be cosignatory of any number of multisig accounts, which need not consent.

use std::collections::VecDeque;
use std::vec;

use super::{LongView, OpenList, Sheet, held_by};
use crate::api::actions::Actions;
use crate::api::budget::{Budget, cost};
use crate::api::chain_view::ChainView;
use crate::api::failure::Failure;
use crate::api::views::{AccountInfo, AccountMeta, AccountPair, AccountWithGap, DataGap, MetaWithGap, RemoteStatus};
use crate::crypto::PublicKey;
use crate::model::Address;
use crate::net::machine::Taken;

/// Accounts fetched at a time.
const CHUNK: usize = 32;
/// Accounts of a batch that are read ahead of writing.
const READ_AHEAD: usize = 16;
/// Approximate memory in bytes of an account that was read, with most of its cosignatories.
const ACCOUNT_BYTES: usize = 1024;
/// Approximate memory in bytes of the text of an address.
const NAME_BYTES: usize = 64;

/// Stream of an account with its metadata ([`AccountPair`]), as chain, mempool and harvester together give it.
pub struct AccountWriter {
    address: Address,
    /// Everything except the accounts that it cosigns, until it is written.
    head: Option<Box<(AccountInfo, AccountMeta)>>,
    /// Only the metadata is written.
    is_meta_only: bool,
    list: Option<OpenList>,
    /// The last cosigned account that was written.
    after: Option<Address>,
}

impl AccountWriter {
    /// Reads the account of an address. An unconfirmed importance transfer is shown as if confirmed; fails where the
    /// chain does not allow it.
    pub fn new(
        view: &ChainView<'_>,
        actions: &dyn Actions,
        address: Address,
        budget: &mut Budget,
    ) -> Result<AccountWriter, Failure> {
        let stored = view.stored_account(&address)?;
        let cosignatories = view.cosignatories(&address)?;
        budget.spend(cost::ACCOUNT * (1 + cosignatories.len() as u32));
        let account = view.account_info(&address, &stored, cosignatories.len())?;
        let is_changing = actions.has_importance_transfer(&address)?;
        let meta = AccountMeta {
            unlocked: actions.is_unlocked(&address),
            remote_status: shown_status(view.remote_status_of(&stored), is_changing)?,
            cosignatory_of: Vec::new(),
            cosignatories: cosignatories.iter().map(|one| view.account(one)).collect::<Result<_, _>>()?,
        };
        let head = Some(Box::new((account, meta)));
        Ok(AccountWriter { address, head, is_meta_only: false, list: None, after: None })
    }

    /// Shows a public key, whether or not the chain has it.
    pub fn with_key(mut self, key: PublicKey) -> AccountWriter {
        if let Some(head) = &mut self.head {
            head.0.public_key = Some(key);
        }
        self
    }

    /// Leaves out the account itself.
    pub fn meta_only(self) -> AccountWriter {
        AccountWriter { is_meta_only: true, ..self }
    }

    /// Opens the account as an element of a list.
    fn begin_in(&mut self, outer: &mut OpenList, sheet: &mut Sheet<'_>) {
        if let Some(head) = self.head.take() {
            let pair = AccountPair { account: &head.0, meta: &head.1 };
            self.list = Some(outer.open_element(sheet, &AccountWithGap(pair)));
        }
    }
}

fn shown_status(status: RemoteStatus, is_changing: bool) -> Result<RemoteStatus, Failure> {
    match (is_changing, status) {
        (false, status) => Ok(status),
        (true, RemoteStatus::Inactive) => Ok(RemoteStatus::Activating),
        (true, RemoteStatus::Active) => Ok(RemoteStatus::Deactivating),
        (true, _) => Err(Failure::internal("unexpected remote state for account with pending importance transfer")),
    }
}

impl LongView for AccountWriter {
    fn write_on(&mut self, view: &ChainView<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<Taken, Failure> {
        if let Some(head) = self.head.take() {
            let pair = AccountPair { account: &head.0, meta: &head.1 };
            self.list = Some(match self.is_meta_only {
                true => OpenList::open(sheet, &MetaWithGap(&head.1)),
                false => OpenList::open(sheet, &AccountWithGap(pair)),
            });
        }
        let Some(list) = &mut self.list else { return Ok(Taken::Done) };
        loop {
            let next = view.cosignatory_of_after(&self.address, self.after.as_ref(), CHUNK)?;
            let is_last = next.len() < CHUNK;
            for address in next {
                list.push(sheet, &view.account(&address)?);
                self.after = Some(address);
                budget.spend(cost::ACCOUNT);
                if budget.is_spent() {
                    return Ok(Taken::Unfinished);
                }
            }
            if is_last {
                list.close(sheet);
                return Ok(Taken::Done);
            }
        }
    }

    fn held_bytes(&self) -> usize {
        held_by(&self.list)
    }
}

/// Stream of accounts with their metadata. All are checked before the first is written, so that the response fails as a
/// whole if one cannot be shown.
pub struct AccountBatch {
    /// Addresses that are not checked yet.
    names: vec::IntoIter<String>,
    found: VecDeque<Address>,
    /// Accounts to write next.
    read: VecDeque<AccountWriter>,
    list: Option<OpenList>,
}

impl AccountBatch {
    /// Creates a stream of the accounts at these addresses, in this order.
    pub fn new(names: Vec<String>) -> AccountBatch {
        AccountBatch { names: names.into_iter(), found: VecDeque::new(), read: VecDeque::new(), list: None }
    }

    fn check(&mut self, view: &ChainView<'_>, actions: &dyn Actions, budget: &mut Budget) -> Result<(), Failure> {
        for name in self.names.by_ref() {
            let address = Address::parse(&name, view.network.byte).ok_or(Failure::BAD_ADDRESS)?;
            budget.spend(cost::ADDRESS);
            if actions.has_importance_transfer(&address)? {
                budget.spend(cost::ACCOUNT);
                shown_status(view.remote_status(&address)?, true)?;
            }
            self.found.push_back(address);
            if budget.is_spent() {
                break;
            }
        }
        Ok(())
    }
}

impl LongView for AccountBatch {
    fn look(
        &mut self,
        _: &[u8],
        view: &ChainView<'_>,
        actions: &mut dyn Actions,
        budget: &mut Budget,
    ) -> Result<(), Failure> {
        self.check(view, actions, budget)?;
        if self.names.len() == 0 {
            while self.read.is_empty() || (self.read.len() < READ_AHEAD && !budget.is_spent()) {
                let Some(address) = self.found.pop_front() else { break };
                self.read.push_back(AccountWriter::new(view, actions, address, budget)?);
            }
        }
        Ok(())
    }

    fn write_on(&mut self, view: &ChainView<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<Taken, Failure> {
        if self.names.len() > 0 {
            return Ok(Taken::Unfinished);
        }
        let list = self.list.get_or_insert_with(|| OpenList::open(sheet, &DataGap));
        while let Some(account) = self.read.front_mut() {
            account.begin_in(list, sheet);
            if account.write_on(view, sheet, budget)? == Taken::Unfinished {
                return Ok(Taken::Unfinished);
            }
            self.read.pop_front();
        }
        if !self.found.is_empty() {
            return Ok(Taken::Unfinished);
        }
        list.close(sheet);
        Ok(Taken::Done)
    }

    fn held_bytes(&self) -> usize {
        let names = self.names.len() * NAME_BYTES + self.found.len() * size_of::<Address>();
        held_by(&self.list) + names + self.read.len() * ACCOUNT_BYTES
    }
}
