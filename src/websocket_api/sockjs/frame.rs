//! Frames of the server.

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

/// Appends a frame with one message.
pub fn message(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(MESSAGE_START);
    escape(out, text);
    out.extend_from_slice(MESSAGE_END);
}

/// Appends a close frame. An empty reason is written as the word `null`, as in NIS1.
pub fn close(out: &mut Vec<u8>, code: u16, reason: &str) {
    out.extend_from_slice(format!("c[{code},\"").as_bytes());
    escape(out, if reason.is_empty() { "null" } else { reason });
    out.extend_from_slice(MESSAGE_END);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn frames_match_the_examples() {
        let connected = "CONNECTED\nversion:1.1\nheart-beat:0,0\n\n\0";
        assert_eq!(text(|out| message(out, connected)), r#"a["CONNECTED\nversion:1.1\nheart-beat:0,0\n\n\u0000"]"#);
        assert_eq!(text(|out| close(out, 1002, "")), r#"c[1002,"null"]"#);
        assert_eq!(text(|out| close(out, 3000, "Go away!")), r#"c[3000,"Go away!"]"#);
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
            let frame = text(|out| close(out, code, &words));
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
}
