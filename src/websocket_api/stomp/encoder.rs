//! Encodes frames exactly as NIS1 writes them.
//!
//! Lines end with LF. Header names and values are escaped on every frame except CONNECTED. `content-length` comes last
//! on frames with a body. Nothing follows the NUL. Every function appends one whole frame, except [`message_head`].

use super::Command;

/// Appends CONNECTED, with the agreed version if the client named any.
pub fn connected(out: &mut Vec<u8>, version: Option<&str>) {
    out.extend_from_slice(b"CONNECTED\n");
    if let Some(version) = version {
        out.extend_from_slice(b"version:");
        out.extend_from_slice(version.as_bytes());
        out.push(b'\n');
    }
    out.extend_from_slice(b"heart-beat:0,0\n\n\0");
}

/// Appends RECEIPT for the value of a `receipt` header.
pub fn receipt(out: &mut Vec<u8>, id: &str) {
    frame(out, Command::Receipt, [("receipt-id", id)], None);
}

/// Appends ERROR with an empty body.
pub fn error(out: &mut Vec<u8>, message: &str) {
    frame(out, Command::Error, [("message", message)], Some(b""));
}

/// Follows the JSON text of a MESSAGE: the last two bytes of the body, and the NUL that ends the frame.
pub const MESSAGE_END: &[u8] = b"\r\n\0";

/// The headers of a MESSAGE.
#[derive(Clone, Copy, Debug)]
pub struct MessageHead<'a> {
    /// The concrete topic.
    pub destination: &'a str,
    /// The `id` of the SUBSCRIBE.
    pub subscription: &'a str,
    /// The session's name, first half of the `message-id`.
    pub session_name: &'a str,
    /// The message counter, second half of the `message-id`.
    pub number: u64,
    /// Bytes of the body, including its CR LF.
    pub content_length: usize,
}

/// Appends a MESSAGE up to its body. The JSON text and [`MESSAGE_END`] must follow.
pub fn message_head(out: &mut Vec<u8>, head: MessageHead<'_>) {
    out.extend_from_slice(b"MESSAGE\n");
    header(out, "destination", head.destination);
    header(out, "subscription", head.subscription);
    out.extend_from_slice(b"message-id:");
    escape(out, head.session_name);
    out.push(b'-');
    out.extend_from_slice(itoa::Buffer::new().format(head.number).as_bytes());
    out.push(b'\n');
    content_length(out, head.content_length);
}

/// Appends a frame with escaped headers; `content-length` is added if there is a body.
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

/// Appends the last header and the empty line.
fn content_length(out: &mut Vec<u8>, length: usize) {
    out.extend_from_slice(b"content-length:");
    out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
    out.extend_from_slice(b"\n\n");
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
        let head = MessageHead {
            destination: "/blocks/new",
            subscription: "sub-0",
            session_name: "1c884f9d",
            number: 0,
            content_length: 14,
        };
        let bytes = [&written(|out| message_head(out, head)), &b"{\"height\":2}"[..], MESSAGE_END].concat();
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, hex);
    }
}
