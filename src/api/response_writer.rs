//! Writing of views into a response.

use super::media::{self, Accept};
use super::streams::BodyWriter;
use super::{ApiError, Format, View};
use crate::codec::json::JsonEncoder;
use crate::model::Timestamp;
use crate::net::http::{Request, Response};
use crate::peer::wire::ErrorBody;

const COMMON_HEADERS: [(&str, &str); 3] = [
    ("Access-Control-Allow-Origin", "*"),
    ("Access-Control-Allow-Headers", "Content-Type"),
    ("Allow", "GET, HEAD, POST, OPTIONS"),
];
const CONTENT_TYPE: &str = "Content-Type";
/// Maximum size in bytes of a response with a secret.
const SECRET_BYTES: usize = 1024;
const NO_CACHE: &str = "must-revalidate,no-cache,no-store";

/// Writes the response to one request, in the format that the client accepts.
pub(super) struct ResponseWriter<'a> {
    pub response: &'a mut Response,
    /// Reused buffer.
    pub json: &'a mut JsonEncoder,
    pub accept: Accept<'a>,
    pub now: Timestamp,
}

/// Writes a successful response of a given content type, whatever the client accepts.
pub(super) fn typed_text(response: &mut Response, content_type: &'static str, text: &str) {
    response.header(CONTENT_TYPE, content_type);
    response.header("Cache-Control", NO_CACHE);
    response.body.extend_from_slice(text.as_bytes());
}

impl ResponseWriter<'_> {
    /// Adds the headers of every response of the application.
    pub fn common_headers(&mut self) {
        for (name, value) in COMMON_HEADERS {
            self.response.header(name, value);
        }
    }

    /// Responds with an object, or with 406 if the client accepts neither format.
    pub fn send(&mut self, view: &impl View) -> Result<(), ApiError> {
        match self.begin() {
            Some(format) => self.body(format, view),
            None => self.container_error(406),
        }
        Ok(())
    }

    /// Responds with an object that contains a secret. Buffers are reserved first, so that no copy is left behind.
    pub fn send_secret(&mut self, view: &impl View) -> Result<(), ApiError> {
        self.response.body.reserve(SECRET_BYTES);
        self.json.reserve(SECRET_BYTES);
        self.send(view)?;
        self.json.wipe();
        self.response.is_secret = true;
        Ok(())
    }

    /// Writes the head of a successful response; `None` if the client accepts neither format.
    pub fn begin(&mut self) -> Option<Format> {
        let format = self.accept.format?;
        self.head(200, format);
        Some(format)
    }

    /// Returns the writer of the body.
    pub fn body_writer(&mut self, format: Format) -> BodyWriter<'_> {
        BodyWriter { format, body: &mut self.response.body, json: self.json }
    }

    /// Returns whether there is a body. A response that only signals success has none.
    pub fn has_body(&self) -> bool {
        !self.response.body.is_empty() || self.response.is_streaming
    }

    pub fn end(&mut self, format: Format) {
        if format == Format::Json {
            self.response.body.extend_from_slice(b"\r\n");
        }
    }

    /// Responds with a word of ASCII letters, with the media type that the client accepts first.
    pub fn send_text(&mut self, text: &'static str, request: &Request<'_>) -> Result<(), ApiError> {
        self.response.header(CONTENT_TYPE, media::text_type(request.header("Accept")));
        self.response.body.extend_from_slice(text.as_bytes());
        Ok(())
    }

    /// Writes an error response in place of what was written before. If part of the body was already sent, the
    /// connection is closed instead, so that the client notices that the rest is missing.
    pub fn failure(&mut self, error: &ApiError) {
        if self.response.is_streaming {
            log::debug!("the rest of a response is not sent: {error}");
            self.response.body.clear();
            self.response.close = true;
            return;
        }
        self.restart();
        self.common_headers();
        let status = error.status();
        let object = ErrorBody::new(status, Some(error.message()), self.now);
        match self.accept.format {
            Some(format) => {
                self.head(status, format);
                self.body(format, &object);
            }
            None => self.container_error(500),
        }
    }

    /// Writes a 429 response: the client exceeds its rate limit.
    pub fn too_many_requests(&mut self) {
        self.response.header("DoSFilter", "unavailable");
        self.container_error(429);
    }

    /// Writes an error of the web container: always JSON, without a message.
    pub fn container_error(&mut self, status: u16) {
        self.response.status = status;
        self.response.header(CONTENT_TYPE, Format::Json.media_type());
        self.response.header("Cache-Control", NO_CACHE);
        let object = ErrorBody::new(status, None, self.now);
        self.body(Format::Json, &object);
    }

    /// Writes the web container's response to a malformed path.
    pub fn bad_message(&mut self) {
        self.restart();
        self.response.status = 400;
        self.response.close = true;
        self.response.header(CONTENT_TYPE, "text/html;charset=iso-8859-1");
        self.response.body.extend_from_slice(b"<h1>Bad Message 400</h1><pre>reason: Bad Request</pre>");
    }

    /// Resets the response to an empty 200.
    fn restart(&mut self) {
        let compress = self.response.compress;
        self.response.reset();
        self.response.compress = compress;
    }

    fn head(&mut self, status: u16, format: Format) {
        self.response.status = status;
        self.response.header(CONTENT_TYPE, self.accept.content_type(format));
        if let Some(disposition) = self.accept.disposition {
            self.response.header("Content-Disposition", disposition);
        }
    }

    fn body(&mut self, format: Format, view: &impl View) {
        self.body_writer(format).write(view);
        self.end(format);
    }
}
