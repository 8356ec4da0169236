//! The proximity matrix: how the outlinks of a node distribute over the blocks of the partition.

use super::budget::WorkBudget;
use super::clusters::Clusters;
use super::csr::{CountingSort, Csr, Cursor, GroupAccess};
use super::matrix::SparseMatrix;

/// Builds the inter-level proximity matrix R incrementally: row = block, column = node. (The matrix A of the NEM paper
/// only spreads the value of a block over its nodes.)
#[derive(Debug)]
pub struct Proximity {
    cursor: Cursor,
    /// Per block, one plus the last node found to reach it.
    marks: Vec<u32>,
    /// Per node the blocks that it reaches, its own included.
    reached: Csr<u32>,
    rows: CountingSort<(u32, f64)>,
}

impl Proximity {
    /// Prepares the matrix for these clusters; `columns` are the recipients of every node.
    pub fn new(clusters: &Clusters, columns: &Csr<u32>) -> Proximity {
        let (nodes, blocks) = (columns.groups(), clusters.sizes.len());
        let reached = Csr::with_capacity(nodes, nodes + columns.total());
        Proximity { cursor: Cursor::default(), marks: vec![0; blocks], reached, rows: CountingSort::new(blocks) }
    }

    /// Continues within the budget, with the same columns; returns true when finished.
    pub fn step(&mut self, clusters: &Clusters, columns: &Csr<u32>, budget: &mut WorkBudget) -> bool {
        while let Some(run) = self.cursor.next_slice(columns, budget) {
            if run.begins {
                self.reach(run.group, clusters.block[run.group]);
            }
            for recipient in run.items {
                self.reach(run.group, clusters.block[*recipient as usize]);
            }
            if run.ends {
                self.reached.close_group();
            }
        }
        if !self.cursor.at_end(columns) {
            return false;
        }
        let reached = &self.reached;
        let entry = |node: usize, block: &u32| {
            // NIS1 multiplies in 32 bits.
            let product = (clusters.sizes[*block as usize] as i32).wrapping_mul(reached.group(node).len() as i32);
            Some((*block as usize, (node as u32, 1.0 / f64::from(product))))
        };
        self.rows.step(reached, entry, budget)
    }

    fn reach(&mut self, node: usize, block: u32) {
        let mark = &mut self.marks[block as usize];
        if *mark != node as u32 + 1 {
            *mark = node as u32 + 1;
            self.reached.push(block);
        }
    }

    /// Returns the matrix. Valid once a step has returned true.
    pub fn finish(self) -> SparseMatrix {
        self.rows.finish()
    }
}
