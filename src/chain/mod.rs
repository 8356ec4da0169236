//! Processes, harvests, compares and rolls back blocks.

mod admission;
pub mod apply;
mod check;
mod checkpoint;
pub mod comparison;
mod difficulty;
mod error;
pub mod harvest;
mod hash_chain;
mod head;
mod intake;
mod nemesis;
mod part;
pub mod proof;
mod pushed;
mod recalculation;
mod reorgs;
mod rollback;
mod signatures;
mod source;

pub use admission::harvesting_importance;
pub use check::{Comparison, Difference};
pub use checkpoint::{CheckpointError, CheckpointScan};
pub use difficulty::Window;
pub use error::BlockError;
pub use hash_chain::{BrokenChain, HashChain};
pub use intake::{Intake, IntakeError, IntakeOptions, IntakeProgress};
pub use nemesis::{authentic_nemesis_block, nemesis_block};
pub use part::{ChainPart, PartOutcome, PartProgress, Switch, Validity};
pub use pushed::{check_pushed, harvested_part, pushed_part};
pub use recalculation::{Recalculation, due_after};
pub use reorgs::{MAX_REORGS, MAX_REPLACED, Reorg, Reorgs, Replaced};
pub use rollback::{RollbackError, rollback};
pub use signatures::{SignatureCheck, check_block_signature};
pub use source::{BlockSource, SourceError, StoredBlocks};
