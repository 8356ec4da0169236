//! The node's identity.

use std::rc::Rc;

use crate::api::BootRequest;
use crate::config::Settings;
use crate::crypto::{KeyPair, PrivateKey};
use crate::model::{Address, Timestamp};
use crate::peer::wire::{self, MetaData, NodeInfo};

/// The node's key, what others see of it, and whether it has joined its network.
pub struct Identity {
    /// Signs the node's messages.
    pub keys: Rc<KeyPair>,
    /// What peers see of the node.
    pub info: NodeInfo,
    /// Network time of its start.
    pub started: Timestamp,
    pub is_booted: bool,
}

impl Identity {
    /// Creates the identity from the settings. Without a configured boot key the node uses `new_key`, a fresh key.
    pub fn new(settings: &Settings, new_key: PrivateKey, now: Timestamp) -> Identity {
        let keys = KeyPair::new(settings.node.boot_key.as_ref().unwrap_or(&new_key));
        let address = || Address::from_public_key(&keys.public(), settings.network.byte).to_string();
        let platform = format!("nisd ({}) on {}", env!("CARGO_PKG_VERSION"), std::env::consts::OS);
        let info = NodeInfo {
            identity: wire::Identity {
                key: keys.public(),
                name: Some(settings.node.boot_name.clone().unwrap_or_else(address)),
            },
            endpoint: settings.endpoint.clone(),
            meta_data: MetaData {
                version: settings.peers.announced_version.clone(),
                platform: Some(platform),
                application: None,
                features: settings.node.features.bits() as i32,
                network_id: MetaData::network_id_of(settings.network.byte),
            },
        };
        let is_booted = settings.node.auto_boot || settings.node.boot_key.is_some();
        Identity { keys: Rc::new(keys), info, started: now, is_booted }
    }

    /// Joins the network with the identity of the request.
    pub fn boot(&mut self, request: BootRequest) {
        let BootRequest { private_key, name, endpoint, application } = request;
        self.keys = Rc::new(KeyPair::new(&private_key));
        let NodeInfo { identity, endpoint: own_endpoint, meta_data } = &mut self.info;
        *identity = wire::Identity { key: self.keys.public(), name };
        *own_endpoint = endpoint;
        meta_data.application = application;
        self.is_booted = true;
    }
}
