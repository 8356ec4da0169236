//! Whether the system's clock can be believed.
//!
//! It can be set by people and programs, also by mistake. A node that harvested by a clock which is a day ahead for a
//! minute would put a block onto its chain that nothing can follow for a day.

use std::time::Duration;

use crate::net::machine::Moment;

/// How far the clock may move against the one that never goes back between two looks: more than one that is being
/// corrected does by itself.
const MOST_DRIFT_MILLIS: i64 = 5_000;
/// How long nothing is harvested after such a jump.
const CAUTION: Duration = Duration::from_secs(90);

/// Compares the clocks.
#[derive(Debug)]
pub struct ClockWatch {
    /// Unix time at the start of the node, as the last look had it.
    start: i64,
    cautious_until: Duration,
    jumps: u32,
}

impl ClockWatch {
    /// Begins to watch.
    pub fn new(now: Moment) -> ClockWatch {
        ClockWatch { start: start_of(now), cautious_until: Duration::ZERO, jumps: 0 }
    }

    /// How far the clock has jumped since the last look, in milliseconds, if it has.
    pub fn look(&mut self, now: Moment) -> Option<i64> {
        let start = start_of(now);
        let jump = start - std::mem::replace(&mut self.start, start);
        (jump.abs() > MOST_DRIFT_MILLIS).then(|| {
            self.cautious_until = now.running + CAUTION;
            self.jumps = self.jumps.saturating_add(1);
            jump
        })
    }

    /// How often the clock has jumped.
    pub fn jumps(&self) -> u32 {
        self.jumps
    }

    /// Until when nothing is to be harvested; a moment that has passed if the clock is steady.
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
