//! Errors of the store.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::data_file::FileFault;
use super::open::free_bytes;
use super::rebuild::DiskSpace;
use super::tables::Table;
use crate::model::SettingDifference;

/// Maximum characters of a setting's value in a message; some values are long lists.
const MAX_SHOWN_CHARACTERS: usize = 80;

/// An error of the store. Input from peers or clients causes none of them.
#[derive(Debug)]
pub enum StoreError {
    /// LMDB failed.
    Lmdb(lmdb::Error),
    /// A write to the disk failed; the free bytes on it.
    Disk { folder: PathBuf, error: io::Error, free: Option<u64> },
    /// Synchronising the disk failed: commits since the last durable one may be lost.
    SyncFailed { folder: PathBuf, error: io::Error },
    /// The system stopped before the last commits were durable, and this read-only opening cannot recover the store.
    RecoveryNeeded,
    /// The folder could not be created or locked.
    Folder(PathBuf, std::io::Error),
    /// The store was written by another version of this program.
    Schema { found: String, expected: String },
    /// The store was written by an older version, and a new one can be built from its blocks.
    OlderSchema { found: String, expected: String },
    /// The disk has too little free space for a second store, to be rebuilt or copied.
    NoSpace { folder: PathBuf, room: DiskSpace },
    /// The store holds the chain of another network. It differs from the configured one in these settings: the store's
    /// value first, then the configured one.
    OtherNetwork { store: String, configured: String, differences: Vec<SettingDifference> },
    /// The data file cannot be used.
    DataFile(PathBuf, FileFault),
    /// The folder had a store, but the data file is gone or empty.
    DataFileMissing(PathBuf),
    /// There is too little address space to map the store.
    AddressSpace { bytes: usize },
    /// Another process has the store open for writing.
    InUse,
    /// This process has a write transaction already. This is a bug of the caller.
    WriteInProgress,
    /// There is no chain in the folder.
    Empty,
    /// The target folder of a copy holds something that is neither a copy nor a part of one.
    NotABackup { folder: PathBuf, other: OsString },
    /// The copy in this folder differs from its source.
    BackupDiffers { table: Table, folder: PathBuf },
    /// [`crate::store::Store::set_interrupt_flag`] interrupted a read.
    Interrupted,
    /// A row differs from what was written: the disk damaged it.
    Corrupt { table: Table, key: Vec<u8> },
    /// The rows of a range, which starts at the key `first`, are not those that were written last: some are missing,
    /// surplus, out of order or of an earlier commit.
    Incomplete { table: Table, first: Vec<u8> },
    /// A value cannot be decoded: the file is damaged.
    Damaged(&'static str),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Lmdb(error) => write_failed(f, error),
            StoreError::Disk { folder, error, free } => write_disk(f, folder, error, *free),
            StoreError::SyncFailed { folder, error } => write!(
                f,
                "the disk rejected data that was written in the data folder {}: {error}; the last blocks may be lost, \
                 and no more are accepted. See the system's log, then start nisd again: it returns to the last durable \
                 state",
                folder.display()
            ),
            StoreError::RecoveryNeeded => f.write_str(
                "the system stopped before the last blocks were on the disk; start the node or an import once, which \
                 returns the store to its last durable state",
            ),
            StoreError::Folder(path, error) => {
                write!(f, "the data folder {} cannot be used: {}", path.display(), folder_error_text(error))
            }
            StoreError::Schema { found, expected } => write!(
                f,
                "the store was written by another version of nisd (schema {found}, this program has {expected}), and \
                 cannot be rebuilt by this one; use that version"
            ),
            StoreError::OlderSchema { found, expected } => write!(
                f,
                "the store was written by an older version of nisd (schema {found}, this program has {expected}); \
                 `nisd reindex` rebuilds it from its own blocks, and so does starting the node"
            ),
            StoreError::NoSpace { folder, room } => write_no_space(f, folder, room),
            StoreError::OtherNetwork { store, configured, differences } => {
                write_other_network(f, [store, configured], differences)
            }
            StoreError::DataFile(path, fault) => write!(f, "{} cannot be used: {fault}", path.display()),
            StoreError::DataFileMissing(path) => write!(
                f,
                "{} is missing or empty, but this folder had a store; restore it from a backup, or, to start over, \
                 remove nisd.lock beside it or choose another data folder",
                path.display()
            ),
            StoreError::AddressSpace { bytes } => write!(
                f,
                "the store cannot be mapped into memory: not even {} MiB of address space are available; raise \
                 the limit (ulimit -v) or set a smaller nisd.mapSize",
                bytes >> 20
            ),
            StoreError::InUse => f.write_str("another nisd uses the data folder; stop it or choose another folder"),
            StoreError::WriteInProgress => f.write_str("the store is already being changed"),
            StoreError::Empty => f.write_str("there is no chain in the data folder; import one first"),
            StoreError::NotABackup { folder, other } => write!(
                f,
                "the folder {} contains {}, which is not part of a backup; name a folder that is empty, does not exist \
                 yet or contains only an earlier backup",
                folder.display(),
                other.display()
            ),
            StoreError::BackupDiffers { table, folder } => write!(
                f,
                "the backup in {} differs from what was written, in the table {}; the disk or the memory of this \
                 machine is failing: choose another disk, and see the system's log",
                folder.display(),
                table.name()
            ),
            StoreError::Interrupted => f.write_str("interrupted"),
            StoreError::Corrupt { table, key } => write_corrupt(f, *table, key),
            StoreError::Incomplete { table, first } => write_incomplete(f, *table, first),
            StoreError::Damaged(what) => {
                write!(f, "the store is damaged ({what}); restore the folder from a backup or import the chain again")
            }
        }
    }
}

fn write_failed(f: &mut fmt::Formatter<'_>, error: &lmdb::Error) -> fmt::Result {
    match error {
        lmdb::Error::MapFull => f.write_str(
            "the store has reached its maximum size; start again with a larger nisd.mapSize, nothing is lost",
        ),
        lmdb::Error::Panic => f.write_str(
            "the store failed during a commit and accepts no more; start the node again, nothing that was committed is \
             lost",
        ),
        error => write!(f, "the store failed: {error}"),
    }
}

fn write_disk(f: &mut fmt::Formatter<'_>, folder: &Path, error: &io::Error, free: Option<u64>) -> fmt::Result {
    write!(f, "cannot write in the data folder {}: {error}", folder.display())?;
    if let Some(free) = free {
        write!(f, "; {} MiB are free there", free >> 20)?;
    }
    write!(f, ". {}; nothing that was committed is lost", remedy(error))
}

fn write_no_space(f: &mut fmt::Formatter<'_>, folder: &Path, room: &DiskSpace) -> fmt::Result {
    write!(f, "a second store needs about {} MiB in {}", room.needed.div_ceil(1 << 20), folder.display())?;
    if let Some(free) = room.free {
        write!(f, ", and {} MiB are free there", free >> 20)?;
    }
    f.write_str("; free some space; the existing store is unchanged")
}

fn write_other_network(
    f: &mut fmt::Formatter<'_>,
    [store, configured]: [&str; 2],
    differences: &[SettingDifference],
) -> fmt::Result {
    write!(f, "the store holds the chain of {store}, but the configuration is for {configured}: ")?;
    for SettingDifference { key, values: [stored, configured] } in differences {
        write!(f, "{key} is {} in the store and {} here; ", shortened(stored), shortened(configured))?;
    }
    f.write_str("choose another data folder or the configuration that belongs to this one")
}

/// Returns a text on why a folder cannot be created or read.
pub fn folder_error_text(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            "it is a file, or lies below one; name a folder".to_owned()
        }
        _ => error.to_string(),
    }
}

/// Writes the text for a damaged row; for a block it names the height.
fn write_corrupt(f: &mut fmt::Formatter<'_>, table: Table, key: &[u8]) -> fmt::Result {
    let key_of_block = key.try_into().ok().filter(|_| table == Table::Blocks);
    match key_of_block.map(u64::from_be_bytes) {
        Some(height) => write!(
            f,
            "the store is damaged: the block at height {height} differs from what was written; restore the folder \
             from a backup or import the chain again"
        ),
        None => write!(
            f,
            "the store is damaged: in the table {} the row {} differs from what was written; `nisd reindex` rebuilds \
             the table from the blocks",
            table.name(),
            hex::encode(key)
        ),
    }
}

/// Writes the text for a damaged range; for blocks it names the first height.
fn write_incomplete(f: &mut fmt::Formatter<'_>, table: Table, first: &[u8]) -> fmt::Result {
    let height = first.try_into().map(u64::from_be_bytes).unwrap_or_default();
    match table {
        Table::Blocks => write!(
            f,
            "the store is damaged: some blocks from height {height} on are missing or not those written last; restore \
             the folder from a backup or import the chain again"
        ),
        Table::Meta => f.write_str(
            "the store is damaged: its version and network differ from what was written; restore the folder from a \
             backup or import the chain again",
        ),
        table => write!(
            f,
            "the store is damaged: in the table {} some rows from {} on are missing or not those written last; `nisd \
             reindex` rebuilds the table from the blocks",
            table.name(),
            hex::encode(first)
        ),
    }
}

impl StoreError {
    /// Returns the error for a folder in which a write failed.
    pub(super) fn disk(folder: &Path, error: io::Error) -> StoreError {
        StoreError::Disk { folder: folder.to_owned(), error, free: free_bytes(folder).ok() }
    }
}

/// Returns the advice for a failed write.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "Free some space, or move the folder to a larger disk"
        }
        io::ErrorKind::ReadOnlyFilesystem => "Mount it for writing",
        _ => "The disk may be failing: back up the folder, and see the system's log",
    }
}

/// Returns a setting's value, shortened for a message.
fn shortened(value: &str) -> Cow<'_, str> {
    match value.char_indices().nth(MAX_SHOWN_CHARACTERS) {
        _ if value.is_empty() => "(nothing)".into(),
        Some((end, _)) => format!("{}…", &value[..end]).into(),
        None => value.into(),
    }
}

impl std::error::Error for StoreError {}

impl From<lmdb::Error> for StoreError {
    fn from(error: lmdb::Error) -> Self {
        StoreError::Lmdb(error)
    }
}
