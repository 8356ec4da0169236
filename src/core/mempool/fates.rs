//! What became of transactions that are neither in the chain nor in the mempool.
//!
//! Each is remembered for a day, within a limit. Transactions that were never accepted cost their senders nothing, so
//! they have a limit of their own: however many of them arrive, what became of accepted transactions stays known.

use std::collections::{HashMap, VecDeque};

use super::conflicts::Conflict;
use crate::model::{Hash256, Timestamp};
use crate::rules::ValidationResult;

/// How long a fate is remembered, in seconds.
const REMEMBERED_SECONDS: i32 = 24 * 60 * 60;
/// Maximum number of hashes of rejected transactions, and of accepted ones: about 5 MB each.
pub const MAX_FATES: usize = 20_000;

/// Why a transaction is not in the mempool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is invalid with this result: it was never accepted, or a block made it invalid later.
    Rejected(ValidationResult),
    /// Its deadline passed before it was confirmed.
    Expired,
    /// The mempool was full, and others have higher fees or importances.
    Evicted,
    /// It was confirmed, its block was rolled back, and with this result it is invalid in the chain that replaced it; the
    /// transaction with which it conflicts, if there is one.
    Replaced(ValidationResult, Option<Conflict>),
}

/// A fate, and when it came, in network time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FateRecord {
    /// The fate.
    pub fate: Fate,
    /// When it came.
    pub at: Timestamp,
}

/// The fates of transactions by their hashes; of accepted ones also by those of their children.
#[derive(Debug, Default)]
pub struct Fates {
    rejected: Records,
    accepted: Records,
    /// Since when fates are known; `None` before the first tick.
    since: Option<Timestamp>,
    /// Hashes of the transactions that entered the mempool or left it other than into a block, and of those that were
    /// rejected, until the node takes them in its next tick.
    pub changed: Vec<Hash256>,
}

#[derive(Debug, Default)]
struct Records {
    by_hash: HashMap<Hash256, FateRecord>,
    /// Hashes by age, oldest first. A hash is in it once for each record that it has had.
    order: VecDeque<(Timestamp, Hash256)>,
}

impl Records {
    fn insert(&mut self, hash: Hash256, record: FateRecord) {
        self.by_hash.insert(hash, record);
        self.order.push_back((record.at, hash));
        let oldest = Timestamp(record.at.0.saturating_sub(REMEMBERED_SECONDS));
        while let Some((at, hash)) = self.order.front().copied()
            && (self.order.len() > MAX_FATES || at < oldest)
        {
            self.order.pop_front();
            if self.by_hash.get(&hash).is_some_and(|record| record.at == at) {
                self.by_hash.remove(&hash);
            }
        }
    }
}

impl Fates {
    /// Records the fate of a transaction that was not accepted, by its own hash alone: anybody can wrap the inner transaction
    /// of another into a multisig transaction that is invalid.
    pub fn reject(&mut self, hash: Hash256, fate: Fate, at: Timestamp) {
        self.rejected.insert(hash, FateRecord { fate, at });
        self.changed.push(hash);
    }

    /// Records the fate of a transaction that had been accepted, by all its hashes.
    pub fn drop<'h>(&mut self, hashes: impl IntoIterator<Item = &'h Hash256>, fate: Fate, at: Timestamp) {
        for hash in hashes {
            self.accepted.insert(*hash, FateRecord { fate, at });
            self.changed.push(*hash);
        }
    }

    /// Notes the time; fates are known from the first call on.
    pub fn tick(&mut self, now: Timestamp) {
        self.since.get_or_insert(now);
    }

    /// Follows a jump of the clock by so many seconds: what was remembered becomes neither older nor younger.
    pub fn clock_jumped(&mut self, seconds: i64) {
        let shifted = |at: Timestamp| {
            let shifted = i64::from(at.0).saturating_add(seconds);
            Timestamp(i32::try_from(shifted.max(0)).unwrap_or(i32::MAX))
        };
        self.since = self.since.map(shifted);
        for records in [&mut self.accepted, &mut self.rejected] {
            for record in records.by_hash.values_mut() {
                record.at = shifted(record.at);
            }
            for (at, _) in &mut records.order {
                *at = shifted(*at);
            }
        }
    }

    /// Returns the fate of the transaction with a hash, outer or nested, if it is known. The caller looks into the chain and
    /// the mempool first.
    pub fn get(&self, hash: &Hash256, now: Timestamp) -> Option<FateRecord> {
        let records = [&self.accepted, &self.rejected].map(|records| records.by_hash.get(hash).copied());
        // A transaction that was accepted once may have been rejected when it came again, for having expired.
        records.into_iter().flatten().find(|record| record.at >= self.remembered_since(now))
    }

    /// Returns since when all fates are known, unless there were more than [`MAX_FATES`].
    pub fn remembered_since(&self, now: Timestamp) -> Timestamp {
        Timestamp(self.since.unwrap_or(now).0.max(now.0.saturating_sub(REMEMBERED_SECONDS)))
    }

    /// Returns the number of hashes.
    pub fn count(&self) -> usize {
        self.rejected.order.len() + self.accepted.order.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::transaction::Hashes;

    fn hashes(number: u32) -> Hashes {
        let hash = |kind: u8| {
            let mut bytes = [kind; 32];
            bytes[..4].copy_from_slice(&number.to_be_bytes());
            Hash256(bytes)
        };
        Hashes { own: hash(1), children: vec![hash(2)] }
    }

    fn fate(fates: &Fates, number: u32, now: i32) -> Option<Fate> {
        let found: Vec<_> = hashes(number).all().map(|hash| fates.get(hash, Timestamp(now))).collect();
        let fate = found[0].map(|record| record.fate);
        let is_shared = fate.is_some_and(|fate| !matches!(fate, Fate::Rejected(_)));
        assert_eq!(found[1].map(|record| record.fate), fate.filter(|_| is_shared), "the children share it if accepted");
        fate
    }

    #[test]
    fn a_fate_is_remembered_for_a_day_by_all_hashes() {
        let mut fates = Fates::default();
        fates.tick(Timestamp(100));
        fates.drop(hashes(1).all(), Fate::Expired, Timestamp(100));
        let rejected = Fate::Rejected(ValidationResult::FailureInsufficientBalance);
        fates.reject(hashes(2).own, rejected, Timestamp(200));
        assert_eq!([1, 2, 3].map(|number| fate(&fates, number, 200)), [Some(Fate::Expired), Some(rejected), None]);
        assert_eq!(fates.remembered_since(Timestamp(200)), Timestamp(100));
        let later = 100 + REMEMBERED_SECONDS;
        assert_eq!([1, 2].map(|number| fate(&fates, number, later)), [Some(Fate::Expired), Some(rejected)]);
        assert_eq!([1, 2].map(|number| fate(&fates, number, later + 1)), [None, Some(rejected)]);
        assert_eq!(fates.remembered_since(Timestamp(later + 1)), Timestamp(101));
        // The next fate of the same list removes it.
        fates.drop(hashes(3).all(), Fate::Evicted, Timestamp(later + 1));
        assert_eq!(fates.count(), 3);
    }

    #[test]
    fn a_jump_of_the_clock_changes_no_age() {
        const DAY: i32 = REMEMBERED_SECONDS;
        for jump in [2 * DAY, -DAY] {
            let mut fates = Fates::default();
            fates.tick(Timestamp(5 * DAY));
            fates.drop(hashes(1).all(), Fate::Expired, Timestamp(5 * DAY + 10));
            fates.clock_jumped(jump.into());
            let now = Timestamp(5 * DAY + 20 + jump);
            assert_eq!(fates.remembered_since(now), Timestamp(5 * DAY + jump));
            fates.drop(hashes(2).all(), Fate::Expired, now);
            assert_eq!([1, 2].map(|number| fate(&fates, number, now.0)), [Some(Fate::Expired); 2]);
            fates.clock_jumped((-jump).into());
            assert_eq!([1, 2].map(|number| fate(&fates, number, 6 * DAY + 15)), [None, Some(Fate::Expired)]);
        }
    }

    #[test]
    fn many_rejected_transactions_do_not_displace_the_fates_of_accepted_ones() {
        let mut fates = Fates::default();
        fates.tick(Timestamp(1));
        fates.drop(hashes(u32::MAX).all(), Fate::Expired, Timestamp(1));
        let rejected = Fate::Rejected(ValidationResult::FailurePastDeadline);
        (0..MAX_FATES as u32).for_each(|number| fates.reject(hashes(number).own, rejected, Timestamp(1)));
        assert_eq!(fates.count(), MAX_FATES + 2);
        assert_eq!(fate(&fates, u32::MAX, 1), Some(Fate::Expired));
        fates.reject(hashes(MAX_FATES as u32).own, rejected, Timestamp(1));
        assert_eq!(fate(&fates, 0, 1), None);
        assert_eq!(fate(&fates, MAX_FATES as u32 - 1, 1), Some(rejected));
    }

    #[test]
    fn the_last_fate_counts_and_outlives_the_first_one() {
        let mut fates = Fates::default();
        fates.tick(Timestamp(1));
        let replaced = Fate::Replaced(ValidationResult::FailureInsufficientBalance, None);
        fates.drop(hashes(1).all(), Fate::Evicted, Timestamp(1));
        fates.drop(hashes(1).all(), replaced, Timestamp(50));
        fates.drop(hashes(2).all(), Fate::Expired, Timestamp(2 + REMEMBERED_SECONDS));
        assert_eq!(fate(&fates, 1, 2 + REMEMBERED_SECONDS), Some(replaced));
    }
}
