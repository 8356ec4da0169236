//! DNS resolver: the system's files and queries to name servers.

mod cache;
mod configuration;
mod message;
mod resolver;

pub use configuration::NameConfiguration;
pub(super) use resolver::{Datagram, Resolver};
