//! Statistics of a generated chain.

use std::collections::BTreeMap;

use nisd::model::{Block, Body, Timestamp, Transaction};
use serde_json::{Value, json};

use super::plan::Plan;

/// Most active accounts that the summary lists.
const TOP: usize = 20;

/// The chain at the end of one of its tenths, or at its beginning.
#[derive(Debug)]
pub struct Tenth {
    pub height: u64,
    pub time: Timestamp,
    /// Number of accounts that are eligible for importance.
    pub eligible: u64,
}

/// Counts so far.
#[derive(Debug, Default)]
pub struct Statistics {
    /// Transactions, not counting nested ones and those of the nemesis block.
    pub transactions: u64,
    /// All transactions by kind, including nested ones.
    pub kinds: BTreeMap<&'static str, u64>,
    /// Other counts of interest.
    pub other_counts: BTreeMap<&'static str, u64>,
    /// Numbers of blocks by their numbers of transactions, not counting nested ones.
    pub blocks: Vec<u64>,
    /// The chain at its beginning and after each tenth.
    pub tenths: Vec<Tenth>,
    /// Numbers of transactions of all accounts, the most active first.
    pub activities: Vec<u32>,
    /// Time of the last block.
    pub end: Timestamp,
}

impl Statistics {
    /// Counts the transactions of a block.
    pub fn add_block(&mut self, block: &Block) {
        let count = block.transactions.len();
        self.transactions += count as u64;
        self.blocks.resize(self.blocks.len().max(count + 1), 0);
        self.blocks[count] += 1;
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

    /// Returns how many transactions a block has that has more than some percentage of the others.
    fn percentiles(&self, plan: &Plan) -> BTreeMap<u64, usize> {
        let at = |percentage: u64| {
            let mut below = 0;
            let is_reached = |count: &u64| {
                below += count;
                below * 100 >= (plan.blocks - 1) * percentage
            };
            (percentage, self.blocks.iter().position(is_reached).unwrap_or(0))
        };
        [25, 50, 75, 90, 95, 99, 100].map(at).into()
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
            "blocksWithoutTransactions": self.blocks[0] as f64 / (plan.blocks - 1) as f64,
            "percentilesOfTransactionsPerBlock": self.percentiles(plan),
            "transactionsOfTopAccounts": self.activities[..TOP.min(self.activities.len())],
            "eligibleAtFirst": self.tenths.first().map(|first| first.eligible),
            "medianTransactionsOfAccounts": self.activities.get(self.activities.len() / 2),
            "tenths": self.tenths.windows(2).map(tenth).collect::<Vec<_>>(),
        })
    }
}

/// Returns the summary of a tenth, from its beginning and its end.
fn tenth(pair: &[Tenth]) -> Value {
    let [begin, end] = pair else { return Value::Null };
    let seconds = f64::from(end.time.0 - begin.time.0) / (end.height - begin.height) as f64;
    json!({"height": end.height, "timestamp": end.time.0, "secondsPerBlock": seconds, "eligible": end.eligible})
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
