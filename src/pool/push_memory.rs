//! Answers that were given lately to announced or pushed transactions, or to pushed blocks.
//!
//! An answer is remembered for exactly the bytes that came in, signatures included. NIS1 remembers it for the hash of the
//! entity, which covers no signature, so that a copy with a wrong signature, sent first, keeps the true one out.

use std::collections::{BTreeMap, VecDeque};

use crate::crypto::hash::keccak256;
use crate::model::{Hash256, Timestamp};
use crate::rules::ValidationResult;

/// Seconds between two looks for answers that are too old.
const PURGE_INTERVAL: i32 = 60;
/// Most answers that are remembered; at the limit the oldest is forgotten.
pub const MAX_ANSWERS: usize = 100_000;

/// Answers that are too old and are removed whenever one is asked for.
const REMOVED_AT_ONCE: usize = 16;

/// The hash of all bytes of an entity, its signature and those of what it contains included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContentHash(Hash256);

impl ContentHash {
    /// Of the verifiable binary form of an entity.
    pub fn of(bytes: &[u8]) -> ContentHash {
        ContentHash(Hash256(keccak256(bytes)))
    }
}

/// Answers by what came in.
pub struct PushMemory {
    /// Seconds for which an answer is remembered.
    life: i32,
    answers: BTreeMap<ContentHash, Remembered>,
    /// Hashes in the order in which they came in, and when they did.
    order: VecDeque<(Timestamp, ContentHash)>,
    /// The last look for answers that are too old. They are forgotten then, though they are removed later.
    looked: Timestamp,
}

struct Remembered {
    since: Timestamp,
    result: ValidationResult,
}

impl Default for PushMemory {
    /// One for transactions.
    fn default() -> PushMemory {
        PushMemory::of_seconds(600)
    }
}

impl PushMemory {
    /// One that remembers each answer for so many seconds.
    pub fn of_seconds(life: i32) -> PushMemory {
        PushMemory { life, answers: BTreeMap::new(), order: VecDeque::new(), looked: Timestamp::default() }
    }

    /// How many answers there are, forgotten ones that are not removed yet among them.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The answer that was given, if it is remembered.
    pub fn answer(&mut self, hash: &ContentHash, now: Timestamp) -> Option<ValidationResult> {
        if now.0.saturating_sub(self.looked.0) > PURGE_INTERVAL {
            self.looked = now;
        }
        for _ in 0..REMOVED_AT_ONCE {
            if self.order.front().is_some_and(|(since, _)| self.is_forgotten(*since)) {
                self.remove_oldest();
            }
        }
        self.answers.get(hash).filter(|answer| !self.is_forgotten(answer.since)).map(|answer| answer.result)
    }

    fn is_forgotten(&self, since: Timestamp) -> bool {
        since.0.saturating_add(self.life) <= self.looked.0
    }

    /// Remembers that a transaction has come in to which there was no answer; it is neutral until there is one.
    pub fn remember(&mut self, hash: ContentHash, now: Timestamp) {
        if self.order.len() == MAX_ANSWERS {
            self.remove_oldest();
        }
        self.answers.insert(hash, Remembered { since: now, result: ValidationResult::Neutral });
        self.order.push_back((now, hash));
    }

    /// Sets the answer to a transaction that is remembered. To one that was accepted it is neutral from now on.
    pub fn set(&mut self, hash: &ContentHash, result: ValidationResult) {
        if let Some(answer) = self.answers.get_mut(hash) {
            answer.result = if result.is_success() { ValidationResult::Neutral } else { result };
        }
    }

    fn remove_oldest(&mut self) {
        if let Some((since, hash)) = self.order.pop_front()
            // It may have come in again after it was forgotten.
            && self.answers.get(&hash).is_some_and(|answer| answer.since == since)
        {
            self.answers.remove(&hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: ContentHash = ContentHash(Hash256([1; 32]));

    #[test]
    fn an_answer_is_remembered_for_ten_minutes() {
        let mut memory = PushMemory::of_seconds(600);
        memory.remember(HASH, Timestamp(1000));
        assert_eq!(memory.answer(&HASH, Timestamp(1000)), Some(ValidationResult::Neutral));
        memory.set(&HASH, ValidationResult::FailurePastDeadline);
        assert_eq!(memory.answer(&HASH, Timestamp(1599)), Some(ValidationResult::FailurePastDeadline));
        // The last look was less than a minute ago.
        assert_eq!(memory.answer(&HASH, Timestamp(1650)), Some(ValidationResult::FailurePastDeadline));
        assert_eq!(memory.answer(&HASH, Timestamp(1660)), None);
    }

    #[test]
    fn what_comes_again_after_it_was_forgotten_is_remembered_anew() {
        let mut memory = PushMemory::of_seconds(600);
        let hash = |number: u8| ContentHash(Hash256([number; 32]));
        (0..100).for_each(|number| memory.remember(hash(number), Timestamp(1000)));
        // Not all that is forgotten is removed at once.
        assert_eq!(memory.answer(&hash(99), Timestamp(1700)), None);
        assert!(memory.answers.contains_key(&hash(99)));
        memory.remember(hash(99), Timestamp(1700));
        for _ in 0..100 {
            assert_eq!(memory.answer(&hash(99), Timestamp(1700)), Some(ValidationResult::Neutral));
            assert_eq!(memory.answer(&hash(50), Timestamp(1700)), None);
        }
        assert_eq!((memory.answers.len(), memory.order.len()), (1, 1));
    }

    #[test]
    fn an_accepted_transaction_is_neutral_when_it_comes_again() {
        let mut memory = PushMemory::of_seconds(600);
        memory.remember(HASH, Timestamp(0));
        memory.set(&HASH, ValidationResult::Success);
        assert_eq!(memory.answer(&HASH, Timestamp(1)), Some(ValidationResult::Neutral));
    }

    #[test]
    fn at_its_limit_the_oldest_answer_is_forgotten() {
        let mut memory = PushMemory::of_seconds(600);
        let hash = |number: usize| {
            let mut hash = Hash256::default();
            hash.0[..8].copy_from_slice(&(number as u64).to_be_bytes());
            ContentHash(hash)
        };
        (0..=MAX_ANSWERS).for_each(|number| memory.remember(hash(number), Timestamp(5)));
        assert_eq!(memory.answers.len(), MAX_ANSWERS);
        assert_eq!(memory.answer(&hash(0), Timestamp(5)), None);
        assert!(memory.answer(&hash(1), Timestamp(5)).is_some());
    }
}
