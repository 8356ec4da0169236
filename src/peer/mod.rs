//! Other nodes of the network (peers): their table, trust, requests, synchronisation, relay and network time.
//!
//! | module | purpose |
//! |---|---|
//! | [`nodes`] | table of known peers and the result of the last contact with each |
//! | [`experiences`] | success and failure counts between nodes |
//! | [`trust`] | trust values (EigenTrust++) and selection of peers by trust |
//! | [`kept_peers`] | peers saved over a restart |
//! | [`schedule`] | recurring tasks and their due times |
//! | [`time_sync`] | adjustment of network time to the peers' clocks |
//! | [`height_check`] | whether this node is synchronised, for its status |
//! | [`attempt`] | comparison of the chain with that of one peer |
//! | [`catch_up`] | download of a far longer chain from several peers |
//! | [`machine`] | state machine that drives all of the above; [`outside`] is its interface to the host |
//! | [`nemesis_search`] | download of the nemesis block by a node with an empty store |
//! | [`wire`] | peer messages in binary and JSON |
//! | [`random`] | injected randomness |
//! | [`Load`] | usage of bounded collections |
//!
//! Nothing here touches sockets, clocks or the system's randomness.

pub mod attempt;
pub mod catch_up;
pub mod experiences;
pub mod height_check;
pub mod kept_peers;
mod load;
pub mod machine;
pub mod nemesis_search;
pub mod nodes;
pub mod outside;
pub mod random;
pub mod schedule;
pub mod time_sync;
pub mod trust;
pub mod wire;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod testing;

pub use kept_peers::KeptPeers;
pub use load::Load;
pub use machine::calls::AuditEntry;
pub use machine::meetings::Meeting;
pub use machine::{
    About, IpDetection, Joined, KnownPeer, Largest, Outlook, PeerSettings, PeerView, Peers, PushResult, Pusher,
    Unpinned,
};
pub use nemesis_search::NemesisSearch;
