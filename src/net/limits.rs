//! Every number that bounds what a client can make the reactor do.

use std::net::IpAddr;
use std::time::Duration;

/// Limits of a [`Reactor`](super::Reactor). The head of a request, a websocket message and chunked bodies have limits
/// of their own: [`HEAD_LIMIT`](super::http::HEAD_LIMIT), [`MESSAGE_LIMIT`](super::websocket::MESSAGE_LIMIT) and those
/// in `http::chunked`. How long a body may be the machine says for each request.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at a time, over all listeners. For a further one the client that has most of them loses its longest
    /// idle one, or else the network that has many more; if there is neither and none is idle, it is answered 503 and
    /// closed.
    pub connections: usize,
    /// Connections of one caller at a time; those of callers that are exempt are not counted. A further one is
    /// answered 503 and closed.
    pub connections_per_caller: usize,
    /// Bits of an IPv6 address that make a caller: a client has at least 64 to itself.
    pub ipv6_prefix: u8,
    /// Requests of one caller in a second and on one listener; further ones are marked
    /// [`is_refused`](super::machine::Exchange::is_refused). `None` if they are not counted.
    pub requests_per_second: Option<usize>,
    /// Bytes of output of one connection above which nothing more is read from it or answered to it until the client
    /// has taken some.
    pub output_bytes: usize,
    /// Bytes waiting for one websocket. If a message would exceed it, everything that has not begun to be sent is
    /// dropped and the websocket is closed with 4500. A single message of any size may be sent to a client that has
    /// taken everything before it.
    pub backlog_bytes: usize,
    /// Bytes buffered for all connections together. If they are exceeded, the caller that holds most loses the
    /// connection that holds most, an HTTP one with 503 where that is possible.
    pub buffered_bytes: usize,
    /// The same for all connections of one caller, unless it is exempt. If they are exceeded, it loses the connection that
    /// holds most. A proxy that passes requests of others on is not bound by it.
    pub buffered_bytes_per_caller: usize,
    /// Bytes that the system may hold for all connections: what was sent and not taken, and what came and was not read.
    /// If they may be exceeded, it is looked at what it holds, and the client for which most is held loses the
    /// connection for which most is held, until a quarter is free.
    pub kernel_bytes: usize,
    /// Bytes that are read, and thrown away, of what a client sends after an answer that ends its connection; at more
    /// the connection is cut.
    pub wasted_bytes: usize,
    /// Bytes of messages that wait for several websockets at once, each message counted once. If they are exceeded,
    /// the websocket for which most of them is waiting is dropped.
    pub shared_bytes: usize,
    /// A connection without a request is closed after this.
    pub keep_alive: Duration,
    /// A request must be complete within this time of its first byte, or it is answered 408; one that the machine has
    /// parked for so long is answered 503.
    pub request_time: Duration,
    /// A client that takes none of its output for this long is dropped.
    pub write_stall: Duration,
    /// A websocket with no traffic in either direction for this long is closed with 1001; a request that the machine
    /// holds is ended after it as if it had been parked for too long.
    pub websocket_idle: Duration,
    /// A websocket whose client has been silent for this long is sent a ping, and dropped if nothing comes from it for as
    /// long again.
    pub websocket_silence: Duration,
    /// A websocket message that has waited this long is treated like an exceeded backlog.
    pub send_age: Duration,
    /// How long a connection closed from this side stays, so that the client can read the last answer: closing with
    /// unread input would destroy it on its way.
    pub linger: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            connections_per_caller: 250,
            ipv6_prefix: 64,
            requests_per_second: Some(50),
            output_bytes: 64 * 1024,
            backlog_bytes: 512 * 1024,
            buffered_bytes: 128 * 1024 * 1024,
            buffered_bytes_per_caller: 32 * 1024 * 1024,
            kernel_bytes: 64 * 1024 * 1024,
            wasted_bytes: 1024 * 1024,
            shared_bytes: 16 * 1024 * 1024,
            keep_alive: Duration::from_secs(30),
            request_time: Duration::from_secs(30),
            write_stall: Duration::from_secs(10),
            websocket_idle: Duration::from_secs(300),
            websocket_silence: Duration::from_secs(60),
            send_age: Duration::from_secs(10),
            linger: Duration::from_secs(2),
        }
    }
}

impl Limits {
    /// How often connections are looked at for what is due: often enough that a limit is exceeded by a quarter of
    /// itself at most, and by no more than a second.
    pub(super) fn sweep_interval(&self) -> Duration {
        let times = [
            self.keep_alive,
            self.request_time,
            self.write_stall,
            self.websocket_idle,
            self.websocket_silence,
            self.send_age,
            self.linger,
        ];
        let shortest = times.into_iter().min().unwrap_or_default();
        (shortest / 4).clamp(Duration::from_millis(10), Duration::from_secs(1))
    }
}

/// Whose word about the caller is believed: proxies that pass requests on.
pub type IsTrusted = Box<dyn Fn(IpAddr) -> bool>;
