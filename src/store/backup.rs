//! Backup: a copy of a store, as it was at one commit.
//!
//! Rows are appended in key order, so that every page is filled and the copy is as small as possible. The copy is built
//! in a subfolder of the target folder. It is moved to the target once it is durable and every row was compared; until
//! then the target holds no store, or an earlier copy. A copy is one file and can be opened without any other.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;

use super::error::StoreError;
use super::files::{DATA_FILE, DiskSpace, LOCK_TABLE_FILE};
use super::open::{Options, Store};
use super::read::{Read, Snapshot};
use super::rebuild::{move_files, remove_folder};
use super::tables::Table;

/// Subfolder in which the copy is built.
const FOLDER: &str = "unfinished";
/// Bytes of rows between two commits. LMDB holds about as much in memory, and the system as many dirty pages.
const COMMIT_BYTES: u64 = 8 << 20;
/// Bytes of rows between two progress reports.
const REPORT_BYTES: u64 = 1 << 20;

/// A copy in progress.
pub struct StoreBackup<'a> {
    source: &'a Snapshot<'a>,
    copy: Store,
    folder: &'a Path,
}

impl<'a> StoreBackup<'a> {
    /// Starts a copy in a folder, which is created if necessary. It may hold only an earlier copy, which stays until
    /// the new one replaces it, and the remains of an interrupted attempt, which are removed. `size` is the size of the
    /// source on its disk in bytes.
    pub fn begin(
        source: &'a Snapshot<'a>,
        size: u64,
        folder: &'a Path,
        options: Options,
    ) -> Result<StoreBackup<'a>, StoreError> {
        let failed = |error| StoreError::Folder(folder.to_owned(), error);
        std::fs::create_dir_all(folder).map_err(failed)?;
        let place = folder.join(FOLDER);
        remove_folder(&place).map_err(failed)?;
        if let Some(other) = foreign_entry(folder).map_err(failed)? {
            return Err(StoreError::NotABackup { folder: folder.to_owned(), other });
        }
        let space = DiskSpace::of(folder, size).map_err(failed)?;
        if !space.is_enough() {
            return Err(StoreError::NoSpace { folder: folder.to_owned(), space });
        }
        std::fs::create_dir(&place).map_err(failed)?;
        let copy = Store::scratch(&place, options)?;
        Ok(StoreBackup { source, copy, folder })
    }

    /// Copies all rows and synchronises them to the disk. Reports the bytes copied so far to `told` from time to time.
    /// Returns the bytes of all rows.
    pub fn write(&self, told: &mut dyn FnMut(u64)) -> Result<u64, StoreError> {
        let mut batch = self.copy.begin_write()?;
        let (mut uncommitted, mut count) = (0, ProgressCounter::new(told));
        for table in copied_tables() {
            let mut rows = self.source.cursor(table)?;
            let mut row = rows.seek(&[])?;
            while let Some((key, value)) = row {
                batch.append_unjournaled(table, key, value)?;
                let bytes = count.row(key, value);
                uncommitted += bytes;
                if uncommitted >= COMMIT_BYTES {
                    batch.commit()?;
                    self.sync()?;
                    batch = self.copy.begin_write()?;
                    uncommitted = 0;
                }
                row = rows.next()?;
            }
        }
        batch.commit()?;
        self.sync()?;
        Ok(count.bytes)
    }

    /// Compares every row of the copy with that of the source. Reports the bytes compared from time to time.
    pub fn compare(&self, told: &mut dyn FnMut(u64)) -> Result<(), StoreError> {
        let copy = self.copy.snapshot()?;
        let mut count = ProgressCounter::new(told);
        for table in copied_tables() {
            let (mut ours, mut theirs) = (self.source.cursor(table)?, copy.cursor(table)?);
            let mut pair = (ours.seek(&[])?, theirs.seek(&[])?);
            while pair.0 == pair.1
                && let (Some((key, value)), _) = pair
            {
                count.row(key, value);
                pair = (ours.next()?, theirs.next()?);
            }
            if pair.0 != pair.1 {
                return Err(StoreError::BackupDiffers { table, folder: self.folder.to_owned() });
            }
        }
        Ok(())
    }

    /// Moves the copy to its folder, atomically: the folder holds the earlier copy, or no store, and then this one.
    pub fn install(self) -> Result<(), StoreError> {
        let StoreBackup { copy, folder, .. } = self;
        drop(copy);
        let place = folder.join(FOLDER);
        let put = || {
            // LMDB's lock table of the earlier copy would not fit this one.
            remove_file(&folder.join(LOCK_TABLE_FILE))?;
            move_files(&place, folder, &[DATA_FILE])?;
            remove_folder(&place)
        };
        put().map_err(|error| StoreError::Folder(folder.to_owned(), error))
    }

    /// Waits until all commits are on the disk.
    fn sync(&self) -> Result<(), StoreError> {
        let sync = || File::open(self.folder.join(FOLDER).join(DATA_FILE))?.sync_all();
        sync().map_err(|error| StoreError::SyncFailed { folder: self.folder.to_owned(), error })
    }
}

/// Returns the tables to copy. Checksums are computed for the copy.
fn copied_tables() -> impl Iterator<Item = Table> {
    Table::ALL.into_iter().filter(|table| *table != Table::Checksums)
}

/// Removes a copy, even an interrupted one. Leaves a folder with anything else alone, such as that of a node that runs
/// on the copy.
pub fn remove_backup(folder: &Path) -> io::Result<()> {
    remove_folder(&folder.join(FOLDER))?;
    if let Some(other) = foreign_entry(folder)? {
        return Err(io::Error::other(format!("it contains {}, which is not part of a backup", other.display())));
    }
    remove_file(&folder.join(LOCK_TABLE_FILE))?;
    remove_file(&folder.join(DATA_FILE))?;
    std::fs::remove_dir(folder)
}

fn remove_file(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Returns the name of an entry in a folder that neither a copy nor a file system creates. A node has further files
/// beside its store, so its folder is not taken for a copy.
fn foreign_entry(folder: &Path) -> io::Result<Option<OsString>> {
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        if ![DATA_FILE, LOCK_TABLE_FILE, "lost+found"].iter().any(|known| name == *known) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Counts the bytes of rows and reports them about every [`REPORT_BYTES`].
struct ProgressCounter<'a> {
    bytes: u64,
    next: u64,
    report: &'a mut dyn FnMut(u64),
}

impl<'a> ProgressCounter<'a> {
    fn new(told: &'a mut dyn FnMut(u64)) -> ProgressCounter<'a> {
        ProgressCounter { bytes: 0, next: REPORT_BYTES, report: told }
    }

    /// Counts one row. Returns its bytes.
    fn row(&mut self, key: &[u8], value: &[u8]) -> u64 {
        let bytes = (key.len() + value.len()) as u64;
        self.bytes += bytes;
        if self.bytes >= self.next {
            self.next = self.bytes + REPORT_BYTES;
            (self.report)(self.bytes);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{AccessMode, SCHEMA, Write, exists, test_store};

    const OPTIONS: Options = Options { map_size: 1 << 22 };

    /// Returns a store with rows in two tables, one of them long.
    fn source() -> (Store, tempfile::TempDir) {
        let (store, folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        for number in 0..2_000_u32 {
            batch.put(Table::Accounts, &number.to_be_bytes(), &[number as u8; 40]).unwrap();
        }
        batch.put(Table::Blocks, &[7; 8], &[9; 100_000]).unwrap();
        batch.commit().unwrap();
        (store, folder)
    }

    fn copy(source: &Snapshot<'_>, folder: &Path) -> Result<(), StoreError> {
        let copy = StoreBackup::begin(source, 1 << 20, folder, OPTIONS)?;
        let mut told = Vec::new();
        copy.write(&mut |bytes| told.push(bytes))?;
        copy.compare(&mut |_| {})?;
        copy.install()
    }

    #[test]
    fn a_backup_is_a_store_with_the_rows_of_one_commit() {
        let (store, _folder) = source();
        let (snapshot, place) = (store.snapshot().unwrap(), tempfile::tempdir().unwrap());
        let mut batch = store.begin_write().unwrap();
        batch.put(Table::Accounts, &[255; 4], b"later").unwrap();
        batch.commit().unwrap();
        copy(&snapshot, place.path()).unwrap();
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
        let (copied, _) = Store::open_existing(place.path(), AccessMode::Exclusive, OPTIONS).unwrap();
        let copied = copied.snapshot().unwrap();
        assert_eq!(copied.get(Table::Meta, b"schema").unwrap(), Some(SCHEMA.as_bytes()));
        assert_eq!(copied.get(Table::Accounts, &1_999_u32.to_be_bytes()).unwrap(), Some(&[207; 40][..]));
        assert_eq!(copied.get(Table::Blocks, &[7; 8]).unwrap(), Some(&[9; 100_000][..]));
        assert_eq!(copied.get(Table::Accounts, &[255; 4]).unwrap(), None);
    }

    #[test]
    fn a_non_empty_folder_is_left_unchanged() {
        let (store, _folder) = source();
        let (snapshot, place) = (store.snapshot().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(place.path().join("letter"), "dear").unwrap();
        assert!(matches!(copy(&snapshot, place.path()), Err(StoreError::NotABackup { .. })));
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_interrupted_backup_is_no_store_and_is_restarted() {
        let (store, _folder) = source();
        let (snapshot, place) = (store.snapshot().unwrap(), tempfile::tempdir().unwrap());
        let begun = StoreBackup::begin(&snapshot, 1 << 20, place.path(), OPTIONS).unwrap();
        begun.write(&mut |_| {}).unwrap();
        drop(begun);
        assert!(!exists(place.path()));
        copy(&snapshot, place.path()).unwrap();
        assert!(exists(place.path()));
    }

    #[test]
    fn the_earlier_backup_stays_until_the_new_one_is_installed() {
        let (store, _folder) = source();
        let place = tempfile::tempdir().unwrap();
        let held = || {
            let (copied, _) = Store::open_existing(place.path(), AccessMode::Shared, OPTIONS).unwrap();
            let copied = copied.snapshot().unwrap();
            copied.get(Table::Accounts, &[255; 4]).unwrap().is_some()
        };
        copy(&store.snapshot().unwrap(), place.path()).unwrap();
        assert!(!held());
        let mut batch = store.begin_write().unwrap();
        batch.put(Table::Accounts, &[255; 4], b"later").unwrap();
        batch.commit().unwrap();
        let snapshot = store.snapshot().unwrap();
        let begun = StoreBackup::begin(&snapshot, 1 << 20, place.path(), OPTIONS).unwrap();
        begun.write(&mut |_| {}).unwrap();
        assert!(!held());
        begun.install().unwrap();
        assert!(held());
        remove_backup(place.path()).unwrap();
        assert!(!place.path().exists());
    }

    #[test]
    fn missing_surplus_and_different_rows_are_found() {
        let (store, _folder) = source();
        let changes: [fn(&mut crate::store::WriteTxn<'_>); 3] = [
            |batch| batch.delete_unjournaled(Table::Blocks, &[7; 8]).unwrap(),
            |batch| batch.put_unjournaled(Table::Undo, &[1; 8], b"one").unwrap(),
            |batch| batch.put_unjournaled(Table::Accounts, &5_u32.to_be_bytes(), &[6; 40]).unwrap(),
        ];
        for change in changes {
            let (snapshot, place) = (store.snapshot().unwrap(), tempfile::tempdir().unwrap());
            let copy = StoreBackup::begin(&snapshot, 1 << 20, place.path(), OPTIONS).unwrap();
            copy.write(&mut |_| {}).unwrap();
            let mut batch = copy.copy.begin_write().unwrap();
            change(&mut batch);
            batch.commit().unwrap();
            assert!(matches!(copy.compare(&mut |_| {}), Err(StoreError::BackupDiffers { .. })));
        }
    }

    #[test]
    fn a_backup_commits_after_a_bounded_number_of_bytes() {
        let options = Options { map_size: 8 * COMMIT_BYTES as usize };
        let folder = tempfile::tempdir().unwrap();
        let store = Store::scratch(folder.path(), options).unwrap();
        let value = vec![0; COMMIT_BYTES as usize / 4];
        let mut batch = store.begin_write().unwrap();
        (0..10u64).for_each(|height| batch.put(Table::Blocks, &height.to_be_bytes(), &value).unwrap());
        batch.commit().unwrap();
        let (snapshot, place) = (store.snapshot().unwrap(), tempfile::tempdir().unwrap());
        let backup = StoreBackup::begin(&snapshot, 1 << 20, place.path(), options).unwrap();
        let commits = || backup.copy.environment.info().unwrap().last_txnid();
        let before = commits();
        backup.write(&mut |_| {}).unwrap();
        assert_eq!(commits() - before, 3);
    }

    #[test]
    fn only_a_missing_file_counts_as_removed() {
        let folder = tempfile::tempdir().unwrap();
        assert!(remove_file(&folder.path().join("absent")).is_ok());
        assert!(remove_file(folder.path()).is_err());
    }

    #[test]
    fn progress_is_reported_after_each_mebibyte() {
        let mut told = Vec::new();
        let mut report = |bytes| told.push(bytes);
        let mut count = ProgressCounter::new(&mut report);
        let value = vec![0; (1 << 19) - 8];
        for _ in 0..5 {
            assert_eq!(count.row(&[0; 8], &value), 1 << 19);
        }
        assert_eq!(told, [1 << 20, 2 << 20]);
    }

    #[test]
    fn insufficient_disk_space_is_detected_before_anything_is_written() {
        let (store, _folder) = source();
        let (snapshot, place) = (store.snapshot().unwrap(), tempfile::tempdir().unwrap());
        let begun = StoreBackup::begin(&snapshot, u64::MAX / 2, place.path(), OPTIONS);
        assert!(matches!(begun.err(), Some(StoreError::NoSpace { .. })));
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
