//! Sockets, HTTP/1.1, websockets and timers: everything between the wire and the machine that decides. Nothing here
//! knows what is being served.
//!
//! | part | what it is |
//! |---|---|
//! | [`machine`] | the language between the reactor and the machine: events, effects |
//! | [`Reactor`] | sockets and clocks: accepts, reads, hands events to the machine, writes |
//! | [`Server`] | the same without sockets: pure, for fuzzing and simulation |
//! | [`Limits`] | every number that bounds a client, by name |
//! | [`http`] | requests out of bytes, answers into bytes: pure |
//! | [`websocket`] | the upgrade decision and frames: pure |
//! | [`fetch`] | requests to other servers, while the loop goes on |
//! | [`client`] | requests to other servers, for commands that wait for the answer |
//!
//! ```text
//! socket ── read buffer ── RequestReader ── Event::Request ── Reply ── Output ── socket
//!                              │ upgrade
//!                         WsConnection ──── Event::Heard ── Effects::send ─┘
//! ```
//!
//! A connection that waits for its next request, or a websocket between messages, holds no buffer: the reactor lends
//! its own for as long as a request or an answer is in one piece. Whoever causes cost has an account of it: connections
//! are served by caller, in turn, each for a share of work.

pub mod client;
pub mod fetch;
pub mod http;
pub mod websocket;

mod access_log;
mod callers;
mod connection;
mod connections;
pub mod figures;
mod forwarded;
mod inbox;
mod input;
mod limits;
mod listeners;
pub mod machine;
mod output;
mod reactor;
mod server;
mod shared;
mod socket;

pub use connection::Readiness;
pub use limits::{IsTrusted, Limits};
pub use reactor::{EXTERNAL_TOKENS, MAX_LISTENERS, Reactor, Turn};
pub use server::{Server, Stats, TURNED_AWAY_AT_ONCE};
pub use shared::{Shared, SharedPool};
pub use socket::Socket;
