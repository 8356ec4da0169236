//! Non-blocking requests to other servers.
//!
//! | part | contents |
//! |---|---|
//! | [`Fetcher`] | the part with sockets, driven by an event loop |
//! | `pool` | assignment of requests to connections, and limits: pure |
//! | `connection` | one connection from DNS to its last response: pure |
//! | [`ResponseReader`] | parser of responses: pure, used by [`blocking_client`](super::blocking_client) as well |
//! | `dns` | DNS resolver with the system's files: pure |
//!
//! Redirects are not followed. There is no TLS.

mod connection;
mod dns;
mod endpoint;
mod limits;
mod pool;
mod request;
mod response;
mod sockets;

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

pub use dns::DnsConfig;
pub use endpoint::Endpoint;
pub use limits::FetchLimits;
pub use request::RequestHead;
pub use response::{CompleteResponse, HEAD_LIMIT, ResponseReader};
pub use sockets::{FetchStats, Fetcher};

/// Configuration of a fetcher.
#[derive(Clone, Debug)]
pub struct FetchConfig {
    /// Limits.
    pub limits: FetchLimits,
    /// Configuration of DNS.
    pub dns: DnsConfig,
    /// Random bytes, best from the system, that make DNS queries hard to guess.
    pub seed: [u8; 32],
}

impl Default for FetchConfig {
    /// Resolves through a name server on this machine, without randomness.
    fn default() -> FetchConfig {
        FetchConfig { limits: FetchLimits::default(), dns: DnsConfig::parse("", ""), seed: [0; 32] }
    }
}

/// Id of a request to another server. Not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FetchId(pub u64);

/// Method of a request to another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET, without a body.
    Get,
    /// POST of a body.
    Post,
}

/// A request to another server, with its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchRequest {
    /// The server.
    pub endpoint: Endpoint,
    /// The method.
    pub method: Method,
    /// Encoded path and query.
    pub target: String,
    /// Media type of the body and of the wanted response.
    pub media_type: &'static str,
    /// Body of a POST, shared by requests to several servers.
    pub body: Rc<[u8]>,
    /// Limit on the bytes of the response body, enforced before they are read if the length is announced.
    pub body_limit: usize,
    /// Timeout from the call to the complete response, including DNS, connecting and waiting for a connection.
    pub timeout: Duration,
    /// Timeout without a byte from the server once there is a connection.
    pub read_timeout: Duration,
    /// The request may be repeated once if a reused connection is closed before the first byte of the response.
    pub is_idempotent: bool,
}

/// A response from another server, with its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchResponse {
    /// Address of the server.
    pub from: IpAddr,
    /// The response.
    pub response: Response,
}

/// A response without the address of its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Body without its transfer coding.
    pub body: Vec<u8>,
}

/// Why a request failed.
#[derive(Debug)]
pub enum FetchError {
    /// The host name is unknown or cannot be resolved.
    UnknownHost(String),
    /// No connection could be made.
    Unreachable(io::Error),
    /// The connection broke.
    Broken(io::Error),
    /// The timeout has expired.
    TimedOut(Duration),
    /// Nothing was received on the connection for this long.
    Silent(Duration),
    /// Too little was received for this long.
    TooSlow(Duration),
    /// The response is not HTTP/1.1 or violates its rules.
    NotHttp(&'static str),
    /// The response exceeds its limit.
    TooLarge,
    /// The target is not a path of printable ASCII characters.
    BadTarget,
    /// Too many requests are in progress, to this server or in all; or the responses in progress exceed their total,
    /// and this one is the largest.
    Busy,
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FetchError::UnknownHost(error) => write!(f, "the host cannot be resolved: {error}"),
            FetchError::Unreachable(error) => write!(f, "cannot connect: {error}"),
            FetchError::Broken(error) => write!(f, "the connection broke: {error}"),
            FetchError::TimedOut(limit) => write!(f, "no complete answer within {} s", limit.as_secs()),
            FetchError::Silent(limit) => write!(f, "nothing received for {} s", limit.as_secs()),
            FetchError::TooSlow(limit) => write!(f, "too little received for {} s", limit.as_secs()),
            FetchError::NotHttp(reason) => write!(f, "the answer is not proper HTTP: {reason}"),
            FetchError::TooLarge => f.write_str("the answer is too long"),
            FetchError::BadTarget => f.write_str("the target of the request cannot be sent"),
            FetchError::Busy => f.write_str("too many requests are in progress"),
        }
    }
}

impl std::error::Error for FetchError {}
