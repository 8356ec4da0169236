//! What one session knows: its STOMP state and its subscriptions in order (specification 07 §6).

use super::pattern;
use super::stomp::Decoder;

/// How a session's frames travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One STOMP frame per websocket message.
    Raw,
}

impl Kind {
    /// Wraps an outgoing STOMP frame for the wire.
    pub(super) fn wrap(self, frame: Vec<u8>) -> Vec<u8> {
        match self {
            Kind::Raw => frame,
        }
    }
}

/// A subscription; the pair of id and destination is unique within its session.
#[derive(Debug)]
pub struct Subscription {
    /// The client's id.
    pub id: String,
    /// A topic or a pattern.
    pub destination: String,
    /// Made by `account/subscribe` and not by SUBSCRIBE (§15, D3).
    pub is_implicit: bool,
}

impl Subscription {
    /// What a SUBSCRIBE asks for.
    pub fn explicit(id: String, destination: String) -> Self {
        Self { id, destination, is_implicit: false }
    }

    fn matches(&self, topic: &str) -> bool {
        self.destination == topic
            || (pattern::is_pattern(&self.destination) && pattern::matches(&self.destination, topic))
    }
}

/// One open session.
#[derive(Debug)]
pub struct Session {
    /// First half of each `message-id`.
    pub name: String,
    /// How its frames travel.
    pub kind: Kind,
    /// Its inbound byte stream.
    pub decoder: Decoder,
    /// A close has been asked for: nothing is read from or sent to it any more.
    pub closing: bool,
    /// Its last CONNECT had `accept-version`.
    names_versions: bool,
    subscriptions: Vec<Subscription>,
    next_id: u32,
}

/// What a CONNECT is answered with (§6.1).
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
    pub fn new(name: String, kind: Kind, decoder: Decoder) -> Self {
        Self { name, kind, decoder, closing: false, names_versions: false, subscriptions: Vec::new(), next_id: 0 }
    }

    /// Handles a CONNECT with this `accept-version`.
    pub fn connect(&mut self, accept_version: Option<&str>, forgiving: bool) -> Agreement {
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

    /// Whether the session belongs to the client of the literal interface text, which connects
    /// without headers and expects a bare height (§15, D1).
    pub fn takes_bare_height(&self) -> bool {
        self.kind == Kind::Raw && !self.names_versions
    }

    /// The subscriptions, oldest first.
    pub fn subscriptions(&self) -> &[Subscription] {
        &self.subscriptions
    }

    /// Whether this very subscription exists.
    pub fn has(&self, wanted: &Subscription) -> bool {
        let mut all = self.subscriptions.iter();
        all.any(|held| held.id == wanted.id && held.destination == wanted.destination)
    }

    /// Whether any subscription is to `destination`, literally.
    pub fn holds(&self, destination: &str) -> bool {
        let mut all = self.subscriptions.iter();
        all.any(|held| held.destination == destination)
    }

    /// Whether the session has made a subscription itself.
    pub fn has_explicit(&self) -> bool {
        self.subscriptions.iter().any(|held| !held.is_implicit)
    }

    /// The subscriptions a message on `topic` goes to, oldest first.
    pub fn matching(&self, topic: &str) -> impl Iterator<Item = &Subscription> {
        self.subscriptions.iter().filter(move |held| held.matches(topic))
    }

    /// Adds a subscription that does not exist yet. Only for the hub, which keeps the index.
    pub(super) fn add(&mut self, subscription: Subscription) {
        self.subscriptions.push(subscription);
    }

    /// Removes and returns the subscriptions that `goes` names. Only for the hub.
    pub(super) fn remove(&mut self, goes: impl Fn(&Subscription) -> bool) -> Vec<Subscription> {
        let removed = self.subscriptions.extract_if(.., |held| goes(held));
        removed.collect()
    }

    /// An id for a SUBSCRIBE that has none: `sub-<n>`, not in use (§15, D4).
    pub fn generate_id(&mut self) -> String {
        loop {
            let id = format!("sub-{}", self.next_id);
            self.next_id = self.next_id.wrapping_add(1);
            if !self.subscriptions.iter().any(|held| held.id == id) {
                return id;
            }
        }
    }
}

/// Cuts the blanks off both ends of a header value (§15, D4).
pub fn trim(value: &str) -> &str {
    value.trim_matches([' ', '\t'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Session {
        Session::new("1c884f9d".to_owned(), Kind::Raw, Decoder::default())
    }

    #[test]
    fn the_version_is_the_highest_both_sides_know() {
        use Agreement::{Silence, Unsupported, Version};
        let cases = [
            (None, Version(None), Version(None)),
            (Some("1.1,1.0"), Version(Some("1.1")), Version(Some("1.1"))),
            (Some("1.0,1.1,1.2"), Version(Some("1.2")), Version(Some("1.2"))),
            (Some("1.0"), Silence, Version(Some("1.0"))),
            (Some(" 1.2"), Silence, Version(Some("1.2"))),
            (Some("1.1, 1.2"), Version(Some("1.1")), Version(Some("1.2"))),
            (Some("1.3"), Silence, Unsupported),
            (Some(""), Silence, Unsupported),
        ];
        for (versions, strict, forgiving) in cases {
            assert_eq!(session().connect(versions, false), strict, "{versions:?}");
            assert_eq!(session().connect(versions, true), forgiving, "{versions:?}");
        }
    }

    #[test]
    fn the_last_connect_decides_about_the_bare_height() {
        let mut session = session();
        assert!(session.takes_bare_height());
        session.connect(Some("1.1"), true);
        assert!(!session.takes_bare_height());
        session.connect(None, true);
        assert!(session.takes_bare_height());
    }

    fn explicit(id: &str, destination: &str) -> Subscription {
        Subscription::explicit(id.to_owned(), destination.to_owned())
    }

    #[test]
    fn an_id_and_a_destination_make_a_subscription_only_together() {
        let mut session = session();
        session.add(explicit("a", "/blocks"));
        session.add(explicit("a", "/errors"));
        session.add(explicit("b", "/blocks"));
        assert!(session.has(&explicit("a", "/errors")) && !session.has(&explicit("b", "/errors")));
        assert_eq!(session.remove(|held| held.id == "a").len(), 2);
        assert!(session.holds("/blocks") && !session.holds("/errors"));
    }

    #[test]
    fn generated_ids_skip_those_in_use() {
        let mut session = session();
        session.add(explicit("sub-1", "/blocks"));
        assert_eq!(session.generate_id(), "sub-0");
        assert_eq!(session.generate_id(), "sub-2");
    }

    #[test]
    fn matches_come_in_the_order_of_subscription() {
        let mut session = session();
        for (id, destination) in [("b", "/blocks/*"), ("x", "/blocks"), ("a", "/blocks/new")] {
            session.add(explicit(id, destination));
        }
        let ids = session.matching("/blocks/new").map(|held| held.id.as_str());
        assert_eq!(ids.collect::<Vec<_>>(), ["b", "a"]);
    }
}
