//! The state of one session.

use std::collections::VecDeque;
use std::time::Duration;

use super::Query;
use super::registry::Registrations;
use super::session_transport::SessionTransport;
use super::stomp::Decoder;
use super::subscriptions::Subscriptions;
use crate::net::ClientKey;

/// Id of a session. It is independent of the connection and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// One open session.
#[derive(Debug)]
pub struct Session {
    /// First half of each `message-id`: 1 to 8 lower-case hex digits without padding, or the name given by a SockJS
    /// client.
    pub name: String,
    /// Carries its frames to the client.
    pub transport: SessionTransport,
    /// Bytes queued in the transport, as accounted.
    pub queued_bytes: usize,
    /// When its transport's timer is due.
    pub timer: Option<Duration>,
    /// The client whose usage it counts for.
    pub client: ClientKey,
    /// Decoder of its inbound byte stream.
    pub decoder: Decoder,
    /// Bytes of the decoder, as accounted.
    pub decoder_bytes: usize,
    /// It has ended: nothing is read from it or sent to it any more.
    pub is_closing: bool,
    /// When it was opened, until its first message.
    pub silent_since: Option<Duration>,
    /// Its subscriptions.
    pub subscriptions: Subscriptions,
    /// Its registered addresses.
    pub registrations: Registrations,
    /// Its queries that are not answered yet.
    pub queries: VecDeque<Query>,
    /// Its frames wait until its query queue has space.
    pub is_suspended: bool,
    /// Its last CONNECT had an `accept-version`.
    has_accept_version: bool,
}

/// Response to a CONNECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectResponse {
    /// CONNECTED with this version, or without one if the client named none.
    Version(Option<&'static str>),
    /// No response.
    Ignore,
    /// ERROR, then close.
    Unsupported,
}

impl Session {
    /// Creates a session that has not received anything yet.
    pub fn new(name: String, transport: SessionTransport, client_key: ClientKey, decoder: Decoder) -> Self {
        Self {
            name,
            transport,
            queued_bytes: 0,
            timer: None,
            client: client_key,
            decoder,
            decoder_bytes: 0,
            is_closing: false,
            silent_since: None,
            subscriptions: Subscriptions::default(),
            registrations: Registrations::default(),
            queries: VecDeque::new(),
            is_suspended: false,
            has_accept_version: false,
        }
    }

    /// Handles a CONNECT with this `accept-version`; an empty value counts as none.
    pub fn connect(&mut self, accept_version: Option<&str>, lenient: bool) -> ConnectResponse {
        let accept_version = accept_version.filter(|versions| !versions.is_empty());
        self.has_accept_version = accept_version.is_some();
        let Some(versions) = accept_version else {
            return ConnectResponse::Version(None);
        };
        let accepts = |version: &str| {
            versions.split(',').map(|item| if lenient { trim(item) } else { item }).any(|item| item == version)
        };
        if accepts("1.2") {
            ConnectResponse::Version(Some("1.2"))
        } else if accepts("1.1") {
            ConnectResponse::Version(Some("1.1"))
        } else if !lenient {
            ConnectResponse::Ignore
        } else if accepts("1.0") {
            ConnectResponse::Version(Some("1.0"))
        } else {
            ConnectResponse::Unsupported
        }
    }

    /// Returns whether this is a legacy client: a plain websocket and no `accept-version`. It gets heights as bare
    /// numbers, and the transactions of the accounts that it registers, without a SUBSCRIBE.
    pub fn is_legacy_client(&self) -> bool {
        self.transport.is_raw() && !self.has_accept_version
    }
}

/// Trims blanks from both ends of a header value.
pub fn trim(value: &str) -> &str {
    value.trim_matches([' ', '\t'])
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
            SessionTransport::Websocket(ConnectionId(7)),
            client_key,
            Decoder::default(),
        )
    }

    #[test]
    fn the_version_is_the_highest_both_sides_know() {
        use ConnectResponse::{Ignore, Unsupported, Version};
        let cases = [
            (None, Version(None), Version(None)),
            (Some(""), Version(None), Version(None)),
            (Some("1.1,1.0"), Version(Some("1.1")), Version(Some("1.1"))),
            (Some("1.0,1.1,1.2"), Version(Some("1.2")), Version(Some("1.2"))),
            (Some("1.0"), Ignore, Version(Some("1.0"))),
            (Some(" 1.2"), Ignore, Version(Some("1.2"))),
            (Some("1.1, 1.2"), Version(Some("1.1")), Version(Some("1.2"))),
            (Some("1.3"), Ignore, Unsupported),
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
