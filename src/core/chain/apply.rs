//! Applies a validated block to the state, and undoes blocks.

use thiserror::Error;

use crate::model::transaction::Hashes;
use crate::model::{Address, Block, Body, Height, Network, Transaction};
use crate::state::registry::{self, ListingUpdate};
use crate::state::{self, BlockContext, Effect, HashEpoch, Ledger, StateError, TxLocation, assign_ids};
use crate::store::{Read, Result, StoreError, StoredHeader, Table, Write, WriteTxn, block_key, pack_blocks, tip};

/// Old blocks deleted for each stored block where only the state is kept.
const PRUNED_PER_BLOCK: usize = 2;

/// Starts a block. For the nemesis block, seeds the state first.
pub fn begin(block: &Block, txn: &mut WriteTxn<'_>, network: &Network) -> Result<BlockContext, StateError> {
    let mut context = BlockContext::new(block.height);
    if block.height == Height::NEMESIS {
        Ledger { txn, block: &mut context, network }.seed()?;
    }
    Ok(context)
}

/// Applies the effects of one transaction of the block.
pub fn apply_transaction(
    ledger: &mut Ledger<'_, impl Write>,
    transaction: &Transaction,
    effects: &[Effect<'_>],
) -> Result<(), StateError> {
    record_public_keys(ledger, transaction)?;
    effects.iter().try_for_each(|effect| ledger.apply(effect))
}

/// Records every public key that a transaction carries.
fn record_public_keys(ledger: &mut Ledger<'_, impl Write>, transaction: &Transaction) -> Result<(), StateError> {
    ledger.record_public_key(&transaction.signer)?;
    match &transaction.body {
        Body::ImportanceTransfer(body) => ledger.record_public_key(&body.remote),
        Body::AggregateModification(body) => {
            body.modifications.iter().try_for_each(|m| ledger.record_public_key(&m.cosignatory))
        }
        Body::Multisig(body) => {
            body.cosignatures.iter().try_for_each(|cosignature| ledger.record_public_key(&cosignature.signer))?;
            record_public_keys(ledger, &body.inner)
        }
        _ => Ok(()),
    }
}

/// Values known once the rewards of a block are credited.
#[derive(Default)]
pub struct AppliedBlock {
    /// The account credited with the block, if that is not its signer.
    pub beneficiary: Option<Address>,
    /// Id of its first transaction, and the first id after its last one.
    pub ids: (u64, u64),
    /// Heights of the last blocks that its signer and its beneficiary harvested before.
    pub previous_harvests: [Height; 2],
    /// The epoch of the hashes of its transactions.
    epoch: HashEpoch,
    /// Id and index of each of its transactions, ordered by id.
    transactions: Vec<(u64, usize)>,
    /// Row ids of its namespace provisions and mosaic definitions.
    row_ids: Vec<u64>,
}

/// Credits a block after all its transactions were executed.
pub fn credit_block(
    ledger: &mut Ledger<'_, impl Write>,
    block: &Block,
    parent: Option<&StoredHeader>,
) -> Result<AppliedBlock, StateError> {
    let signer = Address::from_public_key(&block.signer, ledger.network.byte);
    ledger.record_public_key(&block.signer)?;
    let (beneficiary, previous_harvests) = ledger.harvest(&signer, block.total_fee())?;
    let first_id = parent.map_or(1, |parent| parent.ids.1);
    let epoch = state::hash_epoch(ledger.txn, first_id)?;
    let (transaction_ids, next_id) = assign_ids(block, first_id);
    let beneficiary = Some(beneficiary).filter(|beneficiary| *beneficiary != signer);
    let row_ids = registry::assign_row_ids(ledger.txn, block)?;
    let mut transactions: Vec<(u64, usize)> = transaction_ids.into_iter().zip(0..).collect();
    transactions.sort_unstable();
    let ids = (first_id, next_id);
    Ok(AppliedBlock { beneficiary, ids, previous_harvests, epoch, transactions, row_ids })
}

/// Indexes one transaction of a block: its hashes, the accounts it affects, and what it rents or defines. `number`
/// counts transactions in id order. The returned listing update must be finished before the next call.
pub fn index_transaction(
    ledger: &mut Ledger<'_, impl Write>,
    block: &Block,
    hashes: &[Hashes],
    applied: &AppliedBlock,
    number: usize,
) -> Result<Option<ListingUpdate>, StateError> {
    let (id, index) = applied.transactions[number];
    let transaction = &block.transactions[index];
    let place = TxLocation { height: block.height, index: index as u32 };
    ledger.index_transaction(transaction, &hashes[index], place.index, (id, applied.epoch))?;
    registry::record(ledger.txn, transaction, applied.row_ids[index], place, ledger.network.byte)
}

/// What is stored of processed blocks, besides their effect on the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// The blocks, and undo journals for those that may be rolled back.
    Chain,
    /// Blocks only as long as the hashes of their transactions are retained, and undo journals only from this height
    /// on. For a scratch store that is compared with another store.
    State(Height),
}

/// Stores a processed block, by the row of its header, with its undo journal. Deletes what need not be kept any longer.
pub fn store(
    txn: &mut WriteTxn<'_>,
    header: &StoredHeader,
    row: &[u8],
    retention: Retention,
    rewrite_limit: u64,
) -> Result<()> {
    let key = block_key(header.height);
    txn.put_unjournaled(Table::Blocks, &key, row)?;
    let first_journal = match retention {
        Retention::Chain => {
            if let Some(old) = header.height.0.checked_sub(rewrite_limit) {
                txn.delete_unjournaled(Table::Undo, &block_key(Height(old)))?;
                pack_blocks(txn, Height(old))?;
            }
            Height(0)
        }
        Retention::State(from) => {
            let remembered = block_key(state::remembered_from(txn)?.min(header.height));
            for _ in 0..PRUNED_PER_BLOCK {
                let Some(forgotten) = txn.first_key_below(Table::Blocks, &remembered)? else { break };
                txn.delete_unjournaled(Table::Blocks, &forgotten)?;
            }
            from
        }
    };
    let journal = txn.take_journal();
    if header.height < first_journal { Ok(()) } else { txn.put_unjournaled(Table::Undo, &key, &journal) }
}

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
    let tip = check_undoable(txn, to)?.height;
    if to == tip {
        return Err(RollbackError::NotBelow { tip });
    }
    Ok((to.0 + 1..=tip.0).rev().try_for_each(|height| undo_tip(txn, Height(height)))?)
}

/// Returns the tip. Fails if a height is above it, or is 0, or if the blocks above the height cannot be undone.
pub fn check_undoable(state: &impl Read, to: Height) -> Result<StoredHeader, RollbackError> {
    let tip = tip(state)?.ok_or(StoreError::Empty)?;
    if to > tip.height || to.0 == 0 {
        return Err(RollbackError::NotBelow { tip: tip.height });
    }
    let lowest = lowest_undoable(state, tip.height)?;
    if to < lowest { Err(RollbackError::TooDeep { lowest }) } else { Ok(tip) }
}

/// Undoes the tip, which is at `height`.
pub fn undo_tip(txn: &mut WriteTxn<'_>, height: Height) -> Result<()> {
    let key = block_key(height);
    let journal = txn.get(Table::Undo, &key)?.ok_or(StoreError::Damaged("an undo journal is missing"))?.to_vec();
    txn.undo(&journal)?;
    txn.delete_unjournaled(Table::Undo, &key)?;
    txn.delete_unjournaled(Table::Blocks, &key)?;
    state::delete_lists_above(txn, height.importance_height())
}

/// Returns the lowest height to which the chain can be rolled back. The nemesis block is never undone.
pub fn lowest_undoable(state: &impl Read, tip: Height) -> Result<Height> {
    let Some((key, _)) = state.first_from(Table::Undo, &[], &[])? else { return Ok(tip) };
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
