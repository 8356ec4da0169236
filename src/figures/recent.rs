//! Counts of the recent past, independent of when and how often they are read.

use std::time::Duration;

/// Length of a window.
pub const WINDOW: Duration = Duration::from_secs(30);

/// A count in the current window of time and in the previous one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recent<T> {
    /// Start of the current window.
    begun: Duration,
    current: T,
    last: T,
}

impl<T: Copy + Default> Recent<T> {
    /// Returns the count of the current window. `now` must never decrease.
    pub fn at(&mut self, now: Duration) -> &mut T {
        *self = self.seen(now);
        &mut self.current
    }

    /// Returns the counts of the previous and the current window, and the time that both cover.
    pub fn both(&self, now: Duration) -> ([T; 2], Duration) {
        let Recent { begun, current, last } = self.seen(now);
        ([last, current], WINDOW + now.saturating_sub(begun))
    }

    fn seen(self, now: Duration) -> Recent<T> {
        let passed = now.saturating_sub(self.begun);
        let begun = Duration::from_secs(now.as_secs() / WINDOW.as_secs() * WINDOW.as_secs());
        match passed {
            _ if passed < WINDOW => self,
            _ if passed < 2 * WINDOW => Recent { begun, current: T::default(), last: self.current },
            _ => Recent { begun, ..Recent::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_forgotten_after_two_windows_at_the_latest() {
        let at = Duration::from_secs;
        let mut recent = Recent::default();
        *recent.at(at(3)) += 1;
        *recent.at(at(29)) += 2;
        assert_eq!(recent.both(at(29)), ([0, 3], at(59)));
        assert_eq!(recent.both(at(31)), ([3, 0], at(31)));
        *recent.at(at(59)) += 4;
        assert_eq!(recent.both(at(59)), ([3, 4], at(59)));
        assert_eq!(recent.both(at(61)), ([4, 0], at(31)));
        assert_eq!(recent.both(at(90)), ([0, 0], at(30)));
    }
}
