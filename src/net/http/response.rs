//! Responses: filled by a service, written as bytes; their compression; and texts that are sent often.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::io::Write;
use std::mem;
use std::rc::Rc;
use std::sync::OnceLock;

use flate2::write::GzEncoder;
use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use xxhash_rust::xxh3::xxh3_128;
use zeroize::Zeroize;

use super::{HttpError, Request, reason_phrase};
use crate::{SharedBytes, SharedBytesCounter};

/// A body buffer larger than this is freed by the next [`Response::reset`].
const MAX_SPARE_BODY_BYTES: usize = 256 * 1024;

/// Minimum size of a shared body that is not copied.
const MIN_SHARED_BYTES: usize = 4 << 10;
/// Maximum bytes of the head of a response with a secret.
const MAX_SECRET_HEAD_BYTES: usize = 4096;

/// A response being filled. One instance serves all requests of a reactor; [`reset`] keeps its memory.
///
/// [`write`] adds `Content-Length`, `Connection` and the headers of a websocket upgrade; services must not set them.
///
/// [`reset`]: Self::reset
/// [`write`]: Self::write
#[derive(Debug, Default)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Headers in the order of sending. Those with a control character in name or value are left out, so that echoed
    /// input cannot forge headers.
    pub headers: Vec<(Cow<'static, str>, Cow<'static, str>)>,
    /// Uncompressed body. For HEAD only its length is sent.
    pub body: Vec<u8>,
    /// A body that is sent in place of `body`.
    pub shared_body: Option<Rc<SharedBody>>,
    /// Streams the response in chunks without a known length; `body` holds the next chunk. Set before the first chunk,
    /// as are status and headers, and not changed later.
    pub is_streaming: bool,
    /// Closes the connection after this response.
    pub close: bool,
    /// Value of `Sec-WebSocket-Accept`: answers 101 and continues as a websocket; status and body are ignored.
    pub upgrade: Option<String>,
    /// Compresses the body if the client accepts gzip and it becomes shorter.
    pub compress: bool,
    /// The body contains a secret: it is never compressed, and all copies are wiped.
    pub is_secret: bool,
}

impl Response {
    /// Returns an empty response of status 200.
    pub fn new() -> Self {
        Self { status: 200, ..Self::default() }
    }

    /// Makes this an empty response of status 200 again.
    pub fn reset(&mut self) {
        if self.is_secret {
            self.body.zeroize();
        }
        let (mut headers, mut body) = (mem::take(&mut self.headers), mem::take(&mut self.body));
        if body.capacity() > MAX_SPARE_BODY_BYTES {
            body = Vec::new();
        }
        headers.clear();
        body.clear();
        *self = Self { headers, body, ..Self::new() };
    }

    /// Adds a header.
    pub fn header(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Cow<'static, str>>) {
        self.headers.push((name.into(), value.into()));
    }

    /// Appends the response to `request` to the output: all of it to `out`, unless a shared body is returned that follows.
    /// Also returns whether the connection must be closed after it.
    pub fn write(&self, request: &Request<'_>, gzip: &mut Gzip, out: &mut Vec<u8>) -> (bool, Option<SharedBytes>) {
        if let Some(accept) = &self.upgrade {
            self.write_head(101, out);
            append(out, ["Connection: Upgrade\r\nSec-WebSocket-Accept: ", accept, "\r\nUpgrade: WebSocket\r\n\r\n"]);
            return (false, None);
        }
        let close = self.close || !request.keep_alive;
        let connection = match (close, request.is_http_10) {
            (true, _) => "Connection: close\r\n",
            (false, true) => "Connection: keep-alive\r\n",
            (false, false) => "",
        };
        let is_head = request.method == "HEAD";
        let may_shrink = self.compress
            && !self.is_secret
            && (GZIP_MIN_BYTES..=GZIP_MAX_BYTES).contains(&self.plain_body().len())
            && has_body(self.status)
            && (is_head || request.method == "GET");
        if self.is_secret {
            // The body must not be moved by a reallocation.
            out.reserve(self.body.len() + MAX_SECRET_HEAD_BYTES);
        }
        self.write_head(self.status, out);
        if may_shrink {
            out.extend_from_slice(b"Vary: Accept-Encoding\r\n");
        }
        let accepts_packed = may_shrink && accepts_gzip(request.header_values("Accept-Encoding"));
        let shared = self.shared_body.as_deref();
        let packed_shared = shared.filter(|_| accepts_packed).and_then(|body| body.gzipped(gzip));
        let packed = match shared {
            None if accepts_packed => gzip.compress(&self.body),
            _ => packed_shared.map(|bytes| &**bytes),
        };
        let shared = packed_shared.or(shared.map(|body| &body.plain));
        if packed.is_some() {
            out.extend_from_slice(b"Content-Encoding: gzip\r\n");
        }
        let body = packed.unwrap_or(self.plain_body());
        self.write_head_end(connection, body.len(), out);
        if is_head || !has_body(self.status) {
            return (close, None);
        }
        let shared = shared.filter(|body| body.len() >= MIN_SHARED_BYTES).cloned();
        if shared.is_none() {
            out.extend_from_slice(body);
        }
        (close, shared)
    }

    /// Appends the head of a streamed response to `out`. Returns whether the connection must be closed after it.
    pub fn write_streaming_head(&self, request: &Request<'_>, out: &mut Vec<u8>) -> bool {
        // HTTP/1.0 has no chunks: the end of the connection ends the response.
        let close = self.close || !request.keep_alive || request.is_http_10;
        self.write_head(self.status, out);
        let coding = if request.is_http_10 { "" } else { "Transfer-Encoding: chunked\r\n" };
        out.extend_from_slice(coding.as_bytes());
        out.extend_from_slice(if close { b"Connection: close\r\n\r\n" } else { b"\r\n" });
        close
    }

    /// Appends the body to `out` as the next chunk of a streamed response and empties it; with `is_last`, also appends
    /// the end of the response.
    pub fn write_chunk(&mut self, request: &Request<'_>, is_last: bool, out: &mut Vec<u8>) {
        let (is_chunked, has_body) = (!request.is_http_10, request.method != "HEAD");
        if has_body && !is_chunked {
            out.extend_from_slice(&self.body);
        } else if has_body && !self.body.is_empty() {
            out.extend_from_slice(format!("{:x}\r\n", self.body.len()).as_bytes());
            out.extend_from_slice(&self.body);
            out.extend_from_slice(b"\r\n");
        }
        if has_body && is_chunked && is_last {
            out.extend_from_slice(b"0\r\n\r\n");
        }
        self.body.clear();
    }

    /// Appends the response to a message that could not be parsed.
    pub(crate) fn write_rejection(error: HttpError, out: &mut Vec<u8>) {
        let mut response = Self::new();
        error.fill_response(&mut response);
        response.write_head(response.status, out);
        response.write_head_end("Connection: close\r\n", response.body.len(), out);
        out.extend_from_slice(&response.body);
    }

    /// Returns the uncompressed body.
    pub fn plain_body(&self) -> &[u8] {
        self.shared_body.as_ref().map_or(&self.body, |shared| &shared.plain)
    }

    fn write_head(&self, status: u16, out: &mut Vec<u8>) {
        append(out, ["HTTP/1.1 ", itoa::Buffer::new().format(status), " ", reason_phrase(status), "\r\n"]);
        for (name, value) in &self.headers {
            if is_safe(name) && is_safe(value) {
                append(out, [name, ": ", value, "\r\n"]);
            } else {
                log::debug!("a header with control characters is omitted: {name:?}");
            }
        }
    }

    fn write_head_end(&self, connection: &str, length: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(connection.as_bytes());
        // RFC 9110 §8.6 forbids the header where there can be no body.
        if has_body(self.status) {
            append(out, ["Content-Length: ", itoa::Buffer::new().format(length), "\r\n"]);
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// A body that is sent several times, and its compressed form.
#[derive(Debug)]
pub struct SharedBody {
    plain: SharedBytes,
    /// Compressed form, created on first use; `None` if it is not shorter.
    gzipped: OnceCell<Option<SharedBytes>>,
    pool: SharedBytesCounter,
}

impl SharedBody {
    /// Returns a body that is not compressed yet.
    pub fn new(plain: Vec<u8>, pool: &SharedBytesCounter) -> SharedBody {
        SharedBody { plain: pool.share(plain), gzipped: OnceCell::new(), pool: pool.clone() }
    }

    /// Returns the uncompressed body.
    pub fn plain(&self) -> &[u8] {
        &self.plain
    }

    fn gzipped(&self, gzip: &mut Gzip) -> Option<&SharedBytes> {
        let compress = || gzip.compress(&self.plain).map(|packed| self.pool.share(packed.to_vec()));
        self.gzipped.get_or_init(compress).as_ref()
    }
}

/// Returns false for 1xx, 204 and 304, which never have a body.
fn has_body(status: u16) -> bool {
    status >= 200 && status != 204 && status != 304
}

fn is_safe(text: &str) -> bool {
    text.bytes().all(|byte| (byte >= b' ' || byte == b'\t') && byte != 0x7f)
}

fn append<const PARTS: usize>(out: &mut Vec<u8>, parts: [&str; PARTS]) {
    for part in parts {
        out.extend_from_slice(part.as_bytes());
    }
}

/// A text with a version, sent plain or compressed, and only to clients that do not have this version.
pub struct StaticText {
    media_type: &'static str,
    plain: Cow<'static, str>,
    /// See [`version_of`].
    version: String,
    /// Compressed form, created on first use.
    gzipped: OnceLock<Vec<u8>>,
}

impl StaticText {
    /// Returns a text with its media type.
    pub fn new(media_type: &'static str, plain: impl Into<Cow<'static, str>>) -> StaticText {
        let plain = plain.into();
        StaticText { version: version_of(&plain), media_type, plain, gzipped: OnceLock::new() }
    }

    /// Returns the version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Answers a GET or HEAD request with the text, or with 304 if the client has it. `caching` is the value of
    /// `Cache-Control`.
    pub fn send(&self, caching: &'static str, request: &Request<'_>, response: &mut Response) {
        let is_packed = accepts_gzip(request.header_values("Accept-Encoding"));
        // Tags are strong, so the two forms have different ones.
        let tag = format!("\"{}{}\"", self.version, if is_packed { "-gzip" } else { "" });
        // RFC 9110 §13.1.2: weak comparison.
        let mut known = request.header_values("If-None-Match").flat_map(|value| value.split(',')).map(str::trim);
        let is_known = known.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag);
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

    fn gzipped(&self) -> &[u8] {
        self.gzipped.get_or_init(|| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            // Writing to memory cannot fail.
            drop(encoder.write_all(self.plain.as_bytes()));
            encoder.finish().unwrap_or_default()
        })
    }
}

/// Returns the version of a text: a hash in hex, which tells its versions apart.
pub fn version_of(text: &str) -> String {
    format!("{:032x}", xxh3_128(text.as_bytes()))
}

/// Shorter responses are not compressed: they fill one packet either way.
pub const GZIP_MIN_BYTES: usize = 1024;

/// Longer responses are not compressed: it would delay all other connections by several milliseconds.
pub const GZIP_MAX_BYTES: usize = 1024 * 1024;

/// Member header of RFC 1952: deflate, no name, no time, fastest level, unknown system.
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];

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
        self.output.extend_from_slice(&GZIP_HEADER);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::RequestReader;

    fn answer(response: &Response, request: &str) -> (String, bool) {
        let mut reader = RequestReader::new(100);
        reader.receive(request.as_bytes());
        let request = reader.next_request().unwrap().unwrap();
        let mut out = Vec::new();
        let (close, shared) = response.write(&request, &mut Gzip::default(), &mut out);
        out.extend_from_slice(shared.as_deref().unwrap_or_default());
        (String::from_utf8_lossy(&out).into_owned(), close)
    }

    fn get(headers: &str) -> String {
        format!("GET / HTTP/1.1\r\nHost: a\r\n{headers}\r\n")
    }

    #[test]
    fn only_the_head_of_a_long_shared_body_is_copied() {
        let pool = SharedBytesCounter::default();
        for (length, is_copied) in [(MIN_SHARED_BYTES - 1, true), (MIN_SHARED_BYTES, false)] {
            let body = Rc::new(SharedBody::new(vec![b'x'; length], &pool));
            let response = Response { shared_body: Some(body), compress: true, ..Response::new() };
            for (headers, is_packed) in [("", false), ("Accept-Encoding: gzip\r\n", true)] {
                let mut reader = RequestReader::new(100);
                reader.receive(get(headers).as_bytes());
                let (request, mut out) = (reader.next_request().unwrap().unwrap(), Vec::new());
                let (_, shared) = response.write(&request, &mut Gzip::default(), &mut out);
                let packed = response.shared_body.as_ref().unwrap().gzipped(&mut Gzip::default()).unwrap();
                let sent = if is_packed { packed.len() } else { length };
                let text = String::from_utf8_lossy(&out).into_owned();
                assert!(text.contains(&format!("Content-Length: {sent}\r\n")), "{text}");
                assert_eq!(shared.is_none(), is_copied || is_packed, "{length} {headers}");
                assert!(shared.is_none_or(|shared| shared.len() == length));
            }
        }
        assert_eq!(pool.held_bytes(), 0);
    }

    #[test]
    fn every_response_has_its_length() {
        let mut response = Response::new();
        let (text, close) = answer(&response, &get(""));
        assert_eq!(text, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        assert!(!close);
        response.status = 404;
        response.header("A", "b");
        response.body.extend(b"hello");
        let (text, _) = answer(&response, &get(""));
        assert_eq!(text, "HTTP/1.1 404 Not Found\r\nA: b\r\nContent-Length: 5\r\n\r\nhello");
        let (text, _) = answer(&response, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(text.ends_with("Content-Length: 5\r\n\r\n"), "{text}");
        (response.body, response.compress) = (vec![b'x'; 10_000], true);
        let [of_get, of_head] = ["GET", "HEAD"].map(|method| {
            let (text, _) = answer(&response, &get("Accept-Encoding: gzip\r\n").replace("GET", method));
            text.split("\r\n\r\n").next().unwrap().to_owned()
        });
        assert!(of_get == of_head && of_head.contains("Content-Encoding: gzip"), "{of_head}");
        response.reset();
        response.status = 204;
        let (text, _) = answer(&response, &get(""));
        assert_eq!(text, "HTTP/1.1 204 No Content\r\n\r\n");
    }

    #[test]
    fn the_connection_header_follows_client_and_service() {
        let mut response = Response::new();
        let (text, close) = answer(&response, &get("Connection: close\r\n"));
        assert!(close && text.contains("\r\nConnection: close\r\n"));
        let old = "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
        let (text, close) = answer(&response, old);
        assert!(!close && text.contains("\r\nConnection: keep-alive\r\n"));
        response.close = true;
        let (text, close) = answer(&response, old);
        assert!(close && text.contains("\r\nConnection: close\r\n"));
    }

    #[test]
    fn a_streamed_response_ends_with_its_last_chunk_or_the_connection() {
        for (request, head, pieces) in [
            (get(""), "Transfer-Encoding: chunked\r\n\r\n", "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"),
            ("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".to_owned(), "Connection: close\r\n\r\n", "abcde"),
            ("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), "Transfer-Encoding: chunked\r\n\r\n", ""),
        ] {
            let mut reader = RequestReader::new(100);
            reader.receive(request.as_bytes());
            let request = reader.next_request().unwrap().unwrap();
            let (mut response, mut out) = (Response { is_streaming: true, ..Response::new() }, Vec::new());
            assert_eq!(response.write_streaming_head(&request, &mut out), request.is_http_10);
            for (piece, is_last) in [("abc", false), ("", false), ("de", true)] {
                response.body.extend_from_slice(piece.as_bytes());
                response.write_chunk(&request, is_last, &mut out);
            }
            assert_eq!(String::from_utf8(out).unwrap(), format!("HTTP/1.1 200 OK\r\n{head}{pieces}"));
        }
    }

    #[test]
    fn a_header_cannot_be_forged() {
        let mut response = Response::new();
        response.header("A", "x\r\nSet-Cookie: y");
        response.header("B\n", "x");
        response.header("C", "fine");
        let (text, _) = answer(&response, &get(""));
        assert_eq!(text, "HTTP/1.1 200 OK\r\nC: fine\r\nContent-Length: 0\r\n\r\n");
    }

    #[test]
    fn only_large_get_responses_are_compressed() {
        let mut response = Response::new();
        response.compress = true;
        response.body = b"{\"height\":12345}".repeat(100);
        let (text, _) = answer(&response, &get("Accept-Encoding: gzip\r\n"));
        assert!(text.contains("Content-Encoding: gzip\r\n") && text.len() < 400);
        assert!(text.contains("Vary: Accept-Encoding\r\n"));
        let (text, _) = answer(&response, &get(""));
        assert!(!text.contains("Content-Encoding") && text.contains("Vary"));
        let post = get("Accept-Encoding: gzip\r\n").replace("GET", "POST");
        let (text, _) = answer(&response, &post);
        assert!(!text.contains("Content-Encoding") && !text.contains("Vary"));
        response.body.truncate(GZIP_MIN_BYTES - 1);
        let (text, _) = answer(&response, &get("Accept-Encoding: gzip\r\n"));
        assert!(!text.contains("Content-Encoding") && !text.contains("Vary"));
    }

    #[test]
    fn an_http_error_is_the_page_of_the_web_container() {
        let mut out = Vec::new();
        Response::write_rejection(HttpError::URI_TOO_LONG, &mut out);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "HTTP/1.1 414 URI Too Long\r\nContent-Type: text/html;charset=iso-8859-1\r\n\
             Connection: close\r\nContent-Length: 55\r\n\r\n\
             <h1>Bad Message 414</h1><pre>reason: URI Too Long</pre>"
        );
    }
}

#[cfg(test)]
mod static_text_tests {
    use super::*;
    use crate::http::RequestReader;

    fn ask(headers: &str) -> Response {
        let text = StaticText { version: "0a1b".to_owned(), ..StaticText::new("application/json", "{}".repeat(1000)) };
        let mut reader = RequestReader::new(0);
        reader.receive(format!("GET / HTTP/1.1\r\nHost: a\r\n{headers}\r\n").as_bytes());
        let mut response = Response { compress: true, ..Response::new() };
        text.send("no-cache", &reader.next_request().unwrap().unwrap(), &mut response);
        assert!(!response.compress);
        response
    }

    fn header<'r>(response: &'r Response, name: &str) -> Option<&'r str> {
        response.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_ref())
    }

    #[test]
    fn each_form_has_its_own_tag_and_is_not_sent_twice() {
        const GZIP: &str = "Accept-Encoding: gzip\r\n";
        for (headers, tag, is_packed) in [("", "\"0a1b\"", false), (GZIP, "\"0a1b-gzip\"", true)] {
            let first = ask(headers);
            assert_eq!((first.status, header(&first, "ETag")), (200, Some(tag)));
            assert_eq!(header(&first, "Content-Encoding"), is_packed.then_some("gzip"));
            assert_eq!(first.body.len() < 2000, is_packed);
            for (known, is_known) in
                [(tag, true), (&format!("W/{tag}"), true), (&format!("\"x\", {tag}"), true), ("*", true)]
                    .into_iter()
                    .chain([("\"0a1\"", false), ("0a1b", false), ("", false)])
            {
                let again = ask(&format!("{headers}If-None-Match: {known}\r\n"));
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
