//! The importance of accounts: proof of importance and proof of stake.
//!
//! A calculation is first fed with accounts and movements, then stepped until it is done, each step doing no
//! more work than it is allowed, so that it can run between the other duties of a node. The results are those
//! of the protocol to the last bit, however the work is sliced.

mod accounts;
pub mod allowance;
pub mod clusters;
mod flows;
pub mod grouped;
pub mod hash_order;
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

/// An account to a calculation.
#[derive(Clone, Copy, Debug)]
pub struct Party {
    /// A number of its own, by which movements name it.
    pub number: u32,
    /// Its address, which has a say in its place among the others.
    pub address: Address,
}

/// Parameters of a calculation.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Grouped height at which importances are calculated.
    pub height: Height,
    /// Blocks per day at the network's target time.
    pub blocks_per_day: u64,
    /// In which order accounts are numbered.
    pub order: AccountOrder,
    /// Limits of what counts.
    pub thresholds: Thresholds,
    /// For how many accounts that take part room is made beforehand.
    pub expected: u64,
}

impl Settings {
    /// Settings for a height of a chain; `known_accounts` is the number of all account states before the block at that
    /// height, 0 at height 1.
    pub fn new(height: Height, blocks_per_day: u64, known_accounts: u64) -> Settings {
        let order = AccountOrder::HashTables { known_accounts };
        Settings { height, blocks_per_day, order, thresholds: Thresholds::default(), expected: 0 }
    }
}

/// Limits of what counts in the graph. The protocol's are the default; others are for tests.
#[derive(Clone, Copy, Debug)]
pub struct Thresholds {
    /// Least net flow between two accounts, in micro-units, that counts.
    pub min_flow: f64,
    /// Similarity that similar neighbours exceed.
    pub similarity: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds { min_flow: 1_000_000_000.0, similarity: 0.3 }
    }
}

/// Whether there is more to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalculationProgress {
    /// Work goes on.
    Working,
    /// The results are there.
    Done,
}

/// Importances calculated at a height.
#[derive(Clone, Debug, Default)]
pub struct Importances {
    /// The grouped height.
    pub height: Height,
    /// Accounts that the calculation was given; NIS1 calls this the last vector size.
    pub handed_over: u64,
    /// Iterations that the page rank took; 0 for proof of stake.
    pub iterations: u32,
    /// The accounts that have an importance, in ascending order of their numbers.
    pub accounts: Vec<Importance>,
}

/// Importance of one account.
#[derive(Clone, Copy, Debug)]
pub struct Importance {
    /// Number of the account.
    pub account: u32,
    /// Its share in the importance of all, 0 to 1; not a number if there is no stake at all.
    pub importance: f64,
    /// Its page rank; 0 for proof of stake.
    pub page_rank: f64,
}

/// Why there are no importances. A calculation that has failed is of no further use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportanceError {
    /// No account has enough vested balance.
    NoAccounts,
    /// The power iteration does not settle.
    NotConverged,
    /// There are more than [`MAX_OUTLINKS`] movements in the window.
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
                write!(f, "there are more than {MAX_OUTLINKS} movements in the last 30 days")
            }
        }
    }
}

impl std::error::Error for ImportanceError {}

/// A calculation by either scheme.
#[derive(Debug)]
pub enum Calculation {
    /// Stake, outlinks and the structure of the graph count.
    Importance(Box<ProofOfImportance>),
    /// Only the stake counts.
    Stake(ProofOfStake),
}

impl Calculation {
    /// A calculation that has not been given anything.
    pub fn new(scheme: ImportanceScheme, settings: Settings) -> Calculation {
        match scheme {
            ImportanceScheme::ProofOfImportance => Calculation::Importance(Box::new(ProofOfImportance::new(settings))),
            ImportanceScheme::ProofOfStake => Calculation::Stake(ProofOfStake::new(settings.height)),
        }
    }

    /// Hands over a known account other than that of the nemesis block, the next in ascending order of the numbers.
    pub fn add_account(&mut self, party: Party, vested: Amount, first_height: Height) {
        match self {
            Calculation::Importance(calculation) => calculation.add_account(party, vested, first_height),
            Calculation::Stake(calculation) => calculation.add_account(party, vested),
        }
    }

    /// Counts known accounts that have too little to take part and are not handed over, and those of them that are new
    /// at the height of the calculation. Proof of stake knows no such accounts.
    pub fn pass_over(&mut self, accounts: u64, young: u64) {
        if let Calculation::Importance(calculation) = self {
            calculation.pass_over(accounts, young);
        }
    }

    /// Hands over a recorded movement; all accounts come before. Proof of stake ignores it. The address of the recipient
    /// is asked for if it takes no part and receives for the first time.
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

    /// Does about `allowance` units of work, each worth some ten nanoseconds.
    pub fn step(&mut self, allowance: u32) -> Result<CalculationProgress, ImportanceError> {
        match self {
            Calculation::Importance(calculation) => calculation.step(allowance),
            Calculation::Stake(calculation) => Ok(calculation.step(allowance)),
        }
    }

    /// The results, once a step has been the last.
    pub fn into_results(self) -> Importances {
        match self {
            Calculation::Importance(calculation) => calculation.into_results(),
            Calculation::Stake(calculation) => calculation.into_results(),
        }
    }
}
