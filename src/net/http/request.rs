//! Requests: their heads, the reader that finds them in a stream of bytes, and the bodies of messages.
//!
//! All parts of a head are offsets into the receive buffer, so that the head survives until the body has arrived, without
//! a copy or a borrow. Input that two parsers could understand differently (the cause of request smuggling) is rejected. A body
//! with the chunked transfer coding (RFC 9112 §7.1) is decoded in place. Lines of chunks must end in CR LF: accepting a bare
//! LF inside a chunked body allows request smuggling.

use std::mem::{self, MaybeUninit};
use std::ops::Range;

use super::HttpError;
use crate::socket::RecvBuffer;

/// Bytes of request line and headers together. A longer request line is a 414, longer headers are a 431.
pub const HEAD_LIMIT: usize = 8192;

/// Header lines of one request; more are a 431.
pub const MAX_HEADERS: usize = 100;

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
    /// It has a header that proxies add.
    pub has_proxy_header: bool,
    /// Id of its route, as the service has found it.
    pub route: usize,
    pub(crate) header_lines: &'a [u8],
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

/// What a service finds for the method and path of a request, once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MatchedRoute {
    /// Number of the route, which the request carries and under which it is counted; 0 if there is none.
    pub id: usize,
    /// Maximum bytes of the body.
    pub body_limit: usize,
}

/// Reads the requests of one connection, however their bytes were split.
///
/// It holds at most one head, one body and the bytes of one [`receive`](Self::receive), if
/// [`next_request`](Self::next_request) is called until it returns `None` before more is received. Between requests it
/// needs no memory: its buffer may be lent.
#[derive(Debug)]
pub struct RequestReader {
    /// What was received of the next request, or of the protocol that the connection is upgraded to.
    pub buffer: RecvBuffer,
    stage: Stage,
    /// Chunks read since the last count.
    chunks: u32,
    body_limit: usize,
}

#[derive(Debug)]
enum Stage {
    /// The first `searched` bytes contain no complete head.
    Head {
        searched: usize,
    },
    Body {
        head: Head,
        route: MatchedRoute,
        continue_due: bool,
    },
    /// The range of the body and the end of the request are counted from the first unread byte.
    Complete {
        head: Head,
        route: usize,
        body: Range<usize>,
        end: usize,
    },
    Rejected(HttpError),
}

impl RequestReader {
    /// Returns a reader that rejects bodies of more than `body_limit` bytes.
    pub fn new(body_limit: usize) -> Self {
        Self { buffer: RecvBuffer::default(), stage: Stage::Head { searched: 0 }, chunks: 0, body_limit }
    }

    /// Appends received bytes.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.buffer.receive(bytes);
    }

    /// Moves past the last request. Returns the next one; `None` if more bytes are needed.
    ///
    /// After an error it always returns the same error, because the bytes that follow cannot be trusted.
    pub fn next_request(&mut self) -> Result<Option<Request<'_>>, HttpError> {
        self.finish_request();
        let body_limit = self.body_limit;
        self.advance(|_, _| MatchedRoute { id: 0, body_limit })?;
        Ok(self.request())
    }

    /// Reads on. Returns whether a request is complete, which [`request`](Self::request) then returns. `route` is called for
    /// its method and path when its head is complete.
    pub fn advance(&mut self, route: impl Fn(&str, &str) -> MatchedRoute) -> Result<bool, HttpError> {
        self.read(route).inspect_err(|error| self.stage = Stage::Rejected(*error))?;
        Ok(matches!(self.stage, Stage::Complete { .. }))
    }

    /// Returns the complete request, until [`finish_request`](Self::finish_request).
    pub fn request(&self) -> Option<Request<'_>> {
        matches!(self.stage, Stage::Complete { .. }).then(|| self.begun_request()).flatten()
    }

    /// Returns the request whose head is complete, with an empty body as long as that is not.
    pub fn begun_request(&self) -> Option<Request<'_>> {
        let (head, route, body) = match &self.stage {
            Stage::Complete { head, route, body, .. } => (head, *route, body.clone()),
            Stage::Body { head, route, .. } => (head, route.id, 0..0),
            Stage::Head { .. } | Stage::Rejected(_) => return None,
        };
        let bytes = self.buffer.unread();
        let path = text(bytes, &head.path);
        Some(Request {
            method: text(bytes, &head.method),
            path: if path.is_empty() { "/" } else { path },
            query: head.query.as_ref().map(|range| text(bytes, range)),
            body: &bytes[body],
            keep_alive: head.keep_alive,
            is_http_10: head.is_http_10,
            has_proxy_header: head.has_proxy_header,
            route,
            header_lines: &bytes[head.headers.clone()],
        })
    }

    /// Moves past the complete request.
    pub fn finish_request(&mut self) {
        if let Stage::Complete { end, .. } = self.stage {
            self.buffer.take(end);
            self.stage = Stage::Head { searched: 0 };
        }
    }

    /// Frees the memory of the body of the complete request.
    pub fn drop_body(&mut self) {
        if let Stage::Complete { body, end, .. } = &mut self.stage {
            self.buffer.remove(body.clone());
            *end -= body.len();
            body.end = body.start;
        }
    }

    /// Returns whether to send `100 Continue` now because the client waits for it before sending the body. True at most
    /// once per request.
    pub fn take_continue(&mut self) -> bool {
        if let Stage::Body { continue_due, .. } = &mut self.stage { mem::take(continue_due) } else { false }
    }

    /// Returns the number of chunks read since the last call.
    pub fn take_chunks(&mut self) -> u32 {
        mem::take(&mut self.chunks)
    }

    /// Returns whether an incomplete request has begun.
    pub fn is_partial(&self) -> bool {
        matches!(self.stage, Stage::Body { .. }) || !self.buffer.unread().is_empty()
    }

    /// Reads on until a request is complete.
    fn read(&mut self, route: impl Fn(&str, &str) -> MatchedRoute) -> Result<(), HttpError> {
        if let Stage::Head { searched } = self.stage {
            let unread = self.buffer.unread();
            let is_due = searched == 0 || unread.len() >= HEAD_LIMIT || may_end(unread, searched);
            let head = if unread.is_empty() || !is_due { None } else { parse(unread)? };
            let Some(head) = head else {
                self.stage = Stage::Head { searched: unread.len() };
                return Ok(());
            };
            let path = text(unread, &head.path);
            let route = route(text(unread, &head.method), if path.is_empty() { "/" } else { path });
            let length = if let Body::Sized(length) = head.body { length } else { 0 };
            if length > route.body_limit {
                return Err(HttpError::BODY_TOO_LARGE);
            }
            let continue_due = head.expects_continue && unread.len() == head.len;
            self.buffer.expected = head.len + length;
            self.stage = Stage::Body { head, route, continue_due };
        }
        let (head, route) = match &mut self.stage {
            Stage::Body { head, route, .. } => (head, *route),
            Stage::Rejected(error) => return Err(*error),
            Stage::Head { .. } | Stage::Complete { .. } => return Ok(()),
        };
        let start = head.len;
        let advanced = head.body.advance(&mut self.buffer.unread_mut()[start..], route.body_limit);
        self.chunks = self.chunks.saturating_add(head.body.take_chunks());
        let Extent { length, used, is_complete } = advanced?;
        if !is_complete {
            self.buffer.remove(start + length..start + used);
        } else if let Stage::Body { head, .. } = mem::replace(&mut self.stage, Stage::Head { searched: 0 }) {
            let (body, end) = (start..start + length, start + used);
            self.stage = Stage::Complete { head, route: route.id, body, end };
        }
        Ok(())
    }
}

/// Returns a part of the head, which the parser has checked to be UTF-8.
fn text<'a>(bytes: &'a [u8], range: &Range<usize>) -> &'a str {
    std::str::from_utf8(&bytes[range.clone()]).unwrap_or_default()
}

/// A complete head. Offsets count from the first byte of the request.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub method: Range<usize>,
    /// Path before `?`, without scheme and authority; empty for `/`.
    pub path: Range<usize>,
    /// The part after `?`.
    pub query: Option<Range<usize>>,
    /// Header lines with their line ends, without the empty line.
    pub headers: Range<usize>,
    /// Bytes of the head, including the empty line.
    pub len: usize,
    pub body: Body,
    pub keep_alive: bool,
    pub is_http_10: bool,
    pub has_proxy_header: bool,
    pub expects_continue: bool,
}

const MALFORMED: HttpError = HttpError::malformed("Bad Request");

/// Parses the head at the start of `bytes`; `None` if it is incomplete.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<Head>, HttpError> {
    // Limiting the window makes the result independent of how the bytes were split.
    let window = &bytes[..bytes.len().min(HEAD_LIMIT)];
    let mut storage = [const { MaybeUninit::<httparse::Header<'_>>::uninit() }; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut []);
    let len = match parsed.parse_with_uninit_headers(window, &mut storage) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_LIMIT => return Ok(None),
        // The request line alone exceeds the limit, or all headers together do.
        Ok(httparse::Status::Partial) => {
            let line_end = position(window, empty_lines(window), b'\n');
            return Err(line_end.map_or(HttpError::URI_TOO_LONG, |_| HttpError::HEADERS_TOO_LARGE));
        }
        Err(error) => {
            return Err(match error {
                httparse::Error::TooManyHeaders => HttpError::HEADERS_TOO_LARGE,
                httparse::Error::Version => HttpError::UNKNOWN_VERSION,
                httparse::Error::HeaderName => HttpError::malformed("Bad Header Name"),
                httparse::Error::HeaderValue => HttpError::malformed("Bad Header Value"),
                httparse::Error::Token => HttpError::malformed("Bad Request Line"),
                _ => MALFORMED,
            });
        }
    };
    let (Some(method), Some(target), Some(version)) = (parsed.method, parsed.path, parsed.version) else {
        return Err(MALFORMED);
    };
    let fields = Fields::of(parsed.headers, version == 0)?;
    let method_start = empty_lines(window);
    let method_end = method_start + method.len();
    let line_end = position(window, method_end, b'\n').ok_or(MALFORMED)? + 1;
    let (path, query) = split_target(method, target, method_end + 1)?;
    Ok(Some(Head {
        method: method_start..method_end,
        path,
        query,
        headers: line_end..len,
        len,
        body: fields.body()?,
        keep_alive: !fields.close && (version == 1 || fields.keep_alive),
        is_http_10: version == 0,
        has_proxy_header: fields.has_proxy_header,
        expects_continue: fields.expects_continue && version == 1,
    }))
}

/// Returns whether the bytes after the first `searched` can have completed a head. An incomplete head is parsed again only
/// then, so that single bytes cost no more than one piece.
pub(crate) fn may_end(bytes: &[u8], searched: usize) -> bool {
    let fresh = bytes.get(searched.saturating_sub(3)..).unwrap_or_default();
    fresh.windows(2).any(|pair| pair == b"\n\r" || pair == b"\n\n")
}

/// Returns the bytes of empty lines before the request line, which RFC 9112 §2.2 asks servers to skip.
fn empty_lines(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count()
}

fn position(bytes: &[u8], from: usize, wanted: u8) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.iter().position(|byte| *byte == wanted).map(|at| from + at)
}

/// Splits a request target that begins at offset `start` into path and query.
fn split_target(method: &str, target: &str, start: usize) -> Result<(Range<usize>, Option<Range<usize>>), HttpError> {
    let path_at = if target.starts_with('/') || (target == "*" && method == "OPTIONS") {
        0
    } else {
        // The absolute form: http://host/path.
        let begins = |scheme: &&str| target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
        let scheme = ["http://", "https://"].into_iter().find(begins).ok_or(HttpError::malformed("Bad URI"))?;
        let length = target[scheme.len()..].find(['/', '?']);
        length.map_or(target.len(), |length| scheme.len() + length)
    };
    let end = start + target.len();
    Ok(match target[path_at..].find('?') {
        Some(mark) => {
            let mark = start + path_at + mark;
            (start + path_at..mark, Some(mark + 1..end))
        }
        None => (start + path_at..end, None),
    })
}

/// The headers of the transport itself.
#[derive(Default)]
struct Fields {
    content_length: Option<usize>,
    is_chunked: bool,
    close: bool,
    keep_alive: bool,
    expects_continue: bool,
    has_host: bool,
    has_proxy_header: bool,
}

impl Fields {
    fn of(headers: &[httparse::Header<'_>], is_http_10: bool) -> Result<Self, HttpError> {
        let mut fields = Self::default();
        for httparse::Header { name, value } in headers {
            fields.has_proxy_header |= is_proxy_header(name);
            // Compares lengths first, which rejects most headers cheaply.
            match name.len() {
                4 if name.eq_ignore_ascii_case("host") => once(&mut fields.has_host, "Duplicate Host")?,
                6 if name.eq_ignore_ascii_case("expect") => {
                    fields.expects_continue |= value.eq_ignore_ascii_case(b"100-continue");
                }
                10 if name.eq_ignore_ascii_case("connection") => {
                    for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                        fields.close |= option.eq_ignore_ascii_case(b"close");
                        fields.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                    }
                }
                14 if name.eq_ignore_ascii_case("content-length") => {
                    let length = decimal(value).ok_or(HttpError::malformed("Bad Content-Length"))?;
                    if fields.content_length.replace(length).is_some() {
                        return Err(HttpError::malformed("Duplicate Content-Length"));
                    }
                }
                17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                    once(&mut fields.is_chunked, "Duplicate Transfer-Encoding")?;
                    if !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                        return Err(HttpError::UNKNOWN_TRANSFER_CODING);
                    }
                }
                _ => {}
            }
        }
        match fields {
            Fields { has_host: false, .. } if !is_http_10 => Err(HttpError::malformed("No Host")),
            Fields { is_chunked: true, .. } if is_http_10 => Err(HttpError::malformed("Transfer-Encoding in HTTP/1.0")),
            fields => Ok(fields),
        }
    }

    fn body(&self) -> Result<Body, HttpError> {
        match (self.is_chunked, self.content_length) {
            (true, Some(_)) => Err(HttpError::malformed("Content-Length with Transfer-Encoding")),
            (true, None) => Ok(Body::Chunked(ChunkedBody::default())),
            (false, length) => Ok(Body::Sized(length.unwrap_or(0))),
        }
    }
}

/// Returns whether proxies add this header.
fn is_proxy_header(name: &str) -> bool {
    const FAMILY: &str = "x-forwarded-";
    let is_of_family = || name.get(..FAMILY.len()).is_some_and(|start| start.eq_ignore_ascii_case(FAMILY));
    ["forwarded", "via", "x-real-ip"].iter().any(|header| name.eq_ignore_ascii_case(header)) || is_of_family()
}

/// Records a header that may occur once.
fn once(is_seen: &mut bool, fault: &'static str) -> Result<(), HttpError> {
    if mem::replace(is_seen, true) { Err(HttpError::malformed(fault)) } else { Ok(()) }
}

/// Parses a number of decimal digits only. A number that does not fit becomes the maximum, which exceeds any limit.
pub(crate) fn decimal(value: &[u8]) -> Option<usize> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = std::str::from_utf8(value).ok()?;
    Some(digits.parse().unwrap_or(usize::MAX))
}

/// Bytes of one chunk-size line with its extensions; more is a 400.
const SIZE_LINE_LIMIT: usize = 256;

/// Bytes of the extensions of all chunks of a body, which are ignored; more is a 400.
const EXTENSIONS_LIMIT: usize = 16 * 1024;

/// Bytes of all trailer lines together, which are ignored; more is a 431.
const TRAILER_LIMIT: usize = 4096;

const BAD_CHUNK: HttpError = HttpError::malformed("Bad Chunk");

/// How the end of a body is found.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// It has this many bytes.
    Sized(usize),
    Chunked(ChunkedBody),
    /// It ends with the connection.
    UntilClosed,
}

/// How much of a body has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Bytes of the body so far, from the first one on.
    pub length: usize,
    /// Bytes used. Those from `length` on are garbage, which must be removed before the next call.
    pub used: usize,
    pub is_complete: bool,
}

impl Body {
    /// Decodes as much as possible of `bytes`: the body so far, followed by new bytes.
    pub fn advance(&mut self, bytes: &mut [u8], limit: usize) -> Result<Extent, HttpError> {
        let plain = |length| Extent { length, used: length, is_complete: false };
        match self {
            Body::Sized(length) if bytes.len() >= *length => Ok(Extent { is_complete: true, ..plain(*length) }),
            Body::Sized(_) => Ok(plain(bytes.len())),
            Body::Chunked(chunked) => chunked.advance(bytes, limit),
            Body::UntilClosed if bytes.len() > limit => Err(HttpError::BODY_TOO_LARGE),
            Body::UntilClosed => Ok(plain(bytes.len())),
        }
    }

    /// Takes the bytes of the body that have arrived out of `bytes`, which holds them and then undecoded ones. A body
    /// that is read piece by piece may be longer than the limit.
    pub fn take_decoded(&mut self, bytes: &mut Vec<u8>) -> Vec<u8> {
        match self {
            Body::Sized(left) => *left = left.saturating_sub(bytes.len()),
            Body::Chunked(chunked) => {
                let undecoded = bytes.split_off(std::mem::take(&mut chunked.decoded).min(bytes.len()));
                return std::mem::replace(bytes, undecoded);
            }
            Body::UntilClosed => {}
        }
        std::mem::take(bytes)
    }

    /// Returns the number of chunks read since the last call.
    pub fn take_chunks(&mut self) -> u32 {
        match self {
            Body::Chunked(chunked) => std::mem::take(&mut chunked.chunks),
            Body::Sized(_) | Body::UntilClosed => 0,
        }
    }
}

/// State of the decoder of chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    SizeLine,
    Data {
        left: usize,
    },
    DataEnd,
    Trailers {
        seen: usize,
    },
    Done,
}

/// A chunked body being decoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkedBody {
    decoded: usize,
    /// Chunks since the last count.
    chunks: u32,
    /// Bytes of extensions so far.
    extensions: usize,
    phase: Phase,
}

impl ChunkedBody {
    fn advance(&mut self, bytes: &mut [u8], limit: usize) -> Result<Extent, HttpError> {
        let mut at = self.decoded;
        while let Some(next) = self.step(bytes, at, limit)? {
            at = next;
        }
        Ok(Extent { length: self.decoded, used: at, is_complete: self.phase == Phase::Done })
    }

    /// Decodes one element at offset `at`: a piece of the data, or a line. Returns the offset behind it, or `None` for lack of
    /// bytes.
    fn step(&mut self, bytes: &mut [u8], at: usize, body_limit: usize) -> Result<Option<usize>, HttpError> {
        let (line_limit, too_long) = match self.phase {
            Phase::Data { left } => {
                let taken = left.min(bytes.len() - at);
                bytes.copy_within(at..at + taken, self.decoded);
                self.decoded += taken;
                self.phase = if taken == left { Phase::DataEnd } else { Phase::Data { left: left - taken } };
                return Ok((taken > 0).then_some(at + taken));
            }
            // The first wrong byte is rejected.
            Phase::DataEnd if !matches!(bytes[at..], [] | [b'\r'] | [b'\r', b'\n', ..]) => return Err(BAD_CHUNK),
            Phase::DataEnd => (0, BAD_CHUNK),
            Phase::SizeLine => (SIZE_LINE_LIMIT, BAD_CHUNK),
            Phase::Trailers { seen } => (TRAILER_LIMIT.saturating_sub(seen), HttpError::HEADERS_TOO_LARGE),
            Phase::Done => return Ok(None),
        };
        let Some(line) = line_at(bytes, at, line_limit, too_long)? else { return Ok(None) };
        let used = line.len() + 2;
        self.phase = match (self.phase, line) {
            (Phase::SizeLine, _) => {
                let (size, extension) = chunk_size(line).ok_or(BAD_CHUNK)?;
                self.chunks = self.chunks.saturating_add(1);
                self.extensions += extension;
                if self.extensions > EXTENSIONS_LIMIT {
                    return Err(BAD_CHUNK);
                }
                if size > body_limit.saturating_sub(self.decoded) {
                    return Err(HttpError::BODY_TOO_LARGE);
                }
                if size == 0 { Phase::Trailers { seen: 0 } } else { Phase::Data { left: size } }
            }
            (Phase::Trailers { .. }, []) => Phase::Done,
            (Phase::Trailers { .. }, [b' ' | b'\t', ..]) => return Err(BAD_CHUNK),
            (Phase::Trailers { seen }, _) if line.contains(&b':') => Phase::Trailers { seen: seen + used },
            (Phase::Trailers { .. }, _) => return Err(BAD_CHUNK),
            _ => Phase::SizeLine,
        };
        Ok(Some(at + used))
    }
}

/// Returns the line at offset `at` without its CR LF; `None` if it is incomplete.
fn line_at(bytes: &[u8], at: usize, limit: usize, too_long: HttpError) -> Result<Option<&[u8]>, HttpError> {
    let rest = &bytes[at..];
    let window = &rest[..rest.len().min(limit.saturating_add(2))];
    match window.iter().position(|byte| *byte == b'\n') {
        Some(end) => match window[..end].strip_suffix(b"\r") {
            Some(line) if !line.contains(&b'\r') => Ok(Some(line)),
            _ => Err(BAD_CHUNK),
        },
        None if window.len() < limit.saturating_add(2) => Ok(None),
        None => Err(too_long),
    }
}

/// Parses a chunk-size line: hex digits, then nothing or an extension. Returns the size and the bytes of the extension.
fn chunk_size(line: &[u8]) -> Option<(usize, usize)> {
    let (digits, rest) = line.split_at(line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count());
    if digits.is_empty() || !matches!(rest.trim_ascii_start(), [] | [b';', ..]) {
        return None;
    }
    let digits = std::str::from_utf8(digits).ok()?;
    // A number that does not fit exceeds any limit.
    Some((usize::from_str_radix(digits, 16).unwrap_or(usize::MAX), rest.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Seen = Result<(String, String, Option<String>, Vec<u8>, bool, usize), HttpError>;

    fn drain(reader: &mut RequestReader, seen: &mut Vec<Seen>) {
        loop {
            match reader.next_request() {
                Ok(Some(request)) => seen.push(Ok((
                    request.method.to_owned(),
                    request.path.to_owned(),
                    request.query.map(str::to_owned),
                    request.body.to_vec(),
                    request.keep_alive,
                    request.headers().count(),
                ))),
                Ok(None) => return,
                Err(error) => {
                    if !matches!(seen.last(), Some(Err(_))) {
                        seen.push(Err(error));
                    }
                    return;
                }
            }
        }
    }

    fn read_in_pieces(bytes: &[u8], cuts: &[usize]) -> Vec<Seen> {
        let mut reader = RequestReader::new(100);
        let mut seen = Vec::new();
        let mut spare = Vec::with_capacity(64);
        let mut at = 0;
        for cut in cuts.iter().copied().chain([bytes.len()]) {
            let cut = cut.clamp(at, bytes.len());
            reader.buffer.acquire(&mut spare);
            reader.receive(&bytes[at..cut]);
            drain(&mut reader, &mut seen);
            reader.buffer.release(&mut spare);
            at = cut;
        }
        seen
    }

    fn request_bytes(path: &str, body: &[u8], chunks: Option<&[usize]>) -> Vec<u8> {
        let mut bytes = format!("POST {path} HTTP/1.1\r\nHost: x\r\nA:  b \r\n").into_bytes();
        match chunks {
            None => {
                bytes.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
                bytes.extend(body);
            }
            Some(sizes) => {
                bytes.extend(b"Transfer-Encoding: Chunked\r\n\r\n");
                let mut rest = body;
                for size in sizes.iter().copied().chain([usize::MAX]) {
                    let (chunk, left) = rest.split_at(size.min(rest.len()));
                    rest = left;
                    if !chunk.is_empty() {
                        bytes.extend(format!("{:X};q=\"1\"\r\n", chunk.len()).bytes());
                        bytes.extend(chunk);
                        bytes.extend(b"\r\n");
                    }
                }
                bytes.extend(b"0\r\nT: v\r\n\r\n");
            }
        }
        bytes
    }

    #[test]
    fn a_restored_request_is_read_again_before_the_next_one() {
        let (body, next) = (b"hello, world".as_slice(), request_bytes("/next", b"more", None));
        for chunks in [None, Some([2, 3].as_slice())] {
            let mut spare = Vec::with_capacity(64);
            let mut reader = RequestReader::new(100);
            reader.buffer.acquire(&mut spare);
            reader.receive(&[request_bytes("/first", body, chunks), next[..9].to_vec()].concat());
            assert!(reader.next_request().unwrap().is_some());
            for _ in 0..3 {
                let request = reader.request().unwrap();
                assert_eq!((request.path, request.body, request.headers().count()), ("/first", body, 3));
                assert!(reader.is_partial());
                reader.buffer.release(&mut spare);
                reader.buffer.acquire(&mut spare);
            }
            reader.receive(&next[9..]);
            assert_eq!(reader.request().unwrap().path, "/first");
            assert_eq!(reader.next_request().unwrap().unwrap().path, "/next");
            assert!(reader.next_request().unwrap().is_none() && !reader.is_partial());
        }
    }

    #[test]
    fn a_restored_request_can_lose_its_body_and_nothing_else() {
        let next = request_bytes("/next", b"more", None);
        for chunks in [None, Some([2, 3].as_slice())] {
            let mut spare = Vec::with_capacity(64);
            let mut reader = RequestReader::new(1 << 20);
            reader.buffer.acquire(&mut spare);
            reader.receive(&[request_bytes("/first", &[b'a'; 100_000], chunks), next[..9].to_vec()].concat());
            assert_eq!(reader.next_request().unwrap().unwrap().body.len(), 100_000);
            for _ in 0..2 {
                reader.drop_body();
                reader.buffer.release(&mut spare);
                assert!(reader.buffer.held_bytes() < 400, "{} bytes", reader.buffer.held_bytes());
                reader.buffer.acquire(&mut spare);
                let request = reader.request().unwrap();
                assert_eq!((request.path, request.body, request.headers().count()), ("/first", &b""[..], 3));
            }
            reader.receive(&next[9..]);
            assert_eq!(reader.next_request().unwrap().unwrap().path, "/next");
        }
    }

    #[test]
    fn a_chunked_body_split_at_every_byte_is_read_completely() {
        let bytes = request_bytes("/a?b=c", b"hello, chunked world", Some(&[1, 7, 2]));
        let whole = read_in_pieces(&bytes, &[]);
        let (_, path, query, body, ..) = whole[0].clone().unwrap();
        assert_eq!((path.as_str(), query.as_deref()), ("/a", Some("b=c")));
        assert_eq!(body, b"hello, chunked world");
        for cut in 0..bytes.len() {
            assert_eq!(read_in_pieces(&bytes, &[cut]), whole, "cut at {cut}");
        }
        let every: Vec<usize> = (0..bytes.len()).collect();
        assert_eq!(read_in_pieces(&bytes, &every), whole);
    }

    #[test]
    fn headers_are_found_by_name_in_any_case() {
        let mut reader = RequestReader::new(10);
        reader.receive(b"GET / HTTP/1.1\r\nHost: h\r\nX-A:  1 \r\nBin: \xff\r\nx-a: 2,Tok\r\n\r\n");
        let request = reader.next_request().unwrap().unwrap();
        assert_eq!(request.header("X-a"), Some("1"));
        assert_eq!(request.header_values("x-A").collect::<Vec<_>>(), ["1", "2,Tok"]);
        assert_eq!(request.header("bin"), None);
        assert_eq!(request.header("none"), None);
        assert!(request.header_has_token("x-a", "tok"));
        assert_eq!(request.headers().count(), 4);
    }

    #[test]
    fn a_body_over_the_limit_of_its_path_is_rejected_before_it_is_read() {
        let route = |method: &str, path: &str| MatchedRoute {
            id: 0,
            body_limit: if (method, path) == ("POST", "/large") { 1000 } else { 10 },
        };
        for (path, length, fits) in [
            ("/large", "1000", true),
            ("/large", "1001", false),
            ("/small", "10", true),
            ("/small", "11", false),
            ("/small", "18446744073709551617", false),
            ("/small", "99999999999999999999999999", false),
        ] {
            let mut reader = RequestReader::new(0);
            let head = format!("POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n");
            reader.receive(head.as_bytes());
            let refused = reader.advance(route);
            assert_eq!(refused, if fits { Ok(false) } else { Err(HttpError::BODY_TOO_LARGE) }, "{path} {length}");
        }
        let mut reader = RequestReader::new(0);
        reader.receive(b"POST /small HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n");
        assert_eq!(reader.advance(route).unwrap_err(), HttpError::BODY_TOO_LARGE);
    }

    #[test]
    fn a_client_that_expects_100_continue_gets_it_once() {
        let mut reader = RequestReader::new(10);
        let head = "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n";
        reader.receive(head.as_bytes());
        assert!(reader.next_request().unwrap().is_none());
        assert!(reader.take_continue());
        assert!(!reader.take_continue());
        reader.receive(b"ok");
        assert_eq!(reader.next_request().unwrap().unwrap().body, b"ok");
        reader.receive(format!("{head}ok").as_bytes());
        assert!(reader.next_request().unwrap().is_some());
        assert!(!reader.take_continue(), "the body was sent unasked");
    }

    #[test]
    fn a_reader_between_requests_holds_no_memory() {
        let mut reader = RequestReader::new(100);
        let mut spare = Vec::with_capacity(4096);
        reader.buffer.acquire(&mut spare);
        reader.receive(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert!(reader.next_request().unwrap().is_some());
        reader.finish_request();
        reader.buffer.release(&mut spare);
        assert_eq!((reader.buffer.held_bytes(), spare.capacity()), (0, 4096));
        reader.buffer.acquire(&mut spare);
        reader.receive(b"GET /");
        assert!(reader.next_request().unwrap().is_none());
        reader.buffer.release(&mut spare);
        assert!(reader.is_partial() && reader.buffer.held_bytes() < 64);
        assert_eq!(spare.capacity(), 4096);
    }

    #[test]
    fn an_endless_head_is_rejected_in_any_pieces() {
        let line = [b"GET /".as_slice(), &[b'a'; 9000]].concat();
        let headers = [b"GET / HTTP/1.1\r\n".as_slice(), &b"a: b\r\n".repeat(1500)].concat();
        for (bytes, error) in [(line, HttpError::URI_TOO_LONG), (headers, HttpError::HEADERS_TOO_LARGE)] {
            let cuts: Vec<usize> = (0..bytes.len()).step_by(97).collect();
            assert_eq!(read_in_pieces(&bytes, &cuts), [Err(error)]);
        }
    }

    fn any_request() -> impl Strategy<Value = Vec<u8>> {
        let body = prop::collection::vec(any::<u8>(), 0..80);
        let sizes = prop::option::of(prop::collection::vec(1..20usize, 0..6));
        ("/[a-z%?=]{0,12}", body, sizes).prop_map(|(path, body, sizes)| request_bytes(&path, &body, sizes.as_deref()))
    }

    proptest! {
        #[test]
        fn requests_do_not_depend_on_how_the_stream_is_split(
            requests in prop::collection::vec(any_request(), 1..5),
            mut cuts in prop::collection::vec(0..800usize, 0..12),
        ) {
            let bytes = requests.concat();
            cuts.sort_unstable();
            let whole = read_in_pieces(&bytes, &[]);
            prop_assert_eq!(whole.len(), requests.len());
            prop_assert!(whole.iter().all(Result::is_ok));
            prop_assert_eq!(read_in_pieces(&bytes, &cuts), whole);
        }

        #[test]
        fn chunked_and_sized_bodies_are_the_same(
            body in prop::collection::vec(any::<u8>(), 0..100),
            sizes in prop::collection::vec(1..40usize, 0..6),
        ) {
            let chunked = read_in_pieces(&request_bytes("/", &body, Some(&sizes)), &[]);
            let sized = read_in_pieces(&request_bytes("/", &body, None), &[]);
            let body_of = |seen: &[Seen]| seen[0].clone().map(|request| request.3);
            prop_assert_eq!(body_of(&chunked), body_of(&sized));
        }

        #[test]
        fn arbitrary_bytes_do_not_panic_the_reader(
            noise in prop::collection::vec(
                prop_oneof![
                    any::<Vec<u8>>(),
                    any_request(),
                    Just(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec()),
                    Just(b"5\r\nabcde\r\n".to_vec()),
                    Just(b"GET / HTTP/1.0\r\n\r\n".to_vec()),
                ],
                0..8,
            ),
            mut cuts in prop::collection::vec(0..800usize, 0..8),
        ) {
            cuts.sort_unstable();
            let _ = read_in_pieces(&noise.concat(), &cuts);
        }
    }
}

#[cfg(test)]
mod head_tests {
    use super::*;

    fn parse_all(text: &str) -> Result<Option<Head>, HttpError> {
        parse(text.as_bytes())
    }

    fn fault_of(headers: &str) -> HttpError {
        let text = format!("POST / HTTP/1.1\r\nHost: a\r\n{headers}\r\n");
        parse_all(&text).expect_err(headers)
    }

    #[test]
    fn an_absolute_target_gives_its_path_and_query() {
        for (target, path, query) in [
            ("/a/b?c=d?e", "/a/b", Some("c=d?e")),
            ("http://host:7890/a?b", "/a", Some("b")),
            ("HTTPS://host", "", None),
            ("http://host?x=1", "", Some("x=1")),
            ("/?", "/", Some("")),
        ] {
            let text = format!("\r\nGET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
            let head = parse_all(&text).unwrap().unwrap();
            assert_eq!(&text[head.path.clone()], path, "{target}");
            assert_eq!(head.query.map(|range| &text[range]), query, "{target}");
            assert_eq!(&text[head.headers], "Host: a\r\n\r\n");
        }
    }

    #[test]
    fn other_targets_are_rejected() {
        for target in ["host:80", "*", "ftp://x/y", "a/b", "http:/x"] {
            let text = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(parse_all(&text).unwrap_err(), HttpError::malformed("Bad URI"), "{target}");
        }
        let text = "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n";
        assert_eq!(&text[parse_all(text).unwrap().unwrap().path], "*");
    }

    #[test]
    fn a_body_of_ambiguous_length_is_rejected() {
        for headers in [
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Content-Length: 5, 5\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: 0x5\r\n",
            "Content-Length: \r\n",
            "Content-Length : 5\r\n",
            " Content-Length: 5\r\n",
            "X: a\r\n Content-Length: 5\r\n",
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding\t: chunked\r\n",
        ] {
            assert_eq!(fault_of(headers).status, 400, "{headers}");
        }
        for headers in [
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: identity\r\n",
            "Transfer-Encoding: xchunked\r\n",
            "Transfer-Encoding: chunked, chunked\r\n",
            "Transfer-Encoding: \r\n",
            "Transfer-Encoding: \"chunked\"\r\n",
        ] {
            assert_eq!(fault_of(headers).status, 501, "{headers}");
        }
        let old = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(parse_all(old).unwrap_err().status, 400);
    }

    #[test]
    fn http_1_1_needs_exactly_one_host() {
        assert!(parse_all("GET / HTTP/1.1\r\n\r\n").is_err());
        assert!(parse_all("GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n").is_err());
        assert!(parse_all("GET / HTTP/1.0\r\n\r\n").unwrap().is_some_and(|head| head.is_http_10 && !head.keep_alive));
        assert_eq!(parse_all("GET / HTTP/2.0\r\n\r\n").unwrap_err(), HttpError::UNKNOWN_VERSION);
    }

    #[test]
    fn the_connection_header_decides_keep_alive() {
        for (version, value, expected) in [
            ("1.1", "x, Close", false),
            ("1.1", "upgrade", true),
            ("1.0", "Keep-Alive", true),
            ("1.0", "keep-alive, close", false),
        ] {
            let text = format!("GET / HTTP/{version}\r\nHost: a\r\nConnection: {value}\r\n\r\n");
            assert_eq!(parse_all(&text).unwrap().unwrap().keep_alive, expected);
        }
    }

    #[test]
    fn the_head_limit_is_exact_and_names_the_long_part() {
        let head = |pad: usize| format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", "a".repeat(pad));
        let fixed = head(0).len();
        let exact = head(HEAD_LIMIT - fixed);
        assert_eq!(parse_all(&exact).unwrap().unwrap().len, HEAD_LIMIT);
        let over = head(HEAD_LIMIT - fixed + 1);
        assert_eq!(parse_all(&over).unwrap_err(), HttpError::HEADERS_TOO_LARGE);
        let long = format!("GET /{} HTTP/1.1\r\n", "a".repeat(HEAD_LIMIT));
        assert_eq!(parse_all(&long).unwrap_err(), HttpError::URI_TOO_LONG);
        let many = "a: b\r\n".repeat(MAX_HEADERS + 1);
        assert_eq!(fault_of(&many), HttpError::HEADERS_TOO_LARGE);
    }
}

#[cfg(test)]
mod body_tests {
    use super::*;

    fn decode(text: &str, limit: usize) -> Result<(String, usize, bool), HttpError> {
        let mut bytes = text.as_bytes().to_vec();
        let Extent { length, used, is_complete } = Body::Chunked(ChunkedBody::default()).advance(&mut bytes, limit)?;
        let decoded = String::from_utf8(bytes[..length].to_vec()).unwrap();
        Ok((decoded, used, is_complete))
    }

    #[test]
    fn chunks_with_extensions_and_trailers_give_the_body() {
        let text = "3;a=b\r\nabc\r\n00002 ;x=\"y\"\r\nde\r\n0;last\r\nX-Sum: 1\r\n\r\nNEXT";
        let (body, used, done) = decode(text, 10).unwrap();
        assert_eq!((body.as_str(), done), ("abcde", true));
        assert_eq!(&text[used..], "NEXT");
    }

    #[test]
    fn invalid_chunked_coding_is_rejected() {
        for text in [
            "3\nabc\r\n0\r\n\r\n",
            "3\r\nabcd\r\n0\r\n\r\n",
            "3\r\nabc\n0\r\n\r\n",
            "\r\n",
            "-1\r\n",
            "+1\r\n",
            "0x1\r\n",
            "3 4\r\n",
            "3;a\rb\r\n",
            "0\r\n X: folded\r\n\r\n",
            "0\r\nno colon\r\n\r\n",
        ] {
            assert_eq!(decode(text, 10).unwrap_err().status, 400, "{text:?}");
        }
    }

    #[test]
    fn chunked_bodies_keep_every_limit() {
        assert_eq!(decode("b\r\n", 10).unwrap_err(), HttpError::BODY_TOO_LARGE, "before the data");
        assert_eq!(decode("6\r\nabcdef\r\n5\r\n", 10).unwrap_err(), HttpError::BODY_TOO_LARGE);
        assert_eq!(decode("fffffffffffffffffffff\r\n", 10).unwrap_err(), HttpError::BODY_TOO_LARGE);
        let long = format!("1;{}", "x".repeat(SIZE_LINE_LIMIT + 10));
        assert_eq!(decode(&long, 10).unwrap_err(), BAD_CHUNK);
        let chunks = |count| format!("{}0\r\n\r\n", format!("1;{}\r\nx\r\n", "x".repeat(127)).repeat(count));
        assert!(decode(&chunks(EXTENSIONS_LIMIT / 128), 1000).is_ok());
        assert_eq!(decode(&chunks(EXTENSIONS_LIMIT / 128 + 1), 1000).unwrap_err(), BAD_CHUNK);
        let trailers = format!("0\r\n{}", "a: b\r\n".repeat(TRAILER_LIMIT));
        assert_eq!(decode(&trailers, 10).unwrap_err(), HttpError::HEADERS_TOO_LARGE);
    }
}
