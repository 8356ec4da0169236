//! The final score: stake, outlinks and page rank combined.

use super::csr::Loop;
use super::graph::ClusterRole;

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
