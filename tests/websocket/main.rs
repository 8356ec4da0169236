//! The websocket interface.

#[path = "../common/mod.rs"]
mod common;
mod sockjs;
mod websocket_replay;
