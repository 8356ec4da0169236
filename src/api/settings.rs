//! What the owner of the node decides about the interface.

use std::fmt;
use std::net::IpAddr;

use crate::codec::Context;
use crate::model::Address;

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

/// Settings of the interface.
pub struct Settings {
    /// The network whose addresses are valid.
    pub context: Context,
    /// Optional parts.
    pub features: Features,
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
            .field("limits_rate", &self.limits_rate)
            .field("allowed_harvesters", &self.allowed_harvesters)
            .finish_non_exhaustive()
    }
}
