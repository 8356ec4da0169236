//! Net flows between accounts, and the outlink scores that follow from them.

use super::budget::WorkBudget;
use super::csr::{Csr, Cursor, GroupAccess};
use super::java_hash_map::{JavaHashMapOrder, Visit};
use super::outlinks::Outlinks;

/// Factor applied to negative scores.
const NEGATIVE_WEIGHT: f64 = 0.6;

/// Scores and flows by account index.
#[derive(Debug, Default)]
pub struct Flows {
    /// Outlink score of every account.
    pub scores: Vec<f64>,
    /// Per account the eligible recipients of at least the minimum net flow, in hash-table order, and the flow.
    pub outflows: Csr<(u32, f64)>,
}

/// Computes the flows incrementally, account by account.
#[derive(Debug)]
pub struct FlowTables {
    minimum: f64,
    stage: Stage,
    sent: Cursor,
    received: Cursor,
    table: FlowTable,
    score: f64,
    made: Flows,
}

#[derive(Debug)]
enum Stage {
    Sent,
    Received,
    Sum,
}

/// Net flows of one account by counterparty.
#[derive(Debug)]
struct FlowTable {
    /// Counterparties and flows in order of insertion.
    entries: Vec<(u32, f64)>,
    order: JavaHashMapOrder,
    /// Per participant its entry plus one; 0 if it has none.
    entry_of: Vec<u32>,
}

impl FlowTable {
    fn add(&mut self, party: u32, flow: f64, hashes: &[u32]) {
        let party_index = party as usize;
        let entry = match self.entry_of[party_index].checked_sub(1) {
            Some(entry) => entry as usize,
            None => {
                self.entries.push((party, 0.0));
                self.order.insert(hashes[party_index]);
                self.entry_of[party_index] = self.entries.len() as u32;
                self.entries.len() - 1
            }
        };
        self.entries[entry].1 += flow;
    }
}

impl FlowTables {
    /// Prepares to process `outlinks`. `minimum` is the smallest flow to keep, in micro-units.
    pub fn new(outlinks: &Outlinks, minimum: f64) -> FlowTables {
        let (accounts, parties) = (outlinks.sent.groups(), outlinks.hashes.len());
        let entries = Vec::with_capacity(parties);
        let table = FlowTable { entries, order: JavaHashMapOrder::new(parties), entry_of: vec![0; parties] };
        let outflows = Csr::with_capacity(accounts, outlinks.received.total());
        let made = Flows { scores: Vec::with_capacity(accounts), outflows };
        let (sent, received) = (Cursor::default(), Cursor::default());
        FlowTables { minimum, stage: Stage::Sent, sent, received, table, score: 0.0, made }
    }

    /// Continues within the budget; returns true when finished.
    pub fn step(&mut self, outlinks: &Outlinks, budget: &mut WorkBudget) -> bool {
        loop {
            match self.stage {
                Stage::Sent => {
                    let Some(run) = self.sent.next_slice(&outlinks.sent, budget) else {
                        return self.sent.at_end(&outlinks.sent);
                    };
                    for (party, weight) in run.items {
                        self.table.add(*party, *weight, &outlinks.hashes);
                    }
                    if run.ends {
                        self.stage = Stage::Received;
                    }
                }
                Stage::Received => {
                    let Some(run) = self.received.next_slice(&outlinks.received, budget) else { return false };
                    for (party, weight) in run.items {
                        self.table.add(*party, -*weight, &outlinks.hashes);
                    }
                    if run.ends {
                        self.stage = Stage::Sum;
                    }
                }
                Stage::Sum => {
                    if !self.sum(outlinks.sent.groups(), budget) {
                        return false;
                    }
                    self.stage = Stage::Sent;
                }
            }
        }
    }

    /// Sums the table of one account and empties it; returns true when finished.
    fn sum(&mut self, accounts: usize, budget: &mut WorkBudget) -> bool {
        while budget.charge(1) {
            match self.table.order.visit() {
                Visit::Pending => {}
                Visit::Key(entry) => {
                    let (party, flow) = self.table.entries[entry];
                    self.score += flow;
                    self.table.entry_of[party as usize] = 0;
                    if (party as usize) < accounts && flow >= self.minimum {
                        self.made.outflows.push((party, flow));
                    }
                }
                Visit::End => {
                    let score = std::mem::take(&mut self.score);
                    self.made.scores.push(if score < 0.0 { score * NEGATIVE_WEIGHT } else { score });
                    self.made.outflows.close_group();
                    self.table.entries.clear();
                    return true;
                }
            }
        }
        false
    }

    /// Returns the flows. Valid once a step has returned true.
    pub fn finish(self) -> Flows {
        self.made
    }
}
