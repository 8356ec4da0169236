//! Making blocks: which accounts may, whether one hits, and what goes into its block.
//!
//! What is made is not part of the chain yet: it takes the way of a block that a peer pushes
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
