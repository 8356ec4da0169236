//! What the owner of the node decides about the interface.

use std::fmt;
use std::net::IpAddr;

use crate::codec::Context;
use crate::crypto::PublicKey;
use crate::model::{Address, NetworkByte, Timestamp};

/// Optional parts of the interface (`nis.optionalFeatures`, specification 06 §2.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// `TRANSACTION_HASH_LOOKUP`.
    pub transaction_hash_lookup: bool,
    /// `HISTORICAL_ACCOUNT_DATA`.
    pub historical_account_data: bool,
    /// `TRACK_EXPIRED_MOSAICS`.
    pub track_expired_mosaics: bool,
}

impl Features {
    /// The bits in the node's meta data.
    pub fn bits(self) -> u32 {
        u32::from(self.transaction_hash_lookup)
            | u32::from(self.historical_account_data) << 1
            | u32::from(self.track_expired_mosaics) << 2
    }
}

/// What the node tells of itself (specification 06 §6.8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDescription {
    /// The key that it is known by.
    pub public_key: PublicKey,
    /// What people call it.
    pub name: String,
    /// `http` or `https`.
    pub protocol: &'static str,
    /// Host name or address.
    pub host: String,
    /// Port of the HTTP interface.
    pub port: u16,
    /// What it runs on.
    pub platform: String,
    /// Bits of the optional features ([`Features::bits`]).
    pub features: u32,
    /// Its network.
    pub network: NetworkByte,
    /// Network time at which it was started.
    pub started: Timestamp,
}

impl NodeDescription {
    /// The version of NIS1 that the node is compatible with, which other nodes look at (specification 05 §4.4).
    pub const PROTOCOL_VERSION: &'static str = "0.6.102";
}

/// Settings of the interface.
pub struct Settings {
    /// The network whose addresses are valid.
    pub context: Context,
    /// Optional parts.
    pub features: Features,
    /// What the node tells of itself.
    pub node: NodeDescription,
    /// Whether the rate of requests from one address is limited (`nem.useDosFilter`).
    pub limits_rate: bool,
    /// Whether a caller counts as local: the loopback addresses and `nis.additionalLocalIps`.
    pub is_local: Box<dyn Fn(IpAddr) -> bool>,
    /// Accounts whose private keys requests may bring (`nis.allowedHarvesterAddresses`); empty allows all.
    pub allowed_harvesters: Vec<Address>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("context", &self.context)
            .field("features", &self.features)
            .field("node", &self.node)
            .field("limits_rate", &self.limits_rate)
            .field("allowed_harvesters", &self.allowed_harvesters)
            .finish_non_exhaustive()
    }
}
