//! The command line, and the commands: each with its arguments and its code in one file. Examples and notes below the
//! help of a command are in `src/help/commands/`.
//!
//! A new command is its file, its module and variant of [`Command`] here, and its arm in `main.rs`.
//!
//! Results go to standard output; descriptions of what a command will do, and warnings, go to standard error. No command
//! takes a private key as an argument, where other users can read it.

pub mod apostille;
pub mod backup;
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
pub mod store;
pub mod watch;

use std::convert::Infallible;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::builder::{PathBufValueParser, TypedValueParser, UnknownArgumentValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use rustix::event::PollFlags;
use rustix::fs::FileType;
use rustix::io::Errno;
use zeroize::Zeroizing;

use crate::chain::{BrokenChain, CheckpointError, ImportError, RollbackError};
use crate::clock::System;
use crate::codec::text::NotText;
use crate::config::{ConfigError, NemesisError, Origin, Override, Settings};
use crate::files;
use crate::logging::{SAFE_BYTES, eprint_line, wait_until_ready};
use crate::model::{Height, is_invisible};
use crate::store::{Options, StoreError, lock_holder};
use crate::wallet::{NodeClient, NodeError};

/// Returns the examples and notes below the help of a command.
macro_rules! notes {
    ($command:literal) => {
        include_str!(concat!("../help/commands/", $command, ".txt")).trim_ascii_end()
    };
}
pub(crate) use notes;

/// A NEM (NIS1) node in one thread.
#[derive(Parser, Debug)]
#[command(name = "nisd", version, after_help = help::with_topics(notes!("nisd")), disable_help_subcommand = true)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The command that the program runs. `main.rs` has an arm for each.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run the node
    #[command(after_help = notes!("run"))]
    Run(Run),
    /// Import recorded blocks into a store, then exit
    #[command(after_help = notes!("import"))]
    Import(import::Import),
    /// Print the state at the tip as one line of JSON
    Dump(store::StoreArguments),
    /// Roll back to a lower height, as far as the undo journal reaches
    Rollback(reindex::Rollback),
    /// Verify a whole store again, from the nemesis block on
    #[command(after_help = notes!("check"))]
    Check(import::Check),
    /// Rebuild state and indexes of a store from its own blocks
    #[command(after_help = notes!("reindex"))]
    Reindex(store::StoreArguments),
    /// Copy the store, also of a running node, to another folder
    #[command(after_help = notes!("backup"))]
    Backup(backup::Backup),
    /// Print the digest of the state, to compare two nodes of the same version
    Digest(store::StoreArguments),
    /// Write blocks in the recorded format
    Export(store::Export),
    /// Print every setting, its allowed values and its default
    Settings(config::PrintSettings),
    /// Check a node's configuration files, also those of NIS1
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Write man pages: one for each command and one for each topic of nisd help
    Man(help::Man),
    /// Print shell completions
    #[command(after_help = notes!("completions"))]
    Completions(help::Completions),
    /// Print a systemd unit that runs the node
    #[command(after_help = notes!("service"))]
    Service(service::Service),
    /// Show what a running node knows of its peers
    #[command(after_help = notes!("peers"))]
    Peers(peers::Peers),
    /// Show the status of a running node, or of its store while no node runs
    #[command(after_help = notes!("status"))]
    Status(status::Status),
    /// Ask a node what became of a transaction
    #[command(after_help = notes!("status-of"))]
    StatusOf(send::StatusOf),
    /// Follow payments to accounts, and run a command for each
    #[command(after_help = notes!("watch"))]
    Watch(watch::Watch),
    /// Show a private network, or export what other nodes need to join it
    #[command(subcommand, after_help = notes!("devnet"))]
    Devnet(devnet::DevnetCommand),
    /// Create a key pair, or inspect a key file
    #[command(subcommand, after_help = notes!("key"))]
    Key(keys::KeyCommand),
    /// Show or check addresses
    #[command(after_help = notes!("address"))]
    Address(keys::ShowAddress),
    /// Send XEM, mosaics and a message
    #[command(after_help = notes!("send"))]
    Send(send::Send),
    /// Notarise files, and verify notarised files
    #[command(subcommand, after_help = notes!("apostille"))]
    Apostille(apostille::ApostilleCommand),
    /// Sign a transaction of any kind
    #[command(after_help = send::with_transactions(notes!("sign")))]
    Sign(send::Sign),
    /// Announce a signed transaction to a node
    #[command(after_help = send::with_transactions(notes!("announce")))]
    Announce(send::Announce),
    /// Print this list, the help of a command, or a topic
    Help(help::Help),
}

/// Flags that change a setting, in whichever command they are. Later ones win over earlier ones, and all over `--set`.
const SETTING_FLAGS: [(&str, &str); 13] = [
    ("--log", "nisd.logLevel"),
    ("--log-format", "nisd.logFormat"),
    ("--network", "nem.network"),
    ("--nemesis", "nem.network.nemesisFilePath"),
    ("--data", "nisd.data"),
    ("--clock", "nisd.clock"),
    ("--http-port", "nem.httpPort"),
    ("--websocket-port", "nem.websocketPort"),
    ("--bind", "nisd.bindAddress"),
    ("--trust-below", "nisd.trustBelow"),
    ("--block-time", "nis.blockGenerationTargetTime"),
    ("--rewrite-limit", "nis.blockChainRewriteLimit"),
    ("--peer", "nisd.peers"),
];

/// The parsed command line.
#[derive(Debug)]
pub struct CommandLine {
    /// The command with its arguments.
    pub command: Command,
    /// The configuration file, if one is named.
    pub config: Option<PathBuf>,
    /// The settings that flags change. They may hold private keys, which `command` does not.
    pub overrides: Vec<Override>,
    /// The data folder that `--data` names: literally, while in the setting `nisd.data` some characters have a meaning.
    pub data: Option<PathBuf>,
}

impl CommandLine {
    /// Parses a command line that starts with the name of the program. `version` is the long form of `--version`.
    pub fn parse<I>(arguments: I, version: &'static str) -> Result<CommandLine, clap::Error>
    where
        I: IntoIterator<Item: Into<OsString> + Clone>,
    {
        // This flag does not exist, and completions do not have it; its error names the flags of the two interfaces.
        let names = UnknownArgumentValueParser::suggest_arg("--http-port");
        let port = Arg::new("port").long("port").hide(true);
        let port = port.value_parser(names.and_suggest("the other port is --websocket-port"));
        let cli = Cli::command().mut_subcommand("run", |run| run.arg(port));
        let matches = cli.long_version(version).try_get_matches_from(arguments)?;
        let command = Cli::from_arg_matches(&matches)?.command;
        let matches = innermost(&matches);
        let config = matches.try_get_one::<PathBuf>("config").ok().flatten().cloned();
        let data = matches.try_get_raw("data").ok().flatten().and_then(Iterator::last);
        let data = data.map(|folder| plain_folder(Path::new(folder)));
        Ok(CommandLine { command, config, overrides: overrides(matches)?, data })
    }

    /// Returns whether a flag changes this setting.
    pub fn sets(&self, key: &str) -> bool {
        self.overrides.iter().any(|one| one.key == key)
    }
}

/// Returns the arguments of the command itself.
fn innermost(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand().map_or(matches, |(_, inner)| innermost(inner))
}

/// Returns the settings that flags change. An error does not show the text of a `--set`: it may be a private key.
fn overrides(matches: &ArgMatches) -> Result<Vec<Override>, clap::Error> {
    let given = |id: &str| {
        let values = matches.try_get_raw(id).ok().flatten().into_iter().flatten();
        values.map(|value| Zeroizing::new(value.to_string_lossy().into_owned())).collect::<Vec<_>>()
    };
    let mut overrides = Vec::new();
    for text in given("set") {
        let Some((key, value)) = text.split_once('=') else {
            let text = "--set needs KEY=VALUE; one of its values has no = (not shown)";
            return Err(Cli::command().error(ErrorKind::ValueValidation, text));
        };
        let (key, value) = (key.trim().to_owned(), value.to_owned().into());
        overrides.push(Override { key, value, origin: Origin::Flag("--set") });
    }
    for (flag, key) in SETTING_FLAGS {
        let values = given(&flag.trim_start_matches('-').replace('-', "_"));
        let values: Vec<&str> = values.iter().map(|value| value.as_str()).collect();
        if !values.is_empty() {
            let (value, origin) = (values.join("|").into(), Origin::Flag(flag));
            overrides.push(Override { key: key.to_owned(), value, origin });
        }
    }
    Ok(overrides)
}

/// Flags of every command with settings, which [`CommandLine`] reads.
#[derive(Args, Debug)]
pub struct Common {
    /// Change a setting; may be given several times. `nisd settings` lists all
    // The text is not kept here, since it may hold a private key. The copies of the command line that the system and the
    // standard library keep cannot be wiped, so a private key given here causes a warning.
    #[arg(long, value_name = "KEY=VALUE", value_parser = |_: &str| Ok::<(), Infallible>(()))]
    pub set: Vec<()>,
    /// Log level: off, error, warn, info, debug or trace [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub log: Option<String>,
    /// Log format: text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<String>,
}

/// `nisd run`.
#[derive(Args, Debug)]
pub struct Run {
    /// Settings: a properties file with NIS1's keys
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Network to join: mainnet, testnet or mijinnet; needs no files [default: that of the configuration]
    #[arg(long, value_name = "NAME")]
    pub network: Option<String>,
    /// File with the nemesis block of a private network, as `nisd devnet export-config` writes it
    #[arg(long, value_name = "FILE")]
    pub nemesis: Option<String>,
    /// Folder of the chain store
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// File of recorded blocks (.bin or .bin.gz) to import while running; may be given several times
    #[arg(long, value_name = "FILE")]
    pub import: Vec<PathBuf>,
    /// Network time, for tests: N stands still at this second, N+ runs from there
    #[arg(long, value_name = "SECONDS[+]", allow_negative_numbers = true)]
    pub clock: Option<String>,
    /// Port of the HTTP interface, 0 for any [default: 7890]
    #[arg(long, value_name = "PORT", allow_negative_numbers = true)]
    pub http_port: Option<String>,
    /// Port of the websocket interface, 0 for any [default: 7778]
    #[arg(long, value_name = "PORT", allow_negative_numbers = true)]
    pub websocket_port: Option<String>,
    /// Address to listen on, * for all, localhost for this machine [default: *; localhost with demo keys]
    #[arg(long, value_name = "ADDRESS")]
    pub bind: Option<String>,
    /// Seconds between two blocks of a new private network, at least 10 [default: 10]
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["config", "network"], allow_negative_numbers = true)]
    pub block_time: Option<String>,
    /// Blocks of a new private network that may be rolled back, at least 10 [default: 360, as on other networks]
    #[arg(long, value_name = "BLOCKS", conflicts_with_all = ["config", "network"], allow_negative_numbers = true)]
    pub rewrite_limit: Option<String>,
    /// Generate new keys for a new private network, instead of the publicly known demo keys
    #[arg(long, conflicts_with_all = ["config", "network"])]
    pub fresh_keys: bool,
    /// Peer to start with; may be given several times. Peers of peers-config_NETWORK.json, beside the configuration
    /// file, are always known; without that file, these replace the built-in peers of mainnet and testnet
    #[arg(long, value_name = "HOST[:PORT]")]
    pub peer: Vec<String>,
    /// Trusted checkpoint: follow the block hashes of peers up to this block first, and check neither signatures nor
    /// proofs below it
    #[arg(long, value_name = "HEIGHT:HASH")]
    pub trust_below: Option<String>,
    #[command(flatten)]
    pub common: Common,
}

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
    /// The blocks of the store do not form a chain.
    #[error("{0}; restore the folder from a backup, or import the chain into an empty folder")]
    Broken(#[from] BrokenChain),
    /// A running node did not answer a request as expected.
    #[error(transparent)]
    Node(#[from] NodeError),
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
    /// The port of a setting cannot be opened.
    #[error("cannot listen on {address} ({setting}): {}", listening_text(setting, error))]
    Listen { setting: &'static str, address: SocketAddr, error: io::Error },
    /// The system denies something; the error may have the path of a file.
    #[error("{}", files::describe(.0))]
    System(io::Error),
    /// The chain does not have this height.
    #[error("there is no block at height {requested}; the chain is at height {tip}")]
    NoSuchHeight { requested: Height, tip: Height },
}

/// Describes why the port of a setting cannot be opened.
fn listening_text(setting: &str, error: &io::Error) -> String {
    let flag = SETTING_FLAGS.iter().find(|(_, key)| *key == setting).map(|(flag, _)| *flag);
    let (port, address) = (flag.unwrap_or(setting), if flag.is_some() { "--bind" } else { setting });
    let advice = match error.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "ports below 1024 are for root, or for a program with the capability CAP_NET_BIND_SERVICE. `nisd service` \
             writes a unit that has it; another unit needs AmbientCapabilities=CAP_NET_BIND_SERVICE, the same in \
             CapabilityBoundingSet=, and PrivateUsers=no. Or choose another with {port}, and let a proxy listen on that port"
        ),
        io::ErrorKind::AddrNotAvailable => {
            format!("this machine does not have the address; choose one that it has with {address}")
        }
        io::ErrorKind::AddrInUse => format!("is another node running? Choose another port with {port}"),
        _ => return files::describe(error),
    };
    format!("{error}; {advice}")
}

/// Describes why the store in a folder cannot be opened.
fn cannot_open(path: &Path, error: &StoreError) -> String {
    let (word, folder) = (shell_word(path.display()), path.display());
    match error {
        StoreError::Folder(..) => error.to_string(),
        StoreError::Schema { .. } => format!(
            "{folder}: {error}, or transfer the chain: `nisd export --data {word} --output blocks.bin` with that \
             version, then `nisd import --config SETTINGS --data NEW-FOLDER blocks.bin` with this one"
        ),
        StoreError::InUse => {
            let holder = lock_holder(path).map(|process| format!("; it is the process {process}"));
            format!("{folder}: {error}{}", holder.unwrap_or_default())
        }
        _ => format!("{folder}: {error}"),
    }
}

/// Exit code: wrong command line, settings or files that the settings name. clap uses the same code.
const EXIT_USAGE: u8 = 2;

impl CommandError {
    /// Returns the exit code of the program.
    pub fn exit_code(&self) -> u8 {
        match self {
            CommandError::Exit(code) => *code,
            CommandError::Usage(_)
            | CommandError::Settings(_)
            | CommandError::Nemesis(_)
            | CommandError::Store(StoreError::OtherNetwork { .. })
            | CommandError::Open(_, StoreError::OtherNetwork { .. }) => EXIT_USAGE,
            _ => 1,
        }
    }

    /// Returns the error of a failed write to standard output. A reader that closes early, such as `head`, is no failure.
    fn output(error: io::Error) -> CommandError {
        match error.kind() {
            io::ErrorKind::BrokenPipe => CommandError::Exit(0),
            _ => failed(format!("cannot write the output: {}", files::describe(&error))),
        }
    }
}

/// Returns a word of a command to copy: in quotes if a shell would split or change it.
pub fn shell_word(word: impl fmt::Display) -> String {
    let text = word.to_string();
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-+,:@%=".contains(&b) || !b.is_ascii();
    if !text.is_empty() && text.bytes().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

fn usage(text: impl Into<String>) -> CommandError {
    CommandError::Usage(text.into())
}

fn failed(text: impl Into<String>) -> CommandError {
    CommandError::Failed(text.into())
}

/// Returns the error of reading or writing a file.
fn in_file(path: &Path) -> impl Fn(io::Error) -> CommandError {
    move |error| CommandError::System(files::named(path)(error))
}

/// Returns the error of a file that is no text.
fn not_text(path: &Path) -> impl FnOnce(NotText) -> CommandError {
    move |error| usage(format!("{}: {error}", path.display()))
}

/// Returns the error of opening a store in a folder.
fn in_store(folder: &Path) -> impl FnOnce(StoreError) -> CommandError {
    move |error| CommandError::Open(folder.to_owned(), error)
}

/// Returns how stores are opened.
fn store_options(settings: &Settings) -> Options {
    Options { map_size: settings.node.map_size }
}

/// Flag that is set when the command must stop.
pub type Stop = Arc<AtomicBool>;
/// Makes the signals that end a command set a flag instead.
pub type StopOnSignals = fn() -> Result<Stop, CommandError>;

/// Time of one wait for a stream.
const STREAM_WAIT: Duration = Duration::from_secs(60);

/// Standard output. It waits until its reader accepts something, also where the parent has made it non-blocking.
struct StandardOutput;

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        when_ready(&io::stdout(), PollFlags::OUT, || io::stdout().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        when_ready(&io::stdout(), PollFlags::OUT, || io::stdout().flush())
    }
}

/// Returns the result of an operation on a stream, which is repeated whenever the stream is ready until it need not wait.
fn when_ready<T>(stream: &impl AsFd, events: PollFlags, mut operation: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match operation() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait_until_ready(stream, events, STREAM_WAIT)?;
            }
            result => return result,
        }
    }
}

/// Writes to standard output.
fn print(text: &str) -> Result<(), CommandError> {
    StandardOutput.write_all(text.as_bytes()).and_then(|()| StandardOutput.flush()).map_err(CommandError::output)
}

/// Writes to standard output what is accepted there within a moment: a node does not wait for its reader.
pub fn print_unless_blocked(text: &str) {
    const MOMENT: Duration = Duration::from_millis(100);
    for piece in text.as_bytes().chunks(SAFE_BYTES) {
        let is_ready = matches!(wait_until_ready(&io::stdout(), PollFlags::OUT, MOMENT), Ok(Some(true)));
        if !is_ready || io::stdout().write_all(piece).and_then(|()| io::stdout().flush()).is_err() {
            return;
        }
    }
}

/// Writes JSON with texts of a node to standard output. Control characters that JSON allows in a text could disturb the
/// terminal: they are escaped, which is the same text.
fn print_json(json: &str) -> Result<(), CommandError> {
    print(&(escape_controls(json.trim_end()) + "\n"))
}

fn escape_controls(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if is_invisible(c) && !c.is_ascii_whitespace() {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| escaped.push_str(&format!("\\u{unit:04x}")));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Prints what a command line without a command asks for, such as the help, or why it is wrong.
pub fn end_parsing(error: &clap::Error) -> Result<(), CommandError> {
    let text = error.render().to_string();
    if error.use_stderr() {
        eprint_line(text.trim_end());
        return Err(CommandError::Exit(EXIT_USAGE));
    }
    print(&text)
}

/// Waits until the file to which standard output leads, if it is one, is on its disk: only then a full disk, a quota or a
/// network file system shows whether there was room.
pub fn finish_output() -> Result<(), CommandError> {
    let is_file = |stat: rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let output = io::stdout();
    if !rustix::fs::fstat(&output).is_ok_and(is_file) {
        return Ok(());
    }
    match rustix::fs::fsync(&output) {
        Ok(()) | Err(Errno::INVAL | Errno::NOTSUP | Errno::ROFS) => Ok(()),
        Err(error) => Err(CommandError::output(error.into())),
    }
}

/// Returns a hint for a flag whose value begins with a `~` that the shell has left as it is. Settings are checked elsewhere.
pub fn tilde_hint(arguments: impl IntoIterator<Item = OsString>) -> Option<String> {
    let is_setting = |flag: &str| flag == "--set" || SETTING_FLAGS.iter().any(|(name, _)| *name == flag);
    let flag = arguments.into_iter().find_map(|argument| {
        let (flag, value) = argument.to_str()?.split_once('=')?;
        let is_meant = flag.starts_with("--") && (value == "~" || value.starts_with("~/")) && !is_setting(flag);
        is_meant.then(|| flag.to_owned())
    })?;
    Some(format!(
        "the shell replaces ~ only at the beginning of a word: write `{flag} ~/…` for a file in the home folder"
    ))
}

/// Writes a note for the user to standard error.
pub fn print_note(text: &str) {
    eprint_line(&format!("note: {text}"));
}

/// URL of the node that is used by default.
const DEFAULT_NODE: &str = "http://127.0.0.1:7890";

/// Returns the node at a URL of the command line; `data` is its data folder, if that is known.
fn node(url: &str, data: Option<&Path>) -> Result<NodeClient, CommandError> {
    NodeClient::at(url, data).map_err(|reason| usage(format!("--node {url:?}: {reason}")))
}

/// Returns the flag that names a node in a command to copy, after a blank; nothing for the default node.
fn node_flag(url: &str) -> String {
    if url == DEFAULT_NODE { String::new() } else { format!(" --node {}", shell_word(url)) }
}

/// Returns random bytes.
pub fn random_bytes<const N: usize>(system: System) -> Result<Zeroizing<[u8; N]>, CommandError> {
    let mut bytes = Zeroizing::new([0; N]);
    let filled = (system.random)(bytes.as_mut_slice());
    filled.map_err(|error| failed(format!("the system provides no random numbers: {error}")))?;
    Ok(bytes)
}

/// Parses the path of a folder.
fn folder() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().map(|path| plain_folder(&path))
}

/// Removes `.` components from a path: the system cannot create a folder named `store/.`.
fn plain_folder(path: &Path) -> PathBuf {
    path.components().collect()
}

fn height(text: &str) -> Result<Height, &'static str> {
    // Heights are transmitted as signed 64-bit numbers.
    let height = text.parse().ok().filter(|height: &i64| *height >= 1);
    height.map(|height| Height(height.unsigned_abs())).ok_or("a height is a whole number, at least 1")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::table;
    use crate::model::Height;

    fn parse(line: &str) -> Result<CommandLine, clap::Error> {
        CommandLine::parse(line.split_whitespace(), "")
    }

    fn pairs(line: &str) -> Vec<(String, String, &'static str)> {
        let pair = |set: Override| match set.origin {
            Origin::Flag(flag) => (set.key, set.value.to_string(), flag),
            other => panic!("{other}"),
        };
        parse(line).unwrap().overrides.into_iter().map(pair).collect()
    }

    fn config(line: &str) -> Option<PathBuf> {
        parse(line).unwrap().config
    }

    #[test]
    fn no_control_character_is_printed_as_a_part_of_json() {
        let json = "{\"a\": \"\u{7f}\u{9b}31m\u{e9}\",\n\t\"b\": \"\\u001b\"}";
        let escaped = escape_controls(json);
        assert!(escaped.chars().all(|c| !c.is_control() || c.is_ascii_whitespace()), "{escaped:?}");
        let read = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap();
        assert_eq!(read(&escaped), read(json));
    }

    #[test]
    fn a_path_in_a_command_to_copy_is_one_word_of_a_shell() {
        for (path, word) in [
            ("/var/lib/nisd", "/var/lib/nisd"),
            ("a b.properties", "'a b.properties'"),
            ("ace's/$HOME", "'ace'\\''s/$HOME'"),
            ("~/x", "'~/x'"),
            ("http://[::1]:7890/api", "'http://[::1]:7890/api'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(path), word);
        }
    }

    #[test]
    fn the_command_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn run_accepts_all_its_flags() {
        let line = "nisd run --config a.properties --data d --import x.bin --import y.bin.gz --clock 3240+ --http-port 1 \
                    --websocket-port 2 --bind ::1 --set nis.bootName=a=b --log debug --network testnet --peer a.b \
                    --peer [::1]:7891 --trust-below 7:ab";
        assert_eq!(config(line), Some("a.properties".into()));
        let Command::Run(run) = parse(line).unwrap().command else { panic!("not run") };
        assert_eq!(run.import, [Path::new("x.bin"), Path::new("y.bin.gz")]);
        let expected = [
            ("nis.bootName", "a=b", "--set"),
            ("nisd.logLevel", "debug", "--log"),
            ("nem.network", "testnet", "--network"),
            ("nisd.data", "d", "--data"),
            ("nisd.clock", "3240+", "--clock"),
            ("nem.httpPort", "1", "--http-port"),
            ("nem.websocketPort", "2", "--websocket-port"),
            ("nisd.bindAddress", "::1", "--bind"),
            ("nisd.trustBelow", "7:ab", "--trust-below"),
            ("nisd.peers", "a.b|[::1]:7891", "--peer"),
        ];
        assert_eq!(pairs(line), expected.map(|(k, v, f)| (k.to_owned(), v.to_owned(), f)));
        assert!(pairs("nisd run").is_empty());
    }

    #[test]
    fn every_flag_names_a_setting_that_exists() {
        let line = "nisd run --data d --clock 1 --http-port 1 --websocket-port 2 --bind * --log off --peer a \
                    --trust-below 7:ab";
        for (key, _, flag) in [" --network mainnet", " --block-time 10 --rewrite-limit 20"]
            .iter()
            .flat_map(|more| pairs(&format!("{line}{more}")))
        {
            assert!(table::find(&key).is_some(), "{flag} {key}");
        }
    }

    #[test]
    fn flags_of_a_private_network_exclude_another_one() {
        for line in ["nisd run --set nem.network=mainnet", "nisd run --network mainnet"] {
            assert!(parse(line).unwrap().sets("nem.network"), "{line}");
        }
        for line in [
            "nisd run --config c --fresh-keys",
            "nisd run --config c --block-time 10",
            "nisd run --network testnet --fresh-keys",
            "nisd run --network testnet --block-time 10",
            "nisd run --network testnet --rewrite-limit 10",
        ] {
            assert_eq!(parse(line).unwrap_err().kind(), ErrorKind::ArgumentConflict, "{line}");
        }
        let line = "nisd devnet export-config --data d --output o --host h";
        assert_eq!(pairs(line), [("nisd.data".to_owned(), "d".to_owned(), "--data")]);
        assert!(pairs("nisd devnet show").is_empty());
        assert_eq!(pairs("nisd devnet show --http-port 1")[0].0, "nem.httpPort");
    }

    #[test]
    fn import_needs_settings_a_store_and_blocks() {
        let cli = parse("nisd import --config c.json --data d --stop-at 30 a.bin b.bin.gz").unwrap();
        let Command::Import(import) = &cli.command else { panic!("not import") };
        assert_eq!((import.stop_at, import.blocks.len()), (Some(Height(30)), 2));
        for line in [
            "nisd import --config c.json --data d",
            "nisd import --config c.json a.bin",
            "nisd import --data d a.bin",
            "nisd import --config c.json --data d --stop-at 0 a.bin",
            "nisd import --config c.json --data d --stop-at 9223372036854775808 a.bin",
        ] {
            let error = parse(line).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn commands_on_a_store_need_no_settings() {
        for line in ["dump", "digest", "check", "reindex", "rollback --to 7", "export"]
            .map(|command| format!("nisd {command} --data d"))
        {
            let line = line.as_str();
            assert_eq!(config(line), None, "{line}");
            assert_eq!(pairs(line), [("nisd.data".to_owned(), "d".to_owned(), "--data")], "{line}");
        }
        let line = "nisd export --data d --config c --from 5 --to 9 -o out.bin";
        assert_eq!(config(line), Some("c".into()));
        let Command::Export(export) = parse(line).unwrap().command else { panic!("not export") };
        assert_eq!((export.from, export.to), (Height(5), Some(Height(9))));
        assert!(parse("nisd rollback --data d").is_err() && parse("nisd dump").is_err());
    }

    #[test]
    fn the_peers_command_queries_the_configured_or_the_named_node() {
        assert_eq!(config("nisd peers"), None);
        let line = "nisd peers --config c --json --set nem.httpPort=1";
        let Command::Peers(peers) = parse(line).unwrap().command else { panic!("not peers") };
        assert_eq!((config(line), peers.json, &peers.node), (Some("c".into()), true, &None));
        assert_eq!(pairs("nisd peers --set nem.httpPort=1")[0].0, "nem.httpPort");
        assert_eq!(parse("nisd peers --config c --node n").unwrap_err().kind(), ErrorKind::ArgumentConflict);
    }

    #[test]
    fn a_negative_number_is_rejected_as_out_of_range() {
        for line in ["nisd rollback --data d --to -5", "nisd import --config c --data d --stop-at -1 b"] {
            let error = parse(line).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ValueValidation, "{line}");
            assert!(error.to_string().contains("at least 1"), "{error}");
        }
        let amount = parse("nisd send --from-key-file k --to T --amount -0.5").unwrap_err().to_string();
        assert!(amount.contains("'-0.5'") && amount.contains("cannot be negative"), "{amount}");
        assert_eq!(pairs("nisd run --http-port -1")[0], ("nem.httpPort".to_owned(), "-1".to_owned(), "--http-port"));
    }

    #[test]
    fn a_private_key_on_the_command_line_is_never_shown() {
        let error = parse("nisd run --set nis.bootKey:c0ffee").unwrap_err();
        assert_eq!(error.exit_code(), 2);
        let text = error.to_string();
        assert!(text.contains("--set") && !text.contains("c0ffee"), "{text}");
        let line = parse("nisd run --set nis.bootKey=c0ffee").unwrap();
        assert!(!format!("{line:?}").contains("c0ffee"));
    }

    #[test]
    fn help_shows_examples_and_exit_codes() {
        for (line, expected) in [
            ("nisd --help", ["nisd run --config", "Exit codes: 0"]),
            ("nisd run --help", ["--clock 3240", "other users can read the command line"]),
            ("nisd import -h", ["--stop-at", "can be interrupted at any time"]),
        ] {
            let help = parse(line).unwrap_err();
            assert_eq!(help.kind(), ErrorKind::DisplayHelp, "{line}");
            for text in expected {
                assert!(help.to_string().contains(text), "{line}: {text}");
            }
        }
        assert_eq!(parse("nisd").unwrap_err().exit_code(), 2);
    }
}
