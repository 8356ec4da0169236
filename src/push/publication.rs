//! One message on its way to its receivers.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::content::Content;
use super::hub::Hub;
use super::{SessionId, pattern};
use crate::net::machine::Effects;

/// Who is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Whoever is subscribed.
    Everybody,
    /// One session, if it is subscribed.
    Only(SessionId),
}

/// The way along the receivers of one topic. It holds no session, only the number of the next one: sessions may come and
/// go between two steps. Those that come after it was begun are not told.
#[derive(Debug)]
pub struct Publication {
    topic: Rc<str>,
    audience: Audience,
    /// The pattern that the topic was compared with last.
    last_pattern: Option<Rc<str>>,
    /// Sessions subscribed to a pattern that the topic matches.
    by_pattern: BTreeSet<SessionId>,
    /// The first session that may have to be told.
    first: SessionId,
    /// The first session that may still have to be told.
    next: SessionId,
    /// The last session that is told.
    last: SessionId,
}

impl Publication {
    /// A message on `topic`, of which nobody has been told yet.
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

    /// Looks for receivers until the units in `budget` are used up; says whether there are any once that is known.
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

    /// Sends to receivers until the units in `budget` are used up; true when all have been told.
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

    /// Begins anew with another message on the same topic.
    pub fn again(&mut self) {
        self.next = self.first;
    }

    /// The next session to be told.
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
