//! Reads the rows that the execution of a block will read and replace, so that they are in memory then.

use super::apply::{self, lowest_undoable};
use super::block_execution::{execute_transaction, validation_context};
use crate::model::transaction::Hashes;
use crate::model::{Block, Network, Transaction};
use crate::rules;
use crate::state::{BlockContext, HashCompaction, Ledger, Pruning};
use crate::store::{Changes, Overlay, Snapshot, Table, Write as _, block_key, pack_blocks, tip};

/// Executes a block on a snapshot of the chain before it, or long before it, and throws the result away. What fails, as blocks
/// in between are missing, does not matter. Returns whether it was done before the time `is_over`.
pub fn read_rows_of(block: &Block, snapshot: &Snapshot<'_>, network: &Network, is_over: impl Fn() -> bool) -> bool {
    /// Calls `step` while work remains, as long as there is time. Returns whether there is.
    fn run(is_over: impl Fn() -> bool, mut step: impl FnMut() -> bool) -> bool {
        while step() && !is_over() {}
        !is_over()
    }
    let mut changes = Changes::default();
    let mut overlay = Overlay::new(snapshot, &mut changes);
    let mut context = BlockContext::new(block.height);
    let mut ledger = Ledger { txn: &mut overlay, block: &mut context, network };
    for transaction in &block.transactions {
        let _ = execute_transaction(&mut ledger, transaction, block.timestamp);
        if is_over() {
            return false;
        }
    }
    let hashes: Vec<Hashes> = block.transactions.iter().map(Transaction::hashes).collect();
    let _ = rules::check_block(block, &hashes, &validation_context(&ledger, block.timestamp));
    let parent = tip(snapshot).ok().flatten();
    if let Ok(applied) = apply::credit_block(&mut ledger, block, parent.as_ref()) {
        for number in 0..block.transactions.len() {
            let update = apply::index_transaction(&mut ledger, block, &hashes, &applied, number);
            let mut update = update.unwrap_or_default();
            let step = || update.as_mut().is_some_and(|update| update.step(ledger.txn, network.byte).unwrap_or(false));
            if !run(&is_over, step) {
                return false;
            }
        }
    }
    let mut expiry = ledger.expiry().ok();
    let mut pruning = Pruning::due(block.height, block.timestamp, &network.chain);
    if !run(&is_over, || expiry.as_mut().is_some_and(|expiry| expiry.step(&mut ledger).unwrap_or(false)))
        || !run(&is_over, || pruning.as_mut().is_some_and(|pruning| pruning.step(ledger.txn).unwrap_or(false)))
        || !run(&is_over, || ledger.flush_step().unwrap_or(false))
    {
        return false;
    }
    let count = hashes.iter().map(|hashes| 1 + hashes.children.len()).sum();
    let final_height = lowest_undoable(&overlay, block.height.minus(1)).unwrap_or_default();
    let mut compaction = HashCompaction::new(&overlay, final_height, count).ok();
    let step = || compaction.as_mut().is_some_and(|compaction| compaction.step(&mut overlay).unwrap_or(false));
    if !run(&is_over, step) {
        return false;
    }
    let old = block.height.minus(network.chain.rewrite_limit);
    let _ = overlay.delete_unjournaled(Table::Undo, &block_key(old));
    let _ = pack_blocks(&mut overlay, old);
    for table in [Table::Blocks, Table::Undo] {
        let _ = overlay.put_unjournaled(table, &block_key(block.height), &[]);
    }
    for (table, key) in changes.keys() {
        if is_over() {
            return false;
        }
        snapshot.read_for_write(table, key);
    }
    true
}
