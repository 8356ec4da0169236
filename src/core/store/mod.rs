//! The chain and its state in LMDB: tables, snapshots, write transactions and undo journals.
//!
//! Readers see the last commit. There is one writer, a [`WriteTxn`]. Its changes become visible together, and durable at
//! once or soon after. While a block is applied, the old value of every changed key is recorded in a journal, which is
//! stored with the block. Restoring these values undoes the block.

mod backup;
mod blocks;
mod checksums;
mod durability;
mod error;
mod files;
mod open;
mod read;
mod rebuild;
mod tables;
mod work_folder;
mod write;

pub use backup::{StoreBackup, is_backup_running, remove_backup};
pub use blocks::*;
pub use durability::{BootId, Durability, SyncFile, recover_to_durable, reject_unrecovered};
pub use error::{Result, StoreError};
pub use files::{DiskSpace, FileFault, check_data_file, exists, free_bytes, size};
pub use open::*;
pub use read::{Entry, Read, Snapshot, SnapshotCache, TableCursor, VerifyPosition, next_key};
pub use rebuild::{StoreRebuild, is_rebuild_pending};
pub use tables::{EARLIER_SCHEMAS, SCHEMA, Table};
pub use work_folder::{WorkFolder, is_work_folder};
pub use write::{Changes, Overlay, Write, WriteTxn, journals_equal_except};

/// Returns the version of LMDB.
pub fn lmdb_version() -> String {
    use lmdb_sys::{MDB_VERSION_MAJOR, MDB_VERSION_MINOR, MDB_VERSION_PATCH};
    format!("{MDB_VERSION_MAJOR}.{MDB_VERSION_MINOR}.{MDB_VERSION_PATCH}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_version_of_lmdb_consists_of_three_numbers() {
        let version = super::lmdb_version();
        let numbers: Result<Vec<u32>, _> = version.split('.').map(str::parse).collect();
        assert!(numbers.is_ok_and(|numbers| numbers.len() == 3), "{version}");
    }
}
