//! One session, and the transport that carries its frames to its client.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::Limits;
use super::content::{Content, Item};
use super::sockjs::{self, PollQueue};
use super::stomp::Decoder;
use super::topics::Subscriptions;
use crate::model::Address;
use crate::net::ClientKey;
use crate::net::service::{ConnectionId, Dropped, Effects, Message};

/// Estimated memory of an idle session, in bytes.
pub const SESSION_BYTES: usize = 2 * 1024;
/// Estimated memory of a registered address, in the tables of session and broker.
pub const REGISTRATION_BYTES: usize = 160;
/// Bytes copied per work unit.
const BYTES_PER_UNIT: usize = 4 * 1024;

/// Id of a session. It is independent of the connection and never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// Resources that one session, or all sessions of one client, use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of memory, estimated generously.
    pub bytes: usize,
    /// Subscriptions to patterns.
    pub patterns: usize,
}

/// What keeps an address registered for a session.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registration {
    /// Subscriptions, until they end.
    pub subscriptions: u32,
    /// A query, until the session ends.
    pub by_query: bool,
}

/// One open session.
#[derive(Debug)]
pub struct Session {
    /// First half of each `message-id`: 1 to 8 lower-case hex digits without padding, or the name given by a SockJS
    /// client.
    pub name: String,
    /// Carries its frames to the client.
    pub transport: SessionTransport,
    /// When it must be looked at next.
    pub timer: Option<Duration>,
    /// The client whose usage it counts for.
    pub client: ClientKey,
    /// Its part of that usage.
    pub usage: Usage,
    /// Time of its opening or last message.
    pub last_message: Duration,
    /// When it was opened, until its first message.
    pub silent_since: Option<Duration>,
    /// It has ended: nothing is read from it or sent to it any more.
    pub is_closing: bool,
    /// Decoder of its inbound byte stream.
    pub decoder: Decoder,
    /// Memory of the decoder beyond [`SESSION_BYTES`], as counted.
    pub decoder_bytes: usize,
    /// Its subscriptions.
    pub subscriptions: Subscriptions,
    /// Its registered addresses.
    pub registrations: BTreeMap<Address, Registration>,
    /// Its queries that are not answered yet.
    pub queries: VecDeque<Item>,
    /// Its frames wait until its query queue has space.
    pub is_suspended: bool,
    /// Its last CONNECT had an `accept-version`.
    pub has_accept_version: bool,
}

impl Session {
    /// Creates a session that has not received anything yet.
    pub fn new(name: String, transport: SessionTransport, client: ClientKey, decoder: Decoder, now: Duration) -> Self {
        Self {
            name,
            transport,
            timer: None,
            client,
            usage: Usage::default(),
            last_message: now,
            silent_since: Some(now),
            is_closing: false,
            decoder,
            decoder_bytes: 0,
            subscriptions: Subscriptions::default(),
            registrations: BTreeMap::new(),
            queries: VecDeque::new(),
            is_suspended: false,
            has_accept_version: false,
        }
    }

    /// Handles a CONNECT with this `accept-version`; an empty value counts as none. Returns the version for CONNECTED,
    /// which is none if the client named none, or `None` if no version is common.
    pub fn connect(&mut self, accept_version: Option<&str>, lenient: bool) -> Option<Option<&'static str>> {
        let accept_version = accept_version.filter(|versions| !versions.is_empty());
        self.has_accept_version = accept_version.is_some();
        let Some(versions) = accept_version else { return Some(None) };
        let accepts = |version: &&str| {
            versions.split(',').map(|item| if lenient { trim(item) } else { item }).any(|item| item == *version)
        };
        let supported = if lenient { &["1.2", "1.1", "1.0"][..] } else { &["1.2", "1.1"] };
        supported.iter().copied().find(accepts).map(Some)
    }

    /// Returns whether this is a legacy client: a plain websocket and no `accept-version`. It gets heights as bare
    /// numbers, and the transactions of the accounts that it registers, without a SUBSCRIBE.
    pub fn is_legacy_client(&self) -> bool {
        self.transport.is_raw() && !self.has_accept_version
    }

    /// Adds up what the session uses.
    pub fn current_usage(&self) -> Usage {
        if self.is_closing {
            return Usage::default();
        }
        let registrations = self.registrations.len() * REGISTRATION_BYTES;
        let bytes = SESSION_BYTES + self.decoder_bytes + self.transport.held_bytes() + registrations;
        Usage { bytes: bytes + self.subscriptions.bytes, patterns: self.subscriptions.pattern_count() }
    }

    /// When the session must be looked at: its transport is due, or it is closed because of its silence. The end of a
    /// closed websocket is reported by its connection.
    pub fn due(&self, limits: &Limits) -> Option<Duration> {
        if self.is_closing && self.transport.socket().is_some() {
            return None;
        }
        let silence = self.silent_since.map(|since| since + limits.first_message);
        self.transport.due(limits).into_iter().chain(silence).min()
    }
}

/// Trims blanks from both ends of a header value.
pub fn trim(value: &str) -> &str {
    value.trim_matches([' ', '\t'])
}

/// The transport of a session.
#[derive(Debug)]
pub enum SessionTransport {
    /// A websocket, on which each frame is one message.
    Websocket {
        /// The websocket.
        socket: ConnectionId,
        /// When the last frame was sent, if each frame is wrapped into a SockJS frame.
        sockjs: Option<Duration>,
    },
    /// A queue from which the client fetches by HTTP requests.
    PollQueue(Box<PollQueue>),
}

use SessionTransport::Websocket;

impl SessionTransport {
    /// Returns whether it is a plain websocket.
    pub fn is_raw(&self) -> bool {
        matches!(self, Websocket { sockjs: None, .. })
    }

    /// Returns the websocket, if there is one.
    pub fn socket(&self) -> Option<ConnectionId> {
        match self {
            Websocket { socket, .. } => Some(*socket),
            Self::PollQueue(_) => None,
        }
    }

    /// Returns the queue, if the client fetches by requests.
    pub fn poll_queue(&mut self) -> Option<&mut PollQueue> {
        match self {
            Websocket { .. } => None,
            Self::PollQueue(queue) => Some(queue),
        }
    }

    /// Returns all connections that currently carry data of the session.
    pub fn connections(&self) -> Vec<ConnectionId> {
        match self {
            Websocket { socket, .. } => vec![*socket],
            Self::PollQueue(queue) => queue.connections().collect(),
        }
    }

    /// Returns the connection whose messages are being read.
    pub fn reading_connection(&self) -> Option<ConnectionId> {
        match self {
            Websocket { socket, .. } => Some(*socket),
            Self::PollQueue(queue) => queue.sender,
        }
    }

    /// Sends a STOMP frame: `head` and, if it is a MESSAGE, its body, in the form for a legacy client or not. Returns the
    /// work units beyond the usual cost.
    pub fn send(
        &mut self,
        head: &[u8],
        body: Option<(&Content, bool)>,
        now: Duration,
        max_backlog: usize,
        effects: &mut dyn Effects,
    ) -> Result<u32, Dropped> {
        let escaped = |start: &[u8]| {
            let mut out = Vec::with_capacity(2 * head.len());
            out.extend_from_slice(start);
            sockjs::escape(&mut out, &String::from_utf8_lossy(head));
            out
        };
        match self {
            Websocket { socket, sockjs: None } => {
                let body = body.map(|(content, is_legacy_client)| content.for_session(is_legacy_client));
                effects.send(*socket, Message { head, body, tail: &[] })?;
                Ok(0)
            }
            Websocket { socket, sockjs: Some(last_sent) } => {
                let body = body.map(|(content, _)| content.escaped());
                let head = escaped(sockjs::MESSAGE_START);
                effects.send(*socket, Message { head: &head, body, tail: sockjs::MESSAGE_END })?;
                *last_sent = now;
                Ok(0)
            }
            Self::PollQueue(queue) => {
                let body = body.map_or(&[][..], |(content, _)| content.escaped());
                let message = [&escaped(b"\""), body, b"\""].concat();
                let units = message.len() / BYTES_PER_UNIT;
                let queued = queue.push(message.into(), max_backlog, now);
                queue.receiver.into_iter().for_each(|receiver| effects.resume(receiver));
                queued?;
                Ok(u32::try_from(units).unwrap_or(u32::MAX))
            }
        }
    }

    /// Closes the transport with a code and a reason. A SockJS websocket also gets a close frame unless `silently`.
    pub fn close(&mut self, code: u16, reason: &str, silently: bool, now: Duration, effects: &mut dyn Effects) {
        match self {
            Websocket { socket, sockjs } => {
                let needs_frame = sockjs.is_some() && !silently;
                if !needs_frame || effects.send(*socket, Message::of(&sockjs::close_frame(code, reason))).is_ok() {
                    effects.close(*socket, code, reason);
                }
            }
            Self::PollQueue(queue) => {
                queue.close(code, reason, now);
                queue.connections().for_each(|connection| effects.resume(connection));
            }
        }
    }

    /// Charges the client with work.
    pub fn charge(&mut self, units: u32, effects: &mut dyn Effects) {
        match self {
            Websocket { socket, .. } => effects.charge(*socket, units),
            Self::PollQueue(queue) => match queue.receiver.or(queue.sender) {
                Some(connection) => effects.charge(connection, units),
                None => queue.defer_cost(units),
            },
        }
    }

    /// Bytes that wait for the client.
    pub fn backlog(&self, effects: &dyn Effects) -> usize {
        match self {
            Websocket { socket, .. } => effects.backlog(*socket),
            Self::PollQueue(queue) => {
                queue.message_bytes + queue.receiver.map_or(0, |receiver| effects.backlog(receiver))
            }
        }
    }

    /// Bytes queued in the transport itself.
    pub fn held_bytes(&self) -> usize {
        match self {
            Websocket { .. } => 0,
            Self::PollQueue(queue) => queue.message_bytes,
        }
    }

    /// When the transport needs a heartbeat or times out.
    pub fn due(&self, limits: &Limits) -> Option<Duration> {
        match self {
            Websocket { sockjs, .. } => sockjs.map(|last_sent| last_sent + limits.heartbeat),
            Self::PollQueue(queue) => Some(queue.due(limits.heartbeat, limits.disconnect_delay)),
        }
    }

    /// Runs what is due. Returns false if the session has timed out, and an error if its websocket is gone.
    pub fn on_timer(&mut self, now: Duration, effects: &mut dyn Effects) -> Result<bool, Dropped> {
        match self {
            Websocket { socket, sockjs } => {
                if let Some(last_sent) = sockjs {
                    effects.send(*socket, Message::of(sockjs::HEARTBEAT))?;
                    *last_sent = now;
                }
                Ok(true)
            }
            Self::PollQueue(queue) => {
                let Some(receiver) = queue.receiver else { return Ok(false) };
                queue.request_heartbeat(now);
                effects.resume(receiver);
                Ok(true)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::service::ConnectionId;
    use crate::websocket_api::testing::client;

    fn session() -> Session {
        let client_key = ClientKey::of(&client("10.0.0.1"), 64);
        Session::new(
            "1c884f9d".to_owned(),
            Websocket { socket: ConnectionId(7), sockjs: None },
            client_key,
            Decoder::default(),
            Duration::ZERO,
        )
    }

    #[test]
    fn the_version_is_the_highest_both_sides_know() {
        let cases = [
            (None, Some(None), Some(None)),
            (Some(""), Some(None), Some(None)),
            (Some("1.1,1.0"), Some(Some("1.1")), Some(Some("1.1"))),
            (Some("1.0,1.1,1.2"), Some(Some("1.2")), Some(Some("1.2"))),
            (Some("1.0"), None, Some(Some("1.0"))),
            (Some(" 1.2"), None, Some(Some("1.2"))),
            (Some("1.1, 1.2"), Some(Some("1.1")), Some(Some("1.2"))),
            (Some("1.3"), None, None),
        ];
        for (versions, strict, lenient) in cases {
            assert_eq!(session().connect(versions, false), strict, "{versions:?}");
            assert_eq!(session().connect(versions, true), lenient, "{versions:?}");
        }
    }

    #[test]
    fn the_last_connect_decides_whether_a_session_is_legacy() {
        let mut session = session();
        assert!(session.is_legacy_client());
        session.connect(Some("1.1"), true);
        assert!(!session.is_legacy_client());
        session.connect(None, true);
        assert!(session.is_legacy_client());
        session.connect(Some("1.1"), true);
        session.connect(Some(""), true);
        assert!(session.is_legacy_client());
    }
}
