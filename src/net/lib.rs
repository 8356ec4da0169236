//! HTTP/1.1, websockets, sockets and timers: everything between the wire and the service that decides. This layer knows
//! nothing of NEM. `nisd` names it `net`.
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
//! | [`quota`] | who is served next, and who gives way |
//! | [`ip`] | addresses and their networks |
//! | [`local_cookie`] | the secret of local requests, and its file |
//!
//! ```text
//! socket ── RequestReader ── Event::Request ── Response ── SendQueue ── socket
//!                │ upgrade                                    │
//!           WsConnection ── Event::WebSocketMessage ── Effects::send
//! ```
//!
//! A connection between requests, or a websocket between messages, holds no buffer: it borrows the reactor's buffers
//! while it is processed. A [`quota`] decides whose connection is served next, each with a budget of work,
//! and whose gives way when connections, buffers or kernel memory are short (`server::eviction`). Each connection and each
//! read is charged even if no request results (`server::client_table`). Kernel memory per connection is limited by options
//! of the listening socket (`socket`) and counted.
//!
//! The connections of a client that has exceeded its work quota are reset on arrival. Rejected alternatives: not
//! accepting delays all other clients, because the accept queue is shared; there is no listening socket per client; a
//! packet filter (`SO_ATTACH_FILTER`) would have to be rebuilt as thousands of addresses come and go, is inherited by
//! each connection, and exists only on Linux. A reset costs a few microseconds and works the same for IPv6 prefixes and
//! on every platform.

#![forbid(unsafe_code)]

pub mod blocking_client;
pub mod fetch;
pub mod http;
pub mod ip;
pub mod local_cookie;
pub mod metrics;
pub mod quota;
pub mod websocket;

mod reactor;
mod server;
pub mod service;
mod socket;

pub use metrics::Stats;
pub use reactor::{EXTERNAL_TOKENS, MAX_LISTENERS, Reactor, unix_millis};
pub use server::{Clock, MAX_REJECTED_CONNECTIONS, Server};
pub use socket::{Readiness, SharedBytes, SharedBytesCounter, Socket};

use std::time::Duration;

use crate::ip::AddressRanges;

/// Limits of a [`Reactor`]. Request heads, websocket messages and chunked bodies have their own:
/// [`HEAD_LIMIT`](http::HEAD_LIMIT), [`MESSAGE_LIMIT`](websocket::MESSAGE_LIMIT) and those in
/// `http::request`. The service sets the limit on the body of each request.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Trusted proxies: their `X-Forwarded-For` or `Forwarded` headers are believed, and the limits of a client are those of
    /// whom they name.
    pub trusted_proxies: AddressRanges,
    /// Open connections, over all listeners. Beyond this, a new connection evicts the longest idle one of the client that
    /// has the most in the network that has the most.
    pub connections: usize,
    /// Open connections of one client; this machine and trusted proxies are exempt. Further ones get a 503 and are closed.
    pub connections_per_client: usize,
    /// Requests of one client per second and listener. Further ones are marked
    /// [`is_rate_limited`](service::Exchange::is_rate_limited). `None` means unlimited.
    pub requests_per_second: Option<usize>,
    /// Unsent output bytes of one connection above which reading and processing pause until the client has taken some.
    pub output_bytes: usize,
    /// Bytes queued for one websocket. If a message would exceed this, all output whose sending has not begun is
    /// dropped and the websocket is closed with code 4500. A message of any size is accepted when the queue is empty.
    pub backlog_bytes: usize,
    /// Buffered bytes of all connections; of one network an eighth, but local requests and trusted proxies are exempt. When
    /// exceeded, the largest connection of the largest client is closed, an HTTP one with a 503 if no output is pending.
    pub buffered_bytes: usize,
    /// Kernel memory of all connections: sent bytes that clients have not acknowledged, and received bytes that were
    /// not read. When the estimate exceeds this, the actual amount is measured, and the largest connections of the
    /// largest clients are closed until a quarter is free.
    pub kernel_bytes: usize,
    /// Bytes a client may send after the response that ends its connection. They are read and discarded; beyond this
    /// the connection is closed at once.
    pub discarded_bytes: usize,
    /// Bytes of messages and kept responses that connections share, each counted once. When exceeded, the connection with
    /// the most of them pending is dropped.
    pub shared_bytes: usize,
    /// Idle time after which an HTTP connection is closed.
    pub keep_alive: Duration,
    /// Time from the first byte of a request until it must be complete; later it gets a 408. Also the time without any
    /// output within which the service must go on with its response; later the request gets a 503, or the connection is
    /// closed if a part of the response is pending or sent. Time for which the client is throttled does not count.
    pub request_time: Duration,
    /// Time without progress in writing after which a client is disconnected.
    pub write_stall: Duration,
    /// Time without traffic in either direction after which a websocket is closed with code 1001. Also the time without
    /// traffic after which a [`Progress::Streaming`](service::Progress::Streaming) or
    /// [`Progress::Queued`](service::Progress::Queued) request ends like a suspended one that timed out.
    pub websocket_idle: Duration,
    /// Time without input from a websocket's client after which a ping is sent. Without input for the same time again,
    /// the websocket is dropped.
    pub websocket_ping_timeout: Duration,
    /// Age at which an unsent websocket message counts as an exceeded backlog.
    pub send_age: Duration,
    /// How long a connection closed by this side stays open so that the client can read the last response. Closing a
    /// socket with unread input would discard that response.
    pub linger: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            trusted_proxies: AddressRanges::default(),
            connections: 10_000,
            connections_per_client: 250,
            requests_per_second: Some(50),
            output_bytes: 64 * 1024,
            backlog_bytes: 512 * 1024,
            buffered_bytes: 128 * 1024 * 1024,
            kernel_bytes: 64 * 1024 * 1024,
            discarded_bytes: 1024 * 1024,
            shared_bytes: 40 * 1024 * 1024,
            keep_alive: Duration::from_secs(30),
            request_time: Duration::from_secs(30),
            write_stall: Duration::from_secs(30),
            websocket_idle: Duration::from_secs(300),
            websocket_ping_timeout: Duration::from_secs(60),
            send_age: Duration::from_secs(10),
            linger: Duration::from_secs(2),
        }
    }
}

impl Limits {
    /// Interval of the timeout checks: a timeout is late by at most a quarter of itself and at most a second (at least
    /// 10 ms).
    fn sweep_interval(&self) -> Duration {
        let of_http = self.keep_alive.min(self.request_time).min(self.write_stall).min(self.linger);
        let of_websockets = self.websocket_idle.min(self.websocket_ping_timeout).min(self.send_age);
        (of_http.min(of_websockets) / 4).clamp(Duration::from_millis(10), Duration::from_secs(1))
    }
}
