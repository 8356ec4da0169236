//! A store that fails: told once, and tried again with growing pauses.

use std::time::Duration;

use crate::store::StoreError;

/// The first pause, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How long nothing may fail until the trouble is over: not all work touches what failed.
const CALM: Duration = Duration::from_secs(5);

/// Whether the store fails at present.
#[derive(Debug, Default)]
pub struct Trouble {
    pause: Duration,
    until: Duration,
}

impl Trouble {
    /// Takes note of a failure at a moment of the node's running time, and tells the operator if it is the first.
    pub fn note(&mut self, error: &StoreError, running: Duration) {
        if !self.is_on() {
            log::error!("{error}; the node answers what it can, and tries again");
        }
        if running >= self.until {
            self.pause = (2 * self.pause).clamp(FIRST_PAUSE, LONGEST_PAUSE);
            self.until = running + self.pause;
        }
    }

    /// Takes note that nothing has failed at a moment. The trouble is over if that lasts.
    pub fn is_well(&mut self, running: Duration) {
        if running >= self.until + CALM {
            self.is_over();
        }
    }

    /// Takes note that what has failed has succeeded.
    pub fn is_over(&mut self) {
        if self.is_on() {
            log::info!("the store works again");
            *self = Trouble::default();
        }
    }

    /// Whether it lasts: something has failed, and has not succeeded since.
    pub fn is_on(&self) -> bool {
        !self.pause.is_zero()
    }

    /// When to try again; a moment that has passed if there is no reason to wait.
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
