//! Folders in which a command makes a store that is no chain of a node: a copy, or the scratch store of a check.
//!
//! The process that works in one holds a lock on it, and removes it at its end. So what a killed process has left can be
//! told apart: it is not locked.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::backup;
use super::error::{Result, StoreError, in_folder};
use super::files::{DATA_FILE, LOCK_TABLE_FILE, exists};
use super::open::{FolderLock, LOCK_FILE};
use super::rebuild::{self, remove_folder};
use crate::files::{create_folder, create_new_folder, named};

/// Beginning of the name of the folder of a check.
const CHECK: &str = "check-";
/// Maximum number of checks that work below one folder at a time.
const MAX_CHECKS: u32 = 1_000;

/// A folder that this process works in. Dropping it removes it.
pub struct WorkFolder {
    path: PathBuf,
    /// Held until the folder is removed.
    _lock: FolderLock,
}

/// Returns whether a folder is one in which commands work below the folder of a store.
pub fn is_work_folder(folder: &Path) -> bool {
    let name = folder.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
    let is_reserved = [rebuild::FOLDER, backup::FOLDER].contains(&&*name) || name.starts_with(CHECK);
    is_reserved && folder.parent().is_some_and(exists)
}

impl WorkFolder {
    /// Creates an empty folder. What a killed process has left there is removed. [`StoreError::InUse`] if another process
    /// works there.
    pub fn take(path: &Path) -> Result<WorkFolder> {
        if path.is_symlink() {
            fs::remove_file(path).map_err(named(path)).map_err(in_folder(path))?;
        }
        create_folder(path).map_err(in_folder(path))?;
        let folder = WorkFolder::lock(path)?;
        folder.clear().map_err(named(path)).map_err(in_folder(path))?;
        Ok(folder)
    }

    /// Creates a folder for a check below another one, and removes those of killed checks there. An error has a path.
    pub fn for_check(parent: &Path) -> io::Result<WorkFolder> {
        remove_abandoned_checks(parent);
        for number in 1..=MAX_CHECKS {
            let path = parent.join(format!("{CHECK}{number}"));
            match create_new_folder(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                created => created?,
            }
            match WorkFolder::lock(&path) {
                Ok(folder) => return Ok(folder),
                Err(StoreError::Folder(_, error)) => return Err(error),
                // Another check takes it for that of a killed one.
                Err(_) => {}
            }
        }
        Err(named(parent)(io::Error::other(format!("{MAX_CHECKS} folders {CHECK}… are there; remove them"))))
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn lock(path: &Path) -> Result<WorkFolder> {
        let lock = FolderLock::take(path)?;
        // Another process may have removed the folder between the opening and the locking of its file.
        if lock.is_of(path) { Ok(WorkFolder { path: path.to_owned(), _lock: lock }) } else { Err(StoreError::InUse) }
    }

    /// Removes everything but the lock.
    fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if entry.file_name() == LOCK_FILE {
                continue;
            }
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        if let Err(error) = remove_folder(&self.path) {
            log::warn!("a folder that is no longer needed cannot be removed: {error}");
        }
    }
}

/// Returns whether an entry in a folder has the name of the folder of a check.
pub(super) fn is_check(name: &OsStr) -> bool {
    let number = name.as_encoded_bytes().strip_prefix(CHECK.as_bytes());
    number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

/// Removes the folders that killed checks have left below another one.
pub(super) fn remove_abandoned_checks(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| is_check(&entry.file_name())) {
        if entry.file_type().is_ok_and(|kind| kind.is_dir())
            && holds_only_a_store(&entry.path()).unwrap_or(false)
            && let Ok(abandoned) = WorkFolder::lock(&entry.path())
        {
            log::info!("removing {}, which a killed check has left", abandoned.path.display());
        }
    }
}

/// Returns whether a folder has a lock, files of a store, and nothing else.
fn holds_only_a_store(folder: &Path) -> io::Result<bool> {
    let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    let is_known = |name: &_| [DATA_FILE, LOCK_TABLE_FILE, LOCK_FILE].iter().any(|known| name == *known);
    Ok(names.iter().any(|name| name == LOCK_FILE) && names.iter().all(is_known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_belongs_to_one_process_and_goes_with_it() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("work");
        // A killed process has left this.
        fs::create_dir_all(path.join("folder/below")).unwrap();
        fs::write(path.join(DATA_FILE), "a part").unwrap();
        let folder = WorkFolder::take(&path).unwrap();
        let names: Vec<_> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [LOCK_FILE]);
        assert!(matches!(WorkFolder::take(&path).err(), Some(StoreError::InUse)));
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn a_link_in_its_place_is_replaced_and_not_followed() {
        let parent = tempfile::tempdir().unwrap();
        let [link, other] = ["work", "other"].map(|name| parent.path().join(name));
        fs::create_dir(&other).unwrap();
        fs::write(other.join("letter"), "dear").unwrap();
        std::os::unix::fs::symlink(&other, &link).unwrap();
        drop(WorkFolder::take(&link).unwrap());
        assert!(!link.is_symlink() && other.join("letter").exists());
    }

    #[test]
    fn a_check_removes_what_killed_checks_have_left_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let of = |name: &str| parent.path().join(name);
        let running = WorkFolder::for_check(parent.path()).unwrap();
        assert_eq!(running.path(), of("check-1"));
        fs::write(of("check-1").join(DATA_FILE), "a part").unwrap();
        for name in ["check-7", "check-8", "check-copy", "check-results", "check-9", "other"] {
            fs::create_dir(of(name)).unwrap();
        }
        let files = [
            "check-7/data.mdb",
            "check-7/lock.mdb",
            "check-7/nisd.lock",
            "check-8/data.mdb",
            "check-copy/data.mdb",
            "check-copy/nisd.lock",
            "check-results/list",
            "other/data.mdb",
        ];
        for file in files {
            fs::write(of(file), "content").unwrap();
        }
        fs::write(of("check-file"), "content").unwrap();
        let second = WorkFolder::for_check(parent.path()).unwrap();
        assert_eq!(second.path(), of("check-2"));
        assert!(!of("check-7").exists());
        let kept = ["check-1/data.mdb", "check-8/data.mdb", "check-copy/data.mdb", "check-results/list", "check-9"];
        for name in kept.into_iter().chain(["check-file", "other/data.mdb"]) {
            assert!(of(name).exists(), "{name}");
        }
        drop((running, second));
        assert!(!of("check-1").exists() && !of("check-2").exists());
    }

    #[test]
    fn a_lock_of_a_removed_folder_is_worth_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("work");
        fs::create_dir(&path).unwrap();
        let lock = FolderLock::take(&path).unwrap();
        assert!(lock.is_of(&path));
        fs::remove_dir_all(&path).unwrap();
        assert!(!lock.is_of(&path));
        fs::create_dir(&path).unwrap();
        fs::write(path.join(LOCK_FILE), "").unwrap();
        assert!(!lock.is_of(&path));
    }
}
