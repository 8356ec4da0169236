//! What one session knows.

use std::collections::VecDeque;
use std::time::Duration;

use super::Query;
use super::outlet::Outlet;
use super::registry::Registrations;
use super::stomp::Decoder;
use super::subscriptions::Subscriptions;
use crate::net::ClientKey;

/// A session. It is not its connection, and its number is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// One open session.
#[derive(Debug)]
pub struct Session {
    /// First half of each `message-id`: 1 to 8 lower-case hex digits, without padding, or what a client of SockJS calls
    /// the session.
    pub name: String,
    /// Where its frames go.
    pub outlet: Outlet,
    /// Bytes that wait there and are in the books.
    pub mail: usize,
    /// When its outlet is looked after next.
    pub due: Option<Duration>,
    /// Who answers for what it takes.
    pub payer: ClientKey,
    /// Its inbound byte stream.
    pub decoder: Decoder,
    /// Bytes of the byte stream that are in the books.
    pub buffered: usize,
    /// It has come to its end: nothing is read from or sent to it any more.
    pub is_closing: bool,
    /// When it was opened, until its first message.
    pub silent_since: Option<Duration>,
    /// What it is subscribed to.
    pub subscriptions: Subscriptions,
    /// What it has registered.
    pub registrations: Registrations,
    /// What it has asked for and was not told yet.
    pub queries: VecDeque<Query>,
    /// Its frames wait until there is room for queries.
    pub is_parked: bool,
    /// Its last CONNECT named versions.
    names_versions: bool,
}

/// What a CONNECT is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// CONNECTED with this version, or without one if the client named none.
    Version(Option<&'static str>),
    /// No reply.
    Silence,
    /// ERROR and close.
    Unsupported,
}

impl Session {
    /// A session that has not received anything yet.
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

    /// Handles a CONNECT with this `accept-version`. An empty one counts as none.
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

    /// Whether this is a raw session that named no version. Such a client is told bare heights, and the transactions
    /// of the accounts that it registers without a SUBSCRIBE.
    pub fn is_bare(&self) -> bool {
        self.outlet.is_raw() && !self.names_versions
    }
}

/// Cuts the blanks off both ends of a header value.
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
