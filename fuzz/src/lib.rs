//! Properties that hold for every input: one module per fuzz target, with its property in the documentation of `check`.
//!
//! `check` panics if the property is violated. Otherwise it returns the number of valid items (requests, frames,
//! entities …) in the input, so that tests can tell that the seeds reach their purpose.
#![forbid(unsafe_code)]

pub mod announcements;
pub mod binary_block;
pub mod binary_transaction;
pub mod block_file;
pub mod chain_part;
pub mod configuration;
pub mod connections;
pub mod entities;
pub mod event_stream;
pub mod http_request;
pub mod interface;
/// Shared with the tests.
#[path = "../../tests/oracle/src/invariants.rs"]
pub mod invariants;
pub mod json_transaction_and_block;
pub mod kept_peers;
pub mod key_files;
pub mod lax_json;
pub mod lists;
pub mod offline_files;
pub mod peer_machine;
pub mod peer_wire;
pub mod pieces;
pub mod response;
pub mod sockjs_payload;
pub mod stomp;
pub mod store_files;
pub mod stored_values;
pub mod tiny;
pub mod websocket;

/// The body of a fuzz target.
pub type Check = fn(&[u8]) -> usize;

/// All targets by name.
pub const TARGETS: [(&str, Check); 24] = [
    ("http_request", http_request::check),
    ("websocket", websocket::check),
    ("stomp", stomp::check),
    ("lax_json", lax_json::check),
    ("binary_transaction", binary_transaction::check),
    ("binary_block", binary_block::check),
    ("json_transaction_and_block", json_transaction_and_block::check),
    ("block_file", block_file::check),
    ("configuration", configuration::check),
    ("chain_part", chain_part::check),
    ("response", response::check),
    ("connections", connections::check),
    ("stored_values", stored_values::check),
    ("kept_peers", kept_peers::check),
    ("key_files", key_files::check),
    ("interface", interface::check),
    ("event_stream", event_stream::check),
    ("announcements", announcements::check),
    ("lists", lists::check),
    ("sockjs_payload", sockjs_payload::check),
    ("peer_machine", peer_machine::check),
    ("peer_wire", peer_wire::check),
    ("offline_files", offline_files::check),
    ("store_files", store_files::check),
];
