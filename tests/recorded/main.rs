//! Chains and conversations recorded from NIS1.

mod account_history;
mod announced_transactions;
#[path = "../common/answering_node.rs"]
mod answering_node;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/members.rs"]
mod members;
#[path = "../common/peer_recording.rs"]
mod peer_recording;
#[path = "../common/recorded_chain.rs"]
mod recorded_chain;
mod recorded_chains;
mod recorded_configs;
mod recorded_forks;
mod recorded_history;
mod recorded_network;
mod recorded_peers;
mod recorded_peers_answering;
mod recorded_peers_asking;
mod recorded_pools;
mod rejected_blocks;
#[path = "../common/remote.rs"]
mod remote;
mod transactions_by_hash;
