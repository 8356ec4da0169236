//! The log: lines on the standard error stream, with UTC time stamps.
//!
//! ```text
//! 2026-11-20 08:16:10.209 INFO  height 60, in step
//! ```

use std::fmt::Write as _;
use std::io::{self, Write as _};

use log::{Level, LevelFilter, Log, Metadata, Record, SetLoggerError};

/// First part of the names of this crate's own targets.
const OWN_TARGET: &str = "nisd";
/// Least severe level at which other crates are heard.
const OTHERS: Level = Level::Warn;

/// Answers Unix time in milliseconds. It is handed in, since only the program's outermost part reads clocks.
pub type UnixMillis = fn() -> i64;

/// Installs the log, once in the life of the program; a second time is an error.
///
/// With `terminal`, each line first clears the line that the cursor is on, which may hold a progress meter.
pub fn init(level: LevelFilter, now: UnixMillis, terminal: bool) -> Result<(), SetLoggerError> {
    log::set_boxed_logger(Box::new(Logger { level, now, terminal }))?;
    log::set_max_level(level);
    Ok(())
}

struct Logger {
    level: LevelFilter,
    now: UnixMillis,
    terminal: bool,
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let own = metadata.target().split("::").next() == Some(OWN_TARGET);
        metadata.level() <= self.level && (own || metadata.level() <= OTHERS)
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let line = format_line((self.now)(), record, self.terminal);
            // Where the log cannot be written, nobody can be told.
            let _ = io::stderr().lock().write_all(line.as_bytes());
        }
    }

    fn flush(&self) {}
}

fn format_line(unix_millis: i64, record: &Record<'_>, terminal: bool) -> String {
    const CLEAR_LINE: &str = "\r\x1b[K";
    let mut line = String::with_capacity(128);
    if terminal {
        line.push_str(CLEAR_LINE);
    }
    let _ = write!(line, "{} {:<5} ", utc(unix_millis), record.level());
    if record.level() >= Level::Debug {
        let _ = write!(line, "[{}] ", record.target());
    }
    push_message(&mut line, &record.args().to_string());
    line.push('\n');
    line
}

/// Appends a message so that it cannot pass for another line or command the terminal: lines after the first are
/// indented, other control characters are escaped.
fn push_message(line: &mut String, message: &str) {
    for character in message.trim_end().chars() {
        match character {
            '\n' => line.push_str("\n    "),
            '\t' => line.push('\t'),
            control if control.is_control() => line.extend(control.escape_default()),
            other => line.push(other),
        }
    }
}

/// `YYYY-MM-DD hh:mm:ss.mmm` of a moment of Unix time in milliseconds.
pub fn utc(unix_millis: i64) -> String {
    let millis = unix_millis.rem_euclid(1000);
    let seconds = unix_millis.div_euclid(1000);
    let (year, month, day) = civil_date(seconds.div_euclid(86_400));
    let second = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{millis:03}")
}

/// Year, month and day of a day counted from 1970-01-01.
///
/// Years are taken to begin in March, so that the leap day is their last and the lengths of months follow one
/// formula; 400 of them have 146,097 days.
fn civil_date(day: i64) -> (i64, i64, i64) {
    const DAYS_FROM_MARCH_0000_TO_1970: i64 = 719_468;
    let day = day + DAYS_FROM_MARCH_0000_TO_1970;
    let era = day.div_euclid(146_097);
    let day_of_era = day.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = 400 * era + year_of_era + i64::from(month <= 2);
    (year, month, day_of_month)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(level: Level, target: &str, message: &str, terminal: bool) -> String {
        let mut record = Record::builder();
        let record = record.level(level).target(target);
        format_line(1_795_162_570_209, &record.args(format_args!("{message}")).build(), terminal)
    }

    #[test]
    fn moments_are_shown_in_utc() {
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
            line(Level::Info, "nisd", "in step\n", false),
            format!("{} INFO  in step\n", utc(1_795_162_570_209))
        );
        assert!(line(Level::Debug, "nisd::net", "x", false).ends_with(" DEBUG [nisd::net] x\n"));
        assert!(line(Level::Warn, "nisd", "x", true).starts_with("\r\x1b[K20"));
    }

    #[test]
    fn a_message_cannot_pass_for_another_line_or_command_the_terminal() {
        let line = line(Level::Info, "nisd", "a\n2026 INFO b\r\x1b[2J\u{9b}c", false);
        assert!(line.ends_with("a\n    2026 INFO b\\r\\u{1b}[2J\\u{9b}c\n"), "{line}");
    }

    #[test]
    fn other_crates_are_heard_only_when_it_matters() {
        let logger = Logger { level: LevelFilter::Debug, now: || 0, terminal: false };
        let hears = |level, target| logger.enabled(&Metadata::builder().level(level).target(target).build());
        assert!(hears(Level::Debug, "nisd::api") && hears(Level::Debug, "nisd"));
        assert!(!hears(Level::Trace, "nisd"));
        assert!(hears(Level::Warn, "mio") && !hears(Level::Info, "mio") && !hears(Level::Info, "nisdx"));
        let quiet = Logger { level: LevelFilter::Off, now: || 0, terminal: false };
        assert!(!quiet.enabled(&Metadata::builder().level(Level::Error).target("nisd").build()));
    }

    proptest! {
        #[test]
        fn later_days_have_later_dates(day in -1_000_000i64..1_000_000) {
            let (today, tomorrow) = (civil_date(day), civil_date(day + 1));
            prop_assert!(today < tomorrow);
            prop_assert!((1..=12).contains(&today.1) && (1..=31).contains(&today.2));
            prop_assert!(tomorrow.2 == today.2 + 1 || tomorrow.2 == 1);
        }

        #[test]
        fn any_moment_can_be_shown(millis in any::<i64>()) {
            prop_assert!(utc(millis).len() >= 23);
        }
    }
}
