//! Entities as bytes and as JSON, and all limits on what is read.
//!
//! Each entity is described once, against [`Source`] and [`Sink`]; the two formats are implementations of
//! these. A hash or a signature is always over what was written again, never over what was read.

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
