//! HTTP/1.1, websockets, sockets and timers: everything between the wire and the service that decides. This layer knows
//! nothing of NEM.
//!
//! | part | contents |
//! |---|---|
//! | [`service`] | interface between the reactor and the service: events, effects |
//! | [`Reactor`] | sockets and clocks: accepts, reads, hands events to the service, writes |
//! | [`Server`] | the same without sockets: pure, for fuzzing and simulation |
//! | [`Limits`] | every limit on a client, by name |
//! | [`http`] | parses requests, writes responses: pure |
//! | [`websocket`] | handshake and frames: pure |
//! | [`fetch`] | non-blocking requests to other servers |
//! | [`blocking_client`] | blocking requests to other servers, for commands; parser of Server-Sent Events |
//!
//! ```text
//! socket ── RequestReader ── Event::Request ── Response ── SendQueue ── socket
//!                │ upgrade                                    │
//!           WsConnection ── Event::WebSocketMessage ── Effects::send
//! ```
//!
//! A connection between requests, or a websocket between messages, holds no buffer: it borrows the reactor's buffers
//! while it is processed. A [`quota`](crate::quota) decides whose connection is served next, each with a budget of work,
//! and whose gives way when connections, buffers or kernel memory are short (`server::eviction`). Each connection and each
//! read is charged even if no request results (`server::client_table`). Kernel memory per connection is limited by options
//! of the listening socket (`socket`) and counted.
//!
//! The connections of a client that has exceeded its work quota are reset on arrival. Rejected alternatives: not
//! accepting delays all other clients, because the accept queue is shared; there is no listening socket per client; a
//! packet filter (`SO_ATTACH_FILTER`) would have to be rebuilt as thousands of addresses come and go, is inherited by
//! each connection, and exists only on Linux. A reset costs a few microseconds and works the same for IPv6 prefixes and
//! on every platform.

pub mod blocking_client;
pub mod fetch;
pub mod http;
pub mod websocket;

mod limits;
pub mod metrics;
mod reactor;
mod server;
pub mod service;
mod socket;

pub use limits::Limits;
pub use metrics::Stats;
pub use reactor::{EXTERNAL_TOKENS, ExternalReadiness, MAX_LISTENERS, Reactor, unix_millis};
pub use server::{Clock, MAX_REJECTED_CONNECTIONS, Server};
pub use socket::{Readiness, SharedBytes, SharedBytesCounter, Socket};
