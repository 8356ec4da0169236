//! Addresses of host names: a cache, and the names to look up.
//!
//! Lookups wait, so the event loop takes the names from [`Names::next_lookup`] and returns the addresses with
//! [`Names::on_lookup`]. Addresses are used until a connection to them fails, and are then looked up again if they are
//! older than [`MIN_AGE`]. Names that had addresses before are looked up before all others, so that new names do not
//! delay them.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

/// Names whose addresses are known, as many as a list of settings has at most; beyond it the oldest is forgotten.
pub const MAX_NAMES: usize = 1_024;
/// Addresses used of one name.
pub const MAX_ADDRESSES: usize = 8;
/// Age of addresses from which on they are looked up again after a failed connection.
const MIN_AGE: Duration = Duration::from_secs(60);
/// How long a failed lookup is remembered.
const FAILURE_TTL: Duration = Duration::from_secs(30);

/// Result of a lookup: addresses (never empty) or the reason why there are none.
pub type Resolution = Result<Rc<[IpAddr]>, Rc<str>>;

#[derive(Debug)]
struct Entry {
    resolution: Resolution,
    since: Duration,
    /// A connection has failed.
    is_doubtful: bool,
}

impl Entry {
    fn is_current(&self, now: Duration) -> bool {
        let age = now.saturating_sub(self.since);
        if self.resolution.is_ok() { !self.is_doubtful || age < MIN_AGE } else { age < FAILURE_TTL }
    }
}

/// The names of hosts and their addresses.
#[derive(Debug, Default)]
pub struct Names {
    entries: BTreeMap<String, Entry>,
    /// Names to look up; each has requesters.
    queue: VecDeque<String>,
    /// Requesters and the names that they wait for.
    waiting: Vec<(usize, String)>,
    /// Requesters and the results of their requests.
    pub resolved: VecDeque<(usize, Resolution)>,
}

impl Names {
    /// Requests the addresses of a lower-case name or a numeric address. [`resolved`](Self::resolved) has
    /// them with the `requester`, at once or after a lookup.
    pub fn resolve(&mut self, name: &str, requester: usize, now: Duration) {
        if let Ok(address) = name.parse() {
            return self.resolved.push_back((requester, Ok([address].into())));
        }
        let known = self.entries.get(name);
        if let Some(entry) = known.filter(|entry| entry.is_current(now)) {
            return self.resolved.push_back((requester, entry.resolution.clone()));
        }
        if self.waiting.iter().all(|(_, other)| other != name) {
            if known.is_some_and(|entry| entry.resolution.is_ok()) {
                self.queue.push_front(name.to_owned());
            } else {
                self.queue.push_back(name.to_owned());
            }
        }
        self.waiting.push((requester, name.to_owned()));
    }

    /// Cancels the request of a requester.
    pub fn cancel(&mut self, requester: usize) {
        self.resolved.retain(|(other, _)| *other != requester);
        self.waiting.retain(|(other, _)| *other != requester);
    }

    /// Returns whether [`next_lookup`](Self::next_lookup) may have a name.
    pub fn has_lookup(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Returns the next name to look up. Names that nobody waits for any longer are left out.
    pub fn next_lookup(&mut self) -> Option<String> {
        let mut names = std::iter::from_fn(|| self.queue.pop_front());
        names.find(|name| self.waiting.iter().any(|(_, other)| other == name))
    }

    /// Stores the result of a lookup.
    pub fn on_lookup(&mut self, name: &str, result: Result<Vec<IpAddr>, String>, now: Duration) {
        let resolution: Resolution = match result {
            Ok(addresses) if addresses.is_empty() => Err("the name has no address".into()),
            Ok(addresses) => Ok(addresses.into_iter().take(MAX_ADDRESSES).collect()),
            Err(reason) => Err(reason.into()),
        };
        for (requester, _) in self.waiting.extract_if(.., |(_, other)| other == name) {
            self.resolved.push_back((requester, resolution.clone()));
        }
        if self.entries.len() >= MAX_NAMES && !self.entries.contains_key(name) {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.since).map(|(name, _)| name.clone());
            oldest.map(|oldest| self.entries.remove(&oldest));
        }
        self.entries.insert(name.to_owned(), Entry { resolution, since: now, is_doubtful: false });
    }

    /// Records that a host of this name was connected to at an address, which is then the first one.
    pub fn on_connection(&mut self, name: &str, address: IpAddr) {
        if let Some(Entry { resolution: Ok(addresses), .. }) = self.entries.get_mut(name)
            && addresses.first() != Some(&address)
        {
            let mut sorted = addresses.to_vec();
            sorted.sort_by_key(|other| *other != address);
            *addresses = sorted.into();
        }
    }

    /// Records that a connection to a host of this name has failed.
    pub fn on_failed_connection(&mut self, name: &str) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.is_doubtful = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_000);

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    /// Requests a name and returns what is resolved at once.
    fn resolve(names: &mut Names, name: &str, now: Duration) -> Option<Resolution> {
        names.resolve(name, 7, now);
        let resolved = names.resolved.pop_front().map(|(requester, resolution)| {
            assert_eq!(requester, 7);
            resolution
        });
        names.cancel(7);
        resolved
    }

    #[test]
    fn numeric_addresses_need_no_lookup() {
        let mut names = Names::default();
        assert_eq!(resolve(&mut names, "10.0.0.1", NOW), Some(Ok([address(1)].into())));
        assert_eq!(resolve(&mut names, "::1", NOW), Some(Ok(["::1".parse().unwrap()].into())));
        assert_eq!(names.next_lookup(), None);
    }

    #[test]
    fn one_lookup_serves_all_requesters_of_a_name_and_is_dropped_with_the_last() {
        let mut names = Names::default();
        for requester in [1, 2, 3] {
            names.resolve("a", requester, NOW);
        }
        names.cancel(2);
        assert_eq!(names.next_lookup().as_deref(), Some("a"));
        assert_eq!(names.next_lookup(), None);
        names.on_lookup("a", Ok(vec![address(1)]), NOW);
        let found: Vec<_> = std::iter::from_fn(|| names.resolved.pop_front()).map(|(requester, _)| requester).collect();
        assert_eq!(found, [1, 3]);
        names.resolve("b", 4, NOW);
        names.cancel(4);
        assert_eq!(names.next_lookup(), None);
    }

    #[test]
    fn addresses_are_looked_up_again_when_they_are_old_and_a_connection_has_failed() {
        let mut names = Names::default();
        names.on_lookup("a", Ok(vec![address(1)]), NOW);
        let later = NOW + 100 * MIN_AGE;
        assert!(resolve(&mut names, "a", later).is_some(), "no connection has failed");
        names.on_failed_connection("a");
        assert!(resolve(&mut names, "a", NOW + MIN_AGE - Duration::from_nanos(1)).is_some(), "they are not old");
        assert!(resolve(&mut names, "a", NOW + MIN_AGE).is_none());
        names.resolve("a", 1, later);
        assert_eq!(names.next_lookup().as_deref(), Some("a"));
        names.on_lookup("a", Ok(vec![address(2)]), later);
        assert_eq!(names.resolved.pop_front(), Some((1, Ok([address(2)].into()))));
    }

    #[test]
    fn a_failed_lookup_is_repeated_after_a_while() {
        let mut names = Names::default();
        names.on_lookup("a", Err("none".to_owned()), NOW);
        names.on_lookup("b", Ok(Vec::new()), NOW);
        for name in ["a", "b"] {
            assert!(matches!(resolve(&mut names, name, NOW), Some(Err(_))), "{name}");
            assert!(resolve(&mut names, name, NOW + FAILURE_TTL).is_none(), "{name}");
        }
    }

    #[test]
    fn names_that_had_addresses_are_looked_up_first() {
        let mut names = Names::default();
        names.on_lookup("old", Ok(vec![address(1)]), NOW);
        names.on_failed_connection("old");
        let later = NOW + MIN_AGE;
        for (requester, name) in ["x", "y", "old"].into_iter().enumerate() {
            names.resolve(name, requester, later);
        }
        let order: Vec<_> = std::iter::from_fn(|| names.next_lookup()).collect();
        assert_eq!(order, ["old", "x", "y"]);
    }

    #[test]
    fn a_full_cache_gives_up_the_oldest_entry() {
        let mut names = Names::default();
        for second in 0..=MAX_NAMES {
            let (name, now) = (second.to_string(), NOW + Duration::from_secs(second as u64));
            names.on_lookup(&name, Ok(vec![address(1); 2 * MAX_ADDRESSES]), now);
        }
        assert_eq!((names.entries.len(), names.entries.contains_key("0")), (MAX_NAMES, false));
        assert_eq!(names.entries["1"].resolution.as_ref().unwrap().len(), MAX_ADDRESSES);
    }
}
