//! Work that may be done before somebody else has a turn.

/// Units of work, each about a microsecond long.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    left: u32,
}

impl Budget {
    /// So many units.
    pub fn new(units: u32) -> Budget {
        Budget { left: units }
    }

    /// Takes off what a piece of work has cost.
    pub fn spend(&mut self, units: u32) {
        self.left = self.left.saturating_sub(units);
    }

    /// Whether nothing is left.
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }
}
