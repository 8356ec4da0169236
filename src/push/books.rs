//! Resource usage of sessions and clients.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Limits, SessionId};
use crate::figures::{Ranking, take_off};
use crate::net::ClientKey;

/// Resources that one session, or all sessions of one client, use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Bytes of memory, estimated generously.
    pub bytes: usize,
    /// Subscriptions to patterns.
    pub patterns: usize,
}

/// The limit that is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// The limit per session.
    Session,
    /// The limit per client.
    Caller,
}

/// Resource usage by client and session.
#[derive(Debug, Default)]
pub struct Books {
    callers: BTreeMap<ClientKey, Page>,
    total: Holdings,
    /// Number of sessions from this machine.
    local_sessions: usize,
    /// Number of sessions of each other client.
    remote_sessions: Ranking<ClientKey>,
}

/// Resource usage of one client.
#[derive(Debug, Default)]
struct Page {
    held: Holdings,
    sessions: BTreeMap<SessionId, Entry>,
    /// Sessions by the time of their last message.
    by_silence: BTreeSet<(Duration, SessionId)>,
}

/// Usage and activity of one session.
#[derive(Clone, Copy, Debug)]
struct Entry {
    held: Holdings,
    /// Time of its opening or last message, as time since the start.
    heard: Duration,
}

impl Books {
    /// Usage of all sessions together.
    pub fn total(&self) -> Holdings {
        self.total
    }

    /// Usage of one session.
    pub fn of(&self, payer: ClientKey, session: SessionId) -> Holdings {
        let page = self.callers.get(&payer);
        page.and_then(|page| page.sessions.get(&session)).map(|entry| entry.held).unwrap_or_default()
    }

    /// Checks whether a session may use more memory: `own_bytes` count for the session and its client, `common_bytes`
    /// for the client only.
    pub fn check(
        &self,
        payer: ClientKey,
        session: SessionId,
        own_bytes: usize,
        common_bytes: usize,
        limits: &Limits,
    ) -> Result<(), NoRoom> {
        if own_bytes > 0 && self.of(payer, session).bytes + own_bytes > limits.session_bytes {
            return Err(NoRoom::Session);
        }
        let held = self.callers.get(&payer).map_or(0, |page| page.held.bytes);
        if held + own_bytes + common_bytes > limits.caller_bytes { Err(NoRoom::Caller) } else { Ok(()) }
    }

    /// Adds a new session without usage.
    pub fn open(&mut self, payer: ClientKey, session: SessionId, now: Duration) {
        let page = self.callers.entry(payer).or_default();
        page.sessions.insert(session, Entry { held: Holdings::default(), heard: now });
        page.by_silence.insert((now, session));
        self.count(payer);
    }

    /// Records that a session has sent something.
    pub fn heard(&mut self, payer: ClientKey, session: SessionId, now: Duration) {
        let Some(page) = self.callers.get_mut(&payer) else { return };
        let Some(entry) = page.sessions.get_mut(&session) else { return };
        let before = std::mem::replace(&mut entry.heard, now);
        page.by_silence.remove(&(before, session));
        page.by_silence.insert((now, session));
    }

    /// Adds to the usage of a session.
    pub fn add(&mut self, payer: ClientKey, session: SessionId, more: Holdings) {
        let Some(page) = self.callers.get_mut(&payer) else { return };
        let Some(own) = page.sessions.get_mut(&session) else { return };
        for held in [&mut own.held, &mut page.held, &mut self.total] {
            held.bytes += more.bytes;
            held.patterns += more.patterns;
        }
    }

    /// Subtracts from the usage of a session.
    pub fn remove(&mut self, payer: ClientKey, session: SessionId, less: Holdings) {
        let Some(page) = self.callers.get_mut(&payer) else { return };
        let Some(own) = page.sessions.get_mut(&session) else { return };
        for held in [&mut own.held, &mut page.held, &mut self.total] {
            take_off(&mut held.bytes, less.bytes);
            take_off(&mut held.patterns, less.patterns);
        }
    }

    /// Removes a session and its usage.
    pub fn close(&mut self, payer: ClientKey, session: SessionId) {
        self.remove(payer, session, self.of(payer, session));
        let Some(page) = self.callers.get_mut(&payer) else { return };
        if let Some(entry) = page.sessions.remove(&session) {
            page.by_silence.remove(&(entry.heard, session));
        }
        if page.sessions.is_empty() {
            self.callers.remove(&payer);
        }
        self.count(payer);
    }

    /// Updates the number of a client's sessions.
    fn count(&mut self, client: ClientKey) {
        let count = self.callers.get(&client).map_or(0, |page| page.sessions.len());
        match client.is_local() {
            true => self.local_sessions = self.local().map(|(_, page)| page.sessions.len()).sum(),
            false => self.remote_sessions.set(client, count),
        }
    }

    /// The clients of this machine: one for IPv4 and one for IPv6.
    fn local(&self) -> impl Iterator<Item = (&ClientKey, &Page)> {
        self.callers.iter().rev().take_while(|(client, _)| client.is_local())
    }

    /// Returns whether no session is left for a client. Some sessions are reserved for this machine.
    pub fn is_full_for(&self, client: ClientKey, limits: &Limits) -> bool {
        let reserved = if client.is_local() { 0 } else { limits.local_sessions().max(self.local_sessions) };
        let taken = if client.is_local() { self.local_sessions } else { 0 };
        self.remote_sessions.total() + taken + reserved >= limits.sessions
    }

    /// Returns the session to evict for a new session of a client when all are taken: the longest silent session of the
    /// client with the most sessions, if that client has more than the other would have. Sessions reserved for this
    /// machine do not count.
    pub fn gives_way_to(&self, client: ClientKey, limits: &Limits) -> Option<SessionId> {
        let reserved = limits.local_sessions();
        let local = self.local().map(|(client, page)| (page.sessions.len().saturating_sub(reserved), *client));
        let (most, largest) = self.remote_sessions.largest().into_iter().chain(local).max()?;
        let own = self.callers.get(&client).map_or(0, |page| page.sessions.len());
        let page = self.callers.get(&largest).filter(|_| most > own + 1)?;
        page.by_silence.first().map(|(_, session)| *session)
    }

    /// Returns the session that uses most of a resource, of the client that uses most of it.
    pub fn hog(&self, most: impl Fn(&Holdings) -> usize) -> Option<SessionId> {
        let page = self.callers.values().max_by_key(|page| most(&page.held))?;
        page.sessions.iter().max_by_key(|(_, entry)| most(&entry.held)).map(|(session, _)| *session)
    }

    /// Returns whether there is no usage.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.callers.is_empty() && self.total == Holdings::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::testing::caller;

    fn payer(address: &str) -> ClientKey {
        ClientKey::of(&caller(address), 64)
    }

    /// A table with one session for each of these clients, opened one second after the other.
    fn books(payers: &[ClientKey]) -> Books {
        let mut books = Books::default();
        for (second, payer) in (1..).zip(payers) {
            books.open(*payer, SessionId(second), Duration::from_secs(second));
        }
        books
    }

    fn bytes(bytes: usize) -> Holdings {
        Holdings { bytes, patterns: 0 }
    }

    #[test]
    fn the_hog_is_the_largest_session_of_the_largest_caller_and_not_the_largest_session() {
        let mut books = books(&[payer("10.0.0.1"), payer("10.0.0.2"), payer("10.0.0.2")]);
        books.add(payer("10.0.0.1"), SessionId(1), bytes(60));
        books.add(payer("10.0.0.2"), SessionId(2), bytes(30));
        books.add(payer("10.0.0.2"), SessionId(3), bytes(40));
        assert_eq!(books.hog(|held| held.bytes), Some(SessionId(3)));
        books.close(payer("10.0.0.2"), SessionId(3));
        assert_eq!(books.hog(|held| held.bytes), Some(SessionId(1)));
        books.close(payer("10.0.0.1"), SessionId(1));
        books.close(payer("10.0.0.2"), SessionId(2));
        assert!(books.is_empty() && books.hog(|held| held.bytes).is_none());
    }

    #[test]
    fn limits_are_those_of_the_session_and_of_its_caller() {
        let mut books = books(&[payer("10.0.0.1")]);
        let limits = Limits { session_bytes: 100, caller_bytes: 150, ..Limits::default() };
        let (a, b) = (payer("10.0.0.1"), payer("10.0.0.2"));
        books.add(a, SessionId(1), bytes(90));
        assert_eq!(books.check(a, SessionId(1), 11, 0, &limits), Err(NoRoom::Session));
        assert_eq!(books.check(a, SessionId(1), 10, 0, &limits), Ok(()));
        assert_eq!(books.check(a, SessionId(1), 0, 60, &limits), Ok(()), "what is common is no part of the session");
        assert_eq!(books.check(a, SessionId(2), 61, 0, &limits), Err(NoRoom::Caller));
        assert_eq!(books.check(b, SessionId(3), 61, 0, &limits), Ok(()));
        books.remove(a, SessionId(1), bytes(90));
        assert_eq!(books.total(), Holdings::default());
    }

    #[test]
    fn the_longest_silent_session_of_who_has_most_gives_way_unless_the_newcomer_would_have_as_many() {
        let [a, b, c] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(payer);
        let mut books = books(&[b, a, a, a, b]);
        assert_eq!(books.gives_way_to(c, &Limits::default()), Some(SessionId(2)));
        assert_eq!(books.gives_way_to(b, &Limits::default()), None, "it would have as many");
        assert_eq!(books.gives_way_to(a, &Limits::default()), None);
        books.heard(a, SessionId(2), Duration::from_secs(9));
        assert_eq!(books.gives_way_to(c, &Limits::default()), Some(SessionId(3)));
        (2..=4).for_each(|session| books.close(a, SessionId(session)));
        assert_eq!(books.gives_way_to(c, &Limits::default()), Some(SessionId(1)));
        books.close(b, SessionId(1));
        assert_eq!(books.gives_way_to(c, &Limits::default()), None, "nobody has more than one");
        books.close(b, SessionId(5));
        assert!(books.is_empty());
    }

    #[test]
    fn places_are_kept_for_this_machine_and_their_sessions_give_way_to_nobody() {
        let (local, a, b) = (payer("127.0.0.1"), payer("10.0.0.1"), payer("10.0.0.2"));
        let limits = Limits { sessions: 200, ..Limits::default() };
        assert_eq!(limits.local_sessions(), 2);
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
            of_this_machine.gives_way_to(a, &limits),
            Some(SessionId(1)),
            "beyond its places it is like everybody"
        );
        assert_eq!(books(&[local, local, a]).gives_way_to(b, &limits), None);
    }
}
