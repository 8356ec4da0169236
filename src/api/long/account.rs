//! Accounts, which may sign for any number of others: these are not asked.

use super::{LongView, OpenList, Sheet, held_by};
use crate::api::actions::Actions;
use crate::api::budget::{Budget, cost};
use crate::api::chain_view::ChainView;
use crate::api::failure::Failure;
use crate::api::views::{AccountInfo, AccountMeta, AccountPair, AccountWithGap, RemoteStatus};
use crate::crypto::PublicKey;
use crate::model::Address;
use crate::net::machine::Taken;

/// Accounts that are looked for at a time.
const CHUNK: usize = 32;

/// Writes an account with what goes with it ([`AccountPair`]), as chain, pool and harvester have it together.
pub struct AccountWriter {
    address: Address,
    /// All but the accounts that it signs for, until it is written.
    head: Option<Box<(AccountInfo, AccountMeta)>>,
    list: Option<OpenList>,
    /// The last account that was written of those that it signs for.
    after: Option<Address>,
}

impl AccountWriter {
    /// The account of an address. An importance transfer that waits in the pool shows as if it were in the chain; where
    /// the chain does not allow it, this fails.
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
        Ok(AccountWriter { address, head: Some(Box::new((account, meta))), list: None, after: None })
    }

    /// The same, shown with a key whether or not the chain has it.
    pub fn with_key(mut self, key: PublicKey) -> AccountWriter {
        if let Some(head) = &mut self.head {
            head.0.public_key = Some(key);
        }
        self
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
            self.list = Some(OpenList::open(sheet, &AccountWithGap(pair)));
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
