//! The node about itself.

use super::View;
use crate::codec::Sink;
use crate::model::Timestamp;
use crate::peer::schedule::Timer;
use crate::peer::wire::NodeInfo;

/// What the node tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDescription {
    /// The node as others know it.
    pub info: NodeInfo,
    /// Network time at which it was started.
    pub started: Timestamp,
}

/// How far the node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeStatus {
    /// Not booted.
    Running,
    /// Boot in progress.
    Booting,
    /// Booted, not synchronised.
    Booted,
    /// Booted, and no partner has a greater height.
    Synchronized,
    /// Booted, but no other node is active.
    NoRemoteNode,
}

impl NodeStatus {
    /// The number on the wire.
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

/// Requests that are being answered, and the last ones that were. None are noted yet.
#[derive(Clone, Copy, Debug)]
pub struct AuditedRequests;

impl View for AuditedRequests {
    fn write(&self, sink: &mut impl Sink) {
        no_list(sink, "outstanding");
        no_list(sink, "most-recent");
    }
}

fn no_list(sink: &mut impl Sink, label: &'static str) {
    sink.list::<()>(label, &[], |_, ()| {});
}

/// The tasks that recur, and how they have gone.
#[derive(Clone, Copy, Debug)]
pub struct Timers<'a>(pub &'a [Timer]);

impl View for Timers<'_> {
    fn write(&self, sink: &mut impl Sink) {
        sink.list("data", self.0, |sink, timer| {
            sink.string("name", Some(timer.task.name()));
            sink.i32("executions", timer.executions as i32);
            sink.i32("successes", timer.successes as i32);
            sink.i32("failures", timer.failures as i32);
            sink.i32("last-delay-time", timer.last_delay.as_millis() as i32);
            sink.i32("last-operation-start-time", timer.last_start.0);
            sink.i32("last-operation-time", timer.last_seconds as i32);
            sink.i32("average-operation-time", timer.average_seconds() as i32);
            sink.i32("is-executing", i32::from(timer.is_executing));
        });
    }
}

/// The node, and the program that it runs.
#[derive(Clone, Copy, Debug)]
pub struct ExtendedInfo<'a> {
    /// The node.
    pub node: &'a NodeDescription,
    /// Network time.
    pub now: Timestamp,
}

impl View for ExtendedInfo<'_> {
    fn write(&self, sink: &mut impl Sink) {
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

/// What the node thinks of its clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockState {
    /// How far the last block is ahead of the clock, in seconds; negative if it is not.
    pub chain_ahead: i32,
    /// How often the clock has jumped since the start.
    pub jumps: u32,
    /// Nothing is harvested, as the clock has jumped lately.
    pub is_distrusted: bool,
}

/// The node's clock, and what the node thinks of it.
#[derive(Clone, Copy, Debug)]
pub struct NodeClock {
    /// Network time.
    pub time: Timestamp,
    /// Whether it can be believed.
    pub state: ClockState,
}

impl View for NodeClock {
    fn write(&self, sink: &mut impl Sink) {
        sink.i32("networkTime", self.time.0);
        sink.i32("chainAheadSeconds", self.state.chain_ahead);
        sink.i64("clockJumps", i64::from(self.state.jumps));
        sink.string(
            "harvesting",
            Some(if self.state.is_distrusted { "waits for the clock" } else { "follows the clock" }),
        );
    }
}
