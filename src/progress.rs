//! Progress of a long operation on the chain: one line for a terminal or a log.
//!
//! This module neither reads clocks nor writes: times are passed in as milliseconds of any monotonic clock, and texts
//! are returned.

use std::collections::VecDeque;
use std::fmt::{self, Write};

/// Minimum time between two lines on a terminal, in milliseconds.
const TERMINAL_INTERVAL: u64 = 100;
/// Minimum time between two lines in a log, in milliseconds.
const LOG_INTERVAL: u64 = 5_000;
/// Time between two samples for the rate, in milliseconds.
const SAMPLE_INTERVAL: u64 = 500;
/// Samples kept; times the sample interval, this is the period of the rate.
const MAX_SAMPLES: usize = 10;
/// Minimum width of a terminal, in columns; a narrower one is treated as this wide.
const MIN_WIDTH: usize = 20;

/// Progress of the operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Height of the chain.
    pub height: u64,
    /// Height at which the operation ends, if known.
    pub target: Option<u64>,
    /// Bytes done and total bytes, if known.
    pub bytes: Option<(u64, u64)>,
}

impl Progress {
    /// Returns work done and total work in the unit that predicts the remaining time best: bytes, else blocks.
    fn work(&self) -> Option<(u64, u64)> {
        self.bytes.or(self.target.map(|target| (self.height, target)))
    }
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A line that is rewritten in place, at most ten times a second.
    Terminal {
        /// Columns of the terminal.
        width: usize,
    },
    /// Lines without line ends, at most one every five seconds.
    Log,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: u64,
    height: u64,
    work: u64,
}

impl Sample {
    fn new(at: u64, progress: &Progress) -> Sample {
        Sample { at, height: progress.height, work: progress.work().map_or(0, |(done, _)| done) }
    }
}

/// Formats progress as lines, at a limited rate.
#[derive(Debug)]
pub struct ProgressMeter {
    style: Style,
    start: Sample,
    /// Samples of the past few seconds, oldest first.
    recent: VecDeque<Sample>,
    last_line: u64,
    /// Columns that the previous line fills on the terminal.
    written: usize,
}

impl ProgressMeter {
    /// Creates a meter for an operation that starts at time `now`.
    pub fn new(style: Style, now: u64, progress: &Progress) -> ProgressMeter {
        let start = Sample::new(now, progress);
        ProgressMeter { style, start, recent: VecDeque::from([start]), last_line: now, written: 0 }
    }

    /// Begins to count anew, when the work that is counted begins.
    pub fn restart(&mut self, now: u64, progress: &Progress) {
        self.start = Sample::new(now, progress);
        self.recent = VecDeque::from([self.start]);
    }

    /// Returns the text to write now; `None` if the previous line is recent enough.
    ///
    /// For a terminal the text starts with a carriage return, has no line end, and covers the previous one; for a log
    /// it is a plain line without line end.
    pub fn report(&mut self, now: u64, progress: &Progress) -> Option<String> {
        let interval = match self.style {
            Style::Terminal { .. } => TERMINAL_INTERVAL,
            Style::Log => LOG_INTERVAL,
        };
        if now < self.last_line.saturating_add(interval) {
            return None;
        }
        self.last_line = now;
        let line = self.line(now, progress);
        if self.recent.back().is_none_or(|last| now >= last.at.saturating_add(SAMPLE_INTERVAL)) {
            if self.recent.len() == MAX_SAMPLES {
                self.recent.pop_front();
            }
            self.recent.push_back(Sample::new(now, progress));
        }
        Some(match self.style {
            Style::Terminal { width } => self.rewrite(&fit(line, width.max(MIN_WIDTH) - 1)),
            Style::Log => fit(line, usize::MAX),
        })
    }

    /// Returns the last line, when the operation ends or stops: blocks, time and rate of the whole operation. On a
    /// terminal it ends the rewritten line.
    pub fn finish(&mut self, now: u64, progress: &Progress) -> String {
        let passed = now.saturating_sub(self.start.at);
        let blocks = progress.height.saturating_sub(self.start.height);
        let mut line =
            format!("height {}: {} blocks in {}", Thousands(progress.height), Thousands(blocks), Time(passed));
        if let Some(rate) = rate(blocks, passed) {
            let _ = write!(line, ", {rate}");
        }
        match self.style {
            Style::Terminal { .. } => self.rewrite(&line) + "\n",
            Style::Log => line,
        }
    }

    fn rewrite(&mut self, line: &str) -> String {
        let columns = line.chars().count();
        let text = format!("\r{line:<width$}", width = self.written);
        self.written = columns;
        text
    }

    /// Returns the parts of the line: height, percentage, rate and time left, as far as they are known.
    fn line(&self, now: u64, progress: &Progress) -> Vec<String> {
        let from = self.recent.front().unwrap_or(&self.start);
        let passed = now.saturating_sub(from.at);
        let mut height = format!("height {}", Thousands(progress.height));
        if let Some(target) = progress.target {
            let _ = write!(height, " of {}", Thousands(target));
        }
        let work = progress.work();
        let left = work.and_then(|(done, all)| {
            let speed = done.checked_sub(from.work).filter(|speed| *speed > 0)?;
            let left = u128::from(all.saturating_sub(done)) * u128::from(passed) / u128::from(speed);
            Some(format!("{} left", Time(u64::try_from(left).unwrap_or(u64::MAX))))
        });
        let percent = work.and_then(|(done, all)| (u128::from(done.min(all)) * 100).checked_div(u128::from(all)));
        let percent = percent.map(|percent| format!("{percent} %"));
        let rate = rate(progress.height.saturating_sub(from.height), passed);
        [Some(height), percent, rate, left].into_iter().flatten().collect()
    }
}

/// Joins the parts of a line. When space is short, the parts after the first are dropped in their order.
fn fit(mut parts: Vec<String>, width: usize) -> String {
    while parts.len() > 1 && parts.join("  ").chars().count() > width {
        parts.remove(1);
    }
    parts.join("  ").chars().take(width).collect()
}

/// Formats blocks per second; `None` if no time has passed.
fn rate(blocks: u64, millis: u64) -> Option<String> {
    let tenths = (u128::from(blocks) * 10_000).checked_div(u128::from(millis))?;
    Some(match u64::try_from(tenths).unwrap_or(u64::MAX) {
        tenths @ 0..100 => format!("{}.{} blocks/s", tenths / 10, tenths % 10),
        tenths => format!("{} blocks/s", Thousands(tenths / 10)),
    })
}

/// A number with commas between thousands.
pub struct Thousands(pub u64);

impl fmt::Display for Thousands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
        f.write_str(&groups.join(","))
    }
}

/// A duration in milliseconds, shown in its two largest units.
struct Time(u64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 / 1000;
        match seconds {
            0..10 => write!(f, "{seconds}.{} s", self.0 % 1000 / 100),
            10..60 => write!(f, "{seconds} s"),
            60..3_600 => write!(f, "{} min {:02} s", seconds / 60, seconds % 60),
            3_600..86_400 => write!(f, "{} h {:02} min", seconds / 3_600, seconds % 3_600 / 60),
            _ => write!(f, "{} d {:02} h", seconds / 86_400, seconds % 86_400 / 3_600),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(height: u64) -> Progress {
        Progress { height, target: Some(4_010), bytes: None }
    }

    #[test]
    fn a_progress_line_shows_height_percentage_rate_and_time_left() {
        let mut meter = ProgressMeter::new(Style::Log, 1_000, &at(10));
        let line = meter.report(6_000, &at(2_010)).unwrap();
        assert_eq!(line, "height 2,010 of 4,010  50 %  400 blocks/s  5.0 s left");
    }

    #[test]
    fn percentage_and_time_left_follow_the_bytes_if_known() {
        let progress = |height, done| Progress { height, target: None, bytes: Some((done, 1_000)) };
        let mut meter = ProgressMeter::new(Style::Log, 0, &progress(1, 0));
        let line = meter.report(10_000, &progress(16, 100)).unwrap();
        assert_eq!(line, "height 16  10 %  1.5 blocks/s  1 min 30 s left");
    }

    #[test]
    fn a_line_without_a_known_end_shows_only_height_and_rate() {
        let progress = |height| Progress { height, target: None, bytes: None };
        let mut meter = ProgressMeter::new(Style::Log, 0, &progress(1));
        assert_eq!(meter.report(5_000, &progress(1)).unwrap(), "height 1  0.0 blocks/s");
        assert_eq!(meter.report(10_000, &progress(10_001)).unwrap(), "height 10,001  1,000 blocks/s");
    }

    #[test]
    fn what_was_passed_over_before_a_restart_does_not_count() {
        let progress = |height, done| Progress { height, target: None, bytes: Some((done, 1_000)) };
        let mut meter = ProgressMeter::new(Style::Log, 0, &progress(80, 0));
        let _ = meter.report(5_000, &progress(80, 700));
        meter.restart(8_000, &progress(80, 800));
        let line = meter.report(10_000, &progress(100, 900)).unwrap();
        assert_eq!(line, "height 100  90 %  10 blocks/s  2.0 s left");
        assert_eq!(meter.finish(12_000, &progress(120, 1_000)), "height 120: 40 blocks in 4.0 s, 10 blocks/s");
    }

    #[test]
    fn lines_appear_no_more_often_than_the_style_allows() {
        let count = |style| {
            let mut meter = ProgressMeter::new(style, 0, &at(1));
            (0..20_000).filter(|now| meter.report(*now, &at(*now)).is_some()).count()
        };
        assert_eq!(count(Style::Terminal { width: 80 }), 199);
        assert_eq!(count(Style::Log), 3);
    }

    #[test]
    fn the_rate_follows_the_past_few_seconds() {
        let mut meter = ProgressMeter::new(Style::Terminal { width: 100 }, 0, &at(0));
        let mut line = String::new();
        for now in (0..=60_000).step_by(100) {
            let height = if now < 30_000 { now / 10 } else { 3_000 + (now - 30_000) / 100 };
            line = meter.report(now, &at(height)).unwrap_or(line);
        }
        assert!(line.contains("10 blocks/s"), "{line}");
    }

    #[test]
    fn a_narrow_terminal_drops_parts_but_never_overflows() {
        for (width, expected) in [
            (80, "height 2,010 of 4,010  50 %  400 blocks/s  5.0 s left"),
            (52, "height 2,010 of 4,010  400 blocks/s  5.0 s left"),
            (45, "height 2,010 of 4,010  5.0 s left"),
            (30, "height 2,010 of 4,010"),
            (21, "height 2,010 of 4,01"),
            (0, "height 2,010 of 4,0"),
        ] {
            let mut meter = ProgressMeter::new(Style::Terminal { width }, 0, &at(10));
            assert_eq!(meter.report(5_000, &at(2_010)).unwrap(), format!("\r{expected}"), "{width}");
        }
    }

    #[test]
    fn a_shorter_line_erases_the_longer_one_before_it() {
        let mut meter = ProgressMeter::new(Style::Terminal { width: 80 }, 0, &at(10));
        let long = meter.report(1_000, &at(1_010)).unwrap();
        let short = meter.report(2_000, &at(9)).unwrap();
        assert_eq!(short.chars().count(), long.chars().count());
        assert!(short.ends_with("  "), "{short}");
    }

    #[test]
    fn the_last_line_is_a_summary() {
        let mut meter = ProgressMeter::new(Style::Terminal { width: 80 }, 0, &at(10));
        assert_eq!(meter.finish(2_500, &at(4_010)), "\rheight 4,010: 4,000 blocks in 2.5 s, 1,600 blocks/s\n");
        let mut meter = ProgressMeter::new(Style::Log, 0, &at(10));
        assert_eq!(meter.finish(0, &at(10)), "height 10: 0 blocks in 0.0 s");
    }

    #[test]
    fn times_are_shown_in_two_units() {
        let shown = [1_234, 59_999, 60_000, 3_661_000, 90_000_000].map(|millis| Time(millis).to_string());
        assert_eq!(shown, ["1.2 s", "59 s", "1 min 00 s", "1 h 01 min", "1 d 01 h"]);
    }

    proptest! {
        #[test]
        fn progress_lines_fit_for_any_numbers(
            steps in prop::collection::vec((any::<u64>(), any::<u64>(), any::<Option<u64>>(), any::<Option<(u64, u64)>>()), 1..20),
            width in 0usize..120,
        ) {
            let mut meter = ProgressMeter::new(Style::Terminal { width }, 0, &at(1));
            for (now, height, target, bytes) in steps {
                if let Some(line) = meter.report(now, &Progress { height, target, bytes }) {
                    prop_assert!(line.chars().count() <= width.max(MIN_WIDTH));
                }
            }
            meter.finish(u64::MAX, &at(u64::MAX));
        }
    }
}
