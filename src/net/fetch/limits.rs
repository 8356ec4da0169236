//! Limits of requests to other servers.

use std::time::Duration;

/// Limits of a [`Fetcher`](super::Fetcher). Each request has two more: [`FetchRequest::body_limit`] and [`FetchRequest::timeout`].
///
/// [`FetchRequest::body_limit`]: super::FetchRequest::body_limit
/// [`FetchRequest::timeout`]: super::FetchRequest::timeout
#[derive(Clone, Debug)]
pub struct FetchLimits {
    /// Connections to one host and port, those being opened included.
    pub connections_per_host: usize,
    /// Connections in all, those being opened and idle ones included. The last half is reserved for hosts that have
    /// none, so that a few slow hosts cannot use all.
    pub connections: usize,
    /// Requests waiting for a connection to one host and port.
    pub waiting_per_host: usize,
    /// Requests waiting for a connection in all.
    pub waiting: usize,
    /// Bytes of all responses in progress. When exceeded, the request with the largest response fails.
    pub held_bytes: usize,
    /// Minimum bytes of an incomplete response per `min_rate_window`; with fewer the request fails. Otherwise a server could
    /// hold a request until its timeout with a byte now and then.
    pub min_rate_bytes: usize,
    /// See `min_rate_bytes`.
    pub min_rate_window: Duration,
    /// Connect timeout for each address of a host.
    pub connect_time: Duration,
    /// Time after which an idle connection is closed. Shorter than the 30 s after which servers close theirs, so that a
    /// request rarely meets a closing connection.
    pub idle_time: Duration,
    /// DNS queries in flight, each on a socket of its own.
    pub queries: usize,
    /// Names in the DNS cache.
    pub cached_names: usize,
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self {
            connections_per_host: 4,
            connections: 128,
            waiting_per_host: 32,
            waiting: 1024,
            held_bytes: 32 * 1024 * 1024,
            min_rate_bytes: 64 * 1024,
            min_rate_window: Duration::from_secs(20),
            connect_time: Duration::from_secs(5),
            idle_time: Duration::from_secs(25),
            queries: 32,
            cached_names: 1024,
        }
    }
}
