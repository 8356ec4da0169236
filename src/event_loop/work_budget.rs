//! Work budget: the units of work that take about one time slice on this machine.

use std::time::Duration;

/// Target time of work between two polls of the sockets.
const SLICE: Duration = Duration::from_micros(500);
/// Minimum and maximum units per slice.
const UNIT_BOUNDS: (u32, u32) = (100, 4_000);
/// Initial units per slice; a unit takes about a microsecond on a common machine.
const INITIAL_UNITS: u32 = 500;

/// Converts time to units of work.
#[derive(Debug)]
pub struct WorkBudget {
    units: u32,
}

impl WorkBudget {
    /// Creates a budget that has not been adapted to this machine.
    pub fn new() -> WorkBudget {
        WorkBudget { units: INITIAL_UNITS }
    }

    /// Returns the units for the next slice.
    pub fn units(&self) -> u32 {
        self.units
    }

    /// Adapts to the duration of a slice that used all its units, in small steps: a single slice says little, since
    /// other programs use the machine too and a commit takes its own time.
    pub fn observe(&mut self, time: Duration) {
        let (least, most) = UNIT_BOUNDS;
        let step = self.units / 8 + 1;
        self.units = match time > SLICE {
            true => self.units.saturating_sub(step).max(least),
            false => (self.units + step).min(most),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_budget_converges_to_the_speed_of_the_machine() {
        for nanos_per_unit in [200, 1000, 3000] {
            let mut slices = WorkBudget::new();
            for _ in 0..100 {
                slices.observe(Duration::from_nanos(nanos_per_unit * u64::from(slices.units())));
            }
            let time = nanos_per_unit * u64::from(slices.units());
            assert!((400_000..600_000).contains(&time), "{time} ns");
        }
    }
}
