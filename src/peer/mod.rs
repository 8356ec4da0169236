//! Other nodes of the network (peers): their table, trust, requests, synchronisation, relay and network time.
//!
//! | module | purpose |
//! |---|---|
//! | [`peer_table`] | table of known peers and the result of the last contact with each |
//! | [`error`] | errors of requests to peers |
//! | [`experiences`] | success and failure counts between nodes |
//! | [`trust`] | trust values (EigenTrust++) and selection of peers by trust |
//! | [`saved_peers`] | peers saved over a restart |
//! | [`schedule`] | recurring tasks and their due times |
//! | [`time_sync`] | adjustment of network time to the peers' clocks |
//! | [`height_check`] | whether this node is synchronised, for its status |
//! | [`chain_comparison`] | comparison of the chain with that of one peer |
//! | [`block_download`] | download of a far longer chain from several peers |
//! | [`manager`] | state machine that drives all of the above; [`io`] is its interface to the host |
//! | [`nemesis_search`] | download of the nemesis block by a node with an empty store |
//! | [`wire`] | peer messages in binary and JSON |
//! | [`random`] | injected randomness |
//! | [`LimitUsage`] | usage of bounded collections |
//!
//! Nothing here touches sockets, clocks or the system's randomness.

pub mod block_download;
pub mod chain_comparison;
pub mod error;
pub mod experiences;
pub mod height_check;
pub mod io;
mod limit_usage;
pub mod manager;
pub mod nemesis_search;
pub mod peer_table;
pub mod random;
pub mod saved_peers;
pub mod schedule;
pub mod time_sync;
pub mod trust;
pub mod wire;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod testing;

pub use limit_usage::LimitUsage;
pub use manager::request_queue::AuditEntry;
pub use manager::signs_of_life::SignOfLifeResult;
pub use manager::{
    IpDetection, Joined, Manager, MaxHeight, PeerInfo, PeerSettings, PreTrustedPeer, PushResult, Pusher, SyncProgress,
    Unpinned,
};
pub use nemesis_search::NemesisSearch;
pub use saved_peers::SavedPeers;
