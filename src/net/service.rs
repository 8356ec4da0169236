//! Interface between the reactor and the service above it. The service is handed [`Event`]s and the time, and acts
//! through [`Effects`]. A simulation is another reactor for the same service.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use thiserror::Error;

use super::fetch::{FetchError, FetchId, FetchRequest, FetchResponse};
use super::http::{MatchedRoute, Request, Response};
use super::metrics::Metrics;
use super::send_queue::SharedBytes;

/// A listening socket, numbered from 0 by the caller of `listen`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId(pub usize);

/// An accepted connection. Ids are not reused (for four billion connections), so a stale id addresses no other
/// connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

impl ConnectionId {
    pub(super) fn new(slot: usize, serial: u32) -> Self {
        Self(u64::from(serial) << 32 | (slot as u64 & 0xffff_ffff))
    }

    pub(super) fn slot(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connection {}:{}", self.0 >> 32, self.slot())
    }
}

/// The current time by two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopTime {
    /// Unix time in milliseconds. The system clock can be set back.
    pub unix_millis: i64,
    /// Monotonic time since the node was started.
    pub monotonic: Duration,
}

/// The remote client that made a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// Listener that accepted its connection.
    pub listener: ListenerId,
    /// Address of the client: the peer of the connection, or the address given by a trusted proxy. IPv4-mapped
    /// addresses are IPv4.
    pub address: IpAddr,
    /// The request has headers of a proxy, true or not, or comes from a trusted proxy. Its address gives no rights.
    pub is_forwarded: bool,
    /// The request was forwarded, but by an untrusted proxy or without a client address. `address` is the proxy; the
    /// client is unknown, and the node must not connect back to it.
    pub is_unidentified: bool,
    /// The request has local access ([`Service::is_local`]): it counts for this machine, and is exempt from the limits on
    /// request rate and work. No connection has it before its first request.
    pub is_local: bool,
}

impl Client {
    /// Returns the client at the other end of a connection, without a proxy.
    pub fn direct(listener: ListenerId, address: IpAddr) -> Client {
        Client { listener, address, is_forwarded: false, is_unidentified: false, is_local: false }
    }
}

/// A request and its response.
#[derive(Debug)]
pub struct Exchange<'a> {
    /// The connection, for [`Effects::resume`].
    pub connection: ConnectionId,
    /// The client.
    pub client: Client,
    /// The request; the same each time the exchange is resumed, but without its body after [`Progress::Streaming`].
    pub request: &'a Request<'a>,
    /// The response. A resumed exchange has it as the service left it, less the chunks already sent.
    pub response: &'a mut Response,
    /// The exchange returned [`Progress::Yield`], [`Progress::Suspended`] or [`Progress::Streaming`] before.
    pub is_resumed: bool,
    /// The client exceeds its request rate; the response should be 429.
    pub is_rate_limited: bool,
}

/// An event for the service.
#[derive(Debug)]
pub enum Event<'a> {
    /// A complete request has arrived, or is resumed.
    Request(Exchange<'a>),
    /// A connection has become a websocket.
    WebSocketOpened {
        /// The websocket.
        socket: ConnectionId,
        /// The client.
        client: Client,
    },
    /// A websocket message has arrived. It may be empty; text is valid UTF-8.
    WebSocketMessage {
        /// The websocket.
        socket: ConnectionId,
        /// The complete message.
        message: &'a [u8],
        /// The message was sent as text, not as binary.
        is_text: bool,
    },
    /// Processing of a websocket message continues: it returned [`Progress::Yield`], or [`Progress::Suspended`] and was
    /// resumed. No further message of the websocket is delivered before it is done.
    WebSocketResumed {
        /// The websocket.
        socket: ConnectionId,
    },
    /// A websocket has ended, by whichever side, or the connection of an unfinished, suspended or streaming request has
    /// closed. Delivered exactly once for each.
    Disconnected {
        /// The connection.
        connection: ConnectionId,
    },
    /// A request to another server has completed.
    FetchCompleted {
        /// The request.
        fetch: FetchId,
        /// The response or the error.
        result: Result<FetchResponse, FetchError>,
    },
    /// Time for background work and for timers of the service.
    Tick {
        /// Units of work that may be done, each about a microsecond.
        budget: u32,
        /// Duration of the previous such call.
        last_tick: Duration,
    },
}

/// How far the service got with a request or message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Done; the response is complete. Also returned for all other events.
    Done,
    /// Yields: resumed in the client's next turn. If [`Response::is_streaming`] is set, the body so far is sent as a chunk, and
    /// the request is resumed when the client has taken most of the output.
    Yield,
    /// Suspended until [`Effects::resume`].
    Suspended,
    /// Like `Suspended`, for a request whose client waits by design. Only the time without any output is limited
    /// ([`Limits::websocket_idle`](super::Limits::websocket_idle)), and the connection closes when the client closes
    /// its side. If [`Response::is_streaming`] is set, the body so far is sent as a chunk. For a websocket message, the same as
    /// `Suspended`.
    Streaming,
}

/// A message for a websocket in up to three parts, which together must be UTF-8.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// First part, for this websocket only.
    pub head: &'a [u8],
    /// Part shared by many websockets, held once.
    pub body: Option<&'a SharedBytes>,
    /// Last part, for this websocket only.
    pub tail: &'a [u8],
}

impl<'a> Message<'a> {
    /// Returns a message of one part.
    pub fn of(text: &'a [u8]) -> Message<'a> {
        Message { head: text, body: None, tail: &[] }
    }

    /// Returns the bytes of all parts.
    pub fn len(&self) -> usize {
        self.head.len() + self.body.map_or(0, |body| body.len()) + self.tail.len()
    }

    /// Returns whether the message is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The websocket is gone: closed, dropped because its client was too slow, or never there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the websocket is closed or was dropped because its client does not keep up")]
pub struct Dropped;

/// Actions that a service can take while it handles an event.
pub trait Effects {
    /// Queues a text message for a websocket. Fails if the websocket is closed, or is dropped now because its queue is
    /// full ([`Limits::backlog_bytes`](super::Limits::backlog_bytes)).
    fn send(&mut self, socket: ConnectionId, message: Message<'_>) -> Result<(), Dropped>;

    /// Returns the bytes queued for a websocket.
    fn backlog(&self, socket: ConnectionId) -> usize;

    /// Closes a websocket with a close code (1000 to 4999) and a reason, after its queued output. [`Event::Disconnected`]
    /// follows.
    fn close(&mut self, socket: ConnectionId, code: u16, reason: &str);

    /// Resumes a suspended or streaming request or message. No effect on other connections, including the one whose event is
    /// being handled.
    fn resume(&mut self, connection: ConnectionId);

    /// Charges units of work to a connection and its client. The service charges the cost of handling an event to the
    /// event's connection.
    fn charge(&mut self, connection: ConnectionId, units: u32);

    /// Sends a request to another server. [`Event::FetchCompleted`] delivers the outcome exactly once, unless the request is
    /// cancelled. A request whose id is in use fails with [`FetchError::Busy`].
    fn fetch(&mut self, id: FetchId, request: FetchRequest);

    /// Cancels a request to another server; its outcome is not delivered.
    fn cancel(&mut self, fetch: FetchId);

    /// Requests an [`Event::Tick`] at a time ([`LoopTime::monotonic`]) at the latest, at once if that has passed. Each turn
    /// clears earlier requests.
    fn wake_at(&mut self, monotonic: Duration);

    /// Returns the metrics of the reactor; all zero by default.
    fn metrics(&self) -> Metrics {
        Metrics::default()
    }
}

/// A state machine driven by events, which acts through [`Effects`].
pub trait Service {
    /// Handles one event.
    fn handle(&mut self, event: Event<'_>, now: LoopTime, effects: &mut dyn Effects) -> Progress;

    /// Returns whether a request has local access. Called for each complete request.
    fn is_local(&self, _client: &Client, _request: &Request<'_>) -> bool {
        false
    }

    /// Finds the route of a request. Called once for each, when its head is complete.
    fn route(&self, listener: ListenerId, method: &str, path: &str) -> MatchedRoute;
}
