//! Handlers of the routes for peers, which other clients may use too. Signed challenges authenticate this node.

use std::net::IpAddr;

use super::node::time_stamps;
use crate::api::actions::Actions;
use crate::api::budget::{Budget, cost};
use crate::api::call::Call;
use crate::api::chain_view::ChainView;
use crate::api::failure::Failure;
use crate::api::long::{BlockWriter, ChainPartWriter, HashList, LongView, Sheet, UnconfirmedList};
use crate::api::views::View;
use crate::crypto::Signature;
use crate::model::Height;
use crate::net::machine::Taken;
use crate::peer::Meeting;
use crate::peer::outside::MeetingId;
use crate::peer::wire::{
    AnyChallenge, AuthenticatedRequest, AuthenticatedResponse, ChainRequest, Endpoint, NodeInfo, Score, ShortIds,
    SignOfLife,
};

/// Signs the challenge of the client; fails unless the node has joined its network. A malformed challenge is answered
/// with a signature of zeros, as the client has no use for one.
fn sign(call: &mut Call<'_>, challenge: &AnyChallenge) -> Result<Signature, Failure> {
    call.need_network()?;
    let AnyChallenge::Proper(challenge) = challenge else { return Ok(Signature([0; 64])) };
    call.budget.spend(cost::SIGNATURE);
    Ok(call.actions.sign_challenge(challenge))
}

/// Responds with an object and the signed challenge.
fn send_signed(call: &mut Call<'_>, entity: &impl View) -> Result<(), Failure> {
    let challenge = call.body()?;
    let signature = sign(call, &challenge)?;
    call.send(&AuthenticatedResponse { entity, signature })
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
    let AuthenticatedRequest::<Height, AnyChallenge> { entity: height, challenge } = call.body()?;
    let signature = sign(call, &challenge)?;
    if !call.view.has_block(height) {
        return Err(Failure::no_block(height));
    }
    call.send_long(BlockWriter::new(height).signed(signature))
}

/// `POST /node/info`
pub fn info(call: &mut Call<'_>) -> Result<(), Failure> {
    let node = call.actions.node().info.clone();
    send_signed(call, &node)
}

/// `POST /node/peer-list/active`
pub fn active_nodes(call: &mut Call<'_>) -> Result<(), Failure> {
    let nodes = call.actions.partners();
    send_signed(call, &nodes)
}

/// `POST /node/experiences`
pub fn experiences(call: &mut Call<'_>) -> Result<(), Failure> {
    let experiences = call.actions.experiences();
    send_signed(call, &experiences)
}

/// `POST /time-sync/network-time`
pub fn network_time(call: &mut Call<'_>) -> Result<(), Failure> {
    let time = time_stamps(call);
    send_signed(call, &time)
}

/// `POST /node/cysm`: tells the client its own address.
pub fn can_you_see_me(call: &mut Call<'_>) -> Result<(), Failure> {
    let endpoint: Endpoint = call.body()?;
    call.send(&Endpoint { host: shown_address(call.caller.address), ..endpoint })
}

/// Formats an address as NIS1 does: IPv6 in brackets, with all its parts.
fn shown_address(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{}]", address.segments().map(|part| format!("{part:x}")).join(":")),
    }
}

/// `POST /chain/hashes-from`
pub fn hashes_from(call: &mut Call<'_>) -> Result<(), Failure> {
    let AuthenticatedRequest::<Height, AnyChallenge> { entity: first, challenge } = call.body()?;
    let signature = sign(call, &challenge)?;
    let last = first.plus(call.view.network.chain.max_blocks_per_sync() - 1).min(call.view.height);
    call.send_long(HashList::new(first, last, signature))
}

/// `POST /chain/blocks-after`
pub fn blocks_after(call: &mut Call<'_>) -> Result<(), Failure> {
    let AuthenticatedRequest::<ChainRequest, AnyChallenge> { entity: request, challenge } = call.body()?;
    let signature = sign(call, &challenge)?;
    let limits = request.limits(&call.view.network.chain);
    call.send_long(ChainPartWriter::new(request.after, limits, signature))
}

/// `POST /transactions/unconfirmed`
pub fn unconfirmed(call: &mut Call<'_>) -> Result<(), Failure> {
    let AuthenticatedRequest::<ShortIds, AnyChallenge> { entity: ShortIds(known), challenge } = call.body()?;
    let signature = sign(call, &challenge)?;
    let transactions = call.actions.unknown_to(&known.into_iter().collect());
    call.budget.spend(cost::passed(transactions.len()));
    call.send_long(UnconfirmedList::new(transactions).signed(signature))
}

/// `POST /node/sign-of-life`
pub fn sign_of_life(call: &mut Call<'_>) -> Result<(), Failure> {
    let node: NodeInfo = call.body()?;
    meet(call, &node)
}

/// `POST /node/ping`
pub fn ping(call: &mut Call<'_>) -> Result<(), Failure> {
    let SignOfLife(node) = call.body()?;
    meet(call, &node)
}

/// Handles a sign of life of a peer, which may be verified by a request back to it before the response. If the address
/// of the client is unknown, no request is made: it would go to a proxy, whose host an attacker could then have scanned
/// for open ports.
fn meet(call: &mut Call<'_>, node: &NodeInfo) -> Result<(), Failure> {
    call.need_network()?;
    if call.caller.is_unnamed {
        return Ok(());
    }
    match call.actions.sign_of_life(node, call.caller.address) {
        Meeting::Ignored => Ok(()),
        Meeting::Failed(reason) => Err(Failure::internal(reason)),
        Meeting::Waiting(meeting) => call.do_long(Met { meeting, ended: None }),
    }
}

/// A response that waits for the verification of the peer.
struct Met {
    meeting: MeetingId,
    /// The result, once it is known: the reason if the peer could not be reached.
    ended: Option<Option<String>>,
}

impl LongView for Met {
    fn look(&mut self, _: &[u8], _: &ChainView<'_>, actions: &mut dyn Actions, _: &mut Budget) -> Result<(), Failure> {
        self.ended = actions.meeting_ended(self.meeting);
        Ok(())
    }

    fn write_on(&mut self, _: &ChainView<'_>, _: &mut Sheet<'_>, _: &mut Budget) -> Result<Taken, Failure> {
        match self.ended.take() {
            None => Ok(Taken::Parked),
            Some(None) => Ok(Taken::Done),
            Some(Some(reason)) => Err(Failure::Internal(reason.into())),
        }
    }

    fn held_bytes(&self) -> usize {
        size_of::<Met>()
    }
}
