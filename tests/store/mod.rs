//! The store, also on failing disks.

mod backup;
mod corrupt_stores;
mod full_disk;
mod power_cuts;
mod readers;
mod rebuilding;
mod reindex;
mod removed_files;
mod slow_disk;
mod snapshots;
