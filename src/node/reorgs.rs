//! Log lines about reorgs, and about peers on a chain that cannot be reconciled with ours.

use std::time::Duration;

use super::Node;
use crate::chain::{ChainUpdate, Reorg, ReplacedBlock};
use crate::model::{Address, Timestamp};
use crate::net::service::LoopTime;
use crate::peer::Manager;

/// Minimum interval between warnings about peers whose chain cannot be followed.
const SPLIT_WARNING_INTERVAL: Duration = Duration::from_secs(600);
/// Maximum number of addresses named in one line.
const MAX_NAMED: usize = 5;

impl Node<'_> {
    /// Records a chain update, and logs the blocks that it replaced.
    pub(super) fn note_reorg(&mut self, chain_update: &ChainUpdate, time: Timestamp) {
        let byte = self.network.byte;
        let harvester = &self.harvester;
        let is_own = |ReplacedBlock { hash, signer, .. }: &ReplacedBlock| {
            harvester.has_harvested(hash) || harvester.unlocked.contains(&Address::from_public_key(signer, byte))
        };
        let Some(reorg) = Reorg::of(chain_update, time, is_own) else { return };
        let harvester = |replaced: &ReplacedBlock| Address::from_public_key(&replaced.signer, byte);
        let mut harvesters: Vec<_> = reorg.replaced.iter().map(harvester).collect();
        harvesters.sort_unstable();
        harvesters.dedup();
        log::info!(
            "reorg: blocks {} to {} are replaced ({} back), the tip is now at height {}; they were harvested by {}; {} \
             transactions are unconfirmed again",
            reorg.common.next(),
            reorg.common.0 + reorg.replaced.len() as u64,
            reorg.replaced.len(),
            reorg.tip,
            format_addresses(&harvesters),
            reorg.returned
        );
        for ReplacedBlock { height, hash, .. } in reorg.own() {
            log::warn!(
                "the block {hash} that was harvested here is lost: another block replaced it at height {height}"
            );
        }
        self.reorgs.add(reorg);
    }

    /// Warns that peers are on a chain from which neither side can change to the other.
    pub(super) fn warn_of_splits(&mut self, now: LoopTime) {
        if now.monotonic < self.warn_split_at {
            return;
        }
        let Some(split) = self.peer_adapter.peers().map(|peers: &Manager| peers.split_peers(now.monotonic)) else {
            return;
        };
        // The check runs only at this interval.
        const CHECK_INTERVAL: Duration = Duration::from_secs(5);
        self.warn_split_at = now.monotonic + CHECK_INTERVAL;
        if split.nodes.is_empty() {
            return;
        }
        self.warn_split_at = now.monotonic + SPLIT_WARNING_INTERVAL;
        let is_majority = 2 * split.nodes.len() >= split.active;
        log::log!(
            if is_majority { log::Level::Error } else { log::Level::Warn },
            "the network is split for good: {} of {} active peers ({}) are on another chain, which branches off more \
             than {} blocks back, so neither side can switch to the other's chain. Decide which chain to keep; stop \
             the nodes of the other, move data.mdb, lock.mdb and nisd.lock out of their data folders, and start them \
             again with the list of peers: they download the chain that is kept. See `nisd help trouble`",
            split.nodes.len(),
            split.active,
            format_addresses(&split.nodes),
            self.network.chain.rewrite_limit
        );
    }
}

/// Formats the first addresses, and the number of the rest.
fn format_addresses(addresses: &[Address]) -> String {
    let names: Vec<_> = addresses.iter().take(MAX_NAMED).map(Address::as_str).collect();
    let more = addresses.len().saturating_sub(MAX_NAMED);
    names.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
}
