//! Metrics of the running node: counting, writing for Prometheus, and reading back.
//!
//! | part | what it is |
//! |---|---|
//! | [`Histogram`] | counts of durations by bucket |
//! | [`RollingWindow`] | counts of the last 30 to 60 seconds |
//! | [`Exposition`] | all metrics at one time, in Prometheus' text format 0.0.4 |
//! | [`Scrape`] | a parsed page |
//!
//! Each module counts in plain fields where things happen; an [`Exposition`] is built only when a client requests it.

mod exposition;
mod scrape;

pub use exposition::{CONTENT_TYPE, Exposition, Labels, Quantity, Value};
pub use scrape::{Sample, Scrape};

use std::time::Duration;

/// Counts of durations, each in the first bucket whose bound it does not exceed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// In microseconds.
    bounds: &'static [u64],
    /// One more than the bounds, for durations above all bounds.
    counts: Box<[u64]>,
    sum: Duration,
}

impl Histogram {
    /// Creates an empty histogram. The bounds are microseconds and must ascend.
    pub fn new(bounds: &'static [u64]) -> Histogram {
        Histogram { bounds, counts: vec![0; bounds.len() + 1].into(), sum: Duration::ZERO }
    }

    /// Counts a duration.
    pub fn observe(&mut self, time: Duration) {
        let fits = |bound: &u64| time <= Duration::from_micros(*bound);
        let step = self.bounds.iter().position(fits).unwrap_or(self.bounds.len());
        self.counts[step] += 1;
        self.sum = self.sum.saturating_add(time);
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of the durations.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// Returns each bound with the number of durations that do not exceed it.
    pub fn cumulative(&self) -> impl Iterator<Item = (Duration, u64)> {
        let up_to = self.counts.iter().scan(0, |total, count| {
            *total += count;
            Some(*total)
        });
        self.bounds.iter().copied().map(Duration::from_micros).zip(up_to)
    }
}

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
        let window = self.advanced_to(now);
        ([window.previous, window.current], WINDOW + now.saturating_sub(window.started))
    }

    fn advanced_to(self, now: Duration) -> RollingWindow<T> {
        let passed = now.saturating_sub(self.started);
        if passed < WINDOW {
            return self;
        }
        let started = Duration::from_secs(now.as_secs() / WINDOW.as_secs() * WINDOW.as_secs());
        let previous = if passed < 2 * WINDOW { self.current } else { T::default() };
        RollingWindow { started, current: T::default(), previous }
    }
}

#[cfg(test)]
mod histogram_tests {
    use super::*;

    const BOUNDS: &[u64] = &[1_000, 10_000];

    #[test]
    fn a_time_counts_in_every_bucket_whose_bound_it_does_not_exceed() {
        let mut histogram = Histogram::new(BOUNDS);
        [0, 1, 2, 10, 11].iter().for_each(|millis| histogram.observe(Duration::from_millis(*millis)));
        let counts: Vec<u64> = histogram.cumulative().map(|(_, count)| count).collect();
        assert_eq!((counts, histogram.count(), histogram.sum()), (vec![2, 4], 5, Duration::from_millis(24)));
    }
}

#[cfg(test)]
mod rolling_window_tests {
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
