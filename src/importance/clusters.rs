//! Clusters, hubs and outliers.

use super::budget::WorkBudget;
use super::csr::Cursor;
use super::neighbours::{Neighbours, Similar};

/// Minimum number of similar neighbours of a core node, itself included.
const MIN_CORE_NEIGHBOURS: u32 = 4;

/// Cost in units of one lookup in the disjoint sets.
const FIND_COST: u32 = 4;

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

/// A partition of the nodes into blocks: each cluster is a block, and each hub and outlier is a block of its own.
#[derive(Clone, Debug, Default)]
pub struct Clusters {
    /// Per node its block. Blocks are numbered by their first nodes.
    pub block: Vec<u32>,
    /// Per block its number of nodes.
    pub sizes: Vec<u32>,
    /// Per node its role.
    pub roles: Vec<ClusterRole>,
}

/// Builds the clusters incrementally by joining every core with its similar neighbours.
#[derive(Debug)]
pub struct Clustering {
    similar: Similar,
    joined: usize,
    forest: Forest,
    is_member: Vec<bool>,
    /// Per root of the forest its block plus one; 0 if none is assigned yet.
    block_of_root: Vec<u32>,
    cursor: Cursor,
    /// First cluster found among the neighbours of the current node, and whether there is another.
    neighbour_cluster: Option<u32>,
    in_several_clusters: bool,
    made: Clusters,
}

impl Clustering {
    /// Prepares to cluster the nodes of `similar`.
    pub fn new(similar: Similar) -> Clustering {
        let nodes = similar.counts.len();
        Clustering {
            similar,
            joined: 0,
            forest: Forest { above: vec![0; nodes], size: vec![0; nodes] },
            is_member: vec![false; nodes],
            block_of_root: vec![0; nodes],
            cursor: Cursor::default(),
            neighbour_cluster: None,
            in_several_clusters: false,
            made: Clusters::default(),
        }
    }

    /// Continues within the budget; returns true when finished.
    pub fn step(&mut self, neighbours: &Neighbours, budget: &mut WorkBudget) -> bool {
        while let Some(pair) = self.similar.pairs.get(self.joined) {
            if !budget.charge(FIND_COST) {
                return false;
            }
            self.joined += 1;
            self.join(*pair);
        }
        while self.made.block.len() < self.is_member.len() {
            if !budget.charge(FIND_COST) {
                return false;
            }
            self.put_into_block(self.made.block.len());
        }
        while let Some(run) = self.cursor.next_slice(neighbours, budget) {
            if run.begins {
                (self.neighbour_cluster, self.in_several_clusters) = (None, false);
            }
            for neighbour in run.items {
                if self.is_member[*neighbour as usize] {
                    let block = self.made.block[*neighbour as usize];
                    self.in_several_clusters |= *self.neighbour_cluster.get_or_insert(block) != block;
                }
            }
            if run.ends {
                self.made.roles.push(match (self.is_member[run.group], self.in_several_clusters) {
                    (true, _) => ClusterRole::Member,
                    (false, true) => ClusterRole::Hub,
                    (false, false) => ClusterRole::Outlier,
                });
            }
        }
        self.cursor.at_end(neighbours)
    }

    /// Joins two similar nodes if one of them is a core.
    fn join(&mut self, (one, other): (u32, u32)) {
        let is_core = |node: u32| self.similar.counts[node as usize] + 1 >= MIN_CORE_NEIGHBOURS;
        if is_core(one) || is_core(other) {
            self.forest.join(one as usize, other as usize);
            self.is_member[one as usize] = true;
            self.is_member[other as usize] = true;
        }
    }

    /// Assigns a node to the block of its tree. A node that is no member is a tree of its own.
    fn put_into_block(&mut self, node: usize) {
        let root = self.forest.root(node);
        let block = self.block_of_root[root].checked_sub(1).unwrap_or_else(|| {
            self.made.sizes.push(0);
            self.block_of_root[root] = self.made.sizes.len() as u32;
            self.made.sizes.len() as u32 - 1
        });
        self.made.sizes[block as usize] += 1;
        self.made.block.push(block);
    }

    /// Returns the clusters. Valid once a step has returned true.
    pub fn finish(self) -> Clusters {
        self.made
    }
}

/// Disjoint sets of nodes (union-find).
#[derive(Debug)]
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
        let (one, other) = (self.root(one), self.root(other));
        if one == other {
            return;
        }
        let (lower, upper) = if self.size[one] < self.size[other] { (one, other) } else { (other, one) };
        self.above[lower] = upper as u32 + 1;
        self.size[upper] += self.size[lower] + 1;
    }
}
