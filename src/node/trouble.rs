//! Backoff after store errors: the operator is informed once, and retries follow with growing pauses.

use std::time::Duration;

use crate::store::StoreError;

/// The first and the longest pause before a retry.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Time without failures after which the store counts as working again. It is not zero because not all work uses the
/// part that failed.
const CALM: Duration = Duration::from_secs(5);

/// Backoff state of the store.
#[derive(Debug, Default)]
pub struct Trouble {
    pause: Duration,
    until: Duration,
}

impl Trouble {
    /// Records a failure at `running`, the time since the start. The first failure is logged.
    pub fn note(&mut self, error: &StoreError, running: Duration) {
        if !self.is_on() {
            log::error!("{error}; the node answers what it can, and tries again");
        }
        if running >= self.until {
            self.pause = (2 * self.pause).clamp(FIRST_PAUSE, LONGEST_PAUSE);
            self.until = running + self.pause;
        }
    }

    /// Records that nothing failed at `running`. Ends the backoff if nothing has failed for long enough.
    pub fn is_well(&mut self, running: Duration) {
        if running >= self.until + CALM {
            self.is_over();
        }
    }

    /// Ends the backoff: the failed operation has succeeded.
    pub fn is_over(&mut self) {
        if self.is_on() {
            log::info!("the store works again");
            *self = Trouble::default();
        }
    }

    /// Returns whether the store is failing: an operation failed and has not succeeded since.
    pub fn is_on(&self) -> bool {
        !self.pause.is_zero()
    }

    /// When to retry; in the past if there is no reason to wait.
    pub fn until(&self) -> Duration {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_all_is_well() {
        let mut trouble = Trouble::default();
        let (mut now, mut pauses) = (Duration::ZERO, Vec::new());
        for _ in 0..10 {
            trouble.note(&StoreError::Empty, now);
            trouble.note(&StoreError::Empty, now);
            pauses.push((trouble.until() - now).as_millis());
            now = trouble.until();
        }
        assert_eq!(pauses[..4], [100, 200, 400, 800]);
        assert_eq!(pauses[9], 10_000);
        trouble.is_well(now);
        assert_eq!((trouble.until(), trouble.is_on()), (now, true));
        trouble.is_well(now + CALM);
        assert_eq!((trouble.until(), trouble.is_on()), (Duration::ZERO, false));
    }
}
