//! Trust values, and random selection by them.

use crate::model::Address;
use crate::peer::io::RandomSource;

/// Divides numbers by the sum of their absolute values, unless that is 0.
pub(super) fn normalise(numbers: &mut [f64]) {
    let sum: f64 = numbers.iter().map(|number| number.abs()).sum();
    if sum != 0.0 {
        numbers.iter_mut().for_each(|number| *number /= sum);
    }
}

/// Trust values with the sum 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrustValues {
    /// Nodes and their trust; this node is the last.
    values: Vec<(Address, f64)>,
}

impl TrustValues {
    pub(super) fn new(nodes: &[Address], trust: &[f64]) -> TrustValues {
        TrustValues { values: nodes.iter().copied().zip(trust.iter().copied()).collect() }
    }

    /// Removes the value of a node. Returns whether there was one.
    pub(super) fn forget(&mut self, node: &Address) -> bool {
        let before = self.values.len();
        self.values.retain(|(other, _)| other != node);
        self.values.len() < before
    }

    /// Returns nodes and their trust in the order of the calculation.
    pub fn iter(&self) -> impl Iterator<Item = (&Address, f64)> {
        self.values.iter().map(|(node, trust)| (node, *trust))
    }

    /// Returns the trust in a node, if it took part in the calculation.
    pub fn of(&self, node: &Address) -> Option<f64> {
        self.iter().find(|(other, _)| *other == node).map(|(_, trust)| trust)
    }

    /// Returns the `count` most trusted nodes without `local`; of equals, the first.
    pub(super) fn most_trusted(&self, count: usize, local: Address) -> Vec<Address> {
        let mut nodes: Vec<_> = self.values.iter().filter(|(node, _)| *node != local).collect();
        nodes.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        nodes.into_iter().take(count).map(|(node, _)| *node).collect()
    }

    /// Returns the admitted nodes, weighted by trust, or equally if none of them has any.
    pub fn admit(&self, is_admitted: impl Fn(&Address) -> bool) -> Candidates {
        let admitted: Vec<_> = self.values.iter().map(|(node, _)| is_admitted(node)).collect();
        let mask = |trust: f64, admitted: bool| if admitted { trust } else { 0.0 };
        let mut weights: Vec<_> =
            self.values.iter().zip(&admitted).map(|((_, trust), admitted)| mask(*trust, *admitted)).collect();
        if weights.iter().all(|weight| *weight == 0.0) {
            weights = admitted.iter().map(|admitted| mask(1.0, *admitted)).collect();
        }
        normalise(&mut weights);
        let nodes = self.values.iter().map(|(node, _)| *node);
        Candidates { weights: nodes.zip(weights).filter(|(_, weight)| *weight != 0.0).collect() }
    }
}

/// Candidates with selection weights.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Candidates {
    weights: Vec<(Address, f64)>,
}

impl Candidates {
    /// Returns nodes and their weights, none of which is 0.
    pub fn iter(&self) -> impl Iterator<Item = (&Address, f64)> {
        self.weights.iter().map(|(node, weight)| (node, *weight))
    }

    /// Keeps the candidates for which `stays` is true.
    pub fn retain(&mut self, mut stays: impl FnMut(&Address) -> bool) {
        self.weights.retain(|(node, _)| stays(node));
    }

    /// Selects at most `max` distinct candidates, or all in order. Each takes one random number and linear time.
    pub fn select(&self, max: usize, random: &mut impl RandomSource) -> Vec<Address> {
        if max >= self.weights.len() {
            return self.weights.iter().map(|(node, _)| *node).collect();
        }
        let mut left = self.weights.clone();
        let mut remaining: f64 = left.iter().map(|(_, weight)| weight).sum();
        let mut drawn = Vec::with_capacity(max);
        while drawn.len() < max {
            let (mark, mut sum) = (random.fraction() * remaining, 0.0);
            let hit = left.iter().position(|(_, weight)| {
                sum += weight;
                sum >= mark
            });
            // Rounding may leave the mark behind the last candidate.
            let Some(hit) = hit else { break };
            let (node, weight) = left.remove(hit);
            remaining -= weight;
            drawn.push(node);
        }
        drawn
    }
}
