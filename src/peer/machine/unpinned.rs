//! Nodes of the operator's list of which only the endpoint is known: the key with which such a node first answers is the
//! one it has from then on, until this node ends.

use super::mishap::Mishap;
use super::{About, Peers, describe};
use crate::peer::nodes::{LastTrouble, Node, Refused};
use crate::peer::outside::Now;
use crate::peer::wire::{Endpoint, NodeInfo};

/// A node of the operator's list that has not said yet who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpinned {
    /// Where it is reached.
    pub endpoint: Endpoint,
    /// Why it was not reached.
    pub last_trouble: Option<LastTrouble>,
}

impl Unpinned {
    /// A node at this endpoint.
    pub fn new(endpoint: Endpoint) -> Unpinned {
        Unpinned { endpoint, last_trouble: None }
    }
}

impl Peers {
    /// A node of the operator's list has said, at its endpoint in `told`, who it is. Returns whether it is another than this
    /// one, there is room for it, and it is not listed elsewhere.
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

    /// Takes a node of the operator's list. From now on it is where this says, wherever else it was known or listed before.
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
