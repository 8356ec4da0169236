//! Whether this node has the chain that the others have, as its status says.

use crate::model::Height;

/// Checks that may fail before the node no longer counts as synchronised.
const CREDIT: u32 = 4;

/// What the last checks against the heights of partners have shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeightCheck {
    credit: u32,
}

impl HeightCheck {
    /// Takes note of the own height and the largest that a partner told. If none answered, that is the height of the
    /// nemesis block, which every node has.
    pub fn compare(&mut self, own: Height, largest: Option<Height>) {
        self.credit = match own >= largest.unwrap_or(Height::NEMESIS) {
            true => CREDIT,
            false => self.credit.saturating_sub(1),
        };
    }

    /// Whether the node has the chain that the others have.
    pub fn is_synchronised(self) -> bool {
        self.credit > 0
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
        // However long it has been behind, one good check is enough.
        (0..100).for_each(|_| check.compare(Height(10), Some(Height(11))));
        check.compare(Height(11), Some(Height(11)));
        assert!(check.is_synchronised());
    }

    #[test]
    fn a_node_whose_partners_are_silent_counts_as_synchronised() {
        let mut check = HeightCheck::default();
        check.compare(Height(1), None);
        assert!(check.is_synchronised());
    }
}
