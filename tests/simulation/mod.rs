//! Whole nodes in virtual time.

mod clock;
mod network_simulation;
