//! Reader of a connection that inspects only as much as needed to count messages.

use std::time::Instant;

use crate::common::websocket::{TEXT, encode};

/// Inspected bytes of each message: its head and the start of its body.
const INSPECTED_BYTES: usize = 400;
/// Bytes of a body that distinguish it from others: all start with times, amounts or hashes.
const DISTINCTIVE_BYTES: usize = 72;

/// Something that arrived.
pub enum Arrival<'a> {
    /// A response with this status.
    Answer(u16),
    /// A complete websocket text message, by its first bytes.
    Text(&'a [u8]),
    /// The code with which the node closes a websocket.
    Close(u16),
}

/// Follows the bytes of one connection: responses first, and websocket frames after a response with status 101.
#[derive(Default)]
pub struct Reader {
    is_upgraded: bool,
    /// The received part of an incomplete item.
    part: Vec<u8>,
    /// Number of following bytes that are not inspected.
    skip: usize,
    /// The start of the message that these bytes complete.
    message_start: Option<Vec<u8>>,
}

impl Reader {
    /// Returns how many of the next bytes may be discarded unread.
    pub fn skippable(&self) -> usize {
        self.skip
    }

    /// Records discarded bytes; returns the first bytes of the message that they completed, if any.
    pub fn record_skipped(&mut self, count: usize) -> Option<Vec<u8>> {
        self.skip -= count;
        if self.skip > 0 { None } else { self.message_start.take() }
    }

    /// Returns whether the connection is a websocket now.
    pub fn is_websocket(&self) -> bool {
        self.is_upgraded
    }

    /// Processes bytes and reports what arrived.
    pub fn take(&mut self, bytes: &[u8], mut arrived: impl FnMut(Arrival<'_>)) {
        let unseen = self.skip.min(bytes.len());
        if let Some(text) = self.record_skipped(unseen) {
            arrived(Arrival::Text(&text));
        }
        self.part.extend_from_slice(&bytes[unseen..]);
        let part = std::mem::take(&mut self.part);
        let mut rest = part.as_slice();
        while let Some(length) = self.next_item(rest, &mut arrived) {
            let here = length.min(rest.len());
            self.skip = length - here;
            if self.skip == 0
                && let Some(text) = self.message_start.take()
            {
                arrived(Arrival::Text(&text));
            }
            rest = &rest[here..];
        }
        self.part = rest.to_vec();
    }

    /// Returns the length of the first complete item in `bytes`; for long ones the start suffices.
    fn next_item(&mut self, bytes: &[u8], arrived: &mut impl FnMut(Arrival<'_>)) -> Option<usize> {
        if self.is_upgraded {
            self.frame(bytes, arrived)
        } else {
            let (status, length) = answer(bytes)?;
            self.is_upgraded = status == 101;
            arrived(Arrival::Answer(status));
            Some(length)
        }
    }

    /// Returns the length of a frame whose start is present.
    fn frame(&mut self, bytes: &[u8], arrived: &mut impl FnMut(Arrival<'_>)) -> Option<usize> {
        let (&[first, second], rest) = bytes.split_first_chunk()?;
        let (head, length) = match second {
            126 => (4, usize::from(u16::from_be_bytes(*rest.first_chunk()?))),
            127 => (10, u64::from_be_bytes(*rest.first_chunk()?) as usize),
            length => (2, usize::from(length)),
        };
        let payload = bytes.get(head..head + length.min(INSPECTED_BYTES))?;
        match first & 0x0f {
            1 => self.message_start = Some(payload.to_vec()),
            8 => arrived(Arrival::Close(payload.first_chunk().map_or(1005, |code| u16::from_be_bytes(*code)))),
            _ => {}
        }
        Some(head + length)
    }
}

/// Returns the status and the length of a response whose head is present, and its body too if it comes in chunks.
fn answer(bytes: &[u8]) -> Option<(u16, usize)> {
    const LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&bytes[..end]).unwrap_or_default();
    let status = head.get(9..12).and_then(|code| code.parse().ok()).unwrap_or(0);
    let header = |wanted: &str| {
        let mut pairs = head.lines().filter_map(|line| line.split_once(':'));
        pairs.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
    };
    let body = match header("transfer-encoding") {
        Some(_) => {
            let last = bytes[end..].windows(LAST_CHUNK.len()).position(|window| window == LAST_CHUNK)?;
            last + LAST_CHUNK.len()
        }
        None => header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0),
    };
    Some((status, end + body))
}

/// Returns the topic and the first bytes of the body of a MESSAGE; `None` for other frames.
pub fn message_name(text: &[u8]) -> Option<Vec<u8>> {
    let rest = text.strip_prefix(b"MESSAGE\ndestination:")?;
    let topic = rest.split(|byte| *byte == b'\n').next()?;
    let body = rest.windows(2).position(|window| window == b"\n\n")? + 2;
    let body = &rest[body..rest.len().min(body + DISTINCTIVE_BYTES)];
    Some([topic, b" ", body].concat())
}

/// Returns the announced length of the body of a MESSAGE.
pub fn message_length(text: &[u8]) -> usize {
    const NAME: &[u8] = b"\ncontent-length:";
    let place = text.windows(NAME.len()).position(|window| window == NAME).map(|place| place + NAME.len());
    let digits = text[place.unwrap_or(text.len())..].iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'))
}

/// When a message reached its first and its last session, how often it was sent, and the length of its body.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    pub first: Instant,
    pub last: Instant,
    pub times: usize,
    pub bytes: usize,
}

/// Packs STOMP frames into as few messages as possible.
pub fn messages_of(frames: impl IntoIterator<Item = String>) -> Vec<u8> {
    let (mut bytes, mut text) = (Vec::new(), String::new());
    for frame in frames {
        if text.len() + frame.len() > MAX_MESSAGE {
            bytes.extend(encode(true, TEXT, std::mem::take(&mut text).as_bytes()));
        }
        text.push_str(&frame);
    }
    bytes.extend(encode(true, TEXT, text.as_bytes()));
    bytes
}

/// Maximum size of a message that a node accepts.
pub const MAX_MESSAGE: usize = 65_536;
