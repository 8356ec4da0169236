//! Harvesting on this node, and private keys: handlers, views, and private keys in bodies.

use std::borrow::Cow;

use zeroize::Zeroizing;

use super::routes::{Route, get, post};
use super::{ApiError, RequestContext, View};
use crate::budget::cost;
use crate::chain::harvest::{KeyOrigin, UnlockResult, UnlockedAccounts};
use crate::codec::wipe::Wiped;
use crate::codec::{Decoder, Encoder, ReadError, Readable, limits};
use crate::crypto::{KeyPair, PrivateKey, PublicKey};
use crate::model::Address;
use crate::state::{self, LinkRole};

/// Routes.
pub const ROUTES: &[Route] = &[
    get("/account/generate", new_key).local(),
    post("/account/unlock", unlock),
    post("/account/lock", lock),
    post("/local/account/isunlocked", is_unlocked).local(),
    post("/account/isunlocked", is_address_unlocked),
    post("/account/unlocked/info", unlocked_info),
];

/// Significant bytes of a private key.
const SEED_BYTES: usize = 32;

/// `{"value": hex}`: a big-endian number of any length.
struct PlainKey(PrivateKey);

impl Readable for PlainKey {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        read_key(source, "value").map(PlainKey)
    }
}

/// Reads a private key; only its last 32 bytes are significant.
pub fn read_key<'a, S: Decoder<'a>>(source: &mut S, label: &'static str) -> Result<PrivateKey, ReadError> {
    let bytes = Wiped(source.need_bytes(label).map(Cow::into_owned)?);
    let mut seed = Zeroizing::new([0; SEED_BYTES]);
    for (place, byte) in seed.iter_mut().zip(bytes.iter().rev()) {
        *place = *byte;
    }
    Ok(PrivateKey::from_seed(&seed))
}

/// A new key pair. The text is the private key as NIS1 prints it.
struct NewKey<'a> {
    private_key: &'a str,
    public_key: PublicKey,
    address: Address,
}

impl View for NewKey<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.string("privateKey", Some(self.private_key));
        sink.string("publicKey", Some(&self.public_key.to_string()));
        sink.string("address", Some(self.address.as_str()));
    }
}

/// Number of accounts that harvest on this node, and the limit.
struct UnlockedInfo<'a>(&'a UnlockedAccounts);

impl View for UnlockedInfo<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.i32("num-unlocked", self.0.count() as i32);
        sink.i32("max-unlocked", self.0.limit);
    }
}

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

/// `GET /account/generate`
fn new_key(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.node.budget.charge(cost::KEY);
    let private_key = PrivateKey::from_seed(&context.node.randomness.next_bytes());
    let public_key = KeyPair::new(&private_key).public();
    let address = context.address_of(&public_key);
    context.response.send_secret(&NewKey { private_key: &private_key.printed(), public_key, address })
}

/// `POST /account/unlock`
fn unlock(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let (pair, _) = authorised_key(context)?;
    let origin = if context.client.is_local { KeyOrigin::LocalClient } else { KeyOrigin::RemoteClient };
    let chain = context.node.chain;
    match context.node.unlocked.unlock(pair, origin, &chain)? {
        UnlockResult::Success => Ok(()),
        rejection => Err(ApiError::argument(rejection.name())),
    }
}

/// `POST /account/lock`
fn lock(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let (_, address) = authorised_key(context)?;
    context.node.unlocked.lock(&address);
    Ok(())
}

/// `POST /local/account/isunlocked`
fn is_unlocked(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let (_, address) = authorised_key(context)?;
    send_unlocked(context, &address)
}

/// `POST /account/isunlocked`, which never worked in NIS1.
fn is_address_unlocked(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let Unlocked(address) = context.body()?;
    send_unlocked(context, &address)
}

fn send_unlocked(context: &mut RequestContext<'_>, address: &Address) -> Result<(), ApiError> {
    let text = if context.node.unlocked.contains(address) { "ok" } else { "nope" };
    context.response.send_text(text, context.request)
}

/// `POST /account/unlocked/info`
fn unlocked_info(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.response.send(&UnlockedInfo(context.node.unlocked))
}

/// Returns the key pair of the private key in the body and its address, if the client may send it. A client without
/// local access may send only keys of remote accounts, which can harvest and nothing else.
fn authorised_key(context: &mut RequestContext<'_>) -> Result<(Box<KeyPair>, Address), ApiError> {
    let pair = Box::new(KeyPair::new(&context.body::<PlainKey>()?.0));
    context.node.budget.charge(cost::KEY);
    let address = context.address_of(&pair.public());
    if !context.client.is_local && !is_remote(context, &address)? {
        let (peer, path) = (context.client.address, context.path);
        let text = format!("remote {peer} attempted to call local {path} with non-remote address {address}");
        return Err(context.unauthorized(text));
    }
    let allowed = &context.settings.allowed_harvesters;
    if !allowed.is_empty() && !allowed.contains(&address) {
        let text = format!("blocking private key request with non-configured address {address}");
        return Err(ApiError::new(401, text));
    }
    Ok((pair, address))
}

fn is_remote(context: &RequestContext<'_>, address: &Address) -> Result<bool, ApiError> {
    let chain = &context.node.chain;
    let account = state::account(chain.snapshot, address)?;
    let status = account.remote_status(chain.height, chain.network.chain.rewrite_limit);
    Ok(matches!(status, Some((LinkRole::Remote, _))))
}

#[cfg(test)]
mod tests;
