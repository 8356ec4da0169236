//! Server-side websockets (RFC 6455), without sockets or clocks.
//!
//! [`handshake()`] answers the upgrade request. [`WsConnection`] parses received bytes into [`WsEvent`]s and writes
//! frames. It uses tungstenite's frame layer (header codec, opcodes, close codes) instead of its `WebSocket`, for three
//! reasons: 2,000 idle subscribers must hold no buffers, but `WebSocket` keeps one for its lifetime; NIS1's close
//! reasons say whether a message that is too long was text or binary, which its errors do not; and frames go straight
//! into the send queue, without a second buffer.

use std::borrow::Cow;
use std::io::Cursor;
use std::mem;

use tungstenite::handshake::derive_accept_key;
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};

use super::http::{HttpError, Request, Response};
use super::socket::RecvBuffer;

/// Answers an upgrade request whose method is GET: upgrades the connection, or sets status, body and the headers of the
/// rejection; other headers stay. Returns whether it is upgraded.
///
/// As in NIS1, the key need not be base64 and the origin is not checked. Offered extensions are ignored.
pub fn handshake(request: &Request<'_>, response: &mut Response) -> bool {
    let upgrade = request.header("Upgrade").unwrap_or_default();
    response.body.clear();
    if !upgrade.trim().eq_ignore_ascii_case("websocket") {
        response.status = 400;
        response.body.extend_from_slice(b"Can \"Upgrade\" only to \"WebSocket\".");
    } else if !request.header_has_token("Connection", "upgrade") {
        HttpError::malformed("Bad Request").fill_response(response);
    } else if request.header("Sec-WebSocket-Version") != Some("13") {
        response.status = 426;
        response.header("Sec-WebSocket-Version", "13");
    } else if let Some(key) = request.header("Sec-WebSocket-Key") {
        response.upgrade = Some(derive_accept_key(key.as_bytes()));
    } else {
        response.status = 400;
    }
    response.upgrade.is_some()
}

/// Returns the first protocol in the client's `Sec-WebSocket-Protocol` headers that is `supported` (ignoring case),
/// spelt as the client did.
pub fn negotiate_subprotocol<'a>(offers: impl Iterator<Item = &'a str>, supported: &[&str]) -> Option<&'a str> {
    offers
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .find(|offer| supported.iter().any(|name| name.eq_ignore_ascii_case(offer)))
}

/// Bytes of one reassembled message. A longer one closes the websocket with code 1009.
pub const MESSAGE_LIMIT: usize = 65_536;

/// Payload bytes of a control frame (RFC 6455 §5.5).
const CONTROL_LIMIT: usize = 125;

const UNMASKED: &str = "Client MUST mask all frames (RFC-6455: Section 5.1)";

/// Input from a client.
#[derive(Debug, PartialEq, Eq)]
pub enum WsEvent<'a> {
    /// A complete message, possibly empty. Text is valid UTF-8.
    Message {
        /// The payload.
        data: &'a [u8],
        /// The message was sent as text, not as binary.
        is_text: bool,
    },
    /// The websocket has ended, and the closing frame has been written. The last event.
    Closed(WsEnd),
}

/// How a websocket ends.
#[derive(Debug, PartialEq, Eq)]
pub struct WsEnd {
    /// Close code: the client's (1005 if it sent none), or that of its protocol violation.
    pub code: u16,
    /// Close reason, likewise.
    pub reason: Cow<'static, str>,
    /// The client began the closing handshake and will send nothing more.
    pub by_client: bool,
}

/// The receiving half of a websocket. By default it is newly opened. Between messages it holds no memory.
#[derive(Debug, Default)]
pub struct WsConnection {
    /// What was received of the next frame.
    pub buffer: RecvBuffer,
    /// Fragments of the incomplete message.
    message: Vec<u8>,
    /// Whether the incomplete message is text; `None` between messages.
    partial_is_text: Option<bool>,
    /// Frames read since the last count.
    frames: u32,
    is_closed: bool,
}

/// Result of reading one frame.
enum Step {
    /// The frame is incomplete.
    Wait,
    /// The frame was handled; no event.
    Continue,
    /// A message: the last taken bytes, of this number, if it came in one frame; else the fragments together.
    Message { is_text: bool, length: Option<usize> },
}

impl WsConnection {
    /// Appends received bytes, or drops them once the websocket is closed.
    pub fn receive(&mut self, bytes: &[u8]) {
        if self.is_closed {
            return;
        }
        self.buffer.receive(bytes);
    }

    /// Returns the next event; `None` if more bytes are needed. Appends pongs and close frames to `out`.
    pub fn next_event(&mut self, out: &mut Vec<u8>) -> Option<WsEvent<'_>> {
        let (is_text, length) = loop {
            if self.is_closed {
                return None;
            }
            match self.step(out) {
                Ok(Step::Wait) => return None,
                Ok(Step::Continue) => {}
                Ok(Step::Message { is_text, length }) => break (is_text, length),
                Err(end) => {
                    if !end.by_client {
                        write_close(end.code, &end.reason, out);
                    }
                    *self = Self { is_closed: true, ..Self::default() };
                    return Some(WsEvent::Closed(end));
                }
            }
        };
        let data = length.map_or(self.message.as_slice(), |length| self.buffer.taken(length));
        Some(WsEvent::Message { data, is_text })
    }

    /// Returns the number of frames of any kind read since the last call.
    pub fn take_frames(&mut self) -> u32 {
        mem::take(&mut self.frames)
    }

    /// Returns the allocated bytes.
    pub fn held_bytes(&self) -> usize {
        self.buffer.held_bytes() + self.message.capacity()
    }

    /// Returns lent storage. Unread bytes move to an allocation of their own of exactly their size.
    pub fn release(&mut self, storage: &mut Vec<u8>) {
        if self.partial_is_text.is_none() {
            self.message = Vec::new();
        }
        self.buffer.release(storage);
    }

    /// Takes one frame from the buffer.
    fn step(&mut self, out: &mut Vec<u8>) -> Result<Step, WsEnd> {
        let mut cursor = Cursor::new(self.buffer.unread());
        let parsed = FrameHeader::parse(&mut cursor).map_err(|_| protocol("Unknown opcode"))?;
        let Some((header, length)) = parsed else { return Ok(Step::Wait) };
        let header_length = usize::try_from(cursor.position()).unwrap_or(usize::MAX);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let is_text = self.check(&header, length)?;
        if self.buffer.unread().len().saturating_sub(header_length) < length {
            return Ok(Step::Wait);
        }
        self.frames = self.frames.saturating_add(1);
        self.buffer.take(header_length);
        let payload = self.buffer.take(length);
        unmask(payload, header.mask.unwrap_or_default());
        match header.opcode {
            OpCode::Control(Control::Ping) => {
                write_frame(OpCode::Control(Control::Pong), payload, out);
                Ok(Step::Continue)
            }
            OpCode::Control(Control::Close) => Err(echo_close(payload, out)?),
            OpCode::Control(_) => Ok(Step::Continue),
            OpCode::Data(_) => self.data(is_text, header.is_final, length),
        }
    }

    /// Validates a frame header before its payload has arrived. Returns whether it belongs to a text message.
    fn check(&self, header: &FrameHeader, length: usize) -> Result<bool, WsEnd> {
        if header.rsv1 || header.rsv2 || header.rsv3 {
            return Err(protocol("RSV bit set without an extension"));
        }
        if header.mask.is_none() {
            return Err(protocol(UNMASKED));
        }
        let is_text = match (header.opcode, self.partial_is_text) {
            (OpCode::Control(_), _) if !header.is_final => Err("Fragmented control frame"),
            (OpCode::Control(_), _) if length > CONTROL_LIMIT => Err("Control frame too long"),
            (OpCode::Control(_), _) => return Ok(false),
            (OpCode::Data(Data::Continue), Some(is_text)) => Ok(is_text),
            (OpCode::Data(Data::Continue), None) => Err("Continuation without a message"),
            (OpCode::Data(_), Some(_)) => Err("Message within a message"),
            (OpCode::Data(kind), None) => Ok(kind == Data::Text),
        }
        .map_err(protocol)?;
        let size = self.partial_is_text.map_or(0, |_| self.message.len()).saturating_add(length);
        if size > MESSAGE_LIMIT {
            let name = if is_text { "Text" } else { "Binary" };
            let reason = format!("{name} message size [{size}] exceeds maximum size [{MESSAGE_LIMIT}]");
            return Err(violation(CloseCode::Size, reason));
        }
        Ok(is_text)
    }

    /// Handles a data frame whose payload is the last `length` bytes taken.
    fn data(&mut self, is_text: bool, is_final: bool, length: usize) -> Result<Step, WsEnd> {
        let payload = self.buffer.taken(length);
        if self.partial_is_text.is_none() {
            if is_final {
                check_text(is_text, payload)?;
                return Ok(Step::Message { is_text, length: Some(length) });
            }
            self.message.clear();
        }
        self.message.extend_from_slice(payload);
        self.partial_is_text = Some(is_text).filter(|_| !is_final);
        if !is_final {
            return Ok(Step::Continue);
        }
        check_text(is_text, &self.message)?;
        Ok(Step::Message { is_text, length: None })
    }
}

/// Echoes a close frame with the same code and reason. Fails if it violates the protocol.
fn echo_close(payload: &[u8], out: &mut Vec<u8>) -> Result<WsEnd, WsEnd> {
    let (code, reason) = match payload.split_first_chunk() {
        Some((code, reason)) => (u16::from_be_bytes(*code), reason),
        None if payload.is_empty() => (CloseCode::Status.into(), payload),
        None => return Err(protocol("Invalid close frame")),
    };
    if !payload.is_empty() && !CloseCode::from(code).is_allowed() {
        return Err(protocol("Invalid close code"));
    }
    let reason = check_utf8(reason)?;
    write_frame(OpCode::Control(Control::Close), payload, out);
    Ok(WsEnd { code, reason: Cow::Owned(reason.to_owned()), by_client: true })
}

fn violation(code: CloseCode, reason: impl Into<Cow<'static, str>>) -> WsEnd {
    WsEnd { code: code.into(), reason: reason.into(), by_client: false }
}

fn protocol(reason: &'static str) -> WsEnd {
    violation(CloseCode::Protocol, reason)
}

fn check_text(is_text: bool, data: &[u8]) -> Result<(), WsEnd> {
    if is_text { check_utf8(data).map(drop) } else { Ok(()) }
}

fn check_utf8(text: &[u8]) -> Result<&str, WsEnd> {
    std::str::from_utf8(text).map_err(|_| violation(CloseCode::Invalid, "Invalid UTF-8"))
}

fn unmask(payload: &mut [u8], mask: [u8; 4]) {
    let (words, rest) = payload.as_chunks_mut::<4>();
    for word in words {
        *word = (u32::from_ne_bytes(*word) ^ u32::from_ne_bytes(mask)).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(mask) {
        *byte ^= key;
    }
}

/// Appends the header of a text message to `out`. Its `length` bytes follow as one frame.
pub fn write_text_head(length: usize, out: &mut Vec<u8>) {
    let header = FrameHeader { opcode: OpCode::Data(Data::Text), ..FrameHeader::default() };
    // Writing to a vector cannot fail.
    let _ = header.format(length as u64, out);
}

/// Appends a close frame to `out`. A reason that does not fit a control frame is truncated.
pub fn write_close(code: u16, reason: &str, out: &mut Vec<u8>) {
    let fitting = reason.floor_char_boundary(CONTROL_LIMIT - 2);
    let payload = [&code.to_be_bytes(), &reason.as_bytes()[..fitting]].concat();
    write_frame(OpCode::Control(Control::Close), &payload, out);
}

/// Appends an empty ping to `out`.
pub fn write_ping(out: &mut Vec<u8>) {
    write_frame(OpCode::Control(Control::Ping), &[], out);
}

fn write_frame(opcode: OpCode, payload: &[u8], out: &mut Vec<u8>) {
    let header = FrameHeader { opcode, ..FrameHeader::default() };
    let length = payload.len() as u64;
    out.reserve(header.len(length) + payload.len());
    // Writing to a vector cannot fail.
    let _ = header.format(length, out);
    out.extend_from_slice(payload);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An owned event.
    #[derive(Debug, PartialEq, Eq)]
    enum Got {
        Text(String),
        Binary(Vec<u8>),
        Closed(u16, String, bool),
    }

    fn receive(bytes: &[u8], cuts: &[usize]) -> (Vec<Got>, Vec<u8>) {
        let (mut ws, mut out, mut got) = (WsConnection::default(), Vec::new(), Vec::new());
        let mut spare = Vec::with_capacity(16);
        let mut at = 0;
        for cut in cuts.iter().copied().chain([bytes.len()]) {
            let cut = cut.clamp(at, bytes.len());
            ws.buffer.acquire(&mut spare);
            ws.receive(&bytes[at..cut]);
            at = cut;
            while let Some(event) = ws.next_event(&mut out) {
                got.push(match event {
                    WsEvent::Message { data, is_text } if is_text => {
                        Got::Text(String::from_utf8(data.to_vec()).unwrap())
                    }
                    WsEvent::Message { data, .. } => Got::Binary(data.to_vec()),
                    WsEvent::Closed(end) => Got::Closed(end.code, end.reason.into_owned(), end.by_client),
                });
            }
            ws.release(&mut spare);
        }
        (got, out)
    }

    fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![first];
        match payload.len() {
            short @ 0..126 => frame.push(0x80 | short as u8),
            middle @ 126..65_536 => {
                frame.push(0x80 | 126);
                frame.extend((middle as u16).to_be_bytes());
            }
            long => {
                frame.push(0x80 | 127);
                frame.extend((long as u64).to_be_bytes());
            }
        }
        let mask = [1, 2, 3, 4];
        frame.extend(mask);
        let keys = mask.iter().cycle();
        frame.extend(payload.iter().zip(keys).map(|(byte, key)| byte ^ key));
        frame
    }

    /// Returns code and reason of the close frame in `out`.
    fn close_frame(out: &[u8]) -> (u16, &str) {
        assert_eq!((out[0], usize::from(out[1])), (0x88, out.len() - 2));
        let reason = std::str::from_utf8(&out[4..]).unwrap();
        (u16::from_be_bytes([out[2], out[3]]), reason)
    }

    #[test]
    fn a_fragmented_message_is_joined_around_a_ping() {
        let bytes = [
            masked(0x01, b"he"),
            masked(0x89, b"ping"),
            masked(0x00, b""),
            masked(0x80, b"llo"),
            masked(0x82, &[0xff]),
            masked(0x8a, b"unasked pong"),
        ]
        .concat();
        for cut in 0..bytes.len() {
            let (got, out) = receive(&bytes, &[cut]);
            assert_eq!(got, [Got::Text("hello".into()), Got::Binary(vec![0xff])]);
            assert_eq!(out, b"\x8a\x04ping");
        }
    }

    #[test]
    fn each_violation_is_answered_with_its_code() {
        let frame = |first: u8, rest: &[u8]| [&[first], rest].concat();
        let mut unmasked = frame(0x81, &[2]);
        unmasked.extend(b"hi");
        for (bytes, code, reason) in [
            (unmasked, 1002, UNMASKED),
            (masked(0xc1, b"x"), 1002, "RSV bit set without an extension"),
            (masked(0x83, b"x"), 1002, "Unknown opcode"),
            (masked(0x8b, b"x"), 1002, "Unknown opcode"),
            (masked(0x80, b"x"), 1002, "Continuation without a message"),
            (masked(0x09, b"x"), 1002, "Fragmented control frame"),
            (masked(0x89, &[0; 126]), 1002, "Control frame too long"),
            (masked(0x81, b"\xc3\x28"), 1007, "Invalid UTF-8"),
            (masked(0x88, b"x"), 1002, "Invalid close frame"),
            (masked(0x88, &999_u16.to_be_bytes()), 1002, "Invalid close code"),
            (masked(0x88, &1005_u16.to_be_bytes()), 1002, "Invalid close code"),
            (masked(0x88, b"\x03\xe8\xff"), 1007, "Invalid UTF-8"),
            ([masked(0x01, b"a"), masked(0x81, b"b")].concat(), 1002, "Message within a message"),
            ([masked(0x01, b"\xc3"), masked(0x80, b"x")].concat(), 1007, "Invalid UTF-8"),
        ] {
            let bytes = [bytes, masked(0x81, b"after")].concat();
            let (got, out) = receive(&bytes, &[]);
            assert_eq!(got, [Got::Closed(code, reason.to_owned(), false)]);
            assert_eq!(close_frame(&out), (code, reason));
        }
    }

    #[test]
    fn the_limit_on_messages_is_exact_for_whole_and_fragmented_ones() {
        let whole = vec![b'a'; MESSAGE_LIMIT];
        let (got, _) = receive(&masked(0x81, &whole), &[]);
        assert_eq!(got, [Got::Text(String::from_utf8(whole.clone()).unwrap())]);
        let fragments = [masked(0x02, &whole), masked(0x80, b"b")].concat();
        for (bytes, reason) in [
            (masked(0x81, &[&whole[..], b"b"].concat()), "Text message size [65537] exceeds maximum size [65536]"),
            (fragments, "Binary message size [65537] exceeds maximum size [65536]"),
        ] {
            let (_, out) = receive(&bytes, &[]);
            assert_eq!(close_frame(&out), (1009, reason));
        }
        let huge = b"\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0";
        let (_, out) = receive(huge, &[]);
        assert_eq!(close_frame(&out).0, 1009);
    }

    #[test]
    fn a_close_frame_is_echoed() {
        let (got, out) = receive(&masked(0x88, b"\x0f\xa0bye"), &[]);
        assert_eq!(got, [Got::Closed(4000, "bye".into(), true)]);
        assert_eq!(close_frame(&out), (4000, "bye"));
        let (got, out) = receive(&masked(0x88, b""), &[]);
        assert_eq!(got, [Got::Closed(1005, String::new(), true)]);
        assert_eq!(out, b"\x88\x00");
    }

    #[test]
    fn a_long_close_reason_is_truncated_between_characters() {
        let mut out = Vec::new();
        write_close(1001, &"é".repeat(100), &mut out);
        let (code, reason) = close_frame(&out);
        assert_eq!((code, reason), (1001, "é".repeat(61).as_str()));
    }

    #[test]
    fn a_websocket_between_messages_holds_no_memory() {
        let (mut ws, mut spare) = (WsConnection::default(), Vec::with_capacity(100));
        ws.buffer.acquire(&mut spare);
        ws.receive(&[masked(0x01, &[b'a'; 5000]), masked(0x80, b"b")].concat());
        assert!(ws.next_event(&mut Vec::new()).is_some());
        assert!(ws.next_event(&mut Vec::new()).is_none());
        ws.release(&mut spare);
        assert_eq!(ws.held_bytes(), 0);
        assert!(spare.capacity() >= 5000);
    }

    /// Encodes messages with an independent implementation.
    fn by_tungstenite(messages: &[(bool, String)]) -> Vec<u8> {
        use tungstenite::protocol::{Role, WebSocket};
        let stream = Cursor::new(Vec::new());
        let mut client = WebSocket::from_raw_socket(stream, Role::Client, None);
        for (is_text, text) in messages {
            let message = if *is_text {
                tungstenite::Message::text(text.clone())
            } else {
                tungstenite::Message::binary(text.clone().into_bytes())
            };
            client.send(message).unwrap();
        }
        client.into_inner().into_inner()
    }

    proptest! {
        #[test]
        fn messages_of_another_implementation_are_read_in_any_pieces(
            messages in prop::collection::vec((any::<bool>(), ".{0,200}"), 0..6),
            mut cuts in prop::collection::vec(0..2000usize, 0..10),
        ) {
            cuts.sort_unstable();
            let (got, out) = receive(&by_tungstenite(&messages), &cuts);
            let expected: Vec<Got> = messages
                .into_iter()
                .map(|(is_text, text)| if is_text { Got::Text(text) } else { Got::Binary(text.into_bytes()) })
                .collect();
            prop_assert_eq!(got, expected);
            prop_assert!(out.is_empty());
        }

        #[test]
        fn arbitrary_bytes_do_not_panic_and_splitting_changes_nothing(
            frames in prop::collection::vec(
                prop_oneof![
                    prop::collection::vec(any::<u8>(), 0..20),
                    (any::<u8>(), prop::collection::vec(any::<u8>(), 0..150))
                        .prop_map(|(first, payload)| masked(first, &payload)),
                    (any::<bool>(), "[a-zé]{0,9}").prop_map(|(last, text)| {
                        masked(if last { 0x81 } else { 0x01 }, text.as_bytes())
                    }),
                    Just(masked(0x80, b"end")),
                ],
                0..8,
            ),
            mut cuts in prop::collection::vec(0..800usize, 0..8),
        ) {
            cuts.sort_unstable();
            let bytes = frames.concat();
            prop_assert_eq!(receive(&bytes, &cuts), receive(&bytes, &[]));
        }
    }
}

#[cfg(test)]
mod handshake_tests {
    use super::*;
    use crate::http::RequestReader;

    fn decide(headers: &str) -> Response {
        let (mut reader, mut response) = (RequestReader::new(0), Response::new());
        reader.receive(format!("GET / HTTP/1.1\r\nHost: a\r\n{headers}\r\n").as_bytes());
        let is_upgraded = handshake(&reader.next_request().unwrap().unwrap(), &mut response);
        assert_eq!(is_upgraded, response.upgrade.is_some());
        response
    }

    const UPGRADE: &str = "upgrade: WebSocket\r\n";
    const CONNECTION: &str = "Connection: keep-alive, Upgrade\r\n";
    const VERSION: &str = "Sec-WebSocket-Version: 13\r\n";
    const KEY: &str = "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n";

    #[test]
    fn the_worked_key_gives_the_worked_accept_value() {
        let accept = |key: &str| decide(&[UPGRADE, CONNECTION, VERSION, key].concat()).upgrade;
        assert_eq!(accept(KEY).unwrap(), "BACScCJPNqyz+UBoqMH89VmURoA=");
        assert!(accept("Sec-WebSocket-Key: x\r\n").is_some());
    }

    #[test]
    fn each_missing_header_has_its_own_answer() {
        for (headers, status, body, closes) in [
            ([CONNECTION, VERSION, KEY].concat(), 400, 34, false),
            (["Upgrade: h2c\r\n", CONNECTION, VERSION, KEY].concat(), 400, 34, false),
            ([UPGRADE, "Connection: close\r\n", VERSION, KEY].concat(), 400, 54, true),
            ([UPGRADE, CONNECTION, "Sec-WebSocket-Version: 8\r\n", KEY].concat(), 426, 0, false),
            ([UPGRADE, CONNECTION, VERSION].concat(), 400, 0, false),
        ] {
            let response = decide(&headers);
            assert_eq!((response.status, response.body.len(), response.close), (status, body, closes), "{headers}");
            assert_eq!(response.upgrade, None);
        }
    }

    #[test]
    fn the_first_supported_subprotocol_of_the_client_is_chosen_as_spelt() {
        let supported = ["v10.stomp", "v11.stomp", "v12.stomp"];
        for (offers, expected) in [
            (&["foo, V12.STOMP, v10.stomp"][..], Some("V12.STOMP")),
            (&["foo", " v11.stomp "], Some("v11.stomp")),
            (&["foo"], None),
            (&[], None),
        ] {
            let offers = offers.iter().copied();
            assert_eq!(negotiate_subprotocol(offers, &supported), expected);
        }
    }
}
