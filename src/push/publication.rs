//! Delivery of one message to its recipients.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::content::Content;
use super::hub::Hub;
use super::{SessionId, pattern};
use crate::net::machine::Effects;

/// Recipients of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// All subscribers.
    Everybody,
    /// One session, if it is subscribed.
    Only(SessionId),
}

/// Iterates over the subscribers of one topic. It holds only the id of the next session, since sessions may come and go
/// between two steps. Sessions opened after it was created are excluded.
#[derive(Debug)]
pub struct Publication {
    topic: Rc<str>,
    audience: Audience,
    /// The pattern that was compared with the topic last.
    last_pattern: Option<Rc<str>>,
    /// Sessions subscribed to a pattern that matches the topic.
    by_pattern: BTreeSet<SessionId>,
    /// The first possible recipient.
    first: SessionId,
    /// The next possible recipient.
    next: SessionId,
    /// The last possible recipient.
    last: SessionId,
}

impl Publication {
    /// Creates the delivery of a message on `topic`.
    pub fn new(topic: &str, audience: Audience, hub: &Hub) -> Publication {
        let (next, last) = match audience {
            Audience::Everybody => (SessionId(0), hub.last_session()),
            Audience::Only(session) => (session, session),
        };
        Publication {
            topic: Rc::from(topic),
            audience,
            last_pattern: None,
            by_pattern: BTreeSet::new(),
            first: next,
            next,
            last,
        }
    }

    /// Looks for recipients within the budget. Returns whether there are any, once that is known.
    pub fn find(&mut self, hub: &Hub, budget: &mut u32) -> Option<bool> {
        if let Audience::Only(session) = self.audience {
            let Some(state) = hub.session(session) else { return Some(false) };
            *budget = budget.saturating_sub(1 + state.subscriptions.pattern_count() as u32);
            return Some(state.subscriptions.matches(&self.topic));
        }
        while let Some((text, sessions)) = hub.topics().pattern_after(self.last_pattern.as_ref()) {
            if *budget == 0 {
                return None;
            }
            *budget = budget.saturating_sub(1);
            if pattern::matches(text, &self.topic) {
                self.by_pattern.extend(sessions);
                *budget = budget.saturating_sub(u32::try_from(sessions.len() / 10).unwrap_or(u32::MAX));
            }
            self.last_pattern = Some(Rc::clone(text));
        }
        Some(!self.by_pattern.is_empty() || hub.topics().subscribed(&self.topic, self.next).next().is_some())
    }

    /// Sends to the recipients within the budget. Returns true when all have received the message.
    pub fn deliver(&mut self, content: &Content, hub: &mut Hub, effects: &mut dyn Effects, budget: &mut u32) -> bool {
        while let Some(session) = self.receiver(hub) {
            if *budget == 0 {
                return false;
            }
            let sent = hub.deliver(session, &self.topic, content, effects);
            *budget = budget.saturating_sub(sent.max(1));
            self.next = SessionId(session.0 + 1);
        }
        true
    }

    /// Restarts with another message on the same topic.
    pub fn again(&mut self) {
        self.next = self.first;
    }

    /// Returns the next recipient.
    fn receiver(&self, hub: &Hub) -> Option<SessionId> {
        if self.next > self.last {
            return None;
        }
        if let Audience::Only(session) = self.audience {
            return Some(session);
        }
        let exact = hub.topics().subscribed(&self.topic, self.next).next();
        let by_pattern = self.by_pattern.range(self.next..).next().copied();
        exact.into_iter().chain(by_pattern).min().filter(|session| *session <= self.last)
    }
}
