//! The websocket API: STOMP sessions, subscriptions, publishing, and the HTTP layer of its port, as state machines
//! without sockets, clock or randomness.
//!
//! | module | purpose |
//! |---|---|
//! | [`http`] | answers HTTP requests on the port, among them the websocket upgrade |
//! | [`Broker`] | handles events of sessions and of the chain, and sends through [`Effects`] |
//! | [`ChainSource`] | the data that the broker reads from the node |
//! | [`stomp`] | decodes and encodes STOMP frames |
//! | [`sockjs`] | carries frames for clients without a usable websocket |
//!
//! Internally, `session_table` holds sessions, subscriptions and registered addresses, and accounts their memory in `quotas`. An
//! `session_transport` delivers a session's frames to its client; `requests` serves clients that fetch and send by HTTP requests;
//! `frames` executes the client's frames. `publisher` publishes news to all sessions and `query_scheduler` answers queries;
//! both run a `publish_job` over the things to send, one `fanout` at a time.
//!
//! Work is counted in units of about one microsecond, and expensive work runs in steps.
//!
//! [`Effects`]: crate::net::service::Effects

mod broker;
mod chain_source;
mod content;
mod fanout;
mod frames;
pub mod http;
mod pattern;
mod publish_job;
mod publisher;
pub mod query;
mod query_scheduler;
mod quotas;
mod range_set;
mod registry;
mod requests;
mod round_robin;
mod session;
mod session_table;
mod session_transport;
mod settings;
pub mod sockjs;
pub mod stomp;
mod subscriptions;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod topics;

pub use broker::{Broker, BrokerTime, BrokerUsage, Counts};
pub use chain_source::{
    AccountText, BlockText, ChainSource, ChainSourceError, OwnedCursor, OwnedItems, OwnedKind, TransfersText,
};
pub use query::Query;
pub use session::SessionId;
pub use settings::{BlocksNewBody, Limits, Settings};
