//! The power iteration of the page rank, and the final score, which combines it with stake and outlinks.

use super::graph::{Graph, multiply};
use super::loops::Loop;

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

/// The iteration.
#[derive(Debug, Default)]
pub struct PowerIteration {
    tolerance: f64,
    stage: RankStage,
    /// Vector of the previous step, by node.
    old: Vec<f64>,
    /// Vector of this step: in the end the page ranks.
    pub new: Vec<f64>,
    /// Values of the blocks.
    blocks: Vec<f64>,
    /// Value added to every node.
    adjustment: f64,
    /// Sum by which the vector is divided.
    divisor: f64,
    /// Completed steps.
    steps: u32,
    /// Whether it did not converge.
    pub has_failed: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum RankStage {
    #[default]
    Start,
    Dangling,
    Outlinks,
    Blocks,
    Combine,
    Normalise,
}

impl PowerIteration {
    /// Prepares the iteration over the nodes of a graph. `all` is the number of accounts counted, which divides the
    /// tolerance.
    pub fn new(graph: &Graph, all: u64) -> PowerIteration {
        PowerIteration {
            tolerance: TOLERANCE / all as f64,
            old: Vec::with_capacity(graph.block.len()),
            new: vec![0.0; graph.block.len()],
            blocks: vec![0.0; graph.sizes.len()],
            ..PowerIteration::default()
        }
    }

    /// Returns the number of completed iterations; the first step does not count.
    pub fn iterations(&self) -> u32 {
        self.steps.saturating_sub(1)
    }

    /// Stage: iterates until the vector converges. If it does not, `has_failed` is set.
    pub fn step(&mut self, graph: &Graph, work: &mut Loop) -> bool {
        let nodes = self.new.len();
        let (is_done, next) = match self.stage {
            RankStage::Start => {
                let length = work.advance(nodes).end;
                self.old.resize(length, 1.0 / nodes as f64);
                (length == nodes, RankStage::Dangling)
            }
            RankStage::Dangling => {
                let passed = work.advance(graph.dangling.len());
                work.sum = graph.dangling[passed].iter().fold(work.sum, |sum, node| sum + self.old[*node as usize]);
                self.adjustment = work.sum * TELEPORTATION / nodes as f64 + INVERSE / nodes as f64;
                (work.at == graph.dangling.len(), RankStage::Outlinks)
            }
            RankStage::Outlinks => (multiply(&graph.rows, &self.old, &mut self.new, work), RankStage::Blocks),
            RankStage::Blocks => (multiply(&graph.proximity, &self.old, &mut self.blocks, work), RankStage::Combine),
            RankStage::Combine => {
                for node in work.advance(nodes) {
                    let level = self.blocks[graph.block[node] as usize];
                    let value = ((self.new[node] * TELEPORTATION) + self.adjustment) + (level * INTER_LEVEL);
                    self.new[node] = value;
                    work.sum += value.abs();
                }
                self.divisor = work.sum;
                (work.at == nodes, RankStage::Normalise)
            }
            RankStage::Normalise => {
                for node in work.advance(nodes) {
                    self.new[node] /= self.divisor;
                    work.sum += (self.old[node] - self.new[node]).abs();
                }
                if work.at == nodes {
                    self.steps += 1;
                    // The first step is never the last, however small its change.
                    let has_converged = self.steps > 1 && work.sum <= self.tolerance;
                    self.has_failed = !has_converged && self.iterations() >= MAX_ITERATIONS;
                    if has_converged || self.has_failed {
                        return true;
                    }
                    std::mem::swap(&mut self.old, &mut self.new);
                }
                (work.at == nodes, RankStage::Dangling)
            }
        };
        if is_done {
            self.stage = next;
            work.restart();
        }
        false
    }
}

/// Weight of the outlink score relative to the vested balance.
const OUTLINK_WEIGHT: f64 = 1.25;
/// Weight of the page rank relative to the share in stake and outlinks.
const RANK_WEIGHT: f64 = 0.1337;
/// Weight of an outlier; all other roles have 1.
pub const OUTLIER_WEIGHT: f64 = 0.9;

/// Scores by account index: in the end the importances.
#[derive(Debug, Default)]
pub struct Scores {
    /// The scores.
    pub values: Vec<f64>,
    /// Sum of the scores after the last stage.
    divisor: f64,
}

impl Scores {
    /// Stage: combines outlink scores and vested balances, in micro-units.
    pub fn combine_stakes(&mut self, outlinks: &[f64], vested: &[f64], work: &mut Loop) -> bool {
        self.values.reserve_exact(vested.len() - self.values.len());
        for account in work.advance(vested.len()) {
            let score = (outlinks[account] * OUTLINK_WEIGHT) + vested[account];
            self.values.push(if score < 0.0 { 0.0 } else { score });
            work.sum += self.values[account];
        }
        // In use once the sum is complete.
        self.divisor = work.sum;
        work.at == vested.len()
    }

    /// Stage: combines the shares in these with the page ranks, and weighs them by the role in the graph.
    pub fn combine_ranks(&mut self, ranks: &[f64], weight: impl Fn(usize) -> f64, work: &mut Loop) -> bool {
        for account in work.advance(ranks.len()) {
            let share = normalised(self.values[account], self.divisor);
            self.values[account] = (share + (ranks[account] * RANK_WEIGHT)) * weight(account);
            work.sum += self.values[account].abs();
        }
        if work.at == ranks.len() {
            self.divisor = work.sum;
        }
        work.at == ranks.len()
    }

    /// Stage: divides the scores by their sum.
    pub fn normalise(&mut self, work: &mut Loop) -> bool {
        for account in work.advance(self.values.len()) {
            self.values[account] = normalised(self.values[account], self.divisor);
        }
        work.at == self.values.len()
    }
}

/// Divides a component of a vector by the vector's sum; returns it unchanged if the sum is 0.
fn normalised(component: f64, sum: f64) -> f64 {
    if sum == 0.0 { component } else { component / sum }
}
