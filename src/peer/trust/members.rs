//! The nodes that take part in a calculation of trust.

use std::collections::BTreeSet;

use super::values::TrustValues;
use crate::model::Address;
use crate::peer::random::RandomSource;

/// Most nodes that take part in a calculation, this one among them.
pub const MAX_MEMBERS: usize = 101;
/// How many of the most trusted nodes take part again.
const MOST_TRUSTED: usize = 10;
/// How many nodes of the operator's list take part for certain. Trust has its source in them: were none drawn, as may
/// happen where strangers are many, trust would rest on what strangers say.
const PRE_TRUSTED: usize = 20;

/// The nodes that take part in a calculation, this one the last of them.
#[derive(Clone, Debug)]
pub struct Members {
    pub(super) addresses: Vec<Address>,
    /// The share of each in the trust that is there from the start.
    pub(super) source: Vec<f64>,
    /// Whether each is on the operator's list.
    pub(super) is_pre_trusted: Vec<bool>,
    others_in_all: usize,
}

impl Members {
    /// Chooses among the `others`, which do not repeat: all of them if they are few, otherwise those trusted most by
    /// the `former` values, some of the operator's list, and others by chance. `pre_trusted` is the operator's list.
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
        Members { addresses: others, source, is_pre_trusted, others_in_all }
    }

    /// How many nodes there were to choose from.
    pub(super) fn others_in_all(&self) -> usize {
        self.others_in_all
    }
}

/// Moves those of `wanted` that are among the nodes behind `chosen` to the place behind it, and returns how many nodes
/// are chosen then.
fn move_to_front(nodes: &mut [Address], mut chosen: usize, wanted: &[Address]) -> usize {
    for node in wanted {
        if let Some(place) = nodes[chosen..].iter().position(|other| other == node) {
            nodes.swap(chosen, chosen + place);
            chosen += 1;
        }
    }
    chosen
}

/// The trust that is there from the start: equal shares for nodes of the operator's list that take part, or for all if
/// none of them does. NIS1 makes the exception only for an empty list; if it has lost sight of all nodes of a list that
/// is not empty, those with which it had much to do are not trusted any more.
fn source(is_pre_trusted: &[bool], listed: usize) -> Vec<f64> {
    if !is_pre_trusted.contains(&true) {
        return vec![1.0 / is_pre_trusted.len() as f64; is_pre_trusted.len()];
    }
    let share = 1.0 / listed as f64;
    let mut source: Vec<_> = is_pre_trusted.iter().map(|listed| if *listed { share } else { 0.0 }).collect();
    super::values::normalise(&mut source);
    source
}
