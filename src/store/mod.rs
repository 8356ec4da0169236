//! The chain and its state in LMDB: tables, snapshots, write transactions and undo journals.
//!
//! Readers see the last commit. There is one writer, a [`Batch`]. Its changes become visible together, and durable at
//! once or soon after. While a block is applied, the old value of every changed key is recorded in a journal, which is
//! stored with the block. Restoring these values undoes the block.

mod batch;
mod blocks;
mod checksums;
mod copy;
mod data_file;
mod error;
mod figures;
mod journal;
mod older;
mod open;
mod overlay;
mod read;
mod reader;
mod readers;
mod replacement;
mod sealed;
mod settled;
mod sync;
mod tables;
mod write;

pub use batch::Batch;
pub use blocks::{BlockRow, StoredBlock, block_key, block_row, stored_block, stored_header, tip};
pub use checksums::VerifyPosition;
pub use copy::{StoreCopy, remove_copy};
pub use data_file::FileFault;
pub use error::{StoreError, folder_fault};
pub use figures::StoreFigures;
pub use journal::undoes_the_same;
pub use older::{OldBlocks, OldStore};
#[cfg(test)]
pub use open::test_store;
pub use open::{
    AccessMode, ChainIdentity, Options, SCHEMA, Store, exists, free_bytes, is_left_alone, older_schema, size,
    stored_network,
};
pub use overlay::{Changes, Overlay};
pub use read::{Entry, Read, Snapshot, Walk};
pub use reader::Reader;
pub use readers::Readers;
pub use replacement::{Replacement, Room, is_begun};
pub use settled::Boot;
pub use sync::SyncFile;
pub use tables::Table;
pub use write::Write;

/// Returns the version of LMDB.
pub fn lmdb_version() -> String {
    use lmdb_sys::{MDB_VERSION_MAJOR, MDB_VERSION_MINOR, MDB_VERSION_PATCH};
    format!("{MDB_VERSION_MAJOR}.{MDB_VERSION_MINOR}.{MDB_VERSION_PATCH}")
}
