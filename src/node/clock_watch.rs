//! Detection of jumps of the system's clock.
//!
//! People and programs can set the clock, also by mistake. If a node harvested while its clock was a day ahead for one
//! minute, its block could have no successor for a day.

use std::time::Duration;

use crate::net::machine::Moment;

/// Maximum drift of the system's clock against the monotonic clock between two checks. Clock corrections at a steady
/// rate stay below it.
const MOST_DRIFT_MILLIS: i64 = 5_000;
/// How long nothing is harvested after a jump.
const CAUTION: Duration = Duration::from_secs(90);

/// Compares the system's clock with the monotonic clock.
#[derive(Debug)]
pub struct ClockWatch {
    /// Unix time of the node's start in milliseconds, as computed by the last check.
    start: i64,
    cautious_until: Duration,
    jumps: u32,
}

impl ClockWatch {
    /// Starts the monitor.
    pub fn new(now: Moment) -> ClockWatch {
        ClockWatch { start: start_of(now), cautious_until: Duration::ZERO, jumps: 0 }
    }

    /// Returns by how many milliseconds the clock has jumped since the last check, if it has.
    pub fn look(&mut self, now: Moment) -> Option<i64> {
        let start = start_of(now);
        let jump = start - std::mem::replace(&mut self.start, start);
        (jump.abs() > MOST_DRIFT_MILLIS).then(|| {
            self.cautious_until = now.running + CAUTION;
            self.jumps = self.jumps.saturating_add(1);
            jump
        })
    }

    /// Number of jumps so far.
    pub fn jumps(&self) -> u32 {
        self.jumps
    }

    /// Time before which nothing may be harvested; in the past if the clock is steady.
    pub fn cautious_until(&self) -> Duration {
        self.cautious_until
    }
}

fn start_of(now: Moment) -> i64 {
    now.unix_millis.saturating_sub(now.running.as_millis() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64, ahead_millis: i64) -> Moment {
        let running = Duration::from_secs(seconds);
        Moment { unix_millis: 1_700_000_000_000 + running.as_millis() as i64 + ahead_millis, running }
    }

    #[test]
    fn a_clock_that_is_wrong_for_a_minute_is_not_followed() {
        let mut watch = ClockWatch::new(at(0, 0));
        assert_eq!(watch.look(at(100, 3)), None);
        assert_eq!(watch.look(at(101, 86_400_000)), Some(86_399_997));
        assert_eq!(watch.look(at(160, 86_400_001)), None);
        assert!(watch.cautious_until() > at(161, 0).running);
        assert_eq!(watch.look(at(161, 1)), Some(-86_400_000));
        assert_eq!(watch.cautious_until(), at(161 + 90, 0).running);
    }

    #[test]
    fn a_clock_that_is_corrected_slowly_is_followed() {
        let mut watch = ClockWatch::new(at(0, 0));
        assert!((1..1000).all(|second| watch.look(at(second, second as i64 * 20)).is_none()));
        assert_eq!(watch.cautious_until(), Duration::ZERO);
    }
}
