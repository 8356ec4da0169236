//! Errors about private networks.

use std::io;
use std::path::PathBuf;

use crate::config::ConfigError;
use crate::store::folder_error_text;
use crate::wallet::key_file::KeyFileError;

/// An error about a private network. `Display` says what to do.
#[derive(Debug, thiserror::Error)]
pub enum DevnetError {
    /// The settings are wrong.
    #[error(transparent)]
    Settings(#[from] ConfigError),
    /// This folder cannot be created.
    #[error("the folder {} cannot be used: {}", .0.display(), folder_error_text(.1))]
    Folder(PathBuf, io::Error),
    /// This file cannot be read or written.
    #[error("{path}: {1}", path = .0.display())]
    File(PathBuf, io::Error),
    /// This key file cannot be read or written.
    #[error("the key file {path}: {1}", path = .0.display())]
    KeyFile(PathBuf, KeyFileError),
    /// The system provides no randomness for keys.
    #[error("the system provides no random numbers for keys: {0}")]
    Randomness(io::Error),
    /// Fresh keys were requested for a network that has keys.
    #[error("the private network in {} already has its keys; choose another folder with --data, or remove this one", .0.display())]
    HasKeys(PathBuf),
    /// Settings of the command line would change the chain of an existing network.
    #[error("the private network in {} was created with another block time or other rules, which cannot change \
                 later; choose another folder with --data, or remove this one", .0.display())]
    OtherChain(PathBuf),
    /// This setting of the command line is part of the network's identity, which nisd chooses.
    #[error(
        "{0} cannot be set for nisd's own private network; omit it, or pass your own configuration with \
                 --config"
    )]
    Identity(String),
    /// The folder holds the store of another chain.
    #[error("{} holds the store of a chain with another configuration; pass that configuration with --config, or \
                 choose another folder with --data", .0.display())]
    ForeignStore(PathBuf),
    /// There is no private network in this folder.
    #[error("there is no private network in {}; nisd run creates one, and --data names another folder", .0.display())]
    Absent(PathBuf),
    /// An output file exists already.
    #[error("{} exists and is not overwritten; choose another folder with --output", .0.display())]
    Exists(PathBuf),
    /// The port cannot be exported, because the system chooses it at each start.
    #[error(
        "nem.httpPort is 0, so the system chooses another port at each start; name one with --http-port, and \
                 start the node with the same port"
    )]
    NoPort,
    /// A required setting is missing.
    #[error("{0} is missing in the settings of the private network")]
    Missing(&'static str),
}
