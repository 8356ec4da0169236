//! SockJS, protocol 0.3.3, on a websocket: frames of the server (`o`, `h`, `a[…]`, `c[…]`) and messages of the client.

use crate::codec::lenient_json::{self, Value};
use crate::codec::text::write_json_characters;

/// Open frame.
pub const OPEN: &[u8] = b"o";
/// Heartbeat frame.
pub const HEARTBEAT: &[u8] = b"h";
/// Start of a frame with one message, up to the text of the message.
pub const MESSAGE_START: &[u8] = b"a[\"";
/// End of a frame with one message.
pub const MESSAGE_END: &[u8] = b"\"]";

/// Appends `text`, escaped for the inside of a frame's quotes. Beyond NIS1's JSON escapes, this escapes everything
/// outside the basic multilingual plane, and U+FFF0 to U+FFFF, which some browsers lose.
pub fn escape(out: &mut Vec<u8>, text: &str) {
    let mut rest = text;
    while let Some((at, character)) = rest.char_indices().find(|(_, character)| *character >= '\u{fff0}') {
        write_json_characters(out, &rest[..at]);
        for unit in character.encode_utf16(&mut [0; 2]) {
            out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
        }
        rest = &rest[at + character.len_utf8()..];
    }
    write_json_characters(out, rest);
}

/// Returns a close frame. An empty reason is written as the word `null`, as in NIS1.
pub fn close_frame((code, reason): (u16, &str)) -> Vec<u8> {
    let mut out = format!("c[{code},\"").into_bytes();
    escape(&mut out, if reason.is_empty() { "null" } else { reason });
    out.extend_from_slice(MESSAGE_END);
    out
}

/// Maximum number of strings in one message of the client.
pub const MAX_STRINGS: usize = 4_096;
/// Maximum size of one message of the client as JSON, in bytes.
pub const MAX_BYTES: usize = 64 * 1024;

/// Close code for a malformed message: it is not an array of strings, is an empty array, or exceeds [`MAX_STRINGS`] or
/// [`MAX_BYTES`].
pub const BAD_DATA: u16 = 1007;
/// Close code for a message whose first string is null; NIS1 fails on it.
pub const SERVER_ERROR: u16 = 1011;

/// Concatenates the strings of a message. Fails with [`BAD_DATA`] or [`SERVER_ERROR`].
pub fn read_message(message: &[u8]) -> Result<Vec<u8>, u16> {
    if message.len() > MAX_BYTES {
        return Err(BAD_DATA);
    }
    let Ok(Value::Array(values)) = lenient_json::parse(message) else { return Err(BAD_DATA) };
    if values.is_empty() || values.len() > MAX_STRINGS {
        return Err(BAD_DATA);
    }
    if values.first() == Some(&Value::Null) {
        return Err(SERVER_ERROR);
    }
    let mut stream = Vec::with_capacity(message.len());
    for value in values {
        let Value::String(piece) = value else { return Err(BAD_DATA) };
        stream.extend_from_slice(piece.as_bytes());
    }
    Ok(stream)
}

#[cfg(test)]
mod payload_tests {
    use proptest::prelude::*;

    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    fn message(out: &mut Vec<u8>, text: &str) {
        out.extend_from_slice(MESSAGE_START);
        escape(out, text);
        out.extend_from_slice(MESSAGE_END);
    }

    fn closed(code: u16, reason: &str) -> String {
        String::from_utf8(close_frame((code, reason))).unwrap()
    }

    #[test]
    fn frames_match_the_examples() {
        let connected = "CONNECTED\nversion:1.1\nheart-beat:0,0\n\n\0";
        assert_eq!(text(|out| message(out, connected)), r#"a["CONNECTED\nversion:1.1\nheart-beat:0,0\n\n\u0000"]"#);
        assert_eq!(closed(1002, ""), r#"c[1002,"null"]"#);
        assert_eq!(closed(3000, "Go away!"), r#"c[3000,"Go away!"]"#);
        let all = "é \u{2028} \u{200c} € \u{1f600} \u{7f} \u{80} \u{1f} / \u{ffef} \u{fff0} \u{ffff}";
        assert_eq!(
            text(|out| escape(out, all)),
            "é \\u2028 \\u200C \\u20AC \\ud83d\\ude00 \\u007F \\u0080 \\u001F \\/ \u{ffef} \\ufff0 \\uffff"
        );
    }

    proptest! {
        #[test]
        fn every_text_round_trips_through_its_frame(words in "\\PC*|[\\x00-\\x{10ffff}]*", code in 1000u16..5000) {
            let frame = text(|out| message(out, &words));
            let read: Vec<String> = serde_json::from_str(&frame[1..]).unwrap();
            prop_assert_eq!(read, [words.clone()]);
            let frame = closed(code, &words);
            let read: (u16, String) = serde_json::from_str(&frame[1..]).unwrap();
            prop_assert_eq!(read, (code, if words.is_empty() { "null".to_owned() } else { words.clone() }));
            // A frame contains no line ends.
            let is_plain = frame.chars().all(|character| (' '..'\u{fff0}').contains(&character));
            prop_assert!(is_plain, "{frame}");
        }

        #[test]
        fn a_text_may_be_escaped_in_parts(first in "\\PC*", second in "\\PC*") {
            let whole = text(|out| escape(out, &format!("{first}{second}")));
            let parts = text(|out| { escape(out, &first); escape(out, &second) });
            prop_assert_eq!(whole, parts);
        }
    }

    #[test]
    fn a_message_is_an_array_whose_strings_are_all_read() {
        assert_eq!(read_message(br#"["a\u0000", "b"]"#), Ok(b"a\0b".to_vec()));
        assert_eq!(read_message(b"['a']"), Ok(b"a".to_vec()));
        assert_eq!(read_message(br#"[""]"#), Ok(Vec::new()));
        assert_eq!(read_message(b""), Err(BAD_DATA));
        for broken in
            ["{}", "[]", "[1]", "[\"a\",null]", "[[\"a\"]]", "[\"a\",1]", "xx", "\"a\"", "[\"CONNECT\\n\\n\\u0000"]
        {
            assert_eq!(read_message(broken.as_bytes()), Err(BAD_DATA), "{broken}");
        }
        for null in ["[null]", "[null,\"a\"]"] {
            assert_eq!(read_message(null.as_bytes()), Err(SERVER_ERROR), "{null}");
        }
        let many = |count: usize| format!("[{}\"\"]", "\"\",".repeat(count - 1));
        assert!(
            read_message(many(MAX_STRINGS).as_bytes()).is_ok()
                && read_message(many(MAX_STRINGS + 1).as_bytes()).is_err()
        );
        let long = |bytes: usize| format!("[\"{}\"]", "x".repeat(bytes - 4));
        assert!(
            read_message(long(MAX_BYTES).as_bytes()).is_ok() && read_message(long(MAX_BYTES + 1).as_bytes()).is_err()
        );
    }

    proptest! {
        #[test]
        fn strings_are_joined_in_order(strings in proptest::collection::vec(".*", 1..5)) {
            let message = serde_json::to_vec(&strings).unwrap();
            prop_assert_eq!(read_message(&message), Ok(strings.concat().into_bytes()));
        }

        #[test]
        fn arbitrary_payloads_are_rejected_or_read_with_bounded_length(message: Vec<u8>) {
            let read = read_message(&message);
            prop_assert!(read.is_err() || read.unwrap().len() <= 3 * message.len());
        }
    }
}

#[cfg(test)]
mod tests;
