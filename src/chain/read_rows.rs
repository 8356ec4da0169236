//! Reads the rows that the execution of a block will read, so that they are in memory then.

use super::apply;
use super::block_execution::validation_context;
use crate::model::transaction::Hashes;
use crate::model::{Block, Network, Timestamp, Transaction};
use crate::rules;
use crate::state::{BlockContext, Ledger};
use crate::store::{Changes, Overlay, Snapshot, Write, tip};

/// Executes a block on a snapshot of the chain before it, or long before it, and throws the result away. What fails, as blocks
/// in between are missing, does not matter. Returns whether it was done before the time `is_over`.
pub fn read_rows_of(block: &Block, snapshot: &Snapshot<'_>, network: &Network, is_over: impl Fn() -> bool) -> bool {
    let mut changes = Changes::default();
    let mut overlay = Overlay::new(snapshot, &mut changes);
    let mut context = BlockContext::new(block.height, block.timestamp);
    let mut ledger = Ledger { txn: &mut overlay, block: &mut context, network };
    for transaction in &block.transactions {
        execute(&mut ledger, transaction, block.timestamp);
        if is_over() {
            return false;
        }
    }
    let hashes: Vec<Hashes> = block.transactions.iter().map(Transaction::hashes).collect();
    let _ = rules::check_block(block, &hashes, &validation_context(&ledger, network, block.timestamp));
    let parent = tip(snapshot).ok().flatten();
    if let Ok(applied) = apply::credit_block(&mut ledger, block, parent.as_ref()) {
        for number in 0..block.transactions.len() {
            let _ = apply::index_transaction(&mut ledger, block, &hashes, &applied, number);
            if is_over() {
                return false;
            }
        }
    }
    while ledger.flush_step().unwrap_or(false) {
        if is_over() {
            return false;
        }
    }
    true
}

fn execute(ledger: &mut Ledger<'_, impl Write>, transaction: &Transaction, now: Timestamp) {
    for account in rules::participants(transaction, ledger.network.byte) {
        let _ = ledger.account(&account);
    }
    let context = validation_context(ledger, ledger.network, now);
    if let Ok(effects) = rules::check_transaction(transaction, &context) {
        let _ = apply::apply_transaction(ledger, transaction, &effects);
    }
}
