//! SockJS, protocol 0.3.3: a message stream in both directions for clients without a usable websocket. Frames of the
//! server (`o`, `h`, `a[…]`, `c[…]`), messages of the client, and the transports that wrap frames into HTTP responses.

use crate::api::url;
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
/// Maximum size of one message in a form, in bytes; each byte may be encoded as three.
pub const MAX_FORM_BYTES: usize = 3 * MAX_BYTES;

/// Why a message of the client is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// The message is empty.
    #[error("Payload expected.")]
    Empty,
    /// Its first string is null.
    #[error("Broken JSON encoding.")]
    Null,
    /// It is not an array of strings, is an empty array, or exceeds [`MAX_STRINGS`] or [`MAX_BYTES`].
    #[error("Broken JSON encoding.")]
    Broken,
}

/// Concatenates the strings of a message.
pub fn read_message(message: &[u8]) -> Result<Vec<u8>, PayloadError> {
    if message.is_empty() {
        return Err(PayloadError::Empty);
    }
    if message.len() > MAX_BYTES {
        return Err(PayloadError::Broken);
    }
    let Ok(Value::Array(values)) = lenient_json::parse(message) else { return Err(PayloadError::Broken) };
    if values.is_empty() || values.len() > MAX_STRINGS {
        return Err(PayloadError::Broken);
    }
    if values.first() == Some(&Value::Null) {
        return Err(PayloadError::Null);
    }
    let mut stream = Vec::with_capacity(message.len());
    for value in values {
        let Value::String(piece) = value else { return Err(PayloadError::Broken) };
        stream.extend_from_slice(piece.as_bytes());
    }
    Ok(stream)
}

/// Concatenates the strings of a message, which is the field `d` of a form if the content type says so.
pub fn read_form(body: &[u8], content_type: Option<&str>) -> Result<Vec<u8>, PayloadError> {
    const FORM: &str = "application/x-www-form-urlencoded";
    let is_form =
        content_type.and_then(|value| value.get(..FORM.len())).is_some_and(|kind| kind.eq_ignore_ascii_case(FORM));
    if !is_form {
        return read_message(body);
    }
    let field = body.split(|byte| *byte == b'&').find_map(|field| field.strip_prefix(b"d=")).unwrap_or_default();
    let text = std::str::from_utf8(field).map_err(|_| PayloadError::Broken)?;
    read_message(&url::percent_decode(text, true).ok_or(PayloadError::Broken)?)
}

/// Content type of scripts.
const SCRIPT: &str = "application/javascript;charset=UTF-8";
/// Padding at the start of a streaming response, for browsers that hold back the first bytes; in bytes.
const PRELUDE_BYTES: usize = 2_048;
/// Minimum length of the `htmlfile` page, for the same reason; in bytes.
const PAGE_BYTES: usize = 1_024;
/// Maximum length of a callback name, in bytes.
const MAX_CALLBACK_BYTES: usize = 128;

/// The `htmlfile` page; `CALLBACK` stands for the name of the callback in the parent window.
const PAGE: &str = include_str!("htmlfile.html").trim_ascii_end();

/// The last segment of a session's path: how the request receives frames or sends a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Both directions on a websocket.
    Websocket,
    /// Receives one frame as a line.
    Xhr,
    /// Receives frames as lines.
    XhrStreaming,
    /// Receives frames as events.
    EventSource,
    /// Receives frames as scripts in a page.
    HtmlFile,
    /// Receives one frame as a script.
    Jsonp,
    /// Sends a message: the body.
    XhrSend,
    /// Sends a message: a form field, or the body.
    JsonpSend,
}

use Transport::{EventSource, HtmlFile, Jsonp, JsonpSend, Websocket, Xhr, XhrSend, XhrStreaming};

/// The transports: name in the path, and the `Allow` header in NIS1's order, whose first method is the one required.
const TRANSPORTS: [(Transport, &str, &str); 8] = [
    (Websocket, "websocket", "GET"),
    (Xhr, "xhr", "POST,OPTIONS"),
    (XhrStreaming, "xhr_streaming", "POST,OPTIONS"),
    (EventSource, "eventsource", "GET"),
    (HtmlFile, "htmlfile", "GET,OPTIONS"),
    (Jsonp, "jsonp", "GET"),
    (XhrSend, "xhr_send", "POST,OPTIONS"),
    (JsonpSend, "jsonp_send", "POST"),
];

impl Transport {
    /// Looks up a transport by its name in the path.
    pub fn from_name(name: &str) -> Option<Transport> {
        TRANSPORTS.iter().find(|(_, own, _)| *own == name).map(|(transport, ..)| *transport)
    }

    /// The `Allow` header: the required method, and OPTIONS if it is answered.
    pub fn allow(self) -> &'static str {
        TRANSPORTS.iter().find(|(own, ..)| *own == self).map_or("", |(_, _, allow)| allow)
    }

    /// Returns whether its responses are streams of frames.
    pub fn is_streaming(self) -> bool {
        matches!(self, XhrStreaming | EventSource | HtmlFile)
    }

    /// Returns whether it can receive from a session that `other` opened: the two polling transports share sessions.
    pub fn is_compatible_with(self, other: Transport) -> bool {
        self == other || !self.is_streaming() && !other.is_streaming()
    }

    /// Returns whether the client names a callback.
    pub fn has_callback(self) -> bool {
        matches!(self, HtmlFile | Jsonp)
    }

    /// The content type of responses with frames.
    pub fn content_type(self) -> &'static str {
        match self {
            EventSource => "text/event-stream;charset=UTF-8",
            HtmlFile => "text/html;charset=utf-8",
            _ => SCRIPT,
        }
    }
}

/// Wraps frames into a response.
#[derive(Clone, Copy, Debug)]
pub struct Wrapper<'a> {
    /// The transport.
    pub transport: Transport,
    /// The callback, if the transport has one.
    pub callback: &'a str,
}

impl Wrapper<'_> {
    /// Appends the start of a response.
    pub fn begin(&self, out: &mut Vec<u8>) {
        match self.transport {
            XhrStreaming => {
                out.resize(out.len() + PRELUDE_BYTES, b'h');
                out.push(b'\n');
            }
            EventSource => out.extend_from_slice(b"\r\n"),
            HtmlFile => {
                out.extend_from_slice(PAGE.replace("CALLBACK", self.callback).as_bytes());
                let padded = out.len().max(PAGE_BYTES + self.callback.len());
                out.resize(padded, b' ');
            }
            _ => {}
        }
    }

    /// Appends a frame.
    pub fn frame(&self, out: &mut Vec<u8>, frame: &[u8]) {
        match self.transport {
            EventSource => {
                out.extend_from_slice(b"data: ");
                out.extend_from_slice(frame);
                out.extend_from_slice(b"\r\n\r\n");
            }
            HtmlFile => {
                out.extend_from_slice(b"<script>\np(\"");
                escape_script(out, frame);
                out.extend_from_slice(b"\");\n</script>\r\n");
            }
            Jsonp => {
                out.extend_from_slice(b"/**/");
                out.extend_from_slice(self.callback.as_bytes());
                out.extend_from_slice(b"(\"");
                escape_script(out, frame);
                out.extend_from_slice(b"\");\r\n");
            }
            _ => {
                out.extend_from_slice(frame);
                out.push(b'\n');
            }
        }
    }
}

/// Appends a frame, which has no control characters, escaped for the inside of a script's quotes.
fn escape_script(out: &mut Vec<u8>, frame: &[u8]) {
    out.reserve(frame.len());
    for &byte in frame {
        match byte {
            b'\\' | b'"' | b'\'' | b'/' => out.extend_from_slice(&[b'\\', byte]),
            b'<' => out.extend_from_slice(b"\\u003C"),
            b'>' => out.extend_from_slice(b"\\u003E"),
            _ => out.push(byte),
        }
    }
}

/// Returns the callback named in the query, if it is a valid name.
pub fn callback(query: Option<&str>) -> Option<String> {
    let value = query?.split('&').find_map(|pair| pair.strip_prefix("c="))?;
    let name = String::from_utf8(url::percent_decode(value, true)?).ok()?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
    ((1..=MAX_CALLBACK_BYTES).contains(&name.len()) && name.bytes().all(is_name)).then_some(name)
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
        assert_eq!(read_message(b""), Err(PayloadError::Empty));
        for broken in
            ["{}", "[]", "[1]", "[\"a\",null]", "[[\"a\"]]", "[\"a\",1]", "xx", "\"a\"", "[\"CONNECT\\n\\n\\u0000"]
        {
            assert_eq!(read_message(broken.as_bytes()), Err(PayloadError::Broken), "{broken}");
        }
        for null in ["[null]", "[null,\"a\"]"] {
            assert_eq!(read_message(null.as_bytes()), Err(PayloadError::Null), "{null}");
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

    #[test]
    fn a_form_has_the_message_in_its_field() {
        let form = Some("application/x-www-form-urlencoded; charset=UTF-8");
        assert_eq!(read_form(b"x=1&d=%5B%22a+b%2B%22%5D", form), Ok(b"a b+".to_vec()));
        assert_eq!(read_form(b"d=%5", form), Err(PayloadError::Broken));
        for empty in ["", "d=", "x=1"] {
            assert_eq!(read_form(empty.as_bytes(), form), Err(PayloadError::Empty), "{empty:?}");
        }
        assert_eq!(read_form(br#"["d=1"]"#, Some("text/plain")), Ok(b"d=1".to_vec()));
        assert_eq!(read_form(br#"["d=1"]"#, None), Ok(b"d=1".to_vec()));
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

    fn wrapped(fetching: Transport, write: impl FnOnce(&Wrapper<'_>, &mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&Wrapper { transport: fetching, callback: "_jp.a1" }, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn frames_are_wrapped_for_each_transport() {
        let frame = br#"a["x\n<\/'"]"#;
        let frames = [Xhr, XhrStreaming, EventSource, HtmlFile, Jsonp]
            .map(|fetching| wrapped(fetching, |wrapper, out| wrapper.frame(out, frame)));
        assert_eq!(frames[0], "a[\"x\\n<\\/'\"]\n");
        assert_eq!(frames[1], frames[0]);
        assert_eq!(frames[2], "data: a[\"x\\n<\\/'\"]\r\n\r\n");
        assert_eq!(frames[3], "<script>\np(\"a[\\\"x\\\\n\\u003C\\\\\\/\\'\\\"]\");\n</script>\r\n");
        assert_eq!(frames[4], "/**/_jp.a1(\"a[\\\"x\\\\n\\u003C\\\\\\/\\'\\\"]\");\r\n");
    }

    #[test]
    fn streaming_responses_begin_with_the_prelude_for_browsers() {
        assert_eq!(wrapped(XhrStreaming, |wrapper, out| wrapper.begin(out)), format!("{}\n", "h".repeat(2048)));
        assert_eq!(wrapped(EventSource, |wrapper, out| wrapper.begin(out)), "\r\n");
        let page = wrapped(HtmlFile, |wrapper, out| wrapper.begin(out));
        assert!(page.starts_with("<!doctype html>\n<html>") && page.contains("var c = parent._jp.a1;\n"));
        assert_eq!((page.len(), page.trim_end().ends_with("</script>")), (1024 + 6, true));
        assert_eq!(
            wrapped(Xhr, |wrapper, out| wrapper.begin(out)) + &wrapped(Jsonp, |wrapper, out| wrapper.begin(out)),
            ""
        );
    }

    #[test]
    fn a_callback_is_a_valid_name() {
        for (query, name) in [("c=_jp.abcdef", "_jp.abcdef"), ("x=1&c=a%2Eb&c=d", "a.b"), ("c=0", "0")] {
            assert_eq!(callback(Some(query)).as_deref(), Some(name));
        }
        let long = format!("c={}", "a".repeat(129));
        for query in ["", "c=", "d=a", "c=a(", "c=%3Cscript%3E", "c=a%0A", "c=a;b", "c=a+b", "c=%", "c=%ff", &long] {
            assert_eq!(callback(Some(query)), None, "{query}");
        }
        assert_eq!(callback(None), None);
    }

    #[test]
    fn polling_transports_are_interchangeable_and_streaming_ones_are_not() {
        assert!(
            Xhr.is_compatible_with(Jsonp)
                && Jsonp.is_compatible_with(Xhr)
                && XhrStreaming.is_compatible_with(XhrStreaming)
        );
        assert!(
            !XhrStreaming.is_compatible_with(Xhr)
                && !EventSource.is_compatible_with(HtmlFile)
                && !Jsonp.is_compatible_with(EventSource)
        );
    }
}
