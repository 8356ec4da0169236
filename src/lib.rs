//! `nisd`: a full NEM (NIS1) node in one thread.
#![forbid(unsafe_code)]

pub mod codec;
pub mod crypto;
pub mod model;
