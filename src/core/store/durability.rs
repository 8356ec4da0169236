//! Durability: tracks which state of the store is certainly on the disk, so that a commit need not wait for the disk.
//!
//! LMDB commits without waiting here (`MDB_NOSYNC`): a commit is copied into the system's page cache, and the system
//! may write its pages in any order, including the root pages. A killed process loses nothing by that. A system stop
//! (crash or power cut) may leave meta pages that lead to pages that were never written.
//!
//! So a commit is made durable later: the data file is synchronised, then a record of its meta page is written beside
//! it, in the file `settled`. Only then is anything told about it. **Every opening for changes returns to the recorded
//! state**, by writing the recorded meta page to both places, however the last process ended. A later commit is lost as a
//! whole, and nobody knows of it; consistency is never lost.
//!
//! Why the recorded state is still present: **nothing is committed before the last commit is recorded.** Let S be recorded
//! and S+1 committed. LMDB overwrites no page in use: a transaction writes to free pages. Transaction T uses pages that
//! were freed by transaction T-2 or before (`mdb_page_alloc`, `mdb_find_oldest`), which no state from T-2 on uses. So
//! neither S+1 nor S+2, which is built meanwhile, overwrites a page of S. Pages that a transaction allocates and frees
//! itself were free before; pages that it writes before its commit (spilled ones) are pages that it allocated; the file
//! only grows. The two meta pages are overwritten in turn, hence the record.
//!
//! The record has two slots, each with a number and a checksum. The slot that does not hold the present record is
//! overwritten, which needs no space on a full disk. An interrupted write damages only the new record. The old one
//! stays intact until the new one is synchronised, and nothing else is committed before.
//!
//! A record contains the boot id of the system run in which it was written. An opening for reading recovers nothing:
//! during that run it reads the newest commit, since the page cache is intact; after it, it fails if there is a later
//! commit than the recorded one. The record is written before the first transaction of each opening. That opening writes
//! the record which it found once more, as the process before may have failed to synchronise it. While another process
//! has the store open for changes, the run is the same one, also where the system does not tell it. A store without a
//! record is used as it is: it was written by a version that waited for the disk.
//!
//! A helper process, if there is one, does the waiting (`src/event_loop/disk_sync.rs`): it synchronises the data
//! file; then the record is written here, and the helper synchronises that. No other commit is made before both answers
//! ([`Durability::poll_sync`] reports this). A transaction may be built meanwhile, as it writes to free pages only. A
//! caller that cannot wait for answers synchronises here ([`Durability::sync_and_record`]), and later answers are ignored. The
//! files of the helper are opened for it alone, so that if it ends with an error that it did not report, the system
//! reports the same error to this process. It does not report that to files that are opened later, so no other helper
//! is given files before this process itself has synchronised the last commit.
//!
//! If synchronising the data file fails, the system may have dropped the data already, and a retry proves nothing (Linux
//! reports such an error once and marks the pages clean). So nothing becomes durable any more, no transaction begins, and
//! the process has to end ([`super::Store::failure`]): the next opening trusts nothing but the record. If the record cannot be
//! written or synchronised, the previous one is intact, and writing the whole record once more proves what it says.
//!
//! The process also has to end once the path of the data file leads to another file or to none: the store was removed,
//! replaced or moved. This is checked before a transaction begins and before a commit counts as durable.

use std::cell::{Cell, OnceCell, RefCell};
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use sha3::{Digest, Sha3_256};

use super::error::{Result, StoreError, in_folder};
use super::files::{self, DATA_FILE, FileFault, META_BYTES, MetaPage, sync_folder};
use super::open::is_unlocked;
use crate::codec::ByteReader;
use crate::files::{Access, if_present, leads_to, open_own};
use crate::metrics::Histogram;

/// Buckets of the histogram of commit times, in microseconds.
const COMMIT_TIME_BUCKETS: &[u64] = &[1_000, 2_000, 5_000, 10_000, 25_000, 50_000, 100_000, 500_000, 5_000_000];

/// The durable-meta file, beside the data file.
pub const FILE: &str = "settled";
const MARK: &[u8; 8] = b"settled1";
/// Offset of the second slot. An interrupted write damages at most this many bytes of a disk.
const SLOT_OFFSET: u64 = 4096;
const CHECKSUM: usize = 32;
const RECORD_BYTES: usize = CHECKSUM + MARK.len() + 8 + BOOT_BYTES + CHECKSUM + META_BYTES;

/// Maximum number of commits after the recorded one. If there are more, the data file belongs to another record.
const MAX_COMMITS_AHEAD: u64 = 2;

const BOOT_BYTES: usize = 36;

/// The id of a run of the system, from its start to its stop or crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BootId([u8; BOOT_BYTES]);

impl BootId {
    /// An unknown run.
    pub const UNKNOWN: BootId = BootId([0; BOOT_BYTES]);

    /// Returns the present run. It is known on Linux only.
    pub fn current() -> BootId {
        let name = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        name.first_chunk().map_or(BootId::UNKNOWN, |name| BootId(*name))
    }

    /// Returns whether both are known and the same run.
    fn is_same_run(self, other: BootId) -> bool {
        self != BootId::UNKNOWN && self == other
    }
}

/// A record of a state that is on the disk.
#[derive(Clone)]
struct MetaRecord {
    /// Increases from record to record.
    number: u64,
    /// The run of the system in which it was written.
    boot: BootId,
    /// Checksum of the root pages, which identifies the data file and its state.
    roots: [u8; CHECKSUM],
    /// The meta page of the data file.
    meta: MetaPage,
}

impl MetaRecord {
    fn to_bytes(&self) -> [u8; RECORD_BYTES] {
        let parts = [&MARK[..], &self.number.to_le_bytes(), &self.boot.0, &self.roots, &self.meta.bytes];
        let content = parts.concat();
        let mut bytes = [0; RECORD_BYTES];
        bytes[..CHECKSUM].copy_from_slice(&Sha3_256::digest(&content));
        bytes[CHECKSUM..].copy_from_slice(&content);
        bytes
    }

    fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Option<MetaRecord> {
        let (checksum, content) = bytes.split_at(CHECKSUM);
        let mut input = ByteReader(content.strip_prefix(MARK)?);
        let number = u64::from_le_bytes(input.array()?);
        let (boot, roots) = (BootId(input.array()?), input.array()?);
        let meta = files::parse_meta(input.array()?)?;
        let is_whole = Sha3_256::digest(content).as_slice() == checksum;
        is_whole.then_some(MetaRecord { number, boot, roots, meta })
    }

    /// Reads the newest valid record.
    fn read(folder: &Path) -> io::Result<Option<MetaRecord>> {
        let Some(file) = if_present(open_own(&folder.join(FILE), Access::Read))? else { return Ok(None) };
        let mut newest: Option<MetaRecord> = None;
        for place in [0, SLOT_OFFSET] {
            let mut bytes = [0; RECORD_BYTES];
            let record = match file.read_exact_at(&mut bytes, place) {
                Ok(()) => MetaRecord::from_bytes(&bytes),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
                Err(error) => return Err(error),
            };
            let is_newer = |record: &MetaRecord| newest.as_ref().is_none_or(|newest| record.number > newest.number);
            newest = record.filter(is_newer).or(newest);
        }
        Ok(newest)
    }

    /// Writes the record to its slot. The slot of the previous record is not touched.
    fn put(&self, file: &File) -> io::Result<()> {
        file.write_all_at(&self.to_bytes(), self.number % 2 * SLOT_OFFSET)
    }

    /// Writes the record and synchronises it. The `first` write of an opening also synchronises the folder.
    fn write(&self, file: &File, folder: &Path, first: bool) -> io::Result<()> {
        self.put(file)?;
        if !first {
            return file.sync_data();
        }
        if file.metadata()?.len() < SLOT_OFFSET + RECORD_BYTES as u64 {
            // Allocates the other slot, so that it can be written on a full disk.
            file.write_all_at(&[0; RECORD_BYTES], (self.number + 1) % 2 * SLOT_OFFSET)?;
        }
        file.sync_all()?;
        sync_folder(folder)
    }
}

/// Returns the record to which a store must be recovered: there are later commits, and it is not of the present run of the
/// system, or the meta pages of the data file are damaged.
fn record_to_recover(folder: &Path, is_present: impl FnOnce(BootId) -> bool) -> io::Result<Option<MetaRecord>> {
    let mut data = match open_own(&folder.join(DATA_FILE), Access::Read) {
        Ok(file) if file.metadata()?.len() > 0 => file,
        _ => return Ok(None),
    };
    // Before the record: a process that changes the store writes the record before it commits.
    let newest = files::newest_meta(&mut data).ok();
    let Some(record) = MetaRecord::read(folder)? else { return Ok(None) };
    // After the record: the file cannot be older than the record unless its meta pages were damaged.
    let is_damaged = files::newest_meta(&mut data).map_or(true, |newest| !newest.is_as_new_as(&record.meta));
    let is_near = |newest: &MetaPage| {
        (1..=MAX_COMMITS_AHEAD).contains(&newest.transaction_id.wrapping_sub(record.meta.transaction_id))
    };
    if !is_damaged && (!newest.as_ref().is_none_or(is_near) || is_present(record.boot)) {
        return Ok(None);
    }
    if files::root_checksum(&data, &record.meta).is_ok_and(|roots| roots == record.roots) {
        return Ok(Some(record));
    }
    let path = folder.join(FILE);
    log::warn!("{} is ignored: it belongs to another data file than the one beside it", path.display());
    Ok(None)
}

/// Fails if the data file is in the recorded state, but its root pages are not the recorded ones: they are damaged, or
/// of an earlier commit.
fn verify_roots(folder: &Path) -> Result<()> {
    let path = folder.join(DATA_FILE);
    let is_damaged = || -> io::Result<bool> {
        let (Some(record), data) = (MetaRecord::read(folder)?, open_own(&path, Access::Read)?) else {
            return Ok(false);
        };
        let is_recorded = || files::newest_meta(&mut &data).is_ok_and(|meta| meta.is_same_as(&record.meta));
        if !is_recorded() {
            return Ok(false);
        }
        let roots = files::root_checksum(&data, &record.meta);
        // Another process may have committed meanwhile.
        Ok(roots.map_or(true, |roots| roots != record.roots) && is_recorded())
    };
    if is_damaged().unwrap_or(false) { Err(StoreError::DataFile(path, FileFault::Roots)) } else { Ok(()) }
}

/// Recovers the durable state of a store: a later commit may not be on the disk, whatever the page cache has. For exclusive
/// access, before LMDB opens the store.
pub fn recover_to_durable(folder: &Path) -> Result<()> {
    let put_back = || -> io::Result<()> {
        let Some(record) = record_to_recover(folder, |_| false)? else { return Ok(()) };
        log::warn!(
            "the last run ended before {} recorded its last commit as being on the disk, or that file was damaged since; \
             the store returns to the last recorded commit, and the blocks after it must be downloaded or imported again",
            folder.join(FILE).display()
        );
        files::restore_meta(folder, &record.meta)
    };
    put_back().map_err(|error| StoreError::disk(folder, error))?;
    verify_roots(folder)
}

/// Fails if a store must be recovered. For read-only access.
pub fn reject_unrecovered(folder: &Path, boot: BootId) -> Result<()> {
    // Whoever has the store open for changes has recovered it.
    let is_present = |run: BootId| run.is_same_run(boot) || !is_unlocked(folder);
    match record_to_recover(folder, is_present) {
        Ok(None) => verify_roots(folder),
        Ok(Some(_)) => Err(StoreError::RecoveryNeeded),
        Err(error) => Err(StoreError::Folder(folder.to_owned(), error)),
    }
}

/// A file of a store, for the helper; the value is its request for the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncFile {
    /// The data file.
    Data = b'd' as isize,
    /// The durable-meta file.
    Record = b'r' as isize,
}

/// How far the last commit is on its way to the disk.
enum State {
    /// Unknown: no transaction was begun since the store was opened.
    Opened,
    /// It is durable.
    Durable,
    /// It is not durable, and nobody works on that.
    Committed,
    /// The helper synchronises the data file or, after that, this record, as soon as `has_begun`.
    Syncing { record: Option<Box<MetaRecord>>, has_begun: bool },
    /// Synchronising the data file failed; the error number.
    Failed(i32),
    /// The path of the data file no longer leads to it.
    Gone,
}

/// The helper process.
#[derive(Clone, Copy, PartialEq)]
enum Helper {
    /// There is none: the caller waits for the disk itself.
    None,
    /// It waits for the disk on request.
    Present,
    /// It works on a request that is obsolete: its next answer is ignored.
    Obsolete,
}

/// Makes the commits of a store durable. A scratch or read-only store has nothing to make durable.
pub struct Durability {
    pub(super) folder: PathBuf,
    /// The data file, locked, if this process may change the store.
    data: Option<File>,
    /// The durable-meta file, once it is open.
    record_file: OnceCell<File>,
    boot: BootId,
    record: RefCell<Option<MetaRecord>>,
    state: RefCell<State>,
    helper: Cell<Helper>,
    /// Whether a caller waits until the last commit is durable, or has failed to become so.
    is_awaited: Cell<bool>,
    /// The error that occurred with the helper, for the waiting caller.
    failure: RefCell<Option<StoreError>>,
    /// Time at which the helper was asked to make the last commit durable.
    sync_began: Cell<Duration>,
    /// The clock by which commits are timed, if one is set.
    clock: Cell<Option<fn() -> Duration>>,
    commit_times: RefCell<Histogram>,
    /// Makes synchronising fail.
    #[cfg(test)]
    pub fails: Cell<bool>,
}

impl Durability {
    /// Creates it for a scratch or read-only store.
    pub(super) fn none(folder: &Path) -> Durability {
        Durability {
            folder: folder.to_owned(),
            data: None,
            record_file: OnceCell::new(),
            boot: BootId::UNKNOWN,
            record: RefCell::default(),
            state: RefCell::new(State::Durable),
            helper: Cell::new(Helper::None),
            is_awaited: Cell::new(false),
            failure: RefCell::default(),
            sync_began: Cell::default(),
            clock: Cell::new(None),
            commit_times: RefCell::new(Histogram::new(COMMIT_TIME_BUCKETS)),
            #[cfg(test)]
            fails: Cell::new(false),
        }
    }

    /// Creates it for a store that LMDB has opened and this process may change. Locks the data file.
    pub(super) fn new(folder: &Path, boot: BootId) -> Result<Durability> {
        let open = || Ok((open_own(&folder.join(DATA_FILE), Access::Change)?, MetaRecord::read(folder)?));
        let (data, record) = open().map_err(in_folder(folder))?;
        if matches!(data.try_lock(), Err(TryLockError::WouldBlock)) {
            return Err(StoreError::InUse);
        }
        let mut durability = Durability::none(folder);
        (durability.data, durability.boot) = (Some(data), boot);
        (durability.record, durability.state) = (RefCell::new(record), RefCell::new(State::Opened));
        Ok(durability)
    }

    /// Sets the monotonic clock by which commits are timed.
    pub fn time_commits(&self, clock: fn() -> Duration) {
        self.clock.set(Some(clock));
    }

    /// Returns the durations of this process's commits, including waiting for the disk.
    pub(super) fn commit_times(&self) -> Option<Histogram> {
        self.data.is_some().then(|| self.commit_times.borrow().clone())
    }

    fn now(&self) -> Duration {
        self.clock.get().map_or(Duration::ZERO, |clock| clock())
    }

    fn observe_since(&self, begun: Duration) {
        if self.clock.get().is_some() {
            self.commit_times.borrow_mut().observe(self.now().saturating_sub(begun));
        }
    }

    /// Runs a commit or synchronisation and records its duration.
    pub(super) fn timed<T>(&self, commit: impl FnOnce() -> T) -> T {
        let begun = self.now();
        let result = commit();
        self.observe_since(begun);
        result
    }

    /// Ensures, before a transaction begins, that the data file is in place, and that there is a record of this run of the
    /// system.
    pub(super) fn ensure_record(&self) -> Result<()> {
        self.check_place()?;
        if matches!(*self.state.borrow(), State::Opened) { self.sync_and_record() } else { Ok(()) }
    }

    /// Fails, and from then on always, if the path of the data file no longer leads to it: what is written would be lost,
    /// or another process uses the path.
    pub fn check_place(&self) -> Result<()> {
        if let Some(data) = &self.data
            && self.failure().is_none()
            && !leads_to(&self.folder.join(DATA_FILE), data).unwrap_or(true)
        {
            self.cancel_request();
            self.state.replace(State::Gone);
        }
        self.failure().map_or(Ok(()), Err)
    }

    /// Returns the data file.
    #[cfg(test)]
    pub(super) fn data_file(&self) -> &File {
        self.data.as_ref().unwrap()
    }

    /// Returns whether the last commit is not yet durable.
    pub fn has_unsynced_commit(&self) -> bool {
        matches!(*self.state.borrow(), State::Committed | State::Syncing { .. })
    }

    /// Returns the failure after which nothing becomes durable any more.
    pub(super) fn failure(&self) -> Option<StoreError> {
        match *self.state.borrow() {
            State::Failed(error) => Some(self.sync_failed(error)),
            State::Gone => Some(StoreError::DataFile(self.folder.join(DATA_FILE), FileFault::Gone)),
            _ => None,
        }
    }

    /// Notes a commit, which is not yet durable.
    pub(super) fn on_commit(&self) {
        self.cancel_request();
        if self.data.is_some() {
            self.state.replace(State::Committed);
        }
    }

    /// Cancels what the helper does: its answer will be ignored.
    fn cancel_request(&self) {
        self.failure.take();
        let State::Syncing { has_begun, .. } = *self.state.borrow() else { return };
        if has_begun {
            self.helper.set(Helper::Obsolete);
        }
        self.state.replace(State::Committed);
    }

    /// Waits until all commits are durable, also those of the process that had the store open before.
    pub fn sync(&self) -> Result<()> {
        self.check_place()?;
        if matches!(*self.state.borrow(), State::Durable) { Ok(()) } else { self.timed(|| self.sync_and_record()) }
    }

    /// Waits until the last commit is on the disk, and records it.
    pub(super) fn sync_and_record(&self) -> Result<()> {
        if matches!(*self.state.borrow(), State::Durable) {
            return Ok(());
        }
        self.check_place()?;
        let is_first = matches!(*self.state.borrow(), State::Opened);
        self.cancel_request();
        self.sync_data_file().map_err(|error| self.fail(&error))?;
        let record = || -> io::Result<()> {
            if let Some(found) = self.record.borrow().as_ref().filter(|_| is_first) {
                found.write(self.open_record_file()?, &self.folder, true)?;
            }
            if let Some(record) = self.current_record()? {
                record.write(self.open_record_file()?, &self.folder, is_first)?;
                self.record.replace(Some(record));
            }
            Ok(())
        };
        record().map_err(|error| StoreError::disk(&self.folder, error))?;
        self.state.replace(State::Durable);
        Ok(())
    }

    /// Makes all commits durable. Returns whether they are. With a helper process it returns `false` at first: the
    /// caller must call it again once [`Durability::waits_for_disk`] returns `false`, and must not commit before.
    pub fn poll_sync(&self) -> Result<bool> {
        let is_durable = self.begin_sync()?;
        self.is_awaited.set(!is_durable);
        Ok(is_durable)
    }

    /// Like [`Durability::poll_sync`] for a caller that goes on meanwhile, and polls before its next commit.
    pub fn begin_sync(&self) -> Result<bool> {
        self.is_awaited.set(false);
        if let Some(failure) = self.failure.take().or_else(|| self.failure()) {
            return Err(failure);
        }
        if !self.has_unsynced_commit() {
            return Ok(true);
        }
        if self.helper.get() == Helper::None {
            return self.sync().map(|()| true);
        }
        if matches!(*self.state.borrow(), State::Committed) {
            self.state.replace(State::Syncing { record: None, has_begun: false });
            self.sync_began.set(self.now());
        }
        Ok(false)
    }

    /// Returns whether the caller of [`Durability::poll_sync`] has not yet got its result.
    pub fn is_sync_awaited(&self) -> bool {
        self.is_awaited.get()
    }

    /// Returns whether the caller of [`Durability::poll_sync`] has to wait for an answer of the helper.
    pub fn waits_for_disk(&self) -> bool {
        self.is_sync_awaited() && self.is_syncing()
    }

    /// Returns whether the helper has not yet answered.
    pub fn is_syncing(&self) -> bool {
        self.helper.get() == Helper::Obsolete || matches!(*self.state.borrow(), State::Syncing { .. })
    }

    /// Returns the files that a new helper synchronises: the data file and the durable-meta file. They are opened again,
    /// so that the system reports disk errors to both the helper and this process. `None` for a scratch or read-only
    /// store.
    ///
    /// The system does not report to them what it has reported to an earlier helper. So this waits for the disk if the
    /// last commit is not durable, which happens only after a helper has ended.
    pub fn helper_files(&self) -> Result<Option<[File; 2]>, StoreError> {
        if self.data.is_none() {
            return Ok(None);
        }
        self.ensure_record()?;
        self.sync()?;
        let open = |name: &str| open_own(&self.folder.join(name), Access::Change);
        // Creates the durable-meta file if necessary.
        let files = self.open_record_file().and_then(|_| Ok([open(DATA_FILE)?, open(FILE)?]));
        files.map(Some).map_err(|error| StoreError::disk(&self.folder, error))
    }

    /// Sets whether a helper waits for the disk. If it is gone, the waiting caller does its work.
    pub fn set_helper(&self, is_there: bool) {
        self.helper.set(if is_there && self.data.is_some() { Helper::Present } else { Helper::None });
        let mut state = self.state.borrow_mut();
        if matches!(*state, State::Syncing { .. }) {
            *state = State::Committed;
        }
    }

    /// Returns the file that the helper is to synchronise now. Returns each request once.
    pub fn next_sync(&self) -> Option<SyncFile> {
        match &mut *self.state.borrow_mut() {
            State::Syncing { record, has_begun } if self.helper.get() == Helper::Present => {
                let file = if record.is_some() { SyncFile::Record } else { SyncFile::Data };
                (!std::mem::replace(has_begun, true)).then_some(file)
            }
            _ => None,
        }
    }

    /// Handles the helper's answer. An answer to an obsolete request or to none is ignored.
    pub fn on_synced(&self, result: io::Result<()>) {
        if self.helper.get() == Helper::Obsolete {
            return self.helper.set(Helper::Present);
        }
        let record = match self.state.replace(State::Committed) {
            State::Syncing { record, has_begun: true } => record,
            other => return drop(self.state.replace(other)),
        };
        let done = match (record, result) {
            (None, Err(error)) => Err(self.fail(&error)),
            // If the record was not written, the previous one is intact, and this one will be written again.
            (record, result) => self.check_place().and_then(|()| {
                let next = result.and_then(|()| self.advance(record));
                next.map_err(|error| StoreError::disk(&self.folder, error))
            }),
        };
        if let Err(error) = done {
            self.failure.replace(Some(error));
        }
    }

    /// Takes the next step after the helper has synchronised the data file or, if there is one, the record.
    fn advance(&self, synced: Option<Box<MetaRecord>>) -> io::Result<()> {
        if synced.is_none()
            && let Some(record) = self.current_record()?
        {
            record.put(self.open_record_file()?)?;
            self.state.replace(State::Syncing { record: Some(Box::new(record)), has_begun: false });
            return Ok(());
        }
        if let Some(record) = synced {
            self.record.replace(Some(*record));
        }
        self.state.replace(State::Durable);
        self.observe_since(self.sync_began.get());
        Ok(())
    }

    /// Handles a failure to synchronise the data file.
    fn fail(&self, error: &io::Error) -> StoreError {
        let error = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
        self.state.replace(State::Failed(error));
        self.sync_failed(error)
    }

    fn sync_failed(&self, error: i32) -> StoreError {
        StoreError::SyncFailed { folder: self.folder.clone(), error: io::Error::from_raw_os_error(error) }
    }

    fn sync_data_file(&self) -> io::Result<()> {
        #[cfg(test)]
        if self.fails.get() {
            return Err(Errno::IO.into());
        }
        self.data.as_ref().map_or(Ok(()), File::sync_data)
    }

    /// Returns the record of the last commit, or `None` if it equals the present record.
    fn current_record(&self) -> io::Result<Option<MetaRecord>> {
        let Some(data) = &self.data else { return Ok(None) };
        let meta = files::newest_meta(&mut &*data).map_err(|fault| io::Error::other(fault.to_string()))?;
        let roots = files::root_checksum(data, &meta)?;
        let last = self.record.borrow();
        let is_known = |last: &MetaRecord| last.boot.is_same_run(self.boot) && last.meta.bytes == meta.bytes;
        if last.as_ref().is_some_and(is_known) {
            return Ok(None);
        }
        let number = last.as_ref().map_or(0, |last| last.number + 1);
        Ok(Some(MetaRecord { number, boot: self.boot, roots, meta }))
    }

    fn open_record_file(&self) -> io::Result<&File> {
        if let Some(file) = self.record_file.get() {
            return Ok(file);
        }
        let file = open_own(&self.folder.join(FILE), Access::Create)?;
        Ok(self.record_file.get_or_init(|| file))
    }
}

impl Drop for Durability {
    /// Makes the last commit durable before the process ends, and unlocks the data file.
    fn drop(&mut self) {
        if self.has_unsynced_commit()
            && let Err(error) = self.sync_and_record()
        {
            log::error!("{error}");
        }
        // Explicitly, as for the lock file.
        let _ = self.data.as_ref().map(File::unlock);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use proptest::prelude::*;
    use proptest::test_runner::TestRng;
    use tempfile::TempDir;

    use super::*;
    use crate::store::{AccessMode, ChainIdentity, Options, Read as _, Store, Table, Write as _, WriteTxn};

    const OPTIONS: Options = Options { map_size: 64 << 20 };
    const PAGE: usize = 4096;
    const ONE: BootId = BootId([b'1'; BOOT_BYTES]);
    const OTHER: BootId = BootId([b'2'; BOOT_BYTES]);

    fn identity() -> ChainIdentity {
        ChainIdentity { name: "test".to_owned(), text: String::new() }
    }

    fn open(boot: BootId, folder: &Path) -> Store {
        Store::open_with_boot(boot, folder, &identity(), OPTIONS).unwrap()
    }

    /// Returns a checksum of everything in a store.
    fn digest(store: &Store) -> Vec<u8> {
        let snapshot = store.snapshot().unwrap();
        let mut hash = Sha3_256::new();
        for table in Table::ALL {
            for (key, value) in snapshot.entries(table, &[]).unwrap().map(Result::unwrap) {
                [key, value].iter().for_each(|part| hash.update([&(part.len() as u32).to_le_bytes(), *part].concat()));
            }
        }
        hash.finalize().to_vec()
    }

    #[test]
    fn records_alternate_between_two_slots() {
        let folder = tempfile::tempdir().unwrap();
        drop(open(ONE, folder.path()));
        let record = MetaRecord::read(folder.path()).unwrap().expect("a record");
        let path = folder.path().join("records");
        let file = File::options().create_new(true).read(true).write(true).open(&path).unwrap();
        let numbered = |number| MetaRecord { number, ..record.clone() };
        let whole = (SLOT_OFFSET as usize) + RECORD_BYTES;
        // Only the length of the existing content matters.
        for length in [0, RECORD_BYTES as u64, SLOT_OFFSET, SLOT_OFFSET + RECORD_BYTES as u64 - 1] {
            file.set_len(0).unwrap();
            file.set_len(length).unwrap();
            numbered(4).write(&file, folder.path(), true).unwrap();
            let bytes = std::fs::read(&path).unwrap();
            assert_eq!(bytes.len(), whole, "{length}");
            assert_eq!(bytes[..RECORD_BYTES], numbered(4).to_bytes());
            assert!(bytes[RECORD_BYTES..].iter().all(|byte| *byte == 0));
        }
        for (number, place, other) in [(5, SLOT_OFFSET as usize, 4), (7, SLOT_OFFSET as usize, 4), (8, 0, 7)] {
            numbered(number).write(&file, folder.path(), true).unwrap();
            let bytes = std::fs::read(&path).unwrap();
            assert_eq!(bytes.len(), whole);
            assert_eq!(bytes[place..place + RECORD_BYTES], numbered(number).to_bytes());
            let elsewhere = SLOT_OFFSET as usize - place;
            assert_eq!(bytes[elsewhere..elsewhere + RECORD_BYTES], numbered(other).to_bytes(), "it stays as it was");
        }
    }

    #[test]
    fn a_durable_meta_file_that_cannot_be_read_is_an_error_and_one_without_records_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        std::fs::write(&path, b"short").unwrap();
        assert!(MetaRecord::read(folder.path()).unwrap().is_none());
        std::fs::remove_file(&path).unwrap();
        assert!(MetaRecord::read(folder.path()).unwrap().is_none());
        std::fs::create_dir(&path).unwrap();
        assert!(MetaRecord::read(folder.path()).is_err());
        let file = folder.path().join("file");
        std::fs::write(&file, []).unwrap();
        assert!(MetaRecord::read(&file).is_err(), "it is no folder");
    }

    #[test]
    fn the_record_with_the_higher_number_counts_and_of_equal_ones_the_first() {
        let folder = tempfile::tempdir().unwrap();
        drop(open(ONE, folder.path()));
        let record = MetaRecord::read(folder.path()).unwrap().expect("a record");
        let file = File::options().write(true).open(folder.path().join(FILE)).unwrap();
        for (first, second, expected) in [(4, 5, OTHER), (6, 5, ONE), (4, 4, ONE)] {
            for (number, boot, place) in [(first, ONE, 0), (second, OTHER, SLOT_OFFSET)] {
                file.write_all_at(&MetaRecord { number, boot, ..record.clone() }.to_bytes(), place).unwrap();
            }
            let newest = MetaRecord::read(folder.path()).unwrap().expect("a record");
            assert!(newest.boot == expected, "{first} and {second}");
        }
    }

    fn files(folder: &Path) -> (Vec<u8>, Vec<u8>) {
        (std::fs::read(folder.join(DATA_FILE)).unwrap(), std::fs::read(folder.join(FILE)).unwrap())
    }

    /// Creates a folder with these files, as found after a restart of the system.
    fn found(data: &[u8], record: &[u8]) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(DATA_FILE), data).unwrap();
        std::fs::write(folder.path().join(FILE), record).unwrap();
        std::fs::write(folder.path().join("nisd.lock"), "made\n").unwrap();
        folder
    }

    fn below(rng: &mut TestRng, bound: usize) -> usize {
        (rng.next_u64() % bound.max(1) as u64) as usize
    }

    /// Changes rows, some of which have long values.
    fn change(txn: &mut WriteTxn<'_>, rng: &mut TestRng) {
        for _ in 0..below(rng, 60) {
            let table = [Table::Accounts, Table::Harvests][below(rng, 2)];
            let key = (below(rng, 300) as u32).to_be_bytes();
            let length = [10, 200, 1500, 9000][below(rng, 4)];
            match below(rng, 3) {
                0 => txn.delete(table, &key).unwrap(),
                _ => txn.put(table, &key, &vec![below(rng, 256) as u8; length]).unwrap(),
            }
        }
    }

    /// Returns what a disk may hold of a file after a power cut: each page as in any of its images since the file was
    /// synchronised, and the length of any of them.
    fn torn(images: &[Vec<u8>], rng: &mut TestRng) -> Vec<u8> {
        let longest = images.iter().map(Vec::len).max().unwrap();
        let mut file = vec![0; longest];
        for start in (0..longest).step_by(PAGE) {
            let image = &images[below(rng, images.len())];
            if let Some(page) = image.get(start..start + PAGE) {
                file[start..start + PAGE].copy_from_slice(page);
            }
        }
        file.truncate(images[below(rng, images.len())].len().max(images[0].len()));
        file
    }

    /// A store, the images of its data file since it was last synchronised, and its durable content.
    struct CrashSimulation {
        folder: TempDir,
        images: Vec<Vec<u8>>,
        durable: Vec<u8>,
        /// The previous record and the durable content at that time, while the present record may be lost.
        earlier: Option<(Vec<u8>, Vec<u8>)>,
        /// The file that the helper is synchronising, and the content of the store when that began.
        begun: Option<(SyncFile, Vec<u8>)>,
    }

    impl CrashSimulation {
        /// Takes note of the state after a step.
        fn observe(&mut self, store: &Store) {
            let (data, _) = files(self.folder.path());
            if store.durability().has_unsynced_commit() {
                self.images.push(data);
            } else {
                (self.images, self.durable, self.earlier) = (vec![data], digest(store), None);
            }
        }

        /// Lets the helper begin what the store requests, or finish what it has begun.
        fn step_helper(&mut self, store: &Store) {
            if store.durability().poll_sync().unwrap() {
                return self.observe(store);
            }
            let Some((file, held)) = self.begun.take() else {
                self.begun = store.durability().next_sync().map(|file| (file, digest(store)));
                return;
            };
            let ((data, record), is_of_this_commit) = (files(self.folder.path()), held == digest(store));
            store.durability().on_synced(Ok(()));
            if is_of_this_commit && file == SyncFile::Data {
                self.earlier = Some((record, std::mem::replace(&mut self.durable, held)));
                self.images = vec![data];
            }
            self.observe(store);
        }

        /// Simulates a power cut and checks the recovered content.
        fn expect_whole_after_a_stop(&self, rng: &mut TestRng) {
            let (_, record) = files(self.folder.path());
            let present = (&record, &self.durable);
            for (record, held) in self.earlier.iter().map(|(record, held)| (record, held)).chain([present]) {
                let folder = found(&torn(&self.images, rng), record);
                assert_eq!(&digest(&open(OTHER, folder.path())), held, "{} states", self.images.len());
                // The next opening has nothing to recover.
                assert_eq!(&digest(&open(BootId::UNKNOWN, folder.path())), held);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        #[ignore = "slow: computes for long"]
        fn a_power_cut_leaves_the_durable_state_whatever_pages_were_written(seed in any::<[u8; 32]>()) {
            let rng = &mut TestRng::from_seed(proptest::test_runner::RngAlgorithm::ChaCha, &seed);
            let folder = tempfile::tempdir().unwrap();
            let mut store = open(ONE, folder.path());
            store.durability().set_helper(true);
            let mut life = CrashSimulation { folder, images: Vec::new(), durable: Vec::new(), earlier: None, begun: None };
            life.observe(&store);
            for _ in 0..40 {
                match below(rng, 8) {
                    0..4 => {
                        let before = (files(life.folder.path()).0, digest(&store));
                        let mut batch = store.begin_write().unwrap();
                        change(&mut batch, rng);
                        batch.commit_deferred_sync().unwrap();
                        // The commit has made the previous one durable.
                        (life.images, life.durable, life.earlier) = (vec![before.0], before.1, None);
                        life.observe(&store);
                    }
                    4 => {
                        let mut batch = store.begin_write().unwrap();
                        change(&mut batch, rng);
                        store.durability().sync().unwrap();
                        life.observe(&store);
                        // Visible but not on the disk, as in the middle of a commit that waits.
                        batch.commit_unsynced().unwrap();
                        life.observe(&store);
                        life.expect_whole_after_a_stop(rng);
                        store.durability().sync().unwrap();
                        life.observe(&store);
                    }
                    5 => {
                        for _ in 0..below(rng, 6) {
                            life.step_helper(&store);
                            life.expect_whole_after_a_stop(rng);
                        }
                    }
                    6 => {
                        store.durability().sync().unwrap();
                        life.observe(&store);
                    }
                    _ => {
                        drop(store);
                        store = open(ONE, life.folder.path());
                        store.durability().set_helper(true);
                        life.begun = None;
                        life.observe(&store);
                    }
                }
                life.expect_whole_after_a_stop(rng);
            }
        }
    }

    /// Returns a store with a durable state and one more commit, and the digests of both.
    fn unsettled() -> (TempDir, Store, [Vec<u8>; 2]) {
        let folder = tempfile::tempdir().unwrap();
        let store = open(ONE, folder.path());
        let mut digests = Vec::new();
        for number in 0..20u8 {
            let mut batch = store.begin_write().unwrap();
            (0..90u8).for_each(|key| batch.put(Table::Accounts, &[key], &vec![number; 500]).unwrap());
            if number < 19 {
                batch.commit().unwrap()
            } else {
                batch.commit_deferred_sync().unwrap()
            }
            digests.push(digest(&store));
        }
        let last = digests.split_off(18);
        (folder, store, last.try_into().unwrap())
    }

    #[test]
    fn an_opening_trusts_nothing_but_the_record_however_the_last_process_ended() {
        let (folder, _store, [durable, newest]) = unsettled();
        let (data, record) = files(folder.path());
        assert_ne!(durable, newest);
        for boot in [ONE, OTHER, BootId::UNKNOWN] {
            assert_eq!(digest(&open(boot, found(&data, &record).path())), durable);
        }
    }

    #[test]
    fn closing_a_store_makes_its_last_commit_durable() {
        let (folder, store, [_, newest]) = unsettled();
        drop(store);
        assert_eq!(digest(&open(OTHER, folder.path())), newest);
    }

    #[test]
    fn a_truncated_record_leaves_the_previous_one() {
        let (folder, store, [durable, newest]) = unsettled();
        let (_, before) = files(folder.path());
        store.durability().sync().unwrap();
        let (data, after) = files(folder.path());
        let place = (0..before.len().min(after.len())).find(|place| before[*place] != after[*place]).unwrap();
        let start = place / SLOT_OFFSET as usize * SLOT_OFFSET as usize;
        for written in 0..=RECORD_BYTES {
            let mut record = before.clone();
            record.resize(after.len().max(before.len()), 0);
            record[start..start + written].copy_from_slice(&after[start..start + written]);
            let expected = if record[..after.len()] == after { &newest } else { &durable };
            let folder = found(&data, &record);
            recover_to_durable(folder.path()).unwrap();
            // The whole store is checked for some of the lengths only.
            if written % 40 == 0 || written == RECORD_BYTES {
                assert_eq!(&digest(&open(ONE, folder.path())), expected, "{written} bytes");
            }
        }
    }

    #[test]
    fn a_read_only_opening_fails_while_recovery_is_needed() {
        let (folder, _store, [durable, newest]) = unsettled();
        let (data, record) = files(folder.path());
        let copy = found(&data, &record);
        let look = |boot| Store::open_existing_with_boot(boot, copy.path(), AccessMode::Shared, OPTIONS);
        assert!(matches!(look(OTHER), Err(StoreError::RecoveryNeeded)));
        assert_eq!(digest(&look(ONE).unwrap().0), newest);
        let opened = Store::open_existing_with_boot(OTHER, copy.path(), AccessMode::Exclusive, OPTIONS).unwrap();
        assert_eq!(digest(&opened.0), durable);
        drop(opened);
        assert_eq!(digest(&look(OTHER).unwrap().0), durable);
    }

    #[test]
    fn the_store_of_a_running_node_is_read_also_where_the_system_does_not_tell_its_run() {
        let (folder, mut store, [_, newest]) = unsettled();
        let look = |boot| Store::open_existing_with_boot(boot, folder.path(), AccessMode::Shared, OPTIONS);
        let unknown = [BootId::UNKNOWN, OTHER];
        unknown.iter().for_each(|boot| assert_eq!(digest(&look(*boot).unwrap().0), newest));
        store.lock = None;
        store.durability.data_file().unlock().unwrap();
        assert!(unknown.iter().all(|boot| matches!(look(*boot), Err(StoreError::RecoveryNeeded))));
    }

    #[test]
    fn a_store_without_a_record_is_opened_unchanged() {
        let (folder, store, [_, newest]) = unsettled();
        drop(store);
        std::fs::remove_file(folder.path().join(FILE)).unwrap();
        let store = open(OTHER, folder.path());
        assert_eq!(digest(&store), newest);
        store.begin_write().unwrap().commit().unwrap();
        assert!(folder.path().join(FILE).exists());
    }

    #[test]
    fn a_data_file_beside_a_foreign_record_is_left_unchanged() {
        let (folder, store, _) = unsettled();
        let (_, record) = files(folder.path());
        drop((folder, store));
        let (folder, store, _) = unsettled();
        for number in 0..5u8 {
            let mut batch = store.begin_write().unwrap();
            batch.put(Table::Harvests, &[number], &[number]).unwrap();
            batch.commit().unwrap();
        }
        let (expected, (data, _)) = (digest(&store), files(folder.path()));
        assert_eq!(digest(&open(OTHER, found(&data, &record).path())), expected);
    }

    #[test]
    fn once_the_path_of_the_data_file_leads_elsewhere_nothing_is_committed_or_becomes_durable() {
        for is_replaced in [false, true] {
            for has_helper in [false, true] {
                let (folder, store, _) = unsettled();
                let (data, aside) = (folder.path().join(DATA_FILE), folder.path().join("aside"));
                let durability = &store.durability;
                durability.set_helper(has_helper);
                assert!(durability.check_place().is_ok() && (!has_helper || !durability.poll_sync().unwrap()));
                let asked = durability.next_sync();
                let record = files(folder.path()).1;
                std::fs::rename(&data, &aside).unwrap();
                if is_replaced {
                    std::fs::copy(&aside, &data).unwrap();
                }
                assert_eq!(asked.is_some(), has_helper);
                durability.on_synced(Ok(()));
                let said = durability.poll_sync().unwrap_err();
                assert!(said.ends_process() && said.to_string().contains("removed, replaced or moved"), "{said}");
                // Also once it is back: another process may have used the path meanwhile.
                std::fs::rename(&aside, &data).unwrap();
                for error in [durability.sync().err(), store.begin_write().err(), store.failure()] {
                    assert!(matches!(error, Some(StoreError::DataFile(_, FileFault::Gone))), "{error:?}");
                }
                drop(store);
                assert!(std::fs::read(folder.path().join(FILE)).unwrap() == record);
            }
        }
    }

    #[test]
    fn after_a_sync_failure_nothing_is_written_and_the_next_opening_returns_to_the_durable_state() {
        for soon in [true, false] {
            let (folder, store, [durable, newest]) = unsettled();
            let durability = &store.durability;
            let record = files(folder.path()).1;
            assert!(store.failure().is_none());
            durability.fails.set(true);
            let mut batch = store.begin_write().unwrap();
            batch.put(Table::Harvests, b"key", b"value").unwrap();
            let result = if soon { batch.commit_deferred_sync() } else { batch.commit() };
            let said = result.unwrap_err().to_string();
            assert!(said.contains("No block that was shown") && said.contains("start nisd again"), "{said}");
            assert!(digest(&store) == newest && store.failure().is_some_and(|failure| failure.to_string() == said));
            // Later writes succeed, which says nothing about the lost ones.
            durability.fails.set(false);
            assert!(matches!(store.begin_write().err(), Some(StoreError::SyncFailed { .. })));
            assert!(
                durability.sync_and_record().is_err()
                    && store.durability().poll_sync().is_err()
                    && store.durability().begin_sync().is_err()
            );
            drop(store);
            assert!(files(folder.path()).1 == record);
            let store = open(ONE, folder.path());
            assert_eq!(digest(&store), durable);
            store.begin_write().unwrap().commit().unwrap();
        }
    }

    /// Returns a store with a helper and one commit that is not durable, and the next commit.
    fn with_helper() -> (Store, TempDir, impl Fn(&Store)) {
        let folder = tempfile::tempdir().unwrap();
        let store = open(ONE, folder.path());
        let commit = |store: &Store| {
            let mut batch = store.begin_write().unwrap();
            batch.put(Table::Harvests, b"key", b"value").unwrap();
            batch.commit_deferred_sync().unwrap();
        };
        commit(&store);
        store.durability().set_helper(true);
        (store, folder, commit)
    }

    #[test]
    fn data_and_then_the_record_are_synced_once_each() {
        let (store, _folder, _) = with_helper();
        assert_eq!(store.durability().next_sync(), None, "nobody has asked");
        for _ in 0..2 {
            assert!(!store.durability().poll_sync().unwrap() && store.durability().waits_for_disk());
        }
        for file in [SyncFile::Data, SyncFile::Record] {
            assert_eq!((store.durability().next_sync(), store.durability().next_sync()), (Some(file), None));
            assert!(!store.durability().poll_sync().unwrap() && store.durability().waits_for_disk());
            store.durability().on_synced(Ok(()));
        }
        assert!(!store.durability().waits_for_disk() && store.durability().is_sync_awaited());
        assert!(
            store.durability().poll_sync().unwrap()
                && !store.durability().is_sync_awaited()
                && !store.durability().has_unsynced_commit()
        );
    }

    #[test]
    fn an_answer_to_an_older_request_does_not_make_a_later_commit_durable() {
        let (store, _folder, commit) = with_helper();
        assert!(!store.durability().poll_sync().unwrap());
        assert_eq!(store.durability().next_sync(), Some(SyncFile::Data));
        commit(&store);
        assert!(!store.durability().poll_sync().unwrap());
        assert_eq!(store.durability().next_sync(), None, "the older answer has to come first");
        store.durability().on_synced(Ok(()));
        assert!(store.durability().has_unsynced_commit() && !store.durability().poll_sync().unwrap());
        assert_eq!(store.durability().next_sync(), Some(SyncFile::Data));
    }

    #[test]
    fn sync_needs_a_helper_and_unrequested_answers_are_ignored() {
        let (store, _folder, commit) = with_helper();
        store.durability().on_synced(Ok(()));
        assert!(store.durability().has_unsynced_commit() && !store.durability().poll_sync().unwrap());
        store.durability().on_synced(Ok(()));
        assert_eq!(store.durability().next_sync(), Some(SyncFile::Data));
        store.durability().set_helper(false);
        assert!(!store.durability().waits_for_disk() && store.durability().is_sync_awaited());
        assert_eq!(store.durability().next_sync(), None);
        assert!(store.durability().poll_sync().unwrap() && !store.durability().has_unsynced_commit());
        commit(&store);
        store.durability().on_synced(Ok(()));
        assert!(store.durability().has_unsynced_commit());
    }

    #[test]
    fn another_helper_gets_its_files_only_once_this_process_has_synced_the_last_commit() {
        for fails in [false, true] {
            let (store, folder, _) = with_helper();
            let record = files(folder.path()).1;
            assert!(!store.durability().begin_sync().unwrap());
            assert_eq!(store.durability().next_sync(), Some(SyncFile::Data));
            // It ends without an answer. What it may have seen is reported to the files that were open before only.
            store.durability().set_helper(false);
            store.durability.fails.set(fails);
            let given = store.durability().helper_files();
            if fails {
                assert!(matches!(given, Err(StoreError::SyncFailed { .. })), "{given:?}");
                assert!(store.failure().is_some() && files(folder.path()).1 == record);
            } else {
                assert!(given.unwrap().is_some() && !store.durability().has_unsynced_commit());
                assert!(files(folder.path()).1 != record);
            }
        }
    }

    #[test]
    fn a_caller_that_waits_for_the_disk_gets_the_error_of_another_sync() {
        let (store, _folder, _) = with_helper();
        assert!(!store.durability().poll_sync().unwrap());
        store.durability.fails.set(true);
        assert!(store.durability().sync().is_err());
        assert!(matches!(store.durability().poll_sync(), Err(StoreError::SyncFailed { .. })));
    }

    /// Returns what a disk may hold of two images of a file after a power cut, one by one: each page that differs alone as
    /// before and alone as after, and all of them.
    fn losses(before: &[u8], after: &[u8]) -> Vec<Vec<u8>> {
        let pages: Vec<usize> = (0..after.len().div_ceil(PAGE))
            .filter(|page| before.chunks(PAGE).nth(*page) != after.chunks(PAGE).nth(*page))
            .collect();
        let mixed = |is_after: &dyn Fn(usize) -> bool| {
            let mut file = before.to_vec();
            file.resize(after.len(), 0);
            for page in pages.iter().copied().filter(|page| is_after(*page)) {
                let place = page * PAGE..after.len().min((page + 1) * PAGE);
                file[place.clone()].copy_from_slice(&after[place]);
            }
            file
        };
        let mut files = vec![mixed(&|_| true), mixed(&|_| false)];
        for one in &pages {
            files.extend([mixed(&|page| page == *one), mixed(&|page| page != *one)]);
        }
        files
    }

    /// A way in which writing or synchronising the record fails.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum RecordFailure {
        /// It is written, and the helper cannot synchronise it.
        Helper,
        /// The next commit cannot write it.
        Commit,
        /// The caller that waits for the disk cannot write it.
        Sync,
    }

    impl RecordFailure {
        const ALL: [RecordFailure; 3] = [RecordFailure::Helper, RecordFailure::Commit, RecordFailure::Sync];

        /// Fails so. Nothing is committed meanwhile.
        fn occur(self, store: &mut Store) {
            if self == RecordFailure::Helper {
                store.durability.set_helper(true);
                assert!(!store.durability.poll_sync().unwrap());
                for result in [Ok(()), Err(Errno::IO.into())] {
                    assert!(store.durability.next_sync().is_some());
                    store.durability.on_synced(result);
                }
                assert!(matches!(store.durability.poll_sync(), Err(StoreError::Disk { .. })));
                return store.durability.set_helper(false);
            }
            // A file that is open for reading cannot be written.
            let unwritable = File::open(store.folder.join(FILE)).unwrap();
            let writable = store.durability.record_file.take();
            store.durability.record_file = OnceCell::from(unwritable);
            let failed = if self == RecordFailure::Sync {
                store.durability.sync()
            } else {
                let mut batch = store.begin_write().unwrap();
                batch.put(Table::Harvests, b"later", b"value").unwrap();
                batch.commit_deferred_sync()
            };
            assert!(matches!(failed, Err(StoreError::Disk { .. })), "{failed:?}");
            store.durability.record_file = writable.map(OnceCell::from).unwrap_or_default();
        }
    }

    #[test]
    #[ignore = "slow: computes for long"]
    fn records_that_fail_up_to_four_times_in_a_row_lose_nothing_and_are_never_ignored() {
        let series = (2..=4u32).flat_map(|count| (0..3usize.pow(count)).map(move |number| (count, number)));
        for (count, number) in series {
            let (folder, mut store, [shown, newest]) = unsettled();
            let data = files(folder.path()).0;
            let mut records = vec![files(folder.path()).1];
            // Whatever is on the disk, the store returns to a recorded state: to the one that was shown, or to the next.
            let expect_whole = |records: &[Vec<u8>], next: &[u8]| {
                let [first, .., last] = records else { panic!("no records") };
                for (index, record) in losses(first, last).into_iter().enumerate() {
                    let place = found(&data, &record);
                    recover_to_durable(place.path()).unwrap();
                    let found = files::newest_meta(&mut File::open(place.path().join(DATA_FILE)).unwrap()).unwrap();
                    let record = MetaRecord::read(place.path()).unwrap().expect("a record");
                    assert!(found.is_same_as(&record.meta));
                    if index < 2 {
                        let held = digest(&open(OTHER, place.path()));
                        assert!(held == shown || held == next, "{count} failures of series {number}");
                    }
                }
            };
            for failure in 0..count {
                RecordFailure::ALL[number / 3usize.pow(failure) % 3].occur(&mut store);
                assert!(store.failure().is_none() && store.durability.has_unsynced_commit());
                assert_eq!(digest(&store), newest, "nothing else was committed");
                records.push(files(folder.path()).1);
                expect_whole(&records, &newest);
            }
            store.durability.sync().unwrap();
            drop(store);
            assert_eq!(digest(&open(OTHER, folder.path())), newest);
        }
    }

    #[test]
    fn polling_a_store_without_commits_writes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        drop(open(ONE, folder.path()));
        let before = files(folder.path());
        let store = open(OTHER, folder.path());
        assert!(store.durability().poll_sync().unwrap());
        assert!(files(folder.path()) == before);
    }

    #[test]
    fn a_helper_gets_the_data_file_and_the_durable_meta_file() {
        let folder = tempfile::tempdir().unwrap();
        let inode = |file: File| file.metadata().unwrap().ino();
        let store = open(ONE, folder.path());
        let found = store.durability().helper_files().unwrap().unwrap().map(inode);
        assert_eq!(found, [DATA_FILE, FILE].map(|name| inode(File::open(folder.path().join(name)).unwrap())));
        let folder = tempfile::tempdir().unwrap();
        assert!(Store::scratch(folder.path(), OPTIONS).unwrap().durability.helper_files().unwrap().is_none());
    }
}
