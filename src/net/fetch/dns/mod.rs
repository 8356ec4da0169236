//! DNS resolver: the system's files and queries to name servers.

mod cache;
mod config;
mod message;
mod resolver;

pub use config::DnsConfig;
pub(super) use resolver::{Datagram, Resolver};
