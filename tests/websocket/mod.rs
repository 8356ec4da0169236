//! The websocket interface.

mod websocket_replay;
