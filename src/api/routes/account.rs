//! Accounts.

use crate::api::call::Call;
use crate::api::failure::Failure;
use crate::api::long::AccountWriter;

/// `GET /account/get`
pub fn by_address(call: &mut Call<'_>) -> Result<(), Failure> {
    let address = call.address()?;
    let account = AccountWriter::new(call.view, call.actions, address, call.budget)?;
    call.send_long(account)
}

/// `GET /account/get/from-public-key`: the answer shows the given key, whether or not the chain has.
pub fn by_public_key(call: &mut Call<'_>) -> Result<(), Failure> {
    let key = call.public_key()?;
    let account = AccountWriter::new(call.view, call.actions, call.address_of(&key), call.budget)?;
    call.send_long(account.with_key(key))
}
