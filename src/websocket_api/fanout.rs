//! Delivery of one message to its recipients.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::content::Content;
use super::session_table::SessionTable;
use super::{SessionId, pattern};
use crate::net::service::Effects;

/// Recipients of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipients {
    /// All subscribers.
    All,
    /// One session, if it is subscribed.
    Only(SessionId),
}

/// Iterates over the subscribers of one topic. It holds only the id of the next session, since sessions may come and go
/// between two steps. Sessions opened after it was created are excluded.
#[derive(Debug)]
pub struct Fanout {
    topic: Rc<str>,
    recipients: Recipients,
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

impl Fanout {
    /// Creates the delivery of a message on `topic`.
    pub fn new(topic: &str, recipients: Recipients, session_table: &SessionTable) -> Fanout {
        let (next, last) = match recipients {
            Recipients::All => (SessionId(0), session_table.last_session()),
            Recipients::Only(session) => (session, session),
        };
        Fanout {
            topic: Rc::from(topic),
            recipients,
            last_pattern: None,
            by_pattern: BTreeSet::new(),
            first: next,
            next,
            last,
        }
    }

    /// Looks for recipients within the budget. Returns whether there are any, once that is known.
    pub fn find_recipients(&mut self, session_table: &SessionTable, budget: &mut u32) -> Option<bool> {
        if let Recipients::Only(session) = self.recipients {
            let Some(state) = session_table.session(session) else { return Some(false) };
            *budget = budget.saturating_sub(1 + state.subscriptions.pattern_count() as u32);
            return Some(state.subscriptions.matches(&self.topic));
        }
        while let Some((text, sessions)) = session_table.topics().pattern_after(self.last_pattern.as_ref()) {
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
        Some(!self.by_pattern.is_empty() || session_table.topics().subscribed(&self.topic, self.next).next().is_some())
    }

    /// Sends to the recipients within the budget. Returns true when all have received the message.
    pub fn deliver(
        &mut self,
        content: &Content,
        session_table: &mut SessionTable,
        effects: &mut dyn Effects,
        budget: &mut u32,
    ) -> bool {
        while let Some(session) = self.next_recipient(session_table) {
            if *budget == 0 {
                return false;
            }
            let sent = session_table.deliver(session, &self.topic, content, effects);
            *budget = budget.saturating_sub(sent.max(1));
            self.next = SessionId(session.0 + 1);
        }
        true
    }

    /// Restarts with another message on the same topic.
    pub fn restart(&mut self) {
        self.next = self.first;
    }

    /// Returns the next recipient.
    fn next_recipient(&self, session_table: &SessionTable) -> Option<SessionId> {
        if self.next > self.last {
            return None;
        }
        if let Recipients::Only(session) = self.recipients {
            return Some(session);
        }
        let exact = session_table.topics().subscribed(&self.topic, self.next).next();
        let by_pattern = self.by_pattern.range(self.next..).next().copied();
        exact.into_iter().chain(by_pattern).min().filter(|session| *session <= self.last)
    }
}
