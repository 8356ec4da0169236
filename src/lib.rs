//! `nisd`: a full NEM (NIS1) node in one thread.
//!
//! Its behaviour follows a specification of the NIS1 protocol that is not part of this project; tests compare it with
//! recordings of NIS1.
#![forbid(unsafe_code)]

pub mod api;
pub mod budget;
pub mod chain;
pub mod clock;
pub mod codec;
pub mod commands;
pub mod config;
pub mod crypto;
pub mod event_loop;
pub mod files;
pub mod importance;
pub mod ip;
pub mod local_cookie;
pub mod logging;
pub mod mempool;
pub mod metrics;
pub mod model;
pub mod net;
pub mod node;
pub mod peer;
pub mod progress;
pub mod quota;
pub mod rules;
pub mod state;
pub mod store;
pub mod wallet;
pub mod websocket_api;
