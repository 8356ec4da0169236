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
//!
//! That the old store's last block is the last one, the checksum of its range shows; that no block before it is missing
//! or of an earlier commit, the hash in the block after it.
//!
//! Of the old store only the network (the rows of `meta`), the blocks and their checksums are read. The format of
//! everything else may change freely between versions.

use std::io;
use std::path::{Path, PathBuf};

use super::blocks::{block_row, tip};
use super::durability;
use super::error::{Result, StoreError, in_folder};
use super::files::{DATA_FILE, DiskSpace, FileFault, LOCK_TABLE_FILE, exists, size, sync_folder};
use super::open::{ChainIdentity, Options, Store};
use crate::files::{Access, if_present, named, open_own};

/// Subfolder in which the new store is built.
pub(super) const FOLDER: &str = "reindex";

/// Returns whether a rebuild was started in a folder and not finished.
pub fn is_rebuild_pending(folder: &Path) -> bool {
    let place = folder.join(FOLDER);
    !place.is_symlink() && exists(&place)
}

/// A store, and the new store that is to replace it.
pub struct StoreRebuild {
    /// The old store, locked against changes. Of an older version only the blocks can be read.
    pub old: Store,
    /// The text that describes the network of the old store.
    pub network: String,
    /// The new store.
    pub new: Store,
    folder: PathBuf,
}

impl StoreRebuild {
    /// Opens the store in a folder, and the new one beside it: where it was left, or empty if there is none or it does
    /// not lead to the present chain. `identity` derives the new store's identity from the old one's network.
    pub fn open(
        folder: &Path,
        identity: impl Fn(&str) -> Result<ChainIdentity>,
        options: Options,
    ) -> Result<StoreRebuild> {
        let (old, network) = Store::open_for_rebuild(folder, options)?;
        let place = folder.join(FOLDER);
        let identity = identity(&network)?;
        let begun = match resume(&old, &place, &identity, options) {
            Err(error) if !must_restart(&error) => return Err(error),
            begun => begun.ok().flatten(),
        };
        if begun.is_none() {
            remove_folder(&place).map_err(in_folder(&place))?;
        }
        let is_complete = begun.as_ref().is_some_and(|(_, is_complete)| *is_complete);
        let space = disk_space(folder)?;
        if !is_complete && !space.is_enough() {
            return Err(StoreError::NoSpace { folder: folder.to_owned(), space });
        }
        let new = begun.map_or_else(|| Store::open(&place, &identity, options), |(new, _)| Ok(new))?;
        Ok(StoreRebuild { old, network, new, folder: folder.to_owned() })
    }

    /// Returns the disk space that is still needed.
    pub fn disk_space(&self) -> Result<DiskSpace> {
        disk_space(&self.folder)
    }

    /// Replaces the old store by the new one, which must be complete.
    pub fn install(self) -> Result<Store> {
        let StoreRebuild { old, new, folder, .. } = self;
        new.durability().sync()?;
        let place = folder.join(FOLDER);
        let replace = || {
            let data = folder.join(DATA_FILE);
            open_own(&data, Access::Read)?.sync_all().map_err(named(&data))?;
            // Closes the old store. Its lock still protects the folder.
            let Store { lock, .. } = old;
            move_files(&place, &folder, &[LOCK_TABLE_FILE, durability::FILE, DATA_FILE]).map(|()| lock)
        };
        let lock = replace().map_err(in_folder(&folder))?;
        if let Err(error) = remove_folder(&place) {
            log::warn!("cannot remove {}, which is no longer needed: {error}", place.display());
        }
        Ok(new.relocated(folder, lock))
    }
}

/// Returns the unfinished new store if it is part of the old one's chain, and whether it is complete.
fn resume(old: &Store, place: &Path, identity: &ChainIdentity, options: Options) -> Result<Option<(Store, bool)>> {
    if place.is_symlink() || !exists(place) {
        return Ok(None);
    }
    let new = Store::open(place, identity, options)?;
    let reached = tip(&new.snapshot()?)?.map(|block| (block.height, block.hash));
    let blocks = old.snapshot()?;
    let is_ours = match reached {
        Some((height, hash)) => block_row(&blocks, height)?.is_some_and(|block| block.header.hash == hash),
        None => true,
    };
    let last = tip(&blocks)?.map(|block| (block.height, block.hash));
    Ok(is_ours.then_some((new, reached == last)))
}

/// Returns whether an unfinished store must be started again: it is damaged, or of another version or network.
fn must_restart(error: &StoreError) -> bool {
    !matches!(
        error,
        StoreError::InUse
            | StoreError::Folder(..)
            | StoreError::Disk { .. }
            | StoreError::DataFile(_, FileFault::Io(_))
            | StoreError::AddressSpace { .. }
            | StoreError::Lmdb(lmdb::Error::Other(_) | lmdb::Error::MapFull | lmdb::Error::ReadersFull)
    )
}

fn disk_space(folder: &Path) -> Result<DiskSpace> {
    let [old, built] = [folder, &folder.join(FOLDER)].map(|folder| size(folder).unwrap_or(0));
    DiskSpace::of(folder, old.saturating_sub(built)).map_err(in_folder(folder))
}

/// Removes the remains of an unfinished store. A link in its place is removed itself.
pub(super) fn remove_folder(place: &Path) -> io::Result<()> {
    if_present(std::fs::remove_dir_all(place)).map(drop).map_err(named(place))
}

/// Moves the files of a store in their order to another folder, durably. Each file is replaced as a whole.
pub(super) fn move_files(from: &Path, to: &Path, names: &[&str]) -> io::Result<()> {
    for name in names {
        match std::fs::rename(from.join(name), to.join(name)) {
            // It was renamed before an earlier process ended.
            Err(error) if *name == durability::FILE && error.kind() == io::ErrorKind::NotFound => {}
            other => other.map_err(named(&to.join(name)))?,
        }
    }
    sync_folder(to).map_err(named(to))
}

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;

    use lmdb::{Cursor as _, DatabaseFlags, Environment, Transaction as _, WriteFlags};

    use super::*;
    use crate::model::{Hash256, Height};
    use crate::store::blocks::tests::block;
    use crate::store::{EARLIER_SCHEMAS, SCHEMA, Table, Write as _, block_key, read_block_bytes, test_store};

    const OPTIONS: Options = Options { map_size: 1 << 22 };
    const PAGE: usize = 4096;

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
            batch
                .put_unjournaled(
                    Table::Blocks,
                    &block_key(height),
                    &header.to_bytes(&block, &block.encode_transactions()),
                )
                .unwrap();
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
        let (old, _) = Store::open_for_rebuild(folder.path(), OPTIONS).unwrap();
        let place = folder.path().join(FOLDER);
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
    fn the_installed_store_is_in_the_folder_of_the_old_one_and_locked() {
        let folder = tempfile::tempdir().unwrap();
        drop(store(folder.path(), &[1]));
        assert!(!is_rebuild_pending(folder.path()));
        let rebuild = rebuild(folder.path()).unwrap();
        assert!(is_rebuild_pending(folder.path()));
        let new = rebuild.install().unwrap();
        assert!(!is_rebuild_pending(folder.path()));
        assert_eq!(new.metrics().unwrap().bytes, Some(size(folder.path()).unwrap()));
        assert!(matches!(Store::open(folder.path(), &identity(), OPTIONS).err(), Some(StoreError::InUse)));
    }

    #[test]
    fn removing_a_folder_fails_unless_it_is_gone_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join(FOLDER);
        remove_folder(&place).unwrap();
        std::fs::write(&place, "a file").unwrap();
        assert!(remove_folder(&place).is_err());
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

    /// Creates a store of a schema whose blocks are written in several commits, each with its heights and a name.
    fn store_of(schema: &str, commits: &[(RangeInclusive<u64>, &str)]) -> tempfile::TempDir {
        let (store, folder) = test_store();
        for (heights, name) in commits {
            let mut batch = store.begin_write().unwrap();
            for height in heights.clone() {
                let (mut header, block) = block(Height(height), 0);
                // The text takes the place of the hash.
                let text = format!("<{name} {height}>");
                header.hash.0[..text.len()].copy_from_slice(text.as_bytes());
                batch
                    .put(
                        Table::Blocks,
                        &block_key(Height(height)),
                        &header.to_bytes(&block, &block.encode_transactions()),
                    )
                    .unwrap();
            }
            batch.put_unjournaled(Table::Meta, b"schema", schema.as_bytes()).unwrap();
            batch.commit().unwrap();
        }
        folder
    }

    fn old_tip(folder: &Path) -> Result<Option<Height>, StoreError> {
        let (old, _) = Store::open_for_rebuild(folder, OPTIONS)?;
        Ok(tip(&old.snapshot()?)?.map(|block| block.height))
    }

    /// Overwrites the pages that contain `present` with the page that contains `earlier`, except for the page number.
    fn bring_back(folder: &Path, earlier: &str, present: &str) {
        let path = folder.join(DATA_FILE);
        let mut data = std::fs::read(&path).unwrap();
        let pages_with = |text: &str| -> Vec<usize> {
            let is_in = |page: &[u8]| page.windows(text.len()).any(|part| part == text.as_bytes());
            data.chunks(PAGE).enumerate().filter(|(_, page)| is_in(page)).map(|(number, _)| number).collect()
        };
        let present = pages_with(present);
        let earlier = pages_with(earlier).into_iter().find(|page| !present.contains(page)).unwrap();
        for page in present {
            let number = size_of::<usize>();
            data.copy_within(earlier * PAGE + number..(earlier + 1) * PAGE, page * PAGE + number);
        }
        std::fs::write(&path, data).unwrap();
    }

    /// Copies the tables that a rebuild reads to a store without any other.
    fn with_blocks_only(folder: &Path) -> tempfile::TempDir {
        let reduced = tempfile::tempdir().unwrap();
        let open = |folder: &Path| Environment::new().set_max_dbs(40).set_map_size(1 << 22).open(folder).unwrap();
        let (from, to) = (open(folder), open(reduced.path()));
        for table in [Table::Meta, Table::Blocks, Table::Checksums] {
            let rows = from.open_db(Some(table.name())).unwrap();
            let copy = to.create_db(Some(table.name()), DatabaseFlags::empty()).unwrap();
            let (reader, mut writer) = (from.begin_ro_txn().unwrap(), to.begin_rw_txn().unwrap());
            for (key, row) in reader.open_ro_cursor(rows).unwrap().iter_start().map(Result::unwrap) {
                writer.put(copy, &key, &row, WriteFlags::empty()).unwrap();
            }
            writer.commit().unwrap();
        }
        reduced
    }

    #[test]
    fn the_blocks_of_an_older_store_are_read_whatever_tables_it_has() {
        let folder = store_of(EARLIER_SCHEMAS[0], &[(1..=3, "block")]);
        assert_eq!(old_tip(folder.path()).unwrap(), Some(Height(3)));
        let reduced = with_blocks_only(folder.path());
        let (old, _) = Store::open_for_rebuild(reduced.path(), OPTIONS).unwrap();
        let (snapshot, mut bytes) = (old.snapshot().unwrap(), Vec::new());
        assert!(read_block_bytes(&snapshot, Height(3), &mut bytes).unwrap());
        assert!(!read_block_bytes(&snapshot, Height(4), &mut bytes).unwrap());
        let other = crate::store::Read::get(&snapshot, Table::Accounts, b"key");
        assert!(matches!(other, Err(StoreError::Damaged("a table is missing"))), "{other:?}");
    }

    #[test]
    fn a_store_of_a_development_version_is_not_rebuilt() {
        let folder = store_of("9", &[(1..=1, "block")]);
        assert!(matches!(old_tip(folder.path()), Err(StoreError::Schema { found, .. }) if found == "9"));
    }

    #[test]
    fn a_store_that_lost_its_last_blocks_is_not_rebuilt_as_a_shorter_chain() {
        for schema in [SCHEMA, EARLIER_SCHEMAS[0]] {
            let folder = store_of(schema, &[(1..=5, "block"), (6..=8, "block")]);
            assert_eq!(old_tip(folder.path()).unwrap(), Some(Height(8)));
            bring_back(folder.path(), "<block 5>", "<block 8>");
            let tip = old_tip(folder.path());
            assert!(matches!(tip, Err(StoreError::Incomplete { table: Table::Blocks, .. })), "{tip:?}");
        }
    }

    #[test]
    fn a_replaced_block_that_the_disk_restores_is_not_rebuilt() {
        let folder = store_of(SCHEMA, &[(1..=8, "block"), (6..=8, "other")]);
        assert_eq!(old_tip(folder.path()).unwrap(), Some(Height(8)));
        bring_back(folder.path(), "<block 8>", "<other 8>");
        let tip = old_tip(folder.path());
        assert!(matches!(tip, Err(StoreError::Incomplete { table: Table::Blocks, .. })), "{tip:?}");
    }

    #[test]
    fn a_corrupt_last_block_is_no_tip() {
        let folder = store_of(EARLIER_SCHEMAS[0], &[(1..=1, "block")]);
        let path = folder.path().join(DATA_FILE);
        let mut data = std::fs::read(&path).unwrap();
        let places: Vec<_> = (0..data.len()).filter(|at| data[*at..].starts_with(b"<block 1>")).collect();
        places.into_iter().for_each(|at| data[at] ^= 1);
        std::fs::write(&path, data).unwrap();
        assert!(matches!(old_tip(folder.path()), Err(StoreError::Corrupt { table: Table::Blocks, .. })));
    }
}
