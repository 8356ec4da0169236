//! Fuzz target: the HTTP request parser, and the answers to what it read.

use std::cell::RefCell;
use std::io::Read;
use std::rc::Rc;
use std::sync::LazyLock;

use flate2::read::GzDecoder;
use nisd::net::SharedBytesCounter;
use nisd::net::fetch::ResponseReader;
use nisd::net::http::{Gzip, HEAD_LIMIT, HttpError, Request, RequestReader, Response, SharedBody, StaticText};

use crate::pieces::{MAX_PIECE, Pieces};

/// Maximum bytes of a body; small, so that inputs reach it.
const BODY_LIMIT: usize = 1024;

/// Maximum bytes that wait in a reader between pieces: a head, a body, and a chunk's size line or trailers.
const MAX_UNREAD: usize = HEAD_LIMIT + BODY_LIMIT + 4096 + 256;

/// What is answered; long enough to be compressed.
static TEXT: LazyLock<StaticText> = LazyLock::new(|| StaticText::new("text/plain", text()));

thread_local! {
    static GZIP: RefCell<Gzip> = RefCell::default();
}

fn text() -> String {
    "An answer to any request. ".repeat(60)
}

/// A request as a service sees it.
#[derive(Debug, PartialEq)]
struct Seen {
    method: String,
    path: String,
    query: Option<String>,
    body: Vec<u8>,
    keep_alive: bool,
    is_http_10: bool,
    headers: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Seen {
    fn new(request: &Request<'_>) -> Seen {
        Seen {
            method: request.method.to_owned(),
            path: request.path.to_owned(),
            query: request.query.map(str::to_owned),
            body: request.body.to_vec(),
            keep_alive: request.keep_alive,
            is_http_10: request.is_http_10,
            headers: request.headers().map(|(name, value)| (name.to_owned(), value.to_vec())).collect(),
        }
    }
}

/// Checks that a reader returns the same requests and the same final error however the stream is split, and never holds
/// more than the limits allow.
///
/// A reader may notice late that a head in pieces is wrong, so an empty line completes the stream. A client reads every
/// answer as it was meant.
pub fn check(data: &[u8]) -> usize {
    const END: &[u8] = b"\r\n\r\n";
    let pieces = Pieces::of(data);
    let whole = [pieces.bytes, END].concat();
    let expected = read(std::iter::once(whole.as_slice()));
    let cut = read(pieces.iter().chain([END]));
    assert_eq!(cut, expected, "the way a stream is cut must not matter");
    expected.0.len()
}

/// Reads as the reactor does: with a borrowed buffer, and no further after an error.
fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Seen>, Option<HttpError>) {
    let mut reader = RequestReader::new(BODY_LIMIT);
    let mut storage = Vec::with_capacity(4096);
    let mut seen = Vec::new();
    for piece in pieces {
        reader.buffer.acquire(&mut storage);
        reader.receive(piece);
        if let Err(error) = drain(&mut reader, &mut seen) {
            assert_eq!(reader.next_request().err(), Some(error), "an error stays");
            return (seen, Some(error));
        }
        reader.buffer.release(&mut storage);
        let unread = reader.buffer.unread().len();
        assert!(unread <= MAX_UNREAD, "{unread} bytes are unread");
        assert!(reader.is_partial() || reader.buffer.held_bytes() == 0, "an idle reader holds nothing");
        assert!(reader.buffer.held_bytes() <= 2 * (MAX_UNREAD + piece.len().max(MAX_PIECE)));
    }
    (seen, None)
}

fn drain(reader: &mut RequestReader, seen: &mut Vec<Seen>) -> Result<(), HttpError> {
    loop {
        match reader.next_request()? {
            Some(request) => {
                let request = Seen::new(&request);
                let again = reader.request().map(|request| Seen::new(&request));
                assert_eq!(again.as_ref(), Some(&request), "it stays until it is finished");
                check_answers(&reader.request().expect("it stays"));
                if seen.len().is_multiple_of(2) {
                    reader.drop_body();
                    let rest = reader.request().map(|request| (request.path.to_owned(), request.body.len()));
                    assert_eq!(rest, Some((request.path.clone(), 0)), "only the body is gone");
                }
                seen.push(request);
            }
            None => {
                reader.take_continue();
                assert!(!reader.take_continue(), "100 Continue is due once");
                return Ok(());
            }
        }
    }
}

/// Answers a request in each of the ways in which services do, and reads the answers as clients do.
fn check_answers(request: &Request<'_>) {
    let mut response = Response::new();
    TEXT.send("no-cache", request, &mut response);
    check_answer(request, &response);

    response.reset();
    response.header("Content-Type", "text/plain");
    response.header("Echo", request.query.unwrap_or_default().to_owned());
    response.body.extend_from_slice(text().as_bytes());
    response.compress = true;
    check_answer(request, &response);
    response.is_secret = true;
    check_answer(request, &response);

    response.reset();
    response.shared_body = Some(Rc::new(SharedBody::new(text().into_bytes(), &SharedBytesCounter::default())));
    response.compress = true;
    check_answer(request, &response);
    response.close = true;
    check_answer(request, &response);

    response.reset();
    response.is_streaming = true;
    let mut out = Vec::new();
    let closes = response.write_streaming_head(request, &mut out);
    for piece in text().as_bytes().chunks(1000) {
        response.body.extend_from_slice(piece);
        response.write_chunk(request, false, &mut out);
    }
    response.write_chunk(request, true, &mut out);
    check_received(request, &out, closes);
}

fn check_answer(request: &Request<'_>, response: &Response) {
    let mut out = Vec::new();
    let (closes, shared) = GZIP.with_borrow_mut(|gzip| response.write(request, gzip, &mut out));
    out.extend_from_slice(shared.as_deref().unwrap_or_default());
    check_received(request, &out, closes);
}

/// Checks what a client reads. There is nothing to read after a head alone, which answers HEAD and says 304.
fn check_received(request: &Request<'_>, out: &[u8], closes: bool) {
    if request.method == "HEAD" || out.starts_with(b"HTTP/1.1 304 ") {
        let ends = out.windows(4).filter(|bytes| bytes == b"\r\n\r\n").count();
        assert!(ends == 1 && out.ends_with(b"\r\n\r\n"), "a head, and nothing else");
        return;
    }
    let is_packed = out.windows(22).any(|bytes| bytes == b"Content-Encoding: gzip");
    if is_packed {
        // Our own client asks for no compression, and accepts none.
        let head = out.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head") + 4;
        let mut body = String::new();
        GzDecoder::new(&out[head..]).read_to_string(&mut body).expect("gzip");
        assert_eq!(body, text());
        return;
    }
    let mut reader = ResponseReader::new(2 * text().len());
    let complete = reader.receive(out).expect("an answer");
    let received = complete.unwrap_or_else(|| reader.close().expect("the end of the connection ends the answer"));
    assert_eq!(reader.keep_alive(), !closes);
    assert_eq!((received.status, received.body.as_slice()), (200, text().as_bytes()));
}
