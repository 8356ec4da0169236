//! Pre-trusted peers that are configured by endpoint only. The key of the first answer is pinned until this node ends.

use super::mishap::Mishap;
use super::{About, Peers, describe};
use crate::peer::nodes::{LastTrouble, Node, Refused};
use crate::peer::outside::Now;
use crate::peer::wire::{Endpoint, NodeInfo};

/// Pre-trusted peer without a known key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpinned {
    /// Configured endpoint.
    pub endpoint: Endpoint,
    /// Last failure.
    pub last_trouble: Option<LastTrouble>,
}

impl Unpinned {
    /// Creates an entry for an endpoint.
    pub fn new(endpoint: Endpoint) -> Unpinned {
        Unpinned { endpoint, last_trouble: None }
    }
}

impl Peers {
    /// Pins the key of a pre-trusted peer that introduced itself at the endpoint in `told`. Returns `false` if the peer
    /// is this node, is listed at another endpoint, or finds no room.
    pub(super) fn pin(&mut self, told: &NodeInfo, now: Now) -> bool {
        let (address, endpoint) = (self.address_of(told), &told.endpoint);
        let is_elsewhere = |node: &Node<About>| node.is_pre_trusted && node.about.info.endpoint != *endpoint;
        if let Some(listed) = self.nodes.get(&address).filter(|node| is_elsewhere(node)) {
            let reason = format!("it says that it is {address}, which is listed at {}", listed.about.info.endpoint);
            self.unpinned_failed(endpoint, &Mishap::failure(reason), now);
            return false;
        }
        match self.list(told.clone()) {
            Ok(()) => {
                log::info!("the node at {endpoint} is {}", describe(told, &address));
                self.unpinned.retain(|unpinned| unpinned.endpoint != *endpoint);
                address != self.address
            }
            Err(refused) => {
                self.unpinned_failed(endpoint, &Mishap::failure(format!("it is not taken: {refused:?}")), now);
                false
            }
        }
    }

    /// Adds a pre-trusted peer at its configured endpoint, wherever else it was known or listed before.
    pub(super) fn list(&mut self, info: NodeInfo) -> Result<(), Refused> {
        let address = self.address_of(&info);
        if self.nodes.get(&address).is_some_and(|node| node.about.info.endpoint != info.endpoint) {
            self.nodes.remove(&address);
            self.forget_experiences(&address);
        }
        self.nodes.add_pre_trusted(address, About { info, height: None, score: None })
    }

    pub(super) fn unpinned_failed(&mut self, endpoint: &Endpoint, mishap: &Mishap, now: Now) {
        if let Some(unpinned) = self.unpinned.iter_mut().find(|unpinned| unpinned.endpoint == *endpoint) {
            let Mishap { trouble, reason } = mishap.clone();
            unpinned.last_trouble = Some(LastTrouble { at: now.running, trouble, reason });
        }
    }
}
