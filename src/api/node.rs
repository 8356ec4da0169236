//! Handlers of the node itself: boot, shutdown, identity, peers and debugging.

use crate::api::budget::{Budget, cost};
use crate::api::chain_snapshot::ChainSnapshot;
use crate::api::error::ApiError;
use crate::api::node_handle::{BootRequest, NodeHandle};
use crate::api::request_context::{Readable, RequestContext};
use crate::api::streams::{BodyWriter, ResponseStream};
use crate::api::views::{
    ExtendedInfo, NewKey, NodeClock, NodeDescription, NodeStatus, PeersReport, ReorgsReport, RequestRecords,
    TimeSynchronisations, Timers,
};
use crate::chain::ReorgLog;
use crate::codec::{Decoder, ReadError, limits};
use crate::crypto::{KeyPair, PrivateKey};
use crate::net::service::Progress;
use crate::peer::wire::{CommunicationTimeStamps, Endpoint, List};
use crate::peer::{ClientAnswer, Manager, RequestRecord};

/// Identity of the node in a boot request.
struct PrivateIdentity {
    private_key: PrivateKey,
    name: Option<String>,
}

impl Readable for PrivateIdentity {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let private_key = crate::api::secret::read_key(source, "private-key")?;
        Ok(PrivateIdentity { private_key, name: read_text(source, "name")? })
    }
}

fn read_text<'a, S: Decoder<'a>>(source: &mut S, label: &'static str) -> Result<Option<String>, ReadError> {
    Ok(source.string(label, limits::MAX_TEXT_UTF16)?.map(|text| text.into_owned()))
}

impl Readable for BootRequest {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let PrivateIdentity { private_key, name } = source.need_object("identity", PrivateIdentity::read)?;
        let endpoint = source.need_object("endpoint", Endpoint::read)?;
        let application = source.need_object("metaData", |source| read_text(source, "application"))?;
        Ok(BootRequest { private_key, name, endpoint, application })
    }
}

/// `POST /node/boot`
pub fn boot(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let request: BootRequest = context.body()?;
    if context.chain.status != NodeStatus::Running {
        return Err(ApiError::ALREADY_BOOTED);
    }
    context.budget.charge(cost::KEY);
    Ok(context.node.boot(request)?)
}

/// `GET /shutdown`
pub fn shut_down(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.node.shut_down();
    Ok(())
}

/// `GET /account/generate`
pub fn new_key(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.budget.charge(cost::KEY);
    let private_key = context.node.new_key();
    let public_key = KeyPair::new(&private_key).public();
    let address = context.address_of(&public_key);
    context.send_secret(&NewKey { private_key: &private_key.printed(), public_key, address })
}

/// Returns the description of the node; fails unless it has joined its network.
pub fn description(context: &RequestContext<'_>) -> Result<NodeDescription, ApiError> {
    context.require_joined()?;
    Ok(context.node.description().clone())
}

/// `GET /node/info`
pub fn info(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let node = description(context)?;
    context.send(&node.info)
}

/// `GET /node/extended-info`
pub fn extended_info(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let node = description(context)?;
    context.send(&ExtendedInfo { node: &node, now: context.now.network })
}

/// `GET /node/clock`, which NIS1 does not have: whether the clock is reliable.
pub fn clock(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.send(&NodeClock { time: context.now.network, state: context.now.clock })
}

/// Returns the network time. Both times are equal, as a request is answered when it arrives.
pub fn time_stamps(context: &RequestContext<'_>) -> CommunicationTimeStamps {
    let millis = context.now.network_millis;
    CommunicationTimeStamps { send: millis, receive: millis }
}

/// `GET /time-sync/network-time`
pub fn network_time(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.send(&time_stamps(context))
}

/// `GET /node/peer-list/all`
pub fn known_nodes(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.require_joined()?;
    let nodes = context.node.peers().map(Manager::collection).unwrap_or_default();
    context.send(&nodes)
}

/// `GET /node/peer-list/reachable`
pub fn reachable_nodes(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.require_joined()?;
    let nodes = context.node.peers().map(Manager::active).unwrap_or_default();
    context.send(&nodes)
}

/// `GET /node/peer-list/active`
pub fn active_nodes(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.require_joined()?;
    let nodes = context.node.active_peer_sample();
    context.send(&nodes)
}

/// `GET /node/experiences`
pub fn experiences(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.require_joined()?;
    let entries = context.node.peers().map(Manager::experience_entries).unwrap_or_default();
    context.send(&List(entries))
}

/// `GET /node/active-peers/max-chain-height`: waits until the sync peers have reported their heights.
pub fn max_chain_height(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.require_joined()?;
    match context.node.max_chain_height() {
        Some(height) => context.send(&height),
        None => context.send_stream(AnswerOfPeers(None)),
    }
}

/// A response that waits until peers have answered.
pub struct AnswerOfPeers(pub Option<ClientAnswer>);

impl ResponseStream for AnswerOfPeers {
    fn prepare(
        &mut self,
        _: &[u8],
        _: &ChainSnapshot<'_>,
        node: &mut dyn NodeHandle,
        _: &mut Budget,
    ) -> Result<(), ApiError> {
        self.0 = node.answer_of_peers();
        Ok(())
    }

    fn write_chunk(
        &mut self,
        _: &ChainSnapshot<'_>,
        writer: &mut BodyWriter<'_>,
        _: &mut Budget,
    ) -> Result<Progress, ApiError> {
        match self.0.take() {
            None => return Ok(Progress::Suspended),
            Some(ClientAnswer::Accepted) => {}
            Some(ClientAnswer::Rejected(reason)) => return Err(ApiError::Internal(reason.into())),
            Some(ClientAnswer::MaxHeight(height)) => writer.write(&height),
        }
        Ok(Progress::Done)
    }

    fn held_bytes(&self) -> usize {
        size_of::<AnswerOfPeers>()
    }
}

/// `GET /local/peers`, which NIS1 does not have: the whole peer table, whether or not the node has joined its network.
pub fn peers(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let (height, score, now) = (context.chain.height, context.chain.score()?, context.now.uptime);
    let node = context.node.description();
    let address = context.address_of(&node.info.identity.key);
    let peers = context.node.peers();
    let known = peers.map_or(0, |peers| peers.table.len());
    let report = PeersReport { status: context.chain.status, node: &node.info, address, height, score, peers, now };
    context.writer.view(&report);
    context.budget.charge(cost::PEER.saturating_mul(u32::try_from(known).unwrap_or(u32::MAX)));
    Ok(())
}

/// `GET /local/reorgs`, which NIS1 does not have: the last reorgs and the blocks that they replaced.
pub fn reorgs(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let reorgs = context.node.reorgs();
    let count = reorgs.map_or(0, ReorgLog::kept_replaced);
    context.writer.view(&ReorgsReport { reorgs, network: context.chain.network.byte });
    context.budget.charge(cost::PEER.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX)));
    Ok(())
}

/// `GET /debug/timers`
pub fn timers(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let timers = context.node.peers().map(|peers| peers.timers().to_vec()).unwrap_or_default();
    context.send(&Timers(&timers))
}

/// `GET /debug/connections/incoming`
pub fn incoming_requests(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let (outstanding, latest) = (context.request_history.outstanding(), context.request_history.latest());
    context.send(&RequestRecords { outstanding, latest, now: context.now.network })
}

/// `GET /debug/connections/outgoing`
pub fn outgoing_requests(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let requests = context.node.peers().map(|peers| &peers.requests);
    let outstanding = requests.map(|requests| requests.outstanding().into_iter().cloned().collect());
    let latest: Option<Vec<RequestRecord>> = requests.map(|requests| requests.latest().cloned().collect());
    let (outstanding, latest) = (outstanding.unwrap_or_default(), latest.unwrap_or_default());
    context.send(&RequestRecords { outstanding, latest, now: context.now.network })
}

/// `GET /debug/time-synchronization`
pub fn time_synchronisation(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.require_joined()?;
    let rounds = context.node.peers().map(|peers| peers.time_sync.rounds().copied().collect());
    context.send(&TimeSynchronisations(rounds.unwrap_or_default()))
}
