//! Sockets, HTTP/1.1, websockets and timers: everything between the wire and the services of the
//! node. Nothing here knows what is being served.
//!
//! | part | what it is |
//! |---|---|
//! | [`http`] | requests out of bytes, answers into bytes: pure |
//! | [`websocket`] | the upgrade decision and frames: pure |
//! | [`Service`], [`Outbox`] | what the rooms above implement and are handed |
//! | [`Limits`] | every number that bounds a client, by name |
//! | [`Reactor`] | the part of the node that touches sockets and the clock |
//! | [`client`] | requests to other servers, for commands that wait for the answer |
//!
//! ```text
//! socket ── shared read buffer ── RequestReader ── Service::request ── Reply ── Output ── socket
//!                                      │ upgrade
//!                                 WsConnection ── Service::websocket_message ── Outbox ─┘
//! ```
//!
//! A connection that waits for its next request, or a websocket between messages, holds no buffer:
//! the reactor lends its own for as long as a request or an answer is in one piece.

pub mod client;
pub mod fetch;
pub mod http;
pub mod websocket;

mod connection;
mod inbox;
mod limits;
pub mod machine;
mod output;
mod reactor;
mod service;
mod shared;

pub use limits::Limits;
pub use reactor::{EXTERNAL_TOKENS, MAX_LISTENERS, Reactor, Stats, Turn};
pub use service::{Caller, ConnectionId, Dropped, ListenerId, Outbox, Outgoing, Service};
pub use shared::{Shared, SharedPool};
