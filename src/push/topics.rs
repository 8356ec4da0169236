//! Who is subscribed where (specification 07 §7): the broker's index of destinations.

use std::collections::{BTreeMap, BTreeSet};

use super::pattern;

/// A client may subscribe to destinations with these prefixes, compared as plain text (§1).
const BROKER_PREFIXES: [&str; 7] =
    ["/blocks", "/unconfirmed", "/errors", "/account", "/transactions", "/recenttransactions", "/node"];

/// Longest destination that is kept, in bytes. The longest topic has 73, so a longer exact
/// destination can never match and is ignored without anybody noticing; a longer pattern is
/// ignored too.
pub const MAX_DESTINATION_BYTES: usize = 128;

/// Whether the broker takes a subscription to `destination` at all.
pub fn is_broker_destination(destination: &str) -> bool {
    BROKER_PREFIXES.iter().any(|prefix| destination.starts_with(prefix)) && destination.len() <= MAX_DESTINATION_BYTES
}

/// The address at the end of a destination whose subscription registers it (§15, D2).
pub fn registering_address(destination: &str) -> Option<&str> {
    ["/transactions/", "/unconfirmed/", "/account/"].iter().find_map(|prefix| destination.strip_prefix(prefix))
}

/// The sessions of each destination. What exactly a session is subscribed to, and in which
/// order, is the session's own knowledge.
#[derive(Debug, Default)]
pub struct Topics {
    exact: BTreeMap<String, BTreeSet<u64>>,
    patterns: BTreeMap<String, BTreeSet<u64>>,
}

impl Topics {
    /// Notes that `session` holds a subscription to `destination`.
    pub fn add(&mut self, destination: &str, session: u64) {
        let index = self.index(destination);
        match index.get_mut(destination) {
            Some(sessions) => {
                sessions.insert(session);
            }
            None => {
                index.insert(destination.to_owned(), BTreeSet::from([session]));
            }
        }
    }

    /// Notes that `session` holds no subscription to `destination` any more.
    pub fn remove(&mut self, destination: &str, session: u64) {
        let index = self.index(destination);
        if let Some(sessions) = index.get_mut(destination) {
            sessions.remove(&session);
            if sessions.is_empty() {
                index.remove(destination);
            }
        }
    }

    /// Whether any session would get a message published on `topic`.
    pub fn wanted(&self, topic: &str) -> bool {
        self.exact.contains_key(topic) || self.patterns.keys().any(|text| pattern::matches(text, topic))
    }

    /// Appends each session that gets a message published on `topic` once to the empty `sessions`.
    pub fn collect_sessions(&self, topic: &str, sessions: &mut Vec<u64>) {
        sessions.extend(self.exact.get(topic).into_iter().flatten());
        let exact = sessions.len();
        for (text, subscribed) in &self.patterns {
            if pattern::matches(text, topic) {
                sessions.extend(subscribed);
            }
        }
        if sessions.len() > exact {
            sessions.sort_unstable();
            sessions.dedup();
        }
    }

    /// Whether `destination` is a pattern that no session is subscribed to yet.
    pub fn is_new_pattern(&self, destination: &str) -> bool {
        pattern::is_pattern(destination) && !self.patterns.contains_key(destination)
    }

    /// Number of distinct patterns.
    pub fn pattern_count(&self) -> usize {
        self.patterns.len()
    }

    fn index(&mut self, destination: &str) -> &mut BTreeMap<String, BTreeSet<u64>> {
        if pattern::is_pattern(destination) { &mut self.patterns } else { &mut self.exact }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_compared_as_plain_text() {
        for destination in ["/blocks", "/blocksfoo", "/node/info", "/errors", "/account/**"] {
            assert!(is_broker_destination(destination), "{destination}");
        }
        for destination in ["", "blocks", "/w/api/account/get", "/user/errors", "/Blocks"] {
            assert!(!is_broker_destination(destination), "{destination}");
        }
        assert!(!is_broker_destination(&format!("/blocks{}", "x".repeat(122))));
    }

    #[test]
    fn each_session_is_collected_once() {
        let mut topics = Topics::default();
        for (destination, session) in [("/blocks", 7), ("/b*", 7), ("/**", 3), ("/x", 9)] {
            topics.add(destination, session);
        }
        let mut sessions = Vec::new();
        topics.collect_sessions("/blocks", &mut sessions);
        assert_eq!(sessions, [3, 7]);
    }

    #[test]
    fn nothing_is_left_of_removed_subscriptions() {
        let mut topics = Topics::default();
        topics.add("/blocks", 1);
        topics.add("/blocks/*", 1);
        assert!(topics.wanted("/blocks") && topics.wanted("/blocks/new"));
        assert!(!topics.wanted("/errors"));
        topics.remove("/blocks", 2);
        assert!(topics.wanted("/blocks"));
        topics.remove("/blocks", 1);
        topics.remove("/blocks/*", 1);
        assert!(!topics.wanted("/blocks") && !topics.wanted("/blocks/new"));
        assert!(topics.exact.is_empty() && topics.patterns.is_empty());
    }

    #[test]
    fn only_three_kinds_of_destination_register_an_address() {
        assert_eq!(registering_address("/transactions/TA"), Some("TA"));
        assert_eq!(registering_address("/unconfirmed/TA"), Some("TA"));
        assert_eq!(registering_address("/account/TA"), Some("TA"));
        assert_eq!(registering_address("/recenttransactions/TA"), None);
        assert_eq!(registering_address("/unconfirmed"), None);
    }
}
