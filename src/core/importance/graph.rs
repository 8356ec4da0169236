//! The graph of the accounts: the outlink matrix, clusters, and the proximity of accounts to the clusters.
//!
//! Nodes are accounts by their index in the final order.

use std::mem;

use super::loops::{CountingSort, Csr, GroupAccess, Loop, Stage};

/// Minimum number of similar neighbours of a core node, itself included.
const MIN_CORE_NEIGHBOURS: u32 = 4;
/// Cost in units of one lookup in the disjoint sets.
const FIND_COST: u32 = 4;

/// A sparse matrix: per row its entries as column and value, columns ascending.
pub type SparseMatrix = Csr<(u32, f64)>;

/// Continues `product = matrix · vector`; returns true when finished. The order of the additions affects the result.
pub fn multiply(matrix: &SparseMatrix, vector: &[f64], product: &mut [f64], work: &mut Loop) -> bool {
    work.for_each_part(matrix, |part| {
        let begun = if part.begins { 0.0 } else { product[part.group] };
        let add = |sum, (column, value): &(u32, f64)| sum + value * vector[*column as usize];
        product[part.group] = part.items.iter().fold(begun, add);
    })
}

/// Role of a node in the clustering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterRole {
    /// Member of a cluster.
    Member,
    /// Not in a cluster, with neighbours in several clusters.
    Hub,
    /// Not in a cluster, with neighbours in at most one cluster.
    Outlier,
}

/// The graph, built by [`Graph::step`].
#[derive(Debug, Default)]
pub struct Graph {
    /// The outlink matrix: row = recipient, column = sender. Every column with entries sums to 1.
    pub rows: SparseMatrix,
    /// The columns of the outlink matrix without entries, ascending.
    pub dangling: Vec<u32>,
    /// Per node its block. Each cluster is a block, and each hub and outlier is a block of its own. Blocks are numbered
    /// by their first nodes.
    pub block: Vec<u32>,
    /// Per block its number of nodes.
    pub sizes: Vec<u32>,
    /// Per node its role.
    pub roles: Vec<ClusterRole>,
    /// The inter-level proximity matrix R: row = block, column = node. (The matrix A of the NEM paper only spreads the
    /// value of a block over its nodes.)
    pub proximity: SparseMatrix,
    nodes: usize,
    /// Two neighbours are similar if their similarity exceeds this.
    threshold: f64,
    /// Number of the present stage.
    stage: usize,
    sort: CountingSort<(u32, f64)>,
    /// Per node the eligible recipients and the flows to them.
    outflows: Csr<(u32, f64)>,
    /// Sums of the columns.
    sums: Vec<f64>,
    column_sort: CountingSort<u32>,
    /// Per node its recipients, ascending.
    columns: Csr<u32>,
    /// Per node its neighbours in ascending order, itself included.
    neighbours: Csr<u32>,
    merge: Merge,
    comparison: Comparison,
    /// Per node, or per block, one plus the last node that marked it.
    marks: Vec<u32>,
    /// Every pair of distinct similar neighbours, once.
    pairs: Vec<(u32, u32)>,
    /// Per node the number of nodes it is similar to.
    counts: Vec<u32>,
    forest: Forest,
    is_member: Vec<bool>,
    /// Per root of the forest its block plus one; 0 if none is assigned yet.
    block_of_root: Vec<u32>,
    /// First cluster found among the neighbours of the current node, and whether there is another.
    neighbour_cluster: Option<u32>,
    in_several_clusters: bool,
    /// Per node the blocks that it reaches, its own included.
    reached: Csr<u32>,
}

/// Senders and recipients of a node merged so far, and whether the node itself has been merged.
#[derive(Clone, Copy, Debug, Default)]
struct Merge {
    senders: usize,
    recipients: usize,
    itself: bool,
}

/// Position in the comparison of a node with its neighbours.
#[derive(Clone, Copy, Debug, Default)]
enum Comparison {
    /// Marks the neighbours of the next node.
    #[default]
    Mark,
    /// The node's neighbour at this position is next.
    Choose { node: usize, at: usize },
    /// Counts the neighbours of that neighbour; `passed` of them are done.
    Count { node: usize, at: usize, passed: usize, common: usize },
}

impl Graph {
    const STAGES: [Stage<Graph>; 12] = [
        Graph::sort_rows,
        Graph::sum_columns,
        Graph::find_dangling,
        Graph::divide_by_sums,
        Graph::sort_columns,
        Graph::merge_neighbours,
        Graph::compare_neighbours,
        Graph::join_similar,
        Graph::assign_blocks,
        Graph::assign_roles,
        Graph::reach_blocks,
        Graph::sort_proximity,
    ];

    /// Prepares the graph with these flows. Neighbours are similar if their similarity exceeds `threshold`.
    pub fn new(outflows: Csr<(u32, f64)>, threshold: f64) -> Graph {
        Graph { nodes: outflows.groups(), outflows, threshold, ..Graph::default() }
    }

    /// Continues within the budget; returns true when finished.
    pub fn step(&mut self, work: &mut Loop) -> bool {
        if Graph::STAGES[self.stage](self, work) {
            self.stage += 1;
            work.restart();
        }
        self.stage == Graph::STAGES.len()
    }

    fn sort_rows(&mut self, work: &mut Loop) -> bool {
        let entry = |column, entry: &(u32, f64)| Some((entry.0 as usize, (column as u32, entry.1)));
        let Some(rows) = self.sort.step(self.nodes, &self.outflows, entry, work) else { return false };
        (self.rows, self.outflows, self.sums) = (rows, Csr::default(), vec![0.0; self.nodes]);
        true
    }

    fn sum_columns(&mut self, work: &mut Loop) -> bool {
        for (column, value) in &self.rows.items[work.advance(self.rows.items.len())] {
            self.sums[*column as usize] += value.abs();
        }
        work.at == self.rows.items.len()
    }

    fn find_dangling(&mut self, work: &mut Loop) -> bool {
        let columns = work.advance(self.nodes).filter(|column| self.sums[*column] == 0.0);
        self.dangling.extend(columns.map(|column| column as u32));
        work.at == self.nodes
    }

    fn divide_by_sums(&mut self, work: &mut Loop) -> bool {
        let end = self.rows.items.len();
        for (column, value) in &mut self.rows.items[work.advance(end)] {
            *value /= self.sums[*column as usize];
        }
        if work.at == end {
            self.sums = Vec::new();
        }
        work.at == end
    }

    fn sort_columns(&mut self, work: &mut Loop) -> bool {
        let entry = |row: usize, entry: &(u32, f64)| Some((entry.0 as usize, row as u32));
        let Some(columns) = self.column_sort.step(self.nodes, &self.rows, entry, work) else { return false };
        self.neighbours = Csr::with_capacity(self.nodes, self.nodes + 2 * columns.items.len());
        self.columns = columns;
        true
    }

    /// Finds the neighbours of every node. The direction of a flow does not matter.
    fn merge_neighbours(&mut self, work: &mut Loop) -> bool {
        /// More than any node.
        const NONE: u32 = u32::MAX;
        while work.at < self.nodes {
            let (senders, recipients) = (self.rows.group(work.at), self.columns.group(work.at));
            let merge = &mut self.merge;
            loop {
                if !work.charge(1) {
                    return false;
                }
                let sender = senders.get(merge.senders).map_or(NONE, |entry| entry.0);
                let recipient = recipients.get(merge.recipients).copied().unwrap_or(NONE);
                let own = if merge.itself { NONE } else { work.at as u32 };
                let next = sender.min(recipient).min(own);
                if next == NONE {
                    break;
                }
                self.neighbours.items.push(next);
                merge.senders += usize::from(sender == next);
                merge.recipients += usize::from(recipient == next);
                merge.itself |= own == next;
            }
            self.neighbours.close_group();
            (self.merge, work.at) = (Merge::default(), work.at + 1);
        }
        self.pairs = Vec::with_capacity(self.neighbours.items.len() / 2);
        (self.marks, self.counts) = (vec![0; self.nodes], vec![0; self.nodes]);
        true
    }

    /// Compares neighbours. Each pair is processed from the node with more neighbours: its neighbours are marked, and
    /// then the marked neighbours of the other node are counted. So the neighbours of a hub are not iterated once per
    /// neighbour.
    fn compare_neighbours(&mut self, work: &mut Loop) -> bool {
        loop {
            self.comparison = match self.comparison {
                Comparison::Mark => {
                    let Some(run) = work.next_slice(&self.neighbours) else { break };
                    for neighbour in run.items {
                        self.marks[*neighbour as usize] = run.group as u32 + 1;
                    }
                    if run.ends { Comparison::Choose { node: run.group, at: 0 } } else { Comparison::Mark }
                }
                Comparison::Choose { node, at } => {
                    let (own, from) = (self.neighbours.group(node), at);
                    let affordable = work.charge_up_to(own.len() + 1 - from);
                    let others = own[from..].iter().take(affordable).map(|other| *other as usize);
                    // At most all neighbours of the smaller set can be common.
                    let chosen = others.clone().position(|other| {
                        let smaller = self.neighbours.group(other).len();
                        (smaller, other) < (own.len(), node) && self.are_similar(smaller, node, other)
                    });
                    match chosen {
                        Some(passed) => {
                            work.refund(affordable - passed - 1);
                            Comparison::Count { node, at: from + passed, passed: 0, common: 0 }
                        }
                        None if from + affordable == own.len() + 1 => Comparison::Mark,
                        None => {
                            self.comparison = Comparison::Choose { node, at: from + affordable };
                            return false;
                        }
                    }
                }
                Comparison::Count { node, at, passed, common } => {
                    let other = self.neighbours.group(node)[at] as usize;
                    let all = self.neighbours.group(other);
                    let more = work.charge_up_to(all.len() - passed);
                    let marked = all[passed..passed + more].iter();
                    let common = common + marked.filter(|one| self.marks[**one as usize] == node as u32 + 1).count();
                    if passed + more < all.len() {
                        self.comparison = Comparison::Count { node, at, passed: passed + more, common };
                        return false;
                    }
                    if self.are_similar(common, node, other) {
                        self.pairs.push((node as u32, other as u32));
                        self.counts[node] += 1;
                        self.counts[other] += 1;
                    }
                    Comparison::Choose { node, at: at + 1 }
                }
            };
        }
        if !work.has_passed(&self.neighbours) {
            return false;
        }
        self.forest = Forest { above: vec![0; self.nodes], size: vec![0; self.nodes] };
        (self.is_member, self.block_of_root) = (vec![false; self.nodes], vec![0; self.nodes]);
        true
    }

    fn are_similar(&self, common: usize, node: usize, other: usize) -> bool {
        let sizes = [node, other].map(|node| self.neighbours.group(node).len());
        similarity(common, sizes) > self.threshold
    }

    /// Builds the clusters: joins every core with its similar neighbours.
    fn join_similar(&mut self, work: &mut Loop) -> bool {
        let is_core = |node: u32| self.counts[node as usize] + 1 >= MIN_CORE_NEIGHBOURS;
        while let Some((one, other)) = self.pairs.get(work.at).copied() {
            if !work.charge(FIND_COST) {
                return false;
            }
            work.at += 1;
            if is_core(one) || is_core(other) {
                self.forest.join(one as usize, other as usize);
                self.is_member[one as usize] = true;
                self.is_member[other as usize] = true;
            }
        }
        (self.pairs, self.counts) = (Vec::new(), Vec::new());
        true
    }

    /// Assigns every node to the block of its tree. A node that is no member is a tree of its own.
    fn assign_blocks(&mut self, work: &mut Loop) -> bool {
        while self.block.len() < self.nodes {
            if !work.charge(FIND_COST) {
                return false;
            }
            let root = self.forest.root(self.block.len());
            if self.block_of_root[root] == 0 {
                self.sizes.push(0);
                self.block_of_root[root] = self.sizes.len() as u32;
            }
            let block = self.block_of_root[root] - 1;
            self.sizes[block as usize] += 1;
            self.block.push(block);
        }
        (self.forest, self.block_of_root) = (Forest::default(), Vec::new());
        true
    }

    fn assign_roles(&mut self, work: &mut Loop) -> bool {
        let has_passed = work.for_each_part(&self.neighbours, |run| {
            if run.begins {
                (self.neighbour_cluster, self.in_several_clusters) = (None, false);
            }
            for neighbour in run.items.iter().map(|neighbour| *neighbour as usize) {
                if self.is_member[neighbour] {
                    let block = self.block[neighbour];
                    self.in_several_clusters |= *self.neighbour_cluster.get_or_insert(block) != block;
                }
            }
            if run.ends {
                self.roles.push(match (self.is_member[run.group], self.in_several_clusters) {
                    (true, _) => ClusterRole::Member,
                    (false, true) => ClusterRole::Hub,
                    (false, false) => ClusterRole::Outlier,
                });
            }
        });
        if !has_passed {
            return false;
        }
        (self.neighbours, self.is_member) = (Csr::default(), Vec::new());
        self.marks = vec![0; self.sizes.len()];
        self.reached = Csr::with_capacity(self.nodes, self.nodes + self.columns.items.len());
        true
    }

    /// Finds the blocks to which the outlinks of every node lead.
    fn reach_blocks(&mut self, work: &mut Loop) -> bool {
        work.for_each_part(&self.columns, |part| {
            let own = part.begins.then_some(part.group);
            for node in own.into_iter().chain(part.items.iter().map(|recipient| *recipient as usize)) {
                let block = self.block[node];
                if std::mem::replace(&mut self.marks[block as usize], part.group as u32 + 1) != part.group as u32 + 1 {
                    self.reached.items.push(block);
                }
            }
            if part.ends {
                self.reached.close_group();
            }
        })
    }

    fn sort_proximity(&mut self, work: &mut Loop) -> bool {
        let (reached, sizes) = (&self.reached, &self.sizes);
        let entry = |node: usize, block: &u32| {
            // NIS1 multiplies in 32 bits.
            let product = (sizes[*block as usize] as i32).wrapping_mul(reached.group(node).len() as i32);
            Some((*block as usize, (node as u32, 1.0 / f64::from(product))))
        };
        let Some(proximity) = self.sort.step(sizes.len(), reached, entry, work) else { return false };
        self.proximity = proximity;
        (self.columns, self.reached, self.marks) = (Csr::default(), Csr::default(), Vec::new());
        true
    }
}

/// Returns the similarity of two nodes with neighbour sets of these sizes and `common` common neighbours.
fn similarity(common: usize, sizes: [usize; 2]) -> f64 {
    // NIS1 multiplies in 32 bits.
    let product = (sizes[0] as i32).wrapping_mul(sizes[1] as i32);
    common as f64 / f64::from(product).sqrt()
}

/// Disjoint sets of nodes (union-find).
#[derive(Debug, Default)]
struct Forest {
    /// Per node its parent plus one; 0 for a root.
    above: Vec<u32>,
    /// Per root the number of nodes below it.
    size: Vec<u32>,
}

impl Forest {
    fn above(&self, node: usize) -> Option<usize> {
        self.above[node].checked_sub(1).map(|above| above as usize)
    }

    fn root(&mut self, mut node: usize) -> usize {
        while let Some(above) = self.above(node) {
            // Path halving: shortens later lookups.
            if let Some(higher) = self.above(above) {
                self.above[node] = higher as u32 + 1;
            }
            node = above;
        }
        node
    }

    fn join(&mut self, one: usize, other: usize) {
        let (mut lower, mut upper) = (self.root(one), self.root(other));
        if lower == upper {
            return;
        }
        if self.size[lower] >= self.size[upper] {
            mem::swap(&mut lower, &mut upper);
        }
        self.above[lower] = upper as u32 + 1;
        self.size[upper] += self.size[lower] + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THRESHOLD: f64 = 0.3;

    #[test]
    fn a_similarity_of_exactly_the_threshold_is_not_enough() {
        assert!(similarity(3, [10, 10]) <= THRESHOLD);
        assert!(similarity(4, [10, 10]) > THRESHOLD);
    }

    #[test]
    fn sizes_whose_product_overflows_to_below_zero_are_not_similar() {
        let similarity = similarity(50_000, [50_000, 50_000]);
        assert!(similarity.is_nan(), "which exceeds no threshold");
    }
}
