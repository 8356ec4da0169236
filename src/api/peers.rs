//! The peers of this node, reorgs, and what is recorded for debugging: handlers and views.

use std::collections::BTreeMap;
use std::time::Duration;

use super::blocks::chain_score;
use super::request_history::RequestRecords;
use super::routes::{Route, get};
use super::{ApiError, NodeContext, RequestContext, View};
use crate::budget::cost;
use crate::chain::{Reorg, ReorgLog};
use crate::codec::Encoder;
use crate::model::{Address, Height, NetworkByte};
use crate::peer::peer_table::{DropReason, Dropped, LastFailure, PeerEntry, State};
use crate::peer::schedule::Timer;
use crate::peer::time_sync::TimeSyncRound;
use crate::peer::wire::{List, Score};
use crate::peer::{Manager, UnidentifiedPeer};

/// Routes.
pub const ROUTES: &[Route] = &[
    get("/node/peer-list/all", known_nodes),
    get("/node/peer-list/reachable", reachable_nodes),
    get("/node/peer-list/active", active_nodes),
    get("/node/experiences", experiences),
    get("/node/active-peers/max-chain-height", max_chain_height),
    get("/local/peers", peers).local(),
    get("/local/reorgs", reorgs).local(),
    get("/debug/timers", timers),
    get("/debug/connections/incoming", incoming_requests).local(),
    get("/debug/connections/outgoing", outgoing_requests).local(),
    get("/debug/time-synchronization", time_synchronisation),
];

/// `GET /node/peer-list/all`
fn known_nodes(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.node.require_joined()?;
    let nodes = context.node.peers.as_deref().map(Manager::collection).unwrap_or_default();
    context.response.send(&nodes)
}

/// `GET /node/peer-list/reachable`
fn reachable_nodes(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.node.require_joined()?;
    let nodes = context.node.peers.as_deref().map(Manager::active).unwrap_or_default();
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

/// `GET /node/active-peers/max-chain-height`: the height of the network by the last check of the peers' heights, which is
/// at most half a minute old.
fn max_chain_height(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.node.require_joined()?;
    let height = context.node.peers.as_deref().and_then(Manager::network_height);
    context.response.send(&height.unwrap_or(Height::NEMESIS))
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

/// `GET /debug/timers`
fn timers(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let timers = context.node.peers.as_deref().map(Manager::timers).unwrap_or_default();
    context.response.send(&Timers(timers))
}

/// `GET /debug/connections/incoming`
fn incoming_requests(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let history = &context.request_history;
    let (outstanding, latest) = (history.outstanding().collect(), history.latest().collect());
    context.response.send(&RequestRecords { outstanding, latest, now: context.node.chain.now })
}

/// `GET /debug/connections/outgoing`
fn outgoing_requests(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let requests = context.node.peers.as_deref().map(|peers| &peers.requests);
    let outstanding = requests.into_iter().flat_map(|requests| requests.outstanding()).collect();
    let latest = requests.into_iter().flat_map(|requests| requests.latest()).collect();
    context.response.send(&RequestRecords { outstanding, latest, now: context.node.chain.now })
}

/// `GET /debug/time-synchronization`
fn time_synchronisation(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.node.require_joined()?;
    let peers = context.node.peers.as_deref();
    let rounds = peers.into_iter().flat_map(|peers| peers.time_sync.rounds()).copied().collect();
    context.response.send(&TimeSynchronisations(rounds))
}

/// Rounds of time synchronization with peers, oldest first.
#[derive(Clone, Debug)]
pub struct TimeSynchronisations(pub Vec<TimeSyncRound>);

impl View for TimeSynchronisations {
    fn write(&self, sink: &mut impl Encoder) {
        sink.list("data", &self.0, |sink, round| {
            sink.string("dateTime", Some(&round.time.date_and_time()));
            sink.i64("currentTimeOffset", round.offset);
            sink.i64("change", round.change);
        });
    }
}

/// The recurring tasks and their statistics.
#[derive(Clone, Copy, Debug)]
pub struct Timers<'a>(pub &'a [Timer]);

impl View for Timers<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.list("data", self.0, |sink, timer| {
            sink.string("name", Some(timer.name));
            sink.i32("executions", clamped(timer.executions));
            sink.i32("successes", clamped(timer.successes));
            sink.i32("failures", clamped(timer.failures));
            sink.i32("last-delay-time", clamped(timer.last_delay.as_millis()));
            sink.i32("last-operation-start-time", timer.last_start.0);
            sink.i32("last-operation-time", clamped(timer.last_seconds));
            sink.i32("average-operation-time", clamped(timer.average_seconds()));
            sink.i32("is-executing", i32::from(timer.is_executing));
        });
    }
}

/// Converts a number to `i32`; one that does not fit, such as milliseconds of more than 24.8 days, becomes the maximum.
pub(super) fn clamped(number: impl TryInto<i32>) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}

/// The whole peer table, and the state of this node.
struct PeersReport<'a, 'n> {
    node: &'a NodeContext<'n>,
    /// Chain score.
    score: i128,
}

impl View for PeersReport<'_, '_> {
    fn write(&self, sink: &mut impl Encoder) {
        let NodeContext { chain, status, description, .. } = self.node;
        let peers = self.node.peers.as_deref();
        let address = Address::from_public_key(&description.info.identity.key, chain.network.byte);
        sink.i32("status", status.code());
        sink.string("address", Some(address.as_str()));
        sink.object("node", |sink| description.info.write(sink));
        sink.u64("height", chain.height.0);
        sink.object("score", |sink| Score(self.score).write(sink));
        // Number of rounds in which no peer has reported this node's own address.
        let failures = peers.map_or(0, Manager::failures_to_join);
        sink.i32("failuresToJoin", i32::try_from(failures).unwrap_or(i32::MAX));
        sink.i64("clockDifference", peers.and_then(|peers| peers.time_sync.clock_difference()).unwrap_or(0));
        let trust: BTreeMap<_, _> = peers.into_iter().flat_map(|peers| peers.trust().iter()).collect();
        let known: Vec<_> = peers.into_iter().flat_map(|peers| peers.table.iter()).collect();
        sink.list("peers", &known, |sink, (address, peer)| {
            self.write_known(sink, address, peer, trust.get(address).copied());
        });
        let unidentified = peers.map_or(&[][..], |peers| &peers.unidentified);
        sink.list("unidentified", unidentified, |sink, UnidentifiedPeer { endpoint, last_failure: last_trouble }| {
            sink.object("endpoint", |sink| endpoint.write(sink));
            self.write_last_failure(sink, last_trouble.as_ref());
        });
        let dropped: Vec<_> = peers.into_iter().flat_map(|peers| peers.table.dropped()).collect();
        sink.list("dropped", &dropped, |sink, dropped| self.write_dropped(sink, dropped));
    }
}

impl PeersReport<'_, '_> {
    fn write_known(&self, sink: &mut impl Encoder, address: &Address, peer: &PeerEntry, trust: Option<f64>) {
        let experience = self.node.peers.as_deref().map(|peers| peers.experience(address)).unwrap_or_default();
        sink.string("address", Some(address.as_str()));
        sink.object("node", |sink| peer.info.write(sink));
        sink.string("ip", peer.ip.map(|ip| ip.to_string()).as_deref());
        sink.string("state", Some(state(peer.state)));
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

    fn write_dropped(&self, sink: &mut impl Encoder, dropped: &Dropped) {
        sink.string("address", Some(dropped.address.as_str()));
        sink.object("node", |sink| dropped.node.info.write(sink));
        sink.string(
            "why",
            Some(match dropped.reason {
                DropReason::Unresponsive => "silent",
                DropReason::Evicted => "displaced",
                DropReason::Moved => "moved",
            }),
        );
        self.write_ago(sink, dropped.at);
        self.write_last_failure(sink, dropped.node.last_failure.as_ref());
    }

    fn write_last_failure(&self, sink: &mut impl Encoder, failure: Option<&LastFailure>) {
        sink.optional("lastTrouble", failure, |sink, LastFailure { at, error }| {
            sink.string("state", Some(state(error.kind)));
            sink.string("reason", Some(&error.reason));
            self.write_ago(sink, *at);
        });
    }

    fn write_ago(&self, sink: &mut impl Encoder, at: Duration) {
        sink.u64("secondsAgo", self.node.now.monotonic.saturating_sub(at).as_secs());
    }
}

fn state(state: State) -> &'static str {
    match state {
        State::Untried => "untried",
        State::Active => "active",
        State::Busy => "busy",
        State::Inactive => "inactive",
        State::Failure => "failure",
    }
}

/// The latest reorgs, newest first.
pub struct ReorgsReport<'a> {
    /// The reorgs that the node keeps.
    pub reorgs: &'a ReorgLog,
    /// Network byte, to derive addresses.
    pub network: NetworkByte,
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
mod tests {
    use super::*;
    use crate::codec::json::JsonEncoder;
    use crate::model::Timestamp;

    #[test]
    fn time_synchronisation_rounds_show_date_and_time() {
        let rounds = vec![TimeSyncRound { time: Timestamp(86_400), offset: -3, change: 4 }];
        let text = JsonEncoder::document(|sink| TimeSynchronisations(rounds.clone()).write(sink));
        let expected = r#"{"data":[{"dateTime":"2015-03-30 00:06:25","currentTimeOffset":-3,"change":4}]}"#;
        assert_eq!(String::from_utf8_lossy(&text).trim_end(), expected);
        assert_eq!(Timestamp(i32::MAX).date_and_time(), "2083-04-16 03:20:32");
    }

    #[test]
    fn a_number_that_does_not_fit_becomes_the_largest() {
        let delay = std::time::Duration::from_secs(25 * 86_400);
        assert_eq!((clamped(delay.as_millis()), clamped(3_u64), clamped(u32::MAX)), (i32::MAX, 3, i32::MAX));
    }
}
