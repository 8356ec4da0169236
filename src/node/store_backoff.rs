//! Backoff after store errors: the operator is informed once, and retries follow with growing pauses.

use std::time::Duration;

use crate::store::StoreError;

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
    retry_at: Duration,
}

impl StoreBackoff {
    /// Records a failure at `running`, the time since the start. The first failure is logged.
    pub fn record_failure(&mut self, error: &StoreError, running: Duration) {
        if !self.is_failing() {
            log::error!("{error}; the node serves what it can, and retries");
        }
        if running >= self.retry_at {
            self.pause = (2 * self.pause).clamp(MIN_PAUSE, MAX_PAUSE);
            self.retry_at = running + self.pause;
        }
    }

    /// Records that nothing failed at `running`. Ends the backoff if nothing has failed for long enough.
    pub fn record_no_failure(&mut self, running: Duration) {
        if running >= self.retry_at + QUIET_PERIOD {
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

    /// When to retry; in the past if there is no reason to wait.
    pub fn retry_at(&self) -> Duration {
        self.retry_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backoff_grows_until_the_store_recovers() {
        let mut backoff = StoreBackoff::default();
        let (mut now, mut pauses) = (Duration::ZERO, Vec::new());
        for _ in 0..10 {
            backoff.record_failure(&StoreError::Empty, now);
            backoff.record_failure(&StoreError::Empty, now);
            pauses.push((backoff.retry_at() - now).as_millis());
            now = backoff.retry_at();
        }
        assert_eq!(pauses[..4], [100, 200, 400, 800]);
        assert_eq!(pauses[9], 10_000);
        backoff.record_no_failure(now);
        assert_eq!((backoff.retry_at(), backoff.is_failing()), (now, true));
        backoff.record_no_failure(now + QUIET_PERIOD);
        assert_eq!((backoff.retry_at(), backoff.is_failing()), (Duration::ZERO, false));
    }
}
