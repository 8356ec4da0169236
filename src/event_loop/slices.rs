//! How many units of work a turn of the node may do: as many as take a slice of time on this machine.

use std::time::Duration;

/// Longest time for which the node works between two looks at the sockets.
const SLICE: Duration = Duration::from_micros(500);
/// Units of work that a slice is taken for, at least and at most.
const BOUNDS: (u32, u32) = (100, 4_000);
/// A unit is about a microsecond of a machine as they are common.
const AT_FIRST: u32 = 500;

/// Turns time into units of work.
#[derive(Debug)]
pub struct Slices {
    units: u32,
}

impl Slices {
    /// Knows nothing of this machine yet.
    pub fn new() -> Slices {
        Slices { units: AT_FIRST }
    }

    /// Units for the next slice.
    pub fn units(&self) -> u32 {
        self.units
    }

    /// Takes note of how long a slice took that used all its units. One slice says little: others use the machine too,
    /// and a commit takes its own time.
    pub fn took(&mut self, time: Duration) {
        let (least, most) = BOUNDS;
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
    fn slices_settle_at_the_speed_of_the_machine() {
        for nanos_per_unit in [200, 1000, 3000] {
            let mut slices = Slices::new();
            for _ in 0..100 {
                slices.took(Duration::from_nanos(nanos_per_unit * u64::from(slices.units())));
            }
            let time = nanos_per_unit * u64::from(slices.units());
            assert!((400_000..600_000).contains(&time), "{time} ns");
        }
    }
}
