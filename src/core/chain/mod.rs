//! Processes, harvests, compares and rolls back blocks.

pub mod apply;
mod block_execution;
mod block_importer;
mod candidate_branch;
mod chain_tip;
pub mod harvest;
mod hash_chain;
pub mod proof;
mod recalculation;
mod reorgs;
mod snapshot;
mod store_verifier;
#[cfg(test)]
mod tests;

pub use apply::{Retention, RollbackError, rollback};
pub use block_execution::{SignatureCheck, Verified, check_block_signature, harvesting_importance, read_rows_of};
pub use block_importer::*;
pub use candidate_branch::{BranchOutcome, CandidateBranch, ChainUpdate, check_pushed, is_better, pushed_branch};
pub use chain_tip::DifficultyWindow;
pub use hash_chain::{BrokenChain, CheckpointError, CheckpointScan, HashChain};
pub use recalculation::{Recalculation, RecalculationPart, StakeCache, due_after};
pub use reorgs::{MAX_REORGS, MAX_REPLACED, Reorg, ReorgLog, ReplacedBlock};
pub use snapshot::{BlockCursor, BlockReader, ChainSnapshot, ConfirmedBlock};
pub use store_verifier::{ComparisonError, StoreVerifier};
