//! The peers of this node, and reorgs: handlers and views.

use std::collections::BTreeMap;
use std::time::Duration;

use super::blocks::chain_score;
use super::routes::{Route, get};
use super::streams::{BodyWriter, ResponseStream};
use super::{ApiError, NodeContext, RequestContext, View};
use crate::budget::cost;
use crate::chain::{Reorg, ReorgLog};
use crate::codec::Encoder;
use crate::model::{Address, Height, NetworkByte};
use crate::net::service::{ConnectionId, Progress};
use crate::peer::peer_entry::{LastFailure, PeerEntry};
use crate::peer::peer_table::{DropReason, Dropped};
use crate::peer::wire::{List, Score};
use crate::peer::{Manager, UnidentifiedPeer};

/// Routes.
pub const ROUTES: &[Route] = &[
    get("/node/peer-list/all", |context| send_nodes(context, Manager::collection)),
    get("/node/peer-list/reachable", |context| send_nodes(context, Manager::active)),
    get("/node/peer-list/active", active_nodes),
    get("/node/experiences", experiences),
    get("/node/active-peers/max-chain-height", max_chain_height),
    get("/local/peers", peers).local().own(),
    get("/local/reorgs", reorgs).local().own(),
];

/// `GET /node/peer-list/all` and `GET /node/peer-list/reachable`
fn send_nodes<T: View + Default>(context: &mut RequestContext<'_>, of: fn(&Manager) -> T) -> Result<(), ApiError> {
    context.node.require_joined()?;
    let nodes = context.node.peers.as_deref().map(of).unwrap_or_default();
    context.response.send(&nodes)
}

/// `GET /node/peer-list/active`
fn active_nodes(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.node.require_joined()?;
    let nodes = context.node.peers_to_share();
    context.response.send(&nodes)
}

/// `GET /node/experiences`
fn experiences(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.node.require_joined()?;
    let entries = context.node.peers.as_deref().map(Manager::experience_entries).unwrap_or_default();
    context.response.send(&List(entries))
}

/// `GET /node/active-peers/max-chain-height`: waits until the peers have reported their heights.
fn max_chain_height(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.node.require_joined()?;
    let (connection, now) = (context.connection, context.node.now);
    let height = match &mut context.node.peers {
        Some(peers) => peers.max_chain_height(connection, now),
        None => Some(Height::NEMESIS),
    };
    match height {
        Some(height) => context.response.send(&height),
        None => context.send_stream(WaitsForPeers(connection, |peers, writer| writer.write(&peers.asked_height()))),
    }
}

/// A response that waits until the peers have answered what its connection asked of them, and what writes it then.
pub(super) struct WaitsForPeers(pub ConnectionId, pub fn(&Manager, &mut BodyWriter<'_>));

impl ResponseStream for WaitsForPeers {
    fn write_chunk(&mut self, node: &mut NodeContext<'_>, writer: &mut BodyWriter<'_>) -> Result<Progress, ApiError> {
        let Some(peers) = &mut node.peers else { return Ok(Progress::Done) };
        let Some(answer) = peers.take_answer(self.0) else { return Ok(Progress::Suspended) };
        answer.map_err(|reason| ApiError::new(500, reason))?;
        (self.1)(peers, writer);
        Ok(Progress::Done)
    }

    fn held_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

/// `GET /local/peers`, which NIS1 does not have: the whole peer table, whether or not the node has joined its network.
fn peers(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let score = chain_score(&context.node)?;
    let known = context.node.peers.as_deref().map_or(0, |peers| peers.table.len());
    context.response.send(&PeersReport { node: &context.node, score })?;
    context.node.budget.charge(cost::PEER.saturating_mul(u32::try_from(known).unwrap_or(u32::MAX)));
    Ok(())
}

/// `GET /local/reorgs`, which NIS1 does not have: the last reorgs and the blocks that they replaced.
fn reorgs(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let reorgs = context.node.reorgs;
    context.response.send(&ReorgsReport { reorgs, network: context.node.chain.network.byte })?;
    let count = u32::try_from(reorgs.kept_replaced()).unwrap_or(u32::MAX);
    context.node.budget.charge(cost::PEER.saturating_mul(count));
    Ok(())
}

/// The whole peer table, and the state of this node.
struct PeersReport<'a, 'n> {
    node: &'a NodeContext<'n>,
    /// Chain score.
    score: i128,
}

impl View for PeersReport<'_, '_> {
    fn write(&self, sink: &mut impl Encoder) {
        let NodeContext { chain, status, info, .. } = self.node;
        let peers = self.node.peers.as_deref();
        let address = Address::from_public_key(&info.identity.key, chain.network.byte);
        sink.i32("status", status.code());
        sink.string("address", Some(address.as_str()));
        sink.object("node", |sink| info.write(sink));
        sink.u64("height", chain.height.0);
        sink.object("score", |sink| Score(self.score).write(sink));
        // Number of rounds in which no peer has reported this node's own address.
        let failures = peers.map_or(0, Manager::failures_to_join);
        sink.i32("failuresToJoin", i32::try_from(failures).unwrap_or(i32::MAX));
        sink.i64("clockDifference", peers.and_then(|peers| peers.time_sync.clock_difference()).unwrap_or(0));
        let trust: BTreeMap<_, _> = peers.into_iter().flat_map(|peers| peers.trust.values.iter()).collect();
        let known: Vec<_> = peers.into_iter().flat_map(|peers| peers.table.iter()).collect();
        sink.list("peers", &known, |sink, (address, peer)| {
            self.write_known(sink, address, peer, trust.get(address).copied());
        });
        let unidentified = peers.map_or(&[][..], |peers| &peers.unidentified);
        sink.list("unidentified", unidentified, |sink, UnidentifiedPeer { endpoint, last_failure }| {
            sink.object("endpoint", |sink| endpoint.write(sink));
            self.write_last_failure(sink, last_failure.as_ref());
        });
        let dropped: Vec<_> = peers.into_iter().flat_map(|peers| peers.table.dropped.iter()).collect();
        sink.list("dropped", &dropped, |sink, Dropped { address, node, reason, at, .. }| {
            sink.string("address", Some(address.as_str()));
            sink.object("node", |sink| node.info.write(sink));
            let why = match reason {
                DropReason::Unresponsive => "silent",
                DropReason::Evicted => "evicted",
                DropReason::Moved => "moved",
            };
            sink.string("why", Some(why));
            self.write_ago(sink, *at);
            self.write_last_failure(sink, node.last_failure.as_ref());
        });
    }
}

impl PeersReport<'_, '_> {
    fn write_known(&self, sink: &mut impl Encoder, address: &Address, peer: &PeerEntry, trust: Option<f64>) {
        let experience = self.node.peers.as_deref().map(|peers| peers.experience(address)).unwrap_or_default();
        sink.string("address", Some(address.as_str()));
        sink.object("node", |sink| peer.info.write(sink));
        sink.string("ip", peer.ip.map(|ip| ip.to_string()).as_deref());
        sink.string("state", Some(peer.state.name()));
        sink.i32("isListed", i32::from(peer.is_listed));
        sink.optional("height", peer.height, |sink, height| height.write(sink));
        sink.optional("score", peer.score, |sink, score| Score(score).write(sink));
        sink.optional("lastContact", peer.last_contact, |sink, at| self.write_ago(sink, at));
        sink.optional("trust", trust, |sink, share| sink.f64("share", share));
        sink.u64("successes", experience.successes);
        sink.u64("failures", experience.failures);
        sink.i32("synchronisations", i32::try_from(peer.synchronisations).unwrap_or(i32::MAX));
        self.write_last_failure(sink, peer.last_failure.as_ref());
        sink.optional("askedAgain", peer.retry_at(), |sink, at| {
            sink.u64("inSeconds", at.saturating_sub(self.node.now.monotonic).as_secs());
        });
    }

    fn write_last_failure(&self, sink: &mut impl Encoder, failure: Option<&LastFailure>) {
        sink.optional("lastFailure", failure, |sink, LastFailure { at, error }| {
            sink.string("state", Some(error.kind.name()));
            sink.string("reason", Some(&error.reason));
            self.write_ago(sink, *at);
        });
    }

    fn write_ago(&self, sink: &mut impl Encoder, at: Duration) {
        sink.u64("secondsAgo", self.node.now.monotonic.saturating_sub(at).as_secs());
    }
}

/// The latest reorgs, newest first.
struct ReorgsReport<'a> {
    /// The reorgs that the node keeps.
    reorgs: &'a ReorgLog,
    /// Network byte, to derive addresses.
    network: NetworkByte,
}

impl View for ReorgsReport<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        let all: Vec<&Reorg> = self.reorgs.last.iter().collect();
        sink.list("data", &all, |sink, reorg| {
            sink.i32("timeStamp", reorg.time.0);
            sink.u64("commonHeight", reorg.common.0);
            sink.u64("height", reorg.tip.0);
            sink.u64("returnedTransactions", reorg.returned as u64);
            sink.list("replaced", &reorg.replaced, |sink, block| {
                sink.u64("height", block.height.0);
                sink.bytes("hash", Some(&block.hash.0));
                let harvester = Address::from_public_key(&block.signer, self.network);
                sink.string("harvester", Some(harvester.as_str()));
                sink.i32("timeStamp", block.timestamp.0);
                sink.u64("transactions", block.transactions as u64);
                sink.i32("isOwn", i32::from(block.is_own));
            });
        });
    }
}

#[cfg(test)]
mod tests;
