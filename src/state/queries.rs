//! What is asked of the state.

use super::account::Account;
use super::importances::{AccountImportance, chunk_after, last_recalculation};
use super::mosaics::{self, HoldingsPart};
use super::numbers::{AccountNumber, AccountTotals};
use crate::crypto::PublicKey;
use crate::model::{Address, Height, Mosaic, MosaicDefinition, MosaicId, address::ADDRESS_LENGTH};
use crate::store::{Read, StoreError, Table, Write, block_key};

/// The account of an address; an unknown one has the default state.
pub fn account(state: &impl Read, address: &Address) -> Result<Account, StoreError> {
    match AccountNumber::of(state, address)? {
        Some(number) => account_at(state, number),
        None => Ok(Account::default()),
    }
}

/// The account that has a number.
pub fn account_at(state: &impl Read, number: AccountNumber) -> Result<Account, StoreError> {
    state.get(Table::Accounts, &number.key())?.map_or(Ok(Account::default()), Account::from_bytes)
}

/// The key of an account, once a block has revealed it.
pub fn public_key(state: &impl Read, address: &Address) -> Result<Option<PublicKey>, StoreError> {
    AccountNumber::of(state, address)?.map_or(Ok(None), |number| number.public_key(state))
}

/// Sets an account outside of any block, as tests need it. What is counted of all accounts is not kept up.
pub fn put_account(batch: &mut impl Write, address: &Address, account: &Account) -> Result<AccountNumber, StoreError> {
    let number = match AccountNumber::of(batch, address)? {
        Some(number) => number,
        None => {
            let mut totals = AccountTotals::of(batch)?;
            let number = AccountNumber(totals.numbered);
            totals.numbered += 1;
            totals.put(batch)?;
            number.give(batch, address)?;
            number
        }
    };
    batch.put(Table::Accounts, &number.key(), &account.to_bytes())?;
    Ok(number)
}

/// Who may sign for an account, by address; none if it is no multisig account.
pub fn cosignatories(state: &impl Read, account: &Address) -> Result<Vec<Address>, StoreError> {
    linked(state, Table::Cosignatories, account)
}

/// For whom an account may sign, by address.
pub fn cosignatory_of(state: &impl Read, account: &Address) -> Result<Vec<Address>, StoreError> {
    linked(state, Table::CosignatoryOf, account)
}

/// Calls `visit` with the heights below one of the blocks that an account harvested, or another for it, the last first,
/// until it says `false`.
pub fn each_harvest_before(
    state: &impl Read,
    account: AccountNumber,
    before: Height,
    mut visit: impl FnMut(Height) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    let end = [account.key().as_slice(), &block_key(before)].concat();
    state.each_before(Table::Harvests, &account.key(), &end, |key, _| {
        let (_, height) = AccountNumber::split_key(key)?;
        let height = height.try_into().map_err(|_| StoreError::Damaged("the height of a harvested block"))?;
        visit(Height(u64::from_be_bytes(height)))
    })
}

/// Calls `visit` with all accounts that have a number, by number, those after one or the first, until it says `false`:
/// with the address of each, and its entry in the list of the last recalculation, if it has one.
pub fn each_account_after(
    state: &impl Read,
    after: Option<AccountNumber>,
    mut visit: impl FnMut(AccountNumber, Address, Option<AccountImportance>) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    let Some(first) = after.map_or(Some(0), |after| after.0.checked_add(1)).map(AccountNumber) else { return Ok(()) };
    let (mut list, mut behind) = (last_recalculation(state)?.map(|last| last.height), after);
    let mut importances = Vec::new().into_iter().peekable();
    let mut walk = state.walk(Table::Identities)?;
    let mut entry = walk.seek(&first.key())?;
    while let Some((key, value)) = entry {
        let (number, _) = AccountNumber::split_key(key)?;
        let address = value.first_chunk().map(Address::from_raw).ok_or(StoreError::Damaged("an account's address"))?;
        if importances.len() == 0
            && let Some(height) = list
        {
            importances = chunk_after(state, height, behind)?.into_iter().peekable();
            // Of a list that is at its end nothing more is read.
            list = list.filter(|_| importances.len() > 0);
        }
        while importances.next_if(|one: &AccountImportance| one.account < number).is_some() {}
        let importance = importances.next_if(|one| one.account == number);
        if !visit(number, address, importance)? {
            return Ok(());
        }
        behind = Some(number);
        entry = walk.next()?;
    }
    Ok(())
}

/// Accounts for which an account may sign, by address: those after an address, or the first, and at most so many.
pub fn cosignatory_of_after(
    state: &impl Read,
    account: &Address,
    after: Option<&Address>,
    limit: usize,
) -> Result<Vec<Address>, StoreError> {
    let mut walk = state.walk(Table::CosignatoryOf)?;
    // Nothing comes between a key and the same with a zero byte behind it.
    let after = after.map_or(Vec::new(), |after| [after.as_bytes().as_slice(), &[0]].concat());
    let (mut entry, mut found) = (walk.seek(&[account.as_bytes().as_slice(), &after].concat())?, Vec::new());
    while let Some((key, _)) = entry.filter(|_| found.len() < limit) {
        let Some(other) = key.strip_prefix(account.as_bytes()) else { break };
        found.push(read_linked(other)?);
        entry = walk.next()?;
    }
    Ok(found)
}

/// The mosaics in which an account is invested, by text: of those after one, or the first. So many are looked at.
pub fn holdings_after(
    state: &impl Read,
    account: &Address,
    after: Option<&MosaicId>,
    limit: usize,
) -> Result<HoldingsPart, StoreError> {
    match AccountNumber::of(state, account)? {
        Some(account) => mosaics::holdings_after(state, account, after, limit),
        None => Ok(HoldingsPart { ids: Vec::new(), last: None }),
    }
}

/// Calls `visit` with what accounts have of a mosaic of the last lease of its namespace, by account number, 0 included: with
/// those after one, or the first, until it says `false`.
pub fn each_holder_after(
    state: &impl Read,
    mosaic: &MosaicId,
    after: Option<AccountNumber>,
    visit: impl FnMut(AccountNumber, u64) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    match mosaics::current(state, mosaic)? {
        Some(current) => mosaics::each_balance(state, current.edition, current.stand, after, visit),
        None => Ok(()),
    }
}

fn linked(state: &impl Read, table: Table, address: &Address) -> Result<Vec<Address>, StoreError> {
    let mut addresses = Vec::new();
    state.each(table, address.as_bytes(), |key, _| {
        addresses.push(read_linked(&key[ADDRESS_LENGTH..])?);
        Ok(true)
    })?;
    Ok(addresses)
}

fn read_linked(bytes: &[u8]) -> Result<Address, StoreError> {
    bytes.try_into().map(Address::from_stored).map_err(|_| StoreError::Damaged("a cosignatory"))
}

/// The current definition of a mosaic; the built-in `nem:xem` included.
pub fn mosaic_definition(state: &impl Read, id: &MosaicId) -> Result<Option<MosaicDefinition>, StoreError> {
    if id.is_xem() {
        return Ok(Some(MosaicDefinition::xem()));
    }
    Ok(mosaics::current(state, id)?.map(|mosaic| mosaic.entry.definition))
}

/// What an account has of a mosaic other than `nem:xem`; `None` if there is no such mosaic any more.
pub fn owned_mosaic(state: &impl Read, account: &Address, id: MosaicId) -> Result<Option<Mosaic>, StoreError> {
    let Some(mosaic) = mosaics::current(state, &id)? else { return Ok(None) };
    let account = AccountNumber::of(state, account)?;
    let quantity = account.map_or(Ok(0), |account| mosaic.balance(state, account))?;
    Ok(Some(Mosaic { id, quantity }))
}
