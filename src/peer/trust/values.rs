//! Trust as numbers, and draws by it.

use crate::model::Address;
use crate::peer::random::RandomSource;

/// Divides numbers by the sum of their amounts; if that is 0 they stay as they are.
pub(super) fn normalise(numbers: &mut [f64]) {
    let sum: f64 = numbers.iter().map(|number| number.abs()).sum();
    if sum != 0.0 {
        numbers.iter_mut().for_each(|number| *number /= sum);
    }
}

/// How far nodes are trusted: shares of 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrustValues {
    /// Nodes and their trust, the node that has calculated it being the last.
    values: Vec<(Address, f64)>,
}

impl TrustValues {
    pub(super) fn new(nodes: &[Address], trust: &[f64]) -> TrustValues {
        TrustValues { values: nodes.iter().copied().zip(trust.iter().copied()).collect() }
    }

    /// Takes the value of a node away. Says whether it had one.
    pub(super) fn forget(&mut self, node: &Address) -> bool {
        let before = self.values.len();
        self.values.retain(|(other, _)| other != node);
        self.values.len() < before
    }

    /// Nodes and their trust in the order of the calculation.
    pub fn iter(&self) -> impl Iterator<Item = (&Address, f64)> {
        self.values.iter().map(|(node, trust)| (node, *trust))
    }

    /// Trust in a node, if it took part in the calculation.
    pub fn of(&self, node: &Address) -> Option<f64> {
        self.iter().find(|(other, _)| *other == node).map(|(_, trust)| trust)
    }

    /// The `count` nodes that are trusted most without `local`; of equals those that come first.
    pub(super) fn most_trusted(&self, count: usize, local: Address) -> Vec<Address> {
        let mut nodes: Vec<_> = self.values.iter().filter(|(node, _)| *node != local).collect();
        nodes.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        nodes.into_iter().take(count).map(|(node, _)| *node).collect()
    }

    /// The nodes that are admitted, and how likely each is to be drawn: by its trust, or all equally if none of them is
    /// trusted at all.
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

/// Nodes that may be drawn, and how likely each is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Candidates {
    weights: Vec<(Address, f64)>,
}

impl Candidates {
    /// Nodes and their weights, none of which is 0.
    pub fn iter(&self) -> impl Iterator<Item = (&Address, f64)> {
        self.weights.iter().map(|(node, weight)| (node, *weight))
    }

    /// Leaves only some of them.
    pub fn retain(&mut self, mut stays: impl FnMut(&Address) -> bool) {
        self.weights.retain(|(node, _)| stays(node));
    }

    /// Draws at most `most` of them, none twice; all, in their order, if there are no more. A draw of one takes one
    /// random number, and its cost follows the number of candidates.
    pub fn draw(&self, most: usize, random: &mut impl RandomSource) -> Vec<Address> {
        if most >= self.weights.len() {
            return self.weights.iter().map(|(node, _)| *node).collect();
        }
        let mut left = self.weights.clone();
        let mut remaining: f64 = left.iter().map(|(_, weight)| weight).sum();
        let mut drawn = Vec::with_capacity(most);
        while drawn.len() < most {
            let (mark, mut sum) = (random.fraction() * remaining, 0.0);
            let hit = left.iter().position(|(_, weight)| {
                sum += weight;
                sum >= mark
            });
            // What remains is rounded, so that a mark may lie behind the last one.
            let Some(hit) = hit else { break };
            let (node, weight) = left.remove(hit);
            remaining -= weight;
            drawn.push(node);
        }
        drawn
    }
}
