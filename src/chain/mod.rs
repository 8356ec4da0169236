//! Processes, harvests, compares and rolls back blocks.

pub mod apply;
mod block_execution;
mod block_importer;
mod candidate_branch;
pub mod chain_comparer;
mod chain_tip;
mod checkpoint;
mod difficulty;
mod error;
pub mod harvest;
mod hash_chain;
mod nemesis;
pub mod proof;
mod pushed;
mod recalculation;
mod reorgs;
mod rollback;
mod signatures;
mod source;
mod store_verifier;
#[cfg(test)]
mod tests;

pub use block_execution::harvesting_importance;
pub use block_importer::{BlockImporter, ImportError, ImportOptions, ImportProgress};
pub use candidate_branch::{BranchOutcome, BranchProgress, CandidateBranch, ChainUpdate, Validity};
pub use checkpoint::{CheckpointError, CheckpointScan};
pub use difficulty::DifficultyWindow;
pub use error::BlockError;
pub use hash_chain::{BrokenChain, HashChain};
pub use nemesis::{authentic_nemesis_block, nemesis_block};
pub use pushed::{check_pushed, harvested_branch, pushed_branch};
pub use recalculation::{Recalculation, due_after};
pub use reorgs::{MAX_REORGS, MAX_REPLACED, Reorg, ReorgLog, ReplacedBlock};
pub use rollback::{RollbackError, rollback};
pub use signatures::{SignatureCheck, check_block_signature};
pub use source::{BlockSource, SourceError, StoredBlockSource};
pub use store_verifier::{StoreDifference, StoreVerifier};
