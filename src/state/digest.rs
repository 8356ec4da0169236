//! One string for a whole state.

use sha3::{Digest, Keccak256};

use super::importances::each_importance;
use crate::model::Hash256;
use crate::store::{Read, StoreError, Table};

/// Keccak-256 over all entries of all state tables in key order, with their lengths, and over the importances
/// that are in force. Two nodes with the same
/// chain have the same digest, and so has a node before a block and after its undoing.
pub fn digest(state: &impl Read) -> Result<Hash256, StoreError> {
    let mut hasher = Keccak256::new();
    for table in Table::state() {
        hasher.update(table.name());
        state.each(table, &[], |key, value| {
            hasher.update((key.len() as u32).to_le_bytes());
            hasher.update(key);
            hasher.update((value.len() as u32).to_le_bytes());
            hasher.update(value);
            Ok(true)
        })?;
    }
    each_importance(state, |entry| {
        hasher.update(entry.to_bytes());
        Ok(())
    })?;
    Ok(Hash256(hasher.finalize().into()))
}
