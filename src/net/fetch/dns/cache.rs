//! DNS cache.

use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

/// Bounds on the time to live of addresses.
const MIN_TTL: Duration = Duration::from_secs(30);
const MAX_TTL: Duration = Duration::from_secs(3600);

/// Result of a lookup: addresses (never empty, IPv4 and IPv6 alternating) or the reason why there are none.
pub type Resolution = Result<Rc<[IpAddr]>, &'static str>;

/// Results of lookups until they expire.
#[derive(Debug)]
pub struct Cache {
    entries: HashMap<String, (Resolution, Duration)>,
    max_entries: usize,
}

impl Cache {
    /// Returns an empty cache of at most `max_entries` names.
    pub fn new(max_entries: usize) -> Self {
        Self { entries: HashMap::new(), max_entries }
    }

    /// Returns the unexpired result for a name.
    pub fn get(&self, name: &str, now: Duration) -> Option<Resolution> {
        self.entries.get(name).filter(|(_, until)| now < *until).map(|(known, _)| known.clone())
    }

    /// Stores a result with its time to live. If the cache is full, the entry that expires first is evicted.
    pub fn put(&mut self, name: String, known: Resolution, lifetime: Duration, now: Duration) {
        let lifetime = match known {
            Ok(_) => lifetime.clamp(MIN_TTL, MAX_TTL),
            Err(_) => lifetime,
        };
        if self.entries.len() >= self.max_entries && !self.entries.contains_key(&name) {
            let oldest = self.entries.iter().min_by_key(|(_, (_, until))| *until).map(|(name, _)| name.clone());
            oldest.map(|oldest| self.entries.remove(&oldest));
        }
        if self.max_entries > 0 {
            self.entries.insert(name, (known, now + lifetime));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(last: u8) -> Resolution {
        Ok([IpAddr::from([127, 0, 0, last])].into())
    }

    #[test]
    fn addresses_are_cached_for_their_ttl_within_bounds() {
        let (mut cache, start) = (Cache::new(10), Duration::ZERO);
        cache.put("a".to_owned(), known(1), Duration::from_secs(100), start);
        cache.put("b".to_owned(), known(1), Duration::ZERO, start);
        cache.put("c".to_owned(), known(1), Duration::from_secs(1_000_000), start);
        cache.put("d".to_owned(), Err("none"), Duration::from_secs(5), start);
        let known_at = |seconds| {
            let now = start + Duration::from_secs(seconds);
            ["a", "b", "c", "d"].into_iter().filter(|name| cache.get(name, now).is_some()).collect::<String>()
        };
        assert_eq!(known_at(4), "abcd");
        assert_eq!(known_at(29), "abc");
        assert_eq!(known_at(30), "ac");
        assert_eq!(known_at(100), "c");
        assert_eq!(known_at(3600), "");
    }

    #[test]
    fn a_full_cache_evicts_the_entry_that_expires_first() {
        let (mut cache, now) = (Cache::new(2), Duration::ZERO);
        for (name, seconds) in [("a", 200), ("b", 100), ("c", 300), ("c", 400)] {
            cache.put(name.to_owned(), known(1), Duration::from_secs(seconds), now);
        }
        let names = ["a", "b", "c"].into_iter().filter(|name| cache.get(name, now).is_some()).collect::<String>();
        assert_eq!(names, "ac");
    }
}
