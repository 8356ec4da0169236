//! The received bytes of a client, parsed as a client does.

use std::io::Read;

use flate2::read::GzDecoder;

use super::service::{Answered, ConnectionRecord, Stage, text};

/// How parsing ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Everything was complete.
    Whole,
    /// Something is incomplete.
    Cut,
}

/// Parses all that a visitor received: its responses, each once and in order, perhaps followed by a rejection; or the
/// frames of its websocket. `is_closed` means that no more bytes come, which ends a response to an HTTP/1.0 client.
pub fn read(received: &[u8], visitor: &ConnectionRecord, is_closed: bool) -> End {
    let mut answers = visitor.answered.iter();
    let mut rest = received;
    while !rest.is_empty() {
        let Some(head) = Head::read(&mut rest) else { return End::Cut };
        if head.status == 100 {
            continue;
        }
        let Some(serial) = head.value("X-N") else { return refusal(&head, rest) };
        let answer = answers.next().expect("an answer to every request and no more");
        assert_eq!(serial.parse(), Ok(answer.serial), "answers come in order");
        assert_eq!(head.status == 101, answer.is_upgraded && answer.is_done);
        if answer.is_upgraded {
            return frames(rest, visitor);
        }
        let Some(body) = head.body(answer, &mut rest, is_closed) else { return End::Cut };
        let is_right = body.iter().copied().eq(text(answer.serial, if answer.is_head { 0 } else { answer.length }));
        assert!(is_right, "{head:?} with {} bytes for {answer:?}", body.len());
        assert!(head.value("Connection") != Some("close") || rest.is_empty(), "nothing follows the last answer");
    }
    if answers.len() == 0 { End::Whole } else { End::Cut }
}

/// Checks the rejection of an invalid request, which ends the connection.
fn refusal(head: &Head, mut rest: &[u8]) -> End {
    assert!(head.status >= 400, "{head:?}");
    assert_eq!(head.value("Connection"), Some("close"));
    let length = head.value("Content-Length").and_then(|text| text.parse().ok()).expect("a length");
    let Some(body) = take(&mut rest, length) else { return End::Cut };
    assert!(body.starts_with(b"<h1>Bad Message"));
    assert!(rest.is_empty(), "nothing follows a refusal");
    End::Whole
}

#[derive(Debug)]
struct Head {
    status: u16,
    headers: Vec<(String, String)>,
}

impl Head {
    /// Takes a response head off the front, if it is complete.
    fn read(rest: &mut &[u8]) -> Option<Head> {
        let end = rest.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = str::from_utf8(&rest[..end]).expect("text");
        *rest = &rest[end + 4..];
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")).expect("a status line");
        let pairs = lines.map(|line| line.split_once(": ").expect("a header"));
        let headers: Vec<_> = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Some(Head { status: status[..3].parse().expect("a status"), headers })
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    /// Takes the body off the front, if it is complete.
    fn body(&self, answer: &Answered, rest: &mut &[u8], is_closed: bool) -> Option<Vec<u8>> {
        if self.value("Transfer-Encoding") == Some("chunked") {
            assert!(answer.streaming && self.value("Content-Length").is_none());
            return if answer.is_head { Some(Vec::new()) } else { chunks(answer, rest) };
        }
        let Some(length) = self.value("Content-Length") else {
            assert!(answer.streaming && answer.is_http_10, "{self:?} has no end");
            let body = std::mem::take(rest);
            assert!(body.len() <= answer.length);
            return (is_closed && answer.is_done && body.len() == answer.length).then(|| body.to_vec());
        };
        let length = length.parse().expect("a length");
        let body = if answer.is_head { &[] } else { take(rest, length)? };
        if self.value("Content-Encoding") != Some("gzip") {
            assert!(length == answer.length);
            return Some(body.to_vec());
        }
        let mut unpacked = Vec::new();
        GzDecoder::new(body).read_to_end(&mut unpacked).expect("gzip");
        Some(unpacked)
    }
}

/// Takes a chunked body off the front.
fn chunks(answer: &Answered, rest: &mut &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let size = str::from_utf8(&rest[..end]).ok().and_then(|line| line.strip_suffix('\r')).expect("a size");
        let size = usize::from_str_radix(size, 16).expect("a size in hex");
        *rest = &rest[end + 1..];
        body.extend_from_slice(take(rest, size)?);
        assert!(body.len() <= answer.length, "no more than the machine said");
        assert_eq!(take(rest, 2)?, b"\r\n");
        if size == 0 {
            assert!(answer.is_done, "the end is told when there is one");
            return Some(body);
        }
    }
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, behind) = rest.split_at_checked(count)?;
    *rest = behind;
    Some(taken)
}

/// Checks frames: texts are those that were sent, in order; pongs, and pings after silence, may come between them; nothing
/// follows a close frame.
fn frames(mut rest: &[u8], visitor: &ConnectionRecord) -> End {
    let mut sent = visitor.sent.iter();
    while !rest.is_empty() {
        let Some((opcode, payload)) = frame(&mut rest) else { return End::Cut };
        match opcode {
            0x1 => {
                let (serial, length) = *sent.next().expect("a message that was sent");
                assert!(payload.iter().copied().eq(text(serial, length)), "messages come whole and in order");
            }
            0x9 => assert!(payload.is_empty()),
            0xa => assert!(payload.len() <= 125),
            0x8 => {
                assert!(payload.len() != 1 && payload.len() <= 125);
                assert!(rest.is_empty(), "nothing follows a close frame");
                return End::Whole;
            }
            other => panic!("a frame of type {other}"),
        }
    }
    if sent.len() == 0 && visitor.stage == Stage::Open { End::Whole } else { End::Cut }
}

/// Takes a server frame off the front, if it is complete.
fn frame<'a>(rest: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let mut ahead = *rest;
    let [first, second] = *take(&mut ahead, 2)?.first_chunk()?;
    assert_eq!((first & 0xf0, second & 0x80), (0x80, 0), "whole, without extensions, not masked");
    let length = match second {
        126 => usize::from(u16::from_be_bytes(*take(&mut ahead, 2)?.first_chunk()?)),
        127 => u64::from_be_bytes(*take(&mut ahead, 8)?.first_chunk()?) as usize,
        short => usize::from(short),
    };
    let payload = take(&mut ahead, length)?;
    *rest = ahead;
    Some((first & 0xf, payload))
}
