//! Round-robin scheduling: among clients, and among the sessions of each client.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::SessionId;
use crate::net::ClientKey;

/// The waiting sessions.
#[derive(Debug, Default)]
pub struct RoundRobin {
    waiting: BTreeMap<ClientKey, ClientQueue>,
    last: Option<ClientKey>,
}

/// The waiting sessions of one client.
#[derive(Debug, Default)]
struct ClientQueue {
    sessions: BTreeSet<SessionId>,
    last: Option<SessionId>,
}

impl RoundRobin {
    /// Adds a session; it waits at most once.
    pub fn add(&mut self, client_key: ClientKey, session: SessionId) {
        self.waiting.entry(client_key).or_default().sessions.insert(session);
    }

    /// Removes a session.
    pub fn remove(&mut self, client_key: ClientKey, session: SessionId) {
        if let Some(line) = self.waiting.get_mut(&client_key) {
            line.sessions.remove(&session);
            if line.sessions.is_empty() {
                self.waiting.remove(&client_key);
            }
        }
    }

    /// Returns the next session. It keeps waiting until it is removed.
    pub fn next(&mut self) -> Option<(ClientKey, SessionId)> {
        let after = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let following = self.waiting.range((after, Bound::Unbounded)).next().map(|(payer, _)| *payer);
        let client_key = following.or_else(|| self.waiting.keys().next().copied())?;
        self.last = Some(client_key);
        let line = self.waiting.get_mut(&client_key)?;
        let after = line.last.map_or(Bound::Unbounded, Bound::Excluded);
        let following = line.sessions.range((after, Bound::Unbounded)).next().copied();
        line.last = following.or_else(|| line.sessions.first().copied());
        line.last.map(|session| (client_key, session))
    }

    /// Returns whether sessions of other clients wait.
    pub fn has_other_clients(&self, client_key: ClientKey) -> bool {
        self.waiting.keys().any(|other| *other != client_key)
    }

    /// Returns whether no session waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::websocket_api::testing::client;

    fn payer(number: u8) -> ClientKey {
        ClientKey::of(&client(&format!("10.0.0.{number}")), 64)
    }

    #[test]
    fn clients_are_served_round_robin_regardless_of_their_sessions() {
        let mut turns = RoundRobin::default();
        (1..=100).for_each(|id| turns.add(payer(1), SessionId(id)));
        turns.add(payer(2), SessionId(101));
        turns.add(payer(3), SessionId(102));
        let order: Vec<u64> = (0..9).filter_map(|_| turns.next()).map(|(_, session)| session.0).collect();
        assert_eq!(order, [1, 101, 102, 2, 101, 102, 3, 101, 102]);
    }

    #[test]
    fn a_removed_session_is_not_served() {
        let mut turns = RoundRobin::default();
        turns.add(payer(1), SessionId(1));
        turns.add(payer(1), SessionId(2));
        turns.remove(payer(1), SessionId(1));
        assert_eq!((turns.next(), turns.next()), (Some((payer(1), SessionId(2))), Some((payer(1), SessionId(2)))));
        turns.remove(payer(1), SessionId(2));
        turns.remove(payer(1), SessionId(2));
        assert!(turns.next().is_none() && turns.is_empty());
    }
}
