//! Figures for those who watch a node: how they are counted, written for Prometheus, and read again.
//!
//! | part | what it is |
//! |---|---|
//! | [`Histogram`] | how long something has taken, by steps of time |
//! | [`Recent`] | what was counted in the last half minute or so |
//! | [`Page`] | all figures at a moment, as Prometheus' text format 0.0.4 |
//! | [`Reading`] | such a page as somebody else reads it |
//!
//! Each room counts in plain fields where things happen; [`Page`] is put together only when somebody asks for it.

mod histogram;
mod page;
mod reading;
mod recent;

pub use histogram::Histogram;
pub use page::{CONTENT_TYPE, Page, Quantity};
pub use reading::{Reading, Sample};
pub use recent::{Recent, WINDOW};
