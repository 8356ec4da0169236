//! Work budget of one slice of the calculation.

use std::ops::Range;

/// Cost in units of an insertion into a large tree or a removal from it.
pub const TREE_COST: u32 = 16;

/// Units of work left in a slice. One unit is about one visited element.
#[derive(Debug)]
pub struct WorkBudget(u32);

impl WorkBudget {
    /// Creates a budget of `units`, at least one, so that every slice makes progress.
    pub fn new(units: u32) -> WorkBudget {
        WorkBudget(units.max(1))
    }

    /// Returns whether nothing is left.
    pub fn is_exhausted(&self) -> bool {
        self.0 == 0
    }

    /// Charges `cost` units and returns true if anything is left. The last charge may overdraw.
    pub fn charge(&mut self, cost: u32) -> bool {
        let affordable = self.0 > 0;
        self.0 = self.0.saturating_sub(cost);
        affordable
    }

    /// Charges up to `wanted` units, as many as are left, and returns how many.
    pub fn charge_up_to(&mut self, wanted: usize) -> usize {
        let taken = wanted.min(self.0 as usize);
        self.0 -= taken as u32;
        taken
    }

    /// Advances `at` towards `end`, one unit per element, and returns the range passed.
    pub fn advance(&mut self, at: &mut usize, end: usize) -> Range<usize> {
        let from = *at;
        *at += self.charge_up_to(end.saturating_sub(from));
        from..*at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_starts_non_empty_and_is_overdrawn_only_by_the_last_piece() {
        let mut allowance = WorkBudget::new(0);
        assert!(allowance.charge(5));
        assert!(allowance.is_exhausted() && !allowance.charge(1));
        assert_eq!(allowance.charge_up_to(3), 0);
    }

    #[test]
    fn ranges_are_processed_piece_by_piece() {
        let (mut at, mut passed) = (0, Vec::new());
        while at < 7 {
            passed.extend(WorkBudget::new(3).advance(&mut at, 7));
        }
        assert_eq!(passed, [0, 1, 2, 3, 4, 5, 6]);
    }
}
