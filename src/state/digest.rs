//! Digest of the whole state.

use sha3::{Digest, Keccak256};

use super::hashes::TOTALS_KEY as HASH_TOTALS_KEY;
use super::importances::for_each_importance;
use crate::model::Hash256;
use crate::store::{Read, StoreError, Table, tip};

/// Computes a Keccak-256 over the hash of the tip, all entries of the state tables in key order with their lengths, and
/// the importances in force. Two nodes with the same chain have the same digest, and a rollback restores the previous
/// digest.
///
/// The tables of transaction hashes are left out. Their content follows from the blocks, which the hash of the tip
/// covers, but their layout depends on when they were packed and on settings.
pub fn digest(state: &impl Read) -> Result<Hash256, StoreError> {
    let mut hasher = Keccak256::new();
    hasher.update(tip(state)?.map_or(Hash256::default(), |block| block.hash).0);
    for table in Table::state().filter(|table| !matches!(table, Table::Hashes | Table::HashRuns)) {
        hasher.update(table.name());
        state.for_each_prefix(table, &[], |key, value| {
            if table == Table::Totals && key == HASH_TOTALS_KEY {
                return Ok(true);
            }
            hasher.update((key.len() as u32).to_le_bytes());
            hasher.update(key);
            hasher.update((value.len() as u32).to_le_bytes());
            hasher.update(value);
            Ok(true)
        })?;
    }
    for_each_importance(state, |entry| {
        hasher.update(entry.to_bytes());
        Ok(())
    })?;
    Ok(Hash256(hasher.finalize().into()))
}
