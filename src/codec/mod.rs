//! Entities as bytes and as JSON, and all limits on what is read.
//!
//! Each entity is described once, in terms of [`Decoder`] and [`Encoder`], which both formats implement. Hashes and
//! signatures always cover the bytes as written again, never the bytes as read.

pub mod binary;
pub mod block;
pub mod block_file;
mod decoder;
pub mod digits;
mod encoder;
mod format;
pub mod json;
pub mod lenient_json;
pub mod mosaic;
mod network;
pub mod text;
pub mod transaction;
pub mod wipe;

pub use binary::ByteReader;
pub use decoder::{Context, Decoder, Measure, ReadError, limits};
pub use encoder::{Encoder, SPLICE_BYTE, SigningForm};
pub use format::{Format, Readable, Writable, parse};
pub use network::{network_from_text, network_to_text};
