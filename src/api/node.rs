//! The node itself: boot, shutdown, status, identity, clock and metrics.

use std::sync::LazyLock;

use super::peer_requests::send_signed;
use super::routes::{Route, get, post};
use super::{ApiError, Command, Format, NodeContext, RequestContext, View};
use crate::budget::cost;
use crate::codec::{Decoder, Encoder, ReadError, Readable, limits};
use crate::crypto::PrivateKey;
use crate::model::{Height, Timestamp};
use crate::net::http::StaticText;
use crate::peer::wire::{CommunicationTimeStamps, Endpoint};
use crate::rules::ValidationResult;

/// Routes.
pub const ROUTES: &[Route] = &[
    get("/node/info", info),
    get("/node/extended-info", extended_info),
    get("/node/clock", clock).own(),
    get("/time-sync/network-time", network_time),
    // Proxies ask it whether the node is there: whatever rate their clients have, the answer is yes.
    get("/heartbeat", heartbeat).uncounted(),
    get("/status", status).while_loading(),
    get("/openapi.json", openapi).while_loading().own(),
    get("/metrics", metrics).metrics().while_loading().own(),
    post("/node/boot", boot).local(),
    get("/shutdown", shut_down).local().while_loading(),
];

/// Result of a check or an action.
pub struct RequestResult {
    /// Kind.
    pub kind: ResultKind,
    /// Code, with a meaning that depends on the kind.
    pub code: i32,
    /// Human-readable text.
    pub message: &'static str,
}

/// Kinds of [`RequestResult`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultKind {
    /// Validation result.
    Validation = 1,
    /// Heartbeat.
    Heartbeat = 2,
    /// Status of the node.
    Status = 4,
}

impl View for RequestResult {
    fn write(&self, sink: &mut impl Encoder) {
        sink.i32("type", self.kind as i32);
        sink.i32("code", self.code);
        sink.string("message", Some(self.message));
    }
}

/// Status of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeStatus {
    /// Its store is rebuilt up to this height.
    Loading(Height),
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
            NodeStatus::Loading(_) => 8,
        }
    }

    /// Returns whether the node has joined its network.
    pub fn is_joined(self) -> bool {
        !matches!(self, NodeStatus::Loading(_) | NodeStatus::Running | NodeStatus::Booting)
    }
}

/// The node and its program.
struct ExtendedInfo<'a, 'n>(&'a NodeContext<'n>);

impl View for ExtendedInfo<'_, '_> {
    fn write(&self, sink: &mut impl Encoder) {
        let NodeContext { info, started, chain, .. } = self.0;
        sink.object("node", |sink| info.write(sink));
        sink.object("nisInfo", |sink| {
            sink.string("application", Some(env!("CARGO_PKG_NAME")));
            sink.string("version", Some(env!("CARGO_PKG_VERSION")));
            sink.string("signer", None);
            sink.i32("startTime", started.0);
            sink.i32("currentTime", chain.now.0);
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

/// The network time and the reliability of the node's clock.
struct NodeClock(Timestamp, ClockState);

impl View for NodeClock {
    fn write(&self, sink: &mut impl Encoder) {
        let NodeClock(time, ClockState { chain_ahead, jumps, is_unreliable }) = *self;
        sink.i32("networkTime", time.0);
        sink.i32("chainAheadSeconds", chain_ahead);
        sink.i64("clockJumps", i64::from(jumps));
        let harvesting = if is_unreliable { "waits for the clock" } else { "follows the clock" };
        sink.string("harvesting", Some(harvesting));
    }
}

/// The identity with which a node joins its network.
pub struct BootRequest {
    /// Private key of the node's identity.
    pub private_key: PrivateKey,
    /// Name of the node.
    pub name: Option<String>,
    /// Endpoint at which peers reach the node.
    pub endpoint: Endpoint,
    /// Name of the program, as the client that boots the node gives it.
    pub application: Option<String>,
}

fn read_text<'a, S: Decoder<'a>>(source: &mut S, label: &'static str) -> Result<Option<String>, ReadError> {
    Ok(source.string(label, limits::MAX_TEXT_UTF16)?.map(|text| text.into_owned()))
}

impl Readable for BootRequest {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let (private_key, name) = source.need_object("identity", |source| {
            Ok((super::harvesting::read_key(source, "private-key")?, read_text(source, "name")?))
        })?;
        let endpoint = source.need_object("endpoint", Endpoint::read)?;
        let application = source.need_object("metaData", |source| read_text(source, "application"))?;
        Ok(BootRequest { private_key, name, endpoint, application })
    }
}

/// `POST /node/boot`
fn boot(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let request: BootRequest = context.body()?;
    if context.node.status != NodeStatus::Running {
        return Err(ApiError::ALREADY_BOOTED);
    }
    context.node.budget.charge(cost::KEY);
    context.command = Some(Command::Boot(request));
    Ok(())
}

/// `GET /shutdown`
fn shut_down(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.command = Some(Command::ShutDown);
    Ok(())
}

/// `GET /node/info`
fn info(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.node.require_joined()?;
    context.response.send(&context.node.info)
}

/// `GET /node/extended-info`
fn extended_info(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.node.require_joined()?;
    context.response.send(&ExtendedInfo(&context.node))
}

/// `GET /node/clock`, which NIS1 does not have: whether the clock is reliable.
fn clock(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let NodeContext { chain, clock, .. } = context.node;
    context.response.send(&NodeClock(chain.now, clock))
}

/// `/time-sync/network-time`: both times are equal, as a request is answered when it arrives.
pub(super) fn network_time(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let millis = context.node.now.network_millis;
    send_signed(context, &CommunicationTimeStamps { send: millis, receive: millis })
}

/// `GET /heartbeat`
fn heartbeat(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.response.send(&RequestResult { kind: ResultKind::Heartbeat, code: 1, message: "ok" })
}

/// `GET /status`
fn status(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let code = context.node.status.code();
    context.response.send(&RequestResult { kind: ResultKind::Status, code, message: "status" })
}

/// `GET /openapi.json`, which NIS1 does not have: a JSON text that clients must revalidate.
fn openapi(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    match context.response.accept.format {
        Some(Format::Json) => DOCUMENT.send("no-cache", context.request, context.response.response),
        _ => context.response.container_error(406),
    }
    context.node.budget.charge(cost::bytes(context.response.response.body.len()));
    Ok(())
}

/// `GET /metrics`, which NIS1 does not have: all metrics in the format of Prometheus.
fn metrics(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.command = Some(Command::SendMetrics);
    Ok(())
}

/// The OpenAPI 3.0 document. The version is that of the program, and the validation results are those of the rules.
pub static OPENAPI: LazyLock<String> = LazyLock::new(|| {
    let codes: Vec<_> = ValidationResult::ALL.iter().map(|result| result.code()).collect();
    let names: Vec<_> = ValidationResult::ALL.iter().map(|result| result.name()).collect();
    let text = include_str!("openapi.json").replace("\"RESULT_CODES\"", &format!("{codes:?}"));
    text.replace("\"RESULT_NAMES\"", &format!("{names:?}")).replace("NISD_VERSION", env!("CARGO_PKG_VERSION"))
});

static DOCUMENT: LazyLock<StaticText> = LazyLock::new(|| StaticText::new("application/json", OPENAPI.as_str()));

#[cfg(test)]
mod tests;
