//! Reads a store from which a new one is built: only the network (the rows of `meta`) and the blocks. The format of
//! everything else may change freely between versions.

use std::path::Path;

use lmdb::{Cursor, Database, Environment, RoTransaction, Transaction};

use super::blocks::{HEADER_BYTES, block_key, index_length};
use super::checksums::{VerifiedRanges, Verify as _};
use super::durability::BootId;
use super::error::StoreError;
use super::open::{self, FolderLock, Options, SCHEMA};
use super::read::{LAST, Snapshot};
use super::row_checksum::{self, CHECKSUM_BYTES};
use super::tables::Table;
use crate::model::{Hash256, Height};

/// Format of the rows of `blocks` in one version: the key is the height as 8 big-endian bytes; the value is a header
/// that starts with the hash of the block, the block in its verifiable binary form, and further bytes.
#[derive(Clone, Copy, Debug)]
struct Layout {
    schema: &'static str,
    header_bytes: usize,
    /// Returns the number of bytes after the block in a row.
    trailer_bytes: fn(&[u8]) -> Option<usize>,
}

/// Layout of this version.
const CURRENT_LAYOUT: Layout = Layout { schema: SCHEMA, header_bytes: HEADER_BYTES, trailer_bytes: index_and_checksum };
/// Layout of schema 5, which has no checksums of ranges.
const SCHEMA_5: Layout = Layout { schema: "5", ..CURRENT_LAYOUT };
/// Layout of schema 4, in which only a checksum follows the block.
const SCHEMA_4: Layout = Layout { schema: "4", header_bytes: HEADER_BYTES, trailer_bytes: |_| Some(CHECKSUM_BYTES) };

/// Layouts of older versions from whose stores a new one can be built. Schemas before these are not supported.
const LEGACY_LAYOUTS: &[Layout] = &[SCHEMA_5, SCHEMA_4];

fn index_and_checksum(row: &[u8]) -> Option<usize> {
    let index = index_length(row.get(..row.len().checked_sub(CHECKSUM_BYTES)?)?)?;
    index.checked_add(CHECKSUM_BYTES)
}

/// Returns whether rows have checksums: the first revisions with schema 4 wrote none.
fn has_row_checksums(environment: &Environment, blocks: Database) -> bool {
    let key = block_key(Height::NEMESIS);
    let is_sealed = |reader: RoTransaction<'_>| {
        let row = reader.get(blocks, &key);
        row.is_ok_and(|row| row_checksum::verify(Table::Blocks, &key, row).is_ok())
    };
    environment.begin_ro_txn().is_ok_and(is_sealed)
}

/// Returns whether a new store can be built from one with this older schema.
pub fn can_migrate(schema: &str) -> bool {
    LEGACY_LAYOUTS.iter().any(|layout| layout.schema == schema)
}

/// A store of this or an older version, of which only the blocks are read. It is locked against changes.
pub struct LegacyStore {
    environment: Environment,
    blocks: Database,
    layout: Layout,
    network: String,
    lock: FolderLock,
}

impl LegacyStore {
    /// Opens the store in a folder and locks it against changes. If its version has checksums of ranges, the blocks are
    /// compared with them, so that no block of an earlier commit is used and none is missing.
    pub fn open(folder: &Path, options: Options) -> Result<LegacyStore, StoreError> {
        let lock = open::lock_existing(folder, BootId::current())?;
        let environment = open::open_environment(folder, options, open::READ_UNLOCKED)?;
        let (schema, network) = open::stored_meta(&environment)?.ok_or(StoreError::Empty)?;
        let layout = LEGACY_LAYOUTS.iter().chain([&CURRENT_LAYOUT]).find(|layout| layout.schema == schema).copied();
        let blocks = environment.open_db(Some(Table::Blocks.name()))?;
        let layout =
            layout.filter(|layout| layout.schema != SCHEMA_4.schema || has_row_checksums(&environment, blocks));
        let layout = layout.ok_or_else(|| StoreError::Schema { found: schema, expected: SCHEMA.to_owned() })?;
        if layout.schema == SCHEMA {
            log::info!("comparing the blocks in {} with their checksums", folder.display());
            let (databases, verified) = (open::open_tables(&environment)?, VerifiedRanges::default());
            let snapshot = Snapshot::new(environment.begin_ro_txn()?, &databases, None, &verified);
            snapshot.ensure_verified(Table::Blocks, &[], None)?;
        }
        Ok(LegacyStore { environment, blocks, layout, network, lock })
    }

    /// Returns the text that describes its network.
    pub fn network(&self) -> &str {
        &self.network
    }

    /// Returns its blocks.
    pub fn blocks(&self) -> Result<LegacyBlocks<'_>, StoreError> {
        let transaction = self.environment.begin_ro_txn()?;
        Ok(LegacyBlocks { transaction, blocks: self.blocks, layout: self.layout })
    }

    /// Closes the store. The returned lock still protects the folder.
    pub(super) fn into_lock(self) -> FolderLock {
        self.lock
    }
}

/// The blocks of an older store.
pub struct LegacyBlocks<'a> {
    transaction: RoTransaction<'a>,
    blocks: Database,
    layout: Layout,
}

impl LegacyBlocks<'_> {
    /// Returns hash and verifiable binary form of the block at a height; `None` if there is none.
    pub fn at(&self, height: Height) -> Result<Option<(Hash256, &[u8])>, StoreError> {
        match self.transaction.get(self.blocks, &block_key(height)) {
            Ok(row) => {
                // The checksum is needed: a rebuild does not check signatures, and no hash covers them.
                row_checksum::verify(Table::Blocks, &block_key(height), row)?;
                self.layout.parse(row).map(Some)
            }
            Err(lmdb::Error::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns height and hash of the last block; `None` if there is none.
    pub fn tip(&self) -> Result<Option<(Height, Hash256)>, StoreError> {
        const DAMAGED: StoreError = StoreError::Damaged("a block's key");
        match self.transaction.open_ro_cursor(self.blocks)?.get(None, None, LAST) {
            Ok((key, row)) => {
                let height = key.and_then(|key| key.try_into().ok()).map(u64::from_be_bytes).ok_or(DAMAGED)?;
                // LMDB stores the number of rows elsewhere, so rows of an earlier commit do not match it.
                if self.transaction.stat(self.blocks)?.entries() as u64 != height {
                    let is_missing = |key: &[u8; 8]| self.transaction.get(self.blocks, key).is_err();
                    let missing = (1..height).map(|height| block_key(Height(height))).find(is_missing);
                    let first = missing.unwrap_or(block_key(Height(height))).to_vec();
                    return Err(StoreError::Incomplete { table: Table::Blocks, first });
                }
                row_checksum::verify(Table::Blocks, &block_key(Height(height)), row)?;
                Ok(Some((Height(height), self.layout.parse(row)?.0)))
            }
            Err(lmdb::Error::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Layout {
    fn parse<'a>(&self, row: &'a [u8]) -> Result<(Hash256, &'a [u8]), StoreError> {
        let parts = row.split_first_chunk().zip(row.get(self.header_bytes..));
        let parts = parts.and_then(|((hash, _), rest)| {
            let block = rest.get(..rest.len().checked_sub((self.trailer_bytes)(row)?)?)?;
            Some((Hash256(*hash), block))
        });
        parts.ok_or(StoreError::Damaged("a block"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::SigningForm;
    use crate::store::blocks::tests::block;
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
                let row = [text.as_bytes(), &[0; HEADER_BYTES], &[0; 12]].concat();
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
        let (header, block) = block(Height::NEMESIS, 2);
        let (key, bytes) = (block_key(header.height), block.to_bytes(SigningForm::Verifiable));
        let mut value = header.to_bytes(&block);
        if schema == SCHEMA_4.schema {
            value.truncate(HEADER_BYTES + bytes.len());
        }
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
        (folder, header.hash, bytes)
    }

    #[test]
    fn a_block_is_read_from_a_store_of_each_known_version() {
        for schema in [SCHEMA, "5", "4"] {
            let (folder, hash, bytes) = store_of_one_block(schema, |row| row);
            let opened = LegacyStore::open(folder.path(), Options { map_size: 1 << 22 }).unwrap();
            let blocks = opened.blocks().unwrap();
            assert_eq!(blocks.at(Height::NEMESIS).unwrap(), Some((hash, bytes.as_slice())), "schema {schema}");
            assert_eq!(blocks.at(Height(2)).unwrap(), None);
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
        for schema in [SCHEMA, "5"] {
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
        assert!(matches!(tip(folder.path()), Err(StoreError::Incomplete { table: Table::Blocks, .. })));
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
