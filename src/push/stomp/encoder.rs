//! Frames to bytes, exactly as NIS1 writes them (specification 07 §5.3 and §6).
//!
//! LF line ends, header names and values escaped on every frame except CONNECTED,
//! `content-length` last on frames that carry a body, nothing after the NUL. Every function
//! appends one whole frame.

use std::io::Write;

use super::Command;

/// What ends every JSON body; part of the body and counted by `content-length`.
const BODY_END: &[u8] = b"\r\n";

/// CONNECTED, with the agreed version if the client named any (§6.1).
pub fn connected(out: &mut Vec<u8>, version: Option<&str>) {
    out.extend_from_slice(b"CONNECTED\n");
    if let Some(version) = version {
        out.extend_from_slice(b"version:");
        out.extend_from_slice(version.as_bytes());
        out.push(b'\n');
    }
    out.extend_from_slice(b"heart-beat:0,0\n\n\0");
}

/// RECEIPT for the value of a `receipt` header (§6.5).
pub fn receipt(out: &mut Vec<u8>, id: &str) {
    frame(out, Command::Receipt, [("receipt-id", id)], None);
}

/// ERROR with an empty body (§5.2).
pub fn error(out: &mut Vec<u8>, message: &str) {
    frame(out, Command::Error, [("message", message)], Some(b""));
}

/// The headers of a MESSAGE (§6.7).
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The concrete topic.
    pub destination: &'a str,
    /// The `id` of the SUBSCRIBE.
    pub subscription: &'a str,
    /// The session id, first half of the `message-id`.
    pub session_name: &'a str,
    /// The message counter of the process, second half of the `message-id`.
    pub number: u64,
}

/// MESSAGE with the JSON text `json` and CR LF as its body (§6.7).
pub fn message(out: &mut Vec<u8>, headers: Message<'_>, json: &[u8]) {
    /// Upper bound of what the fixed words and the two numbers need.
    const FIXED_BYTES: usize = 112;
    let texts = headers.destination.len() + headers.subscription.len() + headers.session_name.len();
    out.reserve(FIXED_BYTES + texts + json.len());
    out.extend_from_slice(b"MESSAGE\n");
    header(out, "destination", headers.destination);
    header(out, "subscription", headers.subscription);
    out.extend_from_slice(b"message-id:");
    escape(out, headers.session_name);
    // Writing into a Vec cannot fail.
    let _ = writeln!(out, "-{}", headers.number);
    content_length(out, json.len() + BODY_END.len());
    out.extend_from_slice(json);
    out.extend_from_slice(BODY_END);
    out.push(0);
}

/// Any frame with escaped headers; `content-length` is added if there is a body.
pub fn frame<'a>(
    out: &mut Vec<u8>,
    command: Command,
    headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    body: Option<&[u8]>,
) {
    out.extend_from_slice(command.name().as_bytes());
    out.push(b'\n');
    for (name, value) in headers {
        header(out, name, value);
    }
    match body {
        Some(body) => {
            content_length(out, body.len());
            out.extend_from_slice(body);
        }
        None => out.push(b'\n'),
    }
    out.push(0);
}

/// The last header and the empty line.
fn content_length(out: &mut Vec<u8>, length: usize) {
    let _ = write!(out, "content-length:{length}\n\n");
}

fn header(out: &mut Vec<u8>, name: &str, value: &str) {
    escape(out, name);
    out.push(b':');
    escape(out, value);
    out.push(b'\n');
}

fn escape(out: &mut Vec<u8>, text: &str) {
    for &byte in text.as_bytes() {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b':' => out.extend_from_slice(b"\\c"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out);
        out
    }

    #[test]
    fn connected_has_a_version_only_if_one_was_agreed() {
        assert_eq!(written(|out| connected(out, None)), b"CONNECTED\nheart-beat:0,0\n\n\0");
        assert_eq!(written(|out| connected(out, Some("1.2"))), b"CONNECTED\nversion:1.2\nheart-beat:0,0\n\n\0");
    }

    #[test]
    fn receipt_has_no_content_length_and_error_always_has_one() {
        assert_eq!(written(|out| receipt(out, "close-1")), b"RECEIPT\nreceipt-id:close-1\n\n\0");
        assert_eq!(written(|out| error(out, "a:b\\\r\n")), b"ERROR\nmessage:a\\cb\\\\\\r\\n\ncontent-length:0\n\n\0");
    }

    #[test]
    fn a_message_is_the_bytes_of_test_vector_13() {
        let hex = "4d4553534147450a64657374696e6174696f6e3a2f626c6f636b732f6e65770a73756273637269\
                   7074696f6e3a7375622d300a6d6573736167652d69643a31633838346639642d300a636f6e74656e\
                   742d6c656e6774683a31340a0a7b22686569676874223a327d0d0a00";
        let headers =
            Message { destination: "/blocks/new", subscription: "sub-0", session_name: "1c884f9d", number: 0 };
        let bytes = written(|out| message(out, headers, b"{\"height\":2}"));
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, hex);
    }

    #[test]
    fn the_room_reserved_for_a_message_is_enough() {
        let headers = Message { destination: "/d", subscription: "s", session_name: "n", number: u64::MAX };
        let mut out = Vec::new();
        message(&mut out, headers, &[b'x'; 70_000]);
        let fixed = out.len() - 70_000 - 4;
        assert!(fixed <= 112, "{fixed}");
    }
}
