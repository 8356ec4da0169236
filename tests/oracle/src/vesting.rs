//! The vested part of a balance, according to the text of the protocol.

use super::terms::NetworkTerms;

/// The last entry of the balance history that the protocol keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weighted {
    /// Height of the entry; 0 if there is none.
    height: u64,
    unvested: i64,
    vested: i64,
}

impl Weighted {
    /// After each day, nine tenths of the unvested part remain unvested.
    fn vest_daily(&mut self, height: u64, terms: &NetworkTerms) {
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

    pub fn receive(&mut self, height: u64, amount: u64, terms: &NetworkTerms) {
        if amount == 0 {
            return;
        }
        self.vest_daily(height, terms);
        self.height = height;
        if terms.immediate { self.vested += amount as i64 } else { self.unvested += amount as i64 }
    }

    /// Both parts contribute in proportion.
    pub fn send(&mut self, height: u64, amount: u64, terms: &NetworkTerms) {
        if amount == 0 {
            return;
        }
        self.vest_daily(height, terms);
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

    /// Vests everything.
    pub fn vest(&mut self) {
        self.vested += self.unvested;
        self.unvested = 0;
    }

    /// Returns the vested amount at a height.
    pub fn vested(mut self, height: u64, terms: &NetworkTerms) -> u64 {
        self.vest_daily(height, terms);
        self.vested as u64
    }
}
