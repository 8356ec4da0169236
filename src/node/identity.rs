//! What a node tells of itself.

use crate::api::NodeDescription;
use crate::config::Settings;
use crate::crypto::{KeyPair, PrivateKey};
use crate::model::{Address, Timestamp};

/// The description of a node with these settings. Without a boot key it is known by one that is made from `seed`.
pub fn describe(settings: &Settings, seed: &[u8; 32], now: Timestamp) -> NodeDescription {
    let configured = settings.boot.key.as_ref().and_then(|key| PrivateKey::from_hex(key.expose_hex()).ok());
    let public_key = KeyPair::new(&configured.unwrap_or_else(|| PrivateKey::from_seed(seed))).public();
    let address = || Address::from_public_key(&public_key, settings.network.byte).to_string();
    let endpoint = &settings.endpoint;
    NodeDescription {
        public_key,
        name: settings.boot.name.clone().unwrap_or_else(address),
        protocol: endpoint.protocol,
        host: endpoint.host.clone(),
        port: endpoint.port,
        platform: format!("nisd ({}) on {}", env!("CARGO_PKG_VERSION"), std::env::consts::OS),
        features: settings.features.bits(),
        network: settings.network.byte,
        started: now,
    }
}
