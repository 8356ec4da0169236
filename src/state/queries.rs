//! What is asked of the state.

use super::account::Account;
use super::mosaics;
use crate::model::{Address, Mosaic, MosaicDefinition, MosaicId, address::ADDRESS_LENGTH};
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

/// The current definition of a mosaic; the built-in `nem:xem` included.
pub fn mosaic_definition(state: &impl Read, id: &MosaicId) -> Result<Option<MosaicDefinition>, StoreError> {
    if id.is_xem() {
        return Ok(Some(MosaicDefinition::xem()));
    }
    Ok(mosaics::current(state, id)?.map(|(_, entry)| entry.definition))
}

/// What an account has of the mosaics in which it is invested and that still exist, `nem:xem` aside.
pub fn owned_mosaics(state: &impl Read, account: &Address) -> Result<Vec<Mosaic>, StoreError> {
    let mut owned = Vec::new();
    for text in mosaics::holdings(state, account)? {
        let id = MosaicId::parse(&text).map_err(|_| StoreError::Damaged("a holding"))?;
        if let Some((number, _)) = mosaics::current(state, &id)? {
            let quantity = mosaics::balance(state, &id, number, account)?;
            owned.push(Mosaic { id, quantity });
        }
    }
    Ok(owned)
}
