//! Counts of the recent past, independent of when and how often they are read.

use std::time::Duration;

/// Length of a window.
pub const WINDOW: Duration = Duration::from_secs(30);

/// A count in the current window of time and in the previous one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RollingWindow<T> {
    /// Start of the current window.
    started: Duration,
    current: T,
    previous: T,
}

impl<T: Copy + Default> RollingWindow<T> {
    /// Returns the count of the current window. `now` must never decrease.
    pub fn current_mut(&mut self, now: Duration) -> &mut T {
        *self = self.advanced_to(now);
        &mut self.current
    }

    /// Returns the counts of the previous and the current window, and the time that both cover.
    pub fn last_two(&self, now: Duration) -> ([T; 2], Duration) {
        let RollingWindow { started: begun, current, previous: last } = self.advanced_to(now);
        ([last, current], WINDOW + now.saturating_sub(begun))
    }

    fn advanced_to(self, now: Duration) -> RollingWindow<T> {
        let passed = now.saturating_sub(self.started);
        let begun = Duration::from_secs(now.as_secs() / WINDOW.as_secs() * WINDOW.as_secs());
        match passed {
            _ if passed < WINDOW => self,
            _ if passed < 2 * WINDOW => RollingWindow { started: begun, current: T::default(), previous: self.current },
            _ => RollingWindow { started: begun, ..RollingWindow::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_forgotten_after_two_windows_at_the_latest() {
        let at = Duration::from_secs;
        let mut recent = RollingWindow::default();
        *recent.current_mut(at(3)) += 1;
        *recent.current_mut(at(29)) += 2;
        assert_eq!(recent.last_two(at(29)), ([0, 3], at(59)));
        assert_eq!(recent.last_two(at(31)), ([3, 0], at(31)));
        *recent.current_mut(at(59)) += 4;
        assert_eq!(recent.last_two(at(59)), ([3, 4], at(59)));
        assert_eq!(recent.last_two(at(61)), ([4, 0], at(31)));
        assert_eq!(recent.last_two(at(90)), ([0, 0], at(30)));
    }
}
