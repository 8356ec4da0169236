//! Accounts that harvest on this node (specification 06 §7.4, 08 §8).

use crate::api::call::Call;
use crate::api::failure::Failure;
use crate::api::ledger::RemoteStatus;
use crate::api::media;
use crate::crypto::{KeyPair, PrivateKey};
use crate::model::Address;

/// `POST /account/unlock`
pub fn unlock(call: &mut Call<'_>) -> Result<(), Failure> {
    let (pair, _) = key_of_caller(call)?;
    call.desk.unlock(pair)
}

/// `POST /account/lock`
pub fn lock(call: &mut Call<'_>) -> Result<(), Failure> {
    let (_, address) = key_of_caller(call)?;
    call.desk.lock(&address);
    Ok(())
}

/// `POST /local/account/isunlocked`
pub fn is_unlocked(call: &mut Call<'_>) -> Result<(), Failure> {
    let (_, address) = key_of_caller(call)?;
    let text = if call.desk.is_unlocked(&address) { "ok" } else { "nope" };
    call.send_text(text)
}

/// `POST /account/isunlocked`: has never been able to read its body.
pub fn is_unlocked_broken(call: &mut Call<'_>) -> Result<(), Failure> {
    Err(Failure::Internal(media::undecodable(call.request.header("Content-Type"))))
}

/// `POST /account/unlocked/info`
pub fn unlocked_info(call: &mut Call<'_>) -> Result<(), Failure> {
    let info = call.desk.unlocked_info();
    call.send(&info)
}

/// The private key in the body, and its address, if this caller may send it (specification 08 §8.3).
fn key_of_caller(call: &Call<'_>) -> Result<(KeyPair, Address), Failure> {
    let pair = KeyPair::new(&call.body::<PrivateKey>()?);
    let address = call.address_of(&pair.public());
    if !call.is_local() && call.ledger.account_meta(&address)?.remote_status != RemoteStatus::Remote {
        let (peer, path) = (call.request.peer.to_canonical(), call.request.path);
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
