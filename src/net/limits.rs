//! Every number that bounds what a client can make the reactor do.

use std::time::Duration;

/// Limits of a [`Reactor`](super::Reactor). The head of a request, a websocket message and chunked
/// bodies have limits of their own: [`HEAD_LIMIT`](super::http::HEAD_LIMIT),
/// [`MESSAGE_LIMIT`](super::websocket::MESSAGE_LIMIT) and those in `http::chunked`.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at a time, over all listeners. A further one is accepted, answered 503 and
    /// closed at once: left in the kernel's queue, its client would learn nothing.
    pub connections: usize,
    /// Bytes of a request body. A longer one is answered 413.
    pub body_bytes: usize,
    /// Bytes of output of one connection above which nothing more is read from it or answered to
    /// it until the client has taken some.
    pub output_bytes: usize,
    /// Bytes waiting for one websocket. If a message would exceed it, everything that has not
    /// begun to be sent is dropped and the websocket is closed with 4500. A single message of any
    /// size may be sent to a client that has taken everything before it.
    pub websocket_backlog_bytes: usize,
    /// Bytes buffered for all connections together. The connection that exceeds it is closed, an
    /// HTTP one with 503 where that is possible.
    pub buffered_bytes: usize,
    /// A connection without a request is closed after this.
    pub keep_alive: Duration,
    /// A request must be complete within this time of its first byte, or it is answered 408.
    pub request_time: Duration,
    /// A client that takes none of its output for this long is dropped.
    pub write_stall: Duration,
    /// A websocket with no traffic in either direction for this long is closed with 1001.
    pub websocket_idle: Duration,
    /// A websocket message that has waited this long is treated like an exceeded backlog.
    pub websocket_send_age: Duration,
    /// How long a connection closed from this side stays, so that the client can read the last
    /// answer: closing with unread input would destroy it on its way.
    pub linger: Duration,
}

impl Default for Limits {
    /// The numbers of specification 06 §1 and 07 §13 where they give one.
    fn default() -> Self {
        Self {
            connections: 10_000,
            body_bytes: 4 * 1024 * 1024,
            output_bytes: 64 * 1024,
            websocket_backlog_bytes: 512 * 1024,
            buffered_bytes: 128 * 1024 * 1024,
            keep_alive: Duration::from_secs(30),
            request_time: Duration::from_secs(30),
            write_stall: Duration::from_secs(10),
            websocket_idle: Duration::from_secs(300),
            websocket_send_age: Duration::from_secs(10),
            linger: Duration::from_secs(2),
        }
    }
}

impl Limits {
    /// How often connections are looked at for what is due: often enough that a limit is exceeded
    /// by a quarter of itself at most, and by no more than a second.
    pub(super) fn sweep_interval(&self) -> Duration {
        let shortest = [
            self.keep_alive,
            self.request_time,
            self.write_stall,
            self.websocket_idle,
            self.websocket_send_age,
            self.linger,
        ]
        .into_iter()
        .min()
        .unwrap_or_default();
        (shortest / 4).clamp(Duration::from_millis(10), Duration::from_secs(1))
    }
}
