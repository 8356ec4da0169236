//! All tests that use only the public interface or whole programs, in one program: helpers are built once, and tests that
//! wait overlap with tests that compute. `cargo test --test all network::` runs those of one folder.
//!
//! `cargo test` leaves out the slow ones, by what they cost and not by what they are: those that take more than a second
//! or two, or wait for real time to pass. They are marked `#[ignore = "slow: …"]`; `cargo test -- --include-ignored` runs
//! all.

mod cli;
mod common;
mod http;
mod network;
mod recorded;
mod simulation;
mod store;
mod vectors;
mod websocket;
