//! Destinations (topics and patterns), the subscriptions of one session, and the index of all. In a pattern, `?` matches one character, `*` any
//! characters within one path segment, `**` any number of segments.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::rc::Rc;

use super::session_table::SessionId;
use crate::model::Hash256;

/// Topic of failed queries.
pub const ERRORS: &str = "/errors";
/// Prefix of the topics of an account's transactions.
pub const TRANSACTIONS_OF: &str = "/transactions/";
/// Prefix of the topics of an account's unconfirmed transactions.
pub const UNCONFIRMED_OF: &str = "/unconfirmed/";
/// Prefix of the topics of accounts.
pub const ACCOUNT_OF: &str = "/account/";

/// Prefix of the topics of what became of transactions.
pub const STATUS_OF: &str = "/status/";

/// Prefixes of the destinations to which clients may subscribe, compared as plain text.
const BROKER_PREFIXES: [&str; 7] =
    ["/blocks", "/unconfirmed", "/errors", "/account", "/transactions", "/recenttransactions", "/node"];

/// Maximum length of a destination, in bytes. The longest topic has 73, so a longer exact destination can never match,
/// and ignoring it has no visible effect. A longer pattern is ignored too.
pub const MAX_DESTINATION_BYTES: usize = 128;

/// Returns whether the broker accepts subscriptions to `destination`.
pub fn is_broker_destination(destination: &str) -> bool {
    let is_known = BROKER_PREFIXES.iter().any(|prefix| destination.starts_with(prefix));
    is_known && destination.len() <= MAX_DESTINATION_BYTES || transaction_of(destination).is_some()
}

/// Returns the hash in the topic of what became of a transaction. Its digits are in lower case; no pattern matches it.
pub fn transaction_of(destination: &str) -> Option<Hash256> {
    let text = destination.strip_prefix(STATUS_OF)?;
    Hash256::from_hex(text).filter(|_| !text.contains(|digit: char| digit.is_ascii_uppercase()))
}

/// Returns the topic of what became of a transaction.
pub fn status_topic(hash: &Hash256) -> String {
    format!("{STATUS_OF}{hash}")
}

/// Returns the address part of a destination whose subscription registers an address.
pub fn registering_address(destination: &str) -> Option<&str> {
    [TRANSACTIONS_OF, UNCONFIRMED_OF, ACCOUNT_OF].iter().find_map(|prefix| destination.strip_prefix(prefix))
}

/// Returns whether a subscription destination is a pattern.
pub fn is_pattern(destination: &str) -> bool {
    destination.contains(['*', '?'])
}

/// Returns whether the concrete `topic` matches `pattern`; case-sensitive. A segment `**` also matches no segment, so
/// `/blocks/**` matches `/blocks`.
pub fn matches_pattern(pattern: &str, topic: &str) -> bool {
    glob(pattern.split('/'), topic.split('/'), |segment: &str| segment == "**", matches_segment)
}

fn matches_segment(pattern: &str, segment: &str) -> bool {
    let is_match = |pattern, character| pattern == '?' || pattern == character;
    glob(pattern.chars(), segment.chars(), |character| character == '*', is_match)
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
                let Some((after, rest)) = &mut last_wildcard else { return false };
                if rest.next().is_none() {
                    return false;
                }
                (pattern, text) = (after.clone(), rest.clone());
            }
        }
    }
}

/// Memory of a subscription besides its strings, in bytes: its entries in the tables of session and broker, and the
/// allocator's overhead for each.
const SUBSCRIPTION_BYTES: usize = 320;

/// Estimated memory of a subscription with an id of some bytes, in bytes.
pub fn bytes_of(id_bytes: usize, destination: &str) -> usize {
    SUBSCRIPTION_BYTES + id_bytes + destination.len()
}

/// A subscription; the pair of id and destination is unique within its session.
#[derive(Debug)]
pub struct Subscription {
    id: Rc<str>,
    /// Topic or pattern.
    pub destination: Rc<str>,
    /// Whether it was created by `account/subscribe`, not by SUBSCRIBE.
    pub is_implicit: bool,
}

/// The subscriptions of one session.
#[derive(Debug, Default)]
pub struct Subscriptions {
    /// All subscriptions by their serial numbers, which follow the order of creation.
    all: BTreeMap<u64, Subscription>,
    by_destination: BTreeSet<(Rc<str>, u64)>,
    by_id: BTreeSet<(Rc<str>, u64)>,
    /// The subscriptions to patterns.
    patterns: BTreeSet<u64>,
    /// Estimated memory of all subscriptions, in bytes.
    pub bytes: usize,
    last_serial: u64,
    /// Number of the next id for a SUBSCRIBE without one.
    next_id: u64,
    used_ids: UsedIds,
}

impl Subscriptions {
    /// Number of subscriptions.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Number of subscriptions to patterns.
    pub fn pattern_count(&self) -> usize {
        self.patterns.len()
    }

    /// Number of subscriptions to exactly this destination.
    pub fn count_at(&self, destination: &Rc<str>) -> usize {
        serials(&self.by_destination, destination).count()
    }

    /// Returns whether a SUBSCRIBE has created exactly this subscription.
    pub fn has_explicit(&self, id: &str, destination: &Rc<str>) -> bool {
        self.at(destination).any(|one| !one.is_implicit && *one.id == *id)
    }

    /// Returns the id of the implicit subscription to `destination`, if there is one.
    pub fn implicit_id_at(&self, destination: &Rc<str>) -> Option<Rc<str>> {
        self.at(destination).find(|one| one.is_implicit).map(|one| Rc::clone(&one.id))
    }

    fn at(&self, destination: &Rc<str>) -> impl Iterator<Item = &Subscription> {
        serials(&self.by_destination, destination).filter_map(|serial| self.all.get(&serial))
    }

    /// Adds a subscription that does not exist yet, with a generated id if it has none. An implicit one that has the same
    /// id gets another. Returns the number of ids that were tried in vain.
    pub fn add(&mut self, id: Option<&str>, destination: &Rc<str>, is_implicit: bool) -> u64 {
        let first = if is_implicit { self.used_ids.lowest_free() } else { self.next_id };
        let (id, mut tried) = match id {
            Some(id) => (Rc::from(id), 0),
            None => {
                let (number, id) = self.free_id(first);
                if !is_implicit {
                    self.next_id = number + 1;
                }
                (id, number - first)
            }
        };
        let is_taken = |serial: &u64| self.all.get(serial).is_some_and(|one| one.is_implicit);
        let taken = serials(&self.by_id, &id).find(is_taken);
        let taken = taken.and_then(|serial| self.remove_one(serial));
        self.insert(id, Rc::clone(destination), is_implicit);
        if let Some(Subscription { destination, .. }) = taken {
            let first = self.used_ids.lowest_free();
            let (number, id) = self.free_id(first);
            self.insert(id, destination, true);
            tried += number - first;
        }
        tried
    }

    fn insert(&mut self, id: Rc<str>, destination: Rc<str>, is_implicit: bool) {
        self.last_serial += 1;
        let serial = self.last_serial;
        self.bytes += bytes_of(id.len(), &destination);
        self.by_destination.insert((Rc::clone(&destination), serial));
        self.by_id.insert((Rc::clone(&id), serial));
        self.used_ids.set(&id, true);
        self.patterns.extend(is_pattern(&destination).then_some(serial));
        self.all.insert(serial, Subscription { id, destination, is_implicit });
    }

    /// Returns the first of the ids `sub-0`, `sub-1` and so on, from a number on, that is not in use, with its number.
    fn free_id(&self, mut number: u64) -> (u64, Rc<str>) {
        loop {
            let id = generated_id(number);
            if serials(&self.by_id, &id).next().is_none() {
                return (number, id);
            }
            number += 1;
        }
    }

    fn remove_one(&mut self, serial: u64) -> Option<Subscription> {
        let removed = self.all.remove(&serial)?;
        self.bytes = self.bytes.saturating_sub(bytes_of(removed.id.len(), &removed.destination));
        self.by_destination.remove(&(Rc::clone(&removed.destination), serial));
        self.by_id.remove(&(Rc::clone(&removed.id), serial));
        self.used_ids.set(&removed.id, serials(&self.by_id, &removed.id).next().is_some());
        self.patterns.remove(&serial);
        Some(removed)
    }

    /// Removes and returns all subscriptions with this id.
    pub fn remove(&mut self, id: &str) -> Vec<Subscription> {
        let ended: Vec<u64> = serials(&self.by_id, &Rc::from(id)).collect();
        ended.into_iter().filter_map(|serial| self.remove_one(serial)).collect()
    }

    /// Removes and returns all subscriptions.
    pub fn remove_all(&mut self) -> Vec<Subscription> {
        let Self { last_serial, next_id, .. } = *self;
        let before = std::mem::replace(self, Self { last_serial, next_id, ..Self::default() });
        before.all.into_values().collect()
    }

    /// Returns whether any subscription matches `topic`.
    pub fn matches(&self, topic: &Rc<str>) -> bool {
        self.matching_patterns(topic).next().is_some() || self.count_at(topic) > 0
    }

    /// Returns the ids of the subscriptions that match `topic`, the oldest first.
    pub fn matching_ids(&self, topic: &Rc<str>) -> Vec<Rc<str>> {
        let mut all: Vec<u64> = serials(&self.by_destination, topic).chain(self.matching_patterns(topic)).collect();
        all.sort_unstable();
        all.iter().filter_map(|serial| self.all.get(serial)).map(|one| Rc::clone(&one.id)).collect()
    }

    fn matching_patterns(&self, topic: &str) -> impl Iterator<Item = u64> {
        let is_match =
            move |serial: &u64| self.all.get(serial).is_some_and(|one| matches_pattern(&one.destination, topic));
        self.patterns.iter().copied().filter(is_match)
    }
}

/// Returns the serial numbers of a key, in order.
fn serials(index: &BTreeSet<(Rc<str>, u64)>, key: &Rc<str>) -> impl Iterator<Item = u64> {
    index.range((Rc::clone(key), 0)..=(Rc::clone(key), u64::MAX)).map(|(_, serial)| *serial)
}

/// The sessions of each destination. The ids and the order of the subscriptions are stored in the session.
#[derive(Debug, Default)]
pub struct Topics {
    exact: BTreeSet<(Rc<str>, SessionId)>,
    patterns: BTreeMap<Rc<str>, BTreeSet<SessionId>>,
}

impl Topics {
    /// Records that `session` has a subscription to `destination`.
    pub fn add(&mut self, destination: Rc<str>, session: SessionId) {
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
        !self.patterns.is_empty() || self.has_exact_prefix(start)
    }

    fn has_exact_prefix(&self, start: &str) -> bool {
        let first = self.exact.range((Rc::from(start), SessionId(0))..).next();
        first.is_some_and(|(topic, _)| topic.starts_with(start))
    }

    /// Returns whether any session is subscribed to what became of any transaction.
    pub fn has_statuses(&self) -> bool {
        self.has_exact_prefix(STATUS_OF)
    }

    /// Returns whether any session is subscribed to what became of a transaction.
    pub fn has_status_of(&self, hash: &Hash256) -> bool {
        self.has_statuses() && self.subscribed(&Rc::from(status_topic(hash)), SessionId(0)).next().is_some()
    }

    /// Number of distinct patterns.
    pub fn pattern_count(&self) -> usize {
        self.patterns.len()
    }
}

/// Prefix of generated ids; a number follows.
const PREFIX: &str = "sub-";

/// Returns the generated id with a number.
pub fn generated_id(number: u64) -> Rc<str> {
    Rc::from(format!("{PREFIX}{number}"))
}

/// Returns the number of a generated id; `None` for an id that is never generated.
pub fn number_of(id: &str) -> Option<u64> {
    let digits = id.strip_prefix(PREFIX)?;
    let is_generated = digits == "0" || !digits.starts_with(['0', '+']);
    digits.parse().ok().filter(|_| is_generated)
}

const WORDS: usize = 16;

/// Which of the first 1,024 generated ids a session uses: more than it may have subscriptions, so that one of them is free.
#[derive(Debug, Default)]
pub struct UsedIds([u64; WORDS]);

impl UsedIds {
    /// Records whether an id is in use.
    pub fn set(&mut self, id: &str, is_used: bool) {
        let Some(number) = number_of(id) else { return };
        let place = usize::try_from(number / u64::from(u64::BITS)).ok();
        let Some(word) = place.and_then(|place| self.0.get_mut(place)) else { return };
        let bit = 1 << (number % u64::from(u64::BITS));
        *word = if is_used { *word | bit } else { *word & !bit };
    }

    /// Returns the lowest number that is free, or the one after all that are known here.
    pub fn lowest_free(&self) -> u64 {
        let place = self.0.iter().position(|word| *word != u64::MAX).unwrap_or(WORDS);
        let used = self.0.get(place).map_or(0, |word| word.trailing_ones());
        place as u64 * u64::from(u64::BITS) + u64::from(used)
    }
}

#[cfg(test)]
mod topic_tests {
    use super::*;
    use proptest::prelude::*;

    impl Topics {
        /// Number of pairs of session and topic; patterns do not count.
        pub(in crate::websocket_api) fn len(&self) -> usize {
            self.exact.len()
        }
    }

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
            topics.add(text(destination), SessionId(session));
        }
        let from = |first| topics.subscribed(&text("/blocks"), SessionId(first)).map(|id| id.0).collect::<Vec<_>>();
        assert_eq!((from(0), from(4), from(10)), (vec![3, 7, 9], vec![7, 9], vec![]));
    }

    #[test]
    fn topics_with_a_prefix_are_detected() {
        let mut topics = Topics::default();
        topics.add(text("/account/mosaic/x"), SessionId(1));
        let below = |topics: &Topics| {
            ["/account/", "/account/mosaic/", "/account/n", "/z"].map(|start| topics.has_prefix(start))
        };
        assert_eq!(below(&topics), [true, true, false, false]);
        topics.add(text("/b*"), SessionId(1));
        assert_eq!(below(&topics), [true; 4], "a pattern may stand for anything");
    }

    #[test]
    fn patterns_are_iterated_one_by_one() {
        let mut topics = Topics::default();
        for (destination, session) in [("/b*", 7), ("/**", 3), ("/b*", 4), ("/x", 9)] {
            topics.add(text(destination), SessionId(session));
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
        topics.add(text("/blocks"), SessionId(1));
        topics.add(text("/blocks/*"), SessionId(1));
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

    fn add(subscriptions: &mut Subscriptions, id: &str, destination: &str) {
        subscriptions.add(Some(id), &Rc::from(destination), false);
    }

    fn matches(subscriptions: &Subscriptions, topic: &str) -> Vec<String> {
        let ids: Vec<_> = subscriptions.matching_ids(&text(topic)).iter().map(|id| id.to_string()).collect();
        assert_eq!(subscriptions.matches(&text(topic)), !ids.is_empty());
        ids
    }

    #[test]
    fn a_subscription_is_identified_by_id_and_destination() {
        let mut subscriptions = Subscriptions::default();
        for (id, destination) in [("a", "/blocks"), ("a", "/errors"), ("b", "/blocks")] {
            add(&mut subscriptions, id, destination);
        }
        assert!(
            subscriptions.has_explicit("a", &text("/errors")) && !subscriptions.has_explicit("b", &text("/errors"))
        );
        assert_eq!(subscriptions.remove("a").len(), 2);
        assert_eq!(
            (subscriptions.count_at(&text("/blocks")), subscriptions.count_at(&text("/errors")), subscriptions.count()),
            (1, 0, 1)
        );
    }

    #[test]
    fn matches_are_in_the_order_of_subscription() {
        let mut subscriptions = Subscriptions::default();
        for (id, destination) in [("b", "/blocks/*"), ("x", "/blocks"), ("a", "/blocks/new"), ("c", "/blocks/*")] {
            add(&mut subscriptions, id, destination);
        }
        assert_eq!(matches(&subscriptions, "/blocks/new"), ["b", "a", "c"]);
        assert_eq!(matches(&subscriptions, "/blocks"), ["x"]);
        subscriptions.remove("b");
        assert_eq!(matches(&subscriptions, "/blocks/new"), ["a", "c"]);
        subscriptions.remove("c");
        assert_eq!((matches(&subscriptions, "/blocks/new"), subscriptions.pattern_count()), (vec!["a".to_owned()], 0));
    }

    #[test]
    fn ids_for_a_subscribe_without_one_count_up_and_skip_those_in_use() {
        let mut subscriptions = Subscriptions::default();
        add(&mut subscriptions, "sub-1", "/blocks");
        for _ in 0..2 {
            subscriptions.add(None, &text("/errors"), false);
        }
        assert_eq!(matches(&subscriptions, "/errors"), ["sub-0", "sub-2"]);
        subscriptions.remove("sub-2");
        subscriptions.add(None, &text("/errors"), false);
        assert_eq!(matches(&subscriptions, "/errors"), ["sub-0", "sub-3"]);
    }

    #[test]
    fn an_implicit_subscription_gets_the_lowest_id_that_is_not_in_use() {
        let mut subscriptions = Subscriptions::default();
        let [topic, other] = [text("/transactions/A"), text("/transactions/B")];
        for id in ["sub-0", "sub-1", "sub-03", "sub-", "sub-+2", "sub-3"] {
            add(&mut subscriptions, id, "/blocks");
        }
        subscriptions.add(None, &topic, true);
        subscriptions.add(None, &other, true);
        assert_eq!(
            [&topic, &other].map(|topic| subscriptions.implicit_id_at(topic)),
            ["sub-2", "sub-4"].map(|id| Some(text(id)))
        );
        subscriptions.remove("sub-2");
        subscriptions.remove("sub-0");
        subscriptions.add(None, &topic, true);
        assert_eq!(subscriptions.implicit_id_at(&topic).as_deref(), Some("sub-0"));
    }

    #[test]
    fn the_id_of_an_implicit_subscription_is_found_without_a_search_whichever_ids_were_used_before() {
        let mut subscriptions = Subscriptions::default();
        let topic = text("/transactions/A");
        (0..998).for_each(|number| add(&mut subscriptions, &generated_id(number), "/errors"));
        add(&mut subscriptions, "sub-500", "/blocks");
        let lowest = |subscriptions: &Subscriptions| subscriptions.used_ids.lowest_free();
        assert_eq!(lowest(&subscriptions), 998);
        for id in ["sub-998", "sub-0", "sub-500", "sub-998"] {
            subscriptions.remove(id);
            let free = lowest(&subscriptions);
            subscriptions.add(None, &topic, true);
            assert_eq!(subscriptions.implicit_id_at(&topic), Some(generated_id(free)), "the first that is tried");
            subscriptions.remove(&generated_id(free));
            add(&mut subscriptions, id, "/errors");
        }
        subscriptions.remove_all();
        assert_eq!(lowest(&subscriptions), 0);
    }

    #[test]
    fn an_implicit_subscription_gives_way_to_an_explicit_one_with_its_id() {
        let mut subscriptions = Subscriptions::default();
        let topic = text("/transactions/A");
        subscriptions.add(None, &topic, true);
        add(&mut subscriptions, "sub-0", "/blocks");
        assert_eq!(
            (matches(&subscriptions, &topic), matches(&subscriptions, "/blocks")),
            (vec!["sub-1".into()], vec!["sub-0".into()])
        );
        let removed = |subscriptions: &mut Subscriptions, id| {
            subscriptions.remove(id).into_iter().map(|one| (one.destination, one.is_implicit)).collect::<Vec<_>>()
        };
        assert_eq!(removed(&mut subscriptions, "sub-0"), [(text("/blocks"), false)]);
        assert_eq!(subscriptions.implicit_id_at(&topic).as_deref(), Some("sub-1"));
        assert_eq!(removed(&mut subscriptions, "sub-1"), [(topic, true)]);
    }

    proptest! {
        #[test]
        fn removed_subscriptions_of_a_session_leave_no_state(
            changes in prop::collection::vec((0..4u8, 0..6usize, 0..5usize), 0..60)
        ) {
            let ids = ["a", "b", "sub-0", "sub-1", "sub-2", "c"];
            let destinations = ["/blocks", "/blocks/*", "/errors", "/**", "/node"].map(Rc::<str>::from);
            let mut subscriptions = Subscriptions::default();
            let mut plain: Vec<(&str, &str)> = Vec::new();
            for (change, id, destination) in changes {
                let (id, destination) = (ids[id], &destinations[destination]);
                if change == 0 {
                    let before = plain.len();
                    plain.retain(|(other, _)| *other != id);
                    prop_assert_eq!(subscriptions.remove(id).len(), before - plain.len());
                } else if !subscriptions.has_explicit(id, destination) {
                    subscriptions.add(Some(id), destination, false);
                    plain.push((id, destination));
                }
                for topic in ["/blocks", "/blocks/new", "/errors"] {
                    let expected = plain.iter().filter(|(_, d)| *d == topic || matches_pattern(d, topic));
                    prop_assert_eq!(matches(&subscriptions, topic), expected.map(|(id, _)| *id).collect::<Vec<_>>());
                }
                prop_assert_eq!(subscriptions.count(), plain.len());
            }
            subscriptions.remove_all();
            prop_assert!(subscriptions.all.is_empty() && subscriptions.by_destination.is_empty() && subscriptions.by_id.is_empty());
            prop_assert_eq!((subscriptions.count(), subscriptions.pattern_count(), subscriptions.bytes), (0, 0, 0));
        }
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod id_tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::websocket_api::Limits;

    #[test]
    fn ids_with_another_spelling_of_a_number_are_not_generated() {
        assert_eq!(["sub-0", "sub-17", "sub-1023"].map(number_of), [Some(0), Some(17), Some(1023)]);
        for id in ["sub-", "sub-00", "sub-01", "sub-+1", "sub--1", "sub-1 ", "Sub-1", "1", "sub-99999999999999999999"] {
            assert_eq!(number_of(id), None, "{id}");
        }
    }

    #[test]
    fn one_of_the_known_ids_is_free_with_as_many_subscriptions_as_a_session_may_have() {
        let mut used = UsedIds::default();
        let count = Limits::default().subscriptions_per_session as u64;
        (0..count).for_each(|number| used.set(&generated_id(number), true));
        assert_eq!(used.lowest_free(), count);
        (count..5_000).for_each(|number| used.set(&generated_id(number), true));
        assert_eq!(used.lowest_free(), 1_024);
        used.set("sub-1023", false);
        assert_eq!(used.lowest_free(), 1_023);
    }

    proptest! {
        #[test]
        fn the_lowest_free_id_is_known_after_any_changes(
            changes in prop::collection::vec((any::<bool>(), 0..200u64), 0..400)
        ) {
            let (mut used, mut plain) = (UsedIds::default(), BTreeSet::new());
            for (is_used, number) in changes {
                used.set(&generated_id(number), is_used);
                if is_used { plain.insert(number); } else { plain.remove(&number); }
                prop_assert_eq!(Some(used.lowest_free()), (0..).find(|number| !plain.contains(number)));
            }
        }
    }
}
