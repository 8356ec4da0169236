//! Server-side HTTP/1.1, without sockets or clocks.
//!
//! [`RequestReader`] parses received bytes into [`Request`]s that borrow from its buffer; a service fills a [`Response`];
//! [`Response::write`] writes it as bytes. A message that is itself faulty is an [`HttpError`], answered with the HTML
//! page of NIS1's web container and a closed connection.

mod request;
mod response;

use thiserror::Error;
use tungstenite::http::StatusCode;

pub(in crate::net) use request::{Body, ChunkedBody, Extent, decimal, may_end};
pub use request::{HEAD_LIMIT, MAX_HEADERS, MatchedRoute, Request, RequestReader};
pub use response::{GZIP_MAX_BYTES, GZIP_MIN_BYTES, Gzip, Response, SharedBody, StaticText, accepts_gzip, version_of};

/// A message that cannot be answered by a service. The connection is closed after the response, because the start of
/// the next request is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{} {}", self.status(), self.reason())]
pub enum HttpError {
    /// 400: not HTTP, or ambiguous; the text names the fault.
    Malformed(&'static str),
    /// 408: the request was not complete in time.
    TooSlow,
    /// 413: the body exceeds the limit.
    BodyTooLarge,
    /// 414: the request line alone exceeds the limit on the head.
    UriTooLong,
    /// 431: request line and headers together exceed the limit, or there are too many headers.
    HeadersTooLarge,
    /// 501: a transfer coding other than `chunked`.
    UnknownTransferCoding,
    /// 503: the node has no capacity for this connection or its data.
    Overloaded,
    /// 505: not HTTP/1.0 or HTTP/1.1.
    UnknownVersion,
}

impl HttpError {
    /// Returns the status code of the response.
    pub fn status(self) -> u16 {
        match self {
            Self::Malformed(_) => 400,
            Self::TooSlow => 408,
            Self::BodyTooLarge => 413,
            Self::UriTooLong => 414,
            Self::HeadersTooLarge => 431,
            Self::UnknownTransferCoding => 501,
            Self::Overloaded => 503,
            Self::UnknownVersion => 505,
        }
    }

    /// Returns the reason shown to the client.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Malformed(reason) => reason,
            other => reason_phrase(other.status()),
        }
    }

    /// Fills `response` with the HTML page of NIS1's web container and closes the connection after it.
    ///
    /// Services use it too, for paths that the container rejects.
    pub fn fill_response(self, response: &mut Response) {
        response.reset();
        response.status = self.status();
        response.close = true;
        response.header("Content-Type", "text/html;charset=iso-8859-1");
        let page = format!("<h1>Bad Message {}</h1><pre>reason: {}</pre>", self.status(), self.reason());
        response.body.extend_from_slice(page.as_bytes());
    }
}

/// Returns the standard reason phrase of `status`, or an empty string if it has none.
pub fn reason_phrase(status: u16) -> &'static str {
    StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default()
}
