//! Parser of request heads: request line, headers and the framing of the body.
//!
//! All parts are offsets into the receive buffer, so that the head survives until the body has arrived, without a copy
//! or a borrow. Input that two parsers could understand differently (the cause of request smuggling) is rejected.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::HttpError;
use super::body::{Body, ChunkedBody};

/// Bytes of request line and headers together. A longer request line is a 414, longer headers are a 431.
pub const HEAD_LIMIT: usize = 8192;

/// Header lines of one request; more are a 431.
pub const MAX_HEADERS: usize = 100;

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
    pub expects_continue: bool,
}

/// Parses the head at the start of `bytes`; `None` if it is incomplete.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<Head>, HttpError> {
    // Limiting the window makes the result independent of how the bytes were split.
    let window = &bytes[..bytes.len().min(HEAD_LIMIT)];
    let mut storage = [const { MaybeUninit::<httparse::Header<'_>>::uninit() }; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut []);
    let len = match parsed.parse_with_uninit_headers(window, &mut storage) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_LIMIT => return Ok(None),
        Ok(httparse::Status::Partial) => return Err(too_large(window)),
        Err(error) => return Err(parse_error(error)),
    };
    let (method, target, version) = match (parsed.method, parsed.path, parsed.version) {
        (Some(method), Some(target), Some(version)) => (method, target, version),
        _ => return Err(HttpError::Malformed("Bad Request")),
    };
    let fields = Fields::gather(parsed.headers, version == 0)?;
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
        expects_continue: fields.expects_continue && version == 1,
    }))
}

/// Returns whether the bytes after the first `searched` can have completed a head. An incomplete head is parsed again only
/// then, so that single bytes cost no more than one piece.
pub(in crate::net) fn may_end(bytes: &[u8], searched: usize) -> bool {
    let fresh = bytes.get(searched.saturating_sub(3)..).unwrap_or_default();
    fresh.windows(2).any(|pair| pair == b"\n\r" || pair == b"\n\n")
}

const MALFORMED: HttpError = HttpError::Malformed("Bad Request");

fn parse_error(error: httparse::Error) -> HttpError {
    match error {
        httparse::Error::TooManyHeaders => HttpError::HeadersTooLarge,
        httparse::Error::Version => HttpError::UnknownVersion,
        httparse::Error::HeaderName => HttpError::Malformed("Bad Header Name"),
        httparse::Error::HeaderValue => HttpError::Malformed("Bad Header Value"),
        httparse::Error::Token => HttpError::Malformed("Bad Request Line"),
        _ => MALFORMED,
    }
}

/// Returns the error for a head that does not end within the limit: 414 if the request line alone exceeds it, otherwise
/// 431.
fn too_large(window: &[u8]) -> HttpError {
    match position(window, empty_lines(window), b'\n') {
        Some(_) => HttpError::HeadersTooLarge,
        None => HttpError::UriTooLong,
    }
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
        let authority = authority_start(target).ok_or(HttpError::Malformed("Bad URI"))?;
        let length = target[authority..].find(['/', '?']);
        length.map_or(target.len(), |length| authority + length)
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

/// Returns where the authority of an absolute-form target (`http://host/path`) begins.
fn authority_start(target: &str) -> Option<usize> {
    ["http://", "https://"].into_iter().find_map(|scheme| {
        let prefix = target.get(..scheme.len())?;
        prefix.eq_ignore_ascii_case(scheme).then_some(scheme.len())
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
}

impl Fields {
    fn gather(headers: &[httparse::Header<'_>], is_http_10: bool) -> Result<Self, HttpError> {
        let mut fields = Self::default();
        for header in headers {
            fields.add(header.name, header.value)?;
        }
        if !is_http_10 && !fields.has_host {
            return Err(HttpError::Malformed("No Host"));
        }
        if fields.is_chunked && is_http_10 {
            return Err(HttpError::Malformed("Transfer-Encoding in HTTP/1.0"));
        }
        Ok(fields)
    }

    fn add(&mut self, name: &str, value: &[u8]) -> Result<(), HttpError> {
        // Compares lengths first, which rejects most headers cheaply.
        match name.len() {
            4 if name.eq_ignore_ascii_case("host") => {
                let seen_before = std::mem::replace(&mut self.has_host, true);
                if seen_before {
                    return Err(HttpError::Malformed("Duplicate Host"));
                }
            }
            6 if name.eq_ignore_ascii_case("expect") => {
                self.expects_continue |= value.eq_ignore_ascii_case(b"100-continue");
            }
            10 if name.eq_ignore_ascii_case("connection") => {
                for option in value.split(|byte| *byte == b',') {
                    let option = option.trim_ascii();
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            14 if name.eq_ignore_ascii_case("content-length") => {
                let length = decimal(value).ok_or(HttpError::Malformed("Bad Content-Length"))?;
                if self.content_length.replace(length).is_some() {
                    return Err(HttpError::Malformed("Duplicate Content-Length"));
                }
            }
            17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                let seen_before = std::mem::replace(&mut self.is_chunked, true);
                if seen_before {
                    return Err(HttpError::Malformed("Duplicate Transfer-Encoding"));
                }
                if !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return Err(HttpError::UnknownTransferCoding);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn body(&self) -> Result<Body, HttpError> {
        match (self.is_chunked, self.content_length) {
            (true, Some(_)) => Err(HttpError::Malformed("Content-Length with Transfer-Encoding")),
            (true, None) => Ok(Body::Chunked(ChunkedBody::default())),
            (false, length) => Ok(Body::Sized(length.unwrap_or(0))),
        }
    }
}

/// Parses a number of decimal digits only. A number that does not fit becomes the maximum, which exceeds any limit.
pub(in crate::net) fn decimal(value: &[u8]) -> Option<usize> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = std::str::from_utf8(value).ok()?;
    Some(digits.parse().unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
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
            assert_eq!(parse_all(&text).unwrap_err(), HttpError::Malformed("Bad URI"), "{target}");
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
            assert_eq!(fault_of(headers).status(), 400, "{headers}");
        }
        for headers in [
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: identity\r\n",
            "Transfer-Encoding: xchunked\r\n",
            "Transfer-Encoding: chunked, chunked\r\n",
            "Transfer-Encoding: \r\n",
            "Transfer-Encoding: \"chunked\"\r\n",
        ] {
            assert_eq!(fault_of(headers).status(), 501, "{headers}");
        }
        let old = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(parse_all(old).unwrap_err().status(), 400);
    }

    #[test]
    fn http_1_1_needs_exactly_one_host() {
        assert!(parse_all("GET / HTTP/1.1\r\n\r\n").is_err());
        assert!(parse_all("GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n").is_err());
        assert!(parse_all("GET / HTTP/1.0\r\n\r\n").unwrap().is_some_and(|head| head.is_http_10 && !head.keep_alive));
        assert_eq!(parse_all("GET / HTTP/2.0\r\n\r\n").unwrap_err(), HttpError::UnknownVersion);
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
        assert_eq!(parse_all(&over).unwrap_err(), HttpError::HeadersTooLarge);
        let long = format!("GET /{} HTTP/1.1\r\n", "a".repeat(HEAD_LIMIT));
        assert_eq!(parse_all(&long).unwrap_err(), HttpError::UriTooLong);
        let many = "a: b\r\n".repeat(MAX_HEADERS + 1);
        assert_eq!(fault_of(&many), HttpError::HeadersTooLarge);
    }
}
