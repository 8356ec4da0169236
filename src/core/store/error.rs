//! Errors of the store.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::files::{DiskSpace, FileFault, free_bytes};
use super::tables::Table;
use crate::files::{self, Access};
use crate::model::SettingDifference;

/// Result of reading or writing the store.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// The error of a lock that another process holds.
const EAGAIN: i32 = Errno::AGAIN.raw_os_error();

/// An error of the store. Input from peers or clients causes none of them.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// LMDB failed.
    #[error("{}", lmdb_text(.0))]
    Lmdb(#[from] lmdb::Error),
    /// A write to the disk failed; the free bytes on it.
    #[error(
        "cannot write in the data folder {}: {}{}. Nothing that was committed is lost",
        .folder.display(), files::describe(.error), free_text("; ", *.free)
    )]
    Disk { folder: PathBuf, error: io::Error, free: Option<u64> },
    /// Synchronising the disk failed: a commit since the last durable one is lost.
    #[error(
        "the disk rejected data that was written in the data folder {}: {}. No more is written: start nisd again, which \
         returns to the last durable state. No block that was shown to anybody is lost",
        .folder.display(), files::describe(.error)
    )]
    SyncFailed { folder: PathBuf, error: io::Error },
    /// The disk did not accept a copy of the store.
    #[error(
        "the copy of the store in {} cannot be written to the disk: {}; the store itself is unchanged, and an earlier \
         copy stays valid",
        .folder.display(), files::describe(.error)
    )]
    CopyFailed { folder: PathBuf, error: io::Error },
    /// The system stopped before the last commits were durable, and this read-only opening cannot recover the store.
    #[error(
        "the system stopped before the last blocks were on the disk; start the node or an import once, which returns \
         the store to its last durable state"
    )]
    RecoveryNeeded,
    /// The folder could not be created or locked.
    #[error("the data folder {} cannot be used: {}", .0.display(), folder_error_text(.1))]
    Folder(PathBuf, io::Error),
    /// The store was written by another version of this program.
    #[error(
        "the store was written by another version of nisd (schema {found}, this program has {expected}), and cannot be \
         rebuilt by this one; use that version"
    )]
    Schema { found: String, expected: String },
    /// The store was written by an older version, and a new one can be built from its blocks.
    #[error(
        "the store was written by an older version of nisd (schema {found}, this program has {expected}); `nisd \
         reindex` rebuilds it from its own blocks, and so does starting the node"
    )]
    OlderSchema { found: String, expected: String },
    /// The disk has too little free space for a second store, to be rebuilt or copied.
    #[error(
        "a second store needs about {} MiB in {}{}; free some space; the existing store is unchanged",
        .space.needed.div_ceil(1 << 20), .folder.display(), free_text(", and ", .space.free)
    )]
    NoSpace { folder: PathBuf, space: DiskSpace },
    /// The store holds the chain of another network. It differs from the configured one in these settings: the store's
    /// value first, then the configured one.
    #[error(
        "the store holds the chain of {store}, but the configuration is for {configured}: {}choose another data folder \
         or the configuration that belongs to this one",
        .differences.iter().map(difference_text).collect::<String>()
    )]
    OtherNetwork { store: String, configured: String, differences: Vec<SettingDifference> },
    /// The data file cannot be used.
    #[error("{}", data_file_text(.0, .1))]
    DataFile(PathBuf, FileFault),
    /// There is too little address space to map the store.
    #[error(
        "the store cannot be mapped into memory: not even {} MiB of address space are available; raise the limit \
         (ulimit -v) or set a smaller nisd.mapSize",
        .bytes >> 20
    )]
    AddressSpace { bytes: usize },
    /// Another process has the store open for writing.
    #[error("another nisd uses the data folder; stop it or choose another folder")]
    InUse,
    /// This process has a write transaction already. This is a bug of the caller.
    #[error("the store is already being changed")]
    WriteInProgress,
    /// There is no chain in the folder.
    #[error("there is no chain in the data folder; import one first")]
    Empty,
    /// The target folder of a copy holds something that is neither a copy nor a part of one.
    #[error(
        "the folder {} contains {}, which is not part of a backup; name a folder that is empty, does not exist yet or \
         contains only an earlier backup",
        .folder.display(), .other.display()
    )]
    NotABackup { folder: PathBuf, other: OsString },
    /// Another process copies a store to this folder.
    #[error("another backup to {} is running; wait until it has ended", .0.display())]
    BackupRunning(PathBuf),
    /// [`crate::store::Store::set_interrupt_flag`] interrupted a read.
    #[error("interrupted")]
    Interrupted,
    /// A row differs from what was written: the disk damaged it.
    #[error("the store is damaged: {}", corrupt_text(*.table, .key))]
    Corrupt { table: Table, key: Vec<u8> },
    /// The rows of a range, which starts at the key `first`, are not those that were written last: some are missing,
    /// surplus, out of order or of an earlier commit.
    #[error("the store is damaged: {}", incomplete_text(*.table, .first))]
    Incomplete { table: Table, first: Vec<u8> },
    /// A value cannot be decoded: the file is damaged.
    #[error("the store is damaged ({0}); restore the folder from a backup or import the chain again")]
    Damaged(&'static str),
}

impl StoreError {
    /// Returns whether this process can use the store no longer; see [`Store::failure`](super::Store::failure).
    pub fn ends_process(&self) -> bool {
        matches!(
            self,
            StoreError::SyncFailed { .. }
                | StoreError::DataFile(_, FileFault::Gone)
                | StoreError::Lmdb(lmdb::Error::Panic)
        )
    }

    /// Returns the error for a folder in which a write failed.
    pub(super) fn disk(folder: &Path, error: io::Error) -> StoreError {
        StoreError::Disk { folder: folder.to_owned(), error, free: free_bytes(folder).ok() }
    }

    /// Returns the error for a folder in which LMDB failed to write.
    pub(super) fn of_write(folder: &Path, error: lmdb::Error) -> StoreError {
        /// With fewer free bytes than this, a failed write means a full disk: writes are larger.
        const LOW_SPACE: u64 = 1 << 20;
        let lmdb::Error::Other(number @ 1..) = error else { return error.into() };
        let free = free_bytes(folder).ok();
        // LMDB reports a write that was only partly possible as an I/O error.
        let error = match Errno::from_raw_os_error(number) {
            Errno::IO if free.is_some_and(|free| free < LOW_SPACE) => Errno::NOSPC,
            Errno::IO => growth_error(folder).unwrap_or(Errno::IO),
            error => error,
        };
        StoreError::Disk { folder: folder.to_owned(), error: error.into(), free }
    }
}

/// Returns the error of a folder that cannot be created, locked or read.
pub(super) fn in_folder(folder: &Path) -> impl Fn(io::Error) -> StoreError + Copy {
    move |error| StoreError::Folder(folder.to_owned(), error)
}

/// Returns why the data file of a store cannot grow: the system tells it for a byte at its end, which is removed again.
fn growth_error(folder: &Path) -> Option<Errno> {
    let file = files::open_own(&folder.join(files::DATA_FILE), Access::Change).ok()?;
    let end = file.metadata().ok()?.len();
    let error = rustix::io::pwrite(&file, &[0], end).err();
    if error.is_none() {
        file.set_len(end).ok()?;
    }
    error
}

fn lmdb_text(error: &lmdb::Error) -> Cow<'static, str> {
    match error {
        lmdb::Error::MapFull => {
            "the store has reached its maximum size; start again with a larger nisd.mapSize, nothing is lost".into()
        }
        lmdb::Error::Panic => "the store failed during a commit and accepts no more; start the node again, nothing \
                               that was committed is lost"
            .into(),
        lmdb::Error::Other(EAGAIN) => format!(
            "a program in another container has the store open and the same process number as this one, {}, by which \
             readers are told apart: run a command in the container of the node (docker exec) or with its processes \
             (--pid=container:NODE), and start the node again when no such command runs",
            std::process::id()
        )
        .into(),
        lmdb::Error::Other(number @ 1..) => {
            format!("the store failed: {}", files::describe(&io::Error::from_raw_os_error(*number))).into()
        }
        error => format!("the store failed: {error}").into(),
    }
}

fn free_text(before: &str, free: Option<u64>) -> String {
    free.map_or(String::new(), |free| format!("{before}{} MiB are free there", free >> 20))
}

fn data_file_text(path: &Path, fault: &FileFault) -> String {
    match fault {
        FileFault::Io(error) => format!("the data file cannot be used: {}", files::describe_at(path, error)),
        fault => format!("{} cannot be used: {fault}", path.display()),
    }
}

/// Returns a text on why a folder cannot be created or read.
fn folder_error_text(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => files::NO_FOLDER.to_owned(),
        _ => files::describe(error),
    }
}

fn difference_text(SettingDifference { key, values }: &SettingDifference) -> String {
    /// Maximum characters of a value; some values are long lists.
    const MAX_SHOWN_CHARACTERS: usize = 80;
    let [stored, configured] = values.each_ref().map(|value| match value.char_indices().nth(MAX_SHOWN_CHARACTERS) {
        _ if value.is_empty() => "(nothing)".to_owned(),
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.clone(),
    });
    format!("{key} is {stored} in the store and {configured} here; ")
}

/// Returns the text for a damaged row; for a block it names the height.
fn corrupt_text(table: Table, key: &[u8]) -> String {
    match key.try_into().ok().filter(|_| table == Table::Blocks).map(u64::from_be_bytes) {
        Some(height) => format!(
            "the block at height {height} differs from what was written; restore the folder from a backup or import \
             the chain again"
        ),
        None => format!(
            "in the table {} the row {} differs from what was written; `nisd reindex` rebuilds the table from the \
             blocks",
            table.name(),
            hex::encode(key)
        ),
    }
}

/// Returns the text for a damaged range; for blocks it names the first height.
fn incomplete_text(table: Table, first: &[u8]) -> String {
    let height = first.try_into().map(u64::from_be_bytes).unwrap_or_default();
    match table {
        Table::Blocks => format!(
            "some blocks from height {height} on are missing or not those written last; restore the folder from a \
             backup or import the chain again"
        ),
        Table::Meta => "its version and network differ from what was written; restore the folder from a backup or \
                        import the chain again"
            .to_owned(),
        table => format!(
            "in the table {} some rows from {} on are missing or not those written last; `nisd reindex` rebuilds the \
             table from the blocks",
            table.name(),
            hex::encode(first)
        ),
    }
}
