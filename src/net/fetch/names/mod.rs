//! Addresses of hosts: by the files of the system, and by questions to name servers.

mod cache;
mod configuration;
mod message;
mod resolver;

pub use configuration::NameConfiguration;
pub(super) use resolver::{Datagram, Resolver};
