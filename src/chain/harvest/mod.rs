//! Making blocks: which accounts may, whether one hits, and what goes into its block (specification 08 §7–§9).
//!
//! What is made is not part of the chain yet: it takes the way of a block that a peer pushes
//! ([`crate::chain::pushed_part`], specification 08 §10).

mod choice;
mod creation;
#[cfg(test)]
mod tests;
mod tick;
mod unlocked;

pub use tick::{Harvested, Tick, TickProgress};
pub use unlocked::{UnlockResult, Unlocked, may_be_unlocked};
