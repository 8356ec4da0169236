//! Accounts (specification 06 §7.4).

use crate::api::call::Call;
use crate::api::failure::Failure;
use crate::api::views::AccountPair;

/// `GET /account/get`
pub fn by_address(call: &mut Call<'_>) -> Result<(), Failure> {
    let address = call.address()?;
    let (account, meta) = (call.ledger.account(&address)?, call.ledger.account_meta(&address)?);
    call.send(&AccountPair { account: &account, meta: &meta })
}

/// `GET /account/get/from-public-key`: the answer shows the given key, whether or not the chain has.
pub fn by_public_key(call: &mut Call<'_>) -> Result<(), Failure> {
    let key = call.public_key()?;
    let address = call.address_of(&key);
    let (mut account, meta) = (call.ledger.account(&address)?, call.ledger.account_meta(&address)?);
    account.public_key = Some(key);
    call.send(&AccountPair { account: &account, meta: &meta })
}
