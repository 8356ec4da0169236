//! Metrics of a store: sizes, free space, readers and commit times.

use std::time::Duration;

use super::error::StoreError;
use super::lock_table::ReaderCounts;
use super::open::{self, Store};
use crate::metrics::Histogram;

/// Buckets of the histogram of commit times.
pub(super) const COMMIT_TIME_BUCKETS: &[Duration] = &[
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(5),
];

/// Metrics of a store.
#[derive(Clone, Debug)]
pub struct StoreMetrics {
    /// Bytes of the data file.
    pub bytes: Option<u64>,
    /// Maximum bytes of the data file (address space).
    pub map_bytes: u64,
    /// Bytes of the file up to its last used page. Free pages below are used before the file grows.
    pub used_bytes: u64,
    /// Free bytes on its disk.
    pub free_bytes: Option<u64>,
    /// Its readers.
    pub readers: Option<ReaderCounts>,
    /// Durations of this process's commits, including waiting for the disk. `None` for a scratch or read-only store.
    pub commit_times: Option<Histogram>,
}

impl Store {
    /// Returns the present metrics. Costs a few system calls.
    pub fn metrics(&self) -> Result<StoreMetrics, StoreError> {
        let (info, folder) = (self.environment.info()?, &self.folder);
        let page_bytes = u64::from(self.environment.stat()?.page_size());
        Ok(StoreMetrics {
            bytes: open::size(folder).ok(),
            map_bytes: info.map_size() as u64,
            used_bytes: (info.last_pgno() as u64 + 1) * page_bytes,
            free_bytes: open::free_bytes(folder).ok(),
            readers: self.readers.as_ref().and_then(|list| list.count(info.max_readers()).ok()),
            commit_times: self.durability.as_ref().map(|durability| durability.commit_times()),
        })
    }

    /// Sets the monotonic clock by which commits are timed.
    pub fn time_commits(&self, clock: fn() -> Duration) {
        self.durability.iter().for_each(|durability| durability.time_commits(clock));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::{Table, test_store};
    use super::*;

    thread_local! {
        static NOW: Cell<u64> = const { Cell::new(0) };
    }

    /// A clock that advances by a millisecond on each call.
    fn ticking() -> Duration {
        NOW.set(NOW.get() + 1);
        Duration::from_millis(NOW.get())
    }

    #[test]
    fn commits_are_timed_once_there_is_a_clock() {
        let (store, _folder) = test_store();
        let commit = |soon: bool| {
            let mut batch = store.begin_write().unwrap();
            batch.put_unjournaled(Table::Meta, b"key", b"value").unwrap();
            if soon { batch.commit_deferred_sync().unwrap() } else { batch.commit().unwrap() }
        };
        let times = || store.metrics().unwrap().commit_times.unwrap();
        commit(false);
        assert_eq!(times().count(), 0);
        store.time_commits(ticking);
        commit(true);
        commit(false);
        store.sync().unwrap();
        assert_eq!((times().count(), times().sum()), (2, Duration::from_millis(2)), "nothing was left to settle");
        commit(true);
        store.sync().unwrap();
        assert_eq!(times().count(), 4);
    }

    #[test]
    fn the_used_size_grows_towards_the_map_size() {
        let (store, _folder) = test_store();
        let before = store.metrics().unwrap();
        let mut batch = store.begin_write().unwrap();
        (0..200u8).for_each(|key| batch.put_unjournaled(Table::Meta, &[key], &[key; 1000]).unwrap());
        batch.commit().unwrap();
        let after = store.metrics().unwrap();
        assert_eq!(after.map_bytes, 1 << 22);
        assert!(before.used_bytes < after.used_bytes && after.used_bytes <= after.bytes.unwrap(), "{after:?}");
        assert!(after.free_bytes.is_some_and(|bytes| bytes > 0));
    }
}
