//! As whom a node is known.

use crate::api::{BootRequest, Endpoint, NodeDescription};
use crate::config::Settings;
use crate::crypto::{KeyPair, PrivateKey, Signature};
use crate::model::{Address, Timestamp};

/// What a node signs in front of its key and the challenge of another.
const CHALLENGE_PREFIX: &[u8] = b"nem trust challenge:";

/// A node's key, what it tells of itself, and whether it has joined its network.
pub struct Identity {
    pair: KeyPair,
    pub description: NodeDescription,
    pub is_booted: bool,
}

impl Identity {
    /// That of a node with these settings. Without a boot key it is known by one that nobody has ever had.
    pub fn new(settings: &Settings, new_key: PrivateKey, now: Timestamp) -> Identity {
        let configured = settings.boot.key.as_ref().and_then(|key| PrivateKey::from_hex(key.expose_hex()).ok());
        let pair = KeyPair::new(&configured.unwrap_or(new_key));
        let address = || Address::from_public_key(&pair.public(), settings.network.byte).to_string();
        let endpoint = &settings.endpoint;
        let description = NodeDescription {
            public_key: pair.public(),
            name: Some(settings.boot.name.clone().unwrap_or_else(address)),
            endpoint: Endpoint { protocol: endpoint.protocol, host: endpoint.host.clone(), port: endpoint.port.into() },
            platform: format!("nisd ({}) on {}", env!("CARGO_PKG_VERSION"), std::env::consts::OS),
            application: None,
            features: settings.features.bits(),
            network: settings.network.byte,
            started: now,
        };
        let is_booted = settings.boot.auto || settings.boot.key.is_some();
        Identity { pair, description, is_booted }
    }

    /// Joins the network as another.
    pub fn boot(&mut self, request: BootRequest) {
        let BootRequest { private_key, name, endpoint, application } = request;
        self.pair = KeyPair::new(&private_key);
        let public_key = self.pair.public();
        self.description = NodeDescription { public_key, name, endpoint, application, ..self.description.clone() };
        self.is_booted = true;
    }

    /// Signs the challenge of another node.
    pub fn sign_challenge(&self, challenge: &[u8]) -> Signature {
        self.pair.sign(&[CHALLENGE_PREFIX, &self.description.public_key.0, challenge].concat())
    }
}
