//! How much the outlinks of a node favour the blocks that they lead to (specification 04 §10).

use super::budget::Budget;
use super::clusters::Clusters;
use super::grouped::{Cursor, Grouped, Regroup};
use super::matrix::SparseMatrix;

/// The inter-level proximity matrix R being made: row = block, column = node. (The matrix A only spreads a
/// block's value over its nodes.)
#[derive(Debug)]
pub struct Proximity {
    walk: Cursor,
    /// Per block the last node plus one that was found to reach it.
    marks: Vec<u32>,
    /// Per node the blocks that it reaches, its own among them.
    reached: Grouped<u32>,
    rows: Regroup<(u32, f64)>,
}

impl Proximity {
    /// For these clusters.
    pub fn new(clusters: &Clusters) -> Proximity {
        let blocks = clusters.sizes.len();
        let (walk, marks, reached) = (Cursor::default(), vec![0; blocks], Grouped::default());
        Proximity { walk, marks, reached, rows: Regroup::new(blocks) }
    }

    /// Goes on; `columns` are the recipients of every node. True when done.
    pub fn step(&mut self, clusters: &Clusters, columns: &Grouped<u32>, budget: &mut Budget) -> bool {
        while let Some(run) = self.walk.run(columns, budget) {
            if run.begins {
                self.reach(run.group, clusters.block[run.group]);
            }
            for recipient in &columns.items()[run.items] {
                self.reach(run.group, clusters.block[*recipient as usize]);
            }
            if run.ends {
                self.reached.close();
            }
        }
        if !self.walk.at_end(columns) {
            return false;
        }
        let reached = &self.reached;
        let entry = |node: usize, block: &u32| {
            // The protocol multiplies in 32 bits.
            let product = (clusters.sizes[*block as usize] as i32).wrapping_mul(reached.size(node) as i32);
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

    /// The matrix, once a step has returned true.
    pub fn finish(self) -> SparseMatrix {
        self.rows.finish()
    }
}
