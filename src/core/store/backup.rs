//! Backup: a copy of a store, as it was at one commit.
//!
//! The pages of the data file are copied in their order, as fast as the disks read and write; nothing is looked up. A
//! snapshot keeps the pages of its commit and of later ones from being reused meanwhile, and the newest meta page at the
//! beginning of the copy says which commit it is. The copy is made in a subfolder of the target folder. It is moved to
//! the target once it is durable and its rows were compared with their checksums; until then the target holds no store,
//! or an earlier copy. A copy is one file and can be opened without any other.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::error::{Result, StoreError, in_folder};
use super::files::{self, DATA_FILE, DiskSpace, FileFault, LOCK_TABLE_FILE};
use super::open::{AccessMode, Options, Store, is_unlocked};
use super::read::check_stop;
use super::rebuild::move_files;
use super::work_folder::{WorkFolder, is_check, remove_abandoned_checks};
use crate::files::{Access, create_folder, create_own, if_present, named, open_own};

/// Subfolder in which the copy is made.
pub(super) const FOLDER: &str = "unfinished";
/// Bytes that are read and written at once.
const CHUNK_BYTES: usize = 1 << 20;
/// Bytes that are written between two waits for the disk. A node on the same disk waits for about as many.
const SYNC_BYTES: usize = 16 << 20;

/// A copy in progress.
pub struct StoreBackup<'a> {
    source: &'a Store,
    folder: &'a Path,
    work: WorkFolder,
}

impl<'a> StoreBackup<'a> {
    /// Starts a copy in a folder, which is created if necessary. It may hold only an earlier copy, which stays until
    /// the new one replaces it, and the remains of an interrupted attempt, which are removed. `size` is the size of the
    /// source on its disk in bytes.
    pub fn begin(source: &'a Store, size: u64, folder: &'a Path) -> Result<StoreBackup<'a>> {
        create_folder(folder).map_err(in_folder(folder))?;
        let others = foreign_entries(folder).map_err(in_folder(folder))?;
        // A check of the earlier copy does not read the new one.
        if let Some(other) = others.into_iter().find(|name| !is_check(name)) {
            return Err(StoreError::NotABackup { folder: folder.to_owned(), other });
        }
        let work = WorkFolder::take(&folder.join(FOLDER)).map_err(|error| match error {
            StoreError::InUse => StoreError::BackupRunning(folder.to_owned()),
            error => error,
        })?;
        let space = DiskSpace::of(folder, size).map_err(in_folder(folder))?;
        if !space.is_enough() {
            return Err(StoreError::NoSpace { folder: folder.to_owned(), space });
        }
        Ok(StoreBackup { source, folder, work })
    }

    /// Copies all pages and synchronises them to the disk. Reports the bytes copied so far after each chunk. Returns the
    /// bytes of the copy.
    pub fn write(&self, report: &mut dyn FnMut(u64)) -> Result<u64> {
        let path = self.source.folder.join(DATA_FILE);
        let unreadable = |error| StoreError::DataFile(path.clone(), FileFault::Io(error));
        let failed = |error| self.failed(error);
        // From here to the end, no page of this commit or a later one is used again.
        let _snapshot = self.source.snapshot()?;
        let mut source = open_own(&path, Access::Read).map_err(unreadable)?;
        let meta = files::settled_meta(&mut source).map_err(|fault| StoreError::DataFile(path.clone(), fault))?;
        let bytes = meta.last_page.saturating_add(1).saturating_mul(meta.page_bytes as u64);
        let place = self.work.path();
        let copy = create_own(&place.join(DATA_FILE)).map_err(failed)?;
        let (mut chunk, mut copied, mut unsynced) = (vec![0; CHUNK_BYTES], 0, 0);
        while copied < bytes {
            check_stop(self.source.stop.as_deref())?;
            let wanted = (bytes - copied).min(CHUNK_BYTES as u64) as usize;
            let length = source.read_at(&mut chunk[..wanted], copied).map_err(unreadable)?;
            if length == 0 {
                // Pages at the end that were never written are free.
                break;
            }
            copy.write_all_at(&chunk[..length], copied).map_err(failed)?;
            copied += length as u64;
            unsynced += length;
            if unsynced >= SYNC_BYTES {
                self.sync(&copy)?;
                unsynced = 0;
            }
            report(copied);
        }
        files::restore_meta(place, &meta).map_err(failed)?;
        self.sync(&copy)?;
        Ok(copied)
    }

    /// Opens the complete copy to read it. It stops when the source does.
    pub fn open(&self, options: Options) -> Result<Store> {
        let (mut copy, _) = Store::open_existing(self.work.path(), AccessMode::Shared, options)?;
        copy.stop.clone_from(&self.source.stop);
        Ok(copy)
    }

    /// Moves the copy to its folder, atomically: the folder holds the earlier copy, or no store, and then this one.
    pub fn install(self) -> Result<()> {
        let folder = self.folder;
        let put = || {
            // LMDB's lock table of the earlier copy would not fit this one.
            remove_file(&folder.join(LOCK_TABLE_FILE))?;
            move_files(self.work.path(), folder, &[DATA_FILE])
        };
        put().map_err(in_folder(folder))
    }

    /// Waits until the copy is on the disk.
    fn sync(&self, copy: &File) -> Result<()> {
        copy.sync_all().map_err(|error| self.failed(error))
    }

    fn failed(&self, error: io::Error) -> StoreError {
        StoreError::CopyFailed { folder: self.folder.to_owned(), error }
    }
}

/// Returns whether a process copies a store to a folder.
pub fn is_backup_running(folder: &Path) -> bool {
    !is_unlocked(&folder.join(FOLDER))
}

/// Removes a copy, even an interrupted one. Leaves a folder with anything else alone, such as that of a node that runs
/// on the copy, or of a copy in progress.
pub fn remove_backup(folder: &Path) -> io::Result<()> {
    if folder.is_symlink() {
        return Err(io::Error::other("it is a symbolic link, which no backup makes"));
    }
    let place = folder.join(FOLDER);
    if place.exists() {
        WorkFolder::take(&place).map(drop).map_err(|error| match error {
            StoreError::Folder(_, error) => error,
            _ => io::Error::other("another backup writes it"),
        })?;
    }
    remove_abandoned_checks(folder);
    if let Some(other) = foreign_entries(folder)?.first() {
        let why = if is_check(other) { "in which a check may work" } else { "which is not part of a backup" };
        return Err(io::Error::other(format!("it contains {}, {why}", other.display())));
    }
    remove_file(&folder.join(LOCK_TABLE_FILE))?;
    remove_file(&folder.join(DATA_FILE))?;
    std::fs::remove_dir(folder)
}

fn remove_file(path: &Path) -> io::Result<()> {
    if_present(std::fs::remove_file(path)).map(drop).map_err(named(path))
}

/// Returns the names of the entries in a folder that neither a copy nor a file system creates. A node has further files
/// beside its store, so its folder is not taken for a copy.
fn foreign_entries(folder: &Path) -> io::Result<Vec<OsString>> {
    let names = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name()));
    let is_foreign =
        |name: &OsString| ![DATA_FILE, LOCK_TABLE_FILE, FOLDER, "lost+found"].iter().any(|known| name == *known);
    names.filter(|name| name.as_ref().map_or(true, is_foreign)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Read as _, SCHEMA, Table, Write as _, exists, test_store};

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

    fn copy(source: &Store, folder: &Path) -> Result<(), StoreError> {
        let copy = StoreBackup::begin(source, 1 << 20, folder)?;
        let mut reported = 0;
        assert_eq!(copy.write(&mut |bytes| reported = bytes)?, reported);
        copy.open(OPTIONS)?.snapshot()?.verify_all()?;
        copy.install()
    }

    fn put(store: &Store, key: &[u8], value: &[u8]) {
        let mut batch = store.begin_write().unwrap();
        batch.put(Table::Accounts, key, value).unwrap();
        batch.commit().unwrap();
    }

    #[test]
    fn a_backup_is_a_store_with_the_rows_of_one_commit() {
        let (store, _folder) = source();
        let place = tempfile::tempdir().unwrap();
        put(&store, &[255; 4], b"before the copy");
        copy(&store, place.path()).unwrap();
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
        let (copied, _) = Store::open_existing(place.path(), AccessMode::Exclusive, OPTIONS).unwrap();
        let reader = copied.snapshot().unwrap();
        assert_eq!(reader.get(Table::Meta, b"schema").unwrap(), Some(SCHEMA.as_bytes()));
        assert_eq!(reader.get(Table::Accounts, &1_999_u32.to_be_bytes()).unwrap(), Some(&[207; 40][..]));
        assert_eq!(reader.get(Table::Blocks, &[7; 8]).unwrap(), Some(&[9; 100_000][..]));
        assert_eq!(reader.get(Table::Accounts, &[255; 4]).unwrap(), Some(&b"before the copy"[..]));
        // It can be changed like any store.
        drop(reader);
        put(&copied, &[255; 4], b"in the copy");
        copied.snapshot().unwrap().verify_all().unwrap();
    }

    /// Each of these commits changes every row. They would use the pages of the copied commit again if the snapshot did
    /// not keep them.
    #[test]
    #[ignore = "slow: computes for long"]
    fn commits_during_the_copy_are_not_part_of_it() {
        const ROWS: u32 = 40_000;
        let options = Options { map_size: 256 << 20 };
        let folder = tempfile::tempdir().unwrap();
        let store = Store::scratch(folder.path(), options).unwrap();
        let fill = |content: u8| {
            let mut batch = store.begin_write().unwrap();
            for number in 0..ROWS {
                batch.put(Table::Accounts, &number.to_be_bytes(), &[content; 100]).unwrap();
            }
            batch.commit().unwrap();
        };
        (0..4).for_each(fill);
        let place = tempfile::tempdir().unwrap();
        let copy = StoreBackup::begin(&store, 1 << 20, place.path()).unwrap();
        let (mut content, mut chunks) = (4, 0);
        copy.write(&mut |_| {
            [content, content + 1].into_iter().for_each(fill);
            (content, chunks) = (content + 2, chunks + 1);
        })
        .unwrap();
        assert!(chunks > 5, "{chunks}");
        // A scratch store has no description, which `StoreBackup::open` needs.
        let copied = Store::scratch(&place.path().join(FOLDER), options).unwrap();
        let copied = copied.snapshot().unwrap();
        copied.verify_all().unwrap();
        let rows = (0..ROWS).map(|number| copied.get(Table::Accounts, &number.to_be_bytes()).unwrap());
        assert!(rows.into_iter().all(|row| row == Some(&[3; 100][..])));
    }

    #[test]
    fn a_non_empty_folder_is_left_unchanged() {
        let (store, _folder) = source();
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("letter"), "dear").unwrap();
        assert!(matches!(copy(&store, place.path()), Err(StoreError::NotABackup { .. })));
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_interrupted_backup_is_no_store_and_is_restarted() {
        let (store, _folder) = source();
        let place = tempfile::tempdir().unwrap();
        StoreBackup::begin(&store, 1 << 20, place.path()).unwrap().write(&mut |_| {}).unwrap();
        assert!(!exists(place.path()));
        copy(&store, place.path()).unwrap();
        assert!(exists(place.path()));
    }

    #[test]
    fn a_backup_to_the_folder_of_a_running_one_is_rejected_and_one_of_a_killed_process_replaced() {
        let (store, _folder) = source();
        let place = tempfile::tempdir().unwrap();
        let running = StoreBackup::begin(&store, 1 << 20, place.path()).unwrap();
        assert!(is_backup_running(place.path()));
        assert!(matches!(copy(&store, place.path()), Err(StoreError::BackupRunning(_))));
        assert!(remove_backup(place.path()).unwrap_err().to_string().contains("another backup"));
        running.write(&mut |_| {}).unwrap();
        running.install().unwrap();
        assert!(exists(place.path()) && !is_backup_running(place.path()));
        let left = place.path().join(FOLDER);
        std::fs::create_dir(&left).unwrap();
        std::fs::write(left.join(DATA_FILE), "a part").unwrap();
        assert!(!is_backup_running(place.path()));
        copy(&store, place.path()).unwrap();
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_folder_of_a_check_does_not_hinder_a_backup() {
        let (store, _folder) = source();
        let place = tempfile::tempdir().unwrap();
        copy(&store, place.path()).unwrap();
        let check = WorkFolder::for_check(place.path()).unwrap();
        copy(&store, place.path()).unwrap();
        assert!(remove_backup(place.path()).unwrap_err().to_string().contains("a check may work"));
        assert!(exists(place.path()));
        drop(check);
        // A killed one has left this.
        let left = place.path().join("check-7");
        std::fs::create_dir(&left).unwrap();
        [DATA_FILE, crate::store::open::LOCK_FILE]
            .iter()
            .for_each(|name| std::fs::write(left.join(name), "a part").unwrap());
        copy(&store, place.path()).unwrap();
        remove_backup(place.path()).unwrap();
        assert!(!place.path().exists());
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
        copy(&store, place.path()).unwrap();
        assert!(!held());
        put(&store, &[255; 4], b"later");
        let begun = StoreBackup::begin(&store, 1 << 20, place.path()).unwrap();
        begun.write(&mut |_| {}).unwrap();
        assert!(!held());
        begun.install().unwrap();
        assert!(held());
        remove_backup(place.path()).unwrap();
        assert!(!place.path().exists());
    }

    #[test]
    fn damage_in_the_source_is_found_in_the_copy() {
        let (store, folder) = source();
        let place = tempfile::tempdir().unwrap();
        let path = folder.path().join(DATA_FILE);
        let bytes = std::fs::read(&path).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        for place in (0..bytes.len()).filter(|place| bytes[*place..].starts_with(&[77; 40])) {
            file.write_all_at(&[78], place as u64).unwrap();
        }
        assert!(matches!(copy(&store, place.path()), Err(StoreError::Corrupt { .. })));
        assert!(!exists(place.path()));
    }

    #[test]
    fn an_interrupt_ends_the_copy() {
        let (mut store, _folder) = source();
        store.set_interrupt_flag(std::sync::Arc::new(true.into()));
        let place = tempfile::tempdir().unwrap();
        assert!(matches!(copy(&store, place.path()), Err(StoreError::Interrupted)));
    }

    #[test]
    fn only_a_missing_file_counts_as_removed() {
        let folder = tempfile::tempdir().unwrap();
        assert!(remove_file(&folder.path().join("absent")).is_ok());
        assert!(remove_file(folder.path()).is_err());
    }

    #[test]
    fn insufficient_disk_space_is_detected_before_anything_is_written() {
        let (store, _folder) = source();
        let place = tempfile::tempdir().unwrap();
        let begun = StoreBackup::begin(&store, u64::MAX / 2, place.path());
        assert!(matches!(begun.err(), Some(StoreError::NoSpace { .. })));
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
