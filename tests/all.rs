//! All tests that use only the public interface or whole programs, in one program: helpers are built once, and tests that
//! wait overlap with tests that compute. `cargo test --test all network::` runs those of one folder.

mod cli;
mod common;
mod http;
mod network;
mod recorded;
mod simulation;
mod store;
mod vectors;
mod websocket;
