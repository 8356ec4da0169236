//! Detection of jumps of the system's clock.
//!
//! People and programs can set the clock, also by mistake. If a node harvested while its clock was a day ahead for one
//! minute, its block could have no successor for a day.

use std::time::Duration;

use crate::net::service::LoopTime;

/// Maximum drift of the system's clock against the monotonic clock between two checks. Clock corrections at a steady
/// rate stay below it.
const MAX_DRIFT_MILLIS: i64 = 5_000;
/// How long nothing is harvested after a jump.
const HARVEST_PAUSE: Duration = Duration::from_secs(90);

/// Compares the system's clock with the monotonic clock.
#[derive(Debug)]
pub struct ClockMonitor {
    /// Unix time of the node's start in milliseconds, as computed by the last check.
    unix_start: i64,
    distrusted_until: Duration,
    jumps: u32,
}

impl ClockMonitor {
    /// Starts the monitor.
    pub fn new(now: LoopTime) -> ClockMonitor {
        ClockMonitor { unix_start: unix_start_of(now), distrusted_until: Duration::ZERO, jumps: 0 }
    }

    /// Returns by how many milliseconds the clock has jumped since the last check, if it has.
    pub fn check(&mut self, now: LoopTime) -> Option<i64> {
        let start = unix_start_of(now);
        let jump = start - std::mem::replace(&mut self.unix_start, start);
        (jump.abs() > MAX_DRIFT_MILLIS).then(|| {
            self.distrusted_until = now.monotonic + HARVEST_PAUSE;
            self.jumps = self.jumps.saturating_add(1);
            jump
        })
    }

    /// Number of jumps so far.
    pub fn jumps(&self) -> u32 {
        self.jumps
    }

    /// Time before which nothing may be harvested; in the past if the clock is steady.
    pub fn distrusted_until(&self) -> Duration {
        self.distrusted_until
    }
}

fn unix_start_of(now: LoopTime) -> i64 {
    now.unix_millis.saturating_sub(now.monotonic.as_millis() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64, ahead_millis: i64) -> LoopTime {
        let running = Duration::from_secs(seconds);
        LoopTime { unix_millis: 1_700_000_000_000 + running.as_millis() as i64 + ahead_millis, monotonic: running }
    }

    #[test]
    fn a_clock_that_is_wrong_for_a_minute_is_not_followed() {
        let mut watch = ClockMonitor::new(at(0, 0));
        assert_eq!(watch.check(at(100, 3)), None);
        assert_eq!(watch.check(at(101, 86_400_000)), Some(86_399_997));
        assert_eq!(watch.check(at(160, 86_400_001)), None);
        assert!(watch.distrusted_until() > at(161, 0).monotonic);
        assert_eq!(watch.check(at(161, 1)), Some(-86_400_000));
        assert_eq!(watch.distrusted_until(), at(161 + 90, 0).monotonic);
    }

    #[test]
    fn a_clock_that_is_corrected_slowly_is_followed() {
        let mut watch = ClockMonitor::new(at(0, 0));
        assert!((1..1000).all(|second| watch.check(at(second, second as i64 * 20)).is_none()));
        assert_eq!(watch.distrusted_until(), Duration::ZERO);
    }
}
