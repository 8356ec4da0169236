//! What was counted lately, whoever asks and how often.

use std::time::Duration;

/// Length of a window.
pub const WINDOW: Duration = Duration::from_secs(30);

/// Something counted in the window of time that goes on, and in the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recent<T> {
    /// When the window that goes on has begun.
    begun: Duration,
    current: T,
    last: T,
}

impl<T: Copy + Default> Recent<T> {
    /// The count that goes on at a moment, which is never earlier than one before.
    pub fn at(&mut self, now: Duration) -> &mut T {
        *self = self.seen(now);
        &mut self.current
    }

    /// The counts of both windows at a moment, and how long they are together.
    pub fn both(&self, now: Duration) -> ([T; 2], Duration) {
        let Recent { begun, current, last } = self.seen(now);
        ([last, current], WINDOW + now.saturating_sub(begun))
    }

    /// The same at a later moment.
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
