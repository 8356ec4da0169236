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
//! | [`ClientKey`] | who answers for what a client makes the node hold |
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
//! are served by caller, in turn, each for a share of work. When places are short, whoever has most gives way (`places`).
//! What the system may hold for a connection is bounded by options of the listening socket (`socket`), is counted, and is
//! cut where it is too much (`connections`). Each connection and each read is work of its caller, also if no request
//! comes of it (`callers`).
//!
//! A caller that has caused too much is reset as it connects. Three other ways were thought through. Not accepting while
//! one caller is over its share holds up all that stand behind it in the queue of the system, which is one for all. A
//! listening socket for each caller does not exist. A packet filter on the listening socket (`SO_ATTACH_FILTER`) could
//! drop the SYNs of some addresses, but it would have to be made anew with each of thousands of addresses that come and
//! go, is inherited by each connection, and exists on Linux alone; a reset costs a few microseconds and is the same for
//! IPv6 prefixes and everywhere.

pub mod client;
pub mod fetch;
pub mod http;
pub mod websocket;

mod access_log;
mod callers;
mod client_key;
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
mod places;
mod reactor;
mod server;
mod shared;
mod socket;

pub use client_key::ClientKey;
pub use connection::Readiness;
pub use limits::{IsTrusted, Limits};
pub use reactor::{EXTERNAL_TOKENS, MAX_LISTENERS, Reactor, Turn};
pub use server::{Server, Stats, TURNED_AWAY_AT_ONCE};
pub use shared::{Shared, SharedPool};
pub use socket::Socket;
