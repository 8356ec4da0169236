//! Parser of requests.

use std::mem;
use std::ops::Range;

use super::body::{Body, Extent};
use super::head::{self, HEAD_LIMIT, Head};
use super::{HttpError, Request};
use crate::net::recv_buffer::RecvBuffer;

/// Reads the requests of one connection, however their bytes were split.
///
/// It holds at most one head, one body and the bytes of one [`receive`](Self::receive), if
/// [`next_request`](Self::next_request) is called until it returns `None` before more is received. Between requests it
/// needs no memory: see [`acquire`](Self::acquire).
#[derive(Debug)]
pub struct RequestReader {
    buffer: RecvBuffer,
    stage: Stage,
    /// The request returned last.
    last: Option<ParsedRequest>,
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
        limit: usize,
        continue_due: bool,
    },
    /// A complete request to return, perhaps again.
    Complete(ParsedRequest),
    Rejected(HttpError),
}

/// A complete request: its head, the range of its body and its end, counted from the first unread byte.
#[derive(Debug)]
struct ParsedRequest {
    head: Head,
    body: Range<usize>,
    end: usize,
}

impl RequestReader {
    /// Returns a reader that rejects bodies of more than `body_limit` bytes.
    pub fn new(body_limit: usize) -> Self {
        Self { buffer: RecvBuffer::default(), stage: Stage::Head { searched: 0 }, last: None, chunks: 0, body_limit }
    }

    /// Appends received bytes.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.buffer.receive(bytes);
    }

    /// Returns the next complete request; `None` if more bytes are needed.
    ///
    /// After an error it always returns the same error, because the bytes that follow cannot be trusted.
    pub fn next_request(&mut self) -> Result<Option<Request<'_>>, HttpError> {
        let limit = self.body_limit;
        Ok(if self.advance(|_, _| limit)? { self.take_request() } else { None })
    }

    /// Reads on. Returns whether a request is complete, which [`take_request`](Self::take_request) then returns. The limit
    /// on its body follows from method and path, and is asked for when the head is complete.
    pub fn advance(&mut self, body_limit: impl Fn(&str, &str) -> usize) -> Result<bool, HttpError> {
        match self.read(body_limit) {
            Ok(Some(whole)) => {
                self.stage = Stage::Complete(whole);
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(error) => {
                self.stage = Stage::Rejected(error);
                Err(error)
            }
        }
    }

    /// Returns the complete request and moves past it.
    pub fn take_request(&mut self) -> Option<Request<'_>> {
        match mem::replace(&mut self.stage, Stage::Head { searched: 0 }) {
            Stage::Complete(whole) => Some(self.take(whole)),
            other => {
                self.stage = other;
                None
            }
        }
    }

    /// Makes the request returned last the next one again. Must be called before more is received or storage is
    /// returned.
    pub fn restore_last(&mut self) {
        if let Some(whole) = self.last.take() {
            self.buffer.unread_last(whole.end);
            self.stage = Stage::Complete(whole);
        }
    }

    /// Returns whether to send `100 Continue` now because the client waits for it before sending the body. True at most
    /// once per request.
    pub fn take_continue(&mut self) -> bool {
        match &mut self.stage {
            Stage::Body { continue_due, .. } => mem::take(continue_due),
            _ => false,
        }
    }

    /// Returns the number of chunks read since the last call.
    pub fn take_chunks(&mut self) -> u32 {
        mem::take(&mut self.chunks)
    }

    /// Returns whether an incomplete request has begun.
    pub fn is_partial(&self) -> bool {
        matches!(self.stage, Stage::Body { .. }) || !self.buffer.unread().is_empty()
    }

    /// Returns the allocated bytes.
    pub fn held_bytes(&self) -> usize {
        self.buffer.held_bytes()
    }

    /// Lends `storage` to a reader without memory, so that reading does not allocate.
    pub fn acquire(&mut self, storage: &mut Vec<u8>) {
        self.buffer.acquire(storage);
    }

    /// Returns lent storage. Unread bytes move to an allocation of their own of exactly their size.
    pub fn release(&mut self, storage: &mut Vec<u8>) {
        self.last = None;
        self.buffer.release(storage);
    }

    /// Returns the bytes after the last request, for the protocol that the connection is upgraded to.
    pub fn remaining(&self) -> &[u8] {
        self.buffer.unread()
    }

    /// Reads on until a request is complete.
    fn read(&mut self, body_limit: impl Fn(&str, &str) -> usize) -> Result<Option<ParsedRequest>, HttpError> {
        if let Stage::Head { searched } = self.stage {
            let unread = self.buffer.unread();
            let may_end = searched == 0 || unread.len() >= HEAD_LIMIT || head::may_end(unread, searched);
            let head = if unread.is_empty() || !may_end { None } else { head::parse(unread)? };
            let Some(head) = head else {
                self.stage = Stage::Head { searched: unread.len() };
                return Ok(None);
            };
            let (length, limit) = match head.body {
                Body::Sized(0) => (0, 0),
                Body::Sized(length) => (length, body_limit(text(unread, &head.method), text(unread, &head.path))),
                _ => (0, body_limit(text(unread, &head.method), text(unread, &head.path))),
            };
            if length > limit {
                return Err(HttpError::BodyTooLarge);
            }
            let continue_due = head.expects_continue && unread.len() == head.len;
            self.buffer.expect(head.len + length);
            self.stage = Stage::Body { head, limit, continue_due };
        }
        let Stage::Body { head, limit, .. } = &mut self.stage else {
            return match mem::replace(&mut self.stage, Stage::Head { searched: 0 }) {
                Stage::Complete(request) => Ok(Some(request)),
                Stage::Rejected(error) => Err(error),
                _ => Ok(None),
            };
        };
        let start = head.len;
        let advanced = head.body.advance(&mut self.buffer.unread_mut()[start..], *limit);
        self.chunks = self.chunks.saturating_add(head.body.take_chunks());
        let Extent { length, used, is_complete } = advanced?;
        if !is_complete {
            self.buffer.remove(start + length..start + used);
            return Ok(None);
        }
        Ok(match mem::replace(&mut self.stage, Stage::Head { searched: 0 }) {
            Stage::Body { head, .. } => Some(ParsedRequest { head, body: start..start + length, end: start + used }),
            _ => None,
        })
    }

    /// Returns a complete request and moves past it.
    fn take(&mut self, whole: ParsedRequest) -> Request<'_> {
        self.stage = Stage::Head { searched: 0 };
        let ParsedRequest { head, body, end } = &*self.last.insert(whole);
        let bytes = &*self.buffer.take(*end);
        let path = text(bytes, &head.path);
        Request {
            method: text(bytes, &head.method),
            path: if path.is_empty() { "/" } else { path },
            query: head.query.as_ref().map(|range| text(bytes, range)),
            body: &bytes[body.clone()],
            keep_alive: head.keep_alive,
            is_http_10: head.is_http_10,
            header_lines: &bytes[head.headers.clone()],
        }
    }
}

/// Returns a part of the head, which the parser has checked to be UTF-8.
fn text<'a>(bytes: &'a [u8], range: &Range<usize>) -> &'a str {
    std::str::from_utf8(&bytes[range.clone()]).unwrap_or_default()
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
            reader.acquire(&mut spare);
            reader.receive(&bytes[at..cut]);
            drain(&mut reader, &mut seen);
            reader.release(&mut spare);
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
            reader.acquire(&mut spare);
            reader.receive(&[request_bytes("/first", body, chunks), next[..9].to_vec()].concat());
            for _ in 0..3 {
                let request = reader.next_request().unwrap().unwrap();
                assert_eq!((request.path, request.body, request.headers().count()), ("/first", body, 3));
                reader.restore_last();
                assert!(reader.is_partial());
                reader.release(&mut spare);
                reader.acquire(&mut spare);
            }
            reader.receive(&next[9..]);
            assert_eq!(reader.next_request().unwrap().unwrap().path, "/first");
            assert_eq!(reader.next_request().unwrap().unwrap().path, "/next");
            assert!(reader.next_request().unwrap().is_none() && !reader.is_partial());
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
        let limit = |method: &str, path: &str| if (method, path) == ("POST", "/large") { 1000 } else { 10 };
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
            let refused = reader.advance(limit);
            assert_eq!(refused, if fits { Ok(false) } else { Err(HttpError::BodyTooLarge) }, "{path} {length}");
        }
        let mut reader = RequestReader::new(0);
        reader.receive(b"POST /small HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n");
        assert_eq!(reader.advance(limit).unwrap_err(), HttpError::BodyTooLarge);
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
        reader.acquire(&mut spare);
        reader.receive(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert!(reader.next_request().unwrap().is_some());
        reader.release(&mut spare);
        assert_eq!((reader.held_bytes(), spare.capacity()), (0, 4096));
        reader.acquire(&mut spare);
        reader.receive(b"GET /");
        assert!(reader.next_request().unwrap().is_none());
        reader.release(&mut spare);
        assert!(reader.is_partial() && reader.held_bytes() < 64);
        assert_eq!(spare.capacity(), 4096);
    }

    #[test]
    fn an_endless_head_is_rejected_in_any_pieces() {
        let line = [b"GET /".as_slice(), &[b'a'; 9000]].concat();
        let headers = [b"GET / HTTP/1.1\r\n".as_slice(), &b"a: b\r\n".repeat(1500)].concat();
        for (bytes, error) in [(line, HttpError::UriTooLong), (headers, HttpError::HeadersTooLarge)] {
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
