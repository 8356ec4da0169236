//! Websockets (RFC 6455) as a server speaks them, without sockets or clocks.
//!
//! [`handshake()`] decides on the upgrade request. [`WsConnection`] turns received bytes into
//! [`WsEvent`]s and writes frames. It is built on tungstenite's frame layer (header codec, opcodes,
//! close codes) rather than on its `WebSocket`, for three reasons: 2,000 idle subscribers must hold
//! no buffers, where `WebSocket` keeps one for its life; the answers of NIS1 need
//! to know whether a message that is too long was text or binary, which its errors do not tell; and
//! frames go straight into the connection's output instead of through a second buffer.

mod connection;
mod handshake;

pub use connection::{MESSAGE_LIMIT, WsConnection, WsEvent, write_close, write_ping, write_text_head};
pub use handshake::{Refusal, Upgrade, handshake, negotiate_subprotocol};
