//! The websocket API: STOMP sessions, subscriptions, publishing, and the HTTP layer of its port, as state machines
//! without sockets, clock or randomness.
//!
//! | module | purpose |
//! |---|---|
//! | [`http`] | answers HTTP requests on the port, among them the websocket upgrade |
//! | [`Broker`] | handles events of sessions and of the chain, and sends through [`Effects`] |
//! | [`Facts`] | the data that the broker reads from the node |
//! | [`stomp`] | decodes and encodes STOMP frames |
//! | [`sockjs`] | carries frames for clients without a usable websocket |
//!
//! Internally, `hub` holds sessions, subscriptions and registered addresses, and accounts their memory in `books`. An
//! `outlet` delivers a session's frames to its client; `requests` serves clients that fetch and send by HTTP requests;
//! `frames` executes the client's frames. `publisher` publishes news to all sessions and `answering` answers queries;
//! both run a `walk` over the things to send, one `publication` at a time.
//!
//! Work is counted in units of about one microsecond, and expensive work runs in steps.
//!
//! [`Effects`]: crate::net::machine::Effects

mod answering;
mod books;
mod broker;
mod content;
mod facts;
mod frames;
pub mod http;
mod hub;
mod numbers;
mod outlet;
mod pattern;
mod publication;
mod publisher;
pub mod query;
mod registry;
mod requests;
mod session;
mod settings;
pub mod sockjs;
pub mod stomp;
mod subscriptions;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod topics;
mod turns;
mod walk;

pub use broker::{Broker, Counts, Figures, Present};
pub use facts::{AccountText, BlockText, Facts, FactsError, Owned, Ownership, Possessions, TransfersText};
pub use query::Query;
pub use session::SessionId;
pub use settings::{BlocksNewBody, Limits, Settings};
