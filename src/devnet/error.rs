//! Errors about private networks.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::config::ConfigError;
use crate::store::folder_error_text;
use crate::wallet::key_file::KeyFileError;

/// An error about a private network. `Display` says what to do.
#[derive(Debug)]
pub enum DevnetError {
    /// The settings are wrong.
    Settings(ConfigError),
    /// This folder cannot be created.
    Folder(PathBuf, io::Error),
    /// This file cannot be read or written.
    File(PathBuf, io::Error),
    /// This key file cannot be read or written.
    KeyFile(PathBuf, KeyFileError),
    /// The system provides no randomness for keys.
    Randomness(io::Error),
    /// Fresh keys were requested for a network that has keys.
    HasKeys(PathBuf),
    /// Settings of the command line would change the chain of an existing network.
    OtherChain(PathBuf),
    /// This setting of the command line is part of the network's identity, which nisd chooses.
    Identity(String),
    /// The folder holds the store of another chain.
    ForeignStore(PathBuf),
    /// There is no private network in this folder.
    Absent(PathBuf),
    /// An output file exists already.
    Exists(PathBuf),
    /// The port cannot be exported, because the system chooses it at each start.
    NoPort,
    /// A required setting is missing.
    Missing(&'static str),
}

impl fmt::Display for DevnetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DevnetError::Settings(error) => error.fmt(f),
            DevnetError::Folder(path, error) => {
                write!(f, "the folder {} cannot be used: {}", path.display(), folder_error_text(error))
            }
            DevnetError::File(path, error) => write!(f, "{}: {error}", path.display()),
            DevnetError::KeyFile(path, error) => write!(f, "the key file {}: {error}", path.display()),
            DevnetError::Randomness(error) => write!(f, "the system provides no random numbers for keys: {error}"),
            DevnetError::HasKeys(folder) => write!(
                f,
                "the private network in {} already has its keys; choose another folder with --data, or remove this one",
                folder.display()
            ),
            DevnetError::OtherChain(folder) => write!(
                f,
                "the private network in {} was created with another block time or other rules, which cannot change \
                 later; choose another folder with --data, or remove this one",
                folder.display()
            ),
            DevnetError::Identity(key) => write!(
                f,
                "{key} cannot be set for nisd's own private network; omit it, or pass your own configuration with \
                 --config"
            ),
            DevnetError::ForeignStore(folder) => write!(
                f,
                "{} holds the store of a chain with another configuration; pass that configuration with --config, or \
                 choose another folder with --data",
                folder.display()
            ),
            DevnetError::Absent(folder) => write!(
                f,
                "there is no private network in {}; nisd run creates one, and --data names another folder",
                folder.display()
            ),
            DevnetError::Exists(path) => {
                write!(f, "{} exists and is not overwritten; choose another folder with --output", path.display())
            }
            DevnetError::NoPort => f.write_str(
                "nem.httpPort is 0, so the system chooses another port at each start; name one with --http-port, and \
                 start the node with the same port",
            ),
            DevnetError::Missing(key) => write!(f, "{key} is missing in the settings of the private network"),
        }
    }
}

impl std::error::Error for DevnetError {}

impl From<ConfigError> for DevnetError {
    fn from(error: ConfigError) -> Self {
        DevnetError::Settings(error)
    }
}
