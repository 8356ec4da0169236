//! Neighbours in the outlink graph, and their similarity.

use super::budget::WorkBudget;
use super::csr::{Csr, Cursor, GroupAccess};
use super::matrix::SparseMatrix;

/// Per node its neighbours in ascending order, itself included.
pub type Neighbours = Csr<u32>;

/// Builds the neighbour sets incrementally. The direction of a flow does not matter.
#[derive(Debug)]
pub struct NeighbourSets {
    node: usize,
    /// Senders and recipients of the current node merged so far, and whether the node itself has been merged.
    senders: usize,
    recipients: usize,
    itself: bool,
    made: Neighbours,
}

impl NeighbourSets {
    /// Prepares the sets of a graph; `columns` are the recipients of every node.
    pub fn new(columns: &Csr<u32>) -> NeighbourSets {
        let nodes = columns.groups();
        let made = Csr::with_capacity(nodes, nodes + 2 * columns.total());
        NeighbourSets { node: 0, senders: 0, recipients: 0, itself: false, made }
    }

    /// Continues within the budget, from the senders and recipients of every node; returns true when finished.
    pub fn step(&mut self, rows: &SparseMatrix, columns: &Csr<u32>, budget: &mut WorkBudget) -> bool {
        while self.node < rows.groups() {
            if !budget.charge(1) {
                return false;
            }
            let sender = rows.group(self.node).get(self.senders).map(|entry| entry.0);
            let recipient = columns.group(self.node).get(self.recipients).copied();
            let itself = (!self.itself).then_some(self.node as u32);
            match [sender, recipient, itself].into_iter().flatten().min() {
                None => {
                    self.made.close_group();
                    (self.node, self.senders, self.recipients, self.itself) = (self.node + 1, 0, 0, false);
                }
                next => {
                    self.made.push(next.unwrap_or_default());
                    self.senders += usize::from(sender == next);
                    self.recipients += usize::from(recipient == next);
                    self.itself |= itself == next;
                }
            }
        }
        true
    }

    /// Returns the sets. Valid once a step has returned true.
    pub fn finish(self) -> Neighbours {
        self.made
    }
}

/// Returns whether two nodes with neighbour sets of these sizes and `common` common neighbours are similar.
fn are_similar(common: usize, sizes: (usize, usize), threshold: f64) -> bool {
    // NIS1 multiplies in 32 bits.
    let product = (sizes.0 as i32).wrapping_mul(sizes.1 as i32);
    common as f64 / f64::from(product).sqrt() > threshold
}

/// Similar neighbours.
#[derive(Debug, Default)]
pub struct Similar {
    /// Every pair of distinct similar neighbours, once.
    pub pairs: Vec<(u32, u32)>,
    /// Per node the number of nodes it is similar to.
    pub counts: Vec<u32>,
}

/// Computes the similarities incrementally.
///
/// Each pair is processed from the node with more neighbours: its neighbours are marked, and then the marked neighbours
/// of the other node are counted. So the neighbours of a hub are not iterated once per neighbour.
#[derive(Debug)]
pub struct Similarities {
    threshold: f64,
    stage: Stage,
    marking: Cursor,
    node: usize,
    /// Per node, one plus the last node that marked it as a neighbour.
    marks: Vec<u32>,
    made: Similar,
}

#[derive(Debug)]
enum Stage {
    /// Marks the neighbours of the node.
    Mark,
    /// The node's neighbour at this position is next.
    Choose { at: usize },
    /// Counts the neighbours of that neighbour; `passed` of them are done.
    Count { at: usize, passed: usize, common: usize },
}

impl Similarities {
    /// Prepares to compare these neighbours. Two are similar if their similarity exceeds `threshold`.
    pub fn new(neighbours: &Neighbours, threshold: f64) -> Similarities {
        let nodes = neighbours.groups();
        let made = Similar { pairs: Vec::with_capacity(neighbours.total() / 2), counts: vec![0; nodes] };
        let (marking, marks) = (Cursor::default(), vec![0; nodes]);
        Similarities { threshold, stage: Stage::Mark, marking, node: 0, marks, made }
    }

    /// Continues within the budget; returns true when finished.
    pub fn step(&mut self, neighbours: &Neighbours, budget: &mut WorkBudget) -> bool {
        loop {
            match self.stage {
                Stage::Mark => {
                    let Some(run) = self.marking.next_slice(neighbours, budget) else {
                        return self.marking.at_end(neighbours);
                    };
                    self.node = run.group;
                    for neighbour in run.items {
                        self.marks[*neighbour as usize] = self.node as u32 + 1;
                    }
                    if run.ends {
                        self.stage = Stage::Choose { at: 0 };
                    }
                }
                Stage::Choose { at } => {
                    if !budget.charge(1) {
                        return false;
                    }
                    self.stage = self.choose(neighbours, at);
                }
                Stage::Count { at, mut passed, common } => {
                    let other = neighbours.group(self.node)[at] as usize;
                    let all = neighbours.group(other);
                    let counted = all[budget.advance(&mut passed, all.len())].iter();
                    let mark = self.node as u32 + 1;
                    let common = common + counted.filter(|node| self.marks[**node as usize] == mark).count();
                    if passed < all.len() {
                        self.stage = Stage::Count { at, passed, common };
                        return false;
                    }
                    self.decide(neighbours, other, common);
                    self.stage = Stage::Choose { at: at + 1 };
                }
            }
        }
    }

    /// Decides whether the neighbour at a position needs a comparison.
    fn choose(&self, neighbours: &Neighbours, at: usize) -> Stage {
        let own = neighbours.group(self.node);
        let Some(other) = own.get(at).map(|other| *other as usize) else { return Stage::Mark };
        let (own_size, size) = (own.len(), neighbours.group(other).len());
        // At most all neighbours of the smaller set can be common.
        if (size, other) < (own_size, self.node) && are_similar(size, (own_size, size), self.threshold) {
            Stage::Count { at, passed: 0, common: 0 }
        } else {
            Stage::Choose { at: at + 1 }
        }
    }

    fn decide(&mut self, neighbours: &Neighbours, other: usize, common: usize) {
        if are_similar(common, (neighbours.group(self.node).len(), neighbours.group(other).len()), self.threshold) {
            self.made.pairs.push((self.node as u32, other as u32));
            self.made.counts[self.node] += 1;
            self.made.counts[other] += 1;
        }
    }

    /// Returns the similar neighbours. Valid once a step has returned true.
    pub fn finish(self) -> Similar {
        self.made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_similarity_of_exactly_the_threshold_is_not_enough() {
        assert!(!are_similar(3, (10, 10), 0.3));
        assert!(are_similar(4, (10, 10), 0.3));
    }

    #[test]
    fn sizes_whose_product_overflows_to_below_zero_are_not_similar() {
        assert!(!are_similar(50_000, (50_000, 50_000), 0.3));
    }
}
