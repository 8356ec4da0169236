//! The store, also on failing disks.

mod backup;
mod crash;
mod disk_trouble;
mod mutated_stores;
mod power_cuts;
mod reindex;
mod slow_disk;
