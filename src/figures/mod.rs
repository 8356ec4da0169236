//! Metrics of the running node: counting, writing for Prometheus, and reading back.
//!
//! | part | what it is |
//! |---|---|
//! | [`Histogram`] | counts of durations by bucket |
//! | [`Ranking`] | amounts by key, with the largest at hand |
//! | [`Recent`] | counts of the last 30 to 60 seconds |
//! | [`Page`] | all metrics at one time, in Prometheus' text format 0.0.4 |
//! | [`Reading`] | a parsed page |
//!
//! Each module counts in plain fields where things happen; a [`Page`] is built only when a client requests it.

mod histogram;
mod page;
mod ranking;
mod reading;
mod recent;

pub use histogram::Histogram;
pub use page::{CONTENT_TYPE, Page, Quantity};
pub use ranking::Ranking;
pub use reading::{Reading, Sample};
pub use recent::{Recent, WINDOW};

/// Subtracts from a counter. A result below zero is a bug: a debug build panics, a release build stays at zero.
pub fn take_off(counter: &mut usize, count: usize) {
    debug_assert!(*counter >= count, "{count} taken off {counter}");
    *counter = counter.saturating_sub(count);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_never_falls_below_zero() {
        let mut counter = 3;
        take_off(&mut counter, 2);
        assert_eq!(counter, 1);
        let below = std::panic::catch_unwind(move || {
            take_off(&mut counter, 2);
            counter
        });
        // A debug build panics.
        assert_eq!(below.ok(), (!cfg!(debug_assertions)).then_some(0));
    }
}
