//! Applying a verified block to the state.

use crate::model::transaction::Hashes;
use crate::model::{Address, Block, Body, Height, Network, NetworkByte, Transaction};
use crate::state::{
    BlockContext, Effect, HashEntry, Ledger, StateError, assign_ids, catalogue, index_harvest, index_transaction,
};
use crate::store::{Batch, StoreError, StoredBlock, Table, Write, block_key};

/// Begins a block.
pub fn begin(block: &Block, batch: &mut Batch<'_>, network: &Network) -> Result<BlockContext, StateError> {
    let mut context = BlockContext::new(block.height, block.timestamp);
    if block.height == Height::NEMESIS {
        Ledger { batch, block: &mut context, network }.seed()?;
    }
    Ok(context)
}

/// Carries out the effects of one transaction of the block.
pub fn apply_transaction(
    ledger: &mut Ledger<'_, impl Write>,
    transaction: &Transaction,
    effects: &[Effect<'_>],
) -> Result<(), StateError> {
    reveal_keys(ledger, transaction)?;
    effects.iter().try_for_each(|effect| ledger.apply(effect))
}

/// Remembers every key that a transaction carries.
fn reveal_keys(ledger: &mut Ledger<'_, impl Write>, transaction: &Transaction) -> Result<(), StateError> {
    ledger.reveal(&transaction.signer)?;
    match &transaction.body {
        Body::ImportanceTransfer(body) => ledger.reveal(&body.remote),
        Body::AggregateModification(body) => body.modifications.iter().try_for_each(|m| ledger.reveal(&m.cosignatory)),
        Body::Multisig(body) => {
            body.cosignatures.iter().try_for_each(|cosignature| ledger.reveal(&cosignature.signer))?;
            reveal_keys(ledger, &body.inner)
        }
        _ => Ok(()),
    }
}

/// What is known of a block once it is credited.
pub struct Settled {
    /// The account it is credited to, if that is not its signer's.
    pub lessor: Option<Address>,
    /// Number of its first transaction, and of the first one after it.
    pub ids: (u64, u64),
    /// Numbers of its transactions.
    transaction_ids: Vec<u64>,
    /// Numbers of its provisions and definitions.
    rows: Vec<u64>,
}

/// Credits a block all of whose transactions were carried out.
pub fn settle(
    ledger: &mut Ledger<'_, impl Write>,
    block: &Block,
    parent: Option<&StoredBlock>,
) -> Result<Settled, StateError> {
    let signer = Address::from_public_key(&block.signer, ledger.network.byte);
    ledger.reveal(&block.signer)?;
    let beneficiary = ledger.beneficiary(&signer)?;
    ledger.harvest(&beneficiary, block.total_fee())?;
    index_harvest(ledger.batch, &signer, &beneficiary, block.height)?;
    let term = ledger.network.chain.blocks_per_year();
    catalogue::expire(ledger.batch, block.height, term, ledger.network.byte)?;
    let first_id = parent.map_or(1, |parent| parent.ids.1);
    let (transaction_ids, next_id) = assign_ids(block, first_id);
    let lessor = Some(beneficiary).filter(|beneficiary| *beneficiary != signer);
    let rows = catalogue::number(ledger.batch, block)?;
    Ok(Settled { lessor, ids: (first_id, next_id), transaction_ids, rows })
}

/// Remembers one transaction of a block that is settled: its hashes, for whom it is of interest, and what it rents or
/// defines.
pub fn record(
    batch: &mut Batch<'_>,
    block: &Block,
    index: usize,
    hashes: &Hashes,
    settled: &Settled,
    network: NetworkByte,
) -> Result<(), StateError> {
    let (transaction, id) = (&block.transactions[index], settled.transaction_ids[index]);
    insert_hashes(batch, transaction, hashes, block.height, index as u32)?;
    index_transaction(batch, transaction, id, block.height, index as u32, network)?;
    catalogue::record(batch, transaction, settled.rows[index], block.height, network)
}

fn insert_hashes(
    batch: &mut Batch<'_>,
    transaction: &Transaction,
    hashes: &Hashes,
    height: Height,
    index: u32,
) -> Result<(), StateError> {
    let entry = HashEntry { height, timestamp: transaction.timestamp, index: Some(index) };
    entry.insert(batch, &hashes.own)?;
    for (child, hash) in transaction.children().zip(&hashes.children) {
        HashEntry { height, timestamp: child.timestamp, index: None }.insert(batch, hash)?;
    }
    Ok(())
}

/// What is kept of the blocks that are carried out, besides what they do to the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// The blocks, and the old values of all that those changed that may be rolled back.
    Chain,
    /// No blocks, and old values only of blocks from this height on: for a store that is compared with another.
    State(Height),
}

/// Stores a block that was carried out, with the old values of all that it changed. Those that no rollback comes
/// back to are forgotten.
pub fn store(batch: &mut Batch<'_>, header: &StoredBlock, block: &Block, rewrite_limit: u64) -> Result<(), StoreError> {
    let key = block_key(header.height);
    batch.put_unjournaled(Table::Blocks, &key, &header.to_bytes(block))?;
    let journal = batch.take_journal();
    batch.put_unjournaled(Table::Undo, &key, &journal)?;
    match header.height.0.checked_sub(rewrite_limit) {
        Some(old) => batch.delete_unjournaled(Table::Undo, &block_key(Height(old))),
        None => Ok(()),
    }
}

/// Ends a block of which only the old values are stored, and these only if its height is not below `from`.
pub fn store_old_values(batch: &mut Batch<'_>, height: Height, from: Height) -> Result<(), StoreError> {
    let journal = batch.take_journal();
    if height < from {
        return Ok(());
    }
    batch.put_unjournaled(Table::Undo, &block_key(height), &journal)
}
