//! Requests to other servers, while the loop goes on.
//!
//! | part | what it is |
//! |---|---|
//! | [`Fetcher`] | the part with sockets, which a loop drives |
//! | `pool` | which request goes to which connection, and what it may cost: pure |
//! | `connection` | one connection from its name to its last answer: pure |
//! | [`ResponseReader`] | responses out of bytes: pure, used by [`client`](super::client) as well |
//! | `names` | addresses of hosts, by the system's files and by questions to name servers: pure |
//!
//! Redirects are answers like any other. There is no TLS.

mod connection;
mod endpoint;
mod limits;
mod names;
mod pool;
mod request;
mod response;
mod sockets;

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

pub use endpoint::Endpoint;
pub use limits::FetchLimits;
pub use names::NameConfiguration;
pub use request::RequestHead;
pub use response::{Complete, HEAD_LIMIT, ResponseReader};
pub use sockets::{FetchStats, Fetcher};

/// What a fetcher needs to know.
#[derive(Clone, Debug)]
pub struct Fetching {
    /// What it may cost.
    pub limits: FetchLimits,
    /// How names are resolved.
    pub names: NameConfiguration,
    /// Randomness, best taken from the system, which makes questions to name servers hard to guess.
    pub seed: [u8; 32],
}

impl Default for Fetching {
    /// With names of this machine only, and no randomness.
    fn default() -> Fetching {
        Fetching { limits: FetchLimits::default(), names: NameConfiguration::parse("", ""), seed: [0; 32] }
    }
}

/// Number of a request to another server. Never used twice.
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

/// A request to another server, and what it may cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Where to.
    pub endpoint: Endpoint,
    /// Method.
    pub method: Method,
    /// Path and query, in the form of the wire.
    pub target: String,
    /// Media type of the body, and that of the answer that is asked for.
    pub media_type: &'static str,
    /// Body of a POST; held once, however many servers it goes to.
    pub body: Rc<[u8]>,
    /// Bytes that the body of the answer may have, known before any of it is read.
    pub body_limit: usize,
    /// Time from the wish to the end of the answer: looking the name up, connecting and waiting for a connection
    /// included.
    pub time: Duration,
    /// Time without a byte from the server, once there is a connection, after which it is given up.
    pub silence: Duration,
    /// Whether it may be made a second time if a connection that was kept is closed before the first byte of an answer.
    pub is_idempotent: bool,
}

/// What another server answered, and where it was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The address that the connection went to.
    pub from: IpAddr,
    /// What it answered.
    pub response: Response,
}

/// An answer without where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// The body, free of transfer codings.
    pub body: Vec<u8>,
}

/// Why another server gave no answer.
#[derive(Debug)]
pub enum FetchError {
    /// The name of the host is not known, or cannot be found out.
    UnknownHost(String),
    /// No connection could be made.
    Unreachable(io::Error),
    /// The connection broke.
    Broken(io::Error),
    /// The time is over.
    TimedOut(Duration),
    /// There was a connection, and nothing came for so long.
    Silent(Duration),
    /// Too little came for so long.
    TooSlow(Duration),
    /// The answer is not HTTP/1.1 or breaks its rules.
    NotHttp(&'static str),
    /// The answer is longer than it may be.
    TooLarge,
    /// The target of the request is not a path of printable ASCII characters.
    BadTarget,
    /// Too many requests are on their way already, to this server or to all; or all answers in the making were too
    /// large together, and this one was the largest.
    Busy,
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FetchError::UnknownHost(error) => write!(f, "the host is not known: {error}"),
            FetchError::Unreachable(error) => write!(f, "no connection: {error}"),
            FetchError::Broken(error) => write!(f, "the connection broke: {error}"),
            FetchError::TimedOut(limit) => write!(f, "no complete answer within {} s", limit.as_secs()),
            FetchError::Silent(limit) => write!(f, "silence for {} s", limit.as_secs()),
            FetchError::TooSlow(limit) => write!(f, "hardly anything for {} s", limit.as_secs()),
            FetchError::NotHttp(reason) => write!(f, "the answer is not proper HTTP: {reason}"),
            FetchError::TooLarge => f.write_str("the answer is too long"),
            FetchError::BadTarget => f.write_str("the target of the request cannot be sent"),
            FetchError::Busy => f.write_str("too many requests are on their way"),
        }
    }
}

impl std::error::Error for FetchError {}
