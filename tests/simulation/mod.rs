//! Whole nodes in virtual time.

mod clock;
mod network_simulation;
mod simulated_devnet;
mod statistics;
mod traffic;
