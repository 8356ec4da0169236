//! Cache of the validation results of recently announced or pushed transactions, or of pushed blocks.
//!
//! A result is remembered for the exact bytes received, signatures included. NIS1 remembers it for the hash of the
//! entity, which does not cover the signature: there, a copy with an invalid signature, sent first, blocks the genuine
//! one.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::crypto::hash::keccak256;
use crate::model::Hash256;
use crate::rules::ValidationResult;

/// Time between two checks for expired results.
const PURGE_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of remembered results; at the limit the oldest is evicted.
pub const MAX_RESULTS: usize = 100_000;

/// Maximum number of expired results that one lookup removes.
const MAX_REMOVALS: usize = 16;

/// Hash of all bytes of an entity, including its signature and those of what it contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContentHash(Hash256);

impl ContentHash {
    /// Hashes the verifiable binary form of an entity.
    pub fn of(bytes: &[u8]) -> ContentHash {
        ContentHash(Hash256(keccak256(bytes)))
    }
}

/// Recent results by content hash. All times are those since the start, so that no clock that is set changes how long
/// results are remembered.
pub struct RecentResults {
    /// How long a result is remembered.
    ttl: Duration,
    /// Arrival times and results.
    results: BTreeMap<ContentHash, (Duration, ValidationResult)>,
    /// Arrival times and hashes, in order of arrival.
    order: VecDeque<(Duration, ContentHash)>,
    /// Time of the last check for expired results. Results expire then, and are removed later.
    last_purge: Duration,
}

impl Default for RecentResults {
    /// Creates the cache for transactions, which remembers results for 600 seconds.
    fn default() -> RecentResults {
        RecentResults::with_ttl(Duration::from_secs(600))
    }
}

impl RecentResults {
    /// Creates a cache that remembers each result for `ttl`.
    pub fn with_ttl(ttl: Duration) -> RecentResults {
        RecentResults { ttl, results: BTreeMap::new(), order: VecDeque::new(), last_purge: Duration::ZERO }
    }

    /// Returns the number of results, including expired ones that are not removed yet.
    pub fn count(&self) -> usize {
        self.order.len()
    }

    /// Returns the remembered result.
    pub fn get(&mut self, hash: &ContentHash, now: Duration) -> Option<ValidationResult> {
        if now.saturating_sub(self.last_purge) > PURGE_INTERVAL {
            self.last_purge = now;
        }
        for _ in 0..MAX_REMOVALS {
            if self.order.front().is_some_and(|(since, _)| self.is_expired(*since)) {
                self.remove_oldest();
            }
        }
        self.results.get(hash).filter(|(since, _)| !self.is_expired(*since)).map(|(_, result)| *result)
    }

    fn is_expired(&self, since: Duration) -> bool {
        since + self.ttl <= self.last_purge
    }

    /// Remembers a new entity, with the result neutral until it is set.
    pub fn insert(&mut self, hash: ContentHash, now: Duration) {
        if self.order.len() == MAX_RESULTS {
            self.remove_oldest();
        }
        self.results.insert(hash, (now, ValidationResult::Neutral));
        self.order.push_back((now, hash));
    }

    /// Sets the result of a remembered entity. Success is remembered as neutral.
    pub fn set_result(&mut self, hash: &ContentHash, result: ValidationResult) {
        if let Some((_, remembered)) = self.results.get_mut(hash) {
            *remembered = if result.is_success() { ValidationResult::Neutral } else { result };
        }
    }

    /// Forgets an entity.
    pub fn forget(&mut self, hash: &ContentHash) {
        self.results.remove(hash);
    }

    fn remove_oldest(&mut self) {
        if let Some((since, hash)) = self.order.pop_front()
            // It may have arrived again after it expired.
            && self.results.get(&hash).is_some_and(|(arrived, _)| *arrived == since)
        {
            self.results.remove(&hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: ContentHash = ContentHash(Hash256([1; 32]));

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_result_is_cached_for_ten_minutes() {
        let mut memory = RecentResults::default();
        memory.insert(HASH, at(1000));
        assert_eq!(memory.get(&HASH, at(1000)), Some(ValidationResult::Neutral));
        memory.set_result(&HASH, ValidationResult::FailurePastDeadline);
        assert_eq!(memory.get(&HASH, at(1599)), Some(ValidationResult::FailurePastDeadline));
        // The last check was less than a minute ago.
        assert_eq!(memory.get(&HASH, at(1650)), Some(ValidationResult::FailurePastDeadline));
        assert_eq!(memory.get(&HASH, at(1660)), None);
    }

    #[test]
    fn an_expired_result_is_cached_again() {
        let mut memory = RecentResults::default();
        let hash = |number: u8| ContentHash(Hash256([number; 32]));
        (0..100).for_each(|number| memory.insert(hash(number), at(1000)));
        // Expired results are removed gradually.
        assert_eq!(memory.get(&hash(99), at(1700)), None);
        assert!(memory.results.contains_key(&hash(99)));
        memory.insert(hash(99), at(1700));
        for _ in 0..100 {
            assert_eq!(memory.get(&hash(99), at(1700)), Some(ValidationResult::Neutral));
            assert_eq!(memory.get(&hash(50), at(1700)), None);
        }
        assert_eq!((memory.results.len(), memory.order.len()), (1, 1));
    }

    #[test]
    fn an_accepted_transaction_is_neutral_when_repeated() {
        let mut memory = RecentResults::default();
        memory.insert(HASH, at(0));
        memory.set_result(&HASH, ValidationResult::Success);
        assert_eq!(memory.get(&HASH, at(1)), Some(ValidationResult::Neutral));
    }

    #[test]
    fn the_oldest_result_is_evicted_at_the_limit() {
        let mut memory = RecentResults::default();
        let hash = |number: usize| {
            let mut hash = Hash256::default();
            hash.0[..8].copy_from_slice(&(number as u64).to_be_bytes());
            ContentHash(hash)
        };
        (0..=MAX_RESULTS).for_each(|number| memory.insert(hash(number), at(5)));
        assert_eq!(memory.results.len(), MAX_RESULTS);
        assert_eq!(memory.get(&hash(0), at(5)), None);
        assert!(memory.get(&hash(1), at(5)).is_some());
    }
}
