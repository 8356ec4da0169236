//! The rules, the state and the codecs against vectors, and against random transactions.

#[path = "../bench/chains/mod.rs"]
mod chains;
mod consensus_vectors;
mod crypto_vectors;
mod encoding_vectors;
mod generated_chains;
mod ledger;
mod peer_trust_vectors;
mod peer_wire_vectors;
mod poi_vectors;
mod random_transactions;
mod rules_vectors;
mod state_vectors;
mod values;
