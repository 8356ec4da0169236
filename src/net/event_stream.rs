//! Parser of Server-Sent Events (`text/event-stream`, as WHATWG's HTML standard defines it): bytes in, events out.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Bytes of one event, all its lines together.
pub const MAX_EVENT_BYTES: usize = 4 * 1024 * 1024;
/// May stand at the start of a stream.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// Name of an event that names none.
const DEFAULT_NAME: &str = "message";

/// An event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The last id so far, which resumes the stream behind this event; `None` if the stream has not told one.
    pub id: Option<String>,
    /// Name of the kind.
    pub name: String,
    /// The data; empty if the event only moves the id.
    pub data: String,
}

/// An event exceeds [`MAX_EVENT_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event has more than {MAX_EVENT_BYTES} bytes")]
pub struct EventTooLong;

/// Parses one stream, from its first byte on.
#[derive(Debug, Default)]
pub struct EventReader {
    /// The incomplete line.
    line: Vec<u8>,
    /// The last line ended with CR; an LF that follows belongs to it.
    after_cr: bool,
    /// A line has been read, so no byte order mark follows.
    has_begun: bool,
    /// The last id, which stays when an event has none of its own.
    id: Option<String>,
    /// The event that is being read has moved the id.
    has_id: bool,
    name: String,
    /// Data of the event that is being read, each line with LF at its end.
    data: String,
    /// Bytes of complete lines of the event that is being read.
    event_bytes: usize,
    events: VecDeque<Event>,
}

impl EventReader {
    /// Handles received bytes. Must not be called again after an error.
    pub fn receive(&mut self, mut bytes: &[u8]) -> Result<(), EventTooLong> {
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            let text = &bytes[..end.unwrap_or(bytes.len())];
            if self.event_bytes + self.line.len() + text.len() > MAX_EVENT_BYTES {
                return Err(EventTooLong);
            }
            self.line.extend_from_slice(text);
            let Some(end) = end else { return Ok(()) };
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.line);
            self.event_bytes += line.len();
            let is_first = !std::mem::replace(&mut self.has_begun, true);
            let mark = if is_first { BYTE_ORDER_MARK } else { b"" };
            self.handle_line(&String::from_utf8_lossy(line.strip_prefix(mark).unwrap_or(&line)));
        }
        Ok(())
    }

    /// Returns the next complete event.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn handle_line(&mut self, line: &str) {
        if line.is_empty() {
            return self.end_event();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => self.data.extend([value, "\n"]),
            "id" if !value.contains('\0') => {
                self.id = Some(value.to_owned()).filter(|id| !id.is_empty());
                self.has_id = true;
            }
            // A comment, the time between connections, or a field of a later standard.
            _ => {}
        }
    }

    fn end_event(&mut self) {
        self.event_bytes = 0;
        let (mut name, mut data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
        let has_data = data.pop().is_some();
        if std::mem::take(&mut self.has_id) || has_data {
            if name.is_empty() {
                DEFAULT_NAME.clone_into(&mut name);
            }
            self.events.push_back(Event { id: self.id.clone(), name, data });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads a stream in pieces of `size` bytes; returns each event as `id/name/data`.
    fn read(bytes: &[u8], size: usize) -> Vec<String> {
        let mut reader = EventReader::default();
        bytes.chunks(size).for_each(|piece| reader.receive(piece).unwrap());
        let text = |event: Event| format!("{}/{}/{}", event.id.unwrap_or_default(), event.name, event.data);
        std::iter::from_fn(|| reader.next_event()).map(text).collect()
    }

    #[test]
    fn events_are_the_same_wherever_the_bytes_are_cut_and_however_lines_end() {
        let text = "retry: 3000\n\n: hello\n\nid: 1.2.ab\nevent: transaction\ndata: {\"a\":1}\n\n:\n\n\
                    event:undone\ndata:{é}\n\nid: 7\n\ndata\n\nid\ndata: x\n\n";
        let expected = ["1.2.ab/transaction/{\"a\":1}", "1.2.ab/undone/{é}", "7/message/", "7/message/", "/message/x"];
        for end in ["\n", "\r\n", "\r"] {
            let text = text.replace('\n', end);
            for size in [1, 2, 3, 5, 64, 1000] {
                assert_eq!(read(text.as_bytes(), size), expected, "{size} {end:?}");
            }
        }
    }

    #[test]
    fn data_of_several_lines_is_joined() {
        assert_eq!(read(b"data: a\ndata:  b\ndata\ndata: c\n\n", 4), ["/message/a\n b\n\nc"]);
    }

    #[test]
    fn a_byte_order_mark_is_ignored_at_the_start_only() {
        let text = "\u{feff}data: a\n\n\u{feff}data: b\n\ndata: c\n\n";
        for size in [1, 2, 100] {
            assert_eq!(read(text.as_bytes(), size), ["/message/a", "/message/c"]);
        }
        assert_eq!(read("\u{feff}\ndata: a\n\n".as_bytes(), 1), ["/message/a"]);
    }

    #[test]
    fn an_event_without_an_empty_line_behind_it_is_not_complete() {
        assert!(read(b"id: 1\nevent: block\ndata: {}\n", 100).is_empty());
        assert!(read(b"event: block\n\n: comment\n\n\n", 1).is_empty());
        assert_eq!(read(b"event: block\n\ndata: x\n\n", 1), ["/message/x"], "a name is that of one event");
    }

    #[test]
    fn an_id_with_a_nul_is_ignored_and_bytes_that_are_not_text_are_replaced() {
        assert_eq!(read(b"id: a\nid: b\0c\ndata: \xff\n\n", 3), ["a/message/\u{fffd}"]);
    }

    #[test]
    fn an_event_has_a_limit_and_a_stream_has_none() {
        let line = [b"data: ".as_slice(), &[b'a'; 1000], b"\n"].concat();
        let lines = MAX_EVENT_BYTES / (line.len() - 1);
        let mut reader = EventReader::default();
        for _ in 0..2 {
            (0..lines).for_each(|_| reader.receive(&line).unwrap());
            reader.receive(b"\n").unwrap();
            assert!(reader.next_event().is_some());
        }
        (0..lines).for_each(|_| reader.receive(&line).unwrap());
        assert_eq!(reader.receive(&line), Err(EventTooLong));
        let mut reader = EventReader::default();
        let piece = [b':'; 4096];
        (0..MAX_EVENT_BYTES / 4096).for_each(|_| reader.receive(&piece).unwrap());
        assert_eq!(reader.receive(b":"), Err(EventTooLong));
    }

    proptest! {
        #[test]
        fn events_of_noise_do_not_depend_on_how_it_is_cut(
            noise in prop::collection::vec(
                prop_oneof![
                    any::<Vec<u8>>(),
                    Just(b"data: x".to_vec()),
                    Just(b"id: 5".to_vec()),
                    Just(b"\r".to_vec()),
                    Just(b"\n".to_vec()),
                    Just("\u{feff}".as_bytes().to_vec()),
                ],
                0..20,
            ),
            size in 1..9usize,
        ) {
            let bytes = noise.concat();
            prop_assert_eq!(read(&bytes, size), read(&bytes, usize::MAX));
        }
    }
}
