//! Metrics of the running node: counting, writing for Prometheus, and reading back.
//!
//! | part | what it is |
//! |---|---|
//! | [`Histogram`] | counts of durations by bucket |
//! | [`Ranking`] | amounts by key, with the largest at hand |
//! | [`RollingWindow`] | counts of the last 30 to 60 seconds |
//! | [`Exposition`] | all metrics at one time, in Prometheus' text format 0.0.4 |
//! | [`Scrape`] | a parsed page |
//!
//! Each module counts in plain fields where things happen; a [`Exposition`] is built only when a client requests it.

mod exposition;
mod histogram;
mod ranking;
mod rolling_window;
mod scrape;

pub use exposition::{CONTENT_TYPE, Exposition, Quantity};
pub use histogram::Histogram;
pub use ranking::Ranking;
pub use rolling_window::{RollingWindow, WINDOW};
pub use scrape::{Sample, Scrape};

/// Subtracts from a counter. A result below zero is a bug: a debug build panics, a release build stays at zero.
pub fn subtract(counter: &mut usize, count: usize) {
    debug_assert!(*counter >= count, "{count} subtracted from {counter}");
    *counter = counter.saturating_sub(count);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_never_falls_below_zero() {
        let mut counter = 3;
        subtract(&mut counter, 2);
        assert_eq!(counter, 1);
        let below = std::panic::catch_unwind(move || {
            subtract(&mut counter, 2);
            counter
        });
        // A debug build panics.
        assert_eq!(below.ok(), (!cfg!(debug_assertions)).then_some(0));
    }
}
