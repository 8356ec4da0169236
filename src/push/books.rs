//! The books: what each session and each caller makes the broker hold.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use super::{Limits, SessionId};

/// Who answers for a session: an IPv4 address, or the network of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Payer(IpAddr);

impl Payer {
    /// Who answers for a caller, where the first `ipv6_prefix` bits of an IPv6 address stand for one.
    pub fn of(address: IpAddr, ipv6_prefix: u8) -> Payer {
        Payer(match address.to_canonical() {
            IpAddr::V6(address) => {
                let host_bits = 128 - u32::from(ipv6_prefix.min(128));
                let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
            address => address,
        })
    }
}

/// What one session, or all of one caller, make the broker hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Bytes of memory, reckoned generously.
    pub bytes: usize,
    /// Subscriptions to patterns.
    pub patterns: usize,
}

/// Whose limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// The session's own.
    Session,
    /// The caller's.
    Caller,
}

/// Holdings by caller and session.
#[derive(Debug, Default)]
pub struct Books {
    callers: BTreeMap<Payer, Page>,
    total: Holdings,
}

/// The holdings of one caller.
#[derive(Debug, Default)]
struct Page {
    held: Holdings,
    sessions: BTreeMap<SessionId, Holdings>,
}

impl Books {
    /// What all sessions hold.
    pub fn total(&self) -> Holdings {
        self.total
    }

    /// What one session holds.
    pub fn of(&self, payer: Payer, session: SessionId) -> Holdings {
        let page = self.callers.get(&payer);
        page.and_then(|page| page.sessions.get(&session)).copied().unwrap_or_default()
    }

    /// Whether a session may hold so many bytes more, of which `common_bytes` count for its caller only.
    pub fn check(
        &self,
        payer: Payer,
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

    /// Enters what a session holds from now on.
    pub fn add(&mut self, payer: Payer, session: SessionId, more: Holdings) {
        let page = self.callers.entry(payer).or_default();
        for held in [page.sessions.entry(session).or_default(), &mut page.held, &mut self.total] {
            held.bytes += more.bytes;
            held.patterns += more.patterns;
        }
    }

    /// Strikes out what a session holds no longer.
    pub fn remove(&mut self, payer: Payer, session: SessionId, less: Holdings) {
        let Some(page) = self.callers.get_mut(&payer) else { return };
        let Some(own) = page.sessions.get_mut(&session) else { return };
        for held in [own, &mut page.held, &mut self.total] {
            held.bytes -= less.bytes;
            held.patterns -= less.patterns;
        }
    }

    /// Strikes out all that a session holds.
    pub fn close(&mut self, payer: Payer, session: SessionId) {
        self.remove(payer, session, self.of(payer, session));
        if let Some(page) = self.callers.get_mut(&payer) {
            page.sessions.remove(&session);
            if page.sessions.is_empty() {
                self.callers.remove(&payer);
            }
        }
    }

    /// The session with most of something, of the caller with most of it.
    pub fn hog(&self, most: impl Fn(&Holdings) -> usize) -> Option<SessionId> {
        let page = self.callers.values().max_by_key(|page| most(&page.held))?;
        page.sessions.iter().max_by_key(|(_, held)| most(held)).map(|(session, _)| *session)
    }

    /// Whether nobody holds anything.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.callers.is_empty() && self.total == Holdings::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payer(address: &str) -> Payer {
        Payer::of(address.parse().unwrap(), 64)
    }

    fn bytes(bytes: usize) -> Holdings {
        Holdings { bytes, patterns: 0 }
    }

    #[test]
    fn an_ipv6_network_is_one_payer_and_an_ipv4_address_another() {
        assert_eq!(payer("2001:db8:1:2::1"), payer("2001:db8:1:2:ffff::9"));
        assert_ne!(payer("2001:db8:1:2::1"), payer("2001:db8:1:3::1"));
        assert_ne!(payer("10.0.0.1"), payer("10.0.0.2"));
        assert_eq!(payer("::ffff:10.0.0.1"), payer("10.0.0.1"));
        let all = |prefix| [Payer::of("::1".parse().unwrap(), prefix), Payer::of("8000::".parse().unwrap(), prefix)];
        assert!(
            all(0)[0] == all(0)[1] && all(1)[0] != all(1)[1] && all(128)[0] != all(128)[1] && all(200)[0] != all(0)[0]
        );
    }

    #[test]
    fn the_hog_is_the_largest_session_of_the_largest_caller_and_not_the_largest_session() {
        let mut books = Books::default();
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
        let mut books = Books::default();
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
}
