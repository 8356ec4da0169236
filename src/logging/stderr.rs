//! Non-blocking standard error: a terminal stopped with Ctrl-S accepts nothing, nor does a full pipe that nobody reads.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

/// Maximum queued bytes. A single line may be longer.
const MAX_QUEUED: usize = 64 << 10;
/// Bytes that a terminal or pipe accepts without blocking once it is writable.
const SAFE_BYTES: usize = 256;

/// Queue of lines for `W`, which writes what it can without blocking and returns [`ErrorKind::WouldBlock`] if that is
/// nothing. Beyond [`MAX_QUEUED`] bytes lines are dropped and counted.
pub struct LineQueue<W> {
    sink: W,
    queued: VecDeque<u8>,
    dropped: u64,
}

impl<W: Write> LineQueue<W> {
    /// Creates an empty queue.
    pub fn new(sink: W) -> LineQueue<W> {
        LineQueue { sink, queued: VecDeque::new(), dropped: 0 }
    }

    /// Queues a line, which includes its line end. Once lines were dropped, all further ones are dropped until the
    /// queue is empty; then `notice` makes a line with their number.
    pub fn push(&mut self, line: &str, notice: impl FnOnce(u64) -> String) {
        self.flush(notice);
        let has_room = self.queued.is_empty() || self.queued.len() + line.len() <= MAX_QUEUED;
        if self.dropped > 0 || !has_room {
            self.dropped += 1;
            return;
        }
        self.queued.extend(line.as_bytes());
        self.write_queued();
    }

    /// Writes a short-lived text; it is dropped, uncounted, while anything is queued.
    pub fn push_transient(&mut self, text: &str) {
        if self.write_queued() {
            self.queued.extend(text.as_bytes());
            self.write_queued();
        }
    }

    /// Writes as much of the queue as possible; once it is empty, also the number of dropped lines.
    pub fn flush(&mut self, notice: impl FnOnce(u64) -> String) {
        self.write_queued();
        if self.dropped > 0 && self.queued.is_empty() {
            let line = notice(std::mem::take(&mut self.dropped));
            self.queued.extend(line.as_bytes());
            self.write_queued();
        }
    }

    /// Writes as much of the queue as possible. Returns whether nothing is queued and no drops are unreported.
    pub fn write_queued(&mut self) -> bool {
        while !self.queued.is_empty() {
            match self.sink.write(self.queued.as_slices().0) {
                Ok(0) => return false,
                Ok(written) => drop(self.queued.drain(..written)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                // If standard error is closed, nobody can read it.
                Err(_) => self.queued.clear(),
            }
        }
        self.dropped == 0
    }
}

/// Standard error. A write accepts what it can without blocking.
pub struct StderrWriter {
    /// The same terminal or pipe, opened a second time in non-blocking mode.
    reopened: Option<File>,
}

impl StderrWriter {
    /// Opens the present standard error.
    pub fn new() -> StderrWriter {
        StderrWriter { reopened: reopen() }
    }

    /// Waits up to `limit` until standard error is writable. Returns whether it is.
    pub fn wait(limit: Duration) -> bool {
        let stderr = io::stderr();
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        // The write reports errors, such as a closed reader.
        poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], Some(&limit)).is_ok_and(|ready| ready > 0)
    }
}

/// Opens the terminal or pipe behind standard error a second time, where the system allows it. Non-blocking mode set on
/// the inherited descriptor would affect the shell and all other programs that share it.
fn reopen() -> Option<File> {
    let kind = File::from(io::stderr().as_fd().try_clone_to_owned().ok()?).metadata().ok()?.file_type();
    let may_block = kind.is_char_device() || kind.is_fifo();
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let open = || OpenOptions::new().write(true).custom_flags(flags.bits() as i32).open("/proc/self/fd/2").ok();
    if may_block { open() } else { None }
}

impl Write for StderrWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.reopened {
            Some(file) => file.write(bytes),
            None if StderrWriter::wait(Duration::ZERO) => io::stderr().write(&bytes[..bytes.len().min(SAFE_BYTES)]),
            None => Err(ErrorKind::WouldBlock.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accepts `room` more bytes.
    #[derive(Default)]
    struct Reader {
        room: usize,
        read: Vec<u8>,
    }

    impl Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.room);
            self.room -= taken;
            self.read.extend_from_slice(&bytes[..taken]);
            if taken == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(taken) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn notice(dropped: u64) -> String {
        format!("{dropped} dropped\n")
    }

    /// Returns what was read since the last call.
    fn read(queue: &mut LineQueue<Reader>) -> String {
        String::from_utf8(std::mem::take(&mut queue.sink.read)).unwrap()
    }

    #[test]
    fn unread_lines_wait_in_order() {
        let mut queue = LineQueue::new(Reader { room: 8, read: Vec::new() });
        for line in ["one\n", "two two\n", "three\n"] {
            queue.push(line, notice);
        }
        assert_eq!(read(&mut queue), "one\ntwo ");
        queue.sink.room = usize::MAX;
        queue.flush(notice);
        assert_eq!(read(&mut queue), "two\nthree\n");
        assert!(queue.write_queued());
    }

    #[test]
    fn lines_beyond_the_limit_are_dropped_and_counted_once_the_reader_reads_again() {
        let mut queue = LineQueue::new(Reader::default());
        let line = format!("{}\n", "x".repeat(1023));
        for _ in 0..MAX_QUEUED / 1024 + 5 {
            queue.push(&line, notice);
        }
        // Lines that would fit are dropped too, so that no line is missing between others without a report.
        queue.push("short\n", notice);
        assert!(queue.queued.len() <= MAX_QUEUED);
        queue.sink.room = 1024;
        queue.push("soon\n", notice);
        assert_eq!(read(&mut queue), line);
        queue.sink.room = usize::MAX;
        queue.push("later\n", notice);
        let text = read(&mut queue);
        assert_eq!(text.len(), MAX_QUEUED - 1024 + "7 dropped\nlater\n".len());
        assert!(text.ends_with("x\n7 dropped\nlater\n"), "{}", &text[text.len() - 40..]);
        assert!(queue.write_queued());
    }

    #[test]
    fn a_line_longer_than_the_limit_is_written_when_nothing_waits() {
        let mut queue = LineQueue::new(Reader { room: 10, read: Vec::new() });
        let line = "x".repeat(2 * MAX_QUEUED);
        queue.push(&line, notice);
        queue.sink.room = usize::MAX;
        queue.flush(notice);
        assert_eq!(read(&mut queue), line);
    }

    #[test]
    fn a_transient_text_is_skipped_while_lines_wait() {
        let mut queue = LineQueue::new(Reader { room: 5, read: Vec::new() });
        queue.push_transient("1 %");
        queue.push_transient("2 %");
        queue.push_transient("3 %");
        queue.sink.room = usize::MAX;
        queue.push("done\n", notice);
        assert_eq!(read(&mut queue), "1 %2 %done\n");
    }

    #[test]
    fn lines_for_a_closed_reader_are_discarded() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut queue = LineQueue::new(Gone);
        queue.push("line\n", notice);
        assert!(queue.write_queued());
    }
}
