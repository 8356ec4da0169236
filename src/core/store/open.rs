//! Opens stores.

use std::cell::Cell;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use lmdb::{Database, DatabaseFlags, Environment, EnvironmentFlags};
use rustix::fs::{major, minor, stat};
use rustix::io::Errno;

use super::checksums::{VerifiedRanges, found};
use super::durability::{self, BootId, Durability};
use super::error::{Result, StoreError, in_folder};
use super::files::{self, DATA_FILE, FileFault, LockTable, exists, free_bytes, size};
use super::read::Verify as _;
use super::tables::{EARLIER_SCHEMAS, SCHEMA, Table};
use super::write::Write as _;
use crate::codec::{network_from_text, network_to_text};
use crate::files::{Access, create_folder, if_present, leads_to, missing_target, named, open_own};
use crate::metrics::Histogram;
use crate::model::Network;

const A_TABLE_IS_MISSING: StoreError = StoreError::Damaged("a table is missing");
const SCHEMA_KEY: &[u8] = b"schema";
const NETWORK_KEY: &[u8] = b"network";

/// Maximum number of readers at the same time, including those of other processes (`nisd dump` beside a running node).
const MAX_READERS: u32 = 256;

/// Options for opening a store.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Maximum size of the data file in bytes. It is only address space until it is used.
    pub map_size: usize,
}

impl Default for Options {
    /// Returns 64 GiB of address space, of which the whole public chain takes less than half, or 1 GiB on 32 bits.
    fn default() -> Self {
        Options { map_size: usize::try_from(64u64 << 30).unwrap_or(1 << 30) }
    }
}

/// The chain of a store. `text` describes the network completely, so that a store can be used without a configuration;
/// `name` is for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainIdentity {
    /// Name of the network.
    pub name: String,
    /// All parameters that must be equal for the chain to be the same.
    pub text: String,
}

/// Purpose of opening a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessMode {
    /// To change it. One process at a time may do so.
    Exclusive,
    /// To read commits, possibly beside a process that changes the store.
    Shared,
}

/// An open store.
pub struct Store {
    pub(super) environment: Environment,
    /// LMDB's lock table, if it is used; closed after the environment.
    readers: Option<LockTable>,
    databases: Databases,
    pub(super) folder: PathBuf,
    pub(super) durability: Durability,
    /// Whether there is a write transaction.
    pub(super) has_write_txn: Cell<bool>,
    /// Whether LMDB accepts no transaction any more, because it could not write a meta page.
    is_dead: Cell<bool>,
    /// Ranges that were compared with their checksums.
    pub(super) verified: VerifiedRanges,
    /// Held for exclusive access. The system releases it however the process ends.
    pub(super) lock: Option<FolderLock>,
    pub(super) stop: Option<Arc<AtomicBool>>,
}

/// The tables; those of a store of an older version may be missing.
type Databases = [Option<Database>; Table::ALL.len()];

/// Metrics of a store.
#[derive(Clone, Debug)]
pub struct StoreMetrics {
    /// Bytes of the data file.
    pub bytes: Option<u64>,
    /// Maximum bytes of the data file (address space).
    pub map_bytes: u64,
    /// Bytes of the file up to its last used page. Free pages below are used before the file grows.
    pub used_bytes: u64,
    /// Free bytes on its disk.
    pub free_bytes: Option<u64>,
    /// Its readers that have a snapshot, those of other processes included.
    pub readers: Option<usize>,
    /// Durations of this process's commits, including waiting for the disk. `None` for a scratch or read-only store.
    pub commit_times: Option<Histogram>,
}

/// File that the process holds locked while it may change the store. It contains [`INITIALIZED`] once a store was
/// created.
pub(super) const LOCK_FILE: &str = "nisd.lock";
/// Files of which a process that may change the store holds locks: the data file once it is open.
const LOCKED_FILES: [&str; 2] = [LOCK_FILE, DATA_FILE];
const INITIALIZED: &[u8; 5] = b"made\n";
/// Minimum address space that is useful for a store.
const MIN_MAP_SIZE: usize = 64 << 20;
const ENOMEM: i32 = Errno::NOMEM.raw_os_error();
/// Readers and the writer are in one thread. Reads follow no order on the disk, so read-ahead would only fill memory.
const COMMON_FLAGS: EnvironmentFlags = EnvironmentFlags::NO_TLS.union(EnvironmentFlags::NO_READAHEAD);
/// For reading a store that nobody changes: the lock table, which protects pages in use, is not needed.
const READ_UNLOCKED: EnvironmentFlags = EnvironmentFlags::READ_ONLY.union(EnvironmentFlags::NO_LOCK);

/// Returns a store for tests, and its folder.
#[cfg(any(test, feature = "testing"))]
pub fn test_store() -> (Store, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let identity = ChainIdentity { name: "test".to_owned(), text: String::new() };
    let store = Store::open(folder.path(), &identity, Options { map_size: 1 << 22 }).unwrap();
    (store, folder)
}

/// Returns the schema of the store in a folder, if it is an older one from which a new store can be built. Fails as
/// opening for exclusive access does.
pub fn older_schema(folder: &Path, options: Options) -> Result<Option<String>> {
    let _lock = FolderLock::of_existing(folder)?;
    let (_, schema, _) = open_unlocked(folder, options)?;
    Ok(Some(schema).filter(|schema| EARLIER_SCHEMAS.contains(&schema.as_str())))
}

/// Returns the text that describes the network of the store in a folder, whatever its schema.
pub fn stored_network(folder: &Path, options: Options) -> Result<String> {
    check_existing(folder)?;
    let (_, _, network) = open_unlocked(folder, options)?;
    Ok(network)
}

/// Opens a store that nobody changes, of any version. Also returns its schema and network.
fn open_unlocked(folder: &Path, options: Options) -> Result<(Store, String, String)> {
    let store = Store::new(open_environment(folder, options, READ_UNLOCKED)?, folder)?;
    let (schema, network) = store.meta()?.ok_or(StoreError::Empty)?;
    Ok((store, schema, network))
}

impl Store {
    /// Opens the store in a folder, or creates it for the chain `identity`. A store of another chain or layout is not
    /// changed.
    pub fn open(folder: &Path, identity: &ChainIdentity, options: Options) -> Result<Store> {
        Store::open_with_boot(BootId::current(), folder, identity, options)
    }

    /// Like [`Store::open`], with a given boot.
    pub fn open_with_boot(boot: BootId, folder: &Path, identity: &ChainIdentity, options: Options) -> Result<Store> {
        create_folder(folder).map_err(in_folder(folder))?;
        let lock = FolderLock::take(folder)?;
        durability::recover_to_durable(folder)?;
        require_data_file(folder, lock.is_initialized())?;
        let readers = LockTable::open(folder).map_err(in_folder(folder))?;
        let store = Store::new(open_environment(folder, options, EnvironmentFlags::NO_SYNC)?, folder)?;
        let stored = store.meta()?;
        if let Some((schema, network)) = &stored {
            check_schema(schema)?;
            identity.check(network)?;
        }
        let durability = Durability::new(folder, boot)?;
        let mut store = Store { readers: Some(readers), lock: Some(lock), durability, ..store };
        store.create_missing_tables()?;
        // Nothing is written if nothing changes, so that a node can start on a full disk.
        if stored.is_none_or(|(_, network)| network != identity.text) {
            let mut batch = store.begin_write()?;
            batch.put_unjournaled(Table::Meta, SCHEMA_KEY, SCHEMA.as_bytes())?;
            batch.put_unjournaled(Table::Meta, NETWORK_KEY, identity.text.as_bytes())?;
            batch.commit()?;
        }
        store.lock.as_ref().map_or(Ok(()), FolderLock::mark_initialized).map_err(in_folder(folder))?;
        Ok(store)
    }

    /// Creates a scratch store in an empty folder: nothing waits for the disk, and other processes are not locked out.
    pub fn scratch(folder: &Path, options: Options) -> Result<Store> {
        let readers = LockTable::open(folder).map_err(in_folder(folder))?;
        let store = Store::new(open_environment(folder, options, EnvironmentFlags::NO_SYNC)?, folder)?;
        let mut store = Store { readers: Some(readers), ..store };
        store.create_missing_tables()?;
        Ok(store)
    }

    /// Opens the tables that exist, without waiting for the writer of the store.
    fn new(environment: Environment, folder: &Path) -> Result<Store> {
        let mut databases = [None; Table::ALL.len()];
        for table in Table::ALL {
            databases[table as usize] = found(environment.open_db(Some(table.name())))?;
        }
        Ok(Store {
            environment,
            readers: None,
            databases,
            folder: folder.to_owned(),
            durability: Durability::none(folder),
            has_write_txn: Cell::new(false),
            is_dead: Cell::new(false),
            verified: VerifiedRanges::default(),
            lock: None,
            stop: None,
        })
    }

    /// Creates the missing tables, each in a commit of its own.
    fn create_missing_tables(&mut self) -> Result<()> {
        for table in Table::ALL {
            if self.databases[table as usize].is_none() {
                self.durability.ensure_record()?;
                let created = self.environment.create_db(Some(table.name()), DatabaseFlags::empty());
                self.databases[table as usize] = Some(self.written(created)?);
                self.durability.on_commit();
                self.durability.sync_and_record()?;
            }
        }
        Ok(())
    }

    /// Returns schema and network, if there is a chain, after comparing them with their checksums if the version of the
    /// store has them: everything else depends on them.
    fn meta(&self) -> Result<Option<(String, String)>> {
        let has = |table: Table| self.databases[table as usize].is_some();
        if !has(Table::Meta) {
            return Ok(None);
        }
        let (snapshot, has_checksums) = (self.snapshot()?, has(Table::Checksums));
        if has_checksums {
            snapshot.ensure_verified(Table::Meta, &[], None)?;
        }
        let text = |key: &[u8]| -> Result<_> {
            Ok(snapshot.raw_row(Table::Meta, key)?.map(|text| String::from_utf8_lossy(text).into_owned()))
        };
        let stored = text(SCHEMA_KEY)?.zip(text(NETWORK_KEY)?);
        match &stored {
            Some((schema, _)) if !has_checksums && schema == SCHEMA => Err(A_TABLE_IS_MISSING),
            _ => Ok(stored),
        }
    }

    /// Opens the store in a folder, of this version or an older one, to build another from its blocks. It is locked
    /// against changes. Also returns the text of its identity.
    pub(super) fn open_for_rebuild(folder: &Path, options: Options) -> Result<(Store, String)> {
        let lock = Some(FolderLock::of_existing(folder)?);
        let (store, schema, network) = open_unlocked(folder, options)?;
        match check_schema(&schema) {
            Ok(()) | Err(StoreError::OlderSchema { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok((Store { lock, ..store }, network))
    }

    /// Returns the same store after its files were moved to another folder that is locked.
    pub(super) fn relocated(self, folder: PathBuf, lock: Option<FolderLock>) -> Store {
        let mut durability = self.durability;
        durability.folder.clone_from(&folder);
        Store { folder, durability, lock, ..self }
    }

    /// Opens an existing store, whatever its chain. Also returns the text of its identity.
    pub fn open_existing(folder: &Path, access: AccessMode, options: Options) -> Result<(Store, String)> {
        Store::open_existing_with_boot(BootId::current(), folder, access, options)
    }

    /// Like [`Store::open_existing`], with a given boot.
    pub fn open_existing_with_boot(
        boot: BootId,
        folder: &Path,
        access: AccessMode,
        options: Options,
    ) -> Result<(Store, String)> {
        open_unreplaced(&folder.join(DATA_FILE), || Store::try_open_existing(boot, folder, access, options))
    }

    fn try_open_existing(boot: BootId, folder: &Path, access: AccessMode, options: Options) -> Result<(Store, String)> {
        let is_exclusive = access == AccessMode::Exclusive;
        let (lock, flags) = if is_exclusive {
            (Some(FolderLock::of_existing(folder)?), EnvironmentFlags::NO_SYNC)
        } else {
            durability::reject_unrecovered(folder, boot)?;
            check_existing(folder)?;
            (None, EnvironmentFlags::READ_ONLY)
        };
        let (readers, flags) = match LockTable::open(folder) {
            Ok(readers) => (Some(readers), flags),
            Err(_) if !is_exclusive && is_unlocked(folder) => (None, READ_UNLOCKED),
            Err(error) => return Err(in_folder(folder)(error)),
        };
        let store = Store::new(open_environment(folder, options, flags)?, folder)?;
        let (schema, network) = store.meta()?.ok_or(StoreError::Empty)?;
        check_schema(&schema)?;
        if store.databases.contains(&None) {
            return Err(A_TABLE_IS_MISSING);
        }
        let durability = if is_exclusive { Durability::new(folder, boot)? } else { Durability::none(folder) };
        Ok((Store { readers, lock, durability, ..store }, network))
    }

    /// Opens a store that another process may change meanwhile, only to bring its rows into memory: nothing is locked, so
    /// that no page is kept for this process, and what it reads may be wrong. Also returns the text of its identity.
    pub fn open_to_read_ahead(folder: &Path, options: Options) -> Result<(Store, String)> {
        let (store, schema, network) = open_unlocked(folder, options)?;
        check_schema(&schema)?;
        // The first commit of the other process reads them.
        let _ = files::read_free_pages(&folder.join(DATA_FILE));
        Ok((store, network))
    }

    /// Makes reads fail with [`StoreError::Interrupted`] once the flag is set. A process killed in the middle of a read
    /// keeps its reader slot, and old pages with it, until the next write transaction.
    pub fn set_interrupt_flag(&mut self, flag: Arc<AtomicBool>) {
        self.stop = Some(flag);
    }

    /// Returns the failure after which this process can use the store no longer: another one has to open it, which loses
    /// nothing that was told to anybody.
    pub fn failure(&self) -> Option<StoreError> {
        let dead = || self.is_dead.get().then_some(lmdb::Error::Panic.into());
        self.durability.failure().or_else(dead)
    }

    /// Returns what makes its commits durable.
    pub fn durability(&self) -> &Durability {
        &self.durability
    }

    /// Takes note of whether LMDB has begun a transaction.
    pub(super) fn begun<T>(&self, result: Result<T, lmdb::Error>) -> Result<T> {
        self.is_dead.set(matches!(result, Err(lmdb::Error::Panic)));
        Ok(result?)
    }

    pub(super) fn database(&self, table: Table) -> Result<Database> {
        self.databases[table as usize].ok_or(A_TABLE_IS_MISSING)
    }

    /// Releases the snapshots of processes that were killed while they read, so that their pages can be used. If that is
    /// not possible, the file grows as long as they are not released.
    pub(super) fn release_ended_readers(&self) {
        if let Some(readers) = &self.readers
            && let Ok(info) = self.environment.info()
            && let Err(error) = readers.release_ended(info.max_readers())
        {
            log::debug!("the snapshots of programs that have ended cannot be released: {error}");
        }
    }

    /// Returns the bytes of the file up to its last used page.
    pub fn used_bytes(&self) -> u64 {
        let pages = self.environment.info().map_or(0, |info| info.last_pgno() as u64 + 1);
        pages * self.environment.stat().map_or(0, |stat| u64::from(stat.page_size()))
    }

    /// Returns the present metrics. Costs a few system calls.
    pub fn metrics(&self) -> Result<StoreMetrics> {
        let (info, folder) = (self.environment.info()?, &self.folder);
        Ok(StoreMetrics {
            bytes: size(folder).ok(),
            map_bytes: info.map_size() as u64,
            used_bytes: self.used_bytes(),
            free_bytes: free_bytes(folder).ok(),
            readers: self.readers.as_ref().and_then(|list| list.count(info.max_readers()).ok()),
            commit_times: self.durability.commit_times(),
        })
    }
}

/// Returns the result of `open`; if another store has replaced the data file meanwhile, that of opening the other one.
fn open_unreplaced<T>(data: &Path, open: impl Fn() -> Result<T>) -> Result<T> {
    let inode = || std::fs::metadata(data).ok().map(|file| file.ino());
    let before = inode();
    let opened = open()?;
    if inode() == before {
        return Ok(opened);
    }
    drop(opened);
    open()
}

/// Fails if a folder has no store that can be opened.
fn check_existing(folder: &Path) -> Result<()> {
    require_store(folder)?;
    require_data_file(folder, had_store(folder))?;
    // Its creation was interrupted.
    if size(folder).is_ok_and(|bytes| bytes == 0) { Err(StoreError::Empty) } else { Ok(()) }
}

/// Fails if there is no store in a folder, or a file in place of the folder.
fn require_store(folder: &Path) -> Result<()> {
    if folder.is_file() {
        return Err(in_folder(folder)(io::ErrorKind::NotADirectory.into()));
    }
    if let Some(error) = missing_target(folder) {
        return Err(in_folder(folder)(error));
    }
    if exists(folder) {
        return Ok(());
    }
    require_data_file(folder, had_store(folder)).and(Err(StoreError::Empty))
}

/// Returns whether a store was created in a folder.
fn had_store(folder: &Path) -> bool {
    open_own(&folder.join(LOCK_FILE), Access::Read).is_ok_and(|lock| FolderLock(lock).is_initialized())
}

/// A lock on a file in a store's folder, which keeps other processes from changing the store. While the store is open the
/// data file is locked as well ([`Durability`]), so that removing the lock file lets nobody else in.
pub(super) struct FolderLock(File);

impl FolderLock {
    /// Locks a folder. [`StoreError::InUse`] if another process holds the lock.
    pub(super) fn take(folder: &Path) -> Result<FolderLock> {
        // Not truncated: its content says whether a store was created here.
        let path = folder.join(LOCK_FILE);
        let file = open_own(&path, Access::Create).map_err(in_folder(folder))?;
        match file.try_lock() {
            Ok(()) if is_locked(folder, DATA_FILE).unwrap_or(false) => Err(StoreError::InUse),
            Ok(()) => Ok(FolderLock(file)),
            Err(TryLockError::WouldBlock) => Err(StoreError::InUse),
            Err(TryLockError::Error(error)) => Err(in_folder(folder)(named(&path)(error))),
        }
    }

    /// Locks the folder of an existing store and checks its data file.
    pub(super) fn of_existing(folder: &Path) -> Result<FolderLock> {
        require_store(folder)?;
        let lock = FolderLock::take(folder)?;
        durability::recover_to_durable(folder)?;
        check_existing(folder)?;
        Ok(lock)
    }

    /// Returns whether the locked file is the one in a folder.
    pub(super) fn is_of(&self, folder: &Path) -> bool {
        leads_to(&folder.join(LOCK_FILE), &self.0).unwrap_or(false)
    }

    /// Returns whether the lock file says that a store was created in its folder.
    fn is_initialized(&self) -> bool {
        let mut mark = [0; INITIALIZED.len()];
        self.0.read_exact_at(&mut mark, 0).is_ok_and(|()| mark == *INITIALIZED)
    }

    fn mark_initialized(&self) -> io::Result<()> {
        if self.is_initialized() { Ok(()) } else { self.0.write_all_at(INITIALIZED, 0) }
    }
}

impl Drop for FolderLock {
    /// Unlocks explicitly: closing the file is not enough while a child process that was just started still holds it.
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Returns whether no process may change the store, as far as can be checked without writing.
pub fn is_unlocked(folder: &Path) -> bool {
    LOCKED_FILES.iter().all(|name| is_locked(folder, name).is_ok_and(|is_locked| !is_locked))
}

/// Returns whether a process certainly may change the store.
pub fn is_in_use(folder: &Path) -> bool {
    LOCKED_FILES.iter().any(|name| is_locked(folder, name).unwrap_or(false))
}

/// Returns whether another process holds the lock on a file.
fn is_locked(folder: &Path, name: &str) -> io::Result<bool> {
    let Some(file) = if_present(open_own(&folder.join(name), Access::Read))? else { return Ok(false) };
    match file.try_lock_shared() {
        // Explicitly: a child process that was just started may still hold the file.
        Ok(()) => file.unlock().map(|()| false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Returns the process that may change the store, if there is one and the system tells it.
pub fn lock_holder(folder: &Path) -> Option<u32> {
    LOCKED_FILES.iter().find_map(|name| holder_of(&folder.join(name)))
}

fn holder_of(path: &Path) -> Option<u32> {
    let file = stat(path).ok()?;
    let place = format!("{:02x}:{:02x}:{}", major(file.st_dev), minor(file.st_dev), file.st_ino);
    // A line of it: `1: FLOCK  ADVISORY  WRITE 17317 fe:00:5324897 0 EOF`.
    std::fs::read_to_string("/proc/locks").ok()?.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let is_exclusive = fields.next() == Some("FLOCK") && fields.nth(1) == Some("WRITE");
        let process = fields.next()?.parse().ok()?;
        (is_exclusive && fields.next() == Some(&place)).then_some(process)
    })
}

/// Checks the data file. Fails if LMDB could not handle it, or if it is gone.
fn require_data_file(folder: &Path, had_store: bool) -> Result<()> {
    let path = folder.join(DATA_FILE);
    let size = open_own(&path, Access::Read).and_then(|file| Ok(file.metadata()?.len()));
    let checked = match if_present(size) {
        Err(error) => Err(FileFault::Io(error)),
        Ok(Some(1..)) => files::check_data_file(&path),
        Ok(_) if had_store => Err(FileFault::Missing),
        Ok(_) => Ok(()),
    };
    checked.map_err(|fault| StoreError::DataFile(path, fault))
}

/// Opens the environment with as much of the requested address space as is available.
fn open_environment(folder: &Path, options: Options, flags: EnvironmentFlags) -> Result<Environment> {
    let path = folder.join(DATA_FILE);
    // LMDB would follow a link, wait for a pipe, and create a file that belongs to the user who runs the command.
    let access = if flags.contains(EnvironmentFlags::READ_ONLY) { Access::Read } else { Access::Create };
    let file = open_own(&path, access).map_err(in_folder(folder))?;
    let is_new = access == Access::Create && file.metadata().is_ok_and(|found| found.len() == 0);
    let opened = map_environment(folder, options, flags);
    if opened.is_err() && is_new {
        // A full disk may have taken a part of the first pages, which would look like a damaged store.
        let _ = std::fs::remove_file(&path);
    }
    opened
}

fn map_environment(folder: &Path, options: Options, flags: EnvironmentFlags) -> Result<Environment> {
    let path = folder.join(DATA_FILE);
    let mut bytes = options.map_size;
    loop {
        match try_environment(folder, bytes, flags) {
            Err(lmdb::Error::Other(ENOMEM)) if bytes / 2 >= MIN_MAP_SIZE => bytes /= 2,
            Err(lmdb::Error::Other(ENOMEM)) => return Err(StoreError::AddressSpace { bytes }),
            Err(lmdb::Error::Other(number @ 1..)) => {
                return Err(in_folder(folder)(named(&path)(io::Error::from_raw_os_error(number))));
            }
            Err(error) => return Err(error.into()),
            Ok(environment) => {
                if let Some(text) = small_map_text(bytes, options.map_size) {
                    log::warn!("{text}");
                }
                return Ok(environment);
            }
        }
    }
}

/// Returns a warning if there is less address space than requested.
fn small_map_text(bytes: usize, asked: usize) -> Option<String> {
    let [had, wanted] = [bytes, asked].map(|bytes| bytes >> 20);
    (bytes < asked).then(|| {
        format!("the store can grow to {had} MiB only: there is no address space for {wanted} MiB (nisd.mapSize)")
    })
}

fn try_environment(folder: &Path, map_size: usize, flags: EnvironmentFlags) -> Result<Environment, lmdb::Error> {
    Environment::new()
        .set_flags(COMMON_FLAGS.union(flags))
        .set_max_readers(MAX_READERS)
        .set_max_dbs(Table::ALL.len() as u32)
        .set_map_size(map_size)
        .open(folder)
}

fn check_schema(found: &str) -> Result<()> {
    let (found, expected) = (found.to_owned(), SCHEMA.to_owned());
    if found == expected {
        return Ok(());
    }
    let is_older = EARLIER_SCHEMAS.contains(&found.as_str());
    Err(if is_older { StoreError::OlderSchema { found, expected } } else { StoreError::Schema { found, expected } })
}

impl ChainIdentity {
    /// Fails if the stored network has other consensus parameters. Settings that do not affect consensus may differ.
    pub fn check(&self, stored: &str) -> Result<()> {
        if stored == self.text {
            return Ok(());
        }
        let (stored, own) = (network_from_text(stored), network_from_text(&self.text));
        let differences = stored.as_ref().zip(own).map(|(stored, own)| stored.differences(&own));
        if differences.as_ref().is_some_and(Vec::is_empty) {
            return Ok(());
        }
        Err(StoreError::OtherNetwork {
            store: stored.map_or("another network".to_owned(), |stored| stored.name),
            configured: self.name.clone(),
            differences: differences.unwrap_or_default(),
        })
    }

    /// Returns the identity of a network's chain.
    pub fn of(network: &Network) -> ChainIdentity {
        ChainIdentity { name: network.name.clone(), text: network_to_text(network) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lmdb::Transaction as _;

    use super::*;
    use crate::model::Network;

    fn open(folder: &Path, network: &Network) -> Result<Store, StoreError> {
        Store::open(folder, &ChainIdentity::of(network), Options { map_size: 1 << 22 })
    }

    fn rejection(result: Result<Store, StoreError>) -> String {
        result.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_store_with_a_missing_or_empty_data_file_is_not_recreated() {
        let folder = tempfile::tempdir().unwrap();
        drop(open(folder.path(), &Network::example()).unwrap());
        let data = folder.path().join(DATA_FILE);
        std::fs::write(&data, []).unwrap();
        assert!(rejection(open(folder.path(), &Network::example())).contains("missing or empty"));
        std::fs::remove_file(&data).unwrap();
        assert!(rejection(open(folder.path(), &Network::example())).contains("missing or empty"));
        assert!(!data.exists());
    }

    #[test]
    fn an_interrupted_initialisation_holds_no_chain_and_is_restarted() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(LOCK_FILE), []).unwrap();
        std::fs::write(folder.path().join(DATA_FILE), []).unwrap();
        for access in [AccessMode::Shared, AccessMode::Exclusive] {
            let opened = Store::open_existing(folder.path(), access, Options { map_size: 1 << 22 });
            assert!(matches!(opened, Err(StoreError::Empty)));
        }
        drop(open(folder.path(), &Network::example()).unwrap());
    }

    #[test]
    fn a_store_without_a_lock_table_is_read_while_nobody_changes_it() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { map_size: 1 << 22 };
        drop(open(folder.path(), &Network::example()).unwrap());
        // A folder in place of the lock table cannot be opened for writing, as on a read-only disk.
        std::fs::remove_file(folder.path().join("lock.mdb")).unwrap();
        std::fs::create_dir(folder.path().join("lock.mdb")).unwrap();
        let error = |access| Store::open_existing(folder.path(), access, options).err();
        assert!(error(AccessMode::Shared).is_none());
        assert!(matches!(error(AccessMode::Exclusive), Some(StoreError::Folder(..))));
        let lock = File::open(folder.path().join(LOCK_FILE)).unwrap();
        lock.lock().unwrap();
        assert!(matches!(error(AccessMode::Shared), Some(StoreError::Folder(..))));
        drop(lock);
        // A copy of the data file alone has no lock file.
        std::fs::remove_file(folder.path().join(LOCK_FILE)).unwrap();
        assert!(error(AccessMode::Shared).is_none());
    }

    #[test]
    fn a_data_file_that_is_replaced_while_it_is_opened_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let [data, other] = [DATA_FILE, "other"].map(|name| folder.path().join(name));
        std::fs::write(&data, "old").unwrap();
        std::fs::write(&other, "new").unwrap();
        let times = Cell::new(0);
        let opened = || {
            let read = || {
                times.set(times.get() + 1);
                let text = std::fs::read_to_string(&data).unwrap();
                let _ = std::fs::rename(&other, &data);
                Ok(text)
            };
            (open_unreplaced(&data, read).unwrap(), times.take())
        };
        assert_eq!(opened(), ("new".to_owned(), 2));
        assert_eq!(opened(), ("new".to_owned(), 1), "nothing replaces it any more");
    }

    #[test]
    fn every_open_store_keeps_its_lock_table_and_only_one_that_this_process_may_change_is_made_durable() {
        let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let options = Options { map_size: 1 << 22 };
        drop(open(folder.path(), &Network::example()).unwrap());
        let properties = |store: Store| {
            let _reader = store.snapshot().unwrap();
            let metrics = store.metrics().unwrap();
            (metrics.readers, metrics.commit_times.is_some())
        };
        let existing = |access| properties(Store::open_existing(folder.path(), access, options).unwrap().0);
        assert_eq!(existing(AccessMode::Exclusive), (Some(1), true));
        assert_eq!(existing(AccessMode::Shared), (Some(1), false));
        assert_eq!(properties(Store::scratch(scratch.path(), options).unwrap()), (Some(1), false));
    }

    #[test]
    fn a_lock_is_released_while_a_child_process_still_holds_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let lock = FolderLock::take(folder.path()).unwrap();
        // A child process inherits the open file like this.
        let inherited = lock.0.try_clone().unwrap();
        assert!(matches!(FolderLock::take(folder.path()), Err(StoreError::InUse)));
        drop(lock);
        assert!(FolderLock::take(folder.path()).is_ok());
        drop(inherited);
    }

    #[test]
    fn a_store_whose_lock_file_was_removed_is_still_changed_by_one_process_only_and_read_by_others() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { map_size: 1 << 22 };
        let in_use = |store: Result<Store>| matches!(store.err(), Some(StoreError::InUse));
        let existing = |access| Store::open_existing(folder.path(), access, options).map(|(store, _)| store);
        for is_new in [true, false] {
            let store = open(folder.path(), &Network::example()).unwrap();
            // The second time the refused ones have created another.
            for _ in 0..2 {
                std::fs::remove_file(folder.path().join(LOCK_FILE)).unwrap();
                assert!(in_use(open(folder.path(), &Network::example())), "{is_new}");
                assert!(in_use(existing(AccessMode::Exclusive)));
                assert!(in_use(Store::open_for_rebuild(folder.path(), options).map(|(store, _)| store)));
                assert!(is_in_use(folder.path()) && !is_unlocked(folder.path()));
                assert!(existing(AccessMode::Shared).is_ok());
            }
            let inherited = store.durability.data_file().try_clone().unwrap();
            drop(store);
            assert!(!is_in_use(folder.path()) && is_unlocked(folder.path()));
            drop((existing(AccessMode::Exclusive).unwrap(), inherited));
        }
    }

    #[test]
    fn a_folder_that_has_lost_its_data_file_is_not_one_without_a_store() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Store::open_existing(folder.path(), AccessMode::Shared, Options::default());
        assert!(matches!(open(), Err(StoreError::Empty)));
        std::fs::write(folder.path().join(LOCK_FILE), INITIALIZED).unwrap();
        assert!(matches!(open(), Err(StoreError::DataFile(_, FileFault::Missing))));
    }

    #[test]
    fn a_data_file_that_cannot_be_examined_is_not_reported_as_missing() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(DATA_FILE, folder.path().join(DATA_FILE)).unwrap();
        for had_store in [false, true] {
            let result = require_data_file(folder.path(), had_store);
            assert!(matches!(result, Err(StoreError::DataFile(_, FileFault::Io(_)))), "{result:?}");
        }
    }

    #[test]
    fn a_store_of_this_version_without_checksums_is_damaged_and_one_of_an_older_version_is_not() {
        for (schema, is_damaged) in [(SCHEMA, true), (EARLIER_SCHEMAS[0], false)] {
            let folder = tempfile::tempdir().unwrap();
            let environment = try_environment(folder.path(), 1 << 20, EnvironmentFlags::empty()).unwrap();
            let meta = environment.create_db(Some(Table::Meta.name()), DatabaseFlags::empty()).unwrap();
            let mut transaction = environment.begin_rw_txn().unwrap();
            for (key, value) in [(SCHEMA_KEY, schema), (NETWORK_KEY, "a network")] {
                transaction.put(meta, &key, &value, lmdb::WriteFlags::empty()).unwrap();
            }
            transaction.commit().unwrap();
            match Store::new(environment, folder.path()).unwrap().meta() {
                Err(StoreError::Damaged(_)) => assert!(is_damaged),
                found => assert_eq!((found.unwrap().unwrap().0.as_str(), is_damaged), (schema, false)),
            }
        }
    }

    #[test]
    fn opening_compares_every_bit_of_the_schema_and_the_chain_identity() {
        use std::os::unix::fs::FileExt;

        let folder = tempfile::tempdir().unwrap();
        let options = Options { map_size: 1 << 22 };
        drop(open(folder.path(), &Network::example()).unwrap());
        let bytes = std::fs::read(folder.path().join(DATA_FILE)).unwrap();
        let file = File::options().write(true).open(folder.path().join(DATA_FILE)).unwrap();
        let text = ChainIdentity::of(&Network::example()).text;
        let row = [SCHEMA_KEY, SCHEMA.as_bytes()].concat();
        let places: Vec<usize> = [row.as_slice(), text.as_bytes()]
            .into_iter()
            .flat_map(|part| {
                let starts = (0..bytes.len() - part.len()).filter(|at| bytes[*at..].starts_with(part));
                let starts: Vec<usize> = starts.collect();
                assert_eq!(starts.len(), 1, "{}", String::from_utf8_lossy(part));
                starts[0]..starts[0] + part.len()
            })
            .collect();
        let opens = |access| Store::open_existing(folder.path(), access, options).is_ok();
        let opens_otherwise = || {
            opens(AccessMode::Exclusive)
                || open(folder.path(), &Network::example()).is_ok()
                || Store::open_for_rebuild(folder.path(), options).is_ok()
                || older_schema(folder.path(), options).is_ok()
        };
        for (number, place) in places.into_iter().enumerate() {
            for bit in 0..8 {
                file.write_all_at(&[bytes[place] ^ 1 << bit], place as u64).unwrap();
                assert!(!opens(AccessMode::Shared), "bit {bit} at {place}");
                // Every bit of the schema, but only some of the network's: all take the same path.
                assert!((number >= row.len() && number % 32 != bit) || !opens_otherwise(), "bit {bit} at {place}");
            }
            file.write_all_at(&[bytes[place]], place as u64).unwrap();
        }
        assert!(opens(AccessMode::Shared) && opens_otherwise());
        assert!(std::fs::read(folder.path().join(DATA_FILE)).unwrap() == bytes);
    }

    #[test]
    fn the_rejection_names_the_settings_that_differ() {
        let folder = tempfile::tempdir().unwrap();
        drop(open(folder.path(), &Network::example()).unwrap());
        let mut other = Network::example();
        other.chain.target_time = 30;
        other.chain.forks.mosaics = 9;
        let said = rejection(open(folder.path(), &other));
        assert!(said.contains("nis.blockGenerationTargetTime is 60 in the store and 30 here"), "{said}");
        assert!(said.contains("nis.mosaicsForkHeight is"), "{said}");
    }

    #[test]
    fn non_consensus_parameters_may_change_and_are_stored() {
        let folder = tempfile::tempdir().unwrap();
        drop(open(folder.path(), &Network::example()).unwrap());
        let mut other = Network::example();
        other.chain.hash_retention_hours = None;
        other.chain.max_transactions = 500;
        drop(open(folder.path(), &other).unwrap());
        let (_, text) = Store::open_existing(folder.path(), AccessMode::Shared, Options { map_size: 1 << 22 }).unwrap();
        assert_eq!(crate::codec::network_from_text(&text), Some(other));
    }

    #[test]
    fn a_store_opens_with_a_map_size_beyond_the_address_space() {
        let folder = tempfile::tempdir().unwrap();
        // More than any process may have.
        let asked = Options { map_size: 1 << 46 };
        drop(Store::open(folder.path(), &ChainIdentity::of(&Network::example()), asked).unwrap());
        let text = "the store can grow to 32768 MiB only: there is no address space for 65536 MiB (nisd.mapSize)";
        assert_eq!(small_map_text(32 << 30, 64 << 30).as_deref(), Some(text));
        assert_eq!(small_map_text(64 << 30, 64 << 30), None);
    }

    thread_local! {
        static NOW: Cell<u64> = const { Cell::new(0) };
    }

    /// A clock that advances by a millisecond on each call.
    fn ticking() -> Duration {
        NOW.set(NOW.get() + 1);
        Duration::from_millis(NOW.get())
    }

    #[test]
    fn commits_are_timed_once_there_is_a_clock() {
        let (store, _folder) = test_store();
        let commit = |soon: bool| {
            let mut batch = store.begin_write().unwrap();
            batch.put_unjournaled(Table::Meta, b"key", b"value").unwrap();
            if soon { batch.commit_deferred_sync().unwrap() } else { batch.commit().unwrap() }
        };
        let times = || store.metrics().unwrap().commit_times.unwrap();
        commit(false);
        assert_eq!(times().count(), 0);
        store.durability().time_commits(ticking);
        commit(true);
        commit(false);
        store.durability().sync().unwrap();
        assert_eq!((times().count(), times().sum()), (2, Duration::from_millis(2)), "nothing was left to settle");
        commit(true);
        store.durability().sync().unwrap();
        assert_eq!(times().count(), 4);
    }

    #[test]
    fn the_used_size_grows_towards_the_map_size() {
        let (store, _folder) = test_store();
        let before = store.metrics().unwrap();
        let mut batch = store.begin_write().unwrap();
        (0..200u8).for_each(|key| batch.put_unjournaled(Table::Meta, &[key], &[key; 1000]).unwrap());
        batch.commit().unwrap();
        let after = store.metrics().unwrap();
        assert_eq!(after.map_bytes, 1 << 22);
        assert!(before.used_bytes < after.used_bytes && after.used_bytes <= after.bytes.unwrap(), "{after:?}");
        assert!(after.free_bytes.is_some_and(|bytes| bytes > 0));
    }

    #[test]
    fn the_used_size_is_that_of_the_file_while_no_page_is_free() {
        let (store, _folder) = test_store();
        let metrics = store.metrics().unwrap();
        assert_eq!(Some(metrics.used_bytes), metrics.bytes);
    }
}
