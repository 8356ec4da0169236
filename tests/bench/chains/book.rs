//! Statistics of a generated chain.

use std::collections::BTreeMap;

use nisd::model::{Block, Body, Timestamp, Transaction};
use serde_json::{Value, json};

use super::plan::Plan;

/// Counts so far.
#[derive(Debug, Default)]
pub struct Statistics {
    /// Transactions, not counting nested ones and those of the nemesis block.
    pub transactions: u64,
    /// All transactions by kind, including nested ones.
    pub kinds: BTreeMap<&'static str, u64>,
    /// Other counts of interest.
    pub other_counts: BTreeMap<&'static str, u64>,
    /// Time of the last block.
    pub end: Timestamp,
}

impl Statistics {
    /// Counts the transactions of a block.
    pub fn add_block(&mut self, block: &Block) {
        self.transactions += block.transactions.len() as u64;
        for transaction in block.transactions.iter().flat_map(Transaction::self_and_children) {
            *self.kinds.entry(kind(transaction)).or_default() += 1;
            let has_message = matches!(&transaction.body, Body::Transfer(body) if body.message.is_some());
            self.count("messages", u64::from(has_message));
        }
    }

    /// Counts something else.
    pub fn count(&mut self, what: &'static str, more: u64) {
        *self.other_counts.entry(what).or_default() += more;
    }

    /// Returns the content of `summary.json`.
    pub fn summary(&self, plan: &Plan) -> Value {
        json!({
            "seed": plan.seed,
            "consensus": if plan.stake { "PROOF_OF_STAKE" } else { "PROOF_OF_IMPORTANCE" },
            "plain": plan.plain,
            "blocks": plan.blocks,
            "accounts": plan.accounts,
            "transactions": self.transactions,
            "transactionsPerBlock": plan.transactions,
            "transactionsOfNemesisBlock": plan.funded(),
            "kinds": self.kinds,
            "others": self.other_counts,
            "targetTime": plan.target_time(),
            "lastTimestamp": self.end.0,
        })
    }
}

fn kind(transaction: &Transaction) -> &'static str {
    match &transaction.body {
        Body::Transfer(body) if body.mosaics.is_empty() => "transfer",
        Body::Transfer(_) => "mosaicTransfer",
        Body::ImportanceTransfer(_) => "importanceTransfer",
        Body::AggregateModification(_) => "aggregateModification",
        Body::Cosignature(_) => "cosignature",
        Body::Multisig(_) => "multisig",
        Body::ProvisionNamespace(_) => "provisionNamespace",
        Body::MosaicDefinitionCreation(_) => "mosaicDefinitionCreation",
        Body::MosaicSupplyChange(_) => "mosaicSupplyChange",
    }
}
