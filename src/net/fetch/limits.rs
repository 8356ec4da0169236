//! Every number that bounds requests to other servers.

use std::time::Duration;

/// Limits of a [`Fetcher`](super::Fetcher). Each request brings two more: [`Fetch::body_limit`] and [`Fetch::time`].
///
/// [`Fetch::body_limit`]: super::Fetch::body_limit
/// [`Fetch::time`]: super::Fetch::time
#[derive(Clone, Debug)]
pub struct FetchLimits {
    /// Connections to one host and port at a time, those being made included.
    pub connections_per_host: usize,
    /// Connections at a time, those being made and those kept included. The last half of them is for hosts that have
    /// none, so that a few slow hosts cannot take all.
    pub connections: usize,
    /// Requests that wait for a connection to one host and port.
    pub waiting_per_host: usize,
    /// Requests that wait for a connection, in all.
    pub waiting: usize,
    /// Bytes of all answers in the making. If they exceed it, the request whose answer holds the most fails.
    pub held_bytes: usize,
    /// An answer that brings fewer bytes than `least_bytes` within `least_time`, and has not ended, is given up: else a server
    /// could keep a request waiting for all its time with a byte now and then.
    pub least_bytes: usize,
    /// See `least_bytes`.
    pub least_time: Duration,
    /// How long it may take until a connection stands, for each address of a host.
    pub connect_time: Duration,
    /// A connection that has had no request for this long is closed. Shorter than the 30 s after which servers close
    /// theirs, so that a request rarely meets a connection that is just being closed.
    pub idle_time: Duration,
    /// Questions to name servers at a time, each by a socket of its own.
    pub queries: usize,
    /// Names whose addresses are remembered.
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
            least_bytes: 64 * 1024,
            least_time: Duration::from_secs(20),
            connect_time: Duration::from_secs(5),
            idle_time: Duration::from_secs(25),
            queries: 32,
            cached_names: 1024,
        }
    }
}
