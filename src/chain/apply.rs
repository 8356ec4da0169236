//! Applying a verified block to the state (specification 03 §5).

use super::difficulty::Window;
use super::error::BlockError;
use super::verify::{Hashes, Verified};
use crate::crypto::hash::keccak256_parts;
use crate::model::{Block, BlockKind, Body, Hash256, Height, Network, Transaction};
use crate::state::{
    BlockContext, Effect, HashEntry, Ledger, StateError, assign_ids, effects, index_harvest, index_transaction,
};
use crate::store::{Batch, StoreError, StoredBlock, Table, block_key};

/// Checks that a block can stand on top of `parent`, `None` being an empty chain.
pub fn check_place(block: &Block, parent: Option<&StoredBlock>) -> Result<(), BlockError> {
    let expected = parent.map_or(Height::NEMESIS, |parent| parent.height.next());
    if block.height != expected {
        return Err(BlockError::Height { expected, found: block.height });
    }
    let kind = if parent.is_none() { BlockKind::Nemesis } else { BlockKind::Regular };
    if block.kind != kind {
        return Err(BlockError::Kind);
    }
    if block.previous_hash != parent.map_or(Hash256::default(), |parent| parent.hash) {
        return Err(BlockError::Parent);
    }
    Ok(())
}

/// Begins a block.
pub fn begin(block: &Block, batch: &mut Batch<'_>, network: &Network) -> Result<BlockContext, BlockError> {
    let mut context = BlockContext::new(block.height, block.timestamp);
    if block.height == Height::NEMESIS {
        Ledger { batch, block: &mut context, network }.seed()?;
    }
    Ok(context)
}

/// Applies one transaction of the block.
pub fn apply_transaction(ledger: &mut Ledger<'_, '_>, transaction: &Transaction) -> Result<(), StateError> {
    reveal_keys(ledger, transaction)?;
    let mut list: Vec<Effect<'_>> = Vec::with_capacity(8);
    effects(transaction, ledger, ledger.network.byte, &mut list)?;
    list.iter().try_for_each(|effect| ledger.apply(effect))
}

/// Remembers every key that a transaction carries (specification 03 §8).
fn reveal_keys(ledger: &mut Ledger<'_, '_>, transaction: &Transaction) -> Result<(), StateError> {
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

/// Completes a block all of whose transactions were applied, and stores it.
pub fn finish(
    ledger: &mut Ledger<'_, '_>,
    verified: &Verified,
    parent: Option<&StoredBlock>,
    window: &Window,
) -> Result<StoredBlock, BlockError> {
    let block = &verified.block;
    let signer = crate::model::Address::from_public_key(&block.signer, ledger.network.byte);
    ledger.reveal(&block.signer)?;
    let beneficiary = ledger.beneficiary(&signer)?;
    ledger.harvest(&beneficiary, block.total_fee())?;
    for (index, (transaction, hashes)) in block.transactions.iter().zip(&verified.transactions).enumerate() {
        insert_hashes(ledger.batch, transaction, hashes, block.height, index as u32)?;
    }
    ledger.finish()?;
    let (ids, next_id) = assign_ids(block, parent.map_or(1, |parent| parent.ids.1));
    for (index, (transaction, id)) in block.transactions.iter().zip(&ids).enumerate() {
        index_transaction(ledger.batch, transaction, *id, block.height, index as u32, ledger.network.byte)?;
    }
    index_harvest(ledger.batch, &signer, &beneficiary, block.height)?;

    let header = StoredBlock {
        height: block.height,
        hash: verified.hash,
        generation_hash: generation_hash(block, parent, ledger.network),
        timestamp: block.timestamp,
        difficulty: window.difficulty(ledger.network.chain.target_time).ok_or(BlockError::Difficulty)?,
        score: 0,
        total_fee: block.total_fee(),
        lessor: Some(beneficiary).filter(|beneficiary| *beneficiary != signer),
        ids: (parent.map_or(1, |parent| parent.ids.1), next_id),
    };
    let header = StoredBlock { score: chain_score(&header, parent), ..header };
    store_block(ledger, &header, block)?;
    Ok(header)
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
    for (cosignature, hash) in transaction.cosignatures().iter().zip(&hashes.cosignatures) {
        HashEntry { height, timestamp: cosignature.timestamp, index: None }.insert(batch, hash)?;
    }
    if let Some((inner, hash)) = transaction.inner().zip(hashes.inner.as_ref()) {
        HashEntry { height, timestamp: inner.timestamp, index: None }.insert(batch, hash)?;
    }
    Ok(())
}

fn generation_hash(block: &Block, parent: Option<&StoredBlock>, network: &Network) -> Hash256 {
    match parent {
        Some(parent) => Hash256(keccak256_parts(&[&parent.generation_hash.0, &block.signer.0])),
        None => network.generation_hash,
    }
}

/// Difficulty minus seconds since the block before, summed up from height 2 on (specification 02 §4.6).
fn chain_score(block: &StoredBlock, parent: Option<&StoredBlock>) -> i128 {
    parent.map_or(0, |parent| {
        let elapsed = i128::from(block.timestamp.0) - i128::from(parent.timestamp.0);
        parent.score + i128::from(block.difficulty) - elapsed
    })
}

fn store_block(ledger: &mut Ledger<'_, '_>, header: &StoredBlock, block: &Block) -> Result<(), StoreError> {
    let key = block_key(header.height);
    ledger.batch.put_unjournaled(Table::Blocks, &key, &header.to_bytes(block))?;
    let journal = ledger.batch.take_journal();
    ledger.batch.put_unjournaled(Table::Undo, &key, &journal)?;
    if let Some(old) = header.height.0.checked_sub(ledger.network.chain.rewrite_limit) {
        ledger.batch.delete_unjournaled(Table::Undo, &block_key(Height(old)))?;
    }
    Ok(())
}
