//! Accounts, their ids, remote links and cosignatories.
//!
//! Ids are short keys for accounts in large tables. An account gets the next id when a block first changes it, and keeps
//! it. Undoing that block releases the id.

use super::account_ids;
use super::account_tx_list::AccountTxList;
use super::balance::VestedBalance;
use super::bytes::{Stored, stored, stored_as};
use super::harvests::HarvestList;
use super::importances::{AccountImportance, chunk_after, last_recalculation};
use crate::codec::ByteReader;
use crate::crypto::PublicKey;
use crate::model::address::{ADDRESS_LENGTH, RAW_LENGTH};
use crate::model::transaction::LinkMode;
use crate::model::units::MIN_STAKE;
use crate::model::{Address, Height};
use crate::store::{Entry, Read, Result, StoreError, Table, Write, next_key};

/// Number of links that an account stores; another one replaces the oldest.
const MAX_LINKS: usize = 2;

/// State of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Whether its public key is recorded ([`AccountId::public_key`]).
    pub has_key: bool,
    /// Its balance.
    pub balance: VestedBalance,
    /// Blocks credited to it.
    pub harvested_blocks: u64,
    /// Reference count: how often transactions referenced it.
    pub references: u64,
    /// Height of the first reference; 0 if there was none.
    pub first_height: u64,
    /// Signatures that its transactions need if it is a multisig account; 0 means those of all cosignatories.
    pub min_cosignatories: u32,
    /// The last importance links, oldest first.
    pub links: Vec<RemoteLink>,
    /// List of the transactions that it sent.
    pub sent: AccountTxList,
    /// List of the transactions that it received.
    pub received: AccountTxList,
    /// The blocks that it signed or was credited with.
    pub harvests: HarvestList,
}

/// Role of an account in an importance link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkRole {
    /// It delegates its importance to the other account.
    Owner,
    /// It harvests with the importance of the other account.
    Remote,
}

/// An importance link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteLink {
    /// Role of this account.
    pub role: LinkRole,
    /// The other account.
    pub linked_address: Address,
    /// Height of the block with the importance transfer.
    pub height: Height,
    /// Whether the link was activated or deactivated.
    pub mode: LinkMode,
}

/// Status of an account as owner or remote; `None` without a link.
pub type RemoteStatus = Option<(LinkRole, LinkPhase)>;

/// Phase of an importance link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkPhase {
    /// Activated, not in effect yet.
    Activating,
    /// In effect.
    Active,
    /// Deactivated, still in effect.
    Deactivating,
    /// Deactivated, no longer in effect.
    Inactive,
}

impl Account {
    /// Returns whether the account was ever referenced.
    pub fn is_known(&self) -> bool {
        self.first_height > 0
    }

    /// Increments the reference count.
    pub fn add_reference(&mut self, height: Height) {
        self.references += 1;
        if self.first_height == 0 {
            self.first_height = height.0;
        }
    }

    /// Appends a link, dropping the oldest if there are more than `MAX_LINKS`.
    pub fn push_link(&mut self, link: RemoteLink) {
        if self.links.len() == MAX_LINKS {
            self.links.remove(0);
        }
        self.links.push(link);
    }

    /// Returns the newest link made at or below a height.
    pub fn active_link(&self, height: Height) -> Option<&RemoteLink> {
        self.links.iter().rev().find(|link| link.height <= height)
    }

    /// Returns the status at a height.
    pub fn remote_status(&self, height: Height, rewrite_limit: u64) -> RemoteStatus {
        let link = self.active_link(height)?;
        let recent = height.0 - link.height.0 < rewrite_limit;
        let phase = match (link.mode, recent) {
            (LinkMode::Activate, true) => LinkPhase::Activating,
            (LinkMode::Activate, false) => LinkPhase::Active,
            (LinkMode::Deactivate, true) => LinkPhase::Deactivating,
            (LinkMode::Deactivate, false) => LinkPhase::Inactive,
        };
        Some((link.role, phase))
    }

    /// Returns the account for which this one harvests at a height; `None` if it harvests for itself.
    pub fn harvests_for(&self, height: Height, rewrite_limit: u64) -> Option<Address> {
        let status = self.remote_status(height, rewrite_limit);
        let is_in_effect = matches!(status, Some((LinkRole::Remote, LinkPhase::Active | LinkPhase::Deactivating)));
        self.active_link(height).filter(|_| is_in_effect).map(|link| link.linked_address)
    }

    /// Returns whether it could be eligible for the importance calculation once its whole balance is vested.
    pub fn has_stake(&self) -> bool {
        self.is_known() && self.balance.total() >= MIN_STAKE.0
    }

    /// Encodes the account with its decoded address. Fields that blocks change often have fixed lengths and offsets.
    pub fn to_row(&self, address: &[u8; RAW_LENGTH]) -> Vec<u8> {
        let mut out = Vec::with_capacity(RAW_LENGTH + 80);
        address.write(&mut out);
        let has_harvested = self.harvests != HarvestList::default();
        let is_linked = self.min_cosignatories != 0 || !self.links.is_empty();
        (u8::from(self.has_key) | u8::from(has_harvested) << 1 | u8::from(is_linked) << 2).write(&mut out);
        self.balance.unvested.write(&mut out);
        self.balance.vested.write(&mut out);
        // Heights, and counts that heights bound, fit 32 bits for longer than any chain lasts.
        for number in [self.balance.height, self.harvested_blocks, self.references, self.first_height] {
            u32::try_from(number).unwrap_or(u32::MAX).write(&mut out);
        }
        self.sent.write(&mut out);
        self.received.write(&mut out);
        if has_harvested {
            self.harvests.write(&mut out);
        }
        if is_linked {
            self.min_cosignatories.write(&mut out);
        }
        self.links.iter().for_each(|link| link.write(&mut out));
        out
    }

    /// Decodes the account of a row, which starts with its address.
    pub fn from_row(row: &[u8]) -> Result<Account> {
        Account::parse(row).ok_or(StoreError::Damaged("an account"))
    }

    fn parse(row: &[u8]) -> Option<Account> {
        let mut input = ByteReader(row);
        let _: [u8; RAW_LENGTH] = input.array()?;
        let flags = u8::read(&mut input)?;
        let (unvested, vested) = <(u64, u64)>::read(&mut input)?;
        let mut number = || u32::read(&mut input).map(u64::from);
        let balance = VestedBalance { height: number()?, unvested, vested };
        Some(Account {
            has_key: flags & 1 != 0,
            balance: Some(balance).filter(VestedBalance::is_valid)?,
            harvested_blocks: number()?,
            references: number()?,
            first_height: number()?,
            sent: AccountTxList::read(&mut input)?,
            received: AccountTxList::read(&mut input)?,
            harvests: if flags & 2 != 0 { HarvestList::read(&mut input)? } else { HarvestList::default() },
            min_cosignatories: if flags & 4 != 0 { u32::read(&mut input)? } else { 0 },
            links: RemoteLink::read_all(&mut input)?,
        })
    }
}

stored_as! {
    // Whether it is the remote account, mode, height, and the decoded address.
    RemoteLink as ((bool, LinkMode), (Height, [u8; RAW_LENGTH])):
        |link| ((link.role == LinkRole::Remote, link.mode), (link.height, link.linked_address.to_raw())),
        |((is_remote, mode), (height, raw))| {
            let role = if is_remote { LinkRole::Remote } else { LinkRole::Owner };
            Some(RemoteLink { role, linked_address: Address::from_raw(&raw), height, mode })
        };
}

/// Id of an account in this store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(pub u32);

stored!(AccountId { 0 });

const DAMAGED: StoreError = StoreError::Damaged("the address of an account");

impl AccountId {
    /// Encodes the id for keys.
    pub fn key(self) -> [u8; 4] {
        self.0.to_be_bytes()
    }

    /// Splits a key that starts with an id into the id and the rest.
    pub fn split_key(key: &[u8]) -> Result<(AccountId, &[u8])> {
        let (number, rest) = key.split_first_chunk().ok_or(StoreError::Damaged("an account id"))?;
        Ok((AccountId(u32::from_be_bytes(*number)), rest))
    }

    /// Returns the id of an address, if it has one.
    pub fn of(state: &impl Read, address: &Address) -> Result<Option<AccountId>> {
        Ok(account_ids::find(state, address)?.map(|(id, _)| id))
    }

    /// Returns the address with the id.
    pub fn address(self, state: &impl Read) -> Result<Address> {
        address_in(state.get(Table::Accounts, &self.key())?.ok_or(DAMAGED)?)
    }

    /// Returns the public key of the account, if it is known.
    pub fn public_key(self, state: &impl Read) -> Result<Option<PublicKey>> {
        PublicKey::get(state, Table::PublicKeys, &self.key(), "a public key")
    }
}

/// Returns the address in the row of an account.
fn address_in(row: &[u8]) -> Result<Address> {
    row.first_chunk().map(Address::from_raw).ok_or(DAMAGED)
}

/// Counts over all accounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountTotals {
    /// Number of accounts with an id; also the next id.
    pub allocated: u32,
    /// Number of accounts that were ever referenced.
    pub known: u32,
    /// Number of rows in [`Table::EligibleAccounts`].
    pub eligible: u32,
    /// Height of the last block that referenced accounts for the first time, and their number.
    pub last_new: (Height, u32),
}

stored!(AccountTotals { allocated, known, eligible, last_new });

const TOTALS_KEY: &[u8] = b"accounts";

impl AccountTotals {
    /// Reads the counts.
    pub fn of(state: &impl Read) -> Result<AccountTotals> {
        Ok(AccountTotals::get(state, Table::Totals, TOTALS_KEY, "the account totals")?.unwrap_or_default())
    }

    pub(super) fn put(self, txn: &mut impl Write) -> Result<()> {
        txn.put(Table::Totals, TOTALS_KEY, &self.to_stored())
    }

    /// Returns how many accounts a block referenced for the first time. Valid only if no later block did so.
    pub fn new_at(&self, height: Height) -> u32 {
        if self.last_new.0 == height { self.last_new.1 } else { 0 }
    }

    /// Counts an account that a block references for the first time.
    pub(super) fn count_new(&mut self, height: Height) {
        self.last_new = (height, self.new_at(height).saturating_add(1));
        self.known = self.known.saturating_add(1);
    }

    /// Assigns the next id to an address and stores its account, which is as that of an unknown address.
    pub(super) fn allocate_id(&mut self, txn: &mut impl Write, address: &Address) -> Result<AccountId> {
        let (id, raw) = (AccountId(self.allocated), address.to_raw());
        self.allocated = self.allocated.checked_add(1).ok_or(StoreError::Damaged("the number of accounts"))?;
        txn.insert(Table::Accounts, &id.key(), &Account::default().to_row(&raw))?;
        account_ids::insert(txn, &raw, id)?;
        Ok(id)
    }
}

/// Returns the account of an address; the default state if it is unknown.
pub fn account(state: &impl Read, address: &Address) -> Result<Account> {
    Ok(account_with_id(state, address)?.1)
}

/// Returns the same, and the id of the address if it has one.
pub fn account_with_id(state: &impl Read, address: &Address) -> Result<(Option<AccountId>, Account)> {
    Ok(match account_ids::find(state, address)? {
        Some((id, row)) => (Some(id), Account::from_row(row)?),
        None => (None, Account::default()),
    })
}

/// Returns the account with an id.
pub fn account_at(state: &impl Read, id: AccountId) -> Result<Account> {
    Account::from_row(state.get(Table::Accounts, &id.key())?.ok_or(DAMAGED)?)
}

/// Returns the public key of an account, if it is recorded.
pub fn public_key(state: &impl Read, address: &Address) -> Result<Option<PublicKey>> {
    AccountId::of(state, address)?.map_or(Ok(None), |id| id.public_key(state))
}

/// Stores an account outside of any block, for tests; removes its public key unless it has one. Of [`AccountTotals`] it
/// updates only `allocated`.
#[cfg(any(test, feature = "testing"))]
pub fn put_account(txn: &mut impl Write, address: &Address, account: &Account) -> Result<AccountId> {
    let mut totals = AccountTotals::of(txn)?;
    let id = AccountId::of(txn, address)?.map_or_else(|| totals.allocate_id(txn, address), Ok)?;
    totals.put(txn)?;
    if !account.has_key {
        txn.delete(Table::PublicKeys, &id.key())?;
    }
    txn.put(Table::Accounts, &id.key(), &account.to_row(&address.to_raw()))?;
    Ok(id)
}

/// Calls `visit` with all accounts in the order of their ids, starting after `after`, until it returns `false`. Passes
/// the id, the address, and the entry of the last recalculation, if there is one.
pub fn for_each_account_after(
    state: &impl Read,
    after: Option<AccountId>,
    mut visit: impl FnMut(AccountId, Address, Option<AccountImportance>) -> Result<bool>,
) -> Result<()> {
    let Some(first) = after.map_or(Some(0), |after| after.0.checked_add(1)).map(AccountId) else { return Ok(()) };
    let (mut list, mut last_id) = (last_recalculation(state)?.map(|last| last.height), after);
    let mut importances = Vec::new().into_iter().peekable();
    for entry in state.entries_from(Table::Accounts, &[], &first.key())? {
        let (key, row) = entry?;
        let (id, _) = AccountId::split_key(key)?;
        let address = address_in(row)?;
        if importances.len() == 0
            && let Some(height) = list
        {
            importances = chunk_after(state, height, last_id)?.into_iter().peekable();
            // Nothing more is read once the list is at its end.
            list = list.filter(|_| importances.len() > 0);
        }
        while importances.next_if(|one: &AccountImportance| one.account < id).is_some() {}
        last_id = Some(id);
        if !visit(id, address, importances.next_if(|one| one.account == id))? {
            break;
        }
    }
    Ok(())
}

/// Returns the cosignatories of an account, by address; empty if it is no multisig account.
pub fn cosignatories(state: &impl Read, account: &Address) -> Result<Vec<Address>> {
    linked_after(state, Table::Cosignatories, account, None)?.collect()
}

/// Returns the multisig accounts of which an account is a cosignatory, by address.
pub fn cosignatory_of(state: &impl Read, account: &Address) -> Result<Vec<Address>> {
    cosignatory_of_after(state, account, None)?.collect()
}

/// Returns the same, starting after `after`.
pub fn cosignatory_of_after<'s, S: Read>(
    state: &'s S,
    account: &Address,
    after: Option<&Address>,
) -> Result<impl Iterator<Item = Result<Address>> + use<'s, S>> {
    linked_after(state, Table::CosignatoryOf, account, after)
}

fn linked_after<'s, S: Read>(
    state: &'s S,
    table: Table,
    account: &Address,
    after: Option<&Address>,
) -> Result<impl Iterator<Item = Result<Address>> + use<'s, S>> {
    let prefix = account.as_bytes().as_slice();
    let from = after.map_or(prefix.to_vec(), |after| next_key(&[prefix, after.as_bytes()].concat()));
    let other = |entry: Result<Entry<'_>>| {
        let other = entry?.0[ADDRESS_LENGTH..].try_into().map_err(|_| StoreError::Damaged("a cosignatory"))?;
        Ok(Address::from_stored(other))
    };
    Ok(state.entries_from(table, prefix, &from)?.map(other))
}

/// Returns whether an account has cosignatories.
pub fn is_multisig(state: &impl Read, account: &Address) -> Result<bool> {
    state.has_prefix(Table::Cosignatories, account.as_bytes())
}

/// Returns whether an account is a cosignatory of a multisig account.
pub fn is_cosignatory_of(state: &impl Read, account: &Address, multisig: &Address) -> Result<bool> {
    state.contains(Table::CosignatoryOf, &[account.as_bytes().as_slice(), multisig.as_bytes()].concat())
}

/// Returns whether an account is a cosignatory of another.
pub fn is_cosignatory(state: &impl Read, account: &Address) -> Result<bool> {
    state.has_prefix(Table::CosignatoryOf, account.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::balance::MAX_BALANCE;
    use crate::state::{ImportanceListWriter, RecalculationRecord};
    use crate::store::test_store;

    fn linked(role: LinkRole, links: &[(u64, LinkMode)]) -> Account {
        let other = Address::from_stored([b'T'; 40]);
        let links = links.iter().map(|(height, mode)| RemoteLink {
            role,
            linked_address: other,
            height: Height(*height),
            mode: *mode,
        });
        Account { links: links.collect(), ..Account::default() }
    }

    #[test]
    fn a_remote_harvests_for_its_owner_within_the_rewrite_limit_of_both_changes() {
        let remote = linked(LinkRole::Remote, &[(60, LinkMode::Activate), (500, LinkMode::Deactivate)]);
        let forwards = |height| remote.harvests_for(Height(height), 360).is_some();
        assert!(!forwards(419));
        assert!(forwards(420));
        assert!(forwards(859));
        assert!(!forwards(860));
    }

    #[test]
    fn an_account_round_trips() {
        let mut account = linked(LinkRole::Owner, &[(7, LinkMode::Activate)]);
        account.has_key = true;
        account.balance = VestedBalance { height: 9, unvested: 1, vested: 2 };
        account.add_reference(Height(4));
        assert_eq!(Account::from_row(&account.to_row(&[7; RAW_LENGTH])).unwrap(), account);
    }

    #[test]
    fn an_impossible_balance_is_corruption() {
        let with = |unvested, vested| {
            let balance = VestedBalance { height: 1, unvested, vested };
            Account::from_row(&Account { balance, ..Account::default() }.to_row(&[7; RAW_LENGTH]))
        };
        assert!(with(MAX_BALANCE - 1, 1).is_ok());
        for (unvested, vested) in [(MAX_BALANCE, 1), (u64::MAX, u64::MAX)] {
            assert!(matches!(with(unvested, vested), Err(StoreError::Damaged(_))));
        }
    }

    #[test]
    fn a_third_link_replaces_the_oldest() {
        let mut account = linked(LinkRole::Owner, &[(1, LinkMode::Activate), (2, LinkMode::Deactivate)]);
        let newest = RemoteLink { height: Height(3), ..account.links[0] };
        let newer = account.links[1];
        account.push_link(newest);
        assert_eq!(account.links, [newer, newest]);
    }

    #[test]
    fn multisig_accounts_of_a_cosignatory_are_read_from_any_of_them_on() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        let address = |name: u8| Address::from_stored([name; 40]);
        for (cosignatory, account) in [(b'A', b'Z'), (b'B', b'1'), (b'B', b'2'), (b'B', b'3'), (b'C', b'0')] {
            let key = [address(cosignatory).as_bytes().as_slice(), address(account).as_bytes()].concat();
            batch.put(Table::CosignatoryOf, &key, &[]).unwrap();
        }
        let accounts = |after: Option<u8>| {
            let found = cosignatory_of_after(&batch, &address(b'B'), after.map(address).as_ref()).unwrap();
            found.collect::<Result<Vec<_>>>().unwrap()
        };
        assert_eq!(accounts(None), [address(b'1'), address(b'2'), address(b'3')]);
        assert_eq!(accounts(Some(b'2')), [address(b'3')]);
        assert_eq!(accounts(Some(b'3')), []);
    }

    #[test]
    fn a_known_account_with_enough_for_the_importance_calculation_has_a_stake() {
        let has_stake = |first_height, vested| {
            let balance = VestedBalance { height: 1, unvested: 0, vested };
            Account { first_height, balance, ..Account::default() }.has_stake()
        };
        assert!(has_stake(1, MIN_STAKE.0));
        assert!(!has_stake(1, MIN_STAKE.0 - 1));
        assert!(!has_stake(0, MIN_STAKE.0));
    }

    #[test]
    fn accounts_come_with_their_importances_however_many_there_are() {
        const ACCOUNTS: u32 = 1_000;
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        let recalculation = RecalculationRecord { height: Height(7), accounts_counted: 0, eligible: 0 };
        let mut writer = ImportanceListWriter::begin(recalculation, &mut batch).unwrap();
        let has_importance = |id: u32| id % 3 != 1;
        for id in 0..ACCOUNTS {
            let account = AccountId(id);
            batch.put(Table::Accounts, &account.key(), &Account::default().to_row(&[7; RAW_LENGTH])).unwrap();
            if has_importance(id) {
                let entry = AccountImportance { account, height: Height(7), importance: id.into(), page_rank: 0.0 };
                writer.push(entry, &mut batch).unwrap();
            }
        }
        writer.finish(&mut batch).unwrap();
        for after in [None, Some(0), Some(1), Some(168), Some(ACCOUNTS - 2), Some(ACCOUNTS - 1)] {
            let mut next = after.map_or(0, |after| after + 1);
            for_each_account_after(&batch, after.map(AccountId), |id, _, found| {
                assert_eq!(id, AccountId(next));
                let expected = has_importance(next).then_some(f64::from(next));
                assert_eq!(found.map(|found| found.importance), expected, "{next}");
                next += 1;
                Ok(true)
            })
            .unwrap();
            assert_eq!(next, ACCOUNTS);
        }
    }
}
