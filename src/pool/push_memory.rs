//! What was answered to transactions that came in lately (specification 08 §3.2).
//!
//! The key is the hash, which covers no signature: so a transaction that came in with a wrong signature is answered as
//! such for a while even if it comes again with the right one. That is how the network answers.

use std::collections::{BTreeMap, VecDeque};

use crate::model::{Hash256, Timestamp};
use crate::rules::ValidationResult;

/// Seconds for which an answer is remembered.
const LIFE: i32 = 600;
/// Seconds between two looks for answers that are too old.
const PURGE_INTERVAL: i32 = 60;
/// Most answers that are remembered; at the limit the oldest is forgotten.
const MAX_ANSWERS: usize = 100_000;

/// Answers by hash.
#[derive(Default)]
pub struct PushMemory {
    answers: BTreeMap<Hash256, ValidationResult>,
    /// Hashes in the order in which they came in, and when they did.
    order: VecDeque<(Timestamp, Hash256)>,
    purged: Timestamp,
}

impl PushMemory {
    /// The answer that was given, if it is remembered.
    pub fn answer(&mut self, hash: &Hash256, now: Timestamp) -> Option<ValidationResult> {
        if now.0.saturating_sub(self.purged.0) > PURGE_INTERVAL {
            self.purged = now;
            while self.order.front().is_some_and(|(since, _)| since.0.saturating_add(LIFE) <= now.0) {
                self.forget_oldest();
            }
        }
        self.answers.get(hash).copied()
    }

    /// Remembers that a transaction has come in, as neutral until there is an answer.
    pub fn remember(&mut self, hash: Hash256, now: Timestamp) {
        if self.order.len() == MAX_ANSWERS {
            self.forget_oldest();
        }
        if self.answers.insert(hash, ValidationResult::Neutral).is_none() {
            self.order.push_back((now, hash));
        }
    }

    /// Sets the answer to a transaction that is remembered. To one that was accepted it is neutral from now on.
    pub fn set(&mut self, hash: &Hash256, result: ValidationResult) {
        if let Some(answer) = self.answers.get_mut(hash) {
            *answer = if result.is_success() { ValidationResult::Neutral } else { result };
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, hash)) = self.order.pop_front() {
            self.answers.remove(&hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: Hash256 = Hash256([1; 32]);

    #[test]
    fn an_answer_is_remembered_for_ten_minutes() {
        let mut memory = PushMemory::default();
        memory.remember(HASH, Timestamp(1000));
        assert_eq!(memory.answer(&HASH, Timestamp(1000)), Some(ValidationResult::Neutral));
        memory.set(&HASH, ValidationResult::FailurePastDeadline);
        assert_eq!(memory.answer(&HASH, Timestamp(1599)), Some(ValidationResult::FailurePastDeadline));
        // The last look was less than a minute ago.
        assert_eq!(memory.answer(&HASH, Timestamp(1650)), Some(ValidationResult::FailurePastDeadline));
        assert_eq!(memory.answer(&HASH, Timestamp(1660)), None);
    }

    #[test]
    fn an_accepted_transaction_is_neutral_when_it_comes_again() {
        let mut memory = PushMemory::default();
        memory.remember(HASH, Timestamp(0));
        memory.set(&HASH, ValidationResult::Success);
        assert_eq!(memory.answer(&HASH, Timestamp(1)), Some(ValidationResult::Neutral));
    }

    #[test]
    fn at_its_limit_the_oldest_answer_is_forgotten() {
        let mut memory = PushMemory::default();
        let hash = |number: usize| {
            let mut hash = Hash256::default();
            hash.0[..8].copy_from_slice(&(number as u64).to_be_bytes());
            hash
        };
        (0..=MAX_ANSWERS).for_each(|number| memory.remember(hash(number), Timestamp(5)));
        assert_eq!(memory.answers.len(), MAX_ANSWERS);
        assert_eq!(memory.answer(&hash(0), Timestamp(5)), None);
        assert!(memory.answer(&hash(1), Timestamp(5)).is_some());
    }
}
