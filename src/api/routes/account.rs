//! Accounts (specification 06 §7.4).

use crate::api::call::Call;
use crate::api::failure::Failure;
use crate::api::views::AccountPair;
use crate::api::{AccountInfo, AccountMeta, account_meta};
use crate::model::Address;

/// `GET /account/get`
pub fn by_address(call: &mut Call<'_>) -> Result<(), Failure> {
    let address = call.address()?;
    let (account, meta) = look_up(call, &address)?;
    call.send(&AccountPair { account: &account, meta: &meta })
}

/// `GET /account/get/from-public-key`: the answer shows the given key, whether or not the chain has.
pub fn by_public_key(call: &mut Call<'_>) -> Result<(), Failure> {
    let key = call.public_key()?;
    let address = call.address_of(&key);
    let (mut account, meta) = look_up(call, &address)?;
    account.public_key = Some(key);
    call.send(&AccountPair { account: &account, meta: &meta })
}

fn look_up(call: &Call<'_>, address: &Address) -> Result<(AccountInfo, AccountMeta), Failure> {
    Ok((call.ledger.account(address)?, account_meta(call.ledger, call.desk, address)?))
}
