//! Proof of stake.

use super::budget::WorkBudget;
use super::{AccountInput, CalculationProgress, Importance, Importances};
use crate::model::{Amount, Height};

/// A proof-of-stake calculation.
#[derive(Debug, Default)]
pub struct ProofOfStake {
    accounts: Vec<(u32, Amount)>,
    total: i64,
    results: Importances,
}

impl ProofOfStake {
    /// Creates a calculation at an importance height.
    pub fn new(height: Height) -> ProofOfStake {
        ProofOfStake { results: Importances { height, ..Importances::default() }, ..ProofOfStake::default() }
    }

    /// Adds a known account other than the nemesis account. Ids must be ascending.
    pub fn add_account(&mut self, party: AccountInput, vested: Amount) {
        assert!(
            self.accounts.last().is_none_or(|(last, _)| *last < party.id),
            "accounts must be added in ascending order"
        );
        self.accounts.push((party.id, vested));
        self.results.accounts_counted += 1;
        // NIS1 adds in signed 64 bits.
        self.total = self.total.wrapping_add(vested.0 as i64);
    }

    /// Does about `allowance` units of work.
    pub fn step(&mut self, allowance: u32) -> CalculationProgress {
        let (done, all) = (self.results.accounts.len(), self.accounts.len());
        self.results.accounts.reserve_exact(all - done);
        let mut to = done;
        for (account, vested) in &self.accounts[WorkBudget::new(allowance).advance(&mut to, all)] {
            let importance = vested.0 as i64 as f64 / self.total as f64;
            self.results.accounts.push(Importance { account: *account, importance, page_rank: 0.0 });
        }
        if to < all { CalculationProgress::Working } else { CalculationProgress::Done }
    }

    /// Returns the results. Valid once a step has returned [`CalculationProgress::Done`].
    pub fn into_results(self) -> Importances {
        self.results
    }
}
