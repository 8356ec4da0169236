//! Other nodes: who they are, how far they are trusted, and what is done with them when.
//!
//! | part | what it does |
//! |---|---|
//! | [`nodes`] | the nodes that are known, and what became of the last contact with each |
//! | [`experiences`] | how often nodes were of use to each other |
//! | [`trust`] | how far each node is trusted, and who is drawn as a partner |
//! | [`kept_peers`] | what is kept of other nodes over a restart |
//! | [`schedule`] | the tasks that recur, and when each is due |
//! | [`time_sync`] | network time, brought nearer to that of the others |
//! | [`height_check`] | whether this node has the chain that the others have |
//! | [`attempt`] | comparing the chain with that of one node |
//! | [`catch_up`] | fetching the blocks of a chain that is far ahead from several nodes |
//! | [`machine`] | what is done with all of that; [`outside`] is what it is driven through |
//! | [`nemesis_search`] | asks others for the nemesis block, before there is anything else to do with them |
//! | [`wire`] | what nodes tell each other, in bytes and JSON |
//! | [`random`] | chance, which is handed in |
//! | [`Load`] | how much is held of what has a limit |
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
