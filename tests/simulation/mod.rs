//! Whole nodes in virtual time.

mod clock;
mod network_simulation;
mod remote_mempool;
mod store_failures;
