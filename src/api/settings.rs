//! What the owner of the node decides about the interface.

use std::fmt;
use std::net::IpAddr;

use crate::model::Address;
use crate::net::machine::ListenerId;

/// Optional parts of the interface (`nis.optionalFeatures`).
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
    /// Path in front of all others (`nem.apiContext`): empty, or begins with `/` and does not end with it.
    pub context_path: String,
    /// Whether answers may be sent compressed.
    pub compress: bool,
    /// Optional parts.
    pub features: Features,
    /// Whether the address of a caller counts as local: the loopback addresses and `nis.additionalLocalIps`.
    pub is_local: Box<dyn Fn(IpAddr) -> bool>,
    /// Names and addresses by which this machine is known, besides the loopback ones: a browser that names one of them
    /// speaks to this node on purpose. An IPv6 address is without brackets.
    pub host_names: Vec<String>,
    /// Origins such as `http://127.0.0.1:3000` whose pages have the rights of local clients (`nisd.localOrigins`), besides
    /// that of this interface.
    pub local_origins: Vec<String>,
    /// Whether hashes are forgotten as the protocol forgets them (`nisd.forgetHashes`), so that transactions are not found
    /// by them any more.
    pub forgets_hashes: bool,
    /// Accounts whose private keys requests may bring (`nis.allowedHarvesterAddresses`); empty allows all.
    pub allowed_harvesters: Vec<Address>,
    /// Paths of requests that `/debug/connections/incoming` does not tell of (`nem.nonAuditedApiPaths`).
    pub unaudited_paths: Vec<String>,
    /// Bytes that the body of a request may have by which another node passes on a block or a list, as follows from the
    /// parameters of the chain.
    pub pushed_bytes: usize,
    /// Leading bits of an IPv6 address that make one client, 0 to 128.
    pub ipv6_prefix: u8,
    /// A listener by which anybody may ask for the figures, and for nothing else.
    pub metrics_listener: ListenerId,
}

impl Settings {
    /// A path without the context path. One outside of it is empty, which no route is.
    pub fn inner_path<'p>(&self, path: &'p str) -> &'p str {
        let inner = path.strip_prefix(self.context_path.as_str());
        inner.filter(|inner| inner.starts_with('/')).unwrap_or_default()
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("context_path", &self.context_path)
            .field("compress", &self.compress)
            .field("features", &self.features)
            .field("forgets_hashes", &self.forgets_hashes)
            .field("host_names", &self.host_names)
            .field("local_origins", &self.local_origins)
            .field("allowed_harvesters", &self.allowed_harvesters)
            .field("unaudited_paths", &self.unaudited_paths)
            .field("pushed_bytes", &self.pushed_bytes)
            .finish_non_exhaustive()
    }
}
