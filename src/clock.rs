//! The services of the system, and the network clock: that of the system, or a fixed one for tests.
//!
//! This module reads no clock; callers pass the time in.

use std::io;
use std::str::FromStr;
use std::time::Duration;

use crate::model::units::{EPOCH_UNIX_MILLIS, Timestamp};

/// Services of the operating system, which the program passes to its commands.
#[derive(Clone, Copy)]
pub struct System {
    /// Milliseconds of Unix time.
    pub unix_millis: fn() -> i64,
    /// Milliseconds of a monotonic clock.
    pub millis: fn() -> u64,
    /// Sleeps for this time.
    pub sleep: fn(Duration),
    /// Fills bytes with the system's cryptographic randomness.
    pub random: fn(&mut [u8]) -> io::Result<()>,
}

impl System {
    /// Returns the network time of a clock now.
    pub fn network_time(self, clock: &NetworkClock) -> Timestamp {
        clock.now((self.unix_millis)(), (self.millis)())
    }
}

/// Source of network time (`--clock`, `nisd.clock`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockMode {
    /// The system's clock.
    #[default]
    System,
    /// Time stands still at this network second.
    Still(Timestamp),
    /// Time starts at this network second when the node starts.
    RunsFrom(Timestamp),
}

impl FromStr for ClockMode {
    type Err = &'static str;

    /// Parses `system`, `3240` (stands still) or `3240+` (runs from there).
    fn from_str(text: &str) -> Result<Self, &'static str> {
        let wrong = "is neither \"system\" nor a number of network seconds, optionally followed by +";
        if text == "system" {
            return Ok(ClockMode::System);
        }
        let digits = text.strip_suffix('+').unwrap_or(text);
        if !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(wrong);
        }
        let seconds = Timestamp(digits.parse().map_err(|_| wrong)?);
        Ok(if digits == text { ClockMode::Still(seconds) } else { ClockMode::RunsFrom(seconds) })
    }
}

/// Converts clock readings of the event loop into network time.
#[derive(Clone, Copy, Debug)]
pub struct NetworkClock {
    /// The source of the time.
    pub mode: ClockMode,
    started: u64,
    /// Milliseconds by which the clocks of peers are ahead of this one.
    offset: i64,
}

impl NetworkClock {
    /// Creates the clock of a node that started at `monotonic_millis` of the loop's monotonic clock.
    pub fn new(mode: ClockMode, monotonic_millis: u64) -> NetworkClock {
        NetworkClock { mode, started: monotonic_millis, offset: 0 }
    }

    /// Returns network time in milliseconds since the network's epoch, given the system's Unix time and the loop's
    /// monotonic clock, both in milliseconds. Negative before the epoch.
    pub fn millis(&self, unix_millis: i64, monotonic_millis: u64) -> i64 {
        match self.mode {
            ClockMode::System => unix_millis.saturating_sub(EPOCH_UNIX_MILLIS).saturating_add(self.offset),
            ClockMode::Still(at) => i64::from(at.0) * 1000,
            ClockMode::RunsFrom(from) => {
                let passed = monotonic_millis.saturating_sub(self.started);
                (i64::from(from.0) * 1000).saturating_add_unsigned(passed)
            }
        }
    }

    /// Returns network time as a time stamp, rounded to the nearest second.
    pub fn now(&self, unix_millis: i64, monotonic_millis: u64) -> Timestamp {
        let seconds = self.millis(unix_millis, monotonic_millis).saturating_add(500).div_euclid(1000);
        Timestamp(i32::try_from(seconds.max(0)).unwrap_or(i32::MAX))
    }

    /// Adds `millis` to the offset, to follow the clocks of peers. Only a system clock uses the offset.
    pub fn shift(&mut self, millis: i64) {
        self.offset = self.offset.saturating_add(millis);
    }

    /// Returns the startup warning for a clock other than the system's.
    pub fn startup_warning(&self) -> Option<String> {
        let (what, second) = match self.mode {
            ClockMode::System => return None,
            ClockMode::Still(at) => ("STANDS STILL at", at),
            ClockMode::RunsFrom(from) => ("IS SET to run from", from),
        };
        Some(format!("THE CLOCK {what} network second {second}: for tests only, not for a live network"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_read_as_documented() {
        assert_eq!("system".parse(), Ok(ClockMode::System));
        assert_eq!("3240".parse(), Ok(ClockMode::Still(Timestamp(3240))));
        assert_eq!("0+".parse(), Ok(ClockMode::RunsFrom(Timestamp(0))));
        assert_eq!("2147483647".parse(), Ok(ClockMode::Still(Timestamp(i32::MAX))));
        for wrong in ["", "+", "-1", "+5", "1.5", "2147483648", "3240 +", "3240++", "now", "\u{663}"] {
            assert!(wrong.parse::<ClockMode>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_still_clock_ignores_both_readings() {
        let clock = NetworkClock::new(ClockMode::Still(Timestamp(3240)), 5);
        assert_eq!(clock.now(0, 0), Timestamp(3240));
        assert_eq!(clock.now(i64::MAX, u64::MAX), Timestamp(3240));
        assert!(clock.startup_warning().is_some_and(|text| text.contains("3240")));
    }

    #[test]
    fn a_running_clock_follows_the_monotonic_reading_only() {
        let clock = NetworkClock::new(ClockMode::RunsFrom(Timestamp(100)), 1_000);
        assert_eq!(clock.millis(0, 1_000), 100_000);
        assert_eq!(clock.millis(77, 3_250), 102_250);
        assert_eq!(clock.now(0, 3_499), Timestamp(102));
        assert_eq!(clock.now(0, 3_500), Timestamp(103));
        assert_eq!(clock.now(0, 0), Timestamp(100));
        assert_eq!(clock.now(0, u64::MAX), Timestamp(i32::MAX));
    }

    #[test]
    fn the_system_clock_rounds_like_time_stamps_do() {
        let clock = NetworkClock::new(ClockMode::System, 0);
        for unix in [0, EPOCH_UNIX_MILLIS, EPOCH_UNIX_MILLIS + 499, EPOCH_UNIX_MILLIS + 500, 1_900_000_000_123] {
            assert_eq!(clock.now(unix, 9), Timestamp::from_unix_millis(unix), "{unix}");
        }
        assert_eq!(clock.startup_warning(), None);
    }
}
