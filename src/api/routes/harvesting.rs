//! Handlers of harvesting on this node.

use crate::api::budget::cost;
use crate::api::call::{Call, Readable};
use crate::api::failure::Failure;
use crate::api::views::RemoteStatus;
use crate::chain::harvest::UnlockResult;
use crate::codec::wipe::Wiped;
use crate::codec::{ReadError, Source, limits};
use crate::crypto::{KeyPair, PrivateKey};
use crate::model::Address;

/// `{"account": address}`, or `value` instead. The text is erased, as a client may send a private key by mistake.
struct Unlocked(Address);

impl Readable for Unlocked {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let text = match source.string("account", limits::TEXT_UNITS)? {
            Some(text) => text,
            None => source.need_string("value", limits::TEXT_UNITS)?,
        };
        let text = Wiped(text.into_owned());
        let address = Address::parse(&text, source.context().network);
        address.map(Unlocked).ok_or_else(|| ReadError::Argument("address must be valid".to_owned()))
    }
}

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
    send_unlocked(call, &address)
}

/// `POST /account/isunlocked`, which never worked in NIS1.
pub fn is_address_unlocked(call: &mut Call<'_>) -> Result<(), Failure> {
    let Unlocked(address) = call.body()?;
    send_unlocked(call, &address)
}

fn send_unlocked(call: &mut Call<'_>, address: &Address) -> Result<(), Failure> {
    let text = if call.actions.is_unlocked(address) { "ok" } else { "nope" };
    call.send_text(text)
}

/// `POST /account/unlocked/info`
pub fn unlocked_info(call: &mut Call<'_>) -> Result<(), Failure> {
    let info = call.actions.unlocked_info();
    call.send(&info)
}

/// Returns the key pair of the private key in the body and its address, if the client may send it. A client without
/// local access may send only keys of remote accounts, which can harvest and nothing else.
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
