//! Routes for other nodes. What they ask for is answered with a signature of their challenge, so that they know who
//! answers; others who ask are not refused.

use std::net::IpAddr;

use crate::api::budget::cost;
use crate::api::call::{Call, Readable};
use crate::api::failure::Failure;
use crate::api::long::BlockWriter;
use crate::api::views::{Endpoint, Experiences, NetworkTime, NoData, Score, Signed, View};
use crate::codec::{ReadError, Source};
use crate::crypto::Signature;
use crate::model::Height;

/// What the caller wants signed.
struct Challenge(Vec<u8>);

impl Readable for Challenge {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        Ok(Challenge(source.need_bytes("data")?.into_owned()))
    }
}

/// What the caller asks for, and what it wants signed.
struct Asked<T>(T, Challenge);

impl<T: Readable> Readable for Asked<T> {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let entity = source.need_object("entity", T::read)?;
        Ok(Asked(entity, source.need_object("challenge", Challenge::read)?))
    }
}

/// Something that is asked for or pushed and not looked at any further yet.
struct Anything;

impl Readable for Anything {
    fn read<'a, S: Source<'a>>(_: &mut S) -> Result<Self, ReadError> {
        Ok(Anything)
    }
}

/// Signs what the caller has challenged the node with, which only one that has joined its network does.
fn sign(call: &mut Call<'_>, Challenge(challenge): &Challenge) -> Result<Signature, Failure> {
    call.need_network()?;
    call.budget.spend(cost::SIGNATURE);
    Ok(call.actions.sign_challenge(challenge))
}

/// Answers a challenge.
fn send_signed(call: &mut Call<'_>, view: &impl View) -> Result<(), Failure> {
    let challenge = call.body()?;
    let signature = sign(call, &challenge)?;
    call.send(&Signed(view, signature))
}

/// `POST /chain/height`
pub fn height(call: &mut Call<'_>) -> Result<(), Failure> {
    let height = call.view.height;
    send_signed(call, &height)
}

/// `POST /chain/score`
pub fn score(call: &mut Call<'_>) -> Result<(), Failure> {
    let score = call.view.score()?;
    send_signed(call, &Score(score))
}

/// `POST /chain/last-block`
pub fn last_block(call: &mut Call<'_>) -> Result<(), Failure> {
    let challenge = call.body()?;
    let signature = sign(call, &challenge)?;
    call.send_long(BlockWriter::new(call.view.height).signed(signature))
}

/// `POST /block/at`
pub fn block_at(call: &mut Call<'_>) -> Result<(), Failure> {
    let Asked(height, challenge) = call.body::<Asked<Height>>()?;
    let signature = sign(call, &challenge)?;
    if !call.view.has_block(height) {
        return Err(Failure::no_block(height));
    }
    call.send_long(BlockWriter::new(height).signed(signature))
}

/// `POST /node/info`
pub fn info(call: &mut Call<'_>) -> Result<(), Failure> {
    let node = call.actions.node().clone();
    send_signed(call, &node)
}

/// `POST /node/peer-list/active`: there are none yet.
pub fn active_nodes(call: &mut Call<'_>) -> Result<(), Failure> {
    send_signed(call, &NoData)
}

/// `POST /node/experiences`: there are none yet.
pub fn experiences(call: &mut Call<'_>) -> Result<(), Failure> {
    let node = call.actions.node().clone();
    send_signed(call, &Experiences(&node))
}

/// `POST /time-sync/network-time`
pub fn network_time(call: &mut Call<'_>) -> Result<(), Failure> {
    let millis = call.now.network_millis;
    send_signed(call, &NetworkTime { millis })
}

/// `POST /node/cysm`: tells the caller the address that it comes from.
pub fn can_you_see_me(call: &mut Call<'_>) -> Result<(), Failure> {
    let endpoint: Endpoint = call.body()?;
    call.send(&Endpoint { host: shown_address(call.caller.address), ..endpoint })
}

/// An address as NIS1 writes it: one of IPv6 in brackets, with all its parts.
fn shown_address(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{}]", address.segments().map(|part| format!("{part:x}")).join(":")),
    }
}
