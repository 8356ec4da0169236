//! Vested and unvested balances.
//!
//! NIS1 keeps a history of entries per account. Vesting is a pure function of the last entry and the height, so an
//! account stores only the last entry.

use super::error::StateError;
use crate::model::Height;
use crate::model::network::{ChainParameters, Vesting};

/// Maximum balance of an account in micro-units. Sending is calculated with signed numbers.
pub const MAX_BALANCE: u64 = i64::MAX as u64;

/// Balance of an account at the height of its last change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VestedBalance {
    /// Height of the last change; 0 if there was none.
    pub height: u64,
    /// Unvested part in micro-units.
    pub unvested: u64,
    /// Vested part in micro-units.
    pub vested: u64,
}

impl VestedBalance {
    /// Returns the sum of both parts in micro-units.
    pub fn total(&self) -> u64 {
        self.unvested + self.vested
    }

    /// Returns whether the sum is at most [`MAX_BALANCE`].
    pub fn is_valid(&self) -> bool {
        self.unvested.checked_add(self.vested).is_some_and(|total| total <= MAX_BALANCE)
    }

    /// Returns the balance at a later height. A tenth of the unvested part vests every day, at heights one above a
    /// multiple of the blocks per day.
    pub fn at(mut self, height: Height, chain: &ChainParameters) -> VestedBalance {
        if chain.vesting == Vesting::Immediate || self.height == 0 {
            return self;
        }
        let day = chain.blocks_per_day().max(1);
        let mut step = self.height.div_ceil(day).saturating_mul(day).saturating_add(1);
        // Once nothing is unvested, further steps change nothing.
        while step <= height.0 && self.unvested > 0 {
            // Nine tenths, rounded down, without overflow at 64 bits.
            let unvested = self.unvested / 10 * 9 + self.unvested % 10 * 9 / 10;
            self.vested += self.unvested - unvested;
            self.unvested = unvested;
            self.height = step;
            step = step.saturating_add(day);
        }
        self
    }

    /// Adds an amount; fails if the sum exceeds [`MAX_BALANCE`].
    pub fn receive(&mut self, height: Height, amount: u64, chain: &ChainParameters) -> Result<(), StateError> {
        let mut balance = self.at(height, chain);
        balance.height = height.0;
        let part = match chain.vesting {
            Vesting::TimeBased => &mut balance.unvested,
            Vesting::Immediate => &mut balance.vested,
        };
        *part = part.saturating_add(amount);
        if !balance.is_valid() {
            return Err(StateError::impossible(format!("a balance exceeds {MAX_BALANCE} micro-units")));
        }
        *self = balance;
        Ok(())
    }

    /// Deducts an amount from both parts in proportion, in IEEE doubles like NIS1; fails if the balance is too low.
    pub fn send(&mut self, height: Height, amount: u64, chain: &ChainParameters) -> Result<(), StateError> {
        *self = self.at(height, chain);
        self.height = height.0;
        if self.total() < amount {
            return Err(StateError::impossible(format!("a balance of {} cannot pay {amount}", self.total())));
        }
        if chain.vesting == Vesting::Immediate {
            self.vested -= amount;
            return Ok(());
        }
        let ratio = self.unvested as f64 / self.total() as f64;
        let from_unvested = (ratio * amount as f64) as i64;
        let unvested = self.unvested as i64 - from_unvested;
        let vested = self.vested as i64 - (amount as i64 - from_unvested);
        // Rounding can deduct one unit more than is vested.
        let (unvested, vested) = if vested < 0 { (unvested + vested, 0) } else { (unvested, vested) };
        let parts = u64::try_from(unvested).ok().zip(u64::try_from(vested).ok());
        (self.unvested, self.vested) =
            parts.ok_or_else(|| StateError::impossible("an unvested balance is below zero"))?;
        Ok(())
    }

    /// Vests everything at once, as for amounts received in the nemesis block.
    pub fn vest_all(&mut self) {
        self.vested = self.total();
        self.unvested = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::network::ChainParameters;

    #[test]
    fn a_tenth_vests_every_day() {
        let chain = ChainParameters::after_all_forks();
        let mut balance = VestedBalance::default();
        balance.receive(Height(1), 123_000_000, &chain).unwrap();
        let vested = |height| balance.at(Height(height), &chain).vested;
        assert_eq!(vested(1440), 0);
        assert_eq!(vested(1441), 12_300_000);
        assert_eq!(vested(2880), 12_300_000);
        assert_eq!(vested(2881), 23_370_000);
        assert_eq!(vested(4321), 33_333_000);
    }

    #[test]
    fn the_largest_balance_vests() {
        let chain = ChainParameters::after_all_forks();
        let balance = VestedBalance { height: 1, unvested: MAX_BALANCE, vested: 0 }.at(Height(1441), &chain);
        assert_eq!((balance.total(), balance.vested), (MAX_BALANCE, MAX_BALANCE / 10 + 1));
    }

    #[test]
    fn sending_takes_from_both_parts_with_the_rounding_of_doubles() {
        let chain = ChainParameters::after_all_forks();
        let mut balance = VestedBalance { height: 5, unvested: 900_000_000, vested: 100_000_001 };
        balance.send(Height(5), 333_333_333, &chain).unwrap();
        assert_eq!(balance, VestedBalance { height: 5, unvested: 600_000_001, vested: 66_666_667 });
        let mut balance = VestedBalance { height: 5, unvested: 15, vested: 7 };
        balance.send(Height(5), 22, &chain).unwrap();
        assert_eq!(balance.total(), 0);
    }

    #[test]
    fn an_unrepresentable_balance_cannot_be_received() {
        let chain = ChainParameters::after_all_forks();
        let mut balance = VestedBalance { height: 5, unvested: MAX_BALANCE - 16, vested: 7 };
        assert!(balance.receive(Height(5), 9, &chain).is_ok());
        for amount in [1, u64::MAX] {
            assert!(balance.receive(Height(5), amount, &chain).is_err());
            balance = VestedBalance { height: 5, unvested: MAX_BALANCE, vested: 0 };
        }
    }

    #[test]
    fn more_than_the_balance_cannot_be_sent() {
        let mut balance = VestedBalance { height: 5, unvested: 15, vested: 7 };
        assert!(balance.send(Height(5), 23, &ChainParameters::after_all_forks()).is_err());
    }
}
