//! The protocol of NIS1, its rules, the store and the chain: all that decides about blocks, and nothing that talks to others.
#![forbid(unsafe_code)]

pub mod budget;
pub mod chain;
pub mod codec;
pub mod crypto;
pub mod files;
pub mod importance;
pub mod mempool;
pub mod metrics;
pub mod model;
pub mod rules;
pub mod state;
pub mod store;
