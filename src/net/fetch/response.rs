//! Parser of responses.

use super::{FetchError, Response};
use crate::http::{Body, ChunkedBody, Extent, HttpError, decimal, may_end};

/// Bytes of a response head and all interim responses before it.
pub const HEAD_LIMIT: usize = 16 * 1024;

/// Headers of a response.
const MAX_HEADERS: usize = 64;

/// Interim responses (status 1xx) before the final one.
const MAX_INTERIM_RESPONSES: usize = 4;

/// Bytes handled at a time of a body without a length. Undecoded bytes stay in the buffer and must not take more space than a head.
const PIECE_BYTES: usize = 4 * 1024;

/// Reads one response. It never holds more than [`HEAD_LIMIT`] plus the limit on the body, unused capacity included.
#[derive(Debug)]
pub struct ResponseReader {
    body_limit: usize,
    /// Bytes of heads that may still be received.
    head_left: usize,
    interim_responses: usize,
    /// The final head, once it is complete.
    head: Option<ResponseHead>,
    /// Bytes of the head, and then of the body.
    bytes: Vec<u8>,
}

/// The needed parts of a head.
#[derive(Debug)]
struct ResponseHead {
    status: u16,
    body: Body,
    /// The server accepts another request on this connection.
    keep_alive: bool,
}

impl ResponseReader {
    /// Returns a reader for a response to a GET or POST with a body of at most `body_limit` bytes.
    pub fn new(body_limit: usize) -> Self {
        Self { body_limit, head_left: HEAD_LIMIT, interim_responses: 0, head: None, bytes: Vec::new() }
    }

    /// Handles received bytes. Returns the response once it is complete; must not be called again after that or after
    /// an error.
    pub fn receive(&mut self, mut bytes: &[u8]) -> Result<Option<Response>, FetchError> {
        while !bytes.is_empty() {
            let (expected, max) = match &self.head {
                None => (self.head_left - self.bytes.len(), self.head_left),
                Some(ResponseHead { body: Body::Sized(length), .. }) => (*length - self.bytes.len(), *length),
                Some(ResponseHead { body: Body::Chunked(_), .. }) => {
                    (PIECE_BYTES, self.body_limit.saturating_add(HEAD_LIMIT))
                }
                Some(ResponseHead { body: Body::UntilClosed, .. }) => (PIECE_BYTES, self.body_limit),
            };
            let (piece, rest) = bytes.split_at(expected.min(bytes.len()));
            bytes = rest;
            let searched = self.bytes.len();
            append(&mut self.bytes, piece, max);
            self.read_heads(searched)?;
            let Some(head) = &mut self.head else { continue };
            let advanced = head.body.advance(&mut self.bytes, self.body_limit);
            let Extent { length, used, is_complete } = advanced.map_err(|error| match error {
                HttpError::BODY_TOO_LARGE | HttpError::HEADERS_TOO_LARGE => FetchError::TooLarge,
                _ => FetchError::NotHttp("its chunks are malformed"),
            })?;
            if is_complete {
                // Bytes after the response are a fault of the server; do not reuse the connection.
                head.keep_alive &= used == self.bytes.len() && rest.is_empty();
                let mut body = std::mem::take(&mut self.bytes);
                body.truncate(length);
                return Ok(Some(Response { status: head.status, body }));
            }
            self.bytes.drain(length..used);
        }
        Ok(None)
    }

    /// Returns the status, once the head is complete.
    pub fn status(&self) -> Option<u16> {
        self.head.as_ref().map(|head| head.status)
    }

    /// Returns whether the connection can be used for another request, once the response is complete.
    pub fn keep_alive(&self) -> bool {
        self.head.as_ref().is_some_and(|head| head.keep_alive)
    }

    /// Takes the bytes of the body that have arrived, for a response that is read piece by piece. Then the limit on the
    /// body is one on its pieces.
    pub fn take_body(&mut self) -> Vec<u8> {
        self.head.as_mut().map_or_else(Vec::new, |head| head.body.take_decoded(&mut self.bytes))
    }

    /// Handles the end of the connection. Returns the response if it is one that ends so.
    pub fn close(&mut self) -> Result<Response, FetchError> {
        match &self.head {
            Some(ResponseHead { status, body: Body::UntilClosed, .. }) => {
                Ok(Response { status: *status, body: std::mem::take(&mut self.bytes) })
            }
            Some(_) => Err(FetchError::NotHttp("it ends early")),
            None => self.parse().and(Err(FetchError::NotHttp("it ends early"))),
        }
    }

    /// Returns whether anything has been received.
    pub fn has_begun(&self) -> bool {
        self.head.is_some() || self.head_left < HEAD_LIMIT || !self.bytes.is_empty()
    }

    /// Returns the allocated bytes.
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Reads on until the final head is complete. The first `searched` bytes contain no complete head.
    fn read_heads(&mut self, mut searched: usize) -> Result<(), FetchError> {
        while self.head.is_none() {
            let is_full = self.bytes.len() >= self.head_left;
            if searched > 0 && !is_full && !may_end(&self.bytes, searched) {
                return Ok(());
            }
            let Some((head, length)) = self.parse()? else {
                return if is_full { Err(FetchError::TooLarge) } else { Ok(()) };
            };
            self.head_left -= length;
            self.bytes = self.bytes.split_off(length);
            searched = 0;
            // Another response follows an interim one.
            if head.status >= 200 {
                self.head = Some(head);
            } else if self.interim_responses == MAX_INTERIM_RESPONSES {
                return Err(FetchError::NotHttp("it has too many interim responses"));
            } else {
                self.interim_responses += 1;
            }
        }
        Ok(())
    }

    /// Returns the head and its length if it is complete.
    fn parse(&self) -> Result<Option<(ResponseHead, usize)>, FetchError> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        match response.parse(&self.bytes) {
            Ok(httparse::Status::Complete(length)) => Ok(Some((ResponseHead::of(&response, self.body_limit)?, length))),
            Ok(httparse::Status::Partial) => Ok(None),
            Err(httparse::Error::TooManyHeaders) => Err(FetchError::TooLarge),
            Err(_) => Err(FetchError::NotHttp("its head is malformed")),
        }
    }
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

impl ResponseHead {
    fn of(response: &httparse::Response<'_, '_>, body_limit: usize) -> Result<ResponseHead, FetchError> {
        let status = response.code.unwrap_or_default();
        if status == 101 {
            return Err(FetchError::NotHttp("it switches the protocol, which was not requested"));
        }
        let headers: &[httparse::Header<'_>] = response.headers;
        let body = body(status, headers, body_limit)?;
        let has = |name| values(headers, name).next().is_some();
        let keep_alive = match response.version {
            _ if matches!(body, Body::UntilClosed) => false,
            // The length is ambiguous.
            _ if has("Transfer-Encoding") && has("Content-Length") => false,
            Some(0) => has_token(headers, "Connection", "keep-alive"),
            _ => !has_token(headers, "Connection", "close"),
        };
        Ok(ResponseHead { status, body, keep_alive })
    }
}

/// Returns how the body of a response to GET or POST ends (RFC 9112 section 6.3).
fn body(status: u16, headers: &[httparse::Header<'_>], limit: usize) -> Result<Body, FetchError> {
    if values(headers, "Content-Encoding").any(|coding| !coding.eq_ignore_ascii_case(b"identity")) {
        return Err(FetchError::NotHttp("it is compressed, which was not requested"));
    }
    if status < 200 || status == 204 || status == 304 {
        return Ok(Body::Sized(0));
    }
    if let Some(coding) = values(headers, "Transfer-Encoding").next() {
        let is_chunked = coding.trim_ascii().eq_ignore_ascii_case(b"chunked");
        let chunked = is_chunked.then(|| Body::Chunked(ChunkedBody::default()));
        return chunked.ok_or(FetchError::NotHttp("its transfer coding is unknown"));
    }
    let mut lengths = values(headers, "Content-Length").map(decimal);
    let Some(length) = lengths.next() else { return Ok(Body::UntilClosed) };
    let length = length.filter(|first| lengths.all(|other| other == Some(*first)));
    match length.ok_or(FetchError::NotHttp("its Content-Length is invalid"))? {
        length if length > limit => Err(FetchError::TooLarge),
        length => Ok(Body::Sized(length)),
    }
}

fn values<'a>(headers: &'a [httparse::Header<'a>], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value)
}

fn has_token(headers: &[httparse::Header<'_>], name: &str, token: &str) -> bool {
    let mut tokens = values(headers, name).flat_map(|value| value.split(|byte| *byte == b','));
    tokens.any(|found| found.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BODY_LIMIT: usize = 64 * 1024;

    /// Reads `bytes` in pieces that end at `cuts`, then the end of the connection.
    fn read(bytes: &[u8], cuts: impl IntoIterator<Item = usize>) -> Result<(Response, bool), FetchError> {
        let mut reader = ResponseReader::new(BODY_LIMIT);
        let mut at = 0;
        for cut in cuts.into_iter().chain([bytes.len()]) {
            let cut = cut.clamp(at, bytes.len());
            let complete = reader.receive(&bytes[at..cut])?;
            assert!(reader.held_bytes() <= HEAD_LIMIT + BODY_LIMIT, "{} bytes held", reader.held_bytes());
            assert_eq!(reader.has_begun(), cut > 0);
            at = cut;
            if let Some(response) = complete {
                return Ok((response, reader.keep_alive()));
            }
        }
        reader.close().map(|response| (response, reader.keep_alive()))
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
                let response = read(text.as_bytes(), every(size, text.as_bytes())).unwrap().0;
                assert_eq!(response, Response { status: 200, body: b"hello".to_vec() }, "{size} {text}");
            }
        }
        let empty = read(b"HTTP/1.1 204 No Content\r\n\r\n", [3]).unwrap();
        assert_eq!(empty, (Response { status: 204, body: Vec::new() }, true));
    }

    #[test]
    fn a_response_can_be_read_piece_by_piece_beyond_the_limit_on_its_body() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nhello stream",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n5;x=y\r\nlo st\r\n4\r\nream\r\n0\r\nA: b\r\n\r\n",
            "HTTP/1.0 200 OK\r\n\r\nhello stream",
        ] {
            for size in [1, 2, 3, 7] {
                let (mut reader, mut body, mut is_complete) = (ResponseReader::new(usize::MAX), Vec::new(), false);
                for piece in text.as_bytes().chunks(size) {
                    match reader.receive(piece).unwrap() {
                        Some(response) => (is_complete, body) = (true, [body, response.body].concat()),
                        None => body.append(&mut reader.take_body()),
                    }
                    assert!(reader.bytes.len() < 128, "{} bytes held", reader.bytes.len());
                }
                assert_eq!(reader.status(), Some(200));
                assert!(is_complete || reader.close().is_ok_and(|response| response.body.is_empty()));
                assert_eq!(body, b"hello stream", "{size} {text}");
            }
        }
        let mut small = ResponseReader::new(4);
        small.receive(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
        for _ in 0..100 {
            assert_eq!(small.receive(b"4\r\nabcd\r\n").unwrap(), None);
            assert_eq!(small.take_body(), b"abcd");
        }
        assert!(matches!(small.receive(b"5\r\nabcde\r\n"), Err(FetchError::TooLarge)));
    }

    #[test]
    fn a_redirect_is_returned_as_an_ordinary_response() {
        let text = b"HTTP/1.1 302 Found\r\nLocation: http://a/\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(read(text, []).unwrap().0.status, 302);
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
            let (response, keep_alive) = read(text.as_bytes(), []).unwrap();
            assert_eq!((keep_alive, response.body.as_slice()), (is_kept, b"ok".as_slice()), "{text}");
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
        let response = reader.receive(&[b'a'; 1000]).unwrap().unwrap();
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
            let (response, _) = read(&bytes, cuts).unwrap();
            prop_assert_eq!(response, Response { status: 200, body });
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
            let outcome = |result: Result<(Response, bool), FetchError>| {
                result.map(|(response, _)| response).map_err(|error| error.to_string())
            };
            prop_assert_eq!(outcome(read(&bytes, cuts)), outcome(read(&bytes, [])));
        }
    }
}
