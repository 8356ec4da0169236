//! The node about itself.

use super::View;
use crate::codec::text::cut_units;
use crate::codec::{Sink, limits};
use crate::crypto::PublicKey;
use crate::model::{NetworkByte, Timestamp};

/// Where a node is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// How.
    pub protocol: &'static str,
    /// Host name or address.
    pub host: String,
    /// Port of the HTTP interface.
    pub port: i32,
}

/// What the node tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDescription {
    /// The key that it is known by.
    pub public_key: PublicKey,
    /// What people call it.
    pub name: Option<String>,
    /// Where it is reached.
    pub endpoint: Endpoint,
    /// What it runs on.
    pub platform: String,
    /// What whoever booted it calls the program.
    pub application: Option<String>,
    /// Bits of the optional features ([`crate::api::Features::bits`]).
    pub features: u32,
    /// Its network.
    pub network: NetworkByte,
    /// Network time at which it was started.
    pub started: Timestamp,
}

impl NodeDescription {
    /// The version of NIS1 that the node is compatible with, which other nodes look at.
    pub const PROTOCOL_VERSION: &'static str = "0.6.102";
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

impl View for Endpoint {
    fn write(&self, sink: &mut impl Sink) {
        sink.string("protocol", Some(self.protocol));
        sink.string("host", Some(&cut_units(&self.host, limits::TEXT_UNITS)));
        sink.i32("port", self.port);
    }
}

/// The node as others see it.
impl View for NodeDescription {
    fn write(&self, sink: &mut impl Sink) {
        let cut = |text: &Option<String>| text.as_ref().map(|text| cut_units(text, limits::TEXT_UNITS).into_owned());
        sink.object("identity", |sink| {
            sink.bytes("public-key", Some(&self.public_key.0));
            sink.string("name", cut(&self.name).as_deref());
        });
        sink.object("endpoint", |sink| self.endpoint.write(sink));
        sink.object("metaData", |sink| {
            sink.string("version", Some(NodeDescription::PROTOCOL_VERSION));
            sink.string("platform", Some(&self.platform));
            sink.string("application", cut(&self.application).as_deref());
            sink.i32("features", self.features as i32);
            sink.i32("networkId", i32::from(self.network.0 as i8));
        });
    }
}

/// The nodes that are known, by what is known of them. There are none yet.
#[derive(Clone, Copy, Debug)]
pub struct NodeLists;

impl View for NodeLists {
    fn write(&self, sink: &mut impl Sink) {
        ["active", "busy", "inactive", "failure"].into_iter().for_each(|label| no_list(sink, label));
    }
}

/// What the node has experienced with others. There is nothing yet.
#[derive(Clone, Copy, Debug)]
pub struct Experiences<'a>(pub &'a NodeDescription);

impl View for Experiences<'_> {
    fn write(&self, sink: &mut impl Sink) {
        sink.object("node", |sink| self.0.write(sink));
        no_list(sink, "experiences");
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
        sink.object("node", |sink| self.node.write(sink));
        sink.object("nisInfo", |sink| {
            sink.string("application", Some(env!("CARGO_PKG_NAME")));
            sink.string("version", Some(env!("CARGO_PKG_VERSION")));
            sink.string("signer", None);
            sink.i32("startTime", self.node.started.0);
            sink.i32("currentTime", self.now.0);
        });
    }
}

/// The node's clock as others ask for it.
#[derive(Clone, Copy, Debug)]
pub struct NetworkTime {
    /// Network time in milliseconds, at which the request came and is answered.
    pub millis: i64,
}

impl View for NetworkTime {
    fn write(&self, sink: &mut impl Sink) {
        sink.i64("sendTimeStamp", self.millis);
        sink.i64("receiveTimeStamp", self.millis);
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
