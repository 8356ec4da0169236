//! Account importance: proof of importance and proof of stake.
//!
//! The caller adds the accounts, then the outlinks, and then calls `step` until the calculation is done. Each step is
//! limited by a work budget, so that the node can do other work in between. The results equal those of NIS1 bit for
//! bit, whatever the slicing.

mod accounts;
pub mod budget;
pub mod clusters;
pub mod csr;
mod flows;
pub mod java_hash_map;
mod matrix;
mod neighbours;
mod outlinks;
mod pipeline;
mod proximity;
mod rank;
pub mod score;
mod stake;
pub mod structure;
#[cfg(test)]
mod tests;

use std::fmt;

pub use accounts::AccountOrder;
pub use matrix::{OutlinkMatrix, SparseMatrix};
pub use outlinks::{MAX_OUTLINKS, decay};
pub use pipeline::{Graph, ProofOfImportance};
pub use stake::ProofOfStake;

use crate::model::network::ImportanceScheme;
use crate::model::{Address, Amount, Height};

/// Input to a calculation: an account.
#[derive(Clone, Copy, Debug)]
pub struct AccountInput {
    /// Id of the account; outlinks refer to it.
    pub id: u32,
    /// Address; its hash influences the order of the accounts.
    pub address: Address,
}

/// Parameters of a calculation.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Importance height: the height at which importances are calculated.
    pub height: Height,
    /// Blocks per day at the network's target time.
    pub blocks_per_day: u64,
    /// Order in which accounts are numbered.
    pub order: AccountOrder,
    /// Limits within the graph.
    pub thresholds: Thresholds,
    /// Expected number of eligible accounts, for preallocation.
    pub expected_eligible: u64,
}

impl Settings {
    /// Creates settings for a height of the chain. `known_accounts` counts the account states before the block at that
    /// height; 0 at height 1.
    pub fn new(height: Height, blocks_per_day: u64, known_accounts: u64) -> Settings {
        let order = AccountOrder::HashTables { known_accounts };
        Settings { height, blocks_per_day, order, thresholds: Thresholds::default(), expected_eligible: 0 }
    }
}

/// Limits within the graph. The defaults are NIS1's; tests use others.
#[derive(Clone, Copy, Debug)]
pub struct Thresholds {
    /// Minimum net flow between two accounts, in micro-units.
    pub min_flow: f64,
    /// Two neighbours are similar if their similarity exceeds this.
    pub similarity: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds { min_flow: 1_000_000_000.0, similarity: 0.3 }
    }
}

/// Whether work remains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalculationProgress {
    /// Work remains.
    Working,
    /// The results are complete.
    Done,
}

/// Importances calculated at a height.
#[derive(Clone, Debug, Default)]
pub struct Importances {
    /// Importance height.
    pub height: Height,
    /// Accounts that the calculation counted, ineligible ones included; NIS1's "last vector size".
    pub accounts_counted: u64,
    /// Iterations of the page rank; 0 for proof of stake.
    pub iterations: u32,
    /// Eligible accounts in ascending order of their ids.
    pub accounts: Vec<Importance>,
}

/// Importance of one account.
#[derive(Clone, Copy, Debug)]
pub struct Importance {
    /// Id of the account.
    pub account: u32,
    /// Share of the total importance, 0 to 1; NaN if there is no stake at all.
    pub importance: f64,
    /// Page rank; 0 for proof of stake.
    pub page_rank: f64,
}

/// Reasons for a failed calculation. A failed calculation cannot be continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportanceError {
    /// No account has enough vested balance.
    NoAccounts,
    /// The power iteration does not converge.
    NotConverged,
    /// The window has more than [`MAX_OUTLINKS`] outlinks.
    TooManyOutlinks,
}

impl fmt::Display for ImportanceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImportanceError::NoAccounts => write!(f, "there aren't any harvesting eligible accounts"),
            ImportanceError::NotConverged => {
                write!(f, "POI: power iteration failed to converge in {} iterations", rank::MAX_ITERATIONS)
            }
            ImportanceError::TooManyOutlinks => {
                write!(f, "there are more than {MAX_OUTLINKS} outlinks in the last 30 days")
            }
        }
    }
}

impl std::error::Error for ImportanceError {}

/// A calculation of either scheme.
#[derive(Debug)]
pub enum Calculation {
    /// Considers stake, outlinks and the structure of the graph.
    Importance(Box<ProofOfImportance>),
    /// Considers the stake only.
    Stake(ProofOfStake),
}

impl Calculation {
    /// Creates a calculation without input.
    pub fn new(scheme: ImportanceScheme, settings: Settings) -> Calculation {
        match scheme {
            ImportanceScheme::ProofOfImportance => Calculation::Importance(Box::new(ProofOfImportance::new(settings))),
            ImportanceScheme::ProofOfStake => Calculation::Stake(ProofOfStake::new(settings.height)),
        }
    }

    /// Adds a known account other than the nemesis account. Ids must be ascending.
    pub fn add_account(&mut self, party: AccountInput, vested: Amount, first_height: Height) {
        match self {
            Calculation::Importance(calculation) => calculation.add_account(party, vested, first_height),
            Calculation::Stake(calculation) => calculation.add_account(party, vested),
        }
    }

    /// Counts known accounts whose balance is too low to be eligible and that are not added; `young` of them are new at
    /// the height of the calculation. No effect for proof of stake, which gets every account.
    pub fn skip_ineligible(&mut self, accounts: u64, young: u64) {
        if let Calculation::Importance(calculation) = self {
            calculation.skip_ineligible(accounts, young);
        }
    }

    /// Adds an outlink. All accounts must be added before. No effect for proof of stake. `address` returns the
    /// recipient's address; it is called if the recipient is ineligible and new to the calculation.
    pub fn add_outlink<E>(
        &mut self,
        height: Height,
        sender: u32,
        recipient: u32,
        weight: u64,
        address: impl FnOnce() -> Result<Address, E>,
    ) -> Result<(), E> {
        match self {
            Calculation::Importance(calculation) => calculation.add_outlink(height, sender, recipient, weight, address),
            Calculation::Stake(_) => Ok(()),
        }
    }

    /// Does about `budget` units of work, each about ten nanoseconds.
    pub fn step(&mut self, budget: u32) -> Result<CalculationProgress, ImportanceError> {
        match self {
            Calculation::Importance(calculation) => calculation.step(budget),
            Calculation::Stake(calculation) => Ok(calculation.step(budget)),
        }
    }

    /// Returns the results. Valid once a step has returned [`CalculationProgress::Done`].
    pub fn into_results(self) -> Importances {
        match self {
            Calculation::Importance(calculation) => calculation.into_results(),
            Calculation::Stake(calculation) => calculation.into_results(),
        }
    }
}
