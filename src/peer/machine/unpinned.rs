//! Nodes of the operator's list of which only the endpoint is known: the key with which such a node first answers is the
//! one it has from then on, until this node ends.

use super::mishap::Mishap;
use super::{About, Peers, describe};
use crate::peer::nodes::LastTrouble;
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
    /// A node of the operator's list has said who it is. Returns whether it is another than this one, and there is room
    /// for it.
    pub(super) fn pin(&mut self, endpoint: &Endpoint, told: &NodeInfo, now: Now) -> bool {
        let address = self.address_of(told);
        let about = About { info: told.clone(), height: None, score: None };
        match self.nodes.add_pre_trusted(address, about) {
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

    pub(super) fn unpinned_failed(&mut self, endpoint: &Endpoint, mishap: &Mishap, now: Now) {
        if let Some(unpinned) = self.unpinned.iter_mut().find(|unpinned| unpinned.endpoint == *endpoint) {
            let Mishap { trouble, reason } = mishap.clone();
            unpinned.last_trouble = Some(LastTrouble { at: now.running, trouble, reason });
        }
    }
}
