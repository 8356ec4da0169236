//! Harvesting: which accounts may harvest, whether one of them hits, and which transactions its block contains.
//!
//! A harvested block is not part of the chain yet: it is processed like a block that a peer pushes
//! ([`crate::chain::pushed_branch`]).

mod creation;
mod round;
mod scratch_overlay;
#[cfg(test)]
mod tests;
mod tx_selection;
mod unlocked;

pub use round::{HarvestProgress, HarvestRound, Harvested};
pub use unlocked::{UnlockResult, UnlockedAccounts, check_eligibility};
