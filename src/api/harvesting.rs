//! Handlers of harvesting on this node.

use crate::api::budget::cost;
use crate::api::error::ApiError;
use crate::api::request_context::{Readable, RequestContext};
use crate::api::views::RemoteStatus;
use crate::chain::harvest::UnlockResult;
use crate::codec::wipe::Wiped;
use crate::codec::{Decoder, ReadError, limits};
use crate::crypto::{KeyPair, PrivateKey};
use crate::model::Address;

/// `{"account": address}`, or `value` instead. The text is erased, as a client may send a private key by mistake.
struct Unlocked(Address);

impl Readable for Unlocked {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let text = match source.string("account", limits::MAX_TEXT_UTF16)? {
            Some(text) => text,
            None => source.need_string("value", limits::MAX_TEXT_UTF16)?,
        };
        let text = Wiped(text.into_owned());
        let address = Address::parse(&text, source.context().network);
        address.map(Unlocked).ok_or_else(|| ReadError::Argument("address must be valid".to_owned()))
    }
}

/// `POST /account/unlock`
pub fn unlock(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let (pair, _) = authorised_key(context)?;
    match context.node.unlock(pair)? {
        UnlockResult::Success => Ok(()),
        rejection => Err(ApiError::argument(rejection.name())),
    }
}

/// `POST /account/lock`
pub fn lock(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let (_, address) = authorised_key(context)?;
    context.node.lock(&address);
    Ok(())
}

/// `POST /local/account/isunlocked`
pub fn is_unlocked(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let (_, address) = authorised_key(context)?;
    send_unlocked(context, &address)
}

/// `POST /account/isunlocked`, which never worked in NIS1.
pub fn is_address_unlocked(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let Unlocked(address) = context.body()?;
    send_unlocked(context, &address)
}

fn send_unlocked(context: &mut RequestContext<'_>, address: &Address) -> Result<(), ApiError> {
    let text = if context.node.is_unlocked(address) { "ok" } else { "nope" };
    context.send_text(text)
}

/// `POST /account/unlocked/info`
pub fn unlocked_info(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let info = context.node.unlocked_info();
    context.send(&info)
}

/// Returns the key pair of the private key in the body and its address, if the client may send it. A client without
/// local access may send only keys of remote accounts, which can harvest and nothing else.
fn authorised_key(context: &mut RequestContext<'_>) -> Result<(Box<KeyPair>, Address), ApiError> {
    let pair = Box::new(KeyPair::new(&context.body::<PrivateKey>()?));
    context.budget.charge(cost::KEY);
    let address = context.address_of(&pair.public());
    if !context.is_local() && context.chain.remote_status(&address)? != RemoteStatus::Remote {
        let (peer, path) = (context.client.address, context.path);
        let text = format!("remote {peer} attempted to call local {path} with non-remote address {address}");
        return Err(ApiError::Unauthorized(text));
    }
    let allowed = &context.settings.allowed_harvesters;
    if !allowed.is_empty() && !allowed.contains(&address) {
        let text = format!("blocking private key request with non-configured address {address}");
        return Err(ApiError::Unauthorized(text));
    }
    Ok((pair, address))
}
