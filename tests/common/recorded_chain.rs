//! A chain recorded from NIS1 that can be imported up to any height.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use nisd::chain::{BlockImporter, BlockSource, ImportError, ImportOptions, ImportProgress, RollbackError, rollback};
use nisd::codec::SigningForm;
use nisd::codec::block_file::{BlockFile, BlockFiles, write_block};
use nisd::config::{self, Settings};
use nisd::model::{Block, Hash256, Height, Network, Timestamp};
use nisd::state::{digest, dump, set_epoch_size};
use nisd::store::{ChainIdentity, Options, Read, Store, StoredHeader, Table, tip};
use serde_json::Value;

use super::recorded;

/// A network time later than every recorded block.
pub const FAR_FUTURE: Timestamp = Timestamp(i32::MAX - 100);

/// A recorded chain.
pub struct Chain {
    /// Folder of the recording.
    pub folder: PathBuf,
    /// Its network.
    pub network: Network,
    /// Its nemesis block.
    pub nemesis: Vec<u8>,
}

impl Chain {
    /// Opens the smallest chain.
    pub fn tiny() -> Chain {
        Chain::open("tiny")
    }

    /// Opens a recorded chain: `tiny`, `all-forks` or `one-year`.
    pub fn open(name: &str) -> Chain {
        let folder = recorded("chains").join(name);
        let settings = config::load(Some(&folder.join("network.properties")), Vec::new(), Some(&folder));
        let Settings { network, nemesis, .. } = settings.expect("the recorded configuration");
        let nemesis = nemesis.read().expect("the recorded nemesis block");
        Chain { folder, network, nemesis }
    }

    /// Opens the file of its blocks.
    pub fn file(&self) -> BlockFile<'static> {
        let plain = self.folder.join("blocks.bin");
        open_blocks(&if plain.exists() { plain } else { self.folder.join("blocks.bin.gz") })
    }

    /// Reads all blocks after the nemesis block.
    pub fn blocks(&self) -> Vec<Block> {
        self.read_blocks(self.file())
    }

    fn read_blocks(&self, mut file: BlockFile<'_>) -> Vec<Block> {
        let (mut bytes, mut blocks) = (Vec::new(), Vec::new());
        while file.next(&mut bytes).unwrap() {
            blocks.push(self.block(&bytes));
        }
        blocks
    }

    /// Decodes a block from its verifiable binary form.
    pub fn block(&self, bytes: &[u8]) -> Block {
        Block::from_bytes(bytes, nisd::codec::Context::of(&self.network)).unwrap()
    }

    /// Reads the lines of a compressed file of the folder.
    pub fn lines(&self, file: &str) -> Vec<Value> {
        let mut text = String::new();
        GzDecoder::new(File::open(self.folder.join(file)).unwrap()).read_to_string(&mut text).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Creates an empty store for it. Its hash epochs are short, so that many are compacted and merged.
    pub fn store(&self, folder: &Path) -> Store {
        let store = Store::open(folder, &ChainIdentity::of(&self.network), Options::default()).unwrap();
        let mut batch = store.begin_write().unwrap();
        set_epoch_size(&mut batch, 2).unwrap();
        batch.commit().unwrap();
        store
    }

    /// Imports the recorded blocks up to a height with full validation.
    pub fn import(&self, store: &Store, stop_at: u64) {
        self.import_files(store, vec![self.file()], Some(Height(stop_at))).unwrap();
    }

    /// Imports blocks from files.
    pub fn import_files(
        &self,
        store: &Store,
        files: Vec<BlockFile<'_>>,
        stop_at: Option<Height>,
    ) -> Result<(), ImportError> {
        let source = BlockSource::Files(BlockFiles::new(files));
        import_blocks(store, &self.network, self.nemesis.clone(), source, stop_at)
    }

    /// Undoes the blocks above a height.
    pub fn roll_back(&self, store: &Store, height: u64) -> Result<(), RollbackError> {
        let mut batch = store.begin_write()?;
        rollback(&mut batch, Height(height))?;
        Ok(batch.commit()?)
    }
}

/// Imports the nemesis block, if there is none, and the blocks of a source with full validation.
pub fn import_blocks<'s>(
    store: &'s Store,
    network: &'s Network,
    nemesis: Vec<u8>,
    source: BlockSource<'s>,
    stop_at: Option<Height>,
) -> Result<(), ImportError> {
    let options = ImportOptions {
        batch_rows: 10_000,
        batch_blocks: 1_000,
        write_cache: 1 << 20,
        stop_at,
        ..ImportOptions::DEFAULT
    };
    let mut importer = BlockImporter::new(store, network, nemesis, source, options).expect("a store");
    while importer.step(FAR_FUTURE)? != ImportProgress::Done {}
    Ok(())
}

/// Imports the nemesis block, if there is none, and a list of blocks.
pub fn import_list<'b>(store: &Store, network: &Network, nemesis: &[u8], blocks: impl IntoIterator<Item = &'b Block>) {
    let file = file_of(blocks);
    let files = BlockFiles::new(vec![BlockFile::new(file.as_slice()).expect("blocks")]);
    import_blocks(store, network, nemesis.to_vec(), BlockSource::Files(files), None).expect("valid blocks");
}

/// Returns the content of a file with these blocks.
pub fn file_of<'b>(blocks: impl IntoIterator<Item = &'b Block>) -> Vec<u8> {
    let mut file = Vec::new();
    for block in blocks {
        write_block(&mut file, &block.to_bytes(SigningForm::Verifiable)).expect("room");
    }
    file
}

fn open_blocks(path: &Path) -> BlockFile<'static> {
    BlockFile::new(File::open(path).unwrap()).unwrap()
}

/// Copies the present files of a store, as a disk image; the lock file of LMDB is useless to others.
pub fn copy_store(from: &Path, to: &Path) {
    for file in fs::read_dir(from).unwrap().map(Result::unwrap).filter(|file| file.file_name() != "lock.mdb") {
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

/// Returns the rows of a table with this prefix: key and value.
pub fn rows(state: &impl Read, table: Table, prefix: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let rows = state.entries(table, prefix).unwrap().map(Result::unwrap);
    rows.map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

/// Returns the dump of the state of a store, or of one that is not committed yet.
pub fn dump_of(state: &impl Read, network: &Network, tip: &StoredHeader) -> Value {
    let mut text = Vec::new();
    dump(state, network, tip, &mut text).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Returns the state digest of a store.
pub fn digest_of(store: &Store) -> Hash256 {
    digest(&store.snapshot().unwrap()).unwrap()
}

/// Returns the tip of a store.
pub fn tip_of(store: &Store) -> StoredHeader {
    tip(&store.snapshot().unwrap()).unwrap().unwrap()
}
