//! Fuzz target: SockJS messages of the client and frames of the server.

use nisd::websocket_api::sockjs::{
    BAD_DATA, MAX_BYTES, MAX_STRINGS, MESSAGE_END, MESSAGE_START, SERVER_ERROR, escape, read_message,
};

/// Checks that any payload is read or rejected, and that an array of strings is read as another parser reads it. A text
/// in a frame is read back from it, and a frame contains no line end.
pub fn check(data: &[u8]) -> usize {
    let taken = read_message(data);
    match &taken {
        Ok(stream) => assert!(stream.len() <= 3 * data.len() && std::str::from_utf8(stream).is_ok()),
        Err(code) => assert!([BAD_DATA, SERVER_ERROR].contains(code)),
    }
    if let Ok(strings) = serde_json::from_slice::<Vec<String>>(data) {
        let fits = (1..=MAX_STRINGS).contains(&strings.len()) && data.len() <= MAX_BYTES;
        assert_eq!(taken, if fits { Ok(strings.concat().into_bytes()) } else { Err(BAD_DATA) });
    }
    let text = String::from_utf8_lossy(data);
    let mut out = MESSAGE_START.to_vec();
    escape(&mut out, &text);
    out.extend_from_slice(MESSAGE_END);
    let read: Vec<String> = serde_json::from_slice(&out[1..]).expect("a frame is an array of strings");
    assert_eq!(read, [&*text]);
    assert!(out.iter().all(|byte| *byte >= b' '));
    usize::from(taken.is_ok())
}
