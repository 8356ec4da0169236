//! The reader of responses from other servers.

use nisd::net::fetch::{Complete, HEAD_LIMIT, Response, ResponseReader};

use crate::pieces::Pieces;

/// Bytes of a body: what the client of commands takes, and so few that the limit is reached.
const BODY_LIMITS: [usize; 2] = [4 * 1024 * 1024, 1024];

/// However a response is cut, it is read the same, or ends in the same error. It is never longer than what has
/// arrived, or than the limit, and the reader never holds more than twice what has arrived, or than the limits on head
/// and body together. A connection is kept only after a response that ends by itself.
pub fn check(data: &[u8]) -> usize {
    let pieces = Pieces::of(data);
    let read_both = |limit| {
        let whole = read(std::iter::once(pieces.bytes), limit);
        let cut = read(pieces.iter(), limit);
        let told = |read: &Result<Complete, String>| {
            read.as_ref().map(|complete| complete.response.clone()).map_err(Clone::clone)
        };
        assert_eq!(told(&cut), told(&whole), "the way a response is cut must not matter");
        if let (Ok(whole), Ok(cut)) = (&whole, &cut) {
            assert!(cut.is_kept || !whole.is_kept, "what follows can only be a reason not to keep a connection");
        }
        usize::from(whole.is_ok())
    };
    BODY_LIMITS.into_iter().map(read_both).sum()
}

/// Reads one response and then the end of the connection.
fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>, limit: usize) -> Result<Complete, String> {
    let mut reader = ResponseReader::new(limit);
    let mut arrived = 0;
    for piece in pieces {
        arrived += piece.len();
        let complete = reader.receive(piece).map_err(|error| error.to_string())?;
        let held = reader.held_bytes();
        assert!(held <= HEAD_LIMIT + limit && held <= 2 * arrived, "{held} bytes held, {arrived} arrived");
        if let Some(complete) = complete {
            assert_eq!(held, 0, "nothing is left behind");
            assert_response(&complete.response, arrived, limit);
            return Ok(complete);
        }
    }
    let response = reader.close().map_err(|error| error.to_string())?;
    assert_response(&response, arrived, limit);
    Ok(Complete { response, is_kept: false })
}

fn assert_response(response: &Response, arrived: usize, limit: usize) {
    assert!((200..1000).contains(&response.status), "{}", response.status);
    assert!(response.body.len() <= limit && response.body.len() <= arrived);
    assert!(response.body.capacity() <= HEAD_LIMIT + limit);
}
