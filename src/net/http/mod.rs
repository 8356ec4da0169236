//! Server-side HTTP/1.1, without sockets or clocks.
//!
//! [`RequestReader`] parses received bytes into [`Request`]s that borrow from its buffer; a service fills a [`Response`];
//! [`Response::write`] writes it as bytes. A message that is itself faulty is an [`HttpError`], answered with the HTML
//! page of NIS1's web container and a closed connection.

mod body;
mod head;
mod reader;
mod response;

use std::borrow::Cow;
use std::fmt;
use std::io::Write;
use std::sync::OnceLock;

use flate2::write::GzEncoder;
use flate2::{Compress, Compression, Crc, FlushCompress, Status};

pub(in crate::net) use body::{Body, ChunkedBody, Extent};
pub use head::{HEAD_LIMIT, MAX_HEADERS};
pub(in crate::net) use head::{decimal, may_end};
pub use reader::RequestReader;
pub use response::Response;

/// A message that cannot be answered by a service. The connection is closed after the response, because the start of
/// the next request is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// 503: the node has no room for this connection or its data.
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

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status(), self.reason())
    }
}

impl std::error::Error for HttpError {}

/// Returns the standard reason phrase of `status`, or an empty string for a status not used here.
pub(super) fn reason_phrase(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        200 => "OK",
        204 => "No Content",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        413 => "Payload Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        426 => "Upgrade Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "",
    }
}

/// A complete request, borrowed from the receive buffer. Nothing is decoded.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Method as sent, case preserved.
    pub method: &'a str,
    /// Path as sent: percent-encoded, without the query; `/` if the target had none.
    pub path: &'a str,
    /// The part after the first `?`, as sent.
    pub query: Option<&'a str>,
    /// Body without its transfer coding.
    pub body: &'a [u8],
    /// The client wants the connection to stay open.
    pub keep_alive: bool,
    /// HTTP/1.0 rather than HTTP/1.1.
    pub is_http_10: bool,
    pub(in crate::net) header_lines: &'a [u8],
}

impl<'a> Request<'a> {
    /// Returns the first value of header `name` that is UTF-8; the case of the name does not matter.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.header_values(name).next()
    }

    /// Returns all values of header `name` in order; values that are not UTF-8 are skipped.
    pub fn header_values(&self, name: &str) -> impl Iterator<Item = &'a str> {
        self.headers()
            .filter(move |(header, _)| header.eq_ignore_ascii_case(name.as_bytes()))
            .filter_map(|(_, value)| std::str::from_utf8(value).ok())
    }

    /// Returns all headers in the order received: name as sent, value trimmed.
    ///
    /// The lines were validated with the head. Splitting them on demand is cheaper than a table that most requests do not
    /// use.
    pub fn headers(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let lines = self.header_lines.split(|byte| *byte == b'\n');
        lines.filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            Some((&line[..colon], line[colon + 1..].trim_ascii()))
        })
    }

    /// Returns whether a header `name` contains `token` in its comma-separated list, ignoring case.
    pub fn header_has_token(&self, name: &str, token: &str) -> bool {
        self.header_values(name).flat_map(|value| value.split(',')).any(|item| item.trim().eq_ignore_ascii_case(token))
    }
}

/// A text with a version, sent plain or compressed, and only to clients that do not have this version.
pub struct StaticText {
    media_type: &'static str,
    plain: Cow<'static, str>,
    /// ASCII text that identifies the version.
    version: String,
    /// Compressed form, created on first use.
    gzipped: OnceLock<Vec<u8>>,
}

impl StaticText {
    /// Returns a text with its media type. `version` consists of letters and digits and changes with the text.
    pub fn new(media_type: &'static str, plain: impl Into<Cow<'static, str>>, version: String) -> StaticText {
        StaticText { media_type, plain: plain.into(), version, gzipped: OnceLock::new() }
    }

    /// Returns the version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Answers a GET or HEAD request with the text, or with 304 if the client has it. `caching` is the value of
    /// `Cache-Control`. Without `may_compress` the text is always sent plain.
    pub fn send(&self, caching: &'static str, may_compress: bool, request: &Request<'_>, response: &mut Response) {
        let is_packed = may_compress && accepts_gzip(request.header_values("Accept-Encoding"));
        let tag = self.tag(is_packed);
        let is_known = is_not_modified(&tag, request);
        response.compress = false;
        response.header("ETag", tag);
        response.header("Cache-Control", caching);
        response.header("Vary", "Accept-Encoding");
        if is_known {
            response.status = 304;
            return;
        }
        response.header("Content-Type", self.media_type);
        if is_packed {
            response.header("Content-Encoding", "gzip");
            response.body.extend_from_slice(self.gzipped());
        } else {
            response.body.extend_from_slice(self.plain.as_bytes());
        }
    }

    /// Returns the entity tag of one of the two forms. Tags are strong, so the forms have different ones.
    fn tag(&self, is_packed: bool) -> String {
        format!("\"{}{}\"", self.version, if is_packed { "-gzip" } else { "" })
    }

    fn gzipped(&self) -> &[u8] {
        self.gzipped.get_or_init(|| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            // Writing to memory cannot fail.
            drop(encoder.write_all(self.plain.as_bytes()));
            encoder.finish().unwrap_or_default()
        })
    }
}

/// Returns whether the client already has the entity of a tag (RFC 9110 §13.1.2: weak comparison).
fn is_not_modified(tag: &str, request: &Request<'_>) -> bool {
    let mut known = request.header_values("If-None-Match").flat_map(|value| value.split(',')).map(str::trim);
    known.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

/// Shorter responses are not compressed: they fill one packet either way.
pub const GZIP_MIN_BYTES: usize = 1024;

/// Longer responses are not compressed: it would delay all other connections by several milliseconds.
pub const GZIP_MAX_BYTES: usize = 1024 * 1024;

/// Member header of RFC 1952: deflate, no name, no time, fastest level, unknown system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];

/// Returns whether the `Accept-Encoding` headers with these values prefer gzip to plain (RFC 9110 §12.5.3). A malformed
/// quality counts as zero.
pub fn accepts_gzip<'a>(values: impl Iterator<Item = &'a str>) -> bool {
    let (mut gzip, mut any, mut identity) = (None, None, None);
    for item in values.flat_map(|value| value.split(',')) {
        let mut parts = item.split(';');
        let coding = parts.next().unwrap_or_default().trim();
        let quality = parts.find_map(quality).unwrap_or(1.0);
        match coding {
            "*" => any = Some(quality),
            _ if coding.eq_ignore_ascii_case("gzip") => gzip = Some(quality),
            _ if coding.eq_ignore_ascii_case("x-gzip") => gzip = gzip.or(Some(quality)),
            _ if coding.eq_ignore_ascii_case("identity") => identity = Some(quality),
            _ => {}
        }
    }
    let gzip = gzip.or(any).unwrap_or(0.0);
    gzip > 0.0 && gzip >= identity.unwrap_or(0.0)
}

/// Returns the value of a parameter `q=…`; `None` for another parameter.
fn quality(parameter: &str) -> Option<f32> {
    let (name, value) = parameter.split_once('=')?;
    if !name.trim().eq_ignore_ascii_case("q") {
        return None;
    }
    let quality = value.trim().parse().unwrap_or(0.0_f32);
    Some(if (0.0..=1.0).contains(&quality) { quality } else { 0.0 })
}

/// A compressor reused for all responses.
#[derive(Default)]
pub struct Gzip {
    /// Some 300 KB, so created with the first response that needs it.
    deflate: Option<Box<Compress>>,
    output: Vec<u8>,
}

impl Gzip {
    /// Returns `body` as a gzip member, or `None` if that is not shorter.
    pub fn compress(&mut self, body: &[u8]) -> Option<&[u8]> {
        let fast = || Box::new(Compress::new(Compression::fast(), false));
        let deflate = self.deflate.get_or_insert_with(fast);
        deflate.reset();
        self.output.clear();
        self.output.reserve(body.len());
        self.output.extend_from_slice(&HEADER);
        // One call only: a result longer than the body is of no use.
        let status = deflate.compress_vec(body, &mut self.output, FlushCompress::Finish);
        if !matches!(status, Ok(Status::StreamEnd)) {
            return None;
        }
        let mut crc = Crc::new();
        crc.update(body);
        self.output.extend_from_slice(&crc.sum().to_le_bytes());
        self.output.extend_from_slice(&crc.amount().to_le_bytes());
        (self.output.len() < body.len()).then_some(&self.output)
    }
}

impl std::fmt::Debug for Gzip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gzip").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::http::RequestReader;

    fn ask(headers: &str, may_compress: bool) -> Response {
        let text = StaticText::new("application/json", "{}".repeat(1000), "0a1b".to_owned());
        let mut reader = RequestReader::new(0);
        reader.receive(format!("GET / HTTP/1.1\r\nHost: a\r\n{headers}\r\n").as_bytes());
        let mut reply = Response { compress: true, ..Response::new() };
        text.send("no-cache", may_compress, &reader.next_request().unwrap().unwrap(), &mut reply);
        assert!(!reply.compress);
        reply
    }

    fn header<'r>(response: &'r Response, name: &str) -> Option<&'r str> {
        response.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_ref())
    }

    #[test]
    fn each_form_has_its_own_tag_and_is_not_sent_twice() {
        const GZIP: &str = "Accept-Encoding: gzip\r\n";
        for (headers, may_compress, tag, is_packed) in
            [("", true, "\"0a1b\"", false), (GZIP, true, "\"0a1b-gzip\"", true), (GZIP, false, "\"0a1b\"", false)]
        {
            let first = ask(headers, may_compress);
            assert_eq!((first.status, header(&first, "ETag")), (200, Some(tag)));
            assert_eq!(header(&first, "Content-Encoding"), is_packed.then_some("gzip"));
            assert_eq!(first.body.len() < 2000, is_packed);
            for (known, is_known) in
                [(tag, true), (&format!("W/{tag}"), true), (&format!("\"x\", {tag}"), true), ("*", true)]
                    .into_iter()
                    .chain([("\"0a1\"", false), ("0a1b", false), ("", false)])
            {
                let again = ask(&format!("{headers}If-None-Match: {known}\r\n"), may_compress);
                assert_eq!(again.status, if is_known { 304 } else { 200 }, "{known}");
                assert_eq!((again.body.is_empty(), header(&again, "ETag")), (is_known, Some(tag)), "{known}");
                assert_eq!(header(&again, "Vary"), Some("Accept-Encoding"));
            }
        }
    }
}

#[cfg(test)]
mod gzip_tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn the_client_s_preference_is_followed() {
        for (values, expected) in [
            (&["gzip"][..], true),
            (&["deflate, GZip;q=0.5"], true),
            (&["deflate", "x-gzip"], true),
            (&["*"], true),
            (&["*;q=0.1"], true),
            (&["gzip;q=0, *"], false),
            (&["gzip; q=0.0"], false),
            (&["*;q=0"], false),
            (&["gzip;q=0.5, identity"], false),
            (&["gzip;q=0.5, identity;q=0.5"], true),
            (&["identity"], false),
            (&["br"], false),
            (&["gzip;q=banana"], false),
            (&["gzip;q=7"], false),
            (&["gzipped"], false),
            (&[""], false),
            (&[], false),
        ] {
            assert_eq!(accepts_gzip(values.iter().copied()), expected, "{values:?}");
        }
    }

    #[test]
    fn one_compressor_serves_many_responses() {
        let mut gzip = Gzip::default();
        for size in [20_usize, 5_000, 300, 70_000] {
            let body: Vec<u8> = (0..size).map(|at| b'a' + (at % 7) as u8).collect();
            let Some(packed) = gzip.compress(&body) else {
                assert_eq!(size, 20);
                continue;
            };
            let mut plain = Vec::new();
            let mut decoder = flate2::read::GzDecoder::new(packed);
            decoder.read_to_end(&mut plain).unwrap();
            assert_eq!(plain, body);
        }
    }

    #[test]
    fn a_body_that_does_not_shrink_is_not_compressed() {
        let mut state = 1_u32;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .take(4_000)
        .collect();
        assert!(Gzip::default().compress(&noise).is_none());
    }
}
