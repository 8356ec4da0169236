//! Entities as bytes and as JSON, and all limits on what is read.
//!
//! Each entity is described once, in terms of [`Source`] and [`Sink`], which both formats implement. Hashes and
//! signatures always cover the bytes as written again, never the bytes as read.

pub mod binary;
pub mod block;
pub mod block_file;
pub mod digits;
mod format;
pub mod json;
pub mod lax_json;
pub mod mosaic;
mod network;
mod sink;
mod source;
pub mod text;
pub mod transaction;
pub mod wipe;

pub use format::{Format, Readable, Writable, parse};
pub use network::{network_from_text, network_to_text};
pub use sink::{Form, GAP, Sink};
pub use source::{Context, Measure, ReadError, Source, limits};
