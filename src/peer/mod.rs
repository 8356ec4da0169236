//! Other nodes.

pub mod wire;
