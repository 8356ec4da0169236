//! `nisd`: a full NEM (NIS1) node in one thread.
//!
//! Its behaviour follows a specification of the NIS1 protocol that is not part of this project; tests compare it with
//! recordings of NIS1.
#![forbid(unsafe_code)]

pub mod api;
pub mod clock;
pub mod commands;
pub mod config;
pub mod event_loop;
pub mod logging;
pub mod node;
pub mod peer;
pub mod progress;
pub mod wallet;
pub mod websocket_api;

pub use nisd_core::{budget, chain, codec, crypto, files, importance, mempool, metrics, model, rules, state, store};
pub use nisd_net::{self as net, ip, local_cookie, quota};
