//! Non-blocking requests to other servers.
//!
//! | part | contents |
//! |---|---|
//! | [`Fetcher`] | connections with their requests and timers, driven by an event loop |
//! | [`ResponseReader`] | parser of responses: pure, used by [`blocking_client`](super::blocking_client) as well |
//! | [`Names`] | addresses of host names, which a helper process looks up |
//!
//! Redirects are not followed. There is no TLS.

mod fetcher;
mod names;
mod response;

pub use fetcher::{FetchStats, Fetcher};
pub use names::{MAX_ADDRESSES, Names, Resolution};
pub use response::{HEAD_LIMIT, ResponseReader};

use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use thiserror::Error;

use crate::ip::{Scope, Url, in_url};

/// Id of a request to another server, chosen by its sender. Not reused.
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
    /// Only addresses that reach at least this far are connected to, whatever the host's name resolves to.
    pub least_scope: Scope,
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
    /// Timeout from the call to the complete response, including the lookup of the name and connecting.
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
#[derive(Debug, Error)]
pub enum FetchError {
    /// The host name is unknown or cannot be resolved.
    #[error("the host cannot be resolved: {0}")]
    UnknownHost(String),
    /// None of its addresses has the required scope.
    #[error("the host has no address that is {0}")]
    OutOfScope(Scope),
    /// No connection could be made.
    #[error("cannot connect: {0}")]
    Unreachable(io::Error),
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(io::Error),
    /// The timeout has expired.
    #[error("no complete answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// Nothing was received on the connection for this long.
    #[error("nothing received for {} s", .0.as_secs())]
    Silent(Duration),
    /// Too little was received for this long.
    #[error("too little received for {} s", .0.as_secs())]
    TooSlow(Duration),
    /// The response is not HTTP/1.1 or violates its rules.
    #[error("the answer is not proper HTTP: {0}")]
    NotHttp(&'static str),
    /// The response exceeds its limit.
    #[error("the answer is too long")]
    TooLarge,
    /// The target is not a path of printable ASCII characters.
    #[error("the target of the request cannot be sent")]
    BadTarget,
    /// Too many requests are in progress; or the responses in progress exceed their total, and this one is the largest; or
    /// the id of the request is in use.
    #[error("too many requests are in progress")]
    Busy,
}

/// Host and port of a server.
#[derive(Clone, Debug, derive_more::Display, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[display("{}:{port}", in_url(host))]
pub struct Endpoint {
    /// Name or address; an IPv6 address without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl Endpoint {
    /// Parses [`Url::of_interface`]. Also returns the path, which has no `/` at its end.
    pub fn parse(text: &str, default_port: u16) -> Result<(Endpoint, String), String> {
        let Url { host, port, path, .. } = Url::of_interface(text)?;
        Ok((Endpoint { host, port: port.unwrap_or(default_port) }, path))
    }
}

/// Addresses of a host to try for one request.
pub(crate) const MAX_ATTEMPTS: usize = 4;
/// Connect timeout for each of them.
pub(crate) const CONNECT_TIME: Duration = Duration::from_secs(5);

/// Limits of a [`Fetcher`]. Each request has two more: [`FetchRequest::body_limit`] and [`FetchRequest::timeout`].
#[derive(Clone, Debug)]
pub struct FetchLimits {
    /// Connections, those being opened and idle ones included. Each request has one, so that it also limits requests.
    pub connections: usize,
    /// Bytes of all responses in progress. When exceeded, the request with the largest response fails.
    pub held_bytes: usize,
    /// Minimum bytes of an incomplete response per `min_rate_window`; with fewer the request fails. Otherwise a server could
    /// hold a request until its timeout with a byte now and then.
    pub min_rate_bytes: usize,
    /// See `min_rate_bytes`.
    pub min_rate_window: Duration,
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self {
            connections: 128,
            held_bytes: 32 * 1024 * 1024,
            min_rate_bytes: 64 * 1024,
            min_rate_window: Duration::from_secs(20),
        }
    }
}

/// Value of `User-Agent`.
const USER_AGENT: &str = concat!("nisd/", env!("CARGO_PKG_VERSION"));

/// Encodes the head of a request with a body of `body_length` bytes. Its headers are those of NIS1 nodes, in their order.
/// With `keep_alive`, the server is asked to keep the connection open. Fails if the target, an encoded path with its query,
/// contains characters that would break the head.
pub fn request_head(
    endpoint: &Endpoint,
    method: Method,
    target: &str,
    media_type: &str,
    body_length: usize,
    keep_alive: bool,
) -> Result<Vec<u8>, FetchError> {
    if !target.starts_with('/') || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(FetchError::BadTarget);
    }
    let name = match method {
        Method::Get => "GET",
        Method::Post => "POST",
    };
    let mut head = format!("{name} {target} HTTP/1.1\r\nAccept: {media_type}\r\n");
    if method == Method::Post {
        head.push_str(&format!("Content-Length: {body_length}\r\nContent-Type: {media_type}\r\n"));
    }
    let connection = if keep_alive { "Keep-Alive" } else { "close" };
    head.push_str(&format!("Host: {endpoint}\r\nConnection: {connection}\r\nUser-Agent: {USER_AGENT}\r\n\r\n"));
    Ok(head.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_in_their_usual_forms() {
        let parse = |text| Endpoint::parse(text, 7890).map(|(endpoint, path)| endpoint.to_string() + &path);
        assert_eq!(parse("http://127.0.0.1:8000/"), Ok("127.0.0.1:8000".to_owned()));
        assert_eq!(parse("node.example"), Ok("node.example:7890".to_owned()));
        assert_eq!(parse("http://[::1]"), Ok("[::1]:7890".to_owned()));
        assert_eq!(parse("[::1]:1"), Ok("[::1]:1".to_owned()));
        assert_eq!(parse("http://127.0.0.1/api/"), Ok("127.0.0.1:7890/api".to_owned()));
        assert_eq!(parse("a:1/a.b/c-d_~"), Ok("a:1/a.b/c-d_~".to_owned()));
        for text in [
            "",
            "https://a",
            "http://",
            "a:0",
            "a:65536",
            "a:b",
            "a/b c",
            "a/b?c",
            "a/b#c",
            "a//",
            "a//b",
            "a/%41",
            "[::1",
            "[::1]x",
            "a\r\nB: c",
            "a b",
            "[::]:1",
            "0.0.0.0",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

#[cfg(test)]
mod request_tests {
    use super::*;

    #[test]
    fn a_target_cannot_add_headers() {
        let endpoint = Endpoint { host: "::1".to_owned(), port: 7890 };
        let head = |method, target, is_kept| {
            let media_type = "application/json";
            request_head(&endpoint, method, target, media_type, 5, is_kept)
        };
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert_eq!(
            text(head(Method::Get, "/a?b=%20", true).unwrap()),
            format!(
                "GET /a?b=%20 HTTP/1.1\r\nAccept: application/json\r\nHost: [::1]:7890\r\nConnection: Keep-Alive\r\n\
                 User-Agent: {USER_AGENT}\r\n\r\n"
            )
        );
        assert_eq!(
            text(head(Method::Post, "/", false).unwrap()),
            format!(
                "POST / HTTP/1.1\r\nAccept: application/json\r\nContent-Length: 5\r\n\
                 Content-Type: application/json\r\nHost: [::1]:7890\r\nConnection: close\r\n\
                 User-Agent: {USER_AGENT}\r\n\r\n"
            )
        );
        for target in ["", "a", "/a b", "/a\r\nX: y", "/\u{e9}", "http://a/"] {
            assert!(matches!(head(Method::Get, target, true), Err(FetchError::BadTarget)), "{target}");
        }
    }
}
