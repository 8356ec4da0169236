//! Server-side websockets (RFC 6455), without sockets or clocks.
//!
//! [`handshake()`] validates the upgrade request. [`WsConnection`] parses received bytes into [`WsEvent`]s and writes
//! frames. It uses tungstenite's frame layer (header codec, opcodes, close codes) instead of its `WebSocket`, for three
//! reasons: 2,000 idle subscribers must hold no buffers, but `WebSocket` keeps one for its lifetime; NIS1's close
//! reasons say whether a message that is too long was text or binary, which its errors do not; and frames go straight
//! into the send queue, without a second buffer.

mod connection;
mod handshake;

pub use connection::{MESSAGE_LIMIT, WsConnection, WsEvent, write_close, write_ping, write_text_head};
pub use handshake::{Upgrade, UpgradeError, handshake, negotiate_subprotocol};
