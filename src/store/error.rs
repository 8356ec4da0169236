//! What can go wrong with the store.

use std::fmt;
use std::path::PathBuf;

/// A failure of the store. None of them is caused by what a peer or a client sends.
#[derive(Debug)]
pub enum StoreError {
    /// LMDB failed.
    Lmdb(lmdb::Error),
    /// The folder could not be created or locked.
    Folder(PathBuf, std::io::Error),
    /// The store was written by another version of this program.
    Schema { found: String, expected: String },
    /// The store holds the chain of another network.
    OtherNetwork { store: String, configured: String },
    /// Another process has it open to change it.
    InUse,
    /// This process is changing it already. Asking twice is a mistake of the program.
    BeingChanged,
    /// There is no chain in the folder.
    Empty,
    /// Reading was interrupted by [`crate::store::Store::stop_when`].
    Interrupted,
    /// A value cannot be read back: the file is damaged.
    Damaged(&'static str),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Lmdb(lmdb::Error::MapFull) => f.write_str(
                "the store has reached its largest size; start again with a larger nisd.mapSize, nothing is lost",
            ),
            StoreError::Lmdb(error) => write!(f, "the store failed: {error}"),
            StoreError::Folder(path, error) => {
                write!(f, "the data folder {} cannot be used: {error}", path.display())
            }
            StoreError::Schema { found, expected } => write!(
                f,
                "the store was written by another version of nisd (schema {found}, this program needs {expected}); \
                 use that version, or import the chain into an empty folder"
            ),
            StoreError::OtherNetwork { store, configured } => write!(
                f,
                "the store holds the chain of {store}, but the configuration is for {configured}; \
                 choose another data folder or the configuration that belongs to this one"
            ),
            StoreError::InUse => f.write_str("another nisd uses the data folder; stop it or choose another folder"),
            StoreError::BeingChanged => f.write_str("the store is being changed already"),
            StoreError::Empty => f.write_str("there is no chain in the data folder; import one first"),
            StoreError::Interrupted => f.write_str("interrupted"),
            StoreError::Damaged(what) => {
                write!(f, "the store is damaged ({what}); restore the folder from a backup or import the chain again")
            }
        }
    }
}

impl std::error::Error for StoreError {}

impl From<lmdb::Error> for StoreError {
    fn from(error: lmdb::Error) -> Self {
        StoreError::Lmdb(error)
    }
}
