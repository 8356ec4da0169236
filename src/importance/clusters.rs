//! Clusters, hubs and outliers.

use super::allowance::Allowance;
use super::grouped::Cursor;
use super::neighbours::{Neighbours, Similar};

/// Least number of similar neighbours of a core, itself included.
const MIN_CORE_NEIGHBOURS: u32 = 4;

/// Units that finding a cluster is worth.
const FIND_COST: u32 = 4;

/// What a node is among the clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterRole {
    /// It belongs to a cluster.
    Member,
    /// It belongs to none, but has neighbours in several.
    Hub,
    /// It belongs to none, and has neighbours in one at most.
    Outlier,
}

/// A partition of the nodes into blocks: clusters, and every hub and outlier for itself.
#[derive(Clone, Debug, Default)]
pub struct Clusters {
    /// Per node its block. Blocks are numbered by their first nodes.
    pub block: Vec<u32>,
    /// Per block its number of nodes.
    pub sizes: Vec<u32>,
    /// Per node its role.
    pub roles: Vec<ClusterRole>,
}

/// The clusters being made: every core is joined with its similar neighbours.
#[derive(Debug)]
pub struct Clustering {
    similar: Similar,
    joined: usize,
    forest: Forest,
    is_member: Vec<bool>,
    /// Per root of the forest its block plus one; 0 if it has none yet.
    block_of_root: Vec<u32>,
    walk: Cursor,
    /// Cluster first met among the neighbours of the node of the walk, and whether there is another.
    met: Option<u32>,
    meets_several: bool,
    made: Clusters,
}

impl Clustering {
    /// Of the nodes that `similar` is about.
    pub fn new(similar: Similar) -> Clustering {
        let nodes = similar.counts.len();
        Clustering {
            similar,
            joined: 0,
            forest: Forest { above: vec![0; nodes], size: vec![0; nodes] },
            is_member: vec![false; nodes],
            block_of_root: vec![0; nodes],
            walk: Cursor::default(),
            met: None,
            meets_several: false,
            made: Clusters::default(),
        }
    }

    /// Goes on; true when done.
    pub fn step(&mut self, neighbours: &Neighbours, allowance: &mut Allowance) -> bool {
        while let Some(pair) = self.similar.pairs.get(self.joined) {
            if !allowance.spend(FIND_COST) {
                return false;
            }
            self.joined += 1;
            self.join(*pair);
        }
        while self.made.block.len() < self.is_member.len() {
            if !allowance.spend(FIND_COST) {
                return false;
            }
            self.put_into_block(self.made.block.len());
        }
        while let Some(run) = self.walk.run(neighbours, allowance) {
            if run.begins {
                (self.met, self.meets_several) = (None, false);
            }
            for neighbour in run.items {
                if self.is_member[*neighbour as usize] {
                    let block = self.made.block[*neighbour as usize];
                    self.meets_several |= *self.met.get_or_insert(block) != block;
                }
            }
            if run.ends {
                self.made.roles.push(match (self.is_member[run.group], self.meets_several) {
                    (true, _) => ClusterRole::Member,
                    (false, true) => ClusterRole::Hub,
                    (false, false) => ClusterRole::Outlier,
                });
            }
        }
        self.walk.at_end(neighbours)
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

    /// Nodes that are no members are trees of their own.
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

    /// The clusters, once a step has returned true.
    pub fn finish(self) -> Clusters {
        self.made
    }
}

/// Disjoint sets of nodes as trees.
#[derive(Debug)]
struct Forest {
    /// Per node the one above it plus one; 0 for a root.
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
            // Each step halves the path for the next time.
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
