//! The HTTP interface and the server below it.

#[path = "../common/mod.rs"]
mod common;
mod connections;
mod explorer;
mod figures;
mod http_replay;
mod http_steps;
mod node;
mod openapi;
mod reactor;
#[path = "../common/recorded_chain.rs"]
mod recorded_chain;
#[path = "../common/schema.rs"]
mod schema;
