//! Proof of importance: whether the signer of a block was allowed to create it at its time.

mod exponential;
mod fixed;
mod hit;
mod logarithm;
mod score;
mod target;

pub use hit::{generation_hash, hit};
pub use score::block_score;
pub use target::{Target, effective_importance, is_hit, target};
