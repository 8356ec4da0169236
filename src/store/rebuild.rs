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
//! Of the old store only the network (the rows of `meta`) and the blocks are read. The format of everything else may
//! change freely between versions.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use lmdb::{Cursor, Database, Environment, RoTransaction, Transaction};

use super::blocks::{BlockRow, block_in, block_key, heights_of, tip};
use super::checksums::{FIRST, LAST, NEXT, SET_RANGE, found, row_value};
use super::durability;
use super::error::StoreError;
use super::files::{DATA_FILE, DiskSpace, LOCK_TABLE_FILE, exists, size, sync_folder};
use super::open::{ChainIdentity, FolderLock, Options, Store, open_unlocked};
use super::read::Verify as _;
use super::tables::{EARLIER_SCHEMAS, SCHEMA, Table};
use crate::model::{Hash256, Height};

/// Subfolder in which the new store is built.
const FOLDER: &str = "reindex";

/// Returns whether a rebuild was started in a folder and not finished.
pub fn is_rebuild_pending(folder: &Path) -> bool {
    exists(&folder.join(FOLDER))
}

/// A store, and the new store that is to replace it.
pub struct StoreRebuild {
    /// The old store, locked against changes.
    pub old: LegacyStore,
    /// The new store.
    pub new: Store,
    folder: PathBuf,
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
        let space = disk_space(folder)?;
        if !is_complete && !space.is_enough() {
            return Err(StoreError::NoSpace { folder: folder.to_owned(), space });
        }
        let new = match begun {
            Some((new, _)) => new,
            None => Store::open(&place, &identity, options)?,
        };
        Ok(StoreRebuild { old, new, folder: folder.to_owned() })
    }

    /// Returns the disk space that is still needed.
    pub fn disk_space(&self) -> Result<DiskSpace, StoreError> {
        disk_space(&self.folder)
    }

    /// Replaces the old store by the new one, which must be complete.
    pub fn install(self) -> Result<Store, StoreError> {
        let StoreRebuild { old, new, folder } = self;
        new.sync()?;
        let place = folder.join(FOLDER);
        let replace = || {
            File::open(folder.join(DATA_FILE))?.sync_all()?;
            // Closes the old store. Its lock still protects the folder.
            let LegacyStore { lock, .. } = old;
            move_files(&place, &folder, &[LOCK_TABLE_FILE, durability::FILE, DATA_FILE]).map(|()| lock)
        };
        let lock = replace().map_err(|error| StoreError::Folder(folder.clone(), error))?;
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
    if !exists(place) {
        return Ok(None);
    }
    let new = Store::open(place, identity, options)?;
    let reached = tip(&new.snapshot()?)?.map(|block| (block.height, block.hash));
    let blocks = old.blocks()?;
    let is_ours = match reached {
        Some((height, hash)) => blocks.hash(height)? == Some(hash),
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

fn disk_space(folder: &Path) -> Result<DiskSpace, StoreError> {
    let [old, built] = [folder, &folder.join(FOLDER)].map(|folder| size(folder).unwrap_or(0));
    DiskSpace::of(folder, old.saturating_sub(built)).map_err(|error| StoreError::Folder(folder.to_owned(), error))
}

/// Removes the remains of an unfinished store.
pub(super) fn remove_folder(place: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Moves the files of a store in their order to another folder, durably. Each file is replaced as a whole.
pub(super) fn move_files(from: &Path, to: &Path, names: &[&str]) -> io::Result<()> {
    for name in names {
        match std::fs::rename(from.join(name), to.join(name)) {
            // It was renamed before an earlier process ended.
            Err(error) if *name == durability::FILE && error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    sync_folder(to)
}

const DAMAGED: StoreError = StoreError::Damaged("a block");

/// Schema in whose rows of `blocks` a checksum follows the block, and no index.
const SCHEMA_WITHOUT_INDEX: &str = "4";

/// Schemas in whose rows of `blocks` a header of fixed length comes before the whole block.
const SCHEMAS_WITH_WHOLE_BLOCKS: [&str; 4] = ["7", "6", "5", SCHEMA_WITHOUT_INDEX];
/// Length of that header.
const HEADER_BYTES: usize = 32 + 32 + 4 + 8 + 16 + 8 + 40 + 8 + 8;

/// Schemas without checksums of ranges.
const SCHEMAS_WITHOUT_RANGES: [&str; 2] = ["5", "4"];

/// A store of this or an older version, of which only the blocks are read. It is locked against changes.
pub struct LegacyStore {
    environment: Environment,
    blocks: Database,
    rows: LegacyRows,
    network: String,
    lock: FolderLock,
}

/// Form of the rows of `blocks`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LegacyRows {
    /// That of this version.
    Present,
    /// A header of fixed length, the whole block, and an index of it.
    Indexed,
    /// The same without the index.
    Plain,
}

impl LegacyStore {
    /// Opens the store in a folder and locks it against changes. If its version has checksums of ranges, the blocks are
    /// compared with them, so that no block of an earlier commit is used and none is missing.
    pub fn open(folder: &Path, options: Options) -> Result<LegacyStore, StoreError> {
        let lock = FolderLock::of_existing(folder)?;
        let (environment, stored) = open_unlocked(folder, options)?;
        let (schema, network) = stored.ok_or(StoreError::Empty)?;
        let blocks = environment.open_db(Some(Table::Blocks.name()))?;
        let has_row_checksums = || {
            let key = block_key(Height::NEMESIS);
            let is_valid = |reader: RoTransaction<'_>| {
                reader.get(blocks, &key).is_ok_and(|row| row_value(Table::Blocks, &key, row, true).is_ok())
            };
            environment.begin_ro_txn().is_ok_and(is_valid)
        };
        let rows = match schema.as_str() {
            SCHEMA_WITHOUT_INDEX => LegacyRows::Plain,
            schema if SCHEMAS_WITH_WHOLE_BLOCKS.contains(&schema) => LegacyRows::Indexed,
            _ => LegacyRows::Present,
        };
        let is_known = schema == SCHEMA || EARLIER_SCHEMAS.contains(&schema.as_str());
        // The first revisions with schema 4 wrote no checksums of rows.
        if !is_known || rows == LegacyRows::Plain && !has_row_checksums() {
            return Err(StoreError::Schema { found: schema, expected: SCHEMA.to_owned() });
        }
        if SCHEMAS_WITHOUT_RANGES.contains(&schema.as_str()) {
            return Ok(LegacyStore { environment, blocks, rows, network, lock });
        }
        log::info!("comparing the blocks in {} with their checksums", folder.display());
        let store = Store::of_blocks(folder, environment, blocks)?;
        store.snapshot()?.ensure_verified(Table::Blocks, &[], None)?;
        Ok(LegacyStore { environment: store.environment, blocks, rows, network, lock })
    }

    /// Returns the text that describes its network.
    pub fn network(&self) -> &str {
        &self.network
    }

    /// Returns its blocks.
    pub fn blocks(&self) -> Result<LegacyBlocks<'_>, StoreError> {
        let transaction = self.environment.begin_ro_txn()?;
        Ok(LegacyBlocks { transaction, blocks: self.blocks, rows: self.rows })
    }
}

/// The blocks of an older store.
pub struct LegacyBlocks<'a> {
    transaction: RoTransaction<'a>,
    blocks: Database,
    rows: LegacyRows,
}

impl LegacyBlocks<'_> {
    /// Returns the hash of the block at a height; `None` if there is none.
    pub fn hash(&self, height: Height) -> Result<Option<Hash256>, StoreError> {
        if self.rows == LegacyRows::Present {
            return Ok(self.present(height)?.map(|block| block.hash));
        }
        let row = self.row(height)?;
        Ok(row.and_then(<[u8]>::first_chunk).map(|hash| Hash256(*hash)))
    }

    /// Replaces `out` by the verifiable binary form of the block at a height. Returns whether there is one.
    pub fn read(&self, height: Height, out: &mut Vec<u8>) -> Result<bool, StoreError> {
        out.clear();
        if self.rows == LegacyRows::Present {
            let Some(block) = self.present(height)? else { return Ok(false) };
            let parent = match height {
                Height::NEMESIS => Hash256::default(),
                Height(height) => self.hash(Height(height - 1))?.ok_or(DAMAGED)?,
            };
            block.append_bytes(parent, out)?;
        } else {
            let Some(row) = self.row(height)? else { return Ok(false) };
            let whole = || {
                let index_bytes = if self.rows == LegacyRows::Indexed { index_length(row)? } else { 0 };
                row.get(HEADER_BYTES..row.len().checked_sub(index_bytes)?)
            };
            out.extend_from_slice(whole().ok_or(DAMAGED)?);
        }
        Ok(true)
    }

    /// Returns height and hash of the last block; `None` if there is none.
    pub fn tip(&self) -> Result<Option<(Height, Hash256)>, StoreError> {
        let last = found(self.transaction.open_ro_cursor(self.blocks)?.get(None, None, LAST))?;
        let Some((key, _)) = last else { return Ok(None) };
        let height = key.and_then(|key| key.try_into().ok()).map(u64::from_be_bytes);
        let height = height.ok_or(StoreError::Damaged("a block's key"))?;
        self.check_complete(Height(height))?;
        Ok(Some((Height(height), self.hash(Height(height))?.ok_or(DAMAGED)?)))
    }

    /// Checks that no block up to `last` is missing.
    fn check_complete(&self, last: Height) -> Result<(), StoreError> {
        let missing = |height| StoreError::Incomplete { table: Table::Blocks, first: block_key(height).to_vec() };
        if self.rows == LegacyRows::Present {
            let cursor = self.transaction.open_ro_cursor(self.blocks)?;
            let (mut next, mut row) = (Height::NEMESIS, found(cursor.get(None, None, FIRST))?);
            while let Some((Some(key), value)) = row {
                let (first, last) = heights_of(key, row_value(Table::Blocks, key, value, false)?)?;
                if first != next {
                    return Err(missing(next));
                }
                (next, row) = (last.next(), found(cursor.get(None, None, NEXT))?);
            }
        // LMDB stores the number of rows elsewhere, so rows of an earlier commit do not match it.
        } else if self.transaction.stat(self.blocks)?.entries() as u64 != last.0 {
            let is_missing = |height: &Height| self.transaction.get(self.blocks, &block_key(*height)).is_err();
            return Err(missing((1..last.0).map(Height).find(is_missing).unwrap_or(last)));
        }
        Ok(())
    }

    /// Returns the block at a height from rows of this version.
    fn present(&self, height: Height) -> Result<Option<BlockRow<'_>>, StoreError> {
        let cursor = self.transaction.open_ro_cursor(self.blocks)?;
        let entry = found(cursor.get(Some(&block_key(height)), None, SET_RANGE))?;
        let Some((Some(key), row)) = entry else { return Ok(None) };
        let bytes = block_in(key, row_value(Table::Blocks, key, row, false)?, height)?;
        bytes.map(|bytes| BlockRow::open(height, bytes)).transpose()
    }

    /// Returns the row of the block at a height, which starts with its hash, after comparing it with its checksum. That is
    /// needed: a rebuild does not check signatures, and no hash covers them.
    fn row(&self, height: Height) -> Result<Option<&[u8]>, StoreError> {
        let key = block_key(height);
        let row = found(self.transaction.get(self.blocks, &key))?;
        row.map(|row| row_value(Table::Blocks, &key, row, true)).transpose()
    }
}

/// Returns the length of the index at the end of a row: 8 bytes for each transaction, the number of transactions as NIS1
/// counts, their number, and a checksum.
fn index_length(row: &[u8]) -> Option<usize> {
    let [_, _, _, _, count @ .., _, _, _, _] = row.last_chunk::<12>()?;
    (u32::from_le_bytes(*count) as usize).checked_mul(8)?.checked_add(12)
}

/// Returns the row of a block as the schemas before 8 stored it, as far as a rebuild reads it.
#[cfg(test)]
pub fn legacy_row(hash: Hash256, block: &crate::model::Block, has_index: bool) -> Vec<u8> {
    let count = block.transactions.len();
    let mut row = hash.0.to_vec();
    row.resize(HEADER_BYTES, 0);
    row.extend_from_slice(&block.to_bytes(crate::codec::SigningForm::Verifiable));
    if has_index {
        row.extend_from_slice(&vec![0; 8 * count + 4]);
        row.extend_from_slice(&(count as u32).to_le_bytes());
        row.extend_from_slice(&[0; 4]);
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Hash256, Height};
    use crate::store::block_key;
    use crate::store::blocks::tests::block;

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
}

#[cfg(test)]
mod legacy_tests {
    use super::*;
    use crate::codec::SigningForm;
    use crate::store::blocks::tests::block;
    use crate::store::checksums::CHECKSUM_BYTES;
    use crate::store::{Write as _, test_store};

    const PAGE: usize = 4096;

    /// Returns the numbers of the pages that contain a text.
    fn pages_with(data: &[u8], text: &[u8]) -> Vec<usize> {
        let pages = data.chunks(PAGE).enumerate();
        pages.filter(|(_, page)| page.windows(text.len()).any(|part| part == text)).map(|(number, _)| number).collect()
    }

    /// Creates a store whose blocks are written in several commits, each with its heights and a name.
    fn store(schema: &str, commits: &[(std::ops::RangeInclusive<u64>, &str)]) -> tempfile::TempDir {
        let (store, folder) = test_store();
        for (heights, name) in commits {
            let mut batch = store.begin_write().unwrap();
            for height in heights.clone() {
                let text = format!("<{name} {height}>");
                // The text takes the place of the hash.
                let row = if !SCHEMAS_WITH_WHOLE_BLOCKS.contains(&schema) {
                    let (mut header, block) = block(Height(height), 0);
                    header.hash.0[..text.len()].copy_from_slice(text.as_bytes());
                    header.to_bytes(&block)
                } else {
                    [text.as_bytes(), &[0; HEADER_BYTES], &[0; 12]].concat()
                };
                batch.put(Table::Blocks, &block_key(Height(height)), &row).unwrap();
            }
            batch.put_unjournaled(Table::Meta, b"schema", schema.as_bytes()).unwrap();
            batch.commit().unwrap();
        }
        folder
    }

    fn tip(folder: &Path) -> Result<Option<Height>, StoreError> {
        let opened = LegacyStore::open(folder, Options { map_size: 1 << 22 })?;
        Ok(opened.blocks()?.tip()?.map(|(height, _)| height))
    }

    /// Overwrites the pages that contain `present` with the page that contains `earlier`, except for the page number.
    fn bring_back(folder: &Path, earlier: &str, present: &str) {
        let path = folder.join("data.mdb");
        let mut data = std::fs::read(&path).unwrap();
        let present = pages_with(&data, present.as_bytes());
        let earlier = pages_with(&data, earlier.as_bytes()).into_iter().find(|page| !present.contains(page)).unwrap();
        for page in present {
            let number = size_of::<usize>();
            data.copy_within(earlier * PAGE + number..(earlier + 1) * PAGE, page * PAGE + number);
        }
        std::fs::write(&path, data).unwrap();
    }

    /// Creates a store of one block. Returns the folder, the hash of the block and its bytes. `change` changes the row
    /// as it is stored, with its checksum.
    fn store_of_one_block(
        schema: &str,
        change: impl FnOnce(Vec<u8>) -> Vec<u8>,
    ) -> (tempfile::TempDir, Hash256, Vec<u8>) {
        let (header, mut block) = block(Height::NEMESIS, 2);
        block.previous_hash = Hash256::default().into();
        let (key, bytes) = (block_key(header.height), block.to_bytes(SigningForm::Verifiable));
        let value = match SCHEMAS_WITH_WHOLE_BLOCKS.contains(&schema) {
            true => legacy_row(header.hash, &block, schema != SCHEMA_WITHOUT_INDEX),
            false => header.to_bytes(&block),
        };
        let (store, folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        batch.put(Table::Blocks, &key, &value).unwrap();
        batch.put_unjournaled(Table::Meta, b"schema", schema.as_bytes()).unwrap();
        batch.commit().unwrap();
        drop(store);
        let environment = Environment::new().set_max_dbs(1).set_map_size(1 << 22).open(folder.path()).unwrap();
        let blocks = environment.open_db(Some(Table::Blocks.name())).unwrap();
        let mut transaction = environment.begin_rw_txn().unwrap();
        let row = change(transaction.get(blocks, &key).unwrap().to_vec());
        transaction.put(blocks, &key, &row, lmdb::WriteFlags::empty()).unwrap();
        transaction.commit().unwrap();
        // The record names the state before.
        std::fs::remove_file(folder.path().join(durability::FILE)).unwrap();
        (folder, header.hash, bytes)
    }

    #[test]
    fn a_block_is_read_from_a_store_of_each_known_version() {
        for schema in [SCHEMA, "8", "7", "6", "5", "4"] {
            let (folder, hash, bytes) = store_of_one_block(schema, |row| row);
            let opened = LegacyStore::open(folder.path(), Options { map_size: 1 << 22 }).unwrap();
            let blocks = opened.blocks().unwrap();
            let mut read = Vec::new();
            assert!(blocks.read(Height::NEMESIS, &mut read).unwrap());
            assert_eq!((blocks.hash(Height::NEMESIS).unwrap(), read), (Some(hash), bytes), "schema {schema}");
            assert_eq!(blocks.hash(Height(2)).unwrap(), None);
            assert!(!blocks.read(Height(2), &mut Vec::new()).unwrap());
        }
    }

    #[test]
    fn a_store_whose_rows_have_no_checksums_yet_is_not_migrated() {
        let without_checksum = |mut row: Vec<u8>| {
            row.truncate(row.len() - CHECKSUM_BYTES);
            row
        };
        let (folder, ..) = store_of_one_block("4", without_checksum);
        let opened = LegacyStore::open(folder.path(), Options { map_size: 1 << 22 });
        assert!(matches!(opened.err(), Some(StoreError::Schema { found, .. }) if found == "4"));
    }

    #[test]
    fn an_older_store_that_lost_its_last_blocks_is_not_migrated_as_a_shorter_chain() {
        // Schema 5 has no checksums of ranges.
        for schema in [SCHEMA, "8", "7", "6", "5"] {
            let folder = store(schema, &[(1..=5, "block"), (6..=8, "block")]);
            assert_eq!(tip(folder.path()).unwrap(), Some(Height(8)));
            bring_back(folder.path(), "<block 5>", "<block 8>");
            let tip = tip(folder.path());
            assert!(
                matches!(tip, Err(StoreError::Incomplete { table: Table::Blocks, .. })),
                "schema {schema}: {tip:?}"
            );
        }
    }

    #[test]
    fn a_replaced_block_that_the_disk_restores_is_not_migrated() {
        let folder = store(SCHEMA, &[(1..=8, "block"), (6..=8, "other")]);
        assert_eq!(tip(folder.path()).unwrap(), Some(Height(8)));
        bring_back(folder.path(), "<block 8>", "<other 8>");
        let tip = tip(folder.path());
        assert!(matches!(tip, Err(StoreError::Incomplete { table: Table::Blocks, .. })), "{tip:?}");
    }

    #[test]
    fn a_corrupt_last_block_is_no_tip() {
        let folder = store("5", &[(1..=1, "block")]);
        let path = folder.path().join("data.mdb");
        let mut data = std::fs::read(&path).unwrap();
        for page in pages_with(&data, b"<block 1>") {
            let at = data[page * PAGE..].windows(9).position(|part| part == b"<block 1>").unwrap();
            data[page * PAGE + at] ^= 1;
        }
        std::fs::write(&path, data).unwrap();
        assert!(matches!(tip(folder.path()), Err(StoreError::Corrupt { table: Table::Blocks, .. })));
    }
}
