//! Chain splits that cannot heal: peers whose chain forked from ours further back than the rewrite limit. Neither side
//! can switch, so both have to report it.
//!
//! A peer whose chain stays worse than ours is queried from time to time for one hash: at the height of the lowest
//! block of ours that can be rolled back, or, if its chain ends below that, the lowest of its own. A peer with a better
//! chain is queried for that anyway. All this is self-reported: a false report affects only the peer itself.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Peers;
use super::calls::{Ended, Purpose};
use crate::model::{Address, Height};
use crate::peer::outside::{Now, Outside, Reply};
use crate::peer::wire::{HashChain, NodeInfo, Query};

/// Time for which a peer's chain must be worse before its fork point is queried.
pub const LONG_WORSE: Duration = Duration::from_secs(60);
/// Interval between these queries to one peer.
pub const BETWEEN_QUESTIONS: Duration = Duration::from_secs(300);
/// Lifetime of an observation, and minimum interval between warnings about one peer.
pub const FORGOTTEN_AFTER: Duration = Duration::from_secs(900);

/// Observations of other chains, bounded by the number of known peers.
#[derive(Debug, Default)]
pub struct Splits {
    /// Peers with a worse chain, and when each is queried next.
    worse: BTreeMap<Address, Duration>,
    /// When a peer's chain was last seen to have forked too far back.
    apart: BTreeMap<Address, Duration>,
    /// When a warning about a peer was last logged.
    said: BTreeMap<Address, Duration>,
}

/// Peers that can never agree with us on one chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apart {
    /// The peers.
    pub nodes: Vec<Address>,
    /// Number of active peers in all.
    pub active: usize,
}

impl Peers {
    /// Returns the active peers whose chain was lately seen to have forked further back than the rewrite limit.
    pub fn apart(&self, now: Duration) -> Apart {
        let is_fresh = |seen: &Duration| now.saturating_sub(*seen) < FORGOTTEN_AFTER;
        let nodes = self.splits.apart.iter().filter(|(node, seen)| is_fresh(seen) && self.nodes.is_active(node));
        let nodes: Vec<_> = nodes.map(|(node, _)| *node).collect();
        let active = self.nodes.in_state(crate::peer::nodes::State::Active).count();
        Apart { nodes, active }
    }

    /// Records that a peer's chain shares a recent enough block with ours, or cannot be compared.
    pub(super) fn is_together(&mut self, node: &Address) {
        self.splits.worse.remove(node);
        self.splits.apart.remove(node);
    }

    /// Records that a peer's chain forked too far back.
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

    /// Records that a peer's chain is worse than ours. Queries its fork point if that persists.
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

    /// Returns the lowest height to which a chain that ends at `last` can be rolled back.
    fn lowest(&self, last: Height) -> Height {
        Height(last.0.saturating_sub(self.settings.chain.rewrite_limit).max(1))
    }

    /// Queries a peer's hashes from the lowest height to which a chain that ends at `last` can be rolled back.
    fn ask_for_lowest(&mut self, node: &NodeInfo, last: Height, outside: &mut impl Outside) {
        let lowest = self.lowest(last);
        let purpose = Purpose::LowestHash(self.address_of(node), lowest);
        self.ask(node, &Query::HashesFrom(lowest), purpose, outside);
    }

    /// Processes a peer's hashes, or the failure of the request.
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
            // The peer's chain ends below. It can still follow ours if it can roll back to a block of ours.
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
