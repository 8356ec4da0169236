//! Bytes on their way to a client.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::mem;
use std::time::{Duration, Instant};

/// The end of a piece of output that must be sent whole or not at all, and when it was queued.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// Counted from the first byte ever queued.
    end: u64,
    queued: Instant,
}

/// The output of one connection. Holds no memory while nothing is pending.
#[derive(Debug, Default)]
pub(super) struct Output {
    buffer: Vec<u8>,
    /// Bytes of `buffer` already sent.
    sent: usize,
    /// Bytes that were in `buffer` once and were removed from its front.
    removed: u64,
    marks: VecDeque<Mark>,
    /// End of the last piece that was sent whole.
    boundary: u64,
}

/// How far [`Output::write_to`] got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub bytes: usize,
    /// The socket takes no more for now.
    pub blocked: bool,
}

impl Output {
    /// Bytes not sent yet.
    pub fn pending(&self) -> usize {
        self.buffer.len() - self.sent
    }

    pub fn is_empty(&self) -> bool {
        self.pending() == 0
    }

    /// Bytes of memory held.
    pub fn held_bytes(&self) -> usize {
        self.buffer.capacity() + self.marks.capacity() * size_of::<Mark>()
    }

    /// Where to append output.
    pub fn queue(&mut self) -> &mut Vec<u8> {
        if self.sent > 0 && self.sent >= self.pending() {
            self.buffer.drain(..self.sent);
            self.removed += self.sent as u64;
            self.sent = 0;
        }
        &mut self.buffer
    }

    /// Makes everything queued since the last mark one piece.
    pub fn mark(&mut self, now: Instant) {
        let end = self.removed + self.buffer.len() as u64;
        if self.marks.back().map_or(self.boundary, |mark| mark.end) < end {
            self.marks.push_back(Mark { end, queued: now });
        }
    }

    /// How long the oldest piece has waited.
    pub fn age(&self, now: Instant) -> Duration {
        self.marks.front().map_or(Duration::ZERO, |mark| now.saturating_duration_since(mark.queued))
    }

    /// Drops every piece of which nothing has been sent.
    pub fn drop_unsent(&mut self) {
        let sent = self.removed + self.sent as u64;
        let keep = match self.marks.front() {
            Some(mark) if sent > self.boundary => mark.end,
            _ => sent,
        };
        self.marks.truncate(usize::from(keep > sent));
        let keep = usize::try_from(keep - self.removed).unwrap_or(usize::MAX);
        self.buffer.truncate(keep);
    }

    /// Writes as much as `socket` takes.
    ///
    /// With `short_is_full` a write that takes only a part means that the next would take nothing,
    /// so it is not tried.
    pub fn write_to(&mut self, socket: &mut impl Write, short_is_full: bool) -> io::Result<Written> {
        let mut written = Written { bytes: 0, blocked: false };
        while self.sent < self.buffer.len() {
            match socket.write(&self.buffer[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.sent += count;
                    written.bytes += count;
                    written.blocked = short_is_full && self.sent < self.buffer.len();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => written.blocked = true,
                Err(error) => return Err(error),
            }
            if written.blocked {
                break;
            }
        }
        self.forget_sent();
        Ok(written)
    }

    fn forget_sent(&mut self) {
        let sent = self.removed + self.sent as u64;
        while let Some(mark) = self.marks.pop_front_if(|mark| mark.end <= sent) {
            self.boundary = mark.end;
        }
        if self.is_empty() {
            self.boundary = sent;
            self.removed = sent;
            self.sent = 0;
            self.buffer.clear();
        }
    }

    /// Lends `storage` to an output that holds none.
    pub fn lend(&mut self, storage: &mut Vec<u8>) {
        if self.buffer.capacity() == 0 {
            mem::swap(&mut self.buffer, storage);
        }
    }

    /// Gives lent storage back, if nothing is pending any more, or frees it.
    pub fn give_back(&mut self, storage: &mut Vec<u8>) {
        if !self.is_empty() {
            return;
        }
        if self.marks.capacity() > 0 {
            self.marks = VecDeque::new();
        }
        let used = mem::take(&mut self.buffer);
        if storage.capacity() == 0 {
            *storage = used;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes `room` bytes, then blocks.
    struct Sink {
        taken: Vec<u8>,
        room: usize,
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.room);
            if count == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            self.room -= count;
            self.taken.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn sink(room: usize) -> Sink {
        Sink { taken: Vec::new(), room }
    }

    #[test]
    fn dropping_the_unsent_keeps_the_piece_under_way_whole() {
        let now = Instant::now();
        for (room, kept) in [(0, ""), (3, "aaaa"), (4, "aaaa"), (5, "aaaabbbb"), (8, "aaaabbbb")] {
            let mut output = Output::default();
            for piece in [b"aaaa", b"bbbb", b"cccc"] {
                output.queue().extend_from_slice(piece);
                output.mark(now);
            }
            let mut socket = sink(room);
            output.write_to(&mut socket, false).unwrap();
            output.drop_unsent();
            output.queue().extend_from_slice(b"!");
            output.mark(now);
            socket.room = 100;
            output.write_to(&mut socket, false).unwrap();
            assert_eq!(socket.taken, format!("{kept}!").into_bytes(), "{room} sent");
            assert!(output.is_empty());
        }
    }

    #[test]
    fn the_age_is_that_of_the_oldest_piece_not_sent() {
        let start = Instant::now();
        let mut output = Output::default();
        for second in 0..3 {
            output.queue().extend_from_slice(b"1234");
            output.mark(start + Duration::from_secs(second));
        }
        let now = start + Duration::from_secs(10);
        assert_eq!(output.age(now).as_secs(), 10);
        output.write_to(&mut sink(6), true).unwrap();
        assert_eq!(output.age(now).as_secs(), 9);
        output.write_to(&mut sink(6), true).unwrap();
        assert_eq!(output.age(now).as_secs(), 0);
    }

    #[test]
    fn storage_comes_back_when_everything_is_sent() {
        let (mut output, mut spare) = (Output::default(), Vec::with_capacity(64));
        output.lend(&mut spare);
        output.queue().extend_from_slice(b"abc");
        output.give_back(&mut spare);
        assert_eq!((spare.capacity(), output.pending()), (0, 3));
        let written = output.write_to(&mut sink(2), true).unwrap();
        assert!(written.blocked && written.bytes == 2);
        output.write_to(&mut sink(9), true).unwrap();
        output.give_back(&mut spare);
        assert_eq!((spare.capacity(), output.held_bytes()), (64, 0));
    }
}
