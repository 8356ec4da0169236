//! Whole nodes in virtual time.

mod beside_a_peer;
mod clock;
mod network_simulation;
mod store_failures;
