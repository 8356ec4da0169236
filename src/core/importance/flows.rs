//! Net flows between accounts, and the outlink scores that follow from them.

use super::input::Outlinks;
use super::java_hash_map::{JavaHashMapOrder, Visit};
use super::loops::{Csr, GroupAccess, Loop};

/// Factor applied to negative scores.
const NEGATIVE_WEIGHT: f64 = 0.6;

/// Scores and flows by account index, computed account by account.
#[derive(Debug, Default)]
pub struct Flows {
    /// Outlink score of every account.
    pub scores: Vec<f64>,
    /// Per account the eligible recipients of at least the minimum net flow, in hash-table order, and the flow.
    pub outflows: Csr<(u32, f64)>,
    minimum: f64,
    stage: FlowStage,
    /// Links passed of those that the present account has received.
    received: usize,
    table: FlowTable,
}

#[derive(Debug, Default)]
enum FlowStage {
    #[default]
    Sent,
    Received,
    Sum,
}

/// Net flows of one account by counterparty.
#[derive(Debug, Default)]
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

impl Flows {
    /// Prepares to process `outlinks` among `parties` participants. `minimum` is the smallest flow to keep, in
    /// micro-units.
    pub fn new(outlinks: &Outlinks, parties: usize, minimum: f64) -> Flows {
        let accounts = outlinks.sent.groups();
        let entries = Vec::with_capacity(parties);
        let table = FlowTable { entries, order: JavaHashMapOrder::new(parties), entry_of: vec![0; parties] };
        let outflows = Csr::with_capacity(accounts, outlinks.received.items.len());
        Flows { scores: Vec::with_capacity(accounts), outflows, minimum, table, ..Flows::default() }
    }

    /// Stage: computes the flows. `hashes` are those of the addresses of all participants.
    pub fn step(&mut self, outlinks: &Outlinks, hashes: &[u32], work: &mut Loop) -> bool {
        loop {
            match self.stage {
                FlowStage::Sent => {
                    let Some(run) = work.next_slice(&outlinks.sent) else {
                        let is_done = work.has_passed(&outlinks.sent);
                        if is_done {
                            self.table = FlowTable::default();
                        }
                        return is_done;
                    };
                    for (party, weight) in run.items {
                        self.table.add(*party, *weight, hashes);
                    }
                    if run.ends {
                        self.stage = FlowStage::Received;
                    }
                }
                FlowStage::Received => {
                    // The scores of the accounts before are complete.
                    let unread = &outlinks.received.group(self.scores.len())[self.received..];
                    let next = work.charge_up_to(unread.len());
                    for (party, weight) in &unread[..next] {
                        self.table.add(*party, -*weight, hashes);
                    }
                    self.received += next;
                    if next < unread.len() {
                        return false;
                    }
                    (self.received, self.stage) = (0, FlowStage::Sum);
                }
                FlowStage::Sum => {
                    if !self.sum(outlinks.sent.groups(), work) {
                        return false;
                    }
                    self.stage = FlowStage::Sent;
                }
            }
        }
    }

    /// Sums the table of one account and empties it; returns true when finished.
    fn sum(&mut self, accounts: usize, work: &mut Loop) -> bool {
        while work.charge(1) {
            match self.table.order.visit() {
                Visit::Pending => {}
                Visit::Key(entry) => {
                    let (party, flow) = self.table.entries[entry];
                    work.sum += flow;
                    self.table.entry_of[party as usize] = 0;
                    if (party as usize) < accounts && flow >= self.minimum {
                        self.outflows.items.push((party, flow));
                    }
                }
                Visit::End => {
                    let score = std::mem::take(&mut work.sum);
                    self.scores.push(if score < 0.0 { score * NEGATIVE_WEIGHT } else { score });
                    self.outflows.close_group();
                    self.table.entries.clear();
                    return true;
                }
            }
        }
        false
    }
}
