//! Harvesting: which accounts may harvest, whether one of them hits, and which transactions its block contains.
//!
//! A harvested block is not part of the chain yet: it is processed like a block that a peer pushes
//! ([`crate::chain::pushed_part`]).

mod choice;
mod creation;
#[cfg(test)]
mod tests;
mod tick;
mod trial;
mod unlocked;

pub use tick::{Harvested, Tick, TickProgress};
pub use unlocked::{UnlockResult, Unlocked, may_be_unlocked};
