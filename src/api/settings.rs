//! Settings of the HTTP interface.

use std::fmt;
use std::net::IpAddr;

use crate::model::Address;
use crate::net::service::ListenerId;

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
    /// Returns the feature bits of the node's metadata.
    pub fn bits(self) -> u32 {
        u32::from(self.transaction_hash_lookup)
            | u32::from(self.historical_account_data) << 1
            | u32::from(self.track_expired_mosaics) << 2
    }
}

/// Settings of the HTTP interface.
pub struct Settings {
    /// Prefix of all paths (`nem.apiContext`): empty, or begins with `/` and does not end with it.
    pub context_path: String,
    /// Whether responses may be compressed.
    pub compress: bool,
    /// Optional parts.
    pub features: Features,
    /// Whether a client address counts as local: the loopback addresses and `nis.additionalLocalIps`.
    pub is_local: Box<dyn Fn(IpAddr) -> bool>,
    /// Names and addresses of this machine besides the loopback ones. A browser that names one of them addresses this
    /// node on purpose. IPv6 addresses have no brackets.
    pub host_names: Vec<String>,
    /// Origins such as `http://127.0.0.1:3000` whose pages have local access (`nisd.localOrigins`), besides its own.
    pub local_origins: Vec<String>,
    /// Whether old hashes are pruned as in the protocol, and not found any more (`nisd.forgetHashes`).
    pub prunes_hashes: bool,
    /// Accounts whose private keys requests may contain (`nis.allowedHarvesterAddresses`); empty allows all.
    pub allowed_harvesters: Vec<Address>,
    /// Paths that `/debug/connections/incoming` excludes (`nem.nonAuditedApiPaths`).
    pub unaudited_paths: Vec<String>,
    /// Maximum size in bytes of a body in which a peer pushes a block or a list, derived from the chain parameters.
    pub max_pushed_bytes: usize,
    /// Prefix length of an IPv6 address that identifies one client, 0 to 128.
    pub ipv6_prefix: u8,
    /// Listener on which any client may request the metrics, and nothing else.
    pub metrics_listener: ListenerId,
}

impl Settings {
    /// Strips the context path. A path outside of it yields an empty path, which no route has.
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
            .field("forgets_hashes", &self.prunes_hashes)
            .field("host_names", &self.host_names)
            .field("local_origins", &self.local_origins)
            .field("allowed_harvesters", &self.allowed_harvesters)
            .field("unaudited_paths", &self.unaudited_paths)
            .field("pushed_bytes", &self.max_pushed_bytes)
            .finish_non_exhaustive()
    }
}
