//! Recorded chains as files, and data folders that commands of the program work on.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::daemon::{CommandOutput, Node, run, wait_for};
use super::private_network::{Genesis, address, key_pair, now, private_key};
use super::recorded;
use nisd::model::Amount;
use nisd::store::{AccessMode, Options, Store, StoreError, WriteTxn};

/// Returns a path as text.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("a path that is text")
}

/// A recorded chain as files.
pub struct ChainFiles {
    pub config: PathBuf,
    pub blocks: PathBuf,
}

impl ChainFiles {
    /// Returns the files of a recorded chain: `tiny`, `all-forks` or `one-year`.
    pub fn of(name: &str) -> ChainFiles {
        let folder = recorded("chains").join(name);
        let blocks = if name == "tiny" { "blocks.bin" } else { "blocks.bin.gz" };
        ChainFiles { config: folder.join("network.properties"), blocks: folder.join(blocks) }
    }

    /// Imports the chain into a data folder with further arguments.
    #[track_caller]
    pub fn import(&self, data: &Path, arguments: &[&str]) -> CommandOutput {
        run(["import", "--config", text(&self.config), "--data", text(data)]
            .iter()
            .chain(arguments)
            .chain(&[text(&self.blocks)]))
    }

    /// Imports the chain up to a height.
    #[track_caller]
    pub fn import_to(&self, data: &Path, height: u64) {
        self.import(data, &["--stop-at", &height.to_string()]).expect_success();
    }

    /// Starts a node of the chain on a data folder with further arguments.
    #[track_caller]
    pub fn node(&self, data: &Path, arguments: &[&str]) -> Node {
        Node::start([&["--config", text(&self.config), "--data", text(data)], arguments].concat())
    }
}

/// A data folder in a temporary folder.
pub struct DataFolder(pub TempDir);

impl DataFolder {
    /// Returns a data folder without a store.
    pub fn new() -> DataFolder {
        DataFolder(tempfile::tempdir().expect("a folder"))
    }

    /// Returns a data folder with the chain up to a height.
    #[track_caller]
    pub fn with(chain: &ChainFiles, height: u64) -> DataFolder {
        let folder = DataFolder::new();
        chain.import_to(&folder.path(), height);
        folder
    }

    /// Returns a data folder with a whole chain.
    #[track_caller]
    pub fn full(chain: &ChainFiles) -> DataFolder {
        let folder = DataFolder::new();
        chain.import(&folder.path(), &[]).expect_success();
        folder
    }

    /// Returns the path of the data folder.
    pub fn path(&self) -> PathBuf {
        self.beside("store")
    }

    /// Returns a path beside the data folder.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file beside the data folder.
    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.beside(name);
        std::fs::write(&path, bytes).expect("the file can be written");
        path
    }

    /// Returns the content of the store's file.
    pub fn data_file(&self) -> Vec<u8> {
        std::fs::read(self.path().join("data.mdb")).expect("the store")
    }

    /// Imports blocks with a configuration and further arguments.
    #[track_caller]
    pub fn import(&self, config: &Path, blocks: &Path, arguments: &[&str]) -> CommandOutput {
        ChainFiles { config: config.to_owned(), blocks: blocks.to_owned() }.import(&self.path(), arguments)
    }

    /// Runs a command on the data folder.
    #[track_caller]
    pub fn run(&self, command: &str, arguments: &[&str]) -> CommandOutput {
        run([command, "--data", text(&self.path())].iter().chain(arguments))
    }

    /// Opens the store. A process that another test starts at this moment inherits all open files of this process,
    /// including the lock of a store, until it executes its program.
    #[track_caller]
    pub fn open(&self, mode: AccessMode) -> Store {
        let opened = wait_for("the store", || match Store::open_existing(&self.path(), mode, Options::default()) {
            Err(StoreError::InUse) => None,
            opened => Some(opened),
        });
        opened.expect("a store").0
    }

    /// Changes the store.
    pub fn change(&self, change: impl FnOnce(&mut WriteTxn<'_>)) {
        let store = self.open(AccessMode::Exclusive);
        let mut txn = store.begin_write().expect("a batch");
        change(&mut txn);
        txn.commit().expect("room");
    }

    /// Returns the height and the digest of the store.
    #[track_caller]
    pub fn digest(&self) -> (u64, String) {
        digest(&self.path())
    }
}

/// Returns the height and the digest of the store in a data folder.
#[track_caller]
pub fn digest(data: &Path) -> (u64, String) {
    height_and_digest(run(["digest", "--data", text(data)]))
}

/// Returns the height and the digest that a successful command has printed.
#[track_caller]
pub fn height_and_digest(output: CommandOutput) -> (u64, String) {
    let line = output.expect_success().text();
    let (height, digest) = line.trim_end().split_once(' ').expect("a height and a digest");
    assert!(digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{line}");
    (height.parse().expect("a height"), digest.to_owned())
}

/// Writes the configuration of a network in which key 1 makes a block every second and the keys from 2 on are `payers`
/// funded accounts. Its data folder is `store` in the same folder.
pub fn hasty_network(folder: &Path, payers: u64, settings: &[(&str, &str)]) -> PathBuf {
    let amount = |number| Amount::whole(if number == 1 { 8_000_000_000 } else { 1_000_000 });
    let funded: Vec<_> = (1..payers + 2).map(|number| (address(&key_pair(number)), amount(number))).collect();
    Genesis::new(now(), &funded).write_hasty(folder, &private_key(1).printed(), settings)
}
