//! The chain and its state in LMDB: tables, snapshots, write transactions and undo journals.
//!
//! Readers see the last commit. There is one writer, a [`WriteTxn`]. Its changes become visible together, and durable at
//! once or soon after. While a block is applied, the old value of every changed key is recorded in a journal, which is
//! stored with the block. Restoring these values undoes the block.

mod backup;
mod blocks;
mod checksums;
mod data_file;
mod durability;
mod error;
mod journal;
mod lock_table;
mod metrics;
mod migration;
mod open;
mod overlay;
mod read;
mod rebuild;
mod row_checksum;
mod snapshot_cache;
mod sync;
mod tables;
mod write;
mod write_txn;

pub use backup::{StoreBackup, remove_backup};
pub use blocks::{BlockRow, StoredHeader, block_key, block_row, stored_block, stored_header, tip};
pub use checksums::VerifyPosition;
pub use data_file::FileFault;
pub use durability::BootId;
pub use error::{StoreError, folder_error_text};
pub use journal::journals_equal_except;
pub use lock_table::ReaderCounts;
pub use metrics::StoreMetrics;
pub use migration::{LegacyBlocks, LegacyStore};
#[cfg(test)]
pub use open::test_store;
pub use open::{
    AccessMode, ChainIdentity, Options, SCHEMA, Store, exists, free_bytes, is_unlocked, older_schema, size,
    stored_network,
};
pub use overlay::{Changes, Overlay};
pub use read::{Entry, Read, Snapshot, TableCursor};
pub use rebuild::{DiskSpace, StoreRebuild, is_rebuild_pending};
pub use snapshot_cache::SnapshotCache;
pub use sync::SyncFile;
pub use tables::Table;
pub use write::Write;
pub use write_txn::WriteTxn;

/// Returns the version of LMDB.
pub fn lmdb_version() -> String {
    use lmdb_sys::{MDB_VERSION_MAJOR, MDB_VERSION_MINOR, MDB_VERSION_PATCH};
    format!("{MDB_VERSION_MAJOR}.{MDB_VERSION_MINOR}.{MDB_VERSION_PATCH}")
}
