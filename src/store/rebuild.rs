//! A rebuild: a new store that is built beside the old one and then replaces it.
//!
//! The new store is built in a subfolder of the old one's folder. Until the end the old store is not touched. Then
//! three files are renamed: LMDB's lock table, the durable-meta file, and last the data file. Each file is complete at
//! any time, so the process may end anywhere:
//!
//! - before the first rename the old store is in place, and the rebuild is continued;
//! - between them the old store is in place with an unused lock table, which LMDB initialises again, and possibly with
//!   a durable-meta file of another data file, which is not used: the old store is durable as a whole;
//! - after the last one the new store is in place, and the rest of its folder is removed.
//!
//! With the opposite order the new store might be opened with the lock table of the old one while somebody still reads
//! that, and LMDB would take the id of the last transaction from there. For the same reason the new store stays open
//! throughout: a process that opens the folder at that moment finds a lock table in use.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::blocks::tip;
use super::durability;
use super::error::StoreError;
use super::lock_table::LOCK_TABLE_FILE;
use super::migration::LegacyStore;
use super::open::{self, ChainIdentity, DATA_FILE, Options, Store};

/// Subfolder in which the new store is built.
const FOLDER: &str = "reindex";
/// Bytes that a store needs in addition to the old one's size.
const MARGIN: u64 = 1 << 20;

/// A store, and the new store that is to replace it.
pub struct StoreRebuild {
    /// The old store, locked against changes.
    pub old: LegacyStore,
    /// The new store.
    pub new: Store,
    folder: PathBuf,
}

/// Disk space for building a store, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// Bytes that must be free: about the size of the old store, minus what is already built.
    pub needed: u64,
    /// Bytes that are free, if the system can tell.
    pub free: Option<u64>,
}

/// Returns whether a rebuild was started in a folder and not finished.
pub fn is_rebuild_pending(folder: &Path) -> bool {
    open::exists(&folder.join(FOLDER))
}

impl StoreRebuild {
    /// Opens the store in a folder, and the new one beside it: where it was left, or empty if there is none or it does
    /// not lead to the present chain. `identity` derives the new store's identity from the old one's network.
    pub fn open(
        folder: &Path,
        identity: impl Fn(&str) -> Result<ChainIdentity, StoreError>,
        options: Options,
    ) -> Result<StoreRebuild, StoreError> {
        let old = LegacyStore::open(folder, options)?;
        let place = folder.join(FOLDER);
        let identity = identity(old.network())?;
        let begun = match resume(&old, &place, &identity, options) {
            Err(error) if !must_restart(&error) => return Err(error),
            begun => begun.ok().flatten(),
        };
        if begun.is_none() {
            remove_folder(&place).map_err(|error| StoreError::Folder(place.clone(), error))?;
        }
        let is_complete = begun.as_ref().is_some_and(|(_, is_complete)| *is_complete);
        let room = disk_space_needed(folder)?;
        if !is_complete && !room.is_enough() {
            return Err(StoreError::NoSpace { folder: folder.to_owned(), room });
        }
        let new = match begun {
            Some((new, _)) => new,
            None => Store::open(&place, &identity, options)?,
        };
        Ok(StoreRebuild { old, new, folder: folder.to_owned() })
    }

    /// Returns the disk space that is still needed.
    pub fn disk_space(&self) -> Result<DiskSpace, StoreError> {
        disk_space_needed(&self.folder)
    }

    /// Replaces the old store by the new one, which must be complete.
    pub fn install(self) -> Result<Store, StoreError> {
        let StoreRebuild { old, new, folder } = self;
        new.sync()?;
        let place = folder.join(FOLDER);
        let settle_old = || File::open(folder.join(DATA_FILE))?.sync_all();
        settle_old().map_err(|error| StoreError::Folder(folder.clone(), error))?;
        let lock = old.into_lock();
        let rename = |name: &str| match std::fs::rename(place.join(name), folder.join(name)) {
            // It was renamed before an earlier process ended.
            Err(error) if name == durability::FILE && error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        };
        let names = [LOCK_TABLE_FILE, durability::FILE, DATA_FILE];
        let renamed = names.into_iter().try_for_each(rename).and_then(|()| sync_folder(&folder));
        renamed.map_err(|error| StoreError::Folder(folder.clone(), error))?;
        if let Err(error) = remove_folder(&place) {
            log::warn!("cannot remove {}, which is no longer needed: {error}", place.display());
        }
        Ok(new.relocated(folder, lock))
    }
}

/// Returns the unfinished new store if it is part of the old one's chain, and whether it is complete.
fn resume(
    old: &LegacyStore,
    place: &Path,
    identity: &ChainIdentity,
    options: Options,
) -> Result<Option<(Store, bool)>, StoreError> {
    if !open::exists(place) {
        return Ok(None);
    }
    let new = Store::open(place, identity, options)?;
    let reached = tip(&new.snapshot()?)?.map(|block| (block.height, block.hash));
    let blocks = old.blocks()?;
    let is_ours = match reached {
        Some((height, hash)) => blocks.at(height)?.is_some_and(|(ours, _)| ours == hash),
        None => true,
    };
    Ok(is_ours.then_some((new, reached == blocks.tip()?)))
}

/// Returns whether an unfinished store must be started again: it is damaged, or of another version or network.
fn must_restart(error: &StoreError) -> bool {
    !matches!(
        error,
        StoreError::InUse
            | StoreError::Folder(..)
            | StoreError::Disk { .. }
            | StoreError::AddressSpace { .. }
            | StoreError::Lmdb(lmdb::Error::Other(_) | lmdb::Error::MapFull | lmdb::Error::ReadersFull)
    )
}

fn disk_space_needed(folder: &Path) -> Result<DiskSpace, StoreError> {
    let size = |folder: &Path| open::size(folder).unwrap_or(0);
    DiskSpace::of(folder, size(folder).saturating_sub(size(&folder.join(FOLDER))))
}

impl DiskSpace {
    /// Returns the disk space for a store of `bytes` bytes in a folder.
    pub(super) fn of(folder: &Path, bytes: u64) -> Result<DiskSpace, StoreError> {
        let free = match open::free_bytes(folder) {
            Ok(free) => Some(free),
            Err(Errno::NOSYS) => None,
            Err(error) => return Err(StoreError::Folder(folder.to_owned(), error.into())),
        };
        Ok(DiskSpace { needed: bytes.saturating_add(MARGIN), free })
    }

    pub(super) fn is_enough(self) -> bool {
        self.free.is_none_or(|free| free >= self.needed)
    }
}

/// Removes the remains of an unfinished store.
pub(super) fn remove_folder(place: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Makes renames in a folder durable.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Hash256, Height};
    use crate::store::blocks::tests::block;
    use crate::store::{Table, block_key};

    const OPTIONS: Options = Options { map_size: 1 << 22 };

    fn identity() -> ChainIdentity {
        ChainIdentity { name: "test".to_owned(), text: String::new() }
    }

    /// Opens the store in a folder and puts blocks with these hashes onto its chain, from height 1 on.
    fn store(folder: &Path, hashes: &[u8]) -> Store {
        let store = Store::open(folder, &identity(), OPTIONS).unwrap();
        let mut batch = store.begin_write().unwrap();
        for (height, hash) in (1..).map(Height).zip(hashes) {
            let (mut header, block) = block(height, 1);
            header.hash = Hash256([*hash; 32]);
            batch.put_unjournaled(Table::Blocks, &block_key(height), &header.to_bytes(&block)).unwrap();
        }
        batch.commit().unwrap();
        store
    }

    fn rebuild(folder: &Path) -> Result<StoreRebuild, StoreError> {
        StoreRebuild::open(folder, |_| Ok(identity()), OPTIONS)
    }

    #[test]
    fn an_unfinished_store_is_continued_if_its_tip_is_in_the_chain_and_is_complete_at_the_tip() {
        let folder = tempfile::tempdir().unwrap();
        drop(store(folder.path(), &[1, 2, 3]));
        let (old, place) = (LegacyStore::open(folder.path(), OPTIONS).unwrap(), folder.path().join(FOLDER));
        let resumed = || resume(&old, &place, &identity(), OPTIONS).unwrap().map(|(_, is_complete)| is_complete);
        assert_eq!(resumed(), None);
        for (hashes, expected) in [
            (&[][..], Some(false)),
            (&[1], Some(false)),
            (&[1, 2, 3], Some(true)),
            (&[1, 2, 9], None),
            (&[1, 2, 3, 4], None),
        ] {
            drop(store(&place, hashes));
            assert_eq!(resumed(), expected, "{hashes:?}");
        }
    }

    #[test]
    fn an_unfinished_store_that_another_process_uses_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        drop(store(folder.path(), &[1, 2]));
        let place = folder.path().join(FOLDER);
        let used = store(&place, &[1]);
        assert!(matches!(rebuild(folder.path()).err(), Some(StoreError::InUse)));
        drop(used);
        let rebuild = rebuild(folder.path()).unwrap();
        assert_eq!(tip(&rebuild.new.snapshot().unwrap()).unwrap().map(|block| block.height), Some(Height(1)));
    }

    #[test]
    fn an_unfinished_store_of_another_chain_is_replaced_by_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        drop(store(folder.path(), &[1, 2]));
        drop(store(&folder.path().join(FOLDER), &[9]));
        let rebuild = rebuild(folder.path()).unwrap();
        assert!(tip(&rebuild.new.snapshot().unwrap()).unwrap().is_none());
    }

    #[test]
    fn a_new_store_without_its_lock_table_does_not_replace_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        drop(store(folder.path(), &[1]));
        let data = std::fs::read(folder.path().join(DATA_FILE)).unwrap();
        let rebuild = rebuild(folder.path()).unwrap();
        std::fs::remove_file(folder.path().join(FOLDER).join(LOCK_TABLE_FILE)).unwrap();
        assert!(matches!(rebuild.install().err(), Some(StoreError::Folder(..))));
        assert_eq!(std::fs::read(folder.path().join(DATA_FILE)).unwrap(), data);
    }

    #[test]
    fn a_new_store_whose_durable_meta_file_was_moved_already_replaces_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        drop(store(folder.path(), &[1]));
        let rebuild = rebuild(folder.path()).unwrap();
        std::fs::rename(folder.path().join(FOLDER).join(durability::FILE), folder.path().join(durability::FILE))
            .unwrap();
        let new = rebuild.install().unwrap();
        assert!(tip(&new.snapshot().unwrap()).unwrap().is_none());
        assert!(!folder.path().join(FOLDER).exists());
    }
}
