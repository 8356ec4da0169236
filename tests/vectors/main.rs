//! The rules, the state and the codecs against vectors, and against random transactions.

mod chain_properties;
#[path = "../bench/chains/mod.rs"]
mod chains;
#[path = "../common/mod.rs"]
mod common;
mod consensus_vectors;
mod crypto_vectors;
mod encoding_vectors;
mod generated_chains;
#[path = "../common/mutation.rs"]
mod mutation;
mod peer_trust_vectors;
mod peer_wire_vectors;
mod poi_vectors;
mod random_transactions;
#[path = "../common/recorded_chain.rs"]
mod recorded_chain;
#[path = "../common/remote.rs"]
mod remote;
mod rules_vectors;
mod state_vectors;
mod symbol_nem_vectors;
#[path = "../common/window.rs"]
mod window;
#[path = "../common/wire_forms.rs"]
mod wire_forms;
