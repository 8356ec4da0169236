//! The chain and its state in LMDB: tables, snapshots, batches and undo.
//!
//! Readers see the last commit. There is one writer, a [`Batch`], whose changes become visible and durable
//! together. While a block is applied every changed key's old value is kept in the batch's journal; stored
//! with the block, it undoes the block by putting the old values back.

mod batch;
mod error;
mod journal;
mod open;
mod read;
mod tables;

pub use batch::Batch;
pub use error::StoreError;
pub use open::{Access, Identity, Options, Store};
pub use read::{Read, Snapshot, Walk};
pub use tables::Table;
