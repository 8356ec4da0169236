//! Nodes as processes that talk to each other.

mod announcing;
#[path = "../common/mod.rs"]
mod common;
mod fetching;
mod first_synchronisation;
mod harvesting;
mod joining;
mod lying_peers;
#[path = "../common/members.rs"]
mod members;
#[path = "../common/namespaces.rs"]
mod namespaces;
mod network;
mod network_of_five;
mod partition;
#[path = "../common/recorded_chain.rs"]
mod recorded_chain;
mod restarts;
#[path = "../common/scripted_peer.rs"]
mod scripted_peer;
mod two_machines;
#[path = "../common/wallets.rs"]
mod wallets;
