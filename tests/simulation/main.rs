//! Whole nodes in virtual time.

#[path = "../common/books.rs"]
mod books;
mod clock;
#[path = "../common/mod.rs"]
mod common;
mod network_simulation;
#[path = "../common/odds.rs"]
mod odds;
mod simulated_devnet;
#[path = "../common/simulation.rs"]
mod simulation;
#[path = "../common/traffic.rs"]
mod traffic;
