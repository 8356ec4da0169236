//! Rolls the chain back to a lower height.

use thiserror::Error;

use crate::model::Height;
use crate::state;
use crate::store::{Read, StoreError, Table, WriteTxn, block_key, tip};

/// Why a rollback is not possible.
#[derive(Debug, Error)]
pub enum RollbackError {
    /// The height is not below the tip, or is 0.
    #[error("the chain is at height {tip}; choose a height below it")]
    NotBelow { tip: Height },
    /// The height is deeper than undo journals are kept.
    #[error("undo journals allow a rollback down to height {lowest} only")]
    TooDeep { lowest: Height },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Undoes all blocks above a height. If one of them cannot be undone, the write transaction must be dropped.
pub fn rollback(txn: &mut WriteTxn<'_>, to: Height) -> Result<(), RollbackError> {
    let tip = tip(txn)?.ok_or(StoreError::Empty)?.height;
    if to >= tip || to.0 == 0 {
        return Err(RollbackError::NotBelow { tip });
    }
    let lowest = lowest_undoable(txn, tip)?;
    if to < lowest {
        return Err(RollbackError::TooDeep { lowest });
    }
    Ok((to.0 + 1..=tip.0).rev().try_for_each(|height| undo_tip(txn, Height(height)))?)
}

/// Undoes the tip, which is at `height`.
pub fn undo_tip(txn: &mut WriteTxn<'_>, height: Height) -> Result<(), StoreError> {
    let key = block_key(height);
    let journal = txn.get(Table::Undo, &key)?.ok_or(StoreError::Damaged("an undo journal is missing"))?.to_vec();
    txn.undo(&journal)?;
    txn.delete_unjournaled(Table::Undo, &key)?;
    txn.delete_unjournaled(Table::Blocks, &key)?;
    state::delete_lists_above(txn, height.importance_height())
}

/// Returns the lowest height to which the chain can be rolled back. The nemesis block is never undone.
pub fn lowest_undoable(state: &impl Read, tip: Height) -> Result<Height, StoreError> {
    let Some((key, _)) = state.cursor(Table::Undo)?.seek(&[])? else { return Ok(tip) };
    let first = key.try_into().ok().map(u64::from_be_bytes);
    let below = first.and_then(|first| first.checked_sub(1)).ok_or(StoreError::Damaged("an undo journal's key"))?;
    Ok(Height(below.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::test_store;

    /// Returns how far a chain of nine blocks can be rolled back if undo journals are kept from a height on.
    fn lowest_of(first_journal: u64) -> Height {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().expect("a batch");
        for height in first_journal..=9 {
            batch.put_unjournaled(Table::Undo, &block_key(Height(height)), b"old values").expect("space");
        }
        lowest_undoable(&batch, Height(9)).expect("a store")
    }

    #[test]
    fn the_chain_rolls_back_to_the_block_below_the_first_kept_journal() {
        assert_eq!(lowest_of(7), Height(6));
        assert_eq!(lowest_of(9), Height(8));
        assert_eq!(lowest_of(2), Height(1));
    }

    #[test]
    fn an_impossible_journal_is_corruption() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().expect("a batch");
        batch.put_unjournaled(Table::Undo, &block_key(Height(0)), b"old values").expect("space");
        assert!(matches!(lowest_undoable(&batch, Height(9)), Err(StoreError::Damaged(_))));
    }

    #[test]
    fn the_nemesis_block_and_blocks_without_a_journal_are_never_undone() {
        assert_eq!(lowest_of(1), Height(1));
        assert_eq!(lowest_of(10), Height(9));
    }
}
