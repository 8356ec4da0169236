//! The websocket interface.

mod sockjs;
mod websocket_replay;
