//! The messaging interface: STOMP sessions, their subscriptions, what is published to them, and the HTTP layer of its
//! port, as state machines without sockets, clock or randomness.
//!
//! | part | what it is |
//! |---|---|
//! | [`http`] | answers to requests on the port, among them the upgrade to a websocket |
//! | [`Broker`] | everything else: it is told what happens to sessions and to the chain, and sends through [`Effects`] |
//! | [`Facts`] | what the broker asks of the node to make its messages |
//! | [`stomp`] | bytes to frames and frames to bytes |
//! | [`sockjs`] | what carries frames for clients without a websocket, or without a plain one |
//!
//! Inside, `hub` keeps sessions, subscriptions, registered addresses and the books on what they hold; an `outlet` is
//! the way of a session's frames to its client, `requests` those by which a client without a websocket fetches and
//! sends; `frames` does what a session's frames ask for; `publisher` and `answering` tell news to everybody and answers
//! to those who asked, both by a `walk` along what there is to tell, one `publication` at a time.
//!
//! Work is counted in units of about a microsecond, and whatever can take many of them is done in steps.
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
