//! Queries on the state.

use super::account::Account;
use super::account_ids::{AccountId, AccountTotals};
use super::importances::{AccountImportance, chunk_after, last_recalculation};
use super::mosaics::{self, HoldingsPage};
use crate::crypto::PublicKey;
use crate::model::{Address, Height, Mosaic, MosaicDefinition, MosaicId, address::ADDRESS_LENGTH};
use crate::store::{Read, StoreError, Table, Write, block_key};

/// Returns the account of an address; the default state if it is unknown.
pub fn account(state: &impl Read, address: &Address) -> Result<Account, StoreError> {
    match AccountId::of(state, address)? {
        Some(number) => account_at(state, number),
        None => Ok(Account::default()),
    }
}

/// Returns the account with an id.
pub fn account_at(state: &impl Read, id: AccountId) -> Result<Account, StoreError> {
    state.get(Table::Accounts, &id.key())?.map_or(Ok(Account::default()), Account::from_bytes)
}

/// Returns the public key of an account, if it is recorded.
pub fn public_key(state: &impl Read, address: &Address) -> Result<Option<PublicKey>, StoreError> {
    AccountId::of(state, address)?.map_or(Ok(None), |number| number.public_key(state))
}

/// Stores an account outside of any block, for tests. Of [`AccountTotals`] it updates only `allocated`.
pub fn put_account(txn: &mut impl Write, address: &Address, account: &Account) -> Result<AccountId, StoreError> {
    let number = match AccountId::of(txn, address)? {
        Some(number) => number,
        None => {
            let mut totals = AccountTotals::of(txn)?;
            let number = AccountId(totals.allocated);
            totals.allocated += 1;
            totals.put(txn)?;
            number.assign(txn, address)?;
            number
        }
    };
    txn.put(Table::Accounts, &number.key(), &account.to_bytes())?;
    Ok(number)
}

/// Returns the cosignatories of an account, by address; empty if it is no multisig account.
pub fn cosignatories(state: &impl Read, account: &Address) -> Result<Vec<Address>, StoreError> {
    linked(state, Table::Cosignatories, account)
}

/// Returns whether an account has cosignatories.
pub fn is_multisig(state: &impl Read, account: &Address) -> Result<bool, StoreError> {
    state.has_prefix(Table::Cosignatories, account.as_bytes())
}

/// Returns whether an account is a cosignatory of another.
pub fn is_cosignatory(state: &impl Read, account: &Address) -> Result<bool, StoreError> {
    state.has_prefix(Table::CosignatoryOf, account.as_bytes())
}

/// Returns the multisig accounts of which an account is a cosignatory, by address.
pub fn cosignatory_of(state: &impl Read, account: &Address) -> Result<Vec<Address>, StoreError> {
    linked(state, Table::CosignatoryOf, account)
}

/// Calls `visit` with the heights below `before` of the blocks signed by or credited to an account, last first, until
/// it returns `false`.
pub fn for_each_harvest_before(
    state: &impl Read,
    id: AccountId,
    before: Height,
    mut visit: impl FnMut(Height) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    let end = [id.key().as_slice(), &block_key(before)].concat();
    state.for_each_prefix_rev(Table::Harvests, &id.key(), &end, |key, _| {
        let (_, height) = AccountId::split_key(key)?;
        let height = height.try_into().map_err(|_| StoreError::Damaged("the height of a harvested block"))?;
        visit(Height(u64::from_be_bytes(height)))
    })
}

/// Calls `visit` with all accounts in the order of their ids, starting after `after`, until it returns `false`. Passes
/// the id, the address, and the entry of the last recalculation, if there is one.
pub fn for_each_account_after(
    state: &impl Read,
    after: Option<AccountId>,
    mut visit: impl FnMut(AccountId, Address, Option<AccountImportance>) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    let Some(first) = after.map_or(Some(0), |after| after.0.checked_add(1)).map(AccountId) else { return Ok(()) };
    let (mut list, mut last_id) = (last_recalculation(state)?.map(|last| last.height), after);
    let mut importances = Vec::new().into_iter().peekable();
    let mut cursor = state.cursor(Table::AccountAddresses)?;
    let mut entry = cursor.seek(&first.key())?;
    while let Some((key, value)) = entry {
        let (number, _) = AccountId::split_key(key)?;
        let address = value.first_chunk().map(Address::from_raw).ok_or(StoreError::Damaged("an account's address"))?;
        if importances.len() == 0
            && let Some(height) = list
        {
            importances = chunk_after(state, height, last_id)?.into_iter().peekable();
            // Nothing more is read once the list is at its end.
            list = list.filter(|_| importances.len() > 0);
        }
        while importances.next_if(|one: &AccountImportance| one.account < number).is_some() {}
        let importance = importances.next_if(|one| one.account == number);
        if !visit(number, address, importance)? {
            return Ok(());
        }
        last_id = Some(number);
        entry = cursor.next()?;
    }
    Ok(())
}

/// Returns at most `limit` multisig accounts of which an account is a cosignatory, by address, starting after `after`.
pub fn cosignatory_of_after(
    state: &impl Read,
    account: &Address,
    after: Option<&Address>,
    limit: usize,
) -> Result<Vec<Address>, StoreError> {
    let mut cursor = state.cursor(Table::CosignatoryOf)?;
    // No key lies between a key and the same key with a zero byte appended.
    let after = after.map_or(Vec::new(), |after| [after.as_bytes().as_slice(), &[0]].concat());
    let (mut entry, mut found) = (cursor.seek(&[account.as_bytes().as_slice(), &after].concat())?, Vec::new());
    while let Some((key, _)) = entry.filter(|_| found.len() < limit) {
        let Some(other) = key.strip_prefix(account.as_bytes()) else { break };
        found.push(read_linked(other)?);
        entry = cursor.next()?;
    }
    Ok(found)
}

/// Returns the mosaics in which an account is invested, ordered by text, after `after`. Reads at most `limit` rows.
pub fn holdings_after(
    state: &impl Read,
    account: &Address,
    after: Option<&MosaicId>,
    limit: usize,
) -> Result<HoldingsPage, StoreError> {
    match AccountId::of(state, account)? {
        Some(account) => mosaics::holdings_after(state, account, after, limit),
        None => Ok(HoldingsPage { ids: Vec::new(), next_after: None }),
    }
}

/// Calls `visit` with the balances of a mosaic of the last lease of its namespace, in the order of account ids,
/// starting after `after`, until it returns `false`. Balances of 0 may be included.
pub fn for_each_holder_after(
    state: &impl Read,
    mosaic: &MosaicId,
    after: Option<AccountId>,
    visit: impl FnMut(AccountId, u64) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    match mosaics::current_mosaic(state, mosaic)? {
        Some(current) => mosaics::for_each_balance(state, current.version, current.lease_state, after, visit),
        None => Ok(()),
    }
}

fn linked(state: &impl Read, table: Table, address: &Address) -> Result<Vec<Address>, StoreError> {
    let mut addresses = Vec::new();
    state.for_each_prefix(table, address.as_bytes(), |key, _| {
        addresses.push(read_linked(&key[ADDRESS_LENGTH..])?);
        Ok(true)
    })?;
    Ok(addresses)
}

fn read_linked(bytes: &[u8]) -> Result<Address, StoreError> {
    bytes.try_into().map(Address::from_stored).map_err(|_| StoreError::Damaged("a cosignatory"))
}

/// Returns the current definition of a mosaic; `nem:xem` included.
pub fn mosaic_definition(state: &impl Read, id: &MosaicId) -> Result<Option<MosaicDefinition>, StoreError> {
    Ok(mosaics::mosaic(state, id)?.map(|entry| entry.definition))
}

/// Returns whether an account is invested in any mosaic.
pub fn holds_mosaic(state: &impl Read, account: &Address) -> Result<bool, StoreError> {
    AccountId::of(state, account)?.map_or(Ok(false), |account| mosaics::holds_any(state, account))
}

/// Returns the smallest units an account has under the newest definition of a mosaic other than `nem:xem`.
pub fn mosaic_balance(state: &impl Read, id: &MosaicId, account: &Address) -> Result<u64, StoreError> {
    Ok(owned_mosaic(state, account, id.clone())?.map_or(0, |owned| owned.quantity))
}

/// Returns the balance of an account in a mosaic other than `nem:xem`; `None` if the mosaic does not exist.
pub fn owned_mosaic(state: &impl Read, account: &Address, id: MosaicId) -> Result<Option<Mosaic>, StoreError> {
    let Some(mosaic) = mosaics::current_mosaic(state, &id)? else { return Ok(None) };
    let account = AccountId::of(state, account)?;
    let quantity = account.map_or(Ok(0), |account| mosaic.balance(state, account))?;
    Ok(Some(Mosaic { id, quantity }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Write, test_store};

    #[test]
    fn multisig_accounts_of_a_cosignatory_are_read_in_parts_of_a_limited_length() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        let address = |name: u8| Address::from_stored([name; 40]);
        for (cosignatory, account) in [(b'A', b'Z'), (b'B', b'1'), (b'B', b'2'), (b'B', b'3'), (b'C', b'0')] {
            let key = [address(cosignatory).as_bytes().as_slice(), address(account).as_bytes()].concat();
            batch.put(Table::CosignatoryOf, &key, &[]).unwrap();
        }
        let accounts = |after: Option<u8>, limit: usize| {
            cosignatory_of_after(&batch, &address(b'B'), after.map(address).as_ref(), limit).unwrap()
        };
        assert_eq!(accounts(None, 2), [address(b'1'), address(b'2')]);
        assert_eq!(accounts(Some(b'2'), 2), [address(b'3')]);
        assert_eq!(accounts(None, 3), [address(b'1'), address(b'2'), address(b'3')]);
        assert_eq!(accounts(Some(b'3'), 2), []);
        assert_eq!(accounts(None, 0), []);
    }
}
