//! The health of the store: backoff after errors, and background verification of all stored rows against their
//! checksums, one range at a time.

use std::time::Duration;

use super::read_ahead::{AheadTicket, ReadAhead};
use crate::store::{SnapshotCache, StoreError, VerifyPosition};

/// The first and the longest pause before a retry.
const MIN_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(10);
/// Time without failures after which the store counts as working again. It is not zero because not all work uses the
/// part that failed.
const QUIET_PERIOD: Duration = Duration::from_secs(5);

/// Backoff state of the store.
#[derive(Debug, Default)]
pub struct StoreBackoff {
    pause: Duration,
    /// When to retry; in the past if there is no reason to wait.
    pub retry_at: Duration,
}

impl StoreBackoff {
    /// Records a failure `now`, the time since the start. The first failure is logged, unless it ends the process,
    /// which then tells it.
    pub fn record_failure(&mut self, error: &StoreError, now: Duration) {
        if !self.is_failing() && !error.ends_process() {
            log::error!("{error}; the node serves what it can, and retries");
        }
        if now >= self.retry_at {
            self.pause = (2 * self.pause).clamp(MIN_PAUSE, MAX_PAUSE);
            self.retry_at = now + self.pause;
        }
    }

    /// Records that nothing failed at `now`. Ends the backoff if nothing has failed for long enough.
    pub fn record_no_failure(&mut self, now: Duration) {
        if now >= self.retry_at + QUIET_PERIOD {
            self.record_success();
        }
    }

    /// Ends the backoff: the failed operation has succeeded.
    pub fn record_success(&mut self) {
        if self.is_failing() {
            log::info!("the store works again");
            *self = StoreBackoff::default();
        }
    }

    /// Returns whether the store is failing: an operation failed and has not succeeded since.
    pub fn is_failing(&self) -> bool {
        !self.pause.is_zero()
    }
}

/// Time from the start of the node to the first range.
const INITIAL_DELAY: Duration = Duration::from_secs(10);
/// Time between two ranges: a slow disk has time for others, and a store of 10 GiB takes about two days.
const RANGE_INTERVAL: Duration = Duration::from_millis(200);
/// Pause after a range in terms of the time that it took: a slow disk reads for others nearly all the time.
const PAUSES_PER_RANGE: u32 = 50;
/// Pause between two passes over all ranges.
const PASS_INTERVAL: Duration = Duration::from_secs(6 * 3600);
/// Maximum number of damaged ranges that one pass logs individually.
const MAX_NAMED: u64 = 8;

/// Position and results of the verification.
#[derive(Debug, Default)]
pub struct Verification {
    position: VerifyPosition,
    /// When the next range is due.
    due: Duration,
    /// Since when the next range is read ahead.
    reading: Option<(AheadTicket, Duration)>,
    /// Damaged ranges found in the current pass.
    damaged: u64,
    /// Damaged ranges found in the last complete pass.
    damaged_last_pass: u64,
    /// Number of complete passes.
    pub passes: u64,
}

impl Verification {
    /// Creates the verification of a node that starts at `now`.
    pub fn new(now: Duration) -> Verification {
        Verification { due: now + INITIAL_DELAY, ..Verification::default() }
    }

    /// Verifies the next range if it is due, once it is read `ahead`. Damage is logged and counted; it is not an error.
    pub fn work(&mut self, reader: &SnapshotCache<'_>, ahead: &mut ReadAhead, now: Duration) -> Result<(), StoreError> {
        if now < self.due {
            return Ok(());
        }
        let snapshot = reader.snapshot()?;
        if self.reading.is_none()
            && let Some((table, key)) = self.position.next()
        {
            self.reading = Some((ahead.read_range(table, key, now), now));
        }
        if self.reading.is_some_and(|(ticket, _)| ahead.is_reading(ticket)) {
            return Ok(());
        }
        let took = self.reading.take().map_or(Duration::ZERO, |(_, since)| now.saturating_sub(since));
        self.due = now + RANGE_INTERVAL.max(PAUSES_PER_RANGE * took);
        match snapshot.verify_next(&mut self.position) {
            Ok(Some(_)) => {}
            Ok(None) => {
                if self.damaged > MAX_NAMED {
                    log::error!("{} ranges of the store are damaged; see `nisd check`", self.damaged);
                }
                self.damaged_last_pass = std::mem::take(&mut self.damaged);
                self.passes += 1;
                self.due = now + PASS_INTERVAL;
            }
            Err(error) => {
                self.damaged += 1;
                if self.damaged <= MAX_NAMED {
                    log::error!("{error}; requests that do not need these rows are still answered");
                }
            }
        }
        Ok(())
    }

    /// Returns when there is work. What is read ahead is followed by a tick.
    pub fn next_due(&self, ahead: &ReadAhead) -> Duration {
        if self.reading.is_some_and(|(ticket, _)| ahead.is_reading(ticket)) { Duration::MAX } else { self.due }
    }

    /// Number of damaged ranges known.
    pub fn damaged_ranges(&self) -> u64 {
        self.damaged.max(self.damaged_last_pass)
    }
}

#[cfg(test)]
mod tests {
    use super::super::read_ahead::AheadKind;
    use super::*;
    use crate::store::{Table, Write, test_store};

    #[test]
    fn the_backoff_grows_until_the_store_recovers() {
        let mut backoff = StoreBackoff::default();
        let (mut now, mut pauses) = (Duration::ZERO, Vec::new());
        for _ in 0..10 {
            backoff.record_failure(&StoreError::Empty, now);
            backoff.record_failure(&StoreError::Empty, now);
            pauses.push((backoff.retry_at - now).as_millis());
            now = backoff.retry_at;
        }
        assert_eq!(pauses[..4], [100, 200, 400, 800]);
        assert_eq!(pauses[9], 10_000);
        backoff.record_no_failure(now);
        assert_eq!((backoff.retry_at, backoff.is_failing()), (now, true));
        backoff.record_no_failure(now + QUIET_PERIOD);
        assert_eq!((backoff.retry_at, backoff.is_failing()), (Duration::ZERO, false));
    }

    #[test]
    fn a_verification_pass_compares_one_range_at_a_time_and_then_pauses() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        (0..900u16).for_each(|key| batch.put(Table::AccountIds, &key.to_be_bytes(), &[1; 300]).unwrap());
        batch.commit().unwrap();
        let reader = SnapshotCache::new(&store);
        let (mut verification, mut ahead) = (Verification::new(Duration::ZERO), ReadAhead::default());
        let mut steps = 0;
        while verification.passes == 0 {
            let due = verification.due;
            verification.work(&reader, &mut ahead, due - Duration::from_millis(1)).unwrap();
            assert_eq!(verification.due, due, "nothing is done before it is due");
            verification.work(&reader, &mut ahead, due).unwrap();
            steps += 1;
        }
        // 270 KB are 17 to 34 ranges.
        assert!((Table::ALL.len() + 16..Table::ALL.len() + 34).contains(&steps), "{steps}");
        assert_eq!(verification.damaged_ranges(), 0);
        assert!(verification.due > PASS_INTERVAL);
    }

    #[test]
    fn a_range_is_verified_once_it_is_read_ahead_and_delays_the_next_one_if_that_took_long() {
        let (store, _folder) = test_store();
        let reader = SnapshotCache::new(&store);
        let (mut verification, mut ahead) = (Verification::new(Duration::ZERO), ReadAhead::cold(Duration::ZERO));
        let (first, slow) = (verification.due, Duration::from_millis(100));
        verification.work(&reader, &mut ahead, first).unwrap();
        let (waiting, work) = ahead.next(first).unwrap();
        assert_eq!((work.kind, &work.bytes[..]), (AheadKind::Range, &[0][..]));
        verification.work(&reader, &mut ahead, first + slow / 2).unwrap();
        assert_eq!((verification.due, verification.position.next().unwrap().0), (first, Table::ALL[0]));
        ahead.finish(waiting, Some(true), slow, first + slow);
        verification.work(&reader, &mut ahead, first + slow).unwrap();
        assert_eq!(verification.position.next().unwrap().0, Table::ALL[1]);
        assert_eq!(verification.due, first + slow + PAUSES_PER_RANGE * slow);
    }

    #[test]
    fn damaged_ranges_are_counted_until_a_pass_finds_none() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        (0..900u16).for_each(|key| batch.put(Table::AccountIds, &key.to_be_bytes(), &[1; 300]).unwrap());
        // A wrong checksum.
        batch.commit().unwrap();
        let mut batch = store.begin_write().unwrap();
        batch.put_unjournaled(Table::Checksums, &[Table::AccountIds as u8], &[9; 16]).unwrap();
        batch.commit().unwrap();
        let (reader, mut verification) = (SnapshotCache::new(&store), Verification::new(Duration::ZERO));
        while verification.passes == 0 {
            let due = verification.due;
            verification.work(&reader, &mut ReadAhead::default(), due).unwrap();
        }
        assert_eq!(verification.damaged_ranges(), 1);
    }
}
