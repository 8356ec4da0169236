//! Fuzz target: the HTTP response parser.

use nisd::net::fetch::{HEAD_LIMIT, Response, ResponseReader};

use crate::pieces::Pieces;

/// Body limits: that of the command-line client, and one so small that inputs reach it.
const BODY_LIMITS: [usize; 2] = [4 * 1024 * 1024, 1024];

/// Checks that a response is parsed to the same result or error however it is split. It is never longer than the input
/// or the limit, and the parser never holds more than twice the input, or more than the limits on head and body
/// together. A connection is reused only after a response with a defined end. A body is the same if it is taken piece by
/// piece, and may then be longer than the limit.
pub fn check(data: &[u8]) -> usize {
    let pieces = Pieces::of(data);
    let read_both = |limit| {
        let whole = read(std::iter::once(pieces.bytes), limit);
        let cut = read(pieces.iter(), limit);
        let told = |read: &Result<(Response, bool), String>| read.clone().map(|(response, _)| response);
        assert_eq!(told(&cut), told(&whole), "the way a response is cut must not matter");
        if let (Ok((_, whole)), Ok((_, cut))) = (&whole, &cut) {
            assert!(*cut || !whole, "what follows can only be a reason not to keep a connection");
        }
        if let Ok((response, _)) = &whole {
            assert_eq!(read_streamed(pieces, limit), Some(response.clone()));
        }
        usize::from(whole.is_ok())
    };
    BODY_LIMITS.into_iter().map(read_both).sum()
}

/// Reads one response, then the end of the connection. Also returns whether the connection may be reused.
fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>, limit: usize) -> Result<(Response, bool), String> {
    let mut reader = ResponseReader::new(limit);
    let mut arrived = 0;
    for piece in pieces {
        arrived += piece.len();
        let complete = reader.receive(piece).map_err(|error| error.to_string())?;
        let held = reader.held_bytes();
        assert!(held <= HEAD_LIMIT + limit && held <= 2 * arrived, "{held} bytes held, {arrived} arrived");
        if let Some(response) = complete {
            assert_eq!(held, 0, "nothing is left behind");
            assert_response(&response, arrived, limit);
            return Ok((response, reader.keep_alive()));
        }
    }
    let response = reader.close().map_err(|error| error.to_string())?;
    assert_response(&response, arrived, limit);
    Ok((response, reader.keep_alive()))
}

/// Reads one response whose body is taken as it arrives; `None` after an error.
fn read_streamed(pieces: Pieces<'_>, limit: usize) -> Option<Response> {
    let mut reader = ResponseReader::new(limit);
    let mut body = Vec::new();
    for piece in pieces.iter() {
        let complete = reader.receive(piece).ok()?;
        let (status, rest) = match complete {
            Some(response) => (Some(response.status), response.body),
            None => (None, reader.take_body()),
        };
        body.extend_from_slice(&rest);
        if let Some(status) = status {
            return Some(Response { status, body });
        }
    }
    let end = reader.close().ok()?;
    body.extend_from_slice(&end.body);
    Some(Response { status: end.status, body })
}

fn assert_response(response: &Response, arrived: usize, limit: usize) {
    assert!((200..1000).contains(&response.status), "{}", response.status);
    assert!(response.body.len() <= limit && response.body.len() <= arrived);
    assert!(response.body.capacity() <= HEAD_LIMIT + limit);
}
