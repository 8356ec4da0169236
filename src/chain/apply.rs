//! Applying a verified block to the state.

use crate::model::transaction::Hashes;
use crate::model::{Address, Block, Body, Height, Network, Transaction};
use crate::state::catalogue::{self, Relisting};
use crate::state::{self, BlockContext, Effect, Era, Ledger, Place, StateError, assign_ids};
use crate::store::{Batch, Read, StoreError, StoredBlock, Table, Write, block_key};

/// Blocks that go with each one that comes, where only some are kept.
const FORGOTTEN_PER_BLOCK: usize = 2;

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
    /// The era of the hashes of its transactions.
    era: Era,
    /// Number and index of each of its transactions, in the order of their numbers.
    transactions: Vec<(u64, usize)>,
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
    ledger.index_harvest(&signer, &beneficiary)?;
    let first_id = parent.map_or(1, |parent| parent.ids.1);
    let era = state::hash_era(ledger.batch, first_id)?;
    let (transaction_ids, next_id) = assign_ids(block, first_id);
    let lessor = Some(beneficiary).filter(|beneficiary| *beneficiary != signer);
    let rows = catalogue::number(ledger.batch, block)?;
    let mut transactions: Vec<(u64, usize)> = transaction_ids.into_iter().zip(0..).collect();
    transactions.sort_unstable();
    Ok(Settled { lessor, ids: (first_id, next_id), era, transactions, rows })
}

/// Remembers one transaction of a block that is settled: its hashes, for whom it is of interest, and what it rents or
/// defines. `number` counts them in the order of their numbers. What becomes active with it is to be listed before the
/// next.
pub fn record(
    ledger: &mut Ledger<'_, impl Write>,
    block: &Block,
    hashes: &[Hashes],
    settled: &Settled,
    number: usize,
) -> Result<Option<Relisting>, StateError> {
    let (id, index) = settled.transactions[number];
    let transaction = &block.transactions[index];
    let place = Place { height: block.height, index: index as u32 };
    ledger.index_transaction(transaction, &hashes[index], place.index, (id, settled.era))?;
    catalogue::record(ledger.batch, transaction, settled.rows[index], place, ledger.network.byte)
}

/// What is kept of the blocks that are carried out, besides what they do to the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// The blocks, and the old values of all that those changed that may be rolled back.
    Chain,
    /// Blocks only as long as the hashes of their transactions are remembered, and old values only of blocks from this
    /// height on: for a store that is compared with another.
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

/// The same where no more is kept than carrying out further blocks asks for, and old values from a height on.
pub fn store_state(batch: &mut Batch<'_>, header: &StoredBlock, block: &Block, from: Height) -> Result<(), StoreError> {
    let key = block_key(header.height);
    batch.put_unjournaled(Table::Blocks, &key, &header.to_bytes(block))?;
    let remembered = block_key(state::remembered_from(batch)?.min(header.height));
    for _ in 0..FORGOTTEN_PER_BLOCK {
        let first = batch.walk(Table::Blocks)?.seek(&[])?.map(|(key, _)| key.to_vec());
        let Some(forgotten) = first.filter(|first| first.as_slice() < remembered.as_slice()) else { break };
        batch.delete_unjournaled(Table::Blocks, &forgotten)?;
    }
    let journal = batch.take_journal();
    match header.height < from {
        true => Ok(()),
        false => batch.put_unjournaled(Table::Undo, &key, &journal),
    }
}
