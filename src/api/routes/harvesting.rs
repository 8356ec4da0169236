//! Accounts that harvest on this node.

use crate::api::budget::cost;
use crate::api::call::Call;
use crate::api::failure::Failure;
use crate::api::media;
use crate::api::views::RemoteStatus;
use crate::chain::harvest::UnlockResult;
use crate::crypto::{KeyPair, PrivateKey};
use crate::model::Address;

/// `POST /account/unlock`
pub fn unlock(call: &mut Call<'_>) -> Result<(), Failure> {
    let (pair, _) = key_of_caller(call)?;
    match call.actions.unlock(pair)? {
        UnlockResult::Success => Ok(()),
        refusal => Err(Failure::argument(refusal.name())),
    }
}

/// `POST /account/lock`
pub fn lock(call: &mut Call<'_>) -> Result<(), Failure> {
    let (_, address) = key_of_caller(call)?;
    call.actions.lock(&address);
    Ok(())
}

/// `POST /local/account/isunlocked`
pub fn is_unlocked(call: &mut Call<'_>) -> Result<(), Failure> {
    let (_, address) = key_of_caller(call)?;
    let text = if call.actions.is_unlocked(&address) { "ok" } else { "nope" };
    call.send_text(text)
}

/// `POST /account/isunlocked`: has never been able to read its body.
pub fn is_unlocked_broken(call: &mut Call<'_>) -> Result<(), Failure> {
    Err(Failure::Internal(media::undecodable(call.request.header("Content-Type"))))
}

/// `POST /account/unlocked/info`
pub fn unlocked_info(call: &mut Call<'_>) -> Result<(), Failure> {
    let info = call.actions.unlocked_info();
    call.send(&info)
}

/// The private key in the body, and its address, if this caller may send it: whoever has not the rights of a local one
/// only those of remote accounts, which can harvest and nothing else.
fn key_of_caller(call: &mut Call<'_>) -> Result<(Box<KeyPair>, Address), Failure> {
    let pair = Box::new(KeyPair::new(&call.body::<PrivateKey>()?));
    call.budget.spend(cost::KEY);
    let address = call.address_of(&pair.public());
    if !call.is_local() && call.view.remote_status(&address)? != RemoteStatus::Remote {
        let (peer, path) = (call.caller.address, call.path);
        let text = format!("remote {peer} attempted to call local {path} with non-remote address {address}");
        return Err(Failure::Refused(text));
    }
    let allowed = &call.settings.allowed_harvesters;
    if !allowed.is_empty() && !allowed.contains(&address) {
        let text = format!("blocking private key request with non-configured address {address}");
        return Err(Failure::Refused(text));
    }
    Ok((pair, address))
}
