//! Inspects LMDB's lock table. A process that was killed while reading still has a slot there, so that the pages it
//! read are not reused.
//!
//! LMDB holds locks on this file, by which processes detect each other, and a process loses all its locks on a file
//! when it closes any descriptor of it. So it is opened before and closed after the LMDB environment.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// Name of the file.
pub(super) const LOCK_TABLE_FILE: &str = "lock.mdb";
/// The part that LMDB maps is allocated on the disk: touching a page without space would be fatal (SIGBUS).
#[cfg(target_os = "linux")]
const LOCK_TABLE_BYTES: u64 = 32 << 10;
/// Bytes of a transaction id: LMDB writes it in the machine's word size.
const WORD: usize = size_of::<usize>();
/// Bytes of a slot: transaction, process, thread, and padding.
const SLOT_BYTES: usize = 64;
/// Transaction id of an unused slot.
const NO_TRANSACTION: [u8; WORD] = [0xff; WORD];

/// Counts of the readers of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderCounts {
    /// Readers with a snapshot.
    pub reading: usize,
    /// Those of them whose processes have ended.
    pub stale: usize,
}

/// The lock table of an open store.
#[derive(Debug)]
pub(super) struct LockTable(File);

impl LockTable {
    /// Opens the lock table of the store in a folder, before LMDB opens it, and allocates its disk space.
    pub fn open(folder: &Path) -> io::Result<LockTable> {
        let file =
            File::options().read(true).write(true).create(true).truncate(false).open(folder.join(LOCK_TABLE_FILE))?;
        // Other systems cannot do this without extending the file.
        #[cfg(target_os = "linux")]
        match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::KEEP_SIZE, 0, LOCK_TABLE_BYTES) {
            // Some file systems do not support this.
            Ok(()) | Err(Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(LockTable(file))
    }

    /// Counts the readers in a table with this number of slots.
    pub fn count(&self, places: u32) -> io::Result<ReaderCounts> {
        let mut list = vec![0; SLOT_BYTES * places as usize];
        let head = self.0.metadata()?.len().saturating_sub(list.len() as u64);
        self.0.read_exact_at(&mut list, head)?;
        let mut readers = ReaderCounts::default();
        for place in list.chunks_exact(SLOT_BYTES) {
            let (transaction, rest) = place.split_at(WORD);
            let process = rest.first_chunk().and_then(|bytes| Pid::from_raw(i32::from_ne_bytes(*bytes)));
            if let Some(process) = process.filter(|_| transaction != NO_TRANSACTION) {
                readers.reading += 1;
                readers.stale += usize::from(test_kill_process(process) == Err(Errno::SRCH));
            }
        }
        Ok(readers)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::process::Command;

    use super::*;
    use crate::store::test_store;

    #[test]
    fn active_and_stale_readers_are_counted() {
        let (store, folder) = test_store();
        let count = || store.metrics().unwrap().readers.unwrap();
        assert_eq!(count(), ReaderCounts { reading: 0, stale: 0 });
        let snapshots = [store.snapshot().unwrap(), store.snapshot().unwrap()];
        assert_eq!(count(), ReaderCounts { reading: 2, stale: 0 });
        // The second reader is changed to a process that has ended.
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let path = folder.path().join(LOCK_TABLE_FILE);
        let (list, own) = (std::fs::read(&path).unwrap(), std::process::id().to_ne_bytes());
        let places: Vec<usize> = (0..list.len() - 4).filter(|at| list[*at..*at + 4] == own).collect();
        let file = File::options().write(true).open(path).unwrap();
        file.write_all_at(
            &child.id().to_ne_bytes(),
            *places.iter().find(|at| *at % SLOT_BYTES == WORD).unwrap() as u64,
        )
        .unwrap();
        assert_eq!(count(), ReaderCounts { reading: 2, stale: 1 });
        drop(snapshots);
    }

    #[test]
    fn reading_the_lock_table_keeps_the_locks_of_lmdb() {
        let (store, folder) = test_store();
        let number = std::fs::metadata(folder.path().join(LOCK_TABLE_FILE)).unwrap().ino();
        let is_of_the_list = |line: &&str| line.contains(&format!(":{number} "));
        let locks = || std::fs::read_to_string("/proc/locks").unwrap().lines().filter(is_of_the_list).count();
        let snapshot = store.snapshot().unwrap();
        let before = locks();
        store.metrics().unwrap();
        assert!(before > 0 && locks() == before, "{} of {before}", locks());
        drop(snapshot);
    }
}
