//! Log lines about reorgs, and about peers on a chain that cannot be reconciled with ours.

use std::time::Duration;

use super::Node;
use crate::chain::{Reorg, Replaced, Switch};
use crate::model::{Address, Timestamp};
use crate::net::machine::Moment;
use crate::peer::Peers;

/// Minimum interval between warnings about peers whose chain cannot be followed.
const TELL_OF_SPLITS_EVERY: Duration = Duration::from_secs(600);
/// Maximum number of addresses named in one line.
const MOST_NAMED: usize = 5;

impl Node<'_> {
    /// Records a chain update, and logs the blocks that it replaced.
    pub(super) fn note_reorg(&mut self, switch: &Switch, time: Timestamp) {
        let byte = self.network.byte;
        let harvester = &self.harvester;
        let is_own = |Replaced { hash, signer, .. }: &Replaced| {
            harvester.has_harvested(hash) || harvester.unlocked.contains(&Address::from_public_key(signer, byte))
        };
        let Some(reorg) = Reorg::of(switch, time, is_own) else { return };
        let harvester = |replaced: &Replaced| Address::from_public_key(&replaced.signer, byte);
        let mut harvesters: Vec<_> = reorg.replaced.iter().map(harvester).collect();
        harvesters.sort_unstable();
        harvesters.dedup();
        log::info!(
            "reorg: blocks {} to {} are replaced ({} back), the chain ends at {} now; they were harvested by {}; {} \
             transactions are unconfirmed again",
            reorg.common.next(),
            reorg.common.0 + reorg.replaced.len() as u64,
            reorg.replaced.len(),
            reorg.last,
            named(&harvesters),
            reorg.returned
        );
        for Replaced { height, hash, .. } in reorg.own() {
            log::warn!("the block {hash} that was harvested here is lost: another one has its height {height}");
        }
        self.reorgs.note(reorg);
    }

    /// Warns that peers are on a chain from which neither side can change to the other.
    pub(super) fn tell_of_splits(&mut self, now: Moment) {
        if now.running < self.tell_apart_at {
            return;
        }
        let Some(apart) = self.partners.peers().map(|peers: &Peers| peers.apart(now.running)) else { return };
        // The check runs only at this interval.
        const LOOK_EVERY: Duration = Duration::from_secs(5);
        self.tell_apart_at = now.running + LOOK_EVERY;
        if apart.nodes.is_empty() {
            return;
        }
        self.tell_apart_at = now.running + TELL_OF_SPLITS_EVERY;
        let is_most = 2 * apart.nodes.len() >= apart.active;
        log::log!(
            if is_most { log::Level::Error } else { log::Level::Warn },
            "the network is split for good: {} of {} active nodes ({}) have another chain, which has left this one more than \
             {} blocks back, so that neither side can change to the other's. Decide which chain is to stay; stop the nodes \
             of the other, move data.mdb, lock.mdb and nisd.lock out of their data folders, and start them again with the \
             list of peers: they fetch the chain that stays. `nisd help trouble` says more",
            apart.nodes.len(),
            apart.active,
            named(&apart.nodes),
            self.network.chain.rewrite_limit
        );
    }
}

/// Formats the first addresses, and the number of the rest.
fn named(addresses: &[Address]) -> String {
    let names: Vec<_> = addresses.iter().take(MOST_NAMED).map(Address::as_str).collect();
    let more = addresses.len().saturating_sub(MOST_NAMED);
    names.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
}
