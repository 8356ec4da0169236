//! SockJS, protocol 0.3.3: a message stream in both directions for clients without a usable websocket. Frames of the
//! server (`o`, `h`, `a[…]`, `c[…]`), messages of the client, the transports that wrap frames into HTTP responses, and the queue of messages for a client that
//! fetches them by HTTP requests.

use std::collections::VecDeque;
use std::time::Duration;

use crate::api::url;
use crate::codec::lenient_json::{self, Value};
use crate::codec::text::write_json_characters;
use crate::metrics::subtract;
use crate::net::service::{ConnectionId, Dropped, Progress};

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
pub fn close_frame(code: u16, reason: &str) -> Vec<u8> {
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

/// Bytes of messages after which a response ends, and the client must send a new request.
pub const ANSWER_BYTES: usize = 128 * 1024;
/// Bytes after which a part of a response is sent before more is added.
const CHUNK_BYTES: usize = 32 * 1024;
/// Requests that wait until the messages of another request are processed.
pub const MAX_WAITING_SENDERS: usize = 8;
/// Bytes of messages that are kept for the client of an ended session.
pub const MAX_CLOSING_BYTES: usize = 2 * 1024;
/// Memory of a message besides its text, in bytes.
const MESSAGE_OVERHEAD: usize = 32;
/// Close code of a session whose client does not fetch its messages.
pub const TOO_SLOW: u16 = 4500;

/// Why a request gets no messages: a close code and a reason.
pub type CloseReason = (u16, &'static str);

/// Another request already waits for messages of the session.
pub const STILL_OPEN: CloseReason = (2010, "Another connection still open");
/// The session has ended, and the client has been informed.
pub const GO_AWAY: CloseReason = (3000, "Go away!");
/// A connection that received or sent messages was lost; some messages may be lost.
pub const INTERRUPTED: CloseReason = (1002, "Connection interrupted");

/// How a session has ended.
#[derive(Debug)]
struct End {
    code: u16,
    reason: String,
    /// The client has been informed.
    is_sent: bool,
}

/// Queued messages, the request that waits for them, and the requests that send.
#[derive(Debug)]
pub struct PollQueue {
    /// The transport that opened the session.
    pub transport: Transport,
    /// The request that waits for messages.
    pub receiver: Option<ConnectionId>,
    /// The request whose messages are being read.
    pub sender: Option<ConnectionId>,
    waiting_senders: VecDeque<ConnectionId>,
    /// Each is a JSON string with its quotes.
    messages: VecDeque<Box<[u8]>>,
    /// Bytes of queued messages.
    pub message_bytes: usize,
    is_open: bool,
    is_heartbeat_due: bool,
    end: Option<End>,
    /// Bytes of messages in the current response.
    response_bytes: usize,
    /// When something was last written, or the last receiver left.
    last_activity: Duration,
    /// Work units to charge to the next receiver.
    deferred_cost: u32,
}

impl PollQueue {
    /// Creates the queue of a new session. The first response starts with an open frame.
    pub fn new(transport: Transport, now: Duration) -> PollQueue {
        PollQueue {
            transport,
            receiver: None,
            sender: None,
            waiting_senders: VecDeque::new(),
            messages: VecDeque::new(),
            message_bytes: 0,
            is_open: false,
            is_heartbeat_due: false,
            end: None,
            response_bytes: 0,
            last_activity: now,
            deferred_cost: 0,
        }
    }

    /// All current requests of the session.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionId> {
        self.receiver.into_iter().chain(self.sender).chain(self.waiting_senders.iter().copied())
    }

    /// When a heartbeat is due, or when the session times out.
    pub fn due(&self, heartbeat: Duration, disconnect_delay: Duration) -> Duration {
        self.last_activity + if self.receiver.is_some() { heartbeat } else { disconnect_delay }
    }

    /// Queues a message, a JSON string with its quotes. Fails and ends the session if more than `limit` bytes would be
    /// queued, unless the queue is empty.
    pub fn push(&mut self, message: Box<[u8]>, limit: usize, now: Duration) -> Result<(), Dropped> {
        let bytes = message.len() + MESSAGE_OVERHEAD;
        if !self.messages.is_empty() && self.message_bytes + bytes > limit {
            self.close(TOO_SLOW, "", now);
            return Err(Dropped);
        }
        self.message_bytes += bytes;
        self.messages.push_back(message);
        Ok(())
    }

    /// Ends the session. Only the newest [`MAX_CLOSING_BYTES`] of messages are kept, and none for a client that did not fetch
    /// them.
    pub fn close(&mut self, code: u16, reason: &str, now: Duration) {
        if self.end.is_some() {
            return;
        }
        self.end = Some(End { code, reason: reason.to_owned(), is_sent: false });
        if self.receiver.is_none() {
            self.last_activity = now;
        }
        // A client that has missed messages gets none of the rest.
        let kept = if code == TOO_SLOW { 0 } else { MAX_CLOSING_BYTES };
        while self.message_bytes > kept && self.take().is_some() {}
        self.messages.shrink_to_fit();
    }

    /// Requests a heartbeat for the receiver.
    pub fn request_heartbeat(&mut self, now: Duration) {
        self.is_heartbeat_due = true;
        self.last_activity = now;
    }

    /// Records work for the client while no connection can be charged.
    pub fn defer_cost(&mut self, units: u32) {
        self.deferred_cost = self.deferred_cost.saturating_add(units);
    }

    /// Attaches a request that receives. Returns the work units to charge to it.
    pub fn attach(&mut self, connection: ConnectionId) -> Result<u32, CloseReason> {
        if self.receiver.is_some() {
            return Err(STILL_OPEN);
        }
        if self.end.as_ref().is_some_and(|end| end.is_sent) {
            return Err(GO_AWAY);
        }
        self.receiver = Some(connection);
        self.response_bytes = 0;
        Ok(std::mem::take(&mut self.deferred_cost))
    }

    /// Writes queued messages into the receiver's response. When the response is complete, the receiver is detached.
    pub fn write_pending(&mut self, wrapper: &Wrapper<'_>, now: Duration, out: &mut Vec<u8>) -> Progress {
        let before = out.len();
        let taken = self.write(wrapper, out);
        if out.len() > before {
            self.last_activity = now;
            self.is_heartbeat_due = false;
        }
        if taken == Progress::Done {
            self.receiver = None;
            // Free the memory of the fetched messages.
            self.messages.shrink_to_fit();
        }
        taken
    }

    fn write(&mut self, wrapper: &Wrapper<'_>, out: &mut Vec<u8>) -> Progress {
        let is_polling = !wrapper.transport.is_streaming();
        if !std::mem::replace(&mut self.is_open, true) {
            wrapper.frame(out, OPEN);
            if is_polling {
                return Progress::Done;
            }
        }
        if is_polling && !self.messages.is_empty() {
            wrapper.frame(out, &self.batch_frame());
            return Progress::Done;
        }
        while let Some(message) = self.take() {
            let frame = [b"a[", &*message, b"]"].concat();
            wrapper.frame(out, &frame);
            self.response_bytes += frame.len() + 1;
            if self.response_bytes >= ANSWER_BYTES {
                return Progress::Done;
            }
            if out.len() >= CHUNK_BYTES {
                return Progress::Yield;
            }
        }
        if let Some(end) = &mut self.end {
            end.is_sent = true;
            wrapper.frame(out, &close_frame(end.code, &end.reason));
            return Progress::Done;
        }
        if self.is_heartbeat_due {
            wrapper.frame(out, HEARTBEAT);
            if is_polling {
                return Progress::Done;
            }
        }
        Progress::Streaming
    }

    /// Combines messages into one frame, up to the size of a response.
    fn batch_frame(&mut self) -> Vec<u8> {
        let mut frame = b"a[".to_vec();
        while let Some(message) = self.take() {
            frame.extend_from_slice(&message);
            frame.push(b',');
            if frame.len() >= ANSWER_BYTES {
                break;
            }
        }
        frame.pop();
        frame.push(b']');
        frame
    }

    fn take(&mut self) -> Option<Box<[u8]>> {
        let message = self.messages.pop_front()?;
        subtract(&mut self.message_bytes, message.len() + MESSAGE_OVERHEAD);
        Some(message)
    }

    /// Starts to read the messages of a request. Returns whether it is its turn; fails if too many requests wait.
    pub fn begin_sending(&mut self, connection: ConnectionId) -> Result<bool, Dropped> {
        if self.sender.is_none() {
            self.waiting_senders.retain(|waiting| *waiting != connection);
            self.sender = Some(connection);
            return Ok(true);
        }
        if !self.waiting_senders.contains(&connection) {
            if self.waiting_senders.len() >= MAX_WAITING_SENDERS {
                return Err(Dropped);
            }
            self.waiting_senders.push_back(connection);
        }
        Ok(false)
    }

    /// Ends the reading of a request's messages. Returns the next request to resume.
    pub fn end_sending(&mut self) -> Option<ConnectionId> {
        self.sender = None;
        self.waiting_senders.front().copied()
    }

    /// Handles a lost connection. Returns whether messages may be lost.
    pub fn on_disconnect(&mut self, connection: ConnectionId, now: Duration) -> bool {
        self.waiting_senders.retain(|waiting| *waiting != connection);
        let is_receiver = self.receiver.take_if(|receiver| *receiver == connection).is_some();
        if is_receiver {
            self.last_activity = now;
        }
        self.sender.take_if(|sender| *sender == connection).is_some() || is_receiver
    }
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
        String::from_utf8(close_frame(code, reason)).unwrap()
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

    const A: ConnectionId = ConnectionId(1);
    const B: ConnectionId = ConnectionId(2);
    const LIMIT: usize = 512 * 1024;
    const POLL: Wrapper<'_> = Wrapper { transport: Transport::Xhr, callback: "" };
    const STREAM: Wrapper<'_> = Wrapper { transport: Transport::XhrStreaming, callback: "" };

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn poll_queue(wrapper: &Wrapper<'_>) -> PollQueue {
        let mut poll_queue = PollQueue::new(wrapper.transport, at(0));
        assert_eq!(fetch(&mut poll_queue, wrapper, 0).0, "o\n");
        poll_queue
    }

    /// The response to a request of connection A, and its progress.
    fn fetch(poll_queue: &mut PollQueue, wrapper: &Wrapper<'_>, now: u64) -> (String, Progress) {
        if poll_queue.receiver.is_none() {
            poll_queue.attach(A).unwrap();
        }
        let mut out = Vec::new();
        let taken = poll_queue.write_pending(wrapper, at(now), &mut out);
        (String::from_utf8(out).unwrap(), taken)
    }

    fn post(poll_queue: &mut PollQueue, text: &str) -> Result<(), Dropped> {
        poll_queue.push(format!("\"{text}\"").into_bytes().into(), LIMIT, at(1))
    }

    #[test]
    fn polling_gets_all_queued_messages_at_once_and_streaming_one_frame_each() {
        let mut polled = poll_queue(&POLL);
        let mut streamed = poll_queue(&STREAM);
        assert_eq!((polled.receiver, streamed.receiver), (None, Some(A)));
        for poll_queue in [&mut polled, &mut streamed] {
            post(poll_queue, "x").unwrap();
            post(poll_queue, "y").unwrap();
        }
        assert_eq!(fetch(&mut polled, &POLL, 1), ("a[\"x\",\"y\"]\n".to_owned(), Progress::Done));
        assert_eq!(fetch(&mut streamed, &STREAM, 1), ("a[\"x\"]\na[\"y\"]\n".to_owned(), Progress::Streaming));
        assert_eq!((polled.message_bytes, streamed.message_bytes), (0, 0));
        assert_eq!(fetch(&mut polled, &POLL, 1), (String::new(), Progress::Streaming));
    }

    #[test]
    fn a_second_receiver_is_rejected_and_the_first_stays_attached() {
        let mut poll_queue = poll_queue(&STREAM);
        assert_eq!(poll_queue.attach(B), Err(STILL_OPEN));
        assert_eq!(poll_queue.receiver, Some(A));
    }

    #[test]
    fn a_streamed_response_ends_at_its_byte_limit_and_is_written_in_chunks() {
        let mut poll_queue = poll_queue(&STREAM);
        let text = "x".repeat(10_000);
        (0..20).for_each(|_| post(&mut poll_queue, &text).unwrap());
        let mut pieces = Vec::new();
        loop {
            let (piece, taken) = fetch(&mut poll_queue, &STREAM, 1);
            pieces.push(piece.len());
            if taken == Progress::Done {
                break;
            }
            assert_eq!(taken, Progress::Yield);
        }
        let sent: usize = pieces.iter().sum();
        assert!((ANSWER_BYTES..ANSWER_BYTES + 10_010).contains(&sent), "{sent}");
        assert!(pieces.len() > 3 && pieces.iter().all(|piece| *piece < CHUNK_BYTES + 10_010), "{pieces:?}");
        // The next response starts anew.
        assert_eq!(poll_queue.receiver, None);
        let (rest, taken) = fetch(&mut poll_queue, &STREAM, 1);
        assert!(rest.len() > 10_000 && taken == Progress::Yield);
    }

    #[test]
    fn a_poll_response_is_limited_in_bytes() {
        let mut poll_queue = poll_queue(&POLL);
        (0..20).for_each(|_| post(&mut poll_queue, &"x".repeat(10_000)).unwrap());
        let first = fetch(&mut poll_queue, &POLL, 1).0;
        assert!((ANSWER_BYTES..ANSWER_BYTES + 10_010).contains(&first.len()));
        assert_eq!(first.len() + fetch(&mut poll_queue, &POLL, 1).0.len(), 20 * 10_003 + 6);
    }

    #[test]
    fn a_heartbeat_ends_a_poll_and_continues_a_stream() {
        for (wrapper, taken) in [(POLL, Progress::Done), (STREAM, Progress::Streaming)] {
            let mut poll_queue = poll_queue(&wrapper);
            assert_eq!(fetch(&mut poll_queue, &wrapper, 3), (String::new(), Progress::Streaming));
            assert_eq!(poll_queue.due(at(25), at(5)), at(25), "what was written last was written at 0");
            poll_queue.request_heartbeat(at(25));
            assert_eq!(fetch(&mut poll_queue, &wrapper, 26), ("h\n".to_owned(), taken));
            assert_eq!(poll_queue.due(at(25), at(5)), if taken == Progress::Streaming { at(51) } else { at(31) });
        }
    }

    #[test]
    fn a_closed_session_reports_its_close_code_once_and_then_go_away() {
        let mut poll_queue = poll_queue(&POLL);
        post(&mut poll_queue, "last").unwrap();
        poll_queue.close(1002, "", at(2));
        poll_queue.close(1000, "another", at(3));
        assert_eq!(poll_queue.due(at(25), at(5)), at(7));
        assert_eq!(fetch(&mut poll_queue, &POLL, 3), ("a[\"last\"]\n".to_owned(), Progress::Done));
        assert_eq!(fetch(&mut poll_queue, &POLL, 3), ("c[1002,\"null\"]\n".to_owned(), Progress::Done));
        assert_eq!(poll_queue.attach(A), Err(GO_AWAY));
    }

    #[test]
    fn a_client_that_does_not_poll_loses_the_session_and_its_queue() {
        let mut poll_queue = poll_queue(&POLL);
        let text = "x".repeat(100_000);
        let posted = (0..10).take_while(|_| post(&mut poll_queue, &text).is_ok()).count();
        assert_eq!((posted, poll_queue.message_bytes), (5, 0));
        assert_eq!(fetch(&mut poll_queue, &POLL, 1).0, "c[4500,\"null\"]\n");
    }

    #[test]
    fn one_message_of_any_size_is_queued() {
        let mut poll_queue = poll_queue(&POLL);
        post(&mut poll_queue, &"x".repeat(2 * LIMIT)).unwrap();
        assert_eq!(fetch(&mut poll_queue, &POLL, 1).0.len(), 2 * LIMIT + 6);
        assert!(post(&mut poll_queue, "y").is_ok());
    }

    #[test]
    fn send_requests_are_serialised_and_their_queue_is_limited() {
        let mut poll_queue = poll_queue(&POLL);
        assert_eq!(poll_queue.begin_sending(A), Ok(true));
        let others = (10..).map(ConnectionId);
        let waiting = others.take_while(|other| poll_queue.begin_sending(*other) == Ok(false)).count();
        assert_eq!(waiting, MAX_WAITING_SENDERS);
        assert_eq!(poll_queue.begin_sending(ConnectionId(10)), Ok(false), "it waits already");
        assert_eq!(poll_queue.end_sending(), Some(ConnectionId(10)));
        assert_eq!(poll_queue.begin_sending(ConnectionId(10)), Ok(true));
        assert!(!poll_queue.on_disconnect(ConnectionId(11), at(1)), "nothing of it was read");
        assert!(poll_queue.on_disconnect(ConnectionId(10), at(1)));
        assert_eq!(poll_queue.end_sending(), Some(ConnectionId(12)));
    }

    proptest! {
        #[test]
        fn all_messages_are_delivered_once_and_in_order(
            steps in proptest::collection::vec((0u8..4, 0usize..40_000), 1..60),
            is_streaming: bool,
        ) {
            let wrapper = if is_streaming { STREAM } else { POLL };
            let mut poll_queue = poll_queue(&wrapper);
            let (mut posted, mut got) = (Vec::new(), Vec::new());
            let mut receive = |poll_queue: &mut PollQueue| {
                let (text, taken) = fetch(poll_queue, &wrapper, 1);
                for line in text.lines().filter_map(|line| line.strip_prefix('a')) {
                    got.extend(serde_json::from_str::<Vec<String>>(line).unwrap());
                }
                taken
            };
            for (step, size) in steps {
                match step {
                    0 | 1 => {
                        let text = format!("{}{}", posted.len(), "x".repeat(size));
                        let held = poll_queue.message_bytes;
                        if post(&mut poll_queue, &text).is_err() {
                            prop_assert!(held + size > LIMIT - 100);
                            return Ok(());
                        }
                        posted.push(text);
                    }
                    2 => drop(receive(&mut poll_queue)),
                    _ => poll_queue.request_heartbeat(at(2)),
                }
                prop_assert!(poll_queue.message_bytes <= LIMIT);
            }
            for _ in 0..1000 {
                if receive(&mut poll_queue) == Progress::Streaming {
                    break;
                }
            }
            prop_assert_eq!(poll_queue.message_bytes, 0);
            prop_assert_eq!(got, posted);
        }
    }
}
