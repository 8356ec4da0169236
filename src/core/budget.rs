//! The work budget of a step, in units of about a microsecond, and the costs of work.

use std::time::Duration;

/// Time after which a step ends, whatever its budget: it has waited for the disk, and others wait for the loop.
const MAX_STEP: Duration = Duration::from_millis(1);
/// Units between two looks at the clock.
const UNITS_PER_LOOK: u32 = 20;

/// A number of units to spend in one step, and the units spent. A piece of work starts as long as units are left and is
/// then done as a whole, so the budget can be overrun a little.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    units: u32,
    used: u32,
    /// Returns the monotonic time.
    clock: fn() -> Duration,
    /// When nothing is left, whatever the units.
    end: Duration,
    /// The units spent at the last look at the clock.
    looked_at: u32,
}

impl Budget {
    /// Creates a budget of `units` for a time in which nothing waits for the disk.
    pub fn new(units: u32) -> Budget {
        Budget::timed(units, || Duration::ZERO)
    }

    /// Creates a budget of `units` that also ends a millisecond after the present time of the `clock`.
    pub fn timed(units: u32, clock: fn() -> Duration) -> Budget {
        Budget { units, used: 0, clock, end: clock() + MAX_STEP, looked_at: 0 }
    }

    /// Creates a budget of `units` that ends when this one does.
    pub fn part(self, units: u32) -> Budget {
        Budget { units, used: 0, looked_at: 0, ..self }
    }

    /// Charges units.
    pub fn charge(&mut self, units: u32) {
        self.used = self.used.saturating_add(units);
        if self.used - self.looked_at >= UNITS_PER_LOOK {
            self.looked_at = self.used;
            if self.is_late() {
                self.units = 0;
            }
        }
    }

    /// Returns whether the time is over.
    pub fn is_late(&self) -> bool {
        (self.clock)() > self.end
    }

    /// Returns the units left.
    pub fn left(&self) -> u32 {
        self.units.saturating_sub(self.used)
    }

    /// Returns whether no units are left.
    pub fn is_exhausted(&self) -> bool {
        self.left() == 0
    }

    /// Returns the units spent, which are charged to the client that caused the work.
    pub fn used(&self) -> u32 {
        self.used
    }
}

/// Costs of work in units, set a little above the measured times so that a step ends in time on slower machines too.
pub mod cost {
    /// Finding the route of a request, and a response of a few fields.
    pub const REQUEST: u32 = 4;
    /// Reading and writing an account.
    pub const ACCOUNT: u32 = 5;
    /// Parsing an address.
    pub const ADDRESS: u32 = 2;
    /// A block header.
    pub const HEADER: u32 = 2;
    /// An account in the list of importances.
    pub const IMPORTANCE: u32 = 2;
    /// The state of an account at a height.
    pub const HISTORY: u32 = 4;
    /// A balance of an expired mosaic, or of a holder.
    pub const BALANCE: u32 = 2;
    /// Hashing a transaction.
    pub const HASH: u32 = 2;
    /// An entry of the peer table, or a replaced block.
    pub const PEER: u32 = 8;
    /// Signing a response to a peer.
    pub const SIGNATURE: u32 = 30;
    /// Reading or writing a transaction of a block, in addition to the [`bytes`] of its form.
    pub const TRANSACTION: u32 = 2;
    /// Skipping a transaction, or an entry of a list.
    pub const SKIP: u32 = 1;
    /// A balance of a mosaic.
    pub const MOSAIC: u32 = 4;
    /// The definition of a mosaic.
    pub const DEFINITION: u32 = 4;
    /// A namespace. It costs more with the sub-namespaces of its root.
    pub const NAMESPACE: u32 = 4;
    /// Positioning a cursor in the transaction list of an account.
    pub const TX_LIST: u32 = 8;
    /// Deriving the public key of a private key.
    pub const KEY: u32 = 30;
    /// Deriving the shared key of two keys.
    pub const SHARED_KEY: u32 = 100;
    /// Verifying the signature of a peer's push, or of a cosignature.
    pub const VERIFICATION: u32 = 80;
    /// Validating a transaction against the state.
    pub const VALIDATION: u32 = 20;
    /// Validating a transaction, including its own signature.
    pub const ANNOUNCEMENT: u32 = 100;

    /// Returning `count` transactions of the mempool. The scan of the rest is not counted.
    pub fn listed(count: usize) -> u32 {
        u32::try_from(count / 10).unwrap_or(u32::MAX)
    }

    /// Copying a stored transaction of `count` bytes into a response. Sending takes longer, and many peers may ask at
    /// once.
    pub fn copied(count: usize) -> u32 {
        1 + bytes(count)
    }

    /// Reading or writing bytes.
    pub fn bytes(count: usize) -> u32 {
        u32::try_from(count / 100).unwrap_or(u32::MAX)
    }

    /// Bytes of JSON of the slowest kind that are read for a unit.
    pub const JSON_BYTES_PER_UNIT: usize = 40;
    /// Decoding a transaction of a pushed list.
    pub const DECODING: u32 = 8;

    /// Reading `count` bytes of JSON of the slowest kind.
    pub fn json(count: usize) -> u32 {
        u32::try_from(count / JSON_BYTES_PER_UNIT).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local!(static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) });

    #[test]
    fn a_budget_ends_with_its_units_or_with_its_time() {
        let mut budget = Budget::timed(1_000, || NOW.get());
        budget.charge(UNITS_PER_LOOK);
        assert_eq!((budget.left(), budget.used(), budget.is_late()), (1_000 - UNITS_PER_LOOK, UNITS_PER_LOOK, false));
        let mut part = budget.part(2_000);
        NOW.set(MAX_STEP + Duration::from_micros(1));
        assert!(budget.is_late() && !part.is_exhausted(), "nobody has looked at the clock yet");
        part.charge(UNITS_PER_LOOK - 1);
        assert!(!part.is_exhausted());
        part.charge(1);
        assert!(part.is_exhausted());
        assert_eq!(part.used(), UNITS_PER_LOOK);
        let mut untimed = Budget::new(100);
        untimed.charge(99);
        assert_eq!(untimed.left(), 1);
        untimed.charge(u32::MAX);
        assert!(untimed.is_exhausted());
    }
}
