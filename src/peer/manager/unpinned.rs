//! Pre-trusted peers that are configured by endpoint only. The key of the first answer is pinned until this node ends.

use super::{Manager, PeerInfo, describe};
use crate::peer::error::PeerError;
use crate::peer::io::Now;
use crate::peer::peer_table::{AddError, LastFailure, PeerEntry};
use crate::peer::wire::{Endpoint, NodeInfo};

/// Pre-trusted peer without a known key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpinned {
    /// Configured endpoint.
    pub endpoint: Endpoint,
    /// Last failure.
    pub last_failure: Option<LastFailure>,
}

impl Unpinned {
    /// Creates an entry for an endpoint.
    pub fn new(endpoint: Endpoint) -> Unpinned {
        Unpinned { endpoint, last_failure: None }
    }
}

impl Manager {
    /// Pins the key of a pre-trusted peer that introduced itself at the endpoint in `told`. Returns `false` if the peer
    /// is this node, is listed at another endpoint, or finds no room.
    pub(super) fn pin(&mut self, reported: &NodeInfo, now: Now) -> bool {
        let (address, endpoint) = (self.address_of(reported), &reported.endpoint);
        let is_elsewhere = |node: &PeerEntry<PeerInfo>| node.is_pre_trusted && node.data.info.endpoint != *endpoint;
        if let Some(listed) = self.table.get(&address).filter(|node| is_elsewhere(node)) {
            let reason = format!("it identifies as {address}, which is listed at {}", listed.data.info.endpoint);
            self.on_unpinned_failed(endpoint, PeerError::failure(reason), now);
            return false;
        }
        match self.add_pre_trusted_peer(reported.clone()) {
            Ok(()) => {
                log::info!("the node at {endpoint} is {}", describe(reported, &address));
                self.unpinned.retain(|unpinned| unpinned.endpoint != *endpoint);
                address != self.address
            }
            Err(refused) => {
                self.on_unpinned_failed(endpoint, PeerError::failure(format!("it is not added: {refused:?}")), now);
                false
            }
        }
    }

    /// Adds a pre-trusted peer at its configured endpoint, wherever else it was known or listed before.
    pub(super) fn add_pre_trusted_peer(&mut self, info: NodeInfo) -> Result<(), AddError> {
        let address = self.address_of(&info);
        if self.table.get(&address).is_some_and(|node| node.data.info.endpoint != info.endpoint) {
            self.table.remove(&address);
            self.forget_experiences(&address);
        }
        self.table.add_pre_trusted(address, PeerInfo { info, height: None, score: None })
    }

    pub(super) fn on_unpinned_failed(&mut self, endpoint: &Endpoint, error: PeerError, now: Now) {
        if let Some(unpinned) = self.unpinned.iter_mut().find(|unpinned| unpinned.endpoint == *endpoint) {
            unpinned.last_failure = Some(LastFailure { at: now.monotonic, error });
        }
    }
}
