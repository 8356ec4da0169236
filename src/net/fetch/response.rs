//! Parser of responses.

use super::{FetchError, Response};
use crate::net::http::{ChunkedBody, HttpError};

/// Bytes of a response head and all interim responses before it.
pub const HEAD_LIMIT: usize = 16 * 1024;

/// Headers of a response.
const MAX_HEADERS: usize = 64;

/// Interim responses (status 1xx) before the final one.
const MAX_INTERIM_RESPONSES: usize = 4;

/// Bytes passed to the chunk decoder at a time. Undecoded bytes stay in the body buffer and must not need more room
/// than a head.
const CHUNKED_PIECE: usize = 4 * 1024;

/// Reads one response. It never holds more than [`HEAD_LIMIT`] plus the limit on the body, unused capacity included.
#[derive(Debug)]
pub struct ResponseReader {
    body_limit: usize,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    ResponseHead(HeadReader),
    Body {
        head: ResponseHead,
        body: Vec<u8>,
    },
    /// A response or an error has been returned.
    Done,
}

/// The needed parts of a head.
#[derive(Debug)]
struct ResponseHead {
    status: u16,
    framing: Framing,
    /// The server accepts another request on this connection.
    keep_alive: bool,
}

/// How the end of a body is found.
#[derive(Debug)]
enum Framing {
    Length(usize),
    Chunked(ChunkedBody),
    UntilClosed,
}

/// A complete response.
#[derive(Debug, PartialEq, Eq)]
pub struct CompleteResponse {
    /// The response.
    pub response: Response,
    /// The connection can be used for another request.
    pub keep_alive: bool,
}

impl ResponseReader {
    /// Returns a reader for a response to a GET or POST with a body of at most `body_limit` bytes.
    pub fn new(body_limit: usize) -> Self {
        Self { body_limit, stage: Stage::ResponseHead(HeadReader::default()) }
    }

    /// Handles received bytes. Returns the response once it is complete; must not be called again after that or after
    /// an error.
    pub fn receive(&mut self, mut bytes: &[u8]) -> Result<Option<CompleteResponse>, FetchError> {
        while let Stage::ResponseHead(reader) = &mut self.stage {
            let Some((head, used)) = reader.receive(bytes, self.body_limit)? else {
                return Ok(None);
            };
            bytes = bytes.get(used..).unwrap_or_default();
            // Another response follows an interim one.
            if head.status >= 200 {
                self.stage = Stage::Body { head, body: Vec::new() };
            }
        }
        let Stage::Body { head, body } = &mut self.stage else {
            return Ok(None);
        };
        let used = match head.framing.receive(body, bytes, self.body_limit)? {
            Some(used) => used,
            None => return Ok(None),
        };
        // Bytes after the response are a fault of the server; do not reuse the connection.
        let is_kept = head.keep_alive && used == bytes.len();
        Ok(self.complete(is_kept))
    }

    /// Handles the end of the connection. Returns the response if it is one that ends so.
    pub fn close(&mut self) -> Result<Response, FetchError> {
        match &self.stage {
            Stage::ResponseHead(reader) => {
                reader.parse(self.body_limit)?;
                Err(FetchError::NotHttp("it ends early"))
            }
            Stage::Body { head: ResponseHead { framing: Framing::UntilClosed, .. }, .. } => {
                self.complete(false).map(|complete| complete.response).ok_or(FetchError::NotHttp("it ends early"))
            }
            _ => Err(FetchError::NotHttp("it ends early")),
        }
    }

    /// Returns whether anything has been received.
    pub fn has_begun(&self) -> bool {
        !matches!(&self.stage, Stage::ResponseHead(reader) if reader.left == HEAD_LIMIT)
    }

    /// Returns the allocated bytes.
    pub fn held_bytes(&self) -> usize {
        match &self.stage {
            Stage::ResponseHead(reader) => reader.bytes.capacity(),
            Stage::Body { body, .. } => body.capacity(),
            Stage::Done => 0,
        }
    }

    fn complete(&mut self, is_kept: bool) -> Option<CompleteResponse> {
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Body { head, body } => {
                Some(CompleteResponse { response: Response { status: head.status, body }, keep_alive: is_kept })
            }
            _ => None,
        }
    }
}

impl Framing {
    /// Appends received bytes to the body. Once it is complete, returns how many of `bytes` belong to it.
    fn receive(&mut self, body: &mut Vec<u8>, bytes: &[u8], limit: usize) -> Result<Option<usize>, FetchError> {
        match self {
            Framing::Length(length) => {
                let taken = bytes.get(..*length - body.len()).unwrap_or(bytes);
                append(body, taken, *length);
                Ok((body.len() == *length).then_some(taken.len()))
            }
            Framing::Chunked(chunked) => receive_chunked(chunked, body, bytes, limit),
            Framing::UntilClosed if bytes.len() > limit - body.len() => Err(FetchError::TooLarge),
            Framing::UntilClosed => {
                append(body, bytes, limit);
                Ok(None)
            }
        }
    }
}

fn receive_chunked(
    chunked: &mut ChunkedBody,
    body: &mut Vec<u8>,
    bytes: &[u8],
    limit: usize,
) -> Result<Option<usize>, FetchError> {
    let mut used = 0;
    for piece in bytes.chunks(CHUNKED_PIECE) {
        append(body, piece, limit.saturating_add(HEAD_LIMIT));
        let understood = chunked.advance(body, limit).map_err(chunk_error)?;
        body.drain(chunked.decoded..understood);
        used += piece.len();
        if chunked.is_done() {
            let behind = body.len() - chunked.decoded;
            body.truncate(chunked.decoded);
            return Ok(Some(used - behind));
        }
    }
    Ok(None)
}

/// Appends bytes, growing by doubling, but to at most `max` bytes.
fn append(to: &mut Vec<u8>, bytes: &[u8], max: usize) {
    let needed = to.len() + bytes.len();
    if needed > to.capacity() {
        let capacity = (to.capacity() * 2).min(max).max(needed);
        to.reserve_exact(capacity - to.len());
    }
    to.extend_from_slice(bytes);
}

fn chunk_error(error: HttpError) -> FetchError {
    match error {
        HttpError::BodyTooLarge | HttpError::HeadersTooLarge => FetchError::TooLarge,
        _ => FetchError::NotHttp("its chunks are malformed"),
    }
}

/// Collects a head, and interim ones before it.
#[derive(Debug)]
struct HeadReader {
    bytes: Vec<u8>,
    /// Bytes that may still be received.
    left: usize,
    interim: usize,
}

impl Default for HeadReader {
    fn default() -> Self {
        Self { bytes: Vec::new(), left: HEAD_LIMIT, interim: 0 }
    }
}

impl HeadReader {
    /// Handles received bytes. Once a head is complete, returns it and how many of `bytes` belong to it.
    fn receive(&mut self, bytes: &[u8], body_limit: usize) -> Result<Option<(ResponseHead, usize)>, FetchError> {
        let before = self.bytes.len();
        let taken = bytes.get(..self.left).unwrap_or(bytes);
        append(&mut self.bytes, taken, HEAD_LIMIT);
        self.left -= taken.len();
        // An incomplete head is parsed again only once its end has arrived, so that single bytes cost no more than one
        // piece.
        if before > 0 && self.left > 0 && !may_end(&self.bytes, before) {
            return Ok(None);
        }
        match self.parse(body_limit)? {
            Some((head, length)) => {
                let unused = self.bytes.len() - length;
                self.left += unused;
                self.bytes = Vec::new();
                self.interim += usize::from(head.status < 200);
                if self.interim > MAX_INTERIM_RESPONSES {
                    return Err(FetchError::NotHttp("it has too many interim responses"));
                }
                Ok(Some((head, taken.len() - unused)))
            }
            None if self.left == 0 => Err(FetchError::TooLarge),
            None => Ok(None),
        }
    }

    /// Returns the head and its length if it is complete.
    fn parse(&self, body_limit: usize) -> Result<Option<(ResponseHead, usize)>, FetchError> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        match response.parse(&self.bytes) {
            Ok(httparse::Status::Complete(length)) => Ok(Some((ResponseHead::of(&response, body_limit)?, length))),
            Ok(httparse::Status::Partial) => Ok(None),
            Err(httparse::Error::TooManyHeaders) => Err(FetchError::TooLarge),
            Err(_) => Err(FetchError::NotHttp("its head is malformed")),
        }
    }
}

/// Returns whether the bytes after `searched` can have completed the head.
fn may_end(bytes: &[u8], searched: usize) -> bool {
    let fresh = bytes.get(searched.saturating_sub(3)..).unwrap_or_default();
    fresh.windows(2).any(|pair| pair == b"\n\r" || pair == b"\n\n")
}

impl ResponseHead {
    fn of(response: &httparse::Response<'_, '_>, body_limit: usize) -> Result<ResponseHead, FetchError> {
        let status = response.code.unwrap_or_default();
        if status == 101 {
            return Err(FetchError::NotHttp("it switches the protocol, which was not requested"));
        }
        let headers: &[httparse::Header<'_>] = response.headers;
        let framing = framing(status, headers, body_limit)?;
        let is_ambiguous =
            values(headers, "Transfer-Encoding").next().is_some() && values(headers, "Content-Length").next().is_some();
        let is_kept = match response.version {
            _ if is_ambiguous || matches!(framing, Framing::UntilClosed) => false,
            Some(0) => has_token(headers, "Connection", "keep-alive"),
            _ => !has_token(headers, "Connection", "close"),
        };
        Ok(ResponseHead { status, framing, keep_alive: is_kept })
    }
}

/// Returns the framing of the body of a response to GET or POST (RFC 9112 section 6.3).
fn framing(status: u16, headers: &[httparse::Header<'_>], limit: usize) -> Result<Framing, FetchError> {
    if values(headers, "Content-Encoding").any(|coding| !coding.eq_ignore_ascii_case(b"identity")) {
        return Err(FetchError::NotHttp("it is compressed, which was not requested"));
    }
    if status < 200 || status == 204 || status == 304 {
        return Ok(Framing::Length(0));
    }
    if let Some(coding) = values(headers, "Transfer-Encoding").next() {
        return match coding.trim_ascii().eq_ignore_ascii_case(b"chunked") {
            true => Ok(Framing::Chunked(ChunkedBody::new())),
            false => Err(FetchError::NotHttp("its transfer coding is unknown")),
        };
    }
    let mut lengths = values(headers, "Content-Length").map(content_length);
    let Some(length) = lengths.next() else { return Ok(Framing::UntilClosed) };
    let length = length.filter(|first| lengths.all(|other| other == Some(*first)));
    match length.ok_or(FetchError::NotHttp("its Content-Length is invalid"))? {
        length if length > limit => Err(FetchError::TooLarge),
        length => Ok(Framing::Length(length)),
    }
}

fn values<'a>(headers: &'a [httparse::Header<'a>], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value)
}

fn has_token(headers: &[httparse::Header<'_>], name: &str, token: &str) -> bool {
    let mut tokens = values(headers, name).flat_map(|value| value.split(|byte| *byte == b','));
    tokens.any(|found| found.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

/// Parses a number of decimal digits only. A number that does not fit exceeds any limit.
fn content_length(value: &[u8]) -> Option<usize> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    is_number.then(|| str::from_utf8(value).ok().and_then(|text| text.parse().ok()).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BODY_LIMIT: usize = 64 * 1024;

    /// Reads `bytes` in pieces that end at `cuts`, then the end of the connection.
    fn read(bytes: &[u8], cuts: impl IntoIterator<Item = usize>) -> Result<CompleteResponse, FetchError> {
        let mut reader = ResponseReader::new(BODY_LIMIT);
        let mut at = 0;
        for cut in cuts.into_iter().chain([bytes.len()]) {
            let cut = cut.clamp(at, bytes.len());
            let complete = reader.receive(&bytes[at..cut])?;
            assert!(reader.held_bytes() <= HEAD_LIMIT + BODY_LIMIT, "{} bytes held", reader.held_bytes());
            assert_eq!(reader.has_begun(), cut > 0);
            at = cut;
            if let Some(complete) = complete {
                return Ok(complete);
            }
        }
        reader.close().map(|response| CompleteResponse { response, keep_alive: false })
    }

    fn every(size: usize, bytes: &[u8]) -> impl Iterator<Item = usize> {
        (0..bytes.len()).step_by(size)
    }

    #[test]
    fn every_framing_gives_the_body_in_any_pieces() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and more",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nA: b\r\n\r\n",
            "HTTP/1.0 200 OK\r\n\r\nhello",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 200 \nContent-Length: 5\n\nhello",
        ] {
            for size in [1, 2, 7, 1000] {
                let response = read(text.as_bytes(), every(size, text.as_bytes())).unwrap().response;
                assert_eq!(response, Response { status: 200, body: b"hello".to_vec() }, "{size} {text}");
            }
        }
        let empty = read(b"HTTP/1.1 204 No Content\r\n\r\n", [3]).unwrap();
        assert_eq!(empty, CompleteResponse { response: Response { status: 204, body: Vec::new() }, keep_alive: true });
    }

    #[test]
    fn a_redirect_is_returned_as_an_ordinary_response() {
        let text = b"HTTP/1.1 302 Found\r\nLocation: http://a/\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(read(text, []).unwrap().response.status, 302);
    }

    #[test]
    fn a_connection_is_kept_alive_if_agreed_and_without_surplus_bytes() {
        for (text, is_kept) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", true),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", true),
            ("HTTP/1.0 200 OK\r\nConnection: x, Keep-Alive\r\nContent-Length: 2\r\n\r\nok", true),
            ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", false),
            ("HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 2\r\n\r\nok", false),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n", false),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nmore", false),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", false),
            ("HTTP/1.1 200 OK\r\n\r\nok", false),
        ] {
            let complete = read(text.as_bytes(), []).unwrap();
            assert_eq!((complete.keep_alive, complete.response.body.as_slice()), (is_kept, b"ok".as_slice()), "{text}");
        }
    }

    #[test]
    fn invalid_responses_are_rejected() {
        for text in [
            "",
            "SSH-2.0-OpenSSH_9.2\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
            "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 4\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        ] {
            for size in [1, 4, 1000] {
                let result = read(text.as_bytes(), every(size, text.as_bytes()));
                assert!(matches!(result, Err(FetchError::NotHttp(_))), "{text}");
            }
        }
        let interim = "HTTP/1.1 102 Processing\r\n\r\n".repeat(MAX_INTERIM_RESPONSES + 1);
        assert!(matches!(read(interim.as_bytes(), []), Err(FetchError::NotHttp(_))));
    }

    #[test]
    fn heads_and_bodies_have_limits() {
        let long_head = format!("HTTP/1.1 200 OK\r\nA: {}", "b".repeat(HEAD_LIMIT));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(MAX_HEADERS + 1));
        let interim = format!("HTTP/1.1 102 Processing\r\nA: {}\r\n\r\n", "b".repeat(HEAD_LIMIT / 2)).repeat(2);
        let announced = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", BODY_LIMIT + 1);
        let huge = "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n".to_owned();
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n".to_owned();
        let endless = format!("HTTP/1.1 200 OK\r\n\r\n{}", "b".repeat(BODY_LIMIT + 1));
        for text in [long_head, many, interim, announced, huge, chunked, endless] {
            let result = read(text.as_bytes(), every(4096, text.as_bytes()));
            assert!(matches!(result, Err(FetchError::TooLarge)), "{:.60}", text);
        }
    }

    #[test]
    fn memory_grows_with_received_bytes_up_to_the_announced_length() {
        let mut reader = ResponseReader::new(BODY_LIMIT);
        reader.receive(b"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n").unwrap();
        assert_eq!(reader.held_bytes(), 0, "an announced length takes no memory yet");
        reader.receive(&[b'a'; 1000]).unwrap();
        assert_eq!(reader.held_bytes(), 1000);
        for _ in 0..48 {
            assert!(reader.receive(&[b'a'; 1000]).unwrap().is_none());
            assert!(reader.held_bytes() <= 50_000);
        }
        let response = reader.receive(&[b'a'; 1000]).unwrap().unwrap().response;
        assert_eq!((response.body.len(), response.body.capacity()), (50_000, 50_000));
    }

    /// Generates a response with any framing, and its body.
    fn any_response() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        let body = prop::collection::vec(any::<u8>(), 0..5000);
        (body, 0..3, prop::collection::vec(1..3000usize, 0..6), 0..3usize).prop_map(
            |(body, framing, sizes, interim)| {
                let mut bytes = b"HTTP/1.1 102 Processing\r\nA: b\r\n\r\n".repeat(interim);
                bytes.extend(b"HTTP/1.1 200 OK\r\n");
                match framing {
                    0 => bytes.extend([b"\r\n", body.as_slice()].concat()),
                    1 => {
                        bytes.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
                        bytes.extend(&body);
                    }
                    _ => {
                        bytes.extend(b"Transfer-Encoding: chunked\r\n\r\n");
                        let mut rest = body.as_slice();
                        for size in sizes.into_iter().chain([usize::MAX]) {
                            let (chunk, behind) = rest.split_at(size.min(rest.len()));
                            rest = behind;
                            if !chunk.is_empty() {
                                bytes.extend([format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat());
                            }
                        }
                        bytes.extend(b"0\r\nT: v\r\n\r\n");
                    }
                }
                (bytes, body)
            },
        )
    }

    proptest! {
        #[test]
        fn a_response_does_not_depend_on_how_it_is_split(
            (bytes, body) in any_response(),
            mut cuts in prop::collection::vec(0..6000usize, 0..12),
        ) {
            cuts.sort_unstable();
            let complete = read(&bytes, cuts).unwrap();
            prop_assert_eq!(complete.response, Response { status: 200, body });
        }

        #[test]
        fn the_outcome_of_noise_does_not_depend_on_how_it_is_split(
            noise in prop::collection::vec(
                prop_oneof![
                    any::<Vec<u8>>(),
                    any_response().prop_map(|(bytes, _)| bytes),
                    Just(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec()),
                    Just(b"5\r\nabcde\r\n".to_vec()),
                    Just(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec()),
                    Just(b"X: y\r\n".to_vec()),
                ],
                0..8,
            ),
            mut cuts in prop::collection::vec(0..4000usize, 0..8),
        ) {
            let bytes = noise.concat();
            cuts.sort_unstable();
            let told = |result: Result<CompleteResponse, FetchError>| {
                result.map(|complete| complete.response).map_err(|error| error.to_string())
            };
            prop_assert_eq!(told(read(&bytes, cuts)), told(read(&bytes, [])));
        }
    }
}
