//! Members of a trust calculation.

use std::collections::BTreeSet;

use super::values::TrustValues;
use crate::model::Address;
use crate::peer::io::RandomSource;

/// Maximum number of members, including this node.
pub const MAX_MEMBERS: usize = 101;
/// Number of the most trusted nodes that are members again.
const MOST_TRUSTED: usize = 10;
/// Number of pre-trusted nodes that are members for certain. They are the source of trust: without any, as may happen
/// among many unknown nodes, trust would rest on reports of unknown nodes.
const PRE_TRUSTED: usize = 20;

/// Members of a calculation; this node is the last.
#[derive(Clone, Debug)]
pub struct Members {
    pub(super) addresses: Vec<Address>,
    /// Initial trust of each.
    pub(super) source: Vec<f64>,
    /// Whether each is on the operator's list.
    pub(super) is_pre_trusted: Vec<bool>,
    candidate_count: usize,
}

impl Members {
    /// Chooses members among the distinct `others`: all if they are few, otherwise the most trusted ones by the
    /// `former` values, some pre-trusted ones, and a random choice. `pre_trusted` is the operator's list.
    pub fn choose(
        mut others: Vec<Address>,
        local: Address,
        pre_trusted: &BTreeSet<Address>,
        former: &TrustValues,
        random: &mut impl RandomSource,
    ) -> Members {
        others.retain(|node| *node != local);
        let others_in_all = others.len();
        if others.len() >= MAX_MEMBERS {
            let mut chosen = move_to_front(&mut others, 0, &former.most_trusted(MOST_TRUSTED, local));
            let mut listed: Vec<_> = pre_trusted.iter().copied().collect();
            listed.retain(|node| others[chosen..].contains(node));
            random.choose(&mut listed, PRE_TRUSTED);
            listed.truncate(PRE_TRUSTED);
            chosen = move_to_front(&mut others, chosen, &listed);
            random.choose(&mut others[chosen..], MAX_MEMBERS - 1 - chosen);
            others.truncate(MAX_MEMBERS - 1);
        }
        others.push(local);
        let is_pre_trusted: Vec<_> = others.iter().map(|node| pre_trusted.contains(node)).collect();
        let source = source(&is_pre_trusted, pre_trusted.len());
        Members { addresses: others, source, is_pre_trusted, candidate_count: others_in_all }
    }

    /// Returns the number of candidates.
    pub(super) fn candidate_count(&self) -> usize {
        self.candidate_count
    }
}

/// Moves those of `wanted` that come after the first `chosen` nodes directly behind these. Returns the new `chosen`.
fn move_to_front(nodes: &mut [Address], mut chosen: usize, wanted: &[Address]) -> usize {
    for node in wanted {
        if let Some(place) = nodes[chosen..].iter().position(|other| other == node) {
            nodes.swap(chosen, chosen + place);
            chosen += 1;
        }
    }
    chosen
}

/// Returns the initial trust: equal shares of the pre-trusted members, or of all members if there is none. NIS1 makes
/// the exception only for an empty list; after losing all nodes of a list it distrusts nodes with many calls.
fn source(is_pre_trusted: &[bool], listed: usize) -> Vec<f64> {
    if !is_pre_trusted.contains(&true) {
        return vec![1.0 / is_pre_trusted.len() as f64; is_pre_trusted.len()];
    }
    let share = 1.0 / listed as f64;
    let mut source: Vec<_> = is_pre_trusted.iter().map(|listed| if *listed { share } else { 0.0 }).collect();
    super::values::normalise(&mut source);
    source
}
