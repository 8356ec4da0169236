//! What the rooms above the network implement, and what they are handed.

use std::fmt;
use std::net::SocketAddr;
use std::time::Instant;

use super::http::{Reply, Request};

/// One of the sockets the reactor listens on, numbered from 0 in the order of `listen` calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId(pub(super) usize);

/// A connection. Never used twice (short of four billion connections later), so an id kept too
/// long reaches nobody rather than somebody else.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub(super) u64);

impl ConnectionId {
    pub(super) fn new(slot: usize, serial: u32) -> Self {
        Self(u64::from(serial) << 32 | (slot as u64 & 0xffff_ffff))
    }

    pub(super) fn slot(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }

    /// An id made from a number, for tests of services.
    pub fn from_u64(number: u64) -> Self {
        Self(number)
    }

    /// The id as a number.
    pub fn to_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connection {}:{}", self.0 >> 32, self.slot())
    }
}

/// Where a request or websocket comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The listener it came in by.
    pub listener: ListenerId,
    /// The client's address, as the socket gives it.
    pub peer: SocketAddr,
}

/// Something for a websocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// A text message; must be UTF-8.
    Text(Vec<u8>),
    /// End the websocket with this close code and reason. Nothing queued after it is sent.
    Close {
        /// Close code, 1000 to 4999.
        code: u16,
        /// Reason, cut to 123 bytes.
        reason: String,
    },
}

/// What a callback wants sent. It is emptied, in order, right after the callback, so a message to
/// the websocket that caused it goes out before the next one from there is looked at.
#[derive(Debug, Default)]
pub struct Outbox {
    pub(super) items: Vec<(ConnectionId, Outgoing)>,
}

impl Outbox {
    /// Queues anything.
    pub fn push(&mut self, id: ConnectionId, outgoing: Outgoing) {
        self.items.push((id, outgoing));
    }

    /// Queues a text message.
    pub fn text(&mut self, id: ConnectionId, text: Vec<u8>) {
        self.push(id, Outgoing::Text(text));
    }

    /// Queues the end of a websocket.
    pub fn close(&mut self, id: ConnectionId, code: u16, reason: impl Into<String>) {
        let reason = reason.into();
        self.push(id, Outgoing::Close { code, reason });
    }

    /// Takes everything out, for tests of services.
    pub fn drain(&mut self) -> impl Iterator<Item = (ConnectionId, Outgoing)> {
        self.items.drain(..)
    }
}

/// The websocket is gone: closed, dropped for being too slow, or never there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped;

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the websocket is closed or was dropped because its client does not keep up")
    }
}

impl std::error::Error for Dropped {}

/// What answers requests and talks to websockets.
pub trait Service {
    /// Answers one request by filling `reply`, which is an empty answer of status 200.
    ///
    /// Setting `reply.later` puts it off: the same request comes again in the next turn, until it is answered or its
    /// time ([`Limits::request_time`](super::Limits::request_time)) is over.
    ///
    /// Setting `reply.upgrade` (see [`handshake`](super::websocket::handshake)) makes the
    /// connection a websocket. HEAD is answered like GET; the body is left out later.
    fn request(&mut self, caller: Caller, now: Instant, request: &Request<'_>, reply: &mut Reply, outbox: &mut Outbox);

    /// A websocket is open; `tag` is that of its [`Upgrade`](super::websocket::Upgrade).
    fn websocket_opened(&mut self, id: ConnectionId, caller: Caller, tag: u64, now: Instant, outbox: &mut Outbox);

    /// A message has arrived, possibly an empty one. Text is valid UTF-8.
    fn websocket_message(&mut self, id: ConnectionId, message: &[u8], is_text: bool, now: Instant, outbox: &mut Outbox);

    /// The websocket can be sent nothing any more. Comes exactly once for each one opened,
    /// whoever ended it and why.
    fn websocket_closed(&mut self, id: ConnectionId);
}
