//! Chain splits that cannot heal: peers whose chain forked from ours further back than the rewrite limit. Neither side
//! can switch, so both have to report it.
//!
//! A peer whose chain stays worse than ours is queried from time to time for one hash: at the height of the lowest
//! block of ours that can be rolled back, or, if its chain ends below that, the lowest of its own. A peer with a better
//! chain is queried for that anyway. All this is self-reported: a false report affects only the peer itself.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Manager;
use super::requests::{Completed, RequestKind};
use crate::model::{Address, Height};
use crate::peer::io::LocalChain;
use crate::peer::peer_table::State;
use crate::peer::wire::{HashChain, NodeInfo, Query};

/// Time for which a peer's chain must be worse before its fork point is queried.
pub const MIN_WORSE_TIME: Duration = Duration::from_secs(60);
/// Interval between these queries to one peer.
pub const QUERY_INTERVAL: Duration = Duration::from_secs(300);
/// Lifetime of an observation, and minimum interval between warnings about one peer.
pub const OBSERVATION_TTL: Duration = Duration::from_secs(900);

/// Observations of other chains, bounded by the number of known peers.
#[derive(Debug, Default)]
pub struct ChainSplits {
    /// Peers with a worse chain, and when each is queried next.
    worse: BTreeMap<Address, Duration>,
    /// When a peer's chain was last seen to have forked too far back.
    split: BTreeMap<Address, Duration>,
    /// When a warning about a peer was last logged.
    warned: BTreeMap<Address, Duration>,
}

/// Peers that can never agree with us on one chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitPeers {
    /// The peers.
    pub nodes: Vec<Address>,
    /// Number of active peers in all.
    pub active: usize,
}

impl Manager {
    /// Returns the active peers whose chain was lately seen to have forked further back than the rewrite limit.
    pub fn split_peers(&self, now: Duration) -> SplitPeers {
        let is_fresh = |seen: &Duration| now.saturating_sub(*seen) < OBSERVATION_TTL;
        let nodes = self.splits.split.iter().filter(|(node, seen)| is_fresh(seen) && self.table.is_active(node));
        let nodes: Vec<_> = nodes.map(|(node, _)| *node).collect();
        let active = self.table.in_state(State::Active).count();
        SplitPeers { nodes, active }
    }

    /// Records that a peer's chain shares a recent enough block with ours, or cannot be compared.
    pub(super) fn clear_split(&mut self, node: &Address) {
        self.splits.worse.remove(node);
        self.splits.split.remove(node);
    }

    /// Records that a peer's chain forked too far back.
    pub(super) fn record_split(&mut self, node: Address) {
        let (is_known, now) = (|node: &Address| self.table.get(node).is_some(), self.now.monotonic);
        let ChainSplits { split, warned, .. } = &mut self.splits;
        split.retain(|node, _| is_known(node));
        warned.retain(|node, at| is_known(node) && now.saturating_sub(*at) < OBSERVATION_TTL);
        if split.insert(node, now).is_none() && !warned.contains_key(&node) {
            warned.insert(node, now);
            log::warn!(
                "{node} is on another chain, which forked from ours more than {} blocks ago: neither can switch chains",
                self.settings.chain.rewrite_limit
            );
        }
    }

    /// Records that a peer's chain is worse than ours. Queries its fork point if that persists.
    pub(super) fn on_worse_chain(&mut self, node: &NodeInfo, chain: &impl LocalChain) {
        let address = self.address_of(node);
        let is_known = |node: &Address| self.table.get(node).is_some();
        self.splits.worse.retain(|node, _| is_known(node));
        let next = *self.splits.worse.entry(address).or_insert(self.now.monotonic + MIN_WORSE_TIME);
        if self.now.monotonic < next {
            return;
        }
        if let Ok(tip) = chain.tip() {
            self.splits.worse.insert(address, self.now.monotonic + QUERY_INTERVAL);
            self.query_lowest_hash(node, tip.height);
        }
    }

    /// Returns the lowest height to which a chain that ends at `last` can be rolled back.
    fn lowest_rollback_height(&self, last: Height) -> Height {
        Height(last.0.saturating_sub(self.settings.chain.rewrite_limit).max(1))
    }

    /// Queries a peer's hashes from the lowest height to which a chain that ends at `last` can be rolled back.
    fn query_lowest_hash(&mut self, node: &NodeInfo, last: Height) {
        let lowest = self.lowest_rollback_height(last);
        let purpose = RequestKind::LowestHash(self.address_of(node), lowest);
        self.queue_query(node, &Query::HashesFrom(lowest), purpose);
    }

    /// Processes a peer's hashes, or the failure of the request.
    pub(super) fn on_lowest_hash_reply(
        &mut self,
        node: Address,
        height: Height,
        completed: Completed,
        chain: &impl LocalChain,
    ) {
        let reported = self.read_answer::<HashChain>(completed);
        let Ok((HashChain(theirs), _)) = reported else { return };
        let Ok(ours) = chain.hashes_from(height, 1) else { return };
        match (ours.first(), theirs.first()) {
            (Some(ours), Some(theirs)) if ours != theirs => self.record_split(node),
            // The peer's chain ends below. It can still follow ours if it can roll back to a block of ours.
            (Some(_), None) => {
                let about = self.table.get(&node).map(|known| &known.data);
                let last = about.and_then(|about| Some((about.info.clone(), about.height?)));
                let last = last.filter(|(_, last)| self.lowest_rollback_height(*last) < height);
                if let Some((info, last)) = last {
                    self.query_lowest_hash(&info, last);
                }
            }
            (None, _) => {}
            _ => self.clear_split(&node),
        }
    }
}
