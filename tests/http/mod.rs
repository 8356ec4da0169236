//! The HTTP interface and the server below it.

mod connections;
mod events;
mod explorer;
mod http_replay;
mod http_steps;
mod local_access;
mod metrics;
mod node;
mod openapi;
mod reactor;
