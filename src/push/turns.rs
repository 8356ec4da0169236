//! Round-robin scheduling: among clients, and among the sessions of each client.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::SessionId;
use crate::net::ClientKey;

/// The waiting sessions.
#[derive(Debug, Default)]
pub struct Turns {
    waiting: BTreeMap<ClientKey, Line>,
    last: Option<ClientKey>,
}

/// The waiting sessions of one client.
#[derive(Debug, Default)]
struct Line {
    sessions: BTreeSet<SessionId>,
    last: Option<SessionId>,
}

impl Turns {
    /// Adds a session; it waits at most once.
    pub fn enter(&mut self, payer: ClientKey, session: SessionId) {
        self.waiting.entry(payer).or_default().sessions.insert(session);
    }

    /// Removes a session.
    pub fn leave(&mut self, payer: ClientKey, session: SessionId) {
        if let Some(line) = self.waiting.get_mut(&payer) {
            line.sessions.remove(&session);
            if line.sessions.is_empty() {
                self.waiting.remove(&payer);
            }
        }
    }

    /// Returns the next session. It keeps waiting until it is removed.
    pub fn next(&mut self) -> Option<(ClientKey, SessionId)> {
        let after = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let following = self.waiting.range((after, Bound::Unbounded)).next().map(|(payer, _)| *payer);
        let payer = following.or_else(|| self.waiting.keys().next().copied())?;
        self.last = Some(payer);
        let line = self.waiting.get_mut(&payer)?;
        let after = line.last.map_or(Bound::Unbounded, Bound::Excluded);
        let following = line.sessions.range((after, Bound::Unbounded)).next().copied();
        line.last = following.or_else(|| line.sessions.first().copied());
        line.last.map(|session| (payer, session))
    }

    /// Returns whether sessions of other clients wait.
    pub fn has_others(&self, payer: ClientKey) -> bool {
        self.waiting.keys().any(|other| *other != payer)
    }

    /// Returns whether no session waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::testing::caller;

    fn payer(number: u8) -> ClientKey {
        ClientKey::of(&caller(&format!("10.0.0.{number}")), 64)
    }

    #[test]
    fn a_caller_with_many_sessions_has_no_more_turns_than_one_with_few() {
        let mut turns = Turns::default();
        (1..=100).for_each(|id| turns.enter(payer(1), SessionId(id)));
        turns.enter(payer(2), SessionId(101));
        turns.enter(payer(3), SessionId(102));
        let order: Vec<u64> = (0..9).filter_map(|_| turns.next()).map(|(_, session)| session.0).collect();
        assert_eq!(order, [1, 101, 102, 2, 101, 102, 3, 101, 102]);
    }

    #[test]
    fn who_has_left_has_no_turn() {
        let mut turns = Turns::default();
        turns.enter(payer(1), SessionId(1));
        turns.enter(payer(1), SessionId(2));
        turns.leave(payer(1), SessionId(1));
        assert_eq!((turns.next(), turns.next()), (Some((payer(1), SessionId(2))), Some((payer(1), SessionId(2)))));
        turns.leave(payer(1), SessionId(2));
        turns.leave(payer(1), SessionId(2));
        assert!(turns.next().is_none() && turns.is_empty());
    }
}
