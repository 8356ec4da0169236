//! An answer under construction, and how a view becomes its body (specification 06 §1.2, §3.4).

use std::borrow::Cow;

use super::failure::{ErrorObject, Failure};
use super::media::{self, Format, Wanted};
use super::views::View;
use crate::codec::binary::BinarySink;
use crate::codec::json::JsonSink;
use crate::model::Timestamp;

/// Capacity of a body that is kept for the next answer, in bytes; a larger one is given back.
const BODY_KEPT_BYTES: usize = 256 << 10;

/// A response header.
pub type Header = (Cow<'static, str>, Cow<'static, str>);

const COMMON_HEADERS: [(&str, &str); 3] = [
    ("Access-Control-Allow-Origin", "*"),
    ("Access-Control-Allow-Headers", "Content-Type"),
    ("Allow", "GET, HEAD, POST, OPTIONS"),
];
const CONTENT_TYPE: &str = "Content-Type";
const NO_CACHE: &str = "must-revalidate,no-cache,no-store";

/// One answer. An instance serves all requests of a listener, so that its memory is used again.
///
/// The transport adds `Content-Length` and `Connection`, and leaves out the body of an answer to HEAD.
#[derive(Debug, Default)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Headers in the order they go out; `Allow` may be there twice.
    pub headers: Vec<Header>,
    /// Body.
    pub body: Vec<u8>,
    /// Whether the connection must be closed afterwards.
    pub close: bool,
}

impl Answer {
    /// Makes this an empty answer of status 200 again.
    pub(super) fn reset(&mut self) {
        self.status = 200;
        self.headers.clear();
        self.body.clear();
        self.body.shrink_to(BODY_KEPT_BYTES);
        self.close = false;
    }

    pub(super) fn header(&mut self, name: &'static str, value: impl Into<Cow<'static, str>>) {
        self.headers.push((Cow::Borrowed(name), value.into()));
    }

    /// The headers of every answer that reached the application.
    pub(super) fn common_headers(&mut self) {
        for (name, value) in COMMON_HEADERS {
            self.header(name, value);
        }
    }

    /// What the web container answers to a path that cannot be one.
    pub(super) fn bad_message(&mut self) {
        self.reset();
        self.status = 400;
        self.close = true;
        self.header(CONTENT_TYPE, "text/html;charset=iso-8859-1");
        self.body.extend_from_slice(b"<h1>Bad Message 400</h1><pre>reason: Bad Request</pre>");
    }
}

/// Fills an answer with views in the format that the client wants.
pub(super) struct Writer<'a> {
    pub answer: &'a mut Answer,
    /// Lends its memory.
    pub json: &'a mut JsonSink,
    pub wanted: Wanted<'a>,
    pub now: Timestamp,
}

impl Writer<'_> {
    /// A successful answer, or 406 if the client takes neither format.
    pub fn view(&mut self, view: &impl View) {
        match self.wanted.format {
            Some(format) => self.body(200, format, view),
            None => self.container_error(406),
        }
    }

    /// A successful answer that is a bare text, in whatever type the client names first.
    pub fn text(&mut self, text: &'static str, accept: Option<&str>) {
        self.answer.header(CONTENT_TYPE, media::text_type(accept));
        self.answer.body.extend_from_slice(text.as_bytes());
    }

    /// The answer to a request that failed.
    pub fn failure(&mut self, failure: &Failure) {
        let status = failure.status();
        let object = ErrorObject { status, message: Some(failure.message()), timestamp: self.now };
        match self.wanted.format {
            Some(format) => self.body(status, format, &object),
            None => self.container_error(500),
        }
    }

    /// An error of the web container: always JSON, without a message.
    pub fn container_error(&mut self, status: u16) {
        self.answer.status = status;
        self.answer.header(CONTENT_TYPE, Format::Json.content_type());
        self.answer.header("Cache-Control", NO_CACHE);
        self.json_body(&ErrorObject { status, message: None, timestamp: self.now });
    }

    fn body(&mut self, status: u16, format: Format, view: &impl View) {
        self.answer.status = status;
        self.answer.header(CONTENT_TYPE, self.wanted.content_type(format));
        if let Some(disposition) = self.wanted.disposition {
            self.answer.header("Content-Disposition", disposition);
        }
        match format {
            Format::Json => self.json_body(view),
            Format::Binary => {
                let mut sink = BinarySink::reusing(std::mem::take(&mut self.answer.body));
                view.write(&mut sink);
                self.answer.body = sink.into_bytes();
            }
        }
    }

    fn json_body(&mut self, view: &impl View) {
        self.answer.body.clear();
        self.json.append_to(&mut self.answer.body, |sink| view.write(sink));
        self.answer.body.extend_from_slice(b"\r\n");
    }
}
