//! As whom a node is known.

use std::rc::Rc;

use crate::api::{BootRequest, NodeDescription};
use crate::config::Settings;
use crate::crypto::{KeyPair, PrivateKey, Signature};
use crate::model::{Address, Timestamp};
use crate::peer::Peers;
use crate::peer::wire::{self, Challenge, MetaData, NodeInfo};

/// A node's key, what it tells of itself, and whether it has joined its network.
pub struct Identity {
    pair: Rc<KeyPair>,
    pub description: NodeDescription,
    pub is_booted: bool,
}

impl Identity {
    /// That of a node with these settings. Without a boot key it is known by one that nobody has ever had.
    pub fn new(settings: &Settings, new_key: PrivateKey, now: Timestamp) -> Identity {
        let configured = settings.boot.key.as_ref().and_then(|key| PrivateKey::from_hex(key.expose_hex()).ok());
        let pair = KeyPair::new(&configured.unwrap_or(new_key));
        let address = || Address::from_public_key(&pair.public(), settings.network.byte).to_string();
        let platform = format!("nisd ({}) on {}", env!("CARGO_PKG_VERSION"), std::env::consts::OS);
        let info = NodeInfo {
            identity: wire::Identity {
                key: pair.public(),
                name: Some(settings.boot.name.clone().unwrap_or_else(address)),
            },
            endpoint: settings.endpoint.clone(),
            meta_data: MetaData {
                version: settings.announced_version.clone(),
                platform: Some(platform),
                application: None,
                features: settings.features.bits() as i32,
                network_id: MetaData::network_id_of(settings.network.byte),
            },
        };
        let description = NodeDescription { info, started: now };
        let is_booted = settings.boot.auto || settings.boot.key.is_some();
        Identity { pair: Rc::new(pair), description, is_booted }
    }

    /// Joins the network as another.
    pub fn boot(&mut self, request: BootRequest) {
        let BootRequest { private_key, name, endpoint, application } = request;
        self.pair = Rc::new(KeyPair::new(&private_key));
        let NodeInfo { identity, endpoint: own_endpoint, meta_data } = &mut self.description.info;
        *identity = wire::Identity { key: self.pair.public(), name };
        *own_endpoint = endpoint;
        meta_data.application = application;
        self.is_booted = true;
    }

    /// Takes note of where others see it.
    pub fn seen_at(&mut self, peers: Option<&Peers>) {
        if let Some(peers) = peers.filter(|peers| peers.local().endpoint != self.description.info.endpoint) {
            self.description.info.endpoint = peers.local().endpoint.clone();
        }
    }

    /// Its key, for what it tells others.
    pub fn keys(&self) -> Rc<KeyPair> {
        Rc::clone(&self.pair)
    }

    /// Signs the challenge of another node.
    pub fn sign_challenge(&self, challenge: &Challenge) -> Signature {
        challenge.sign(&self.pair)
    }
}
