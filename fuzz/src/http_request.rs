//! Fuzz target: the HTTP request parser.

use nisd::net::http::{HEAD_LIMIT, HttpError, Request, RequestReader};

use crate::pieces::{MAX_PIECE, Pieces};

/// Maximum bytes of a body; small, so that inputs reach it.
const BODY_LIMIT: usize = 1024;

/// Maximum bytes that wait in a reader between pieces: a head, a body, and a chunk's size line or trailers.
const MAX_UNREAD: usize = HEAD_LIMIT + BODY_LIMIT + 4096 + 256;

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
/// A reader may notice late that a head in pieces is wrong, so an empty line completes the stream.
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
