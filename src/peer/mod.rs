//! Other nodes of the network (peers): their table, trust, requests, synchronisation, relay and network time.
//!
//! | module | purpose |
//! |---|---|
//! | [`peer_entry`] | what is known of a peer, the result of the last contact with it, errors of requests |
//! | [`peer_table`] | table of known peers |
//! | [`trust`] | experiences of nodes with each other, trust values (EigenTrust++), selection of peers by trust |
//! | [`saved_peers`] | peers saved over a restart |
//! | [`schedule`] | recurring tasks and their due times |
//! | [`time_sync`] | adjustment of network time to the peers' clocks |
//! | [`chain_comparison`] | comparison of the chain with that of one peer |
//! | [`block_download`] | download of a far longer chain from several peers |
//! | [`manager`] | state machine that drives all of the above; [`io`] is its interface to the host |
//! | [`wire`] | peer messages in binary and JSON |
//! | [`LimitUsage`] | usage of bounded collections |
//!
//! Nothing here touches sockets, clocks or the system's randomness.

pub mod block_download;
pub mod chain_comparison;
pub mod io;
pub mod manager;
pub mod peer_entry;
pub mod peer_table;
pub mod saved_peers;
pub mod schedule;
pub mod time_sync;
pub mod trust;
pub mod wire;

#[cfg(test)]
pub(crate) mod tests;

pub use manager::probes::UnidentifiedPeer;
pub use manager::requests::RequestRecord;
pub use manager::{IpDetection, ListedPeer, Manager, PeerSettings, Pusher};
pub use saved_peers::SavedPeers;

/// Usage and limit of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitUsage {
    /// Name of the collection, for people.
    pub name: &'static str,
    /// Used entries or bytes.
    pub used: usize,
    /// Maximum entries or bytes.
    pub max: usize,
}

impl LimitUsage {
    /// Creates a usage entry.
    pub fn new(name: &'static str, used: usize, max: usize) -> LimitUsage {
        LimitUsage { name, used, max }
    }
}
