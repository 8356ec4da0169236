//! The command line, and the commands: each with its arguments and its code in one file. Examples and notes below the
//! help of a command are in `src/help/commands/`.
//!
//! A new command is its file, its variant of [`Command`], and its arm in `main.rs`.
//!
//! Results go to standard output; descriptions of what a command will do, and warnings, go to standard error. No command
//! takes a private key as an argument, where other users can read it.

pub mod apostille;
pub mod backup;
mod cli;
pub mod config;
pub mod devnet;
pub mod help;
pub mod import;
pub mod keys;
pub mod peers;
pub mod reindex;
pub mod send;
pub mod service;
pub mod status;
pub mod status_of;
pub mod store;
pub mod watch;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::builder::{PathBufValueParser, TypedValueParser};
use zeroize::Zeroizing;

use crate::chain::{BrokenChain, CheckpointError, ImportError, RollbackError, StoreDifference};
use crate::clock::System;
use crate::config::{ConfigError, NemesisError};
use crate::devnet::DevnetError;
use crate::model::Height;
use crate::store::StoreError;
use crate::wallet::key_file::KeyFileError;
use crate::wallet::{NodeClient, NodeError};

pub use self::cli::{Cli, Command, CommandLine, Common, Run};

/// Returns the examples and notes below the help of a command.
macro_rules! notes {
    ($command:literal) => {
        include_str!(concat!("../help/commands/", $command, ".txt")).trim_ascii_end()
    };
}
pub(crate) use notes;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store in this folder cannot be opened.
    #[error("{}", cannot_open(.0, .1))]
    Open(PathBuf, StoreError),
    /// The nemesis block cannot be read.
    #[error(transparent)]
    Nemesis(#[from] NemesisError),
    /// The import failed.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The chain could not be rolled back.
    #[error(transparent)]
    Rollback(#[from] RollbackError),
    /// The trusted checkpoint is not in the files.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The content of the store is wrong.
    #[error("{0}; roll back below that height, or rebuild the store with `nisd reindex`")]
    Difference(StoreDifference),
    /// The blocks of the store do not form a chain.
    #[error("{0}; restore the folder from a backup, or import the chain into an empty folder")]
    Broken(#[from] BrokenChain),
    /// A running node did not answer a request as expected.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// No node answers, and this folder holds no store.
    #[error(
        "{0} There is no store in {folder} either: `nisd run` starts a node; --config, --node or --data name another", folder = .1.display()
    )]
    NoNodeOrStore(NodeError, PathBuf),
    /// The command line or the settings ask for something impossible; the text says what to do.
    #[error("{0}")]
    Usage(String),
    /// The settings are wrong.
    #[error(transparent)]
    Settings(#[from] ConfigError),
    /// Something else failed; the text says what, and what to do.
    #[error("{0}")]
    Failed(String),
    /// The command has said everything; the program ends with this exit code.
    #[error("exit code {0}")]
    Exit(u8),
    /// A command on the private network failed.
    #[error(transparent)]
    Devnet(#[from] DevnetError),
    /// This file cannot be read or written.
    #[error("{path}: {1}", path = .0.display())]
    File(PathBuf, io::Error),
    /// Standard output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(io::Error),
    /// A port cannot be opened.
    #[error("cannot listen on {}: {}; {}", .0, .1, listening_advice(.1))]
    Listen(SocketAddr, io::Error),
    /// The system denies a basic resource.
    #[error(transparent)]
    System(io::Error),
    /// An import was stopped by a signal after this height.
    #[error("stopped after height {0}; the same command continues from there")]
    Stopped(Height),
    /// This key file cannot be read or written.
    #[error("key file {path}: {1}", path = .0.display())]
    KeyFile(PathBuf, KeyFileError),
    /// The transaction was not confirmed before its deadline.
    #[error(
        "the transaction is not in the chain although its deadline has passed; it can no longer be confirmed, \
                 unless the node itself is behind"
    )]
    NotConfirmed,
    /// The chain does not have this height.
    #[error("there is no block at height {requested}; the chain is at height {tip}")]
    NoSuchHeight { requested: Height, tip: Height },
}

impl From<StoreDifference> for CommandError {
    fn from(difference: StoreDifference) -> Self {
        CommandError::Difference(difference)
    }
}

/// Returns advice for a port that cannot be opened.
fn listening_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 are for root, or for a program with the capability CAP_NET_BIND_SERVICE. Choose others with \
             --http-port and --websocket-port, and let a proxy listen on that port"
        }
        io::ErrorKind::AddrNotAvailable => "this machine does not have the address; choose one that it has with --bind",
        _ => "is another node running? Choose other ports with --http-port and --websocket-port",
    }
}

/// Describes why the store in a folder cannot be opened.
fn cannot_open(folder: &Path, error: &StoreError) -> String {
    let folder = folder.display();
    match error {
        StoreError::Folder(..) => error.to_string(),
        StoreError::Schema { .. } => format!(
            "{folder}: {error}, or transfer the chain: `nisd export --data {folder} --output blocks.bin` with that \
             version, then `nisd import --config SETTINGS --data NEW-FOLDER blocks.bin` with this one"
        ),
        _ => format!("{folder}: {error}"),
    }
}

/// Exit code: success.
const EXIT_OK: u8 = 0;
/// Exit code: a failure of a store, a block, a port or the like.
const EXIT_FAILURE: u8 = 1;
/// Exit code: wrong command line or settings. clap uses the same code.
const EXIT_USAGE: u8 = 2;

impl CommandError {
    /// Returns the exit code of the program.
    pub fn exit_code(&self) -> u8 {
        match self {
            CommandError::Exit(code) => *code,
            CommandError::Usage(_) | CommandError::Settings(_) => EXIT_USAGE,
            _ => EXIT_FAILURE,
        }
    }

    /// Returns the error of a failed write to standard output. A reader that closes early, such as `head`, is no failure.
    fn output(error: io::Error) -> CommandError {
        match error.kind() {
            io::ErrorKind::BrokenPipe => CommandError::Exit(EXIT_OK),
            _ => CommandError::Output(error),
        }
    }
}

/// Flag that is set when the command must stop.
pub type Stop = Arc<AtomicBool>;

/// Writes to standard output.
fn print(text: &str) -> Result<(), CommandError> {
    io::stdout().write_all(text.as_bytes()).map_err(CommandError::output)
}

/// Writes to standard error; ignores errors, since nobody could read about them.
fn print_stderr(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Writes a note for the user to standard error.
fn print_note(text: &str) {
    print_stderr(&format!("note: {text}\n"));
}

/// URL of the node that is used by default.
const DEFAULT_NODE: &str = "http://127.0.0.1:7890";

/// Returns the node at a URL of the command line.
fn node(url: &str) -> Result<NodeClient, CommandError> {
    NodeClient::at(url).map_err(|reason| CommandError::Usage(format!("--node {url:?}: {reason}")))
}

/// Returns random bytes.
fn random_bytes<const N: usize>(system: System) -> Result<Zeroizing<[u8; N]>, CommandError> {
    let mut bytes = Zeroizing::new([0; N]);
    (system.random)(bytes.as_mut_slice()).map_err(DevnetError::Randomness)?;
    Ok(bytes)
}

/// Parses the path of a folder and removes `.` components: the system cannot create a folder named `store/.`.
fn folder() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().map(|path| path.components().collect::<PathBuf>())
}

fn height(text: &str) -> Result<Height, &'static str> {
    match text.parse() {
        Ok(height @ 1..=MAX_HEIGHT) => Ok(Height(height)),
        _ => Err("a height is a whole number, at least 1"),
    }
}

/// Greatest possible height; heights are transmitted as signed 64-bit numbers.
const MAX_HEIGHT: u64 = i64::MAX as u64;
