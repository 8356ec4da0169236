//! The state of one session.

use std::collections::VecDeque;
use std::time::Duration;

use super::Query;
use super::outlet::Outlet;
use super::registry::Registrations;
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
    pub outlet: Outlet,
    /// Bytes queued in the transport, as accounted.
    pub mail: usize,
    /// When its transport's timer is due.
    pub due: Option<Duration>,
    /// The client whose usage it counts for.
    pub payer: ClientKey,
    /// Decoder of its inbound byte stream.
    pub decoder: Decoder,
    /// Bytes of the decoder, as accounted.
    pub buffered: usize,
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
    pub is_parked: bool,
    /// Its last CONNECT had an `accept-version`.
    names_versions: bool,
}

/// Response to a CONNECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// CONNECTED with this version, or without one if the client named none.
    Version(Option<&'static str>),
    /// No response.
    Silence,
    /// ERROR, then close.
    Unsupported,
}

impl Session {
    /// Creates a session that has not received anything yet.
    pub fn new(name: String, outlet: Outlet, payer: ClientKey, decoder: Decoder) -> Self {
        Self {
            name,
            outlet,
            mail: 0,
            due: None,
            payer,
            decoder,
            buffered: 0,
            is_closing: false,
            silent_since: None,
            subscriptions: Subscriptions::default(),
            registrations: Registrations::default(),
            queries: VecDeque::new(),
            is_parked: false,
            names_versions: false,
        }
    }

    /// Handles a CONNECT with this `accept-version`; an empty value counts as none.
    pub fn connect(&mut self, accept_version: Option<&str>, forgiving: bool) -> Agreement {
        let accept_version = accept_version.filter(|versions| !versions.is_empty());
        self.names_versions = accept_version.is_some();
        let Some(versions) = accept_version else {
            return Agreement::Version(None);
        };
        let accepts = |version: &str| {
            versions.split(',').map(|item| if forgiving { trim(item) } else { item }).any(|item| item == version)
        };
        if accepts("1.2") {
            Agreement::Version(Some("1.2"))
        } else if accepts("1.1") {
            Agreement::Version(Some("1.1"))
        } else if !forgiving {
            Agreement::Silence
        } else if accepts("1.0") {
            Agreement::Version(Some("1.0"))
        } else {
            Agreement::Unsupported
        }
    }

    /// Returns whether this is a legacy client: a plain websocket and no `accept-version`. It gets heights as bare
    /// numbers, and the transactions of the accounts that it registers, without a SUBSCRIBE.
    pub fn is_bare(&self) -> bool {
        self.outlet.is_raw() && !self.names_versions
    }
}

/// Trims blanks from both ends of a header value.
pub fn trim(value: &str) -> &str {
    value.trim_matches([' ', '\t'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::machine::ConnectionId;
    use crate::push::testing::caller;

    fn session() -> Session {
        let payer = ClientKey::of(&caller("10.0.0.1"), 64);
        Session::new("1c884f9d".to_owned(), Outlet::Websocket(ConnectionId(7)), payer, Decoder::default())
    }

    #[test]
    fn the_version_is_the_highest_both_sides_know() {
        use Agreement::{Silence, Unsupported, Version};
        let cases = [
            (None, Version(None), Version(None)),
            (Some(""), Version(None), Version(None)),
            (Some("1.1,1.0"), Version(Some("1.1")), Version(Some("1.1"))),
            (Some("1.0,1.1,1.2"), Version(Some("1.2")), Version(Some("1.2"))),
            (Some("1.0"), Silence, Version(Some("1.0"))),
            (Some(" 1.2"), Silence, Version(Some("1.2"))),
            (Some("1.1, 1.2"), Version(Some("1.1")), Version(Some("1.2"))),
            (Some("1.3"), Silence, Unsupported),
        ];
        for (versions, strict, forgiving) in cases {
            assert_eq!(session().connect(versions, false), strict, "{versions:?}");
            assert_eq!(session().connect(versions, true), forgiving, "{versions:?}");
        }
    }

    #[test]
    fn the_last_connect_decides_whether_a_session_is_bare() {
        let mut session = session();
        assert!(session.is_bare());
        session.connect(Some("1.1"), true);
        assert!(!session.is_bare());
        session.connect(None, true);
        assert!(session.is_bare());
        session.connect(Some("1.1"), true);
        session.connect(Some(""), true);
        assert!(session.is_bare());
    }
}
