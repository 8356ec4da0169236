//! The messaging interface (specification 07): STOMP sessions, the broker and the HTTP layer of
//! port 7778, as state machines without sockets, clock or randomness.
//!
//! A connection's way through this room: [`http::answer`] decides about the upgrade, the caller
//! runs the websocket, [`Broker::open`] starts the session, [`Broker::receive`] takes each
//! websocket message, and whatever is to be done lands in the [`Outbox`].

mod broker;
pub mod http;
mod hub;
pub mod notify;
mod outbox;
mod pattern;
mod registry;
pub mod requests;
mod session;
mod settings;
pub mod stomp;
mod topics;

pub use broker::{Broker, Context, TooManySessions};
pub use outbox::{Outbox, Output};
pub use registry::AddressText;
pub use requests::ApiRequest;
pub use session::Kind;
pub use settings::{BlocksNewBody, Limits, Settings};
