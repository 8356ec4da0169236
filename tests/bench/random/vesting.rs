//! How much of a balance counts, as the text of the protocol has it.

use super::terms::Terms;

/// The last entry of the history that the protocol keeps of a balance.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weighted {
    /// Height of the entry; 0 if there is none.
    height: u64,
    unvested: i64,
    vested: i64,
}

impl Weighted {
    /// Nine tenths of what does not count yet remain after each day.
    fn iterate(&mut self, height: u64, terms: &Terms) {
        let day = terms.day();
        let day_of = |height: u64| height.div_ceil(day) * day;
        if self.height == 0 || terms.immediate {
            return;
        }
        while height > day_of(self.height) {
            let unvested = self.unvested * 9 / 10;
            self.vested += self.unvested - unvested;
            (self.unvested, self.height) = (unvested, 1 + day_of(self.height));
        }
    }

    pub fn receive(&mut self, height: u64, amount: u64, terms: &Terms) {
        if amount == 0 {
            return;
        }
        self.iterate(height, terms);
        self.height = height;
        if terms.immediate { self.vested += amount as i64 } else { self.unvested += amount as i64 }
    }

    /// Both parts give as much as they have of the whole.
    pub fn send(&mut self, height: u64, amount: u64, terms: &Terms) {
        if amount == 0 {
            return;
        }
        self.iterate(height, terms);
        self.height = height;
        let ratio = self.unvested as f64 / (self.unvested + self.vested) as f64;
        let from_unvested = if terms.immediate { 0 } else { (ratio * amount as f64) as i64 };
        self.unvested -= from_unvested;
        self.vested -= amount as i64 - from_unvested;
        if self.vested < 0 {
            self.unvested += self.vested;
            self.vested = 0;
        }
    }

    /// All of it counts.
    pub fn vest(&mut self) {
        self.vested += self.unvested;
        self.unvested = 0;
    }

    /// What counts at a height.
    pub fn vested(mut self, height: u64, terms: &Terms) -> u64 {
        self.iterate(height, terms);
        self.vested as u64
    }
}
