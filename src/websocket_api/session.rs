//! One session, and the websocket that carries its frames.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::Limits;
use super::content::{Content, Item};
use super::publish_job::PublishJob;
use super::sockjs;
use super::stomp::Decoder;
use super::topics::Subscriptions;
use crate::model::Address;
use crate::net::service::{ConnectionId, Dropped, Effects, Message};
use crate::quota::Owner;

/// Estimated memory of an idle session, in bytes.
pub const SESSION_BYTES: usize = 2 * 1024;
/// Estimated memory of a registered address, in the tables of session and broker.
pub const REGISTRATION_BYTES: usize = 160;

/// Id of a session. It is independent of the connection and never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// What keeps an address registered for a session.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registration {
    /// Subscriptions, until they end.
    pub subscriptions: u32,
    /// A query, until the session ends.
    pub by_query: bool,
}

/// One open session.
pub struct Session {
    /// First half of each `message-id`: 1 to 8 lower-case hex digits without padding, or the name given by a SockJS
    /// client.
    pub name: String,
    /// Its websocket.
    pub socket: ConnectionId,
    /// Frames are wrapped into those of SockJS.
    pub is_sockjs: bool,
    /// When something was last sent.
    last_sent: Duration,
    /// When it must be looked at next.
    pub timer: Option<Duration>,
    /// The client whose usage it counts for.
    pub client: Owner,
    /// The bytes and patterns that are counted for it.
    pub counted: (usize, usize),
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
    /// Whether what the first of them needs was read from the disk.
    pub reading: QueryReading,
    /// The unfinished answer to another query.
    pub answer: Option<PublishJob>,
    /// Its frames wait until its query queue has space.
    pub is_suspended: bool,
    /// Its last CONNECT had an `accept-version`.
    pub has_accept_version: bool,
}

/// Whether what the next query of a session needs was read from the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueryReading {
    #[default]
    No,
    /// It is being read.
    Awaited,
    Done,
}

impl Session {
    /// Creates a session that has not received anything yet.
    pub fn new(
        name: String,
        socket: ConnectionId,
        is_sockjs: bool,
        client: Owner,
        frame_bytes: usize,
        now: Duration,
    ) -> Self {
        Self {
            name,
            socket,
            is_sockjs,
            last_sent: now,
            timer: None,
            client,
            counted: (0, 0),
            silent_since: Some(now),
            is_closing: false,
            decoder: Decoder::new(frame_bytes),
            decoder_bytes: 0,
            subscriptions: Subscriptions::default(),
            registrations: BTreeMap::new(),
            queries: VecDeque::new(),
            reading: QueryReading::default(),
            answer: None,
            is_suspended: false,
            has_accept_version: false,
        }
    }

    /// Handles a CONNECT with this `accept-version`; an empty value counts as none. Returns the version for CONNECTED,
    /// which is none if the client named none, or `None` if no version is common.
    pub fn connect(&mut self, accept_version: Option<&str>) -> Option<Option<&'static str>> {
        let accept_version = accept_version.filter(|versions| !versions.is_empty());
        self.has_accept_version = accept_version.is_some();
        let Some(versions) = accept_version else { return Some(None) };
        let accepts = |version: &&str| versions.split(',').any(|item| trim(item) == *version);
        ["1.2", "1.1", "1.0"].into_iter().find(accepts).map(Some)
    }

    /// Returns whether this is a legacy client: a plain websocket and no `accept-version`. It gets heights as bare
    /// numbers, and the transactions of the accounts that it registers, without a SUBSCRIBE.
    pub fn is_legacy_client(&self) -> bool {
        !self.is_sockjs && !self.has_accept_version
    }

    /// Returns the bytes of memory that it holds, estimated generously.
    pub fn held_bytes(&self) -> usize {
        let registrations = self.registrations.len() * REGISTRATION_BYTES;
        let answer = self.answer.as_ref().map_or(0, PublishJob::held_bytes);
        SESSION_BYTES + self.decoder_bytes + registrations + self.subscriptions.bytes + answer
    }

    /// When it must be looked at: it gets a heartbeat, or is closed because of its silence. The end of a closed websocket is
    /// reported by its connection.
    pub fn due(&self, limits: &Limits) -> Option<Duration> {
        let silence = self.silent_since.map(|since| since + limits.first_message);
        self.heartbeat_due(limits).into_iter().chain(silence).min().filter(|_| !self.is_closing)
    }

    /// When its websocket gets a heartbeat.
    pub fn heartbeat_due(&self, limits: &Limits) -> Option<Duration> {
        self.is_sockjs.then(|| self.last_sent + limits.heartbeat)
    }

    /// Sends a STOMP frame: `head` and, if it is a MESSAGE, its body, in the form for a legacy client or not.
    pub fn send(
        &mut self,
        head: &[u8],
        body: Option<(&Content, bool)>,
        now: Duration,
        effects: &mut dyn Effects,
    ) -> Result<(), Dropped> {
        if !self.is_sockjs {
            let body = body.map(|(content, is_legacy_client)| content.for_session(is_legacy_client));
            return self.send_message(Message { head, body, tail: &[] }, now, effects);
        }
        let mut escaped = Vec::with_capacity(2 * head.len());
        escaped.extend_from_slice(sockjs::MESSAGE_START);
        sockjs::escape(&mut escaped, &String::from_utf8_lossy(head));
        let body = body.map(|(content, _)| content.escaped());
        self.send_message(Message { head: &escaped, body, tail: sockjs::MESSAGE_END }, now, effects)
    }

    /// Sends a message of the websocket.
    pub fn send_message(
        &mut self,
        message: Message<'_>,
        now: Duration,
        effects: &mut dyn Effects,
    ) -> Result<(), Dropped> {
        effects.send(self.socket, message)?;
        self.last_sent = now;
        Ok(())
    }

    /// Closes the websocket. That of SockJS also gets a close frame unless `silently`.
    pub fn close(&self, reason: CloseReason, silently: bool, effects: &mut dyn Effects) {
        let needs_frame = self.is_sockjs && !silently;
        if !needs_frame || effects.send(self.socket, Message::of(&sockjs::close_frame(reason))).is_ok() {
            effects.close(self.socket, reason.0, reason.1);
        }
    }
}

/// Trims blanks from both ends of a header value.
pub fn trim(value: &str) -> &str {
    value.trim_matches([' ', '\t'])
}

/// Why a session is closed: a close code and a reason.
pub type CloseReason = (u16, &'static str);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::websocket_api::tests::client;

    fn session() -> Session {
        let owner = Owner::of(&client("10.0.0.1"));
        Session::new("1c884f9d".to_owned(), ConnectionId(7), false, owner, 1_000, Duration::ZERO)
    }

    #[test]
    fn the_version_is_the_highest_both_sides_know() {
        let cases = [
            (None, Some(None)),
            (Some(""), Some(None)),
            (Some("1.1,1.0"), Some(Some("1.1"))),
            (Some("1.0,1.1,1.2"), Some(Some("1.2"))),
            (Some("1.0"), Some(Some("1.0"))),
            (Some(" 1.2"), Some(Some("1.2"))),
            (Some("1.1, 1.2"), Some(Some("1.2"))),
            (Some("1.3"), None),
        ];
        for (versions, expected) in cases {
            assert_eq!(session().connect(versions), expected, "{versions:?}");
        }
    }

    #[test]
    fn the_last_connect_decides_whether_a_session_is_legacy() {
        let mut session = session();
        assert!(session.is_legacy_client());
        session.connect(Some("1.1"));
        assert!(!session.is_legacy_client());
        session.connect(None);
        assert!(session.is_legacy_client());
        session.connect(Some("1.1"));
        session.connect(Some(""));
        assert!(session.is_legacy_client());
    }
}
