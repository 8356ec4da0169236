//! NIS1's STOMP dialect: decodes the frames of clients and encodes those of the server.

use std::borrow::Cow;
use std::ops::Range;

/// Default limit of one inbound frame in bytes, from its command to its NUL, and thus of the buffered part of an
/// incomplete frame. A larger frame is a fatal error.
pub const DEFAULT_FRAME_BYTES: usize = 65_536;
/// Maximum header lines of one frame; more would cost more than the size of the frame suggests.
pub const MAX_HEADERS: usize = 1_000;
/// Maximum length of bad input quoted in an error, in bytes.
const MAX_QUOTED_BYTES: usize = 512;
/// Buffer capacity of an idle decoder; a larger buffer is released when it is empty.
pub const IDLE_CAPACITY_BYTES: usize = 1_024;

/// All commands; case-sensitive.
const COMMANDS: &str = "STOMP CONNECT DISCONNECT SUBSCRIBE UNSUBSCRIBE SEND ACK NACK BEGIN COMMIT ABORT CONNECTED RECEIPT \
    MESSAGE ERROR";

/// Returns whether a frame with this command may have a non-empty body.
pub fn allows_body(command: &str) -> bool {
    matches!(command, "SEND" | "MESSAGE" | "ERROR")
}

/// A decoding error. The text, that of NIS1, is the `message` header of the ERROR frame, unescaped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct DecodeError {
    /// The text.
    pub text: String,
    /// The session must be closed. NIS1 leaves it open but ignores its input; this node closes it with code 1002 after
    /// the ERROR frame.
    pub is_fatal: bool,
    /// The receipt for which the frame asked, if that header was read.
    pub receipt: Option<String>,
}

fn error(text: impl Into<String>) -> DecodeError {
    DecodeError { text: text.into(), is_fatal: false, receipt: None }
}

fn fatal(text: String) -> DecodeError {
    DecodeError { is_fatal: true, ..error(text) }
}

/// One complete inbound frame: a view into the decoder's buffer. Headers are unescaped on access, so that a frame needs
/// no allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The command, one of the 15 of STOMP.
    pub command: &'static str,
    /// The header lines with their line ends, already checked by the decoder.
    head: &'a [u8],
    /// The body without the closing NUL; empty for commands without a body.
    pub body: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Returns all headers in order, unescaped, repeated ones included. Bytes that are not UTF-8 become U+FFFD.
    pub fn headers(&self) -> impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)> + use<'a> {
        self.lines().map(|(name, value)| (unescape(name), unescape(value)))
    }

    /// Returns the first values of some headers, unescaped, in one pass. The names must not contain characters that are
    /// escaped on the wire; no STOMP header name does.
    pub fn pick<const N: usize>(&self, names: [&str; N]) -> [Option<Cow<'a, str>>; N] {
        let mut found = [None; N];
        for (raw, value) in self.lines() {
            for (name, place) in names.iter().zip(&mut found) {
                if place.is_none() && raw == name.as_bytes() {
                    *place = Some(value);
                }
            }
        }
        found.map(|value| value.map(unescape))
    }

    /// Bytes of headers and body.
    pub fn size(&self) -> usize {
        self.head.len() + self.body.len()
    }

    fn lines(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let lines = self.head.split(|&byte| byte == b'\n');
        lines.filter_map(|line| split_header(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    /// Validates the body and the two header values that NIS1 parses while decoding: `content-type` on any frame and
    /// `heart-beat` on CONNECT.
    fn validate(&self) -> Result<(), DecodeError> {
        if !self.body.is_empty() && !allows_body(self.command) {
            let (command, length) = (self.command, self.body.len());
            return Err(error(format!("{command} shouldn't have a payload: length={length}, headers={{}}")));
        }
        let [content_type, heart_beat] = self.pick(["content-type", "heart-beat"]);
        if let Some(value) = content_type {
            let kind = value.split(';').next().unwrap_or_default().trim();
            if kind != "*" && !kind.contains('/') {
                return Err(error(format!("Invalid mime type \"{}\": does not contain '/'", quoted(value.as_bytes()))));
            }
        }
        if matches!(self.command, "CONNECT" | "STOMP")
            && let Some((mine, yours)) = heart_beat.as_ref().and_then(|value| value.split_once(','))
            && let Some(wrong) = [mine, yours].into_iter().find(|part| part.parse::<i64>().is_err())
        {
            return Err(error(format!("For input string: \"{}\"", quoted(wrong.as_bytes()))));
        }
        Ok(())
    }
}

/// An incremental decoder for the inbound byte stream of one session, whose frames may span messages.
///
/// Feed a message, then take frames until there is none. Each byte is searched once, however the stream is split into
/// messages. The decoder deliberately accepts two things that NIS1 does not: NUL bytes between frames are skipped, and a
/// `content-length` that is not a number counts as absent even when its frame spans several messages.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// First byte of the current frame.
    start: usize,
    /// First byte of the current line.
    line: usize,
    /// First byte not examined yet; equals `line` between two frames.
    scan: usize,
    /// The frame whose command line has arrived.
    head: Option<Head>,
    limit: usize,
}

/// The part of a frame that has arrived. Positions are relative to the start of the frame.
#[derive(Clone, Copy, Debug)]
struct Head {
    command: &'static str,
    /// Position of the header lines.
    headers: usize,
    /// Lines read after the command line.
    lines: usize,
    /// Position of the body, and its length if the head tells it.
    body: Option<(usize, Option<usize>)>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new(DEFAULT_FRAME_BYTES)
    }
}

impl Decoder {
    /// Creates a decoder for frames of up to `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, line: 0, scan: 0, head: None, limit }
    }

    /// Appends one message. Take all frames before feeding the next message: the buffer then never exceeds the limit
    /// plus one message.
    pub fn feed(&mut self, message: &[u8]) {
        self.buffer.extend_from_slice(message);
    }

    /// Returns the next complete frame, or `None` if more input is needed. An error drops the buffer, that is, the
    /// current frame and the rest of the message.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, DecodeError> {
        let found = self.find_frame();
        if found.is_err() {
            self.clear();
        }
        let Some((head, body)) = found? else {
            self.compact();
            return Ok(None);
        };
        let headers = self.start + head.headers..body.start;
        self.start = body.end + 1;
        (self.line, self.scan, self.head) = (self.start, self.start, None);
        Ok(Some(self.frame(head.command, headers, body)))
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
        *self = Self::new(self.limit);
    }

    /// Searches the end of the current frame. Returns its head and the position of its body in the buffer, validated.
    fn find_frame(&mut self) -> Result<Option<(Head, Range<usize>)>, DecodeError> {
        let found = self.find_end().and_then(|found| {
            self.check_size(found.as_ref().map_or(self.buffer.len(), |(_, body)| body.end + 1))?;
            let Some((head, body)) = found else { return Ok(None) };
            self.frame(head.command, self.start + head.headers..body.start, body.clone()).validate()?;
            Ok(Some((head, body)))
        });
        found.map_err(|error| DecodeError { receipt: self.receipt(), ..error })
    }

    /// Returns the receipt for which the current frame asks, if that header line was read without an error.
    fn receipt(&self) -> Option<String> {
        let head = self.head.filter(|head| !matches!(head.command, "CONNECT" | "STOMP"))?;
        let [receipt] = self.frame(head.command, self.start + head.headers..self.line, 0..0).pick(["receipt"]);
        receipt.map(Cow::into_owned)
    }

    fn find_end(&mut self) -> Result<Option<(Head, Range<usize>)>, DecodeError> {
        if self.head.is_none() && self.scan == self.line {
            self.skip_between()?;
        }
        loop {
            if let Some(head @ Head { body: Some((body, length)), .. }) = self.head {
                let body = self.start + body;
                let end = match length.map(|length| body + length) {
                    None => self.rest().iter().position(|&byte| byte == 0).map(|offset| self.scan + offset),
                    Some(end) => match self.buffer.get(end) {
                        Some(0) => Some(end),
                        Some(_) => return Err(error("Frame must be terminated with a null octet")),
                        None => None,
                    },
                };
                if length.is_none() {
                    self.scan = end.unwrap_or(self.buffer.len());
                }
                return Ok(end.map(|end| (head, body..end)));
            }
            let Some(line) = self.take_line()? else { return Ok(None) };
            let next = self.scan - self.start;
            let Some(mut head) = self.head else {
                let command = command_of(self.slice(line))?;
                self.head = Some(Head { command, headers: next, lines: 0, body: None });
                self.line = self.scan;
                continue;
            };
            head.lines += 1;
            if head.lines > MAX_HEADERS + 1 {
                return Err(error(format!("A frame must not have more than {MAX_HEADERS} headers")));
            }
            if line.is_empty() {
                head.body = Some((next, self.content_length(self.start + head.headers..line.start)?));
            } else {
                check_header(self.slice(line))?;
            }
            self.head = Some(head);
            self.line = self.scan;
        }
    }

    /// Skips line ends (heartbeats) and NULs before a frame.
    fn skip_between(&mut self) -> Result<(), DecodeError> {
        loop {
            match self.rest() {
                [b'\n' | 0, ..] => self.scan += 1,
                [b'\r', b'\n', ..] => self.scan += 2,
                [b'\r', _, ..] => return Err(lone_carriage_return()),
                _ => break,
            }
        }
        (self.start, self.line) = (self.scan, self.scan);
        Ok(())
    }

    /// Returns the first `content-length` of a head. The body ends at the first NUL if it is absent, negative, not a
    /// number or beyond 31 bits.
    fn content_length(&self, headers: Range<usize>) -> Result<Option<usize>, DecodeError> {
        let [value] = self.frame("", headers, 0..0).pick(["content-length"]);
        let text = value.unwrap_or_default();
        let length = text.trim_matches([' ', '\t']).parse::<i32>().ok().and_then(|length| usize::try_from(length).ok());
        let limit = self.limit;
        match length.filter(|length| *length > limit) {
            Some(length) => Err(fatal(format!(
                "STOMP 'content-length' header value {length}  exceeds configured buffer size limit {limit}"
            ))),
            None => Ok(length),
        }
    }

    fn check_size(&self, end: usize) -> Result<(), DecodeError> {
        if end.saturating_sub(self.start) <= self.limit {
            return Ok(());
        }
        Err(fatal(format!("The configured STOMP buffer size limit of {} bytes has been exceeded", self.limit)))
    }

    /// Takes the current line without its line end, once the line end has arrived.
    fn take_line(&mut self) -> Result<Option<Range<usize>>, DecodeError> {
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
            _ => return Err(lone_carriage_return()),
        };
        let line = self.line..self.scan;
        self.scan += width;
        Ok(Some(line))
    }

    /// Drops the frames already taken, and releases memory that an idle session does not need.
    fn compact(&mut self) {
        self.buffer.drain(..self.start);
        self.line -= self.start;
        self.scan -= self.start;
        self.start = 0;
        if self.buffer.len() <= IDLE_CAPACITY_BYTES {
            self.buffer.shrink_to(IDLE_CAPACITY_BYTES);
        }
    }

    fn frame(&self, command: &'static str, headers: Range<usize>, body: Range<usize>) -> Frame<'_> {
        Frame { command, head: self.slice(headers), body: self.slice(body) }
    }

    fn rest(&self) -> &[u8] {
        self.buffer.get(self.scan..).unwrap_or_default()
    }

    fn slice(&self, range: Range<usize>) -> &[u8] {
        self.buffer.get(range).unwrap_or_default()
    }
}

fn command_of(line: &[u8]) -> Result<&'static str, DecodeError> {
    COMMANDS.split(' ').find(|name| name.as_bytes() == line).ok_or_else(|| {
        error(format!("No enum constant org.springframework.messaging.simp.stomp.StompCommand.{}", quoted(line)))
    })
}

/// Splits a header line at its first `:`; `None` without one or with an empty name.
fn split_header(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|&byte| byte == b':').filter(|colon| *colon > 0)?;
    Some((line.get(..colon)?, line.get(colon + 1..)?))
}

/// Rejects a header line without a name or without `:`, an unknown escape sequence and a trailing backslash.
fn check_header(line: &[u8]) -> Result<(), DecodeError> {
    let (name, value) = split_header(line).ok_or_else(|| {
        error(format!("Illegal header: '{}'. A header must be of the form <name>:[<value>].", quoted(line)))
    })?;
    for part in [name, value] {
        let mut bytes = part.iter().enumerate();
        while let Some((index, &byte)) = bytes.next() {
            if byte == b'\\' && !matches!(bytes.next(), Some((_, b'n' | b'r' | b'c' | b'\\'))) {
                // The index counts UTF-16 code units.
                let before = String::from_utf8_lossy(part.get(..index).unwrap_or_default());
                let index = before.encode_utf16().count();
                return Err(error(format!("Illegal escape sequence at index {index}: {}", quoted(part))));
            }
        }
    }
    Ok(())
}

fn lone_carriage_return() -> DecodeError {
    error("'\\r' must be followed by '\\n'")
}

/// Converts bad input to text for an error, cut to the maximum length.
fn quoted(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes.get(..MAX_QUOTED_BYTES).unwrap_or(bytes))
}

/// Replaces `\n`, `\r`, `\c` and `\\`; the decoder has already rejected every other escape.
fn unescape(raw: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(raw);
    if !text.contains('\\') {
        return text;
    }
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' => match characters.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some('c') => ':',
                _ => '\\',
            },
            other => other,
        });
    }
    Cow::Owned(plain)
}

/// Encodes frames exactly as NIS1 writes them.
///
/// Lines end with LF. Header names and values are escaped on every frame except CONNECTED. `content-length` comes last
/// on frames with a body. Nothing follows the NUL. Every function appends one whole frame, except [`message_head`].
///
/// [`message_head`]: encoder::message_head
pub mod encoder {
    /// Follows the JSON text of a MESSAGE: the last two bytes of the body, and the NUL that ends the frame.
    pub const MESSAGE_END: &[u8] = b"\r\n\0";

    /// Appends CONNECTED, with the agreed version if the client named any.
    pub fn connected(out: &mut Vec<u8>, version: Option<&str>) {
        let version = version.map(|version| format!("version:{version}\n")).unwrap_or_default();
        out.extend_from_slice(format!("CONNECTED\n{version}heart-beat:0,0\n\n\0").as_bytes());
    }

    /// Appends RECEIPT for the value of a `receipt` header.
    pub fn receipt(out: &mut Vec<u8>, id: &str) {
        frame(out, "RECEIPT", [("receipt-id", id)], None);
    }

    /// Appends ERROR with an empty body, for a frame that asked for this receipt.
    pub fn error(out: &mut Vec<u8>, message: &str, receipt: Option<&str>) {
        let receipt = receipt.map(|id| ("receipt-id", id));
        frame(out, "ERROR", [("message", message)].into_iter().chain(receipt), Some(b""));
    }

    /// Appends a MESSAGE on the topic `destination` for the subscription `id`, up to its body. The JSON text and
    /// [`MESSAGE_END`] must follow; `content_length` counts all but the NUL. The `message-id` is the session's
    /// name and the number of the message.
    pub fn message_head(
        out: &mut Vec<u8>,
        destination: &str,
        id: &str,
        session: &str,
        number: u64,
        content_length: usize,
    ) {
        out.extend_from_slice(b"MESSAGE\n");
        header(out, "destination", destination);
        header(out, "subscription", id);
        out.extend_from_slice(b"message-id:");
        escape(out, session);
        out.push(b'-');
        out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        out.push(b'\n');
        end_head(out, content_length);
    }

    /// Appends a frame with escaped headers; `content-length` is added if there is a body.
    pub fn frame<'a>(
        out: &mut Vec<u8>,
        command: &str,
        headers: impl IntoIterator<Item = (&'a str, &'a str)>,
        body: Option<&[u8]>,
    ) {
        out.extend_from_slice(command.as_bytes());
        out.push(b'\n');
        for (name, value) in headers {
            header(out, name, value);
        }
        match body {
            Some(body) => {
                end_head(out, body.len());
                out.extend_from_slice(body);
            }
            None => out.push(b'\n'),
        }
        out.push(0);
    }

    /// Appends `content-length` and the empty line.
    fn end_head(out: &mut Vec<u8>, content_length: usize) {
        out.extend_from_slice(b"content-length:");
        out.extend_from_slice(itoa::Buffer::new().format(content_length).as_bytes());
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
}

#[cfg(test)]
mod tests;
