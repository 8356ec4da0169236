//! The HTTP interface and the server below it.

mod connections;
mod explorer;
mod figures;
mod http_replay;
mod http_steps;
mod node;
mod openapi;
mod reactor;
