//! The log: lines on standard error, with UTC time stamps.
//!
//! ```text
//! 2026-11-20 08:16:10.209Z INFO  height 60, synchronised
//! {"time":"2026-11-20T08:16:10.209Z","level":"INFO","target":"nisd::node","message":"height 60, synchronised"}
//! <6>height 60, synchronised
//! ```
//!
//! The second line is [`Style::Json`]. The third is [`Style::Journal`] for systemd, which adds times and names itself.
//!
//! Logging never blocks: output that standard error does not accept at once is queued up to a limit, then dropped and
//! counted. A terminal stopped with Ctrl-S accepts nothing, nor does a full pipe that nobody reads. What a full disk
//! rejects is counted too.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::{Arguments, Display, Write as _};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::mem;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::time::Duration;

use log::{Level, LevelFilter, Log, Metadata, Record, SetLoggerError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::Serialize;

use crate::model::{is_invisible, utc};

/// First segments of the log targets of this program's own crates.
const OWN_TARGETS: [&str; 3] = ["nisd", "nisd_core", "nisd_net"];
/// Least severe level that other crates can log at.
const OTHER_CRATES_LEVEL: Level = Level::Warn;

/// Lines that a place in the code writes at once, of level info or more severe, and milliseconds after which it may write
/// one more. Further ones are counted: strangers can cause any number of most lines. Less severe ones have no limit.
const MAX_INFO_AT_ONCE: i64 = 60;
const MAX_WARNINGS_AT_ONCE: i64 = 10;
const MILLIS_PER_LINE: i64 = 6_000;

/// Limits on waiting for standard error at exit: time of one wait, and number of waits.
const EXIT_WAIT: Duration = Duration::from_secs(1);
const MAX_EXIT_WAITS: u32 = 1_000;

/// A file of the code, and a line in it.
type CodePlace = (&'static str, u32);

thread_local! {
    /// Thread-local: the program has one thread, and each test has its own log.
    static QUEUE: RefCell<LineQueue<StderrWriter>> = RefCell::new(LineQueue::new(StderrWriter { reopened: reopen() }));
    static PLACES: RefCell<BTreeMap<CodePlace, LinesOfPlace>> = RefCell::default();
}

/// Format of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// For a terminal: each line first clears the current one, which may hold a progress meter.
    Terminal,
    /// For a file.
    Plain,
    /// For systemd's journal: lines start with their priority.
    Journal,
    /// One JSON object per line.
    Json,
}

/// Installs the log. `now` returns Unix time in milliseconds. Fails if called a second time.
pub fn init(level: LevelFilter, now: fn() -> i64, style: Style) -> Result<(), SetLoggerError> {
    log::set_boxed_logger(Box::new(Logger { now, style }))?;
    log::set_max_level(level);
    Ok(())
}

/// Writes queued output at exit, with the number of lines that were left out and not told: waits until all is written, or
/// standard error accepted nothing for a second.
pub fn finish() {
    let left_out = take_left_out();
    if left_out > 0 {
        log_always(Level::Warn, &format_args!("{left_out} lines of this log are left out"));
    }
    for _ in 0..MAX_EXIT_WAITS {
        log::logger().flush();
        // Uses the queue directly: output may be queued although the program failed before the log was installed. What
        // still waits after a flush may be followed by a notice. If nothing waits, lines that are missing were rejected.
        let Some(is_written) = with_queue(LineQueue::write_rest).flatten() else { return };
        // A signal, such as that of a helper that ends, is no reason to give up.
        if !is_written && StderrWriter::wait(EXIT_WAIT) == Some(false) {
            return;
        }
    }
}

/// Writes a line that is not a log entry, such as why the program ends. Never blocks; [`finish`] waits for it.
pub fn eprint_line(line: &str) {
    with_queue(|queue| queue.push(&format!("{line}\n"), |dropped| format!("{dropped} lines are missing\n")));
}

/// Returns whether a stream leads to a terminal that can draw over what it shows.
pub fn is_screen(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("TERM").is_some_and(|kind| !kind.is_empty() && kind != "dumb")
}

/// Waits for at most `limit` until a stream is ready for `events`. Returns whether it is; `None` after a signal.
pub fn wait_until_ready(stream: &impl AsFd, events: PollFlags, limit: Duration) -> io::Result<Option<bool>> {
    let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(stream, events)], Some(&limit)) {
        Err(Errno::INTR) => Ok(None),
        ready => Ok(Some(ready? > 0)),
    }
}

/// Writes a short-lived text, such as a progress meter; it is dropped if standard error does not accept it now. Never
/// blocks.
pub fn show_transient(text: &str) {
    with_queue(|queue| queue.push_transient(text));
}

/// Calls `act` with the queue; `None` if the queue is in use, which only a logger that logs could cause.
fn with_queue<T>(act: impl FnOnce(&mut LineQueue<StderrWriter>) -> T) -> Option<T> {
    QUEUE.with(|queue| queue.try_borrow_mut().ok().map(|mut queue| act(&mut queue)))
}

struct Logger {
    now: fn() -> i64,
    style: Style,
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let own = metadata.target().split("::").next().is_some_and(|name| OWN_TARGETS.contains(&name));
        metadata.level() <= log::max_level() && (own || metadata.level() <= OTHER_CRATES_LEVEL)
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let now = (self.now)();
        match admit(record, now) {
            None => return,
            Some(0) => {}
            Some(left_out) => self.push(&self.notice(format_args!("{left_out} lines like the next one are left out"))),
        }
        self.push(&format_line(now, record, self.style));
    }

    /// Writes queued output, as far as standard error accepts it. Never blocks.
    fn flush(&self) {
        with_queue(|queue| queue.flush(|dropped| self.dropped_line(dropped)));
    }
}

impl Logger {
    fn push(&self, line: &str) {
        with_queue(|queue| queue.push(line, |dropped| self.dropped_line(dropped)));
    }

    fn dropped_line(&self, dropped: u64) -> String {
        self.notice(format_args!("{dropped} lines of this log are missing: standard error did not accept them"))
    }

    fn notice(&self, text: Arguments<'_>) -> String {
        let record = Record::builder().level(Level::Warn).target(env!("CARGO_CRATE_NAME")).args(text).build();
        format_line((self.now)(), &record, self.style)
    }
}

/// Logs a line that is written however many there are of its kind.
pub fn log_always(level: Level, text: &impl Display) {
    let target = env!("CARGO_CRATE_NAME");
    log::logger().log(&Record::builder().level(level).target(target).args(format_args!("{text}")).build());
}

/// Returns whether a line is written, with the number of lines of its place that were left out before it.
fn admit(record: &Record<'_>, unix_millis: i64) -> Option<u64> {
    let most = match record.level() {
        Level::Error | Level::Warn => MAX_WARNINGS_AT_ONCE,
        Level::Info => MAX_INFO_AT_ONCE,
        Level::Debug | Level::Trace => return Some(0),
    };
    let Some(place) = record.file_static().zip(record.line()) else { return Some(0) };
    PLACES.with_borrow_mut(|places| places.entry(place).or_default().admit(most, unix_millis))
}

/// Returns the number of lines that were left out and not told yet.
fn take_left_out() -> u64 {
    PLACES.with_borrow_mut(|places| places.values_mut().map(|lines| mem::take(&mut lines.left_out)).sum())
}

/// Lines of one place in the code.
#[derive(Default)]
struct LinesOfPlace {
    /// Unix time in milliseconds at which it may again write as many as at first.
    paid_until: i64,
    left_out: u64,
}

impl LinesOfPlace {
    fn admit(&mut self, most: i64, unix_millis: i64) -> Option<u64> {
        let end = unix_millis.saturating_add(most * MILLIS_PER_LINE);
        // The clock may have been set back.
        self.paid_until = self.paid_until.clamp(unix_millis, end);
        if self.paid_until + MILLIS_PER_LINE > end {
            self.left_out += 1;
            return None;
        }
        self.paid_until += MILLIS_PER_LINE;
        Some(mem::take(&mut self.left_out))
    }
}

fn format_line(unix_millis: i64, record: &Record<'_>, style: Style) -> String {
    const CLEAR_LINE: &str = "\r\x1b[K";
    let mut line = String::with_capacity(128);
    let priority = priority(record.level());
    match style {
        Style::Json => return json_line(unix_millis, record),
        Style::Journal => line.push_str(priority),
        Style::Terminal => line.push_str(CLEAR_LINE),
        Style::Plain => {}
    }
    if style != Style::Journal {
        let _ = write!(line, "{}Z {:<5} ", utc(unix_millis), record.level());
    }
    if record.level() >= Level::Debug {
        let _ = write!(line, "[{}] ", record.target());
    }
    let next_line = if style == Style::Journal { format!("\n{priority}    ") } else { "\n    ".to_owned() };
    push_message(&mut line, &record.args().to_string(), &next_line);
    line.push('\n');
    line
}

/// Returns the prefix of a journal line: the syslog priority.
fn priority(level: Level) -> &'static str {
    match level {
        Level::Error => "<3>",
        Level::Warn => "<4>",
        Level::Info => "<6>",
        Level::Debug | Level::Trace => "<7>",
    }
}

fn json_line(unix_millis: i64, record: &Record<'_>) -> String {
    #[derive(Serialize)]
    struct Line<'a> {
        time: String,
        level: &'static str,
        target: &'a str,
        message: String,
    }
    let time = format!("{}Z", utc(unix_millis).replacen(' ', "T", 1));
    let (level, target) = (record.level().as_str(), record.target());
    let line = Line { time, level, target, message: record.args().to_string() };
    serde_json::to_string(&line).unwrap_or_default() + "\n"
}

/// Appends a message so that it can neither look like another line nor control the terminal: later lines are indented,
/// other control characters are escaped. `next_line` is inserted between two lines.
fn push_message(line: &mut String, message: &str, next_line: &str) {
    for character in message.trim_end().chars() {
        match character {
            '\n' => line.push_str(next_line),
            '\t' => line.push('\t'),
            invisible if is_invisible(invisible) => line.extend(invisible.escape_default()),
            other => line.push(other),
        }
    }
}

/// Maximum queued bytes. A single line may be longer.
const MAX_QUEUED: usize = 64 << 10;
/// Bytes that a terminal or pipe accepts without blocking once it is writable.
pub const SAFE_BYTES: usize = 256;

/// Queue of lines for `W`, which writes what it can without blocking and returns [`ErrorKind::WouldBlock`] if that is
/// nothing. Lines beyond [`MAX_QUEUED`] bytes, and those that are rejected with another error, are dropped and counted.
struct LineQueue<W> {
    sink: W,
    queued: VecDeque<u8>,
    dropped: u64,
    /// The number in the notice that is queued.
    noticed: u64,
    /// Whether the last byte that was written ends a line.
    is_line_ended: bool,
    /// Whether a part of a line was written, and its rest was dropped.
    is_line_cut: bool,
}

impl<W: Write> LineQueue<W> {
    /// Creates an empty queue.
    fn new(sink: W) -> LineQueue<W> {
        LineQueue { sink, queued: VecDeque::new(), dropped: 0, noticed: 0, is_line_ended: true, is_line_cut: false }
    }

    /// Queues a line, which includes its line end. Once lines were dropped, all further ones are dropped until the
    /// queue is empty; then `notice` makes a line with their number.
    fn push(&mut self, line: &str, notice: impl FnOnce(u64) -> String) {
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
    fn push_transient(&mut self, text: &str) {
        if self.write_queued() {
            self.queued.extend(text.as_bytes());
            self.write_queued();
        }
    }

    /// Writes as much of the queue as possible; once it is empty, also the number of dropped lines.
    fn flush(&mut self, notice: impl FnOnce(u64) -> String) {
        self.write_queued();
        if self.dropped > 0 && self.queued.is_empty() {
            self.noticed = std::mem::take(&mut self.dropped);
            let line = notice(self.noticed);
            // The line that was cut gets its end.
            self.queued.extend(if self.is_line_cut { b"\n".as_slice() } else { b"" });
            self.queued.extend(line.as_bytes());
            self.write_queued();
        }
    }

    /// Writes as much of the queue as possible. Returns whether nothing is queued and no drops are unreported.
    fn write_queued(&mut self) -> bool {
        while !self.queued.is_empty() {
            match self.sink.write(self.queued.as_slices().0) {
                Ok(0) => return false,
                Ok(written) => {
                    self.is_line_ended = self.queued.drain(..written).next_back() == Some(b'\n');
                    self.is_line_cut &= !self.is_line_ended;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                // Nobody reads it any more.
                Err(error) if is_closed(&error) => self.queued.clear(),
                // A full disk, for example.
                Err(_) => self.drop_queued(),
            }
        }
        self.noticed = 0;
        self.dropped == 0
    }

    /// Writes as much as possible of what a flush has left, and returns whether that was all; `None` if it has left nothing.
    fn write_rest(&mut self) -> Option<bool> {
        if self.queued.is_empty() {
            return None;
        }
        self.write_queued();
        Some(self.queued.is_empty())
    }

    /// Drops and counts what is queued. A notice that is dropped passes on its number.
    fn drop_queued(&mut self) {
        let lines = self.queued.drain(..).filter(|byte| *byte == b'\n').count() as u64;
        // The end of a line that was cut before is no line.
        let of_notice = if self.noticed > 0 { 1 + u64::from(self.is_line_cut) } else { 0 };
        self.dropped += std::mem::take(&mut self.noticed) + lines.saturating_sub(of_notice);
        self.is_line_cut |= !self.is_line_ended;
    }
}

/// Returns whether the reader of a stream is gone for good, such as the other end of a pipe or a terminal.
fn is_closed(error: &io::Error) -> bool {
    error.kind() == ErrorKind::BrokenPipe || error.raw_os_error() == Some(Errno::IO.raw_os_error())
}

/// Standard error. A write accepts what it can without blocking.
struct StderrWriter {
    /// The same terminal or pipe, opened a second time in non-blocking mode.
    reopened: Option<File>,
}

impl StderrWriter {
    /// Waits up to `limit` until standard error is writable. Returns whether it is; `None` after a signal.
    fn wait(limit: Duration) -> Option<bool> {
        // The write reports errors, such as a closed reader.
        wait_until_ready(&io::stderr(), PollFlags::OUT, limit).unwrap_or(Some(false))
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
            None if StderrWriter::wait(Duration::ZERO) == Some(true) => {
                io::stderr().write(&bytes[..bytes.len().min(SAFE_BYTES)])
            }
            None => Err(ErrorKind::WouldBlock.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(level: Level, target: &str, message: &str, style: Style) -> String {
        let mut record = Record::builder();
        let record = record.level(level).target(target);
        format_line(1_795_162_570_209, &record.args(format_args!("{message}")).build(), style)
    }

    #[test]
    fn a_place_in_the_code_writes_some_lines_at_once_and_ten_a_minute_and_the_others_are_counted() {
        const NOW: i64 = 1_795_162_570_209;
        let admit_of = |level, line, at: i64| {
            admit(&Record::builder().level(level).file_static(Some("a.rs")).line(Some(line)).build(), NOW + at)
        };
        for (level, most) in [(Level::Info, 60), (Level::Warn, 10), (Level::Error, 10)] {
            let at = |millis| admit_of(level, level as u32, millis);
            assert!((0..most).all(|millis| at(millis) == Some(0)));
            assert!((most..most + 1_000).all(|millis| at(millis).is_none()) && at(5_999).is_none());
            assert_eq!([at(6_000), at(6_001), at(12_000), at(12_001)], [Some(1_001), None, Some(1), None]);
            assert_eq!([at(-1), at(6_000)], [None, Some(2)], "the clock was set back");
            let admitted = (0..60_000).filter(|millis| at(6_001 + millis).is_some()).count();
            assert_eq!(admitted, 10);
        }
        take_left_out();
        assert!((0..12).filter(|_| admit_of(Level::Warn, 8, 0).is_none()).count() == 2);
        assert_eq!([take_left_out(), take_left_out()], [2, 0], "told at exit");
        assert!((0..1_000).all(|line| admit_of(Level::Info, 10 + line, 0) == Some(0)), "these are other places");
        assert!((0..1_000).all(|_| admit_of(Level::Debug, 9, 0) == Some(0)));
        let without_place = Record::builder().level(Level::Warn).build();
        assert!((0..1_000).all(|_| admit(&without_place, NOW) == Some(0)));
    }

    #[test]
    fn timestamps_are_shown_in_utc() {
        for (millis, text) in [
            (0, "1970-01-01 00:00:00.000"),
            (-1, "1969-12-31 23:59:59.999"),
            (1_427_587_585_000, "2015-03-29 00:06:25.000"),
            (951_782_400_000, "2000-02-29 00:00:00.000"),
            (951_868_799_999, "2000-02-29 23:59:59.999"),
            (4_107_542_400_000, "2100-03-01 00:00:00.000"),
            (1_735_689_599_000, "2024-12-31 23:59:59.000"),
        ] {
            assert_eq!(utc(millis), text);
        }
    }

    #[test]
    fn a_line_has_time_level_and_message() {
        assert_eq!(
            line(Level::Info, "nisd", "synchronised\n", Style::Plain),
            format!("{}Z INFO  synchronised\n", utc(1_795_162_570_209))
        );
        assert!(line(Level::Debug, "nisd::net", "x", Style::Plain).ends_with("Z DEBUG [nisd::net] x\n"));
        assert!(line(Level::Warn, "nisd", "x", Style::Terminal).starts_with("\r\x1b[K20"));
    }

    #[test]
    fn every_journal_line_has_its_priority() {
        assert_eq!(line(Level::Warn, "nisd", "a\nb\n", Style::Journal), "<4>a\n<4>    b\n");
        assert_eq!(line(Level::Debug, "nisd::net", "x", Style::Journal), "<7>[nisd::net] x\n");
    }

    #[test]
    fn a_line_of_json_holds_any_message() {
        let line = line(Level::Error, "nisd::net", "a\n\"b\"\u{1b}", Style::Json);
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["time"], format!("{}Z", utc(1_795_162_570_209).replace(' ', "T")));
        assert_eq!((&read["level"], &read["target"]), (&"ERROR".into(), &"nisd::net".into()));
        assert_eq!(read["message"], "a\n\"b\"\u{1b}");
        assert_eq!(line.matches('\n').count(), 1);
    }

    #[test]
    fn a_message_cannot_forge_a_line_or_control_the_terminal() {
        let line = line(Level::Info, "nisd", "a\n2026 INFO b\r\x1b[2J\u{9b}c", Style::Plain);
        assert!(line.ends_with("a\n    2026 INFO b\\r\\u{1b}[2J\\u{9b}c\n"), "{line}");
    }

    #[test]
    fn other_crates_log_only_warnings_and_errors() {
        let logger = Logger { now: || 0, style: Style::Plain };
        log::set_max_level(LevelFilter::Debug);
        let hears = |level, target| logger.enabled(&Metadata::builder().level(level).target(target).build());
        assert!(
            ["nisd::api", "nisd", "nisd_core::store", "nisd_net::server"]
                .iter()
                .all(|target| hears(Level::Debug, target))
        );
        assert!(!hears(Level::Trace, "nisd"));
        assert!(hears(Level::Warn, "mio") && !hears(Level::Info, "mio") && !hears(Level::Info, "nisdx"));
        log::set_max_level(LevelFilter::Off);
        assert!(!hears(Level::Error, "nisd"));
    }

    proptest! {
        #[test]
        fn any_timestamp_can_be_shown(millis in any::<i64>()) {
            prop_assert!(!utc(millis).is_empty());
        }
    }

    /// Accepts `capacity` more bytes.
    #[derive(Default)]
    struct Reader {
        capacity: usize,
        read: Vec<u8>,
    }

    impl Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.capacity);
            self.capacity -= taken;
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
        let mut queue = LineQueue::new(Reader { capacity: 8, read: Vec::new() });
        for line in ["one\n", "two two\n", "three\n"] {
            queue.push(line, notice);
        }
        assert_eq!(read(&mut queue), "one\ntwo ");
        queue.sink.capacity = usize::MAX;
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
        queue.sink.capacity = 1024;
        queue.push("soon\n", notice);
        assert_eq!(read(&mut queue), line);
        queue.sink.capacity = usize::MAX;
        queue.push("later\n", notice);
        let text = read(&mut queue);
        assert_eq!(text.len(), MAX_QUEUED - 1024 + "7 dropped\nlater\n".len());
        assert!(text.ends_with("x\n7 dropped\nlater\n"), "{}", &text[text.len() - 40..]);
        assert!(queue.write_queued());
    }

    #[test]
    fn a_line_longer_than_the_limit_is_written_when_nothing_waits() {
        let mut queue = LineQueue::new(Reader { capacity: 10, read: Vec::new() });
        let line = "x".repeat(2 * MAX_QUEUED);
        queue.push(&line, notice);
        queue.sink.capacity = usize::MAX;
        queue.flush(notice);
        assert_eq!(read(&mut queue), line);
    }

    #[test]
    fn a_transient_text_is_skipped_while_lines_wait() {
        let mut queue = LineQueue::new(Reader { capacity: 5, read: Vec::new() });
        queue.push_transient("1 %");
        queue.push_transient("2 %");
        queue.push_transient("3 %");
        queue.sink.capacity = usize::MAX;
        queue.push("done\n", notice);
        assert_eq!(read(&mut queue), "1 %2 %done\n");
    }

    /// Accepts `capacity` more bytes, and then fails.
    struct Disk {
        capacity: usize,
        error: Errno,
        written: String,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.capacity);
            self.capacity -= taken;
            self.written += std::str::from_utf8(&bytes[..taken]).unwrap();
            if taken == 0 { Err(self.error.into()) } else { Ok(taken) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_for_a_closed_reader_are_discarded() {
        for error in [Errno::PIPE, Errno::IO] {
            let mut queue = LineQueue::new(Disk { capacity: 0, error, written: String::new() });
            queue.push("line\n", notice);
            assert!(queue.write_queued());
        }
    }

    #[test]
    fn lines_that_a_full_disk_rejects_are_counted_and_a_line_that_was_cut_gets_its_end() {
        let mut queue = LineQueue::new(Disk { capacity: 7, error: Errno::NOSPC, written: String::new() });
        for line in ["one\n", "two two\n", "three\n", "four\n"] {
            queue.push(line, notice);
        }
        assert!(queue.queued.is_empty() && !queue.write_queued());
        queue.sink.capacity = usize::MAX;
        queue.push("five\n", notice);
        assert_eq!(queue.sink.written, "one\ntwo\n3 dropped\nfive\n");
        assert!(queue.write_queued());
        // The notice itself is cut, wherever the disk ends.
        for room in 1..11 {
            let mut queue = LineQueue::new(Disk { capacity: 1, error: Errno::DQUOT, written: String::new() });
            for line in ["one\n", "two\n"] {
                queue.push(line, notice);
            }
            queue.sink.capacity = room;
            queue.push("three\n", notice);
            queue.sink.capacity = usize::MAX;
            queue.push("four\n", notice);
            let lines: Vec<_> = queue.sink.written.lines().collect();
            assert_eq!((lines[0], lines.last()), ("o", Some(&"four")), "{lines:?}");
            assert!(lines.contains(&"3 dropped"), "{room}: {lines:?}");
        }
    }
}
