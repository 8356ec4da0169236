//! Splits that do not heal: nodes of this network whose chain has left ours further back than blocks can be undone. Neither
//! side can come over to the other by itself, so both have to say so.
//!
//! A node whose chain is worse than ours for a while is asked for one hash from time to time: that of the lowest of our
//! blocks that may be undone, or, if its chain ends below that, of the lowest of its own. A node whose chain is better is
//! asked for that anyway. All of this is what nodes say: one that lies about it is at most counted itself.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Peers;
use super::calls::{Ended, Purpose};
use crate::model::{Address, Height};
use crate::peer::outside::{Now, Outside, Reply};
use crate::peer::wire::{HashChain, NodeInfo, Query};

/// How long the chain of a node has to be worse than ours before it is asked where it has left ours.
pub const LONG_WORSE: Duration = Duration::from_secs(60);
/// Between two such questions to one node.
pub const BETWEEN_QUESTIONS: Duration = Duration::from_secs(300);
/// What was seen so long ago counts no more; nor is it said of a node more often.
pub const FORGOTTEN_AFTER: Duration = Duration::from_secs(900);

/// What is known of the chains of others that are not ours. No more entries than nodes.
#[derive(Debug, Default)]
pub struct Splits {
    /// Nodes whose chain is worse than ours, and when each is asked next.
    worse: BTreeMap<Address, Duration>,
    /// When it was last seen that the chain of a node has left ours too far back.
    apart: BTreeMap<Address, Duration>,
    /// When it was last said of a node.
    said: BTreeMap<Address, Duration>,
}

/// Nodes that cannot come over to our chain, nor we to theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apart {
    /// The nodes.
    pub nodes: Vec<Address>,
    /// How many nodes are active in all.
    pub active: usize,
}

impl Peers {
    /// The active nodes whose chain has left ours further back than blocks can be undone, as far as was seen lately.
    pub fn apart(&self, now: Duration) -> Apart {
        let is_fresh = |seen: &Duration| now.saturating_sub(*seen) < FORGOTTEN_AFTER;
        let nodes = self.splits.apart.iter().filter(|(node, seen)| is_fresh(seen) && self.nodes.is_active(node));
        let nodes: Vec<_> = nodes.map(|(node, _)| *node).collect();
        let active = self.nodes.in_state(crate::peer::nodes::State::Active).count();
        Apart { nodes, active }
    }

    /// The chain of a node has a part of ours that goes back far enough, or none can be compared.
    pub(super) fn is_together(&mut self, node: &Address) {
        self.splits.worse.remove(node);
        self.splits.apart.remove(node);
    }

    /// The chain of a node has left ours too far back.
    pub(super) fn is_apart(&mut self, node: Address, now: Now) {
        let is_known = |node: &Address| self.nodes.get(node).is_some();
        let Splits { apart, said, .. } = &mut self.splits;
        apart.retain(|node, _| is_known(node));
        said.retain(|node, said| is_known(node) && now.running.saturating_sub(*said) < FORGOTTEN_AFTER);
        if apart.insert(node, now.running).is_none() && !said.contains_key(&node) {
            said.insert(node, now.running);
            log::warn!(
                "{node} is on another chain, which has left ours more than {} blocks back: neither can follow the other",
                self.settings.chain.rewrite_limit
            );
        }
    }

    /// The chain of a node is worse than ours. It is asked where it has left ours if that goes on.
    pub(super) fn is_worse(&mut self, node: &NodeInfo, now: Now, outside: &mut impl Outside) {
        let address = self.address_of(node);
        let is_known = |node: &Address| self.nodes.get(node).is_some();
        self.splits.worse.retain(|node, _| is_known(node));
        let next = *self.splits.worse.entry(address).or_insert(now.running + LONG_WORSE);
        if now.running < next {
            return;
        }
        if let Ok(tip) = outside.tip() {
            self.splits.worse.insert(address, now.running + BETWEEN_QUESTIONS);
            self.ask_for_lowest(node, tip.height, outside);
        }
    }

    /// The lowest height that a chain that ends at `last` may come back to.
    fn lowest(&self, last: Height) -> Height {
        Height(last.0.saturating_sub(self.settings.chain.rewrite_limit).max(1))
    }

    /// Asks a node which block it has at the lowest height that a chain that ends at `last` may come back to.
    fn ask_for_lowest(&mut self, node: &NodeInfo, last: Height, outside: &mut impl Outside) {
        let lowest = self.lowest(last);
        let purpose = Purpose::LowestHash(self.address_of(node), lowest);
        self.ask(node, &Query::HashesFrom(lowest), purpose, outside);
    }

    /// A node has told which blocks it has from a height on, or has failed.
    pub(super) fn lowest_hash_ended(
        &mut self,
        node: Address,
        height: Height,
        ended: Ended,
        reply: Reply,
        now: Now,
        outside: &mut impl Outside,
    ) {
        let told = self.read_answer::<HashChain>(ended.proof, reply);
        let Ok((HashChain(theirs), _)) = told else { return };
        let Ok(ours) = outside.hashes_from(height, 1) else { return };
        match (ours.first(), theirs.first()) {
            (Some(ours), Some(theirs)) if ours != theirs => self.is_apart(node, now),
            // Its chain ends below: it has a long way to go, and comes if it can go back to a block of ours.
            (Some(_), None) => {
                let about = self.nodes.get(&node).map(|known| &known.about);
                let last = about.and_then(|about| Some((about.info.clone(), about.height?)));
                let last = last.filter(|(_, last)| self.lowest(*last) < height);
                if let Some((info, last)) = last {
                    self.ask_for_lowest(&info, last, outside);
                }
            }
            (None, _) => {}
            _ => self.is_together(&node),
        }
    }
}
