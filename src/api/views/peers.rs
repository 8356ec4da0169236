//! View of the peer table, for the operator.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{NodeStatus, View};
use crate::codec::Encoder;
use crate::model::{Address, Height};
use crate::peer::peer_table::{DropReason, Dropped, LastFailure, PeerEntry, State};
use crate::peer::wire::{NodeInfo, Score};
use crate::peer::{Joined, Manager, PeerInfo, Unpinned};

/// The whole peer table, and the state of this node.
pub struct PeersReport<'a> {
    /// Status of this node.
    pub status: NodeStatus,
    /// This node as peers see it.
    pub node: &'a NodeInfo,
    /// Address of this node's account.
    pub address: Address,
    /// Chain height.
    pub height: Height,
    /// Chain score.
    pub score: i128,
    /// The peer table; `None` if the node does not join its network.
    pub peers: Option<&'a Manager>,
    /// Time since the node started.
    pub now: Duration,
}

impl View for PeersReport<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.i32("status", self.status.code());
        sink.string("address", Some(self.address.as_str()));
        sink.object("node", |sink| self.node.write(sink));
        sink.u64("height", self.height.0);
        sink.object("score", |sink| Score(self.score).write(sink));
        // Number of rounds in which no peer has reported this node's own address.
        let failures = match self.peers.map(Manager::joined) {
            Some(Joined::NotYet { failures }) => failures,
            Some(Joined::Yes) | None => 0,
        };
        sink.i32("failuresToJoin", i32::try_from(failures).unwrap_or(i32::MAX));
        sink.i64("clockDifference", self.peers.and_then(|peers| peers.time().clock_difference()).unwrap_or(0));
        let trust: BTreeMap<_, _> = self.peers.into_iter().flat_map(|peers| peers.trust().iter()).collect();
        let known: Vec<_> = self.peers.into_iter().flat_map(|peers| peers.table().iter()).collect();
        sink.list("peers", &known, |sink, (address, peer)| {
            self.write_known(sink, address, peer, trust.get(address).copied());
        });
        let unpinned = self.peers.map(Manager::unpinned).unwrap_or_default();
        sink.list("unpinned", unpinned, |sink, Unpinned { endpoint, last_failure: last_trouble }| {
            sink.object("endpoint", |sink| endpoint.write(sink));
            self.write_last_failure(sink, last_trouble.as_ref());
        });
        let dropped: Vec<_> = self.peers.into_iter().flat_map(|peers| peers.table().dropped()).collect();
        sink.list("dropped", &dropped, |sink, dropped| self.write_dropped(sink, dropped));
    }
}

impl PeersReport<'_> {
    fn write_known(&self, sink: &mut impl Encoder, address: &Address, peer: &PeerEntry<PeerInfo>, trust: Option<f64>) {
        let experience = self.peers.map(|peers| peers.experience(address)).unwrap_or_default();
        sink.string("address", Some(address.as_str()));
        sink.object("node", |sink| peer.data.info.write(sink));
        sink.string("ip", peer.ip.map(|ip| ip.to_string()).as_deref());
        sink.string("state", Some(state(peer.state)));
        sink.i32("isPreTrusted", i32::from(peer.is_pre_trusted));
        sink.optional("height", peer.data.height, |sink, height| height.write(sink));
        sink.optional("score", peer.data.score, |sink, score| Score(score).write(sink));
        sink.optional("lastContact", peer.last_contact, |sink, at| self.write_ago(sink, at));
        sink.optional("trust", trust, |sink, share| sink.f64("share", share));
        sink.u64("successes", experience.successes());
        sink.u64("failures", experience.failures());
        sink.i32("synchronisations", i32::try_from(peer.synchronisations).unwrap_or(i32::MAX));
        self.write_last_failure(sink, peer.last_failure.as_ref());
        sink.optional("askedAgain", peer.retry_at(), |sink, at| {
            sink.u64("inSeconds", at.saturating_sub(self.now).as_secs());
        });
    }

    fn write_dropped(&self, sink: &mut impl Encoder, dropped: &Dropped<PeerInfo>) {
        sink.string("address", Some(dropped.address.as_str()));
        sink.object("node", |sink| dropped.node.data.info.write(sink));
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
        sink.u64("secondsAgo", self.now.saturating_sub(at).as_secs());
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
