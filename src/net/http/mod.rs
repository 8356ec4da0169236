//! Server-side HTTP/1.1, without sockets or clocks.
//!
//! [`RequestReader`] parses received bytes into [`Request`]s that borrow from its buffer; a service fills a [`Response`];
//! [`Response::write`] writes it as bytes. A message that is itself faulty is an [`HttpError`], answered with the HTML
//! page of NIS1's web container and a closed connection.

mod request;
mod response;

use thiserror::Error;
use tungstenite::http::StatusCode;

pub(crate) use request::{Body, ChunkedBody, Extent, decimal, may_end};
pub use request::{HEAD_LIMIT, MAX_HEADERS, MatchedRoute, Request, RequestReader};
pub use response::{GZIP_MAX_BYTES, GZIP_MIN_BYTES, Gzip, Response, SharedBody, StaticText, accepts_gzip, version_of};

/// When a client whose connection has found no place may try again.
const RETRY_AFTER_SECONDS: &str = "5";

/// A message that cannot be answered by a service. The connection is closed after the response, because the start of
/// the next request is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{status} {}", self.reason())]
pub struct HttpError {
    /// Status code of the response.
    pub status: u16,
    /// What is wrong with a message that is not HTTP, or ambiguous; what the node lacks.
    fault: Option<&'static str>,
}

impl HttpError {
    /// The request was not complete in time.
    pub const TOO_SLOW: HttpError = HttpError { status: 408, fault: None };
    /// The body exceeds the limit.
    pub const BODY_TOO_LARGE: HttpError = HttpError { status: 413, fault: None };
    /// The request line alone exceeds the limit on the head.
    pub const URI_TOO_LONG: HttpError = HttpError { status: 414, fault: None };
    /// Request line and headers together exceed the limit, or there are too many headers.
    pub const HEADERS_TOO_LARGE: HttpError = HttpError { status: 431, fault: None };
    /// A transfer coding other than `chunked`.
    pub const UNKNOWN_TRANSFER_CODING: HttpError = HttpError { status: 501, fault: None };
    /// Not HTTP/1.0 or HTTP/1.1.
    pub const UNKNOWN_VERSION: HttpError = HttpError { status: 505, fault: None };

    /// 400: not HTTP, or ambiguous; the text names the fault.
    pub const fn malformed(fault: &'static str) -> HttpError {
        HttpError { status: 400, fault: Some(fault) }
    }

    /// 503: the node has no capacity for this connection or its data; the text names what it lacks.
    pub const fn overloaded(fault: &'static str) -> HttpError {
        HttpError { status: 503, fault: Some(fault) }
    }

    /// Returns the reason shown to the client.
    pub fn reason(self) -> &'static str {
        self.fault.unwrap_or_else(|| reason_phrase(self.status))
    }

    /// Fills `response` with the HTML page of NIS1's web container and closes the connection after it.
    ///
    /// Services use it too, for paths that the container rejects.
    pub fn fill_response(self, response: &mut Response) {
        response.reset();
        response.status = self.status;
        response.close = true;
        response.header("Content-Type", "text/html;charset=iso-8859-1");
        if self.status == 503 {
            // NIS1 has no such limits. Pages of other origins read why, too.
            response.header("Retry-After", RETRY_AFTER_SECONDS);
            response.header("Access-Control-Allow-Origin", "*");
        }
        let page = format!("<h1>Bad Message {}</h1><pre>reason: {}</pre>", self.status, self.reason());
        response.body.extend_from_slice(page.as_bytes());
    }
}

/// Returns the standard reason phrase of `status`, or an empty string if it has none.
pub fn reason_phrase(status: u16) -> &'static str {
    StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default()
}
