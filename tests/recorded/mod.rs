//! Chains and conversations recorded from NIS1.

mod account_history;
mod announced_transactions;
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
mod transactions_by_hash;
