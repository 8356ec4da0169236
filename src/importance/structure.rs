//! Derives the partition of the graph and the proximity matrix from the outlink matrix.

use super::budget::WorkBudget;
use super::clusters::{Clustering, Clusters};
use super::csr::{CountingSort, Csr};
use super::matrix::SparseMatrix;
use super::neighbours::{NeighbourSets, Neighbours, Similarities};
use super::proximity::Proximity;

/// The partition of the nodes, and the proximity of nodes to its blocks.
#[derive(Clone, Debug, Default)]
pub struct Structure {
    /// The partition of the nodes.
    pub clusters: Clusters,
    /// The inter-level proximity matrix R: row = block, column = node.
    pub proximity: SparseMatrix,
}

/// Builds the structure incrementally.
#[derive(Debug)]
pub struct StructureBuilder {
    threshold: f64,
    stage: Stage,
    /// Per node its recipients, ascending.
    columns: Csr<u32>,
    neighbours: Neighbours,
    made: Structure,
}

#[derive(Debug)]
enum Stage {
    Columns(CountingSort<u32>),
    Neighbours(NeighbourSets),
    Similarity(Similarities),
    Clusters(Clustering),
    Proximity(Proximity),
    Done,
}

impl StructureBuilder {
    /// Prepares a graph of `nodes` nodes. Neighbours are similar if their similarity exceeds `threshold`.
    pub fn new(nodes: usize, threshold: f64) -> StructureBuilder {
        StructureBuilder {
            threshold,
            stage: Stage::Columns(CountingSort::new(nodes)),
            columns: Csr::default(),
            neighbours: Csr::default(),
            made: Structure::default(),
        }
    }

    /// Continues within the budget; returns true when finished.
    pub fn step(&mut self, rows: &SparseMatrix, budget: &mut WorkBudget) -> bool {
        let entry = |row: usize, entry: &(u32, f64)| Some((entry.0 as usize, row as u32));
        let stage_is_done = match &mut self.stage {
            Stage::Columns(stage) => stage.step(rows, entry, budget),
            Stage::Neighbours(stage) => stage.step(rows, &self.columns, budget),
            Stage::Similarity(stage) => stage.step(&self.neighbours, budget),
            Stage::Clusters(stage) => stage.step(&self.neighbours, budget),
            Stage::Proximity(stage) => stage.step(&self.made.clusters, &self.columns, budget),
            Stage::Done => return true,
        };
        if stage_is_done {
            self.next_stage();
        }
        matches!(self.stage, Stage::Done)
    }

    fn next_stage(&mut self) {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Columns(columns) => {
                self.columns = columns.finish();
                Stage::Neighbours(NeighbourSets::new(&self.columns))
            }
            Stage::Neighbours(sets) => {
                self.neighbours = sets.finish();
                Stage::Similarity(Similarities::new(&self.neighbours, self.threshold))
            }
            Stage::Similarity(similarities) => Stage::Clusters(Clustering::new(similarities.finish())),
            Stage::Clusters(clustering) => {
                self.neighbours = Csr::default();
                self.made.clusters = clustering.finish();
                Stage::Proximity(Proximity::new(&self.made.clusters, &self.columns))
            }
            Stage::Proximity(proximity) => {
                self.columns = Csr::default();
                self.made.proximity = proximity.finish();
                Stage::Done
            }
            Stage::Done => Stage::Done,
        };
    }

    /// Returns the structure. Valid once a step has returned true.
    pub fn finish(self) -> Structure {
        self.made
    }
}
