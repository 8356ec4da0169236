//! Tests of the interface as a whole, on a small chain in a store.

mod actions;
mod events;
mod form;
mod mempool;
mod objects;
mod operators;
mod peers;
pub mod scene;
mod secrets;
mod statuses;
mod streams;
mod transfers;
