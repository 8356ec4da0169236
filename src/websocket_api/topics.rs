//! Destinations: topics and patterns, and the index of subscribers. In a pattern, `?` matches one character, `*` any
//! characters within one path segment, `**` any number of segments.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::rc::Rc;

use super::session::SessionId;
use crate::model::Address;

/// Topic of new heights.
pub const BLOCKS_NEW: &str = "/blocks/new";
/// Topic of new blocks.
pub const BLOCKS: &str = "/blocks";
/// Topic of unconfirmed transactions.
pub const UNCONFIRMED: &str = "/unconfirmed";
/// Topic of failed queries.
pub const ERRORS: &str = "/errors";
/// Prefix of the topics of an account's transactions.
pub const TRANSACTIONS_OF: &str = "/transactions/";
/// Prefix of the topics of an account's unconfirmed transactions.
pub const UNCONFIRMED_OF: &str = "/unconfirmed/";
/// Prefix of the topics of accounts.
pub const ACCOUNT_OF: &str = "/account/";

/// Prefix of the topics of an account's newest transactions.
pub const RECENT_OF: &str = "/recenttransactions/";
/// Prefix of the topics of an account's namespaces.
pub const NAMESPACES_OF: &str = "/account/namespace/owned/";
/// Prefix of the topics of an account's mosaics and of their definitions.
pub const MOSAICS_OF: &str = "/account/mosaic/owned/";
/// Prefix of the topics of the definitions of an account's mosaics.
pub const DEFINITIONS_OF: &str = "/account/mosaic/owned/definition/";
/// Topic of the local node.
pub const NODE_INFO: &str = "/node/info";

/// Prefixes of the destinations to which clients may subscribe, compared as plain text.
const BROKER_PREFIXES: [&str; 7] =
    ["/blocks", "/unconfirmed", "/errors", "/account", "/transactions", "/recenttransactions", "/node"];

/// Maximum length of a destination, in bytes. The longest topic has 73, so a longer exact destination can never match,
/// and ignoring it has no visible effect. A longer pattern is ignored too.
pub const MAX_DESTINATION_BYTES: usize = 128;

/// Returns whether the broker accepts subscriptions to `destination`.
pub fn is_broker_destination(destination: &str) -> bool {
    BROKER_PREFIXES.iter().any(|prefix| destination.starts_with(prefix)) && destination.len() <= MAX_DESTINATION_BYTES
}

/// Returns the address part of a destination whose subscription registers an address.
pub fn registering_address(destination: &str) -> Option<&str> {
    [TRANSACTIONS_OF, UNCONFIRMED_OF, ACCOUNT_OF].iter().find_map(|prefix| destination.strip_prefix(prefix))
}

/// Kinds of items that accounts own, in the order in which they are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnedKind {
    /// Namespaces.
    Namespaces,
    /// Definitions of the account's mosaics and of the mosaics in which their levies are paid.
    Definitions,
    /// Balances of mosaics.
    Mosaics,
}

impl OwnedKind {
    /// Returns the topic of the items of an account.
    pub fn topic_of(self, account: &Address) -> String {
        let prefix = match self {
            OwnedKind::Namespaces => NAMESPACES_OF,
            OwnedKind::Definitions => DEFINITIONS_OF,
            OwnedKind::Mosaics => MOSAICS_OF,
        };
        format!("{prefix}{account}")
    }
}

/// The sessions of each destination. The ids and the order of the subscriptions are stored in the session.
#[derive(Debug, Default)]
pub struct Topics {
    exact: BTreeSet<(Rc<str>, SessionId)>,
    patterns: BTreeMap<Rc<str>, BTreeSet<SessionId>>,
}

impl Topics {
    /// Records that `session` has a subscription to `destination`.
    pub fn add(&mut self, destination: &Rc<str>, session: SessionId) {
        let destination = Rc::clone(destination);
        if is_pattern(&destination) {
            self.patterns.entry(destination).or_default().insert(session);
        } else {
            self.exact.insert((destination, session));
        }
    }

    /// Records that `session` has no subscription to `destination` any more.
    pub fn remove(&mut self, destination: &Rc<str>, session: SessionId) {
        if !is_pattern(destination) {
            self.exact.remove(&(Rc::clone(destination), session));
        } else if let Some(sessions) = self.patterns.get_mut(destination) {
            sessions.remove(&session);
            if sessions.is_empty() {
                self.patterns.remove(destination);
            }
        }
    }

    /// Returns whether there are no subscriptions.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.patterns.is_empty()
    }

    /// Returns the sessions from `first` on that are subscribed to exactly this topic, by id.
    pub fn subscribed(&self, topic: &Rc<str>, first: SessionId) -> impl Iterator<Item = SessionId> {
        let own = |(other, session): &(Rc<str>, SessionId)| (**other == **topic).then_some(*session);
        self.exact.range((Rc::clone(topic), first)..).map_while(own)
    }

    /// Returns the first pattern after `last` in byte order, and the sessions subscribed to it.
    pub fn pattern_after(&self, last: Option<&Rc<str>>) -> Option<(&Rc<str>, &BTreeSet<SessionId>)> {
        let after = last.map_or(Bound::Unbounded, |last| Bound::Excluded(Rc::clone(last)));
        self.patterns.range((after, Bound::Unbounded)).next()
    }

    /// Returns whether any session may be subscribed to a topic with this prefix.
    pub fn has_prefix(&self, start: &str) -> bool {
        let first = self.exact.range((Rc::from(start), SessionId(0))..).next();
        !self.patterns.is_empty() || first.is_some_and(|(topic, _)| topic.starts_with(start))
    }

    /// Number of pairs of session and topic; patterns do not count.
    pub fn len(&self) -> usize {
        self.exact.len()
    }

    /// Number of distinct patterns.
    pub fn pattern_count(&self) -> usize {
        self.patterns.len()
    }
}

/// Returns whether a subscription destination is a pattern.
pub fn is_pattern(destination: &str) -> bool {
    destination.contains(['*', '?'])
}

/// Returns whether the concrete `topic` matches `pattern`; case-sensitive. A segment `**` also matches no segment, so
/// `/blocks/**` matches `/blocks`.
pub fn matches_pattern(pattern: &str, topic: &str) -> bool {
    let any_segments = |segment: &str| segment == "**";
    glob(pattern.split('/'), topic.split('/'), any_segments, matches_segment)
}

fn matches_segment(pattern: &str, segment: &str) -> bool {
    let one = |pattern, character| pattern == '?' || pattern == character;
    glob(pattern.chars(), segment.chars(), |c| c == '*', one)
}

/// Matches `pattern` item by item against all of `text`. Backtracking to the last wildcard suffices: whatever an
/// earlier one could match, the last one can too. The work is at most the product of the two lengths.
fn glob<P: Iterator + Clone, T: Iterator + Clone>(
    mut pattern: P,
    mut text: T,
    is_wildcard: impl Fn(P::Item) -> bool,
    is_match: impl Fn(P::Item, T::Item) -> bool,
) -> bool
where
    P::Item: Copy,
    T::Item: Copy,
{
    let mut last_wildcard: Option<(P, T)> = None;
    loop {
        let (mut next_pattern, mut next_text) = (pattern.clone(), text.clone());
        match (next_pattern.next(), next_text.next()) {
            (None, None) => return true,
            (Some(item), _) if is_wildcard(item) => {
                last_wildcard = Some((next_pattern.clone(), text.clone()));
                pattern = next_pattern;
            }
            (Some(item), Some(other)) if is_match(item, other) => {
                (pattern, text) = (next_pattern, next_text);
            }
            _ => {
                // The last wildcard must match one more item.
                let Some((after, rest)) = &mut last_wildcard else {
                    return false;
                };
                if rest.next().is_none() {
                    return false;
                }
                (pattern, text) = (after.clone(), rest.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(text: &str) -> Rc<str> {
        Rc::from(text)
    }

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
    fn subscribed_sessions_are_found_from_any_session_number() {
        let mut topics = Topics::default();
        for (destination, session) in [("/blocks", 7), ("/blocks", 3), ("/blocks", 9), ("/blocksx", 1), ("/b", 8)] {
            topics.add(&text(destination), SessionId(session));
        }
        let from = |first| topics.subscribed(&text("/blocks"), SessionId(first)).map(|id| id.0).collect::<Vec<_>>();
        assert_eq!((from(0), from(4), from(10)), (vec![3, 7, 9], vec![7, 9], vec![]));
    }

    #[test]
    fn topics_with_a_prefix_are_detected() {
        let mut topics = Topics::default();
        topics.add(&text("/account/mosaic/x"), SessionId(1));
        let below = |topics: &Topics| {
            ["/account/", "/account/mosaic/", "/account/n", "/z"].map(|start| topics.has_prefix(start))
        };
        assert_eq!(below(&topics), [true, true, false, false]);
        topics.add(&text("/b*"), SessionId(1));
        assert_eq!(below(&topics), [true; 4], "a pattern may stand for anything");
    }

    #[test]
    fn patterns_are_iterated_one_by_one() {
        let mut topics = Topics::default();
        for (destination, session) in [("/b*", 7), ("/**", 3), ("/b*", 4), ("/x", 9)] {
            topics.add(&text(destination), SessionId(session));
        }
        let (first, sessions) = topics.pattern_after(None).unwrap();
        assert_eq!((&**first, sessions.len()), ("/**", 1));
        let (second, sessions) = topics.pattern_after(Some(first)).unwrap();
        assert_eq!((&**second, sessions.len()), ("/b*", 2));
        assert!(topics.pattern_after(Some(second)).is_none());
        assert_eq!((topics.pattern_count(), topics.len()), (2, 1));
    }

    #[test]
    fn removed_subscriptions_leave_no_state() {
        let mut topics = Topics::default();
        topics.add(&text("/blocks"), SessionId(1));
        topics.add(&text("/blocks/*"), SessionId(1));
        topics.remove(&text("/blocks"), SessionId(2));
        assert!(topics.subscribed(&text("/blocks"), SessionId(0)).next().is_some());
        topics.remove(&text("/blocks"), SessionId(1));
        topics.remove(&text("/blocks/*"), SessionId(1));
        assert!(topics.is_empty() && topics.pattern_count() == 0);
    }

    #[test]
    fn three_kinds_of_destination_register_an_address() {
        assert_eq!(registering_address("/transactions/TA"), Some("TA"));
        assert_eq!(registering_address("/unconfirmed/TA"), Some("TA"));
        assert_eq!(registering_address("/account/TA"), Some("TA"));
        assert_eq!(registering_address("/recenttransactions/TA"), None);
        assert_eq!(registering_address("/unconfirmed"), None);
    }

    #[test]
    fn wildcards_match_path_segments() {
        let cases = [
            ("/transactions/*", "/transactions/TA", true),
            ("/transactions/*", "/transactions", false),
            ("/transactions/*", "/transactions/TA/x", false),
            ("/account/**", "/account/mosaic/owned/TA", true),
            ("/account/**", "/account", true),
            ("/account/**/owned/*", "/account/mosaic/owned/TA", true),
            ("/account/**/owned/*", "/account/mosaic/owned/definition/TA", false),
            ("/account/**/**/TA", "/account/mosaic/owned/definition/TA", true),
            ("/blocks/*", "/blocks/new", true),
            ("/blocks/n?w", "/blocks/new", true),
            ("/blocks/n?w", "/blocks/nw", false),
            ("/blocks/n*w*", "/blocks/new", true),
            ("/blocks/*", "/Blocks/new", false),
            ("/blocks*", "/blocks", true),
            ("/blocks*", "/blocks/new", false),
            ("/**", "/errors", true),
            ("/account/*A*A*B", "/account/AAAAAAAB", true),
            ("/account/*A*A*B", "/account/AAAAAAAC", false),
        ];
        for (pattern, topic, expected) in cases {
            assert_eq!(matches_pattern(pattern, topic), expected, "{pattern} {topic}");
        }
    }

    #[test]
    fn a_pattern_is_a_destination_with_wildcards() {
        assert!(is_pattern("/blocks/*") && is_pattern("/block?"));
        assert!(!is_pattern("/blocks/new"));
    }

    /// Reference implementation that tries everything.
    fn slow(pattern: &[u8], text: &[u8]) -> bool {
        match pattern {
            [] => text.is_empty(),
            [b'*', rest @ ..] => (0..=text.len()).any(|n| slow(rest, &text[n..])),
            [first, rest @ ..] => match text {
                [byte, tail @ ..] => (*first == b'?' || first == byte) && slow(rest, tail),
                [] => false,
            },
        }
    }

    proptest! {
        #[test]
        fn matching_agrees_with_its_definition(pattern in "[ab?*]{0,8}", text in "[ab]{0,8}") {
            let expected = slow(pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(matches_segment(&pattern, &text), expected);
        }
    }
}
