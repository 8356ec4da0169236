//! What comes back on a connection, looked at no more closely than is needed to count it.

use std::time::Instant;

/// Of every message so much is looked at: its head and the beginning of its body.
const SEEN: usize = 400;
/// Of a body so much tells it from others: all of them begin with times, amounts or hashes.
const NAMED_BY: usize = 72;

/// Something that came in.
pub enum Arrival<'a> {
    /// An answer with this status.
    Answer(u16),
    /// A text message of a websocket, by its first bytes: it has come to its end.
    Text(&'a [u8]),
    /// The code with which the node closes a websocket.
    Close(u16),
}

/// Follows the bytes of one connection: answers first, and frames of a websocket after an answer with 101.
#[derive(Default)]
pub struct Reader {
    speaks_frames: bool,
    /// What has come of something that is not whole.
    part: Vec<u8>,
    /// Bytes that follow and are not looked at.
    skip: usize,
    /// The beginning of a message whose end these bytes are.
    begun: Option<Vec<u8>>,
}

impl Reader {
    /// How many of the next bytes may be thrown away unread.
    pub fn skippable(&self) -> usize {
        self.skip
    }

    /// So many bytes were thrown away; the first bytes of the message that ended with them, if one did.
    pub fn skipped(&mut self, count: usize) -> Option<Vec<u8>> {
        self.skip -= count;
        if self.skip > 0 { None } else { self.begun.take() }
    }

    /// Whether the connection has become a websocket.
    pub fn is_websocket(&self) -> bool {
        self.speaks_frames
    }

    /// Takes bytes and says what they bring.
    pub fn take(&mut self, bytes: &[u8], mut arrived: impl FnMut(Arrival<'_>)) {
        let unseen = self.skip.min(bytes.len());
        if let Some(text) = self.skipped(unseen) {
            arrived(Arrival::Text(&text));
        }
        self.part.extend_from_slice(&bytes[unseen..]);
        let part = std::mem::take(&mut self.part);
        let mut rest = part.as_slice();
        while let Some(length) = self.one(rest, &mut arrived) {
            let here = length.min(rest.len());
            self.skip = length - here;
            if self.skip == 0
                && let Some(text) = self.begun.take()
            {
                arrived(Arrival::Text(&text));
            }
            rest = &rest[here..];
        }
        self.part = rest.to_vec();
    }

    /// The length of the first whole thing in `bytes`; of long ones the beginning is enough.
    fn one(&mut self, bytes: &[u8], arrived: &mut impl FnMut(Arrival<'_>)) -> Option<usize> {
        match self.speaks_frames {
            true => self.frame(bytes, arrived),
            false => {
                let (status, length) = answer(bytes)?;
                self.speaks_frames = status == 101;
                arrived(Arrival::Answer(status));
                Some(length)
            }
        }
    }

    /// The length of a frame whose beginning is there.
    fn frame(&mut self, bytes: &[u8], arrived: &mut impl FnMut(Arrival<'_>)) -> Option<usize> {
        let (&[first, second], rest) = bytes.split_first_chunk()?;
        let (head, length) = match second {
            126 => (4, usize::from(u16::from_be_bytes(*rest.first_chunk()?))),
            127 => (10, u64::from_be_bytes(*rest.first_chunk()?) as usize),
            length => (2, usize::from(length)),
        };
        let payload = bytes.get(head..head + length.min(SEEN))?;
        match first & 0x0f {
            1 => self.begun = Some(payload.to_vec()),
            8 => arrived(Arrival::Close(payload.first_chunk().map_or(1005, |code| u16::from_be_bytes(*code)))),
            _ => {}
        }
        Some(head + length)
    }
}

/// Status and length of an answer whose head is there.
fn answer(bytes: &[u8]) -> Option<(u16, usize)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&bytes[..end]).unwrap_or_default();
    let status = head.get(9..12).and_then(|code| code.parse().ok()).unwrap_or(0);
    let body = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    Some((status, end + body.unwrap_or(0)))
}

/// What a MESSAGE says where: its topic and the first bytes of its body; `None` for other frames.
pub fn name_of_message(text: &[u8]) -> Option<Vec<u8>> {
    let rest = text.strip_prefix(b"MESSAGE\ndestination:")?;
    let topic = rest.split(|byte| *byte == b'\n').next()?;
    let body = rest.windows(2).position(|window| window == b"\n\n")? + 2;
    let body = &rest[body..rest.len().min(body + NAMED_BY)];
    Some([topic, b" ", body].concat())
}

/// Length of the body of a MESSAGE, as it says itself.
pub fn length_of_message(text: &[u8]) -> usize {
    const NAME: &[u8] = b"\ncontent-length:";
    let place = text.windows(NAME.len()).position(|window| window == NAME).map(|place| place + NAME.len());
    let digits = text[place.unwrap_or(text.len())..].iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'))
}

/// When a message reached its first and its last session, how often it was sent, and how long its body is.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    pub first: Instant,
    pub last: Instant,
    pub times: usize,
    pub bytes: usize,
}

/// A text as one frame from a client. Its mask is zero, which is as good as any other to the node.
pub fn text_frame(text: &str) -> Vec<u8> {
    let mut bytes = vec![0x81];
    match text.len() {
        length @ 0..126 => bytes.push(0x80 | length as u8),
        length @ 126..0x1_0000 => {
            bytes.push(0x80 | 126);
            bytes.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            bytes.push(0x80 | 127);
            bytes.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// Frames of STOMP in as few messages as hold them.
pub fn messages_of(frames: impl IntoIterator<Item = String>) -> Vec<u8> {
    let (mut bytes, mut text) = (Vec::new(), String::new());
    for frame in frames {
        if text.len() + frame.len() > LONGEST_MESSAGE {
            bytes.extend(text_frame(&std::mem::take(&mut text)));
        }
        text.push_str(&frame);
    }
    bytes.extend(text_frame(&text));
    bytes
}

/// Longest message that a node takes.
pub const LONGEST_MESSAGE: usize = 65_536;
