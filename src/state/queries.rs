//! What is asked of the state.

use super::account::Account;
use super::history::HashEntry;
use crate::model::{Address, Hash256, Height, address::ADDRESS_LENGTH};
use crate::store::{Read, StoreError, Table};

/// The account of an address; an unknown one has the default state.
pub fn account(state: &impl Read, address: &Address) -> Result<Account, StoreError> {
    state.get(Table::Accounts, address.as_bytes())?.map_or(Ok(Account::default()), Account::from_bytes)
}

/// Who may sign for an account, by address; none if it is no multisig account.
pub fn cosignatories(state: &impl Read, account: &Address) -> Result<Vec<Address>, StoreError> {
    linked(state, Table::Cosignatories, account)
}

/// For whom an account may sign, by address.
pub fn cosignatory_of(state: &impl Read, account: &Address) -> Result<Vec<Address>, StoreError> {
    linked(state, Table::CosignatoryOf, account)
}

fn linked(state: &impl Read, table: Table, address: &Address) -> Result<Vec<Address>, StoreError> {
    let mut addresses = Vec::new();
    state.each(table, address.as_bytes(), |key, _| {
        let other: [u8; ADDRESS_LENGTH] =
            key[ADDRESS_LENGTH..].try_into().map_err(|_| StoreError::Damaged("a cosignatory"))?;
        addresses.push(Address::from_stored(other));
        Ok(true)
    })?;
    Ok(addresses)
}

/// The account for which `address` harvests at a height: itself, or the owner if it is an active remote.
pub fn forwarded(
    state: &impl Read,
    address: &Address,
    height: Height,
    rewrite_limit: u64,
) -> Result<Address, StoreError> {
    Ok(account(state, address)?.forwarded(height, rewrite_limit).unwrap_or(*address))
}

/// Where the transaction with a hash is, unless it is unknown or forgotten.
pub fn hash_entry(state: &impl Read, hash: &Hash256) -> Result<Option<HashEntry>, StoreError> {
    state.get(Table::Hashes, &hash.0)?.map(HashEntry::from_bytes).transpose()
}
