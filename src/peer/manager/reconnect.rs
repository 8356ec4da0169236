//! Return to the network after a restart: contacts the saved peers, and suspends harvesting until one of the known
//! peers has answered at its known endpoint. Otherwise it would extend a chain of its own until peers find it.

use std::time::Duration;

use super::probes::{Probe, ProbeReason};
use super::{Manager, PeerInfo};
use crate::model::{Address, Timestamp};
use crate::peer::io::Now;
use crate::peer::peer_table::PeerEntry;
use crate::peer::saved_peers::{MAX_SAVED, SavedPeer};
use crate::peer::wire::Endpoint;

/// Maximum time for which a node that knew peers does not harvest if none of them answers.
pub const MAX_WAIT: Duration = Duration::from_secs(60);
/// Maximum number of saved peers that a refresh probes.
pub const MAX_PROBES: usize = 24;
/// Failures after which a saved peer is probed only while no peer is active.
const MAX_ATTEMPTS: u32 = 5;

/// State of the return.
#[derive(Debug, Default)]
pub struct Reconnect {
    /// Saved peers, latest answer first.
    saved: Vec<Address>,
    /// Whether any peer was known when the node joined.
    had_peers: bool,
    /// Whether a peer known at the start has answered at its endpoint.
    pub(super) has_answer: bool,
    /// When the node joined the network.
    joined: Option<Duration>,
}

impl Manager {
    /// Adds saved peers to the table at their saved endpoints, so that no other node can claim their names.
    pub fn add_saved_peers(&mut self, kept: &[SavedPeer]) {
        for SavedPeer { info, .. } in kept.iter().take(MAX_SAVED) {
            let (address, ip) = (self.address_of(info), info.endpoint.address());
            if address == self.address {
                continue;
            }
            let about = PeerInfo { info: info.clone(), height: None, score: None };
            match self.table.add_saved(address, ip, about) {
                Ok(()) => self.reconnect.saved.push(address),
                Err(refused) => log::debug!("saved peer {address} is not added: {refused:?}"),
            }
        }
    }

    /// Returns the peers that have answered since the start, to be saved.
    pub fn to_save(&self, now: Now) -> impl Iterator<Item = SavedPeer> {
        self.table.iter().filter_map(move |(_, node)| {
            let ago = now.monotonic.saturating_sub(node.last_contact?).as_secs();
            let answered = now.network.0.saturating_sub(i32::try_from(ago).unwrap_or(i32::MAX)).max(0);
            Some(SavedPeer { info: node.data.info.clone(), answered: Timestamp(answered) })
        })
    }

    /// Returns the time before which no block may be harvested. It is in the past once a peer known at the start has
    /// answered, or if there was none.
    pub fn harvesting_blocked_until(&self, now: Duration) -> Duration {
        let end = self.reconnect.joined.map_or(Duration::MAX, |joined| joined + MAX_WAIT);
        match self.reconnect.had_peers && now < end && !self.reconnect.has_answer {
            true => end,
            false => Duration::ZERO,
        }
    }

    /// Starts the wait when the node joins the network.
    pub(super) fn start_reconnect(&mut self, now: Now) {
        let others = self.table.len() + self.unpinned.len();
        self.reconnect.joined = Some(now.monotonic);
        self.reconnect.had_peers = others > 0;
        if others > 0 {
            log::info!(
                "saved and listed peers: {others}; harvesting starts when one has answered, or after {} s",
                MAX_WAIT.as_secs()
            );
        }
    }

    /// Returns the saved peers that have not answered since the start, fewest failures first, at most [`MAX_PROBES`].
    fn unanswered_saved_peers(&self) -> Vec<(&Address, &PeerEntry<PeerInfo>)> {
        let is_kept = |node: &PeerEntry<PeerInfo>| !node.is_pre_trusted && node.last_contact.is_none();
        let known = self.reconnect.saved.iter().filter_map(|address| Some((address, self.table.get(address)?)));
        let mut kept: Vec<_> = known.filter(|(_, node)| is_kept(node)).collect();
        kept.sort_by_key(|(_, node)| node.failures);
        kept.truncate(MAX_PROBES);
        kept
    }

    /// Returns the endpoints of saved peers that have not answered.
    pub(super) fn saved_endpoints(&self) -> Vec<Endpoint> {
        self.unanswered_saved_peers().into_iter().map(|(_, node)| node.data.info.endpoint.clone()).collect()
    }

    /// Returns probes of saved peers that have not answered and are not selected already.
    pub(super) fn reconnect_probes(&self, drawn: &[Address]) -> Vec<(Address, Probe)> {
        let is_alone = !self.has_active_node();
        let is_asked = |node: &PeerEntry<PeerInfo>| is_alone || node.failures < MAX_ATTEMPTS;
        let kept = self
            .unanswered_saved_peers()
            .into_iter()
            .filter(|(address, node)| is_asked(node) && !drawn.contains(address));
        kept.map(|(address, node)| (*address, Probe::new(&node.data.info, ProbeReason::Selected))).collect()
    }
}
