//! Resource usage of sessions and clients.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Limits, SessionId};
use crate::metrics::{Ranking, subtract};
use crate::net::ClientKey;

/// Resources that one session, or all sessions of one client, use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of memory, estimated generously.
    pub bytes: usize,
    /// Subscriptions to patterns.
    pub patterns: usize,
}

/// The limit that is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaExceeded {
    /// The limit per session.
    Session,
    /// The limit per client.
    Client,
}

/// Resource usage by client and session.
#[derive(Debug, Default)]
pub struct QuotaTable {
    clients: BTreeMap<ClientKey, ClientUsage>,
    total: Usage,
    /// Number of sessions from this machine.
    local_sessions: usize,
    /// Number of sessions of each other client.
    remote_sessions: Ranking<ClientKey>,
}

/// Resource usage of one client.
#[derive(Debug, Default)]
struct ClientUsage {
    held: Usage,
    sessions: BTreeMap<SessionId, SessionUsage>,
    /// Sessions by the time of their last message.
    by_last_message: BTreeSet<(Duration, SessionId)>,
}

/// Usage and activity of one session.
#[derive(Clone, Copy, Debug)]
struct SessionUsage {
    held: Usage,
    /// Time of its opening or last message, as time since the start.
    last_message: Duration,
}

impl QuotaTable {
    /// Usage of all sessions together.
    pub fn total(&self) -> Usage {
        self.total
    }

    /// Usage of one session.
    pub fn of(&self, client_key: ClientKey, session: SessionId) -> Usage {
        let page = self.clients.get(&client_key);
        page.and_then(|page| page.sessions.get(&session)).map(|entry| entry.held).unwrap_or_default()
    }

    /// Checks whether a session may use more memory: `own_bytes` count for the session and its client, `common_bytes`
    /// for the client only.
    pub fn check(
        &self,
        client_key: ClientKey,
        session: SessionId,
        own_bytes: usize,
        common_bytes: usize,
        limits: &Limits,
    ) -> Result<(), QuotaExceeded> {
        if own_bytes > 0 && self.of(client_key, session).bytes + own_bytes > limits.session_bytes {
            return Err(QuotaExceeded::Session);
        }
        let held = self.clients.get(&client_key).map_or(0, |page| page.held.bytes);
        if held + own_bytes + common_bytes > limits.client_bytes { Err(QuotaExceeded::Client) } else { Ok(()) }
    }

    /// Adds a new session without usage.
    pub fn open(&mut self, client_key: ClientKey, session: SessionId, now: Duration) {
        let page = self.clients.entry(client_key).or_default();
        page.sessions.insert(session, SessionUsage { held: Usage::default(), last_message: now });
        page.by_last_message.insert((now, session));
        self.update_count(client_key);
    }

    /// Records that a session has sent something.
    pub fn record_message(&mut self, client_key: ClientKey, session: SessionId, now: Duration) {
        let Some(page) = self.clients.get_mut(&client_key) else { return };
        let Some(entry) = page.sessions.get_mut(&session) else { return };
        let before = std::mem::replace(&mut entry.last_message, now);
        page.by_last_message.remove(&(before, session));
        page.by_last_message.insert((now, session));
    }

    /// Adds to the usage of a session.
    pub fn add(&mut self, client_key: ClientKey, session: SessionId, more: Usage) {
        let Some(page) = self.clients.get_mut(&client_key) else { return };
        let Some(own) = page.sessions.get_mut(&session) else { return };
        for held in [&mut own.held, &mut page.held, &mut self.total] {
            held.bytes += more.bytes;
            held.patterns += more.patterns;
        }
    }

    /// Subtracts from the usage of a session.
    pub fn remove(&mut self, client_key: ClientKey, session: SessionId, less: Usage) {
        let Some(page) = self.clients.get_mut(&client_key) else { return };
        let Some(own) = page.sessions.get_mut(&session) else { return };
        for held in [&mut own.held, &mut page.held, &mut self.total] {
            subtract(&mut held.bytes, less.bytes);
            subtract(&mut held.patterns, less.patterns);
        }
    }

    /// Removes a session and its usage.
    pub fn close(&mut self, client_key: ClientKey, session: SessionId) {
        self.remove(client_key, session, self.of(client_key, session));
        let Some(page) = self.clients.get_mut(&client_key) else { return };
        if let Some(entry) = page.sessions.remove(&session) {
            page.by_last_message.remove(&(entry.last_message, session));
        }
        if page.sessions.is_empty() {
            self.clients.remove(&client_key);
        }
        self.update_count(client_key);
    }

    /// Updates the number of a client's sessions.
    fn update_count(&mut self, client: ClientKey) {
        let count = self.clients.get(&client).map_or(0, |page| page.sessions.len());
        match client.is_local() {
            true => self.local_sessions = self.local().map(|(_, page)| page.sessions.len()).sum(),
            false => self.remote_sessions.set(client, count),
        }
    }

    /// The clients of this machine: one for IPv4 and one for IPv6.
    fn local(&self) -> impl Iterator<Item = (&ClientKey, &ClientUsage)> {
        self.clients.iter().rev().take_while(|(client, _)| client.is_local())
    }

    /// Returns whether no session is left for a client. Some sessions are reserved for this machine.
    pub fn is_full_for(&self, client: ClientKey, limits: &Limits) -> bool {
        let reserved = if client.is_local() { 0 } else { limits.reserved_local_sessions().max(self.local_sessions) };
        let taken = if client.is_local() { self.local_sessions } else { 0 };
        self.remote_sessions.total() + taken + reserved >= limits.sessions
    }

    /// Returns the session to evict for a new session of a client when all are taken: the longest silent session of the
    /// client with the most sessions, if that client has more than the other would have. Sessions reserved for this
    /// machine do not count.
    pub fn eviction_candidate(&self, client: ClientKey, limits: &Limits) -> Option<SessionId> {
        let reserved = limits.reserved_local_sessions();
        let local = self.local().map(|(client, page)| (page.sessions.len().saturating_sub(reserved), *client));
        let (largest_count, largest) = self.remote_sessions.largest().into_iter().chain(local).max()?;
        let own_sessions = self.clients.get(&client).map_or(0, |page| page.sessions.len());
        let page = self.clients.get(&largest).filter(|_| largest_count > own_sessions + 1)?;
        page.by_last_message.first().map(|(_, session)| *session)
    }

    /// Returns the session that uses most of a resource, of the client that uses most of it.
    pub fn largest_session(&self, measure: impl Fn(&Usage) -> usize) -> Option<SessionId> {
        let page = self.clients.values().max_by_key(|page| measure(&page.held))?;
        page.sessions.iter().max_by_key(|(_, entry)| measure(&entry.held)).map(|(session, _)| *session)
    }

    /// Returns whether there is no usage.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty() && self.total == Usage::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::websocket_api::testing::client;

    fn payer(address: &str) -> ClientKey {
        ClientKey::of(&client(address), 64)
    }

    /// A table with one session for each of these clients, opened one second after the other.
    fn books(payers: &[ClientKey]) -> QuotaTable {
        let mut quotas = QuotaTable::default();
        for (second, client_key) in (1..).zip(payers) {
            quotas.open(*client_key, SessionId(second), Duration::from_secs(second));
        }
        quotas
    }

    fn bytes(bytes: usize) -> Usage {
        Usage { bytes, patterns: 0 }
    }

    #[test]
    fn the_memory_eviction_candidate_is_the_largest_session_of_the_largest_client() {
        let mut quotas = books(&[payer("10.0.0.1"), payer("10.0.0.2"), payer("10.0.0.2")]);
        quotas.add(payer("10.0.0.1"), SessionId(1), bytes(60));
        quotas.add(payer("10.0.0.2"), SessionId(2), bytes(30));
        quotas.add(payer("10.0.0.2"), SessionId(3), bytes(40));
        assert_eq!(quotas.largest_session(|held| held.bytes), Some(SessionId(3)));
        quotas.close(payer("10.0.0.2"), SessionId(3));
        assert_eq!(quotas.largest_session(|held| held.bytes), Some(SessionId(1)));
        quotas.close(payer("10.0.0.1"), SessionId(1));
        quotas.close(payer("10.0.0.2"), SessionId(2));
        assert!(quotas.is_empty() && quotas.largest_session(|held| held.bytes).is_none());
    }

    #[test]
    fn quotas_apply_to_the_session_and_to_its_client() {
        let mut quotas = books(&[payer("10.0.0.1")]);
        let limits = Limits { session_bytes: 100, client_bytes: 150, ..Limits::default() };
        let (a, b) = (payer("10.0.0.1"), payer("10.0.0.2"));
        quotas.add(a, SessionId(1), bytes(90));
        assert_eq!(quotas.check(a, SessionId(1), 11, 0, &limits), Err(QuotaExceeded::Session));
        assert_eq!(quotas.check(a, SessionId(1), 10, 0, &limits), Ok(()));
        assert_eq!(quotas.check(a, SessionId(1), 0, 60, &limits), Ok(()), "what is common is no part of the session");
        assert_eq!(quotas.check(a, SessionId(2), 61, 0, &limits), Err(QuotaExceeded::Client));
        assert_eq!(quotas.check(b, SessionId(3), 61, 0, &limits), Ok(()));
        quotas.remove(a, SessionId(1), bytes(90));
        assert_eq!(quotas.total(), Usage::default());
    }

    #[test]
    fn the_longest_silent_session_of_the_largest_client_is_evicted_for_a_smaller_one() {
        let [a, b, c] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(payer);
        let mut quotas = books(&[b, a, a, a, b]);
        assert_eq!(quotas.eviction_candidate(c, &Limits::default()), Some(SessionId(2)));
        assert_eq!(quotas.eviction_candidate(b, &Limits::default()), None, "it would have as many");
        assert_eq!(quotas.eviction_candidate(a, &Limits::default()), None);
        quotas.record_message(a, SessionId(2), Duration::from_secs(9));
        assert_eq!(quotas.eviction_candidate(c, &Limits::default()), Some(SessionId(3)));
        (2..=4).for_each(|session| quotas.close(a, SessionId(session)));
        assert_eq!(quotas.eviction_candidate(c, &Limits::default()), Some(SessionId(1)));
        quotas.close(b, SessionId(1));
        assert_eq!(quotas.eviction_candidate(c, &Limits::default()), None, "nobody has more than one");
        quotas.close(b, SessionId(5));
        assert!(quotas.is_empty());
    }

    #[test]
    fn reserved_sessions_of_local_clients_are_not_evicted() {
        let (local, a, b) = (payer("127.0.0.1"), payer("10.0.0.1"), payer("10.0.0.2"));
        let limits = Limits { sessions: 200, ..Limits::default() };
        assert_eq!(limits.reserved_local_sessions(), 2);
        let mut full = books(&[a; 198]);
        assert!(full.is_full_for(b, &limits) && full.is_full_for(a, &limits) && !full.is_full_for(local, &limits));
        full.open(local, SessionId(1_000), Duration::ZERO);
        assert!(!full.is_full_for(local, &limits));
        full.open(payer("::1"), SessionId(1_001), Duration::ZERO);
        assert!(full.is_full_for(local, &limits));
        full.close(a, SessionId(1));
        assert!(!full.is_full_for(local, &limits) && !full.is_full_for(b, &limits));
        let of_this_machine = books(&[local; 200]);
        assert!(of_this_machine.is_full_for(a, &limits));
        assert_eq!(
            of_this_machine.eviction_candidate(a, &limits),
            Some(SessionId(1)),
            "beyond its places it is like everybody"
        );
        assert_eq!(books(&[local, local, a]).eviction_candidate(b, &limits), None);
    }
}
