//! Incremental decoder of frames that may span messages.
//!
//! It examines each byte once, however the stream is split into messages: it stores how far it has read and the state
//! of the current frame.

use super::frame::{first_bad_escape, split_header};
use super::{Command, DecodeError, Frame};

/// Default limit of one inbound frame in bytes, from its command to its NUL, and thus of the buffered part of an
/// incomplete frame. A larger frame fails with [`DecodeError::FrameLimit`].
pub const DEFAULT_FRAME_BYTES: usize = 65_536;

/// Maximum header lines of one frame; more would cost more than the size of the frame suggests.
pub const MAX_HEADERS: usize = 1_000;

/// Maximum length of bad input quoted in an error, in bytes.
const MAX_QUOTED_BYTES: usize = 512;

/// Buffer capacity of an idle decoder; a larger buffer is released when it is empty.
pub const IDLE_CAPACITY_BYTES: usize = 1_024;

/// An incremental STOMP decoder for the inbound byte stream of one session.
///
/// Feed a message, then take frames until there is none. It deliberately accepts two things that NIS1 does not: NUL
/// bytes between frames are skipped, and a `content-length` that is not a number counts as absent even when its frame
/// spans several messages.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// First byte of the current frame.
    start: usize,
    /// First byte of the current line.
    line: usize,
    /// First byte not examined yet; never before `line`.
    scan: usize,
    stage: Stage,
    /// Header lines of the current frame.
    headers: usize,
    limit: usize,
    trims: bool,
}

/// What the decoder expects next.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Line ends (heartbeats) and stray NULs, or a frame.
    Between,
    /// The command line.
    Command,
    /// A header line or the empty line, for the head that starts at `head`.
    Header { command: Command, head: usize, length: Length },
    /// The body that starts at `body`, and its NUL.
    Body { command: Command, head: usize, body: usize, length: Option<usize> },
}

/// The first `content-length` of a head.
#[derive(Clone, Copy, Debug)]
enum Length {
    /// No such header so far.
    Absent,
    /// Present, but negative, not a number or beyond 31 bits: the body ends at the first NUL.
    Invalid,
    Bytes(usize),
}

/// Position of a complete frame in the buffer.
struct Span {
    command: Command,
    head: usize,
    body: usize,
    /// Position of the NUL.
    end: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new(DEFAULT_FRAME_BYTES, true)
    }
}

impl Decoder {
    /// Creates a decoder for frames of up to `limit` bytes; `trims`: blanks around the value of `content-length` are
    /// ignored.
    pub fn new(limit: usize, trims: bool) -> Self {
        Self { buffer: Vec::new(), start: 0, line: 0, scan: 0, stage: Stage::Between, headers: 0, limit, trims }
    }

    /// Appends one message. Take all frames before feeding the next message: the buffer then never exceeds the limit
    /// plus one message.
    pub fn feed(&mut self, message: &[u8]) {
        self.buffer.extend_from_slice(message);
    }

    /// Returns the next complete frame, or `None` if more input is needed. An error drops the buffer, that is, the
    /// current frame and the rest of the message.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, DecodeError> {
        match self.advance() {
            Ok(Some(span)) => Ok(Some(self.frame(&span))),
            Ok(None) => {
                self.compact();
                Ok(None)
            }
            Err(error) => {
                self.clear();
                Err(error)
            }
        }
    }

    /// Bytes buffered for an incomplete frame.
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Returns whether there are unexamined bytes.
    pub fn has_unread(&self) -> bool {
        self.scan < self.buffer.len()
    }

    /// Bytes of memory held.
    pub fn held_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Drops the buffer and expects a new frame.
    pub fn clear(&mut self) {
        *self = Self::new(self.limit, self.trims);
    }

    fn advance(&mut self) -> Result<Option<Span>, DecodeError> {
        loop {
            let progressed = match self.stage {
                Stage::Between => self.skip_between()?,
                Stage::Command => self.read_command()?,
                Stage::Header { command, head, length } => self.read_header(command, head, length)?,
                Stage::Body { command, head, body, length } => match self.find_end(body, length)? {
                    Some(end) => {
                        let span = Span { command, head, body, end };
                        return self.finish(span).map(Some);
                    }
                    None => false,
                },
            };
            if !progressed {
                return self.check_size(self.buffer.len()).map(|()| None);
            }
        }
    }

    /// Skips line ends and NULs. Returns true when a frame starts.
    fn skip_between(&mut self) -> Result<bool, DecodeError> {
        loop {
            match self.rest() {
                [b'\n' | 0, ..] => self.scan += 1,
                [b'\r', b'\n', ..] => self.scan += 2,
                [b'\r', _, ..] => return Err(DecodeError::LoneCarriageReturn),
                [b'\r'] => break,
                [] => break,
                [_, ..] => {
                    self.stage = Stage::Command;
                    (self.start, self.line) = (self.scan, self.scan);
                    return Ok(true);
                }
            }
        }
        (self.start, self.line) = (self.scan, self.scan);
        Ok(false)
    }

    fn read_command(&mut self) -> Result<bool, DecodeError> {
        let Some((from, to)) = self.take_line()? else {
            return Ok(false);
        };
        let line = self.slice(from, to);
        let Some(command) = Command::from_line(line) else {
            return Err(DecodeError::UnknownCommand(lossy(line)));
        };
        self.headers = 0;
        self.stage = Stage::Header { command, head: self.line, length: Length::Absent };
        Ok(true)
    }

    fn read_header(&mut self, command: Command, head: usize, length: Length) -> Result<bool, DecodeError> {
        let Some((from, to)) = self.take_line()? else {
            return Ok(false);
        };
        self.headers += 1;
        if self.headers > MAX_HEADERS + 1 {
            return Err(DecodeError::TooManyHeaders { limit: MAX_HEADERS });
        }
        self.stage = if from == to {
            Stage::Body { command, head, body: self.line, length: self.body_length(length)? }
        } else {
            Stage::Header { command, head, length: self.check_header(self.slice(from, to), length)? }
        };
        Ok(true)
    }

    /// Rejects a malformed header line, and parses the first `content-length`.
    fn check_header(&self, line: &[u8], length: Length) -> Result<Length, DecodeError> {
        let Some((name, value)) = split_header(line) else {
            return Err(DecodeError::IllegalHeader(lossy(line)));
        };
        for part in [name, value] {
            if let Some(index) = first_bad_escape(part) {
                let before = part.get(..index).unwrap_or_default();
                return Err(DecodeError::IllegalEscape {
                    index: String::from_utf8_lossy(before).encode_utf16().count(),
                    text: lossy(part),
                });
            }
        }
        match length {
            Length::Absent if name == b"content-length" => Ok(self.parse_length(value)),
            known => Ok(known),
        }
    }

    fn parse_length(&self, value: &[u8]) -> Length {
        let text = std::str::from_utf8(value).unwrap_or_default();
        let text = if self.trims { text.trim_matches([' ', '\t']) } else { text };
        let number = text.parse::<i32>().ok().map(usize::try_from);
        match number {
            Some(Ok(bytes)) => Length::Bytes(bytes),
            _ => Length::Invalid,
        }
    }

    fn body_length(&self, length: Length) -> Result<Option<usize>, DecodeError> {
        match length {
            Length::Bytes(length) if length > self.limit => {
                Err(DecodeError::ContentLengthLimit { length, limit: self.limit })
            }
            Length::Bytes(length) => Ok(Some(length)),
            Length::Absent | Length::Invalid => Ok(None),
        }
    }

    /// Returns the position of the NUL that ends the frame, if it has arrived.
    fn find_end(&mut self, body: usize, length: Option<usize>) -> Result<Option<usize>, DecodeError> {
        let Some(length) = length else {
            let found = self.rest().iter().position(|&byte| byte == 0);
            let end = found.map(|offset| self.scan + offset);
            self.scan = end.unwrap_or(self.buffer.len());
            return Ok(end);
        };
        match self.buffer.get(body + length) {
            Some(0) => Ok(Some(body + length)),
            Some(_) => Err(DecodeError::NotTerminated),
            None => Ok(None),
        }
    }

    /// Accepts a complete frame and continues with the byte after it.
    fn finish(&mut self, span: Span) -> Result<Span, DecodeError> {
        self.check_size(span.end + 1)?;
        let length = span.end - span.body;
        if length > 0 && !span.command.allows_body() {
            return Err(DecodeError::UnexpectedBody { command: span.command.name(), length });
        }
        check_values(&self.frame(&span))?;
        self.scan = span.end + 1;
        (self.start, self.line) = (self.scan, self.scan);
        self.stage = Stage::Between;
        Ok(span)
    }

    fn check_size(&self, end: usize) -> Result<(), DecodeError> {
        if end.saturating_sub(self.start) > self.limit {
            return Err(DecodeError::FrameLimit { limit: self.limit });
        }
        Ok(())
    }

    /// Takes the current line without its line end, once the line end has arrived.
    fn take_line(&mut self) -> Result<Option<(usize, usize)>, DecodeError> {
        let stop = |&byte: &u8| byte == b'\n' || byte == b'\r';
        let Some(offset) = self.rest().iter().position(stop) else {
            self.scan = self.buffer.len();
            return Ok(None);
        };
        self.scan += offset;
        let width = match self.rest() {
            [b'\n', ..] => 1,
            [b'\r', b'\n', ..] => 2,
            [b'\r'] => return Ok(None),
            _ => return Err(DecodeError::LoneCarriageReturn),
        };
        let line = (self.line, self.scan);
        self.scan += width;
        self.line = self.scan;
        Ok(Some(line))
    }

    fn frame(&self, span: &Span) -> Frame<'_> {
        Frame { command: span.command, head: self.slice(span.head, span.body), body: self.slice(span.body, span.end) }
    }

    /// Drops the frames already taken, and releases memory that an idle session does not need.
    fn compact(&mut self) {
        self.buffer.drain(..self.start);
        self.line -= self.start;
        self.scan -= self.start;
        match &mut self.stage {
            Stage::Between | Stage::Command => {}
            Stage::Header { head, .. } => *head -= self.start,
            Stage::Body { head, body, .. } => {
                *head -= self.start;
                *body -= self.start;
            }
        }
        self.start = 0;
        if self.buffer.len() <= IDLE_CAPACITY_BYTES {
            self.buffer.shrink_to(IDLE_CAPACITY_BYTES);
        }
    }

    fn rest(&self) -> &[u8] {
        self.buffer.get(self.scan..).unwrap_or_default()
    }

    fn slice(&self, from: usize, to: usize) -> &[u8] {
        self.buffer.get(from..to).unwrap_or_default()
    }
}

/// Validates the two header values that NIS1 parses while decoding: `content-type` on any frame and `heart-beat` on
/// CONNECT.
fn check_values(frame: &Frame<'_>) -> Result<(), DecodeError> {
    let [content_type, heart_beat] = frame.pick(["content-type", "heart-beat"]);
    if let Some(value) = content_type {
        let kind = value.split(';').next().unwrap_or_default().trim();
        if kind != "*" && !kind.contains('/') {
            return Err(DecodeError::IllegalContentType(lossy(value.as_bytes())));
        }
    }
    if matches!(frame.command, Command::Connect | Command::Stomp)
        && let Some(value) = heart_beat
        && let Some((mine, yours)) = value.split_once(',')
    {
        for part in [mine, yours] {
            if part.parse::<i64>().is_err() {
                return Err(DecodeError::IllegalNumber(lossy(part.as_bytes())));
            }
        }
    }
    Ok(())
}

/// Converts bad input to text for an error, cut to the maximum length.
fn lossy(bytes: &[u8]) -> String {
    let bytes = bytes.get(..MAX_QUOTED_BYTES).unwrap_or(bytes);
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::websocket_api::stomp::encoder;
    use proptest::prelude::*;

    /// The parts of a frame that tests compare.
    type Read = (&'static str, Vec<(String, String)>, Vec<u8>);

    fn read(frame: &Frame<'_>) -> Read {
        let headers = frame.headers();
        (frame.command().name(), headers.map(|(n, v)| (n.into(), v.into())).collect(), frame.body().to_vec())
    }

    /// All frames of a sequence of messages, and the error texts.
    fn decode_with(decoder: &mut Decoder, messages: &[&[u8]]) -> (Vec<Read>, Vec<String>) {
        let (mut frames, mut errors) = (Vec::new(), Vec::new());
        for message in messages {
            decoder.feed(message);
            loop {
                match decoder.next_frame() {
                    Ok(Some(frame)) => frames.push(read(&frame)),
                    Ok(None) => break,
                    Err(error) => errors.push(error.to_string()),
                }
            }
        }
        (frames, errors)
    }

    fn decode(messages: &[&[u8]]) -> (Vec<Read>, Vec<String>) {
        decode_with(&mut Decoder::default(), messages)
    }

    fn one(bytes: &[u8]) -> Read {
        let (mut frames, errors) = decode(&[bytes]);
        assert_eq!(errors, Vec::<String>::new());
        assert_eq!(frames.len(), 1);
        frames.pop().unwrap()
    }

    fn error(bytes: &[u8]) -> String {
        let (frames, mut errors) = decode(&[bytes]);
        assert_eq!((frames.len(), errors.len()), (0, 1));
        errors.pop().unwrap()
    }

    fn pairs(headers: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = headers.iter().map(|&(n, v)| (n.into(), v.into()));
        owned.collect()
    }

    #[test]
    fn a_bare_connect_is_a_frame_without_headers() {
        assert_eq!(one(b"CONNECT\n\n\0"), ("CONNECT", vec![], vec![]));
    }

    #[test]
    fn cr_lf_and_lf_may_be_mixed() {
        let frame = one(b"\r\n\nSUBSCRIBE\r\nid:a\ndestination:/blocks\r\n\r\n\0");
        let headers = pairs(&[("id", "a"), ("destination", "/blocks")]);
        assert_eq!(frame, ("SUBSCRIBE", headers, vec![]));
    }

    #[test]
    fn escapes_are_decoded_on_every_frame_and_blanks_are_kept() {
        let (_, headers, _) = one(b"CONNECT\nhost: a\\cb\\nc\\\\d \nx\\cy:\n\n\0");
        assert_eq!(headers, pairs(&[("host", " a:b\nc\\d "), ("x:y", "")]));
    }

    #[test]
    fn the_body_ends_after_content_length_bytes_or_at_the_first_nul() {
        let with = |length: &str| format!("SEND\n{length}\n\nab\0").into_bytes();
        for length in ["a:b", "content-length:-1", "content-length:x", "content-length:2"] {
            assert_eq!(one(&with(length)).2, b"ab", "{length}");
        }
        assert_eq!(one(&with("content-length:99999999999")).2, b"ab");
        assert_eq!(one(&with("content-length:\t2 ")).2, b"ab");
        assert_eq!(one(b"SEND\ncontent-length:3\n\na\0b\0").2, b"a\0b");
        assert_eq!(one(b"SEND\ncontent-length:3\ncontent-length:1\n\na\0b\0").2, b"a\0b");
    }

    #[test]
    fn several_frames_and_stray_nuls_fit_in_one_message() {
        let (frames, errors) = decode(&[b"\0\nSEND\n\nx\0\n\0\r\nCONNECT\n\n\0\n"]);
        assert_eq!(errors, Vec::<String>::new());
        assert_eq!(frames.iter().map(|f| f.0).collect::<Vec<_>>(), ["SEND", "CONNECT"]);
    }

    #[test]
    fn a_heartbeat_is_no_frame_and_is_not_buffered() {
        let mut decoder = Decoder::default();
        assert_eq!(decode_with(&mut decoder, &[b"\n", b"\r\n\n"]), (vec![], vec![]));
        assert_eq!(decoder.buffered(), 0);
    }

    #[test]
    fn the_error_texts_are_those_of_nis1() {
        let cases: [(&[u8], &str); 13] = [
            (b"X\n\n\0", "No enum constant org.springframework.messaging.simp.stomp.StompCommand.X"),
            (b"SUBSCRIBE\n\nabcd\0", "SUBSCRIBE shouldn't have a payload: length=4, headers={}"),
            (b"SEND\nbadheader\n\n\0", "Illegal header: 'badheader'. A header must be of the form <name>:[<value>]."),
            (b"SEND\n:x\n\n\0", "Illegal header: ':x'. A header must be of the form <name>:[<value>]."),
            (
                b"SEND\ndestination:/w/api/node/info\\x\n\n\0",
                "Illegal escape sequence at index 16: /w/api/node/info\\x",
            ),
            (b"SEND\na:\xc3\xa9\\\n\n\0", "Illegal escape sequence at index 1: \u{e9}\\"),
            (b"SEND\ra:b\n\n\0", "'\\r' must be followed by '\\n'"),
            (b"\rSEND\n\n\0", "'\\r' must be followed by '\\n'"),
            (b"SEND\ncontent-length:1\n\nab\0", "Frame must be terminated with a null octet"),
            (
                b"SEND\ncontent-length:70000\n\nab",
                "STOMP 'content-length' header value 70000  exceeds configured buffer size limit 65536",
            ),
            (b"SEND\ncontent-type:bad\n\n\0", "Invalid mime type \"bad\": does not contain '/'"),
            (b"CONNECT\nheart-beat:a,b\n\n\0", "For input string: \"a\""),
            (b"CONNECT\nheart-beat: 10 , 20 \n\n\0", "For input string: \" 10 \""),
        ];
        for (bytes, text) in cases {
            assert_eq!(error(bytes), text);
        }
    }

    #[test]
    fn harmless_header_values_are_accepted() {
        one(b"CONNECT\nheart-beat:10\n\n\0");
        one(b"CONNECT\nheart-beat:10000,10000\n\n\0");
        one(b"SEND\nheart-beat:a,b\ncontent-type:text/plain;charset=x\n\n\0");
        one(b"SEND\ncontent-type:*\n\n\0");
    }

    #[test]
    fn an_error_drops_only_the_rest_of_its_message() {
        let (frames, errors) = decode(&[b"SEND\n\n1\0X\n\n\0SEND\n\n2\0", b"SEND\n\n3\0"]);
        assert_eq!(errors.len(), 1);
        assert_eq!(frames.iter().map(|f| &f.2[..]).collect::<Vec<_>>(), [b"1", b"3"]);
    }

    #[test]
    fn a_frame_of_exactly_the_limit_is_read_and_one_more_byte_is_fatal() {
        let head = b"SEND\na:b\n\n";
        for (size, fits) in [(65_536, true), (65_537, false)] {
            let mut bytes = head.to_vec();
            bytes.resize(size - 1, b'x');
            bytes.push(0);
            let (first, second) = bytes.split_at(40_000);
            let (frames, errors) = decode(&[first, second]);
            assert_eq!(frames.len(), usize::from(fits));
            assert_eq!(errors.len(), usize::from(!fits));
        }
        let mut decoder = Decoder::default();
        decoder.feed(&[b'x'; 65_537]);
        let error = decoder.next_frame().unwrap_err();
        assert!(error.is_fatal());
        assert_eq!(error.to_string(), "The configured STOMP buffer size limit of 65536 bytes has been exceeded");
        assert_eq!(decoder.buffered(), 0);
    }

    #[test]
    fn an_idle_decoder_releases_its_memory() {
        let mut decoder = Decoder::default();
        let mut bytes = b"SEND\n\n".to_vec();
        bytes.resize(60_000, b'x');
        bytes.push(0);
        assert_eq!(decode_with(&mut decoder, &[&bytes]).0.len(), 1);
        assert!(decoder.buffer.capacity() <= IDLE_CAPACITY_BYTES);
    }

    const STREAM: &[u8] = b"CONNECT\r\naccept-version:1.1,1.0\r\nheart-beat:10000,10000\r\n\r\n\0\r\n\
        SUBSCRIBE\nid:sub\\c0\ndestination:/blocks\n\n\0\0\
        SEND\ndestination:/w/api/account/get\ncontent-length:5\n\na\0\r\nb\0\
        SEND\ndestination:/w/api/node/info\n\nxyz\0DISCONNECT\n\n\0";

    #[test]
    fn a_stream_split_at_every_byte_yields_the_same_frames() {
        let whole = decode(&[STREAM]);
        assert_eq!((whole.0.len(), whole.1.len()), (5, 0));
        for at in 0..=STREAM.len() {
            let (left, right) = STREAM.split_at(at);
            assert_eq!(decode(&[left, right]), whole, "split at {at}");
        }
        let bytes: Vec<&[u8]> = STREAM.chunks(1).collect();
        assert_eq!(decode(&bytes), whole);
    }

    /// Fragments that resemble frames, so that random input gets beyond the command line.
    fn stomp_like() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            prop::sample::select(vec![
                &b"SEND\n"[..],
                b"CONNECT\r\n",
                b"SUBSCRIBE\n",
                b"\n",
                b"\r",
                b"\0",
                b"\n\n",
                b"id:1\n",
                b"content-length:3\n",
                b"content-length:65535\n",
                b"a:\\c\n",
                b"\\",
            ])
            .prop_map(<[u8]>::to_vec),
            prop::collection::vec(any::<u8>(), 0..40),
        ];
        prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn a_stream_cut_anywhere_yields_the_same_frames(
            cuts in prop::collection::vec(0..=STREAM.len(), 0..12)
        ) {
            let mut cuts = cuts;
            cuts.sort_unstable();
            let mut messages = Vec::new();
            let mut from = 0;
            for to in cuts.into_iter().chain([STREAM.len()]) {
                messages.push(&STREAM[from..to]);
                from = to;
            }
            prop_assert_eq!(decode(&messages), decode(&[STREAM]));
        }

        #[test]
        fn encoded_frames_round_trip(
            headers in prop::collection::vec(("[a-z:\\\\\r\n]{1,9}", any::<String>()), 0..5),
            body in prop::collection::vec(any::<u8>(), 0..99),
        ) {
            let headers: Vec<_> = headers.into_iter().map(|(n, v)| (format!("x{n}"), v)).collect();
            let mut bytes = Vec::new();
            let borrowed = headers.iter().map(|(n, v)| (n.as_str(), v.as_str()));
            encoder::frame(&mut bytes, Command::Message, borrowed, Some(&body));
            let (command, mut found, found_body) = one(&bytes);
            let length = found.pop().unwrap();
            prop_assert_eq!(length, ("content-length".to_owned(), body.len().to_string()));
            prop_assert_eq!((command, found, found_body), ("MESSAGE", headers, body));
        }

        #[test]
        fn random_input_neither_panics_nor_fills_the_buffer(
            messages in prop::collection::vec(stomp_like(), 0..20),
            limit in 0..200usize,
        ) {
            let mut decoder = Decoder::new(limit, true);
            for message in &messages {
                decode_with(&mut decoder, &[message]);
                prop_assert!(decoder.buffered() <= limit.max(1));
            }
        }

        #[test]
        fn a_random_message_without_errors_may_be_cut_anywhere(
            message in stomp_like(),
            at in any::<prop::sample::Index>(),
        ) {
            let whole = decode(&[&message]);
            if whole.1.is_empty() {
                let (left, right) = message.split_at(at.index(message.len() + 1));
                prop_assert_eq!(decode(&[left, right]), whole);
            }
        }
    }
}
