//! Check of our height against that of the peers, for the node's status.

use crate::model::Height;

/// Consecutive failed checks after which the node no longer counts as synchronised.
const MAX_FAILURES: u32 = 4;

/// Result of the last checks.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeightCheck {
    failures_left: u32,
}

impl HeightCheck {
    /// Compares our height with the largest reported one, or, without answers, with the nemesis height.
    pub fn compare(&mut self, own: Height, largest: Option<Height>) {
        self.failures_left = match own >= largest.unwrap_or(Height::NEMESIS) {
            true => MAX_FAILURES,
            false => self.failures_left.saturating_sub(1),
        };
    }

    /// Returns whether this node has the chain that its peers have.
    pub fn is_synchronised(self) -> bool {
        self.failures_left > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_counts_as_synchronised_until_the_fourth_check_in_a_row_fails() {
        let mut check = HeightCheck::default();
        assert!(!check.is_synchronised());
        check.compare(Height(10), Some(Height(10)));
        for _ in 0..3 {
            check.compare(Height(10), Some(Height(11)));
            assert!(check.is_synchronised());
        }
        check.compare(Height(10), Some(Height(11)));
        assert!(!check.is_synchronised());
        // A single good check suffices, however long the node was behind.
        (0..100).for_each(|_| check.compare(Height(10), Some(Height(11))));
        check.compare(Height(11), Some(Height(11)));
        assert!(check.is_synchronised());
    }

    #[test]
    fn a_node_whose_peers_are_silent_counts_as_synchronised() {
        let mut check = HeightCheck::default();
        check.compare(Height(1), None);
        assert!(check.is_synchronised());
    }
}
