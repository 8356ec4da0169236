//! NIS1's STOMP dialect: decodes and encodes frames.

mod decode_error;
mod decoder;
pub mod encoder;
mod frame;

pub use decode_error::DecodeError;
pub use decoder::{DEFAULT_FRAME_BYTES, Decoder};
pub use frame::{Command, Frame};
