//! The power iteration of the page rank.

use super::budget::WorkBudget;
use super::csr::Cursor;
use super::matrix::{OutlinkMatrix, multiply};
use super::structure::Structure;

/// Weight of the outlinks: the teleportation probability.
const TELEPORTATION: f64 = 0.7;
/// Weight of the proximity: the inter-level teleportation probability.
const INTER_LEVEL: f64 = 0.1;
/// Weight of the uniform part. Computed, because it is not exactly 0.2 in doubles.
const INVERSE: f64 = (1.0 - TELEPORTATION) - INTER_LEVEL;

/// Maximum number of iterations.
pub const MAX_ITERATIONS: u32 = 3000;
/// Tolerance for one account; divided by the number of accounts.
const TOLERANCE: f64 = 0.001;

/// State of the iteration.
#[derive(Debug)]
pub struct PowerIteration {
    tolerance: f64,
    stage: Stage,
    /// Vector of the previous step, by node.
    old: Vec<f64>,
    /// Vector of this step.
    new: Vec<f64>,
    /// Values of the blocks.
    blocks: Vec<f64>,
    cursor: Cursor,
    at: usize,
    /// Running sum of the stage.
    sum: f64,
    /// Value added to every node.
    adjustment: f64,
    /// Completed steps.
    steps: u32,
}

#[derive(Debug)]
enum Stage {
    Start,
    Dangling,
    Outlinks,
    Blocks,
    Combine,
    Normalise { divisor: f64 },
}

/// The iteration did not converge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotConverged;

impl PowerIteration {
    /// Prepares the iteration over `nodes` nodes. `all` is the number of accounts counted, which divides the tolerance.
    pub fn new(nodes: usize, blocks: usize, all: u64) -> PowerIteration {
        PowerIteration {
            tolerance: TOLERANCE / all as f64,
            stage: Stage::Start,
            old: Vec::with_capacity(nodes),
            new: vec![0.0; nodes],
            blocks: vec![0.0; blocks],
            cursor: Cursor::default(),
            at: 0,
            sum: 0.0,
            adjustment: 0.0,
            steps: 0,
        }
    }

    /// Returns the number of completed iterations; the first step does not count.
    pub fn iterations(&self) -> u32 {
        self.steps.saturating_sub(1)
    }

    /// Continues within the budget; returns true when converged.
    pub fn step(
        &mut self,
        matrix: &OutlinkMatrix,
        structure: &Structure,
        budget: &mut WorkBudget,
    ) -> Result<bool, NotConverged> {
        let nodes = self.new.len();
        match self.stage {
            Stage::Start => {
                let length = budget.advance(&mut self.at, nodes).end;
                self.old.resize(length, 1.0 / nodes as f64);
                self.next(length == nodes, Stage::Dangling);
            }
            Stage::Dangling => {
                let passed = budget.advance(&mut self.at, matrix.dangling.len());
                self.sum = matrix.dangling[passed].iter().fold(self.sum, |sum, node| sum + self.old[*node as usize]);
                self.adjustment = self.sum * TELEPORTATION / nodes as f64 + INVERSE / nodes as f64;
                self.next(self.at == matrix.dangling.len(), Stage::Outlinks);
            }
            Stage::Outlinks => {
                let done = multiply(&matrix.rows, &self.old, &mut self.new, &mut self.cursor, budget);
                self.next(done, Stage::Blocks);
            }
            Stage::Blocks => {
                let done = multiply(&structure.proximity, &self.old, &mut self.blocks, &mut self.cursor, budget);
                self.next(done, Stage::Combine);
            }
            Stage::Combine => {
                for node in budget.advance(&mut self.at, nodes) {
                    let level = self.blocks[structure.clusters.block[node] as usize];
                    let value = ((self.new[node] * TELEPORTATION) + self.adjustment) + (level * INTER_LEVEL);
                    self.new[node] = value;
                    self.sum += value.abs();
                }
                self.next(self.at == nodes, Stage::Normalise { divisor: self.sum });
            }
            Stage::Normalise { divisor } => {
                for node in budget.advance(&mut self.at, nodes) {
                    self.new[node] /= divisor;
                    self.sum += (self.old[node] - self.new[node]).abs();
                }
                return if self.at == nodes { self.close_step() } else { Ok(false) };
            }
        }
        Ok(false)
    }

    /// Completes a step. Returns whether it was the last; otherwise starts the next.
    fn close_step(&mut self) -> Result<bool, NotConverged> {
        self.steps += 1;
        // The first step is never the last, however small its change.
        if self.steps > 1 && self.sum <= self.tolerance {
            return Ok(true);
        }
        if self.iterations() >= MAX_ITERATIONS {
            return Err(NotConverged);
        }
        std::mem::swap(&mut self.old, &mut self.new);
        self.next(true, Stage::Dangling);
        Ok(false)
    }

    fn next(&mut self, done: bool, stage: Stage) {
        if done {
            (self.stage, self.cursor, self.at, self.sum) = (stage, Cursor::default(), 0, 0.0);
        }
    }

    /// Returns the page ranks. Valid once a step has returned true.
    pub fn finish(self) -> Vec<f64> {
        self.new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probabilities_are_the_doubles_of_the_protocol() {
        assert_eq!(INVERSE.to_bits(), 0x3FC9_9999_9999_999B);
        assert_eq!(INTER_LEVEL.to_bits(), 0x3FB9_9999_9999_999A);
        assert_eq!(TELEPORTATION.to_bits(), 0x3FE6_6666_6666_6666);
    }
}
