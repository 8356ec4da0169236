//! Views of the node itself.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::api::views::View;
use crate::chain::{Reorg, ReorgLog};
use crate::codec::Encoder;
use crate::model::units::EPOCH_UNIX_MILLIS;
use crate::model::{Address, Height, NetworkByte, Timestamp};
use crate::peer::peer_table::{DropReason, Dropped, LastFailure, PeerEntry, State};
use crate::peer::schedule::Timer;
use crate::peer::time_sync::TimeSyncRound;
use crate::peer::wire::{NodeInfo, Score};
use crate::peer::{Manager, RequestRecord, Unpinned};
use time::OffsetDateTime;

/// Description of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDescription {
    /// Node information that peers see.
    pub info: NodeInfo,
    /// Network time of its start.
    pub started: Timestamp,
}

/// Status of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeStatus {
    /// Not booted.
    Running,
    /// Boot in progress.
    Booting,
    /// Booted, not synchronised.
    Booted,
    /// Booted, and no sync peer reports a greater height.
    Synchronized,
    /// Booted, but no other node is active.
    NoRemoteNode,
}

impl NodeStatus {
    /// Returns the code on the wire.
    pub fn code(self) -> i32 {
        match self {
            NodeStatus::Running => 3,
            NodeStatus::Booting => 4,
            NodeStatus::Booted => 5,
            NodeStatus::Synchronized => 6,
            NodeStatus::NoRemoteNode => 7,
        }
    }
}

/// Requests in progress, oldest first, and the latest requests, newest first.
#[derive(Clone, Debug)]
pub struct RequestRecords {
    /// Requests in progress.
    pub outstanding: Vec<RequestRecord>,
    /// Latest requests, answered or not.
    pub latest: Vec<RequestRecord>,
    /// Network time.
    pub now: Timestamp,
}

impl View for RequestRecords {
    fn write(&self, sink: &mut impl Encoder) {
        for (label, history) in [("outstanding", &self.outstanding), ("most-recent", &self.latest)] {
            sink.list(label, history, |sink, audit| {
                sink.i32("id", clamped(audit.number));
                sink.string("host", Some(&audit.host));
                sink.string("path", Some(&audit.path));
                sink.i32("start-time", audit.started.0);
                sink.i32("elapsed-time", self.now.0.saturating_sub(audit.started.0));
            });
        }
    }
}

/// Rounds of time synchronization with peers, oldest first.
#[derive(Clone, Debug)]
pub struct TimeSynchronisations(pub Vec<TimeSyncRound>);

impl View for TimeSynchronisations {
    fn write(&self, sink: &mut impl Encoder) {
        sink.list("data", &self.0, |sink, round| {
            sink.string("dateTime", Some(&date_and_time(round.time)));
            sink.i64("currentTimeOffset", round.offset);
            sink.i64("change", round.change);
        });
    }
}

/// Formats a time as `2015-03-29 00:06:25`, in UTC.
pub fn date_and_time(time: Timestamp) -> String {
    let unix = EPOCH_UNIX_MILLIS / 1000 + i64::from(time.0);
    let at = OffsetDateTime::from_unix_timestamp(unix).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", at.hour(), at.minute(), at.second())
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
fn clamped(number: impl TryInto<i32>) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}

/// The node and its program.
#[derive(Clone, Copy, Debug)]
pub struct ExtendedInfo<'a> {
    /// The node.
    pub node: &'a NodeDescription,
    /// Network time.
    pub now: Timestamp,
}

impl View for ExtendedInfo<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("node", |sink| self.node.info.write(sink));
        sink.object("nisInfo", |sink| {
            sink.string("application", Some(env!("CARGO_PKG_NAME")));
            sink.string("version", Some(env!("CARGO_PKG_VERSION")));
            sink.string("signer", None);
            sink.i32("startTime", self.node.started.0);
            sink.i32("currentTime", self.now.0);
        });
    }
}

/// Reliability of the node's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockState {
    /// Seconds by which the tip is ahead of the clock; negative if it is behind.
    pub chain_ahead: i32,
    /// Number of clock jumps since the start.
    pub jumps: u32,
    /// Harvesting is paused because the clock jumped recently.
    pub is_unreliable: bool,
}

/// The node's clock and its reliability.
#[derive(Clone, Copy, Debug)]
pub struct NodeClock {
    /// Network time.
    pub time: Timestamp,
    /// Reliability.
    pub state: ClockState,
}

impl View for NodeClock {
    fn write(&self, sink: &mut impl Encoder) {
        sink.i32("networkTime", self.time.0);
        sink.i32("chainAheadSeconds", self.state.chain_ahead);
        sink.i64("clockJumps", i64::from(self.state.jumps));
        sink.string(
            "harvesting",
            Some(if self.state.is_unreliable { "waits for the clock" } else { "follows the clock" }),
        );
    }
}

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
        let failures = self.peers.map_or(0, Manager::failures_to_join);
        sink.i32("failuresToJoin", i32::try_from(failures).unwrap_or(i32::MAX));
        sink.i64("clockDifference", self.peers.and_then(|peers| peers.time_sync.clock_difference()).unwrap_or(0));
        let trust: BTreeMap<_, _> = self.peers.into_iter().flat_map(|peers| peers.trust().iter()).collect();
        let known: Vec<_> = self.peers.into_iter().flat_map(|peers| peers.table.iter()).collect();
        sink.list("peers", &known, |sink, (address, peer)| {
            self.write_known(sink, address, peer, trust.get(address).copied());
        });
        let unpinned = self.peers.map_or(&[][..], |peers| &peers.unpinned);
        sink.list("unpinned", unpinned, |sink, Unpinned { endpoint, last_failure: last_trouble }| {
            sink.object("endpoint", |sink| endpoint.write(sink));
            self.write_last_failure(sink, last_trouble.as_ref());
        });
        let dropped: Vec<_> = self.peers.into_iter().flat_map(|peers| peers.table.dropped()).collect();
        sink.list("dropped", &dropped, |sink, dropped| self.write_dropped(sink, dropped));
    }
}

impl PeersReport<'_> {
    fn write_known(&self, sink: &mut impl Encoder, address: &Address, peer: &PeerEntry, trust: Option<f64>) {
        let experience = self.peers.map(|peers| peers.experience(address)).unwrap_or_default();
        sink.string("address", Some(address.as_str()));
        sink.object("node", |sink| peer.info.write(sink));
        sink.string("ip", peer.ip.map(|ip| ip.to_string()).as_deref());
        sink.string("state", Some(state(peer.state)));
        sink.i32("isPreTrusted", i32::from(peer.is_pre_trusted));
        sink.optional("height", peer.height, |sink, height| height.write(sink));
        sink.optional("score", peer.score, |sink, score| Score(score).write(sink));
        sink.optional("lastContact", peer.last_contact, |sink, at| self.write_ago(sink, at));
        sink.optional("trust", trust, |sink, share| sink.f64("share", share));
        sink.u64("successes", experience.successes);
        sink.u64("failures", experience.failures);
        sink.i32("synchronisations", i32::try_from(peer.synchronisations).unwrap_or(i32::MAX));
        self.write_last_failure(sink, peer.last_failure.as_ref());
        sink.optional("askedAgain", peer.retry_at(), |sink, at| {
            sink.u64("inSeconds", at.saturating_sub(self.now).as_secs());
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

/// The latest reorgs, newest first.
pub struct ReorgsReport<'a> {
    /// The reorgs that the node keeps.
    pub reorgs: Option<&'a ReorgLog>,
    /// Network byte, to derive addresses.
    pub network: NetworkByte,
}

impl View for ReorgsReport<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        let all: Vec<&Reorg> = self.reorgs.into_iter().flat_map(ReorgLog::iter).collect();
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

    #[test]
    fn time_synchronisation_rounds_show_date_and_time() {
        let rounds = vec![TimeSyncRound { time: Timestamp(86_400), offset: -3, change: 4 }];
        let text = JsonEncoder::document(|sink| TimeSynchronisations(rounds.clone()).write(sink));
        let expected = r#"{"data":[{"dateTime":"2015-03-30 00:06:25","currentTimeOffset":-3,"change":4}]}"#;
        assert_eq!(String::from_utf8_lossy(&text).trim_end(), expected);
        assert_eq!(date_and_time(Timestamp(i32::MAX)), "2083-04-16 03:20:32");
    }

    #[test]
    fn a_number_that_does_not_fit_becomes_the_largest() {
        let delay = std::time::Duration::from_secs(25 * 86_400);
        assert_eq!((clamped(delay.as_millis()), clamped(3_u64), clamped(u32::MAX)), (i32::MAX, 3, i32::MAX));
    }
}
