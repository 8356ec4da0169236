//! Who is there and who gets which message: the sessions, their subscriptions and the delivery
//! of publications (specification 07 §6.7 and §7).

use std::collections::BTreeMap;
use std::fmt;

use super::pattern::is_pattern;
use super::session::{Session, Subscription};
use super::stomp::encoder;
use super::topics::Topics;
use super::{Limits, Outbox, Output};

/// Longest subscription id, in bytes; a longer one is refused.
const MAX_SUBSCRIPTION_ID_BYTES: usize = 256;

/// Why a subscription is refused; `Display` is for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscribeError {
    /// The id is too long.
    LongId,
    /// The session has as many subscriptions as one may have.
    SessionFull,
    /// The session has as many patterns as one may have.
    SessionPatterns,
    /// All sessions together have as many subscriptions as the node takes.
    NodeFull,
    /// All sessions together have as many patterns as the node takes.
    NodePatterns,
}

impl fmt::Display for SubscribeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LongId => "The subscription id is too long",
            Self::SessionFull => "The session has too many subscriptions, unsubscribe first",
            Self::SessionPatterns => "The session subscribes to too many patterns",
            Self::NodeFull => "The node has no room for more subscriptions",
            Self::NodePatterns => "The node has no room for more patterns",
        })
    }
}

impl std::error::Error for SubscribeError {}

/// The sessions and the index of their subscriptions, always in agreement.
#[derive(Debug)]
pub struct Hub {
    limits: Limits,
    sessions: BTreeMap<u64, Session>,
    topics: Topics,
    /// Subscriptions of all sessions.
    subscriptions: usize,
    /// Number of the next MESSAGE of the process (§6.7).
    next_message: u64,
    /// Receivers of the publication in progress, kept for its memory.
    receivers: Vec<u64>,
}

impl Hub {
    /// A hub without sessions.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            sessions: BTreeMap::new(),
            topics: Topics::default(),
            subscriptions: 0,
            next_message: 0,
            receivers: Vec::new(),
        }
    }

    /// Adds a session under an unused id.
    pub fn insert(&mut self, id: u64, session: Session) {
        self.sessions.insert(id, session);
    }

    /// Removes a session and its subscriptions.
    pub fn remove(&mut self, id: u64) -> Option<Session> {
        self.unsubscribe(id, |_| true);
        self.sessions.remove(&id)
    }

    /// Number of sessions.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// The session with this id.
    pub fn session(&self, id: u64) -> Option<&Session> {
        self.sessions.get(&id)
    }

    /// The session with this id. Its subscriptions are changed only through the hub.
    pub fn session_mut(&mut self, id: u64) -> Option<&mut Session> {
        self.sessions.get_mut(&id)
    }

    /// Gives `session` a subscription, if the limits allow it. One that exists already is left as
    /// it is; an unknown session is ignored.
    pub fn subscribe(&mut self, session: u64, subscription: Subscription) -> Result<(), SubscribeError> {
        let Some(state) = self.sessions.get(&session) else {
            return Ok(());
        };
        if state.has(&subscription) {
            return Ok(());
        }
        self.check_room(state, &subscription)?;
        self.topics.add(&subscription.destination, session);
        self.subscriptions += 1;
        if let Some(state) = self.sessions.get_mut(&session) {
            state.add(subscription);
        }
        Ok(())
    }

    fn check_room(&self, session: &Session, new: &Subscription) -> Result<(), SubscribeError> {
        let limits = &self.limits;
        if new.id.len() > MAX_SUBSCRIPTION_ID_BYTES {
            return Err(SubscribeError::LongId);
        }
        if session.subscriptions().len() >= limits.subscriptions_per_session {
            return Err(SubscribeError::SessionFull);
        }
        if self.subscriptions >= limits.subscriptions {
            return Err(SubscribeError::NodeFull);
        }
        if is_pattern(&new.destination) {
            let held = session.subscriptions().iter();
            let patterns = held.filter(|held| is_pattern(&held.destination)).count();
            if patterns >= limits.patterns_per_session {
                return Err(SubscribeError::SessionPatterns);
            }
            if self.topics.is_new_pattern(&new.destination) && self.topics.pattern_count() >= limits.patterns {
                return Err(SubscribeError::NodePatterns);
            }
        }
        Ok(())
    }

    /// Removes those subscriptions of `session` that `goes` names.
    pub fn unsubscribe(&mut self, session: u64, goes: impl Fn(&Subscription) -> bool) {
        let Some(state) = self.sessions.get_mut(&session) else {
            return;
        };
        let removed = state.remove(goes);
        self.subscriptions -= removed.len();
        for subscription in removed {
            if !state.holds(&subscription.destination) {
                self.topics.remove(&subscription.destination, session);
            }
        }
    }

    /// Whether any session is subscribed to `topic`.
    pub fn wanted(&self, topic: &str) -> bool {
        self.topics.wanted(topic)
    }

    /// Sends one frame to `session`.
    pub fn send(&self, session: u64, out: &mut Outbox, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(state) = self.sessions.get(&session) {
            let mut frame = Vec::new();
            write(&mut frame);
            let frame = state.kind.wrap(frame);
            out.push(Output::Send { session, frame });
        }
    }

    /// Sends a MESSAGE for each subscription to `topic`, with the body that `json` chooses for
    /// its session.
    pub fn deliver<'b>(&mut self, topic: &str, json: impl Fn(&Session) -> &'b [u8], out: &mut Outbox) {
        let mut receivers = std::mem::take(&mut self.receivers);
        self.topics.collect_sessions(topic, &mut receivers);
        for session in receivers.drain(..) {
            let Some(state) = self.sessions.get(&session) else {
                continue;
            };
            let json = json(state);
            for subscription in state.matching(topic) {
                let headers = encoder::Message {
                    destination: topic,
                    subscription: &subscription.id,
                    session_name: &state.name,
                    number: self.next_message,
                };
                self.next_message = self.next_message.wrapping_add(1);
                let mut frame = Vec::new();
                encoder::message(&mut frame, headers, json);
                let frame = state.kind.wrap(frame);
                out.push(Output::Send { session, frame });
            }
        }
        self.receivers = receivers;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::session::Kind;
    use crate::push::stomp::Decoder;

    fn hub(limits: Limits) -> Hub {
        let mut hub = Hub::new(limits);
        for id in [1, 2] {
            let name = format!("{id}");
            hub.insert(id, Session::new(name, Kind::Raw, Decoder::default()));
        }
        hub
    }

    fn subscription(id: &str, destination: &str) -> Subscription {
        Subscription::explicit(id.to_owned(), destination.to_owned())
    }

    fn receivers(hub: &mut Hub, topic: &str) -> Vec<(u64, String)> {
        let mut out = Outbox::new();
        hub.deliver(topic, |_| b"{}", &mut out);
        let mut found = Vec::new();
        while let Some(Output::Send { session, frame }) = out.pop() {
            let text = String::from_utf8(frame).unwrap();
            let id = text.split("message-id:").nth(1).unwrap();
            found.push((session, id.split('\n').next().unwrap().to_owned()));
        }
        found
    }

    #[test]
    fn each_subscription_gets_its_message_and_the_counter_is_common() {
        let mut hub = hub(Limits::default());
        for (session, id, destination) in [(1, "a", "/b"), (2, "a", "/b"), (1, "b", "/**")] {
            hub.subscribe(session, subscription(id, destination)).unwrap();
        }
        let expected = [(1, "1-0".to_owned()), (1, "1-1".to_owned()), (2, "2-2".to_owned())];
        assert_eq!(receivers(&mut hub, "/b"), expected);
        assert_eq!(receivers(&mut hub, "/c"), [(1, "1-3".to_owned())]);
    }

    #[test]
    fn one_of_two_subscriptions_to_a_destination_may_go() {
        let mut hub = hub(Limits::default());
        hub.subscribe(1, subscription("a", "/b")).unwrap();
        hub.subscribe(1, subscription("b", "/b")).unwrap();
        hub.unsubscribe(1, |held| held.id == "a");
        assert_eq!(receivers(&mut hub, "/b").len(), 1);
        hub.unsubscribe(1, |held| held.id == "b");
        assert!(!hub.wanted("/b"));
    }

    #[test]
    fn the_limits_count_what_exists_and_not_what_has_been() {
        let mut hub = hub(Limits { subscriptions_per_session: 2, subscriptions: 3, ..Limits::default() });
        for _ in 0..5 {
            hub.subscribe(1, subscription("a", "/b")).unwrap();
            hub.subscribe(1, subscription("b", "/b")).unwrap();
            let refused = hub.subscribe(1, subscription("c", "/b"));
            assert_eq!(refused, Err(SubscribeError::SessionFull));
            hub.subscribe(1, subscription("b", "/b")).unwrap();
            hub.subscribe(2, subscription("a", "/b")).unwrap();
            let refused = hub.subscribe(2, subscription("b", "/b"));
            assert_eq!(refused, Err(SubscribeError::NodeFull));
            hub.unsubscribe(1, |_| true);
            hub.unsubscribe(2, |_| true);
        }
        hub.subscribe(1, subscription("a", "/b")).unwrap();
        hub.remove(1);
        assert_eq!(hub.subscriptions, 0);
    }

    #[test]
    fn patterns_have_their_own_limits() {
        let mut hub = hub(Limits { patterns_per_session: 2, patterns: 3, ..Limits::default() });
        hub.subscribe(1, subscription("a", "/a*")).unwrap();
        hub.subscribe(1, subscription("a", "/b*")).unwrap();
        hub.subscribe(1, subscription("a", "/b")).unwrap();
        let refused = hub.subscribe(1, subscription("a", "/c*"));
        assert_eq!(refused, Err(SubscribeError::SessionPatterns));
        hub.subscribe(2, subscription("a", "/c*")).unwrap();
        let refused = hub.subscribe(2, subscription("a", "/d*"));
        assert_eq!(refused, Err(SubscribeError::NodePatterns));
        hub.subscribe(2, subscription("a", "/a*")).unwrap();
    }

    #[test]
    fn a_long_id_is_refused() {
        let mut hub = hub(Limits::default());
        let long = "x".repeat(MAX_SUBSCRIPTION_ID_BYTES + 1);
        let refused = hub.subscribe(1, subscription(&long, "/b"));
        assert_eq!(refused, Err(SubscribeError::LongId));
        hub.subscribe(1, subscription(&long[1..], "/b")).unwrap();
    }
}
