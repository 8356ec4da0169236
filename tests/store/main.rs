//! The store, also on failing disks.

#[path = "../common/answering_node.rs"]
mod answering_node;
mod backup;
#[path = "../common/mod.rs"]
mod common;
mod crash;
mod disk_trouble;
mod mutated_stores;
mod power_cuts;
#[path = "../common/recorded_chain.rs"]
mod recorded_chain;
mod reindex;
mod slow_disk;
