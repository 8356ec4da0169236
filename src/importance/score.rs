//! The final score: stake, outlinks and page rank combined.

use super::budget::WorkBudget;
use super::clusters::ClusterRole;

/// Weight of the outlink score relative to the vested balance.
const OUTLINK_WEIGHT: f64 = 1.25;
/// Weight of the page rank relative to the share in stake and outlinks.
const RANK_WEIGHT: f64 = 0.1337;
/// Weight of an outlier; all other roles have 1.
const OUTLIER_WEIGHT: f64 = 0.9;

/// Returns the weight of an account by its role in the graph.
pub fn graph_weight(role: ClusterRole) -> f64 {
    match role {
        ClusterRole::Outlier => OUTLIER_WEIGHT,
        ClusterRole::Member | ClusterRole::Hub => 1.0,
    }
}

/// Inputs to the score of an account.
#[derive(Clone, Copy, Debug)]
pub struct ScoreInputs {
    /// Outlink score in micro-units.
    pub outlinks: f64,
    /// Vested balance in micro-units.
    pub vested: f64,
    /// Page rank.
    pub rank: f64,
    /// Weight by the role in the graph.
    pub weight: f64,
}

/// Computes the scores incrementally.
#[derive(Debug)]
pub struct Scoring {
    stage: Stage,
    at: usize,
    /// Running sum of the stage.
    sum: f64,
    scores: Vec<f64>,
}

#[derive(Debug)]
enum Stage {
    Stake,
    Combine { divisor: f64 },
    Normalise { divisor: f64 },
}

impl Scoring {
    /// Prepares the scores of `accounts` accounts.
    pub fn new(accounts: usize) -> Scoring {
        Scoring { stage: Stage::Stake, at: 0, sum: 0.0, scores: vec![0.0; accounts] }
    }

    /// Continues within the budget; returns true when finished. `parts` returns the inputs of an account.
    pub fn step(&mut self, parts: impl Fn(usize) -> ScoreInputs, budget: &mut WorkBudget) -> bool {
        let end = self.scores.len();
        let passed = budget.advance(&mut self.at, end);
        match self.stage {
            Stage::Stake => {
                for account in passed {
                    let ScoreInputs { outlinks, vested, .. } = parts(account);
                    let score = (outlinks * OUTLINK_WEIGHT) + vested;
                    self.scores[account] = if score < 0.0 { 0.0 } else { score };
                    self.sum += self.scores[account];
                }
                self.next(Stage::Combine { divisor: self.sum });
                false
            }
            Stage::Combine { divisor } => {
                for account in passed {
                    let ScoreInputs { rank, weight, .. } = parts(account);
                    let share = normalised(self.scores[account], divisor);
                    self.scores[account] = (share + (rank * RANK_WEIGHT)) * weight;
                    self.sum += self.scores[account].abs();
                }
                self.next(Stage::Normalise { divisor: self.sum });
                false
            }
            Stage::Normalise { divisor } => {
                for account in passed {
                    self.scores[account] = normalised(self.scores[account], divisor);
                }
                self.at == end
            }
        }
    }

    fn next(&mut self, stage: Stage) {
        if self.at == self.scores.len() {
            (self.stage, self.at, self.sum) = (stage, 0, 0.0);
        }
    }

    /// Returns the importances. Valid once a step has returned true.
    pub fn finish(self) -> Vec<f64> {
        self.scores
    }
}

/// Divides a component of a vector by the vector's sum; returns it unchanged if the sum is 0.
fn normalised(component: f64, sum: f64) -> f64 {
    if sum == 0.0 { component } else { component / sum }
}
