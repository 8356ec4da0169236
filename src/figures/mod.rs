//! Figures for those who watch a node: how they are counted, written for Prometheus, and read again.
//!
//! | part | what it is |
//! |---|---|
//! | [`Histogram`] | how long something has taken, by steps of time |
//! | [`Ranking`] | who holds most of something |
//! | [`Recent`] | what was counted in the last half minute or so |
//! | [`Page`] | all figures at a moment, as Prometheus' text format 0.0.4 |
//! | [`Reading`] | such a page as somebody else reads it |
//!
//! Each room counts in plain fields where things happen; [`Page`] is put together only when somebody asks for it.

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

/// Takes off a counter what was added to it before. One that would fall below zero is a mistake of this program, which a
/// debug build reports; in a release it stays at zero.
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
        // A debug build says that it is wrong.
        assert_eq!(below.ok(), (!cfg!(debug_assertions)).then_some(0));
    }
}
