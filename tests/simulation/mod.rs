//! Whole nodes in virtual time.

mod clock;
mod network_simulation;
mod store_failures;
