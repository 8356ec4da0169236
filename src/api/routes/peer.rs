//! Handlers of the routes for peers, which other clients may use too. Signed challenges authenticate this node.

use std::net::IpAddr;

use super::node::time_stamps;
use crate::api::budget::{Budget, cost};
use crate::api::chain_snapshot::ChainSnapshot;
use crate::api::error::ApiError;
use crate::api::node_handle::NodeHandle;
use crate::api::request_context::RequestContext;
use crate::api::streams::{BlockRangeStream, BlockStream, BodyWriter, HashListStream, ResponseStream, UnconfirmedList};
use crate::api::views::View;
use crate::crypto::Signature;
use crate::model::Height;
use crate::net::service::Progress;
use crate::peer::SignOfLifeResult;
use crate::peer::io::VerificationId;
use crate::peer::wire::{
    AnyChallenge, AuthenticatedRequest, AuthenticatedResponse, ChainRequest, Endpoint, NodeInfo, Score, ShortIds,
    SignOfLife,
};

/// Signs the challenge of the client; fails unless the node has joined its network. A malformed challenge is answered
/// with a signature of zeros, as the client has no use for one.
fn sign(context: &mut RequestContext<'_>, challenge: &AnyChallenge) -> Result<Signature, ApiError> {
    context.require_joined()?;
    let AnyChallenge::Valid(challenge) = challenge else { return Ok(Signature([0; 64])) };
    context.budget.charge(cost::SIGNATURE);
    Ok(context.node.sign_challenge(challenge))
}

/// Responds with an object and the signed challenge.
fn send_signed(context: &mut RequestContext<'_>, entity: &impl View) -> Result<(), ApiError> {
    let challenge = context.body()?;
    let signature = sign(context, &challenge)?;
    context.send(&AuthenticatedResponse { entity, signature })
}

/// `POST /chain/height`
pub fn height(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let height = context.chain.height;
    send_signed(context, &height)
}

/// `POST /chain/score`
pub fn score(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let score = context.chain.score()?;
    send_signed(context, &Score(score))
}

/// `POST /chain/last-block`
pub fn last_block(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let challenge = context.body()?;
    let signature = sign(context, &challenge)?;
    context.send_stream(BlockStream::new(context.chain.height).signed(signature))
}

/// `POST /block/at`
pub fn block_at(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let AuthenticatedRequest::<Height, AnyChallenge> { entity: height, challenge } = context.body()?;
    let signature = sign(context, &challenge)?;
    if !context.chain.has_block(height) {
        return Err(ApiError::no_block(height));
    }
    context.send_stream(BlockStream::new(height).signed(signature))
}

/// `POST /node/info`
pub fn info(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let node = context.node.description().info.clone();
    send_signed(context, &node)
}

/// `POST /node/peer-list/active`
pub fn active_nodes(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let nodes = context.node.active_peer_sample();
    send_signed(context, &nodes)
}

/// `POST /node/experiences`
pub fn experiences(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let experiences = context.node.experiences();
    send_signed(context, &experiences)
}

/// `POST /time-sync/network-time`
pub fn network_time(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let time = time_stamps(context);
    send_signed(context, &time)
}

/// `POST /node/cysm`: tells the client its own address.
pub fn can_you_see_me(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let endpoint: Endpoint = context.body()?;
    context.send(&Endpoint { host: shown_address(context.client.address), ..endpoint })
}

/// Formats an address as NIS1 does: IPv6 in brackets, with all its parts.
fn shown_address(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{}]", address.segments().map(|part| format!("{part:x}")).join(":")),
    }
}

/// `POST /chain/hashes-from`
pub fn hashes_from(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let AuthenticatedRequest::<Height, AnyChallenge> { entity: first, challenge } = context.body()?;
    let signature = sign(context, &challenge)?;
    let last = first.plus(context.chain.network.chain.max_blocks_per_sync() - 1).min(context.chain.height);
    context.send_stream(HashListStream::new(first, last, signature))
}

/// `POST /chain/blocks-after`
pub fn blocks_after(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let AuthenticatedRequest::<ChainRequest, AnyChallenge> { entity: request, challenge } = context.body()?;
    let signature = sign(context, &challenge)?;
    let limits = request.limits(&context.chain.network.chain);
    context.send_stream(BlockRangeStream::new(request.after, limits, signature))
}

/// `POST /transactions/unconfirmed`
pub fn unconfirmed(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let AuthenticatedRequest::<ShortIds, AnyChallenge> { entity: ShortIds(known), challenge } = context.body()?;
    let signature = sign(context, &challenge)?;
    let transactions = context.node.unknown_to(&known.into_iter().collect());
    context.budget.charge(cost::listed(transactions.len()));
    context.send_stream(UnconfirmedList::new(transactions).signed(signature))
}

/// `POST /node/sign-of-life`
pub fn sign_of_life(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let node: NodeInfo = context.body()?;
    handle_sign_of_life(context, &node)
}

/// `POST /node/ping`
pub fn ping(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let SignOfLife(node) = context.body()?;
    handle_sign_of_life(context, &node)
}

/// Handles a sign of life of a peer, which may be verified by a request back to it before the response. If the address
/// of the client is unknown, no request is made: it would go to a proxy, whose host an attacker could then have scanned
/// for open ports.
fn handle_sign_of_life(context: &mut RequestContext<'_>, node: &NodeInfo) -> Result<(), ApiError> {
    context.require_joined()?;
    if context.client.is_unidentified {
        return Ok(());
    }
    match context.node.sign_of_life(node, context.client.address) {
        SignOfLifeResult::Ignored => Ok(()),
        SignOfLifeResult::Failed(reason) => Err(ApiError::internal(reason)),
        SignOfLifeResult::Pending(meeting) => {
            context.run_stream(PendingVerification { verification: meeting, result: None })
        }
    }
}

/// A response that waits for the verification of the peer.
struct PendingVerification {
    verification: VerificationId,
    /// The result, once it is known: the reason if the peer could not be reached.
    result: Option<Option<String>>,
}

impl ResponseStream for PendingVerification {
    fn prepare(
        &mut self,
        _: &[u8],
        _: &ChainSnapshot<'_>,
        node: &mut dyn NodeHandle,
        _: &mut Budget,
    ) -> Result<(), ApiError> {
        self.result = node.verification_result(self.verification);
        Ok(())
    }

    fn write_chunk(
        &mut self,
        _: &ChainSnapshot<'_>,
        _: &mut BodyWriter<'_>,
        _: &mut Budget,
    ) -> Result<Progress, ApiError> {
        match self.result.take() {
            None => Ok(Progress::Suspended),
            Some(None) => Ok(Progress::Done),
            Some(Some(reason)) => Err(ApiError::Internal(reason.into())),
        }
    }

    fn held_bytes(&self) -> usize {
        size_of::<PendingVerification>()
    }
}
