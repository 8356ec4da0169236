//! Opening a store.

use std::cell::Cell;
use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use lmdb::{Database, DatabaseFlags, Environment, EnvironmentFlags, RoTransaction, Transaction};

use super::batch::{Batch, Right};
use super::error::StoreError;
use super::read::Snapshot;
use super::tables::Table;

/// Version of the tables' layout. A store with another one is refused.
pub const SCHEMA: &str = "2";

const SCHEMA_KEY: &[u8] = b"schema";
const NETWORK_KEY: &[u8] = b"network";

/// Readers that may be open at once, those of other processes (`nisd dump` beside a running node) included.
const MAX_READERS: u32 = 256;

/// How a store is opened.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Most bytes the file may grow to. It is only address space until it is used.
    pub map_size: usize,
}

impl Default for Options {
    /// 64 GiB of address space; the whole public chain takes less than half of it.
    fn default() -> Self {
        Options { map_size: 64 << 30 }
    }
}

/// Which chain a store holds. `text` describes the network completely, so that a store can be used without
/// a configuration; `name` is for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainIdentity {
    /// Name of the network.
    pub name: String,
    /// Everything that must be equal for the chain to be the same.
    pub text: String,
}

/// What a store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessMode {
    /// To change it. One process at a time may do so.
    Exclusive,
    /// To read what is committed, beside a process that changes it.
    Shared,
}

/// An open store.
pub struct Store {
    environment: Environment,
    databases: [Database; Table::ALL.len()],
    /// Whether there is a batch.
    has_batch: Cell<bool>,
    /// Held for exclusive access, and released by the system however the process ends.
    _lock: Option<File>,
    stop: Option<Arc<AtomicBool>>,
}

const LOCK_FILE: &str = "nisd.lock";
/// The file in which LMDB keeps everything.
const DATA_FILE: &str = "data.mdb";

/// A store for tests, and the folder that it goes with.
#[cfg(test)]
pub fn test_store() -> (Store, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let identity = ChainIdentity { name: "test".to_owned(), text: String::new() };
    let store = Store::open(folder.path(), &identity, Options { map_size: 1 << 22 }).unwrap();
    (store, folder)
}

/// Whether there is a store in a folder.
pub fn exists(folder: &Path) -> bool {
    folder.join(DATA_FILE).exists()
}

impl Store {
    /// Opens the store in a folder, or creates it for the chain `identity`. A store of another chain or
    /// layout is not touched.
    pub fn open(folder: &Path, identity: &ChainIdentity, options: Options) -> Result<Store, StoreError> {
        std::fs::create_dir_all(folder).map_err(|error| StoreError::Folder(folder.to_owned(), error))?;
        let lock = Some(lock(folder)?);
        let environment = environment(folder, options)?;
        if let Some(found) = stored_meta(&environment)? {
            check_schema(&found.0)?;
            if found.1 != identity.text {
                return Err(StoreError::OtherNetwork {
                    store: network_name(&found.1),
                    configured: identity.name.clone(),
                });
            }
        }
        let store = Store {
            databases: create_tables(&environment)?,
            environment,
            has_batch: Cell::new(false),
            _lock: lock,
            stop: None,
        };
        let mut batch = store.begin()?;
        batch.put_unjournaled(Table::Meta, SCHEMA_KEY, SCHEMA.as_bytes())?;
        batch.put_unjournaled(Table::Meta, NETWORK_KEY, identity.text.as_bytes())?;
        batch.commit()?;
        Ok(store)
    }

    /// Opens a store that exists, whatever its chain; gives the text of its identity too.
    pub fn open_existing(folder: &Path, access: AccessMode, options: Options) -> Result<(Store, String), StoreError> {
        if !exists(folder) {
            return Err(StoreError::Empty);
        }
        let _lock = match access {
            AccessMode::Exclusive => Some(lock(folder)?),
            AccessMode::Shared => None,
        };
        let environment = environment(folder, options)?;
        let (schema, network) = stored_meta(&environment)?.ok_or(StoreError::Empty)?;
        check_schema(&schema)?;
        Ok((
            Store {
                databases: open_tables(&environment)?,
                environment,
                has_batch: Cell::new(false),
                _lock,
                stop: None,
            },
            network,
        ))
    }

    /// Makes reading end with [`StoreError::Interrupted`] once the flag is set. A process that is stopped in the
    /// middle of reading would otherwise keep its place among the readers, and old pages with it, until all
    /// processes have closed the store.
    pub fn stop_when(&mut self, flag: Arc<AtomicBool>) {
        self.stop = Some(flag);
    }

    /// The last committed state.
    pub fn snapshot(&self) -> Result<Snapshot<'_>, StoreError> {
        Ok(Snapshot::new(self.environment.begin_ro_txn()?, &self.databases, self.stop.as_deref()))
    }

    /// The one writer. Fails while there is another in this process.
    pub fn begin(&self) -> Result<Batch<'_>, StoreError> {
        let right = Right::take(&self.has_batch).ok_or(StoreError::BeingChanged)?;
        Ok(Batch::new(self.environment.begin_rw_txn()?, &self.databases, right))
    }
}

fn lock(folder: &Path) -> Result<File, StoreError> {
    let failed = |error| StoreError::Folder(folder.to_owned(), error);
    let file = File::create(folder.join(LOCK_FILE)).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

type Databases = [Database; Table::ALL.len()];

fn create_tables(environment: &Environment) -> Result<Databases, StoreError> {
    tables(|table| environment.create_db(Some(table.name()), DatabaseFlags::empty()))
}

/// Like [`create_tables`] for a store that has them, without waiting for its writer.
fn open_tables(environment: &Environment) -> Result<Databases, StoreError> {
    tables(|table| environment.open_db(Some(table.name())))
}

fn tables(open: impl Fn(Table) -> Result<Database, lmdb::Error>) -> Result<Databases, StoreError> {
    let databases = Table::ALL.into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
    databases.try_into().map_err(|_| StoreError::Damaged("number of tables"))
}

fn environment(folder: &Path, options: Options) -> Result<Environment, StoreError> {
    let environment = Environment::new()
        // Readers and the writer live in one thread. Blocks follow no order on disk, so read-ahead would
        // only fill memory.
        .set_flags(EnvironmentFlags::NO_TLS | EnvironmentFlags::NO_READAHEAD)
        .set_max_readers(MAX_READERS)
        .set_max_dbs(Table::ALL.len() as u32)
        .set_map_size(options.map_size)
        .open(folder)?;
    Ok(environment)
}

/// Schema and network of a store that was written before.
fn stored_meta(environment: &Environment) -> Result<Option<(String, String)>, StoreError> {
    let meta = match environment.open_db(Some(Table::Meta.name())) {
        Ok(meta) => meta,
        Err(lmdb::Error::NotFound) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let reader: RoTransaction = environment.begin_ro_txn()?;
    let text = |key: &[u8]| match reader.get(meta, &key) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(bytes).into_owned())),
        Err(lmdb::Error::NotFound) => Ok(None),
        Err(error) => Err(StoreError::from(error)),
    };
    Ok(text(SCHEMA_KEY)?.zip(text(NETWORK_KEY)?))
}

fn check_schema(found: &str) -> Result<(), StoreError> {
    match found == SCHEMA {
        true => Ok(()),
        false => Err(StoreError::Schema { found: found.to_owned(), expected: SCHEMA.to_owned() }),
    }
}

fn network_name(text: &str) -> String {
    let name = serde_json::from_str::<serde_json::Value>(text).ok();
    let name = name.as_ref().and_then(|value| value.get("name")?.as_str());
    name.unwrap_or("another network").to_owned()
}

impl ChainIdentity {
    /// The identity of a network's chain.
    pub fn of(network: &crate::model::Network) -> ChainIdentity {
        ChainIdentity { name: network.name.clone(), text: crate::codec::network_to_text(network) }
    }
}
