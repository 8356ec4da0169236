//! The command line, and the commands: each with its arguments and its code in one file. Examples and notes below the
//! help of a command are in `src/help/commands/`.
//!
//! Flags that change a setting become [`Override`]s, so they are checked like values of the file.

mod backup;
mod cli;
mod config;
mod devnet;
mod help;
mod import;
mod peers;
mod reindex;
mod service;
mod status;
mod status_of;
mod store;
mod watch;

use std::convert::Infallible;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};
use zeroize::Zeroizing;

use crate::chain::{BlockError, BrokenChain, CheckpointError, ImportError, RollbackError, StoreDifference};
use crate::config::{NemesisError, Override, PeersError};
use crate::devnet::DevnetError;
use crate::model::{Checkpoint, Hash256, Height};
use crate::store::StoreError;
use crate::wallet::NodeError;

pub use self::backup::backup;
pub use self::cli::{Cli, Command, Run};
pub use self::config::{ConfigCommand, check_config, print_settings};
pub use self::devnet::{devnet, print_introduction};
pub use self::help::{print_completions, print_help, write_man_pages};
pub use self::import::{check, import, open_with_nemesis, show, style};
pub use self::peers::peers;
pub use self::reindex::{open_or_rebuild, reindex, rollback};
pub use self::service::{DATA, Service, print_unit, unit};
pub use self::status::status;
pub use self::status_of::status_of;
pub use self::store::{check_block_files, digest, dump, export, open_block_files, open_store};
pub use self::watch::{WatchError, watch};

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
    /// The nemesis block in this file is not that of the network.
    #[error("{path}: {1}; name another file with nem.network.nemesisFilePath or --nemesis", path = .0.display())]
    WrongNemesis(PathBuf, BlockError),
    /// The list of known peers is wrong.
    #[error(transparent)]
    Peers(#[from] PeersError),
    /// A block is invalid.
    #[error(transparent)]
    Block(#[from] BlockError),
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
    /// A watch ended.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// No node answers, and this folder holds no store.
    #[error(
        "{0} There is no store in {folder} either: `nisd run` starts a node; --config, --node or --data name another", folder = .1.display()
    )]
    NoNodeOrStore(NodeError, PathBuf),
    /// The command line or the settings ask for something impossible; the text says what to do.
    #[error("{0}")]
    Usage(String),
    /// A command on the private network failed.
    #[error(transparent)]
    Devnet(#[from] DevnetError),
    /// This file cannot be read or written.
    #[error("{path}: {1}", path = .0.display())]
    File(PathBuf, io::Error),
    /// Standard output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(io::Error),
    /// A pipe was named where a file must be read twice.
    #[error("--trust-below reads the blocks twice, which a pipe does not allow; name a file")]
    InputNotSeekable,
    /// The block at the trusted checkpoint has another hash in the store.
    #[error("--trust-below: the block at height {height} has the hash {1}, not {hash}", height = .0.height, hash = .0.hash)]
    CheckpointMismatch(Checkpoint, Hash256),
    /// An import was stopped by a signal after this height.
    #[error("stopped after height {0}; the same command continues from there")]
    Stopped(Height),
    /// The chain does not have this height.
    #[error("there is no block at height {requested}; the chain is at height {tip}")]
    NoSuchHeight { requested: Height, tip: Height },
}

impl From<StoreDifference> for CommandError {
    fn from(difference: StoreDifference) -> Self {
        CommandError::Difference(difference)
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

/// Flag that is set when the command must stop.
pub type Stop = Arc<AtomicBool>;

/// Writes one line of output.
fn print(line: fmt::Arguments<'_>) -> Result<(), CommandError> {
    writeln!(io::stdout(), "{line}").map_err(CommandError::Output)
}

#[derive(Args, Debug)]
pub(crate) struct Common {
    /// Change a setting; may be given several times. `nisd settings` lists all
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Assignment>,
    /// Log level: off, error, warn, info, debug or trace [default: info]
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
    /// Log format: text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
}

/// The text after `--set`. It may hold a private key, so it is never shown, and it is wiped when dropped.
///
/// The copies of the command line that the system, the standard library and clap keep cannot be wiped. Therefore a
/// private key given here causes a warning.
#[derive(Clone)]
struct Assignment(Zeroizing<String>);

impl FromStr for Assignment {
    type Err = Infallible;

    /// Accepts any text: clap would show the text in an error.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Assignment(Zeroizing::new(text.to_owned())))
    }
}

impl fmt::Debug for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Assignment(not shown)")
    }
}

impl Common {
    /// Returns whether `--set` sets this key.
    fn sets(&self, key: &str) -> bool {
        self.set.iter().any(|Assignment(text)| text.split('=').next().is_some_and(|name| name.trim() == key))
    }

    fn take_overrides(&mut self) -> Result<Vec<Override>, CommandError> {
        let mut overrides = Vec::new();
        for Assignment(text) in std::mem::take(&mut self.set) {
            let Some((key, value)) = text.split_once('=') else {
                return Err(CommandError::Usage(
                    "--set needs KEY=VALUE; one of its values has no = (not shown)".to_owned(),
                ));
            };
            overrides.push(flag_override("--set", key.trim(), value));
        }
        overrides.extend(self.log.as_deref().map(|level| flag_override("--log", "nisd.logLevel", level)));
        let format = self.log_format.as_deref();
        overrides.extend(format.map(|format| flag_override("--log-format", "nisd.logFormat", format)));
        Ok(overrides)
    }
}

fn flag_override(flag: &'static str, key: &str, value: &str) -> Override {
    Override { key: key.to_owned(), value: Zeroizing::new(value.to_owned()), flag }
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
