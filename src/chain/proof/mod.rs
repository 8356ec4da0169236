//! Proof of importance of a block: whether its signer was allowed to make it at its time.

mod exponential;
mod fixed;
mod hit;
mod logarithm;
mod score;
mod target;

pub use hit::{generation_hash, hit};
pub use score::block_score;
pub use target::{Target, effective_importance, is_hit, target};
