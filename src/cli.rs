//! The command line.
//!
//! Flags that change a setting become [`Override`]s, so they are checked like values of the file.

mod devnet;
pub mod help;
mod peers;
mod status;
pub mod values;
mod wallet;

use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::builder::{PathBufValueParser, TypedValueParser, UnknownArgumentValueParser};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use zeroize::Zeroizing;

pub use self::devnet::{DevnetCommand, ExportConfig, ShowDevnet};
pub use self::help::Help;
pub use self::peers::Peers;
pub use self::status::Status;
pub use self::wallet::{
    Address, Announce, ApostilleCommand, CreateApostille, Delivery, InspectKey, KeyCommand, NewKey, Send, Sign,
    TRANSACTIONS, VerifyApostille, WalletCommand,
};
use crate::config::Override;
use crate::model::{Checkpoint, Height};

/// Exit code: success.
pub const EXIT_OK: u8 = 0;
/// Exit code: a failure of a store, a block, a port or the like.
pub const EXIT_FAILURE: u8 = 1;
/// Exit code: wrong command line or settings. clap uses the same code.
pub const EXIT_USAGE: u8 = 2;

const EXAMPLES: &str = "\
Examples:
  nisd run                                       start a private network of your own
  nisd run --network mainnet                     join mainnet, or testnet
  nisd run --config config-user.properties       run a node with NIS1's settings
  nisd run --config tiny/config.json --import tiny/blocks.bin --clock 3240 --data store
  nisd import --config tiny/config.json --data store tiny/blocks.bin
  nisd backup --data store copy                  copy the store of a running node
  nisd status                                    show the state of the running node
  nisd peers                                     show the peers it knows
  nisd settings                                  list every setting, its allowed values and its default
  nisd key new --output alice.key                create a key pair for an account
  nisd send --from-key-file alice.key --to TDHLS7… --amount 12.5

Exit codes: 0 success, 1 failure, 2 wrong usage or wrong settings.";

const RUN_EXAMPLES: &str = "\
Examples:
  nisd run
      Starts or continues a private network of your own: a block every 10 s, accounts with a balance.
  nisd run --data mine --fresh-keys --block-time 15
      Starts another one in the folder mine, with keys that nobody else knows.
  nisd run --data mine2 --set 'nis.blockChainFeatures=PROOF_OF_IMPORTANCE|WB_TIME_BASED_VESTING'
      Starts one with the consensus features of mainnet.
  nisd run --network mainnet
      Joins mainnet (or testnet) through NIS1's built-in peers, which also send the nemesis block.
  nisd run --network mainnet --peer node.example.org --data /var/lib/nisd
      Joins it through this peer only, which may name others.
  nisd run --config node.properties --data /var/lib/nisd
      Runs a node with these settings.
  nisd run --config tiny/config.json --data store --import tiny/blocks.bin --clock 3240
      Imports a recorded chain and answers requests at the same time; the clock stands still.
  nisd run --http-port 0 --websocket-port 0 --bind 127.0.0.1
      Listens on ports that the system chooses, for this machine only.
  nisd run --set nem.useDosFilter=false --set nisd.blocksNewBody=object
      Changes any setting. Do not pass private keys: other users can read the command line.

Flags override --set, --set overrides the file, the file overrides defaults.";

const IMPORT_EXAMPLES: &str = "\
Examples:
  nisd import --config tiny/config.json --data store tiny/blocks.bin
  nisd import --config tiny/config.json --data store --stop-at 30 tiny/blocks.bin
  nisd import --config node.properties --data store --trust-below 4000000:9f3c… blocks.bin.gz
      Skips signatures and proofs below a block whose hash you know to be right, to save time.

Every block is verified by all rules of the network.

It can be interrupted at any time: committed blocks stay, and the same command resumes.";

const CHECK_NOTE: &str = "\
Imports the blocks of the store into an empty one by all rules, and compares the results: the data
of every block, and the state at the tip. Prints the height and the digest of the state if they are
equal, otherwise the first difference. It needs less than half of the store's size as free space in
the data folder. A node can run on the store at the same time.";

const BACKUP_NOTE: &str = "\
Copies the last commit, whether a node runs on the store or not; blocks that arrive later are not
part of the copy. Its pages are filled, so it is smaller than the store. Every row is compared, then
height and digest of the state are printed, as by `nisd digest`.

The folder holds the earlier copy, or no store, until the new copy is complete and replaces it in one
step. After an interruption the same command starts again from the beginning. During the copy the
node's store grows by the data that the node writes. A folder with any other content is not changed.
An earlier copy is replaced even if it is of another version or damaged; one of another network is not.

With --keep, interrupted copies are removed first, and the oldest copies when the new one is complete.
A copy with other files beside it, or on which a node runs, is not removed; a warning names it.

To restore a copy, stop the node and put the file data.mdb into an empty data folder; settings and
keys are not part of the store.

Examples:
  nisd backup --data /var/lib/nisd /mnt/backup/nisd
      Replaces the earlier copy, for example every night.
  nisd backup --data /var/lib/nisd --keep 7 /mnt/backup/nisd
      Writes each copy to its own folder, /mnt/backup/nisd/2026-11-24T031500Z, and keeps at most seven.
  nisd check --data /mnt/backup/nisd --no-signatures
      Verifies the data of every block, and that the state follows from the blocks.";

const CONFIG_EXAMPLES: &str = "\
Examples:
  nisd config check config-user.properties peers-config_mainnet.json
  nisd config check nis/*.properties nis/*.json
      Recognises each file by its content. Of several files with settings, later ones override earlier ones,
      as in NIS1.

Private keys are never shown. The exit code is 2 if the node would not start with these files.";

const SERVICE_NOTE: &str = "\
The unit runs this program, from its present path, as `nisd run` with the same flags, and only with the
rights that a node needs. The user must be able to read the settings and to write the folder of the
store. Below /var/lib systemd creates that folder; if neither --data nor the settings name a folder,
the store goes to /var/lib/nisd.

Examples:
  nisd service --network mainnet
  nisd service --config /etc/nisd/config-user.properties --data /var/lib/nisd
  nisd service --network mainnet --data /var/lib/nisd | sudo tee /etc/systemd/system/nisd.service";

const COMPLETIONS_NOTE: &str = "\
Examples:
  nisd completions bash > ~/.local/share/bash-completion/completions/nisd
  nisd completions zsh > ~/.zfunc/_nisd
  nisd completions fish > ~/.config/fish/completions/nisd.fish";

const REINDEX_NOTE: &str = "\
Needs no network and checks no signatures, because the blocks are those of the store. The new store
is built in the folder reindex in the data folder and replaces the old one when it is complete; until
then the old one is not changed. It needs about as much free space as the old store takes, and reports
this first.

It can be interrupted at any time; the next call resumes. If the store was written by an older version,
a start of the node does the same by itself.";

/// A NEM (NIS1) node in one thread.
#[derive(Parser, Debug)]
#[command(name = "nisd", version, after_help = help::with_topics(EXAMPLES), disable_help_subcommand = true)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The command that the program runs.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run the node
    #[command(after_help = RUN_EXAMPLES)]
    Run(Run),
    /// Import recorded blocks into a store, then exit
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(Import),
    /// Print the state at the tip as one line of JSON
    Dump(Store),
    /// Roll back to a lower height, as far as the undo journal reaches
    Rollback(Rollback),
    /// Verify a whole store again, from the nemesis block on
    #[command(after_help = CHECK_NOTE)]
    Check(Check),
    /// Rebuild state and indexes of a store from its own blocks
    #[command(after_help = REINDEX_NOTE)]
    Reindex(Store),
    /// Copy the store, also of a running node, to another folder
    #[command(after_help = BACKUP_NOTE)]
    Backup(Backup),
    /// Print the digest of the state, to compare two nodes
    Digest(Store),
    /// Write blocks in the recorded format
    Export(Export),
    /// Print every setting, its allowed values and its default
    Settings(Settings),
    /// Check a node's configuration files, also those of NIS1
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Write man pages: one for each command and one for each topic of nisd help
    Man(Man),
    /// Print shell completions
    #[command(after_help = COMPLETIONS_NOTE)]
    Completions(Completions),
    /// Print a systemd unit that runs the node
    #[command(after_help = SERVICE_NOTE)]
    Service(Service),
    /// Show what a running node knows of its peers
    #[command(after_help = peers::NOTE)]
    Peers(Peers),
    /// Show the status of a running node, or of its store while no node runs
    #[command(after_help = status::NOTE)]
    Status(Status),
    /// Show a private network, or export what other nodes need to join it
    #[command(subcommand, after_help = devnet::EXAMPLES)]
    Devnet(DevnetCommand),
    /// Work with keys, addresses and transactions
    #[command(flatten)]
    Wallet(WalletCommand),
    /// Print this list, the help of a command, or a topic
    Help(Help),
}

/// `nisd run`.
#[derive(Args, Debug)]
pub struct Run {
    /// Settings: a properties file with NIS1's keys, or the config.json of a recorded chain
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Network to join: mainnet, testnet or mijinnet; needs no files [default: that of the configuration]
    #[arg(long, value_name = "NAME")]
    network: Option<String>,
    /// Folder of the chain store
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// Recorded blocks (.bin or .bin.gz) to import while running; may be given several times
    #[arg(long, value_name = "FILE")]
    pub import: Vec<PathBuf>,
    /// Network time, for tests: N stands still at this second, N+ runs from there
    #[arg(long, value_name = "SECONDS[+]", allow_negative_numbers = true)]
    clock: Option<String>,
    /// Port of the HTTP interface, 0 for any [default: 7890]
    #[arg(long, value_name = "PORT", allow_negative_numbers = true)]
    http_port: Option<String>,
    /// A flag that does not exist; its error names the flags of the two interfaces.
    #[arg(long, hide = true, value_parser = reject_port_flag())]
    port: Option<String>,
    /// Port of the websocket interface, 0 for any [default: 7778]
    #[arg(long, value_name = "PORT", allow_negative_numbers = true)]
    websocket_port: Option<String>,
    /// Address to listen on, * for all, localhost for this machine [default: *; localhost with demo keys]
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<String>,
    /// Seconds between two blocks of a new private network, at least 10 [default: 10]
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["config", "network"], allow_negative_numbers = true)]
    block_time: Option<String>,
    /// Blocks of a new private network that may be rolled back, at least 10 [default: 360, as on other networks]
    #[arg(long, value_name = "BLOCKS", conflicts_with_all = ["config", "network"], allow_negative_numbers = true)]
    rewrite_limit: Option<String>,
    /// Generate new keys for a new private network, instead of the publicly known demo keys
    #[arg(long, conflicts_with_all = ["config", "network"])]
    pub fresh_keys: bool,
    /// Peer to start with; may be given several times. Peers of peers-config_NETWORK.json, beside the configuration
    /// file, are always known; without that file, these replace the built-in peers of mainnet and testnet
    #[arg(long, value_name = "HOST[:PORT]")]
    peer: Vec<String>,
    /// Trusted checkpoint: follow the block hashes of peers up to this block first, and check neither signatures nor
    /// proofs below it
    #[arg(long, value_name = "HEIGHT:HASH")]
    trust_below: Option<String>,
    #[command(flatten)]
    common: Common,
}

/// `nisd import`.
#[derive(Args, Debug)]
pub struct Import {
    /// Settings: a properties file with NIS1's keys, or the config.json of a recorded chain
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Folder of the chain store
    #[arg(long, value_name = "DIR")]
    data: String,
    /// Stop after this height
    #[arg(long, value_name = "HEIGHT", value_parser = height, allow_negative_numbers = true)]
    pub stop_at: Option<Height>,
    /// Trusted checkpoint: check neither signatures nor proofs below this block; fails if its hash differs
    #[arg(long, value_name = "HEIGHT:HASH")]
    pub trust_below: Option<Checkpoint>,
    /// Recorded blocks (.bin or .bin.gz), in the order of their heights
    #[arg(required = true, value_name = "BLOCKS")]
    pub blocks: Vec<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// Arguments of commands on a store: `nisd dump`, `nisd digest`, `nisd reindex`.
#[derive(Args, Debug)]
pub struct Store {
    /// Folder of the chain store
    #[arg(long, value_name = "DIR", value_parser = folder())]
    pub data: PathBuf,
    /// Settings; rarely needed, since the store records its network
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// `nisd check`.
#[derive(Args, Debug)]
pub struct Check {
    /// The store.
    #[command(flatten)]
    pub store: Store,
    /// Trusted checkpoint: check neither signatures nor proofs below this block; fails if its hash differs
    #[arg(long, value_name = "HEIGHT:HASH")]
    pub trust_below: Option<Checkpoint>,
    /// Check neither signatures nor proofs: for a store filled by your own node, which checked them
    #[arg(long, conflicts_with = "trust_below")]
    pub no_signatures: bool,
}

/// `nisd backup`.
#[derive(Args, Debug)]
pub struct Backup {
    /// The store.
    #[command(flatten)]
    pub store: Store,
    /// Folder for the copy: empty, missing, or with an earlier copy, which is replaced
    #[arg(value_name = "DIR", value_parser = folder())]
    pub folder: PathBuf,
    /// Create a folder for this copy in DIR, named by the time; remove interrupted copies, and the oldest ones beyond N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub keep: Option<u16>,
}

/// `nisd config`.
#[derive(Subcommand, Debug)]
pub enum ConfigCommand {
    /// Show line by line which settings are used, which have no effect here, and what to do instead
    #[command(after_help = CONFIG_EXAMPLES)]
    Check(CheckConfig),
}

/// `nisd config check`.
#[derive(Args, Debug)]
pub struct CheckConfig {
    /// config-user.properties, peers-config_NETWORK.json, db.properties or logalpha.properties, as NIS1 has them
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// `nisd settings`.
#[derive(Args, Debug)]
pub struct Settings {
    /// Print a configuration file to start from, in which every setting is commented out
    #[arg(long)]
    pub file: bool,
}

/// `nisd man`.
#[derive(Args, Debug)]
pub struct Man {
    /// Folder to write to, such as /usr/local/share/man/man1; created if missing
    #[arg(value_name = "DIR", value_parser = folder())]
    pub folder: PathBuf,
}

/// `nisd completions`.
#[derive(Args, Debug)]
pub struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// `nisd service`.
#[derive(Args, Debug)]
pub struct Service {
    /// Settings of the node, as for `nisd run`
    #[arg(long, value_name = "FILE", required_unless_present = "network")]
    pub config: Option<PathBuf>,
    /// Network to join, as for `nisd run`
    #[arg(long, value_name = "NAME")]
    pub network: Option<String>,
    /// Folder of the chain store [default: that of the settings, else /var/lib/nisd]
    #[arg(long, value_name = "DIR", value_parser = folder())]
    pub data: Option<PathBuf>,
    /// User that runs the service; `useradd --system nisd` creates it
    #[arg(long, value_name = "USER", default_value = "nisd", value_parser = user)]
    pub user: String,
}

/// Rejects `--port` and suggests the two flags that exist.
fn reject_port_flag() -> UnknownArgumentValueParser {
    UnknownArgumentValueParser::suggest_arg("--http-port").and_suggest("the other port is --websocket-port")
}

/// Parses the path of a folder and removes `.` components: the system cannot create a folder named `store/.`.
fn folder() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().map(|path| path.components().collect::<PathBuf>())
}

/// Parses a user name that systemd accepts: 1 to 31 letters, digits, `_` and `-`, not starting with `-`.
fn user(text: &str) -> Result<String, String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    match !text.is_empty() && text.len() <= 31 && text.bytes().all(is_name) && !text.starts_with('-') {
        true => Ok(text.to_owned()),
        false => Err("a user name has 1 to 31 letters, digits, _ and -".to_owned()),
    }
}

/// `nisd rollback`.
#[derive(Args, Debug)]
pub struct Rollback {
    /// The store.
    #[command(flatten)]
    pub store: Store,
    /// Height to roll back to
    #[arg(long, value_name = "HEIGHT", value_parser = height, allow_negative_numbers = true)]
    pub to: Height,
}

/// `nisd export`.
#[derive(Args, Debug)]
pub struct Export {
    /// The store.
    #[command(flatten)]
    pub store: Store,
    /// First height; the recorded format starts with 2, after the nemesis block
    #[arg(long, value_name = "HEIGHT", value_parser = height, allow_negative_numbers = true, default_value = "2")]
    pub from: Height,
    /// Last height [default: the tip]
    #[arg(long, value_name = "HEIGHT", value_parser = height, allow_negative_numbers = true)]
    pub to: Option<Height>,
    /// File to write; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
}

#[derive(Args, Debug)]
struct Common {
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

/// A command line that clap accepts but that makes no sense. The exit code is [`EXIT_USAGE`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(String);

impl Command {
    /// Returns the configuration file, if one is named.
    pub fn config(&self) -> Option<&Path> {
        match self {
            Command::Run(run) => run.config.as_deref(),
            Command::Import(import) => Some(&import.config),
            Command::Dump(store) | Command::Digest(store) | Command::Reindex(store) => store.config.as_deref(),
            Command::Check(check) => check.store.config.as_deref(),
            Command::Rollback(rollback) => rollback.store.config.as_deref(),
            Command::Backup(backup) => backup.store.config.as_deref(),
            Command::Export(export) => export.store.config.as_deref(),
            Command::Peers(peers) => peers.config.as_deref(),
            Command::Service(service) => service.config.as_deref(),
            Command::Status(status) => status.config.as_deref(),
            Command::Settings(_)
            | Command::Config(_)
            | Command::Devnet(_)
            | Command::Wallet(_)
            | Command::Man(_)
            | Command::Completions(_)
            | Command::Help(_) => None,
        }
    }

    /// Returns the settings that flags change; later ones win. Values of `--set` are moved out, so that a private key
    /// among them does not stay in memory while the program runs.
    pub fn take_overrides(&mut self) -> Result<Vec<Override>, UsageError> {
        match self {
            Command::Run(run) => run.take_overrides(),
            Command::Import(import) => import.take_overrides(),
            Command::Dump(store) | Command::Digest(store) | Command::Reindex(store) => store.take_overrides(),
            Command::Check(check) => check.store.take_overrides(),
            Command::Backup(backup) => backup.store.take_overrides(),
            Command::Rollback(rollback) => rollback.store.take_overrides(),
            Command::Export(export) => export.take_overrides(),
            Command::Peers(peers) => peers.common.take_overrides(),
            Command::Status(status) => status.take_overrides(),
            Command::Devnet(command) => Ok(command.overrides()),
            Command::Service(service) => Ok(service.overrides()),
            Command::Settings(_)
            | Command::Config(_)
            | Command::Wallet(_)
            | Command::Man(_)
            | Command::Completions(_)
            | Command::Help(_) => Ok(Vec::new()),
        }
    }
}

impl Run {
    fn take_overrides(&mut self) -> Result<Vec<Override>, UsageError> {
        let mut overrides = self.common.take_overrides()?;
        let flags = [
            ("--network", "nem.network", &self.network),
            ("--data", "nisd.data", &self.data),
            ("--clock", "nisd.clock", &self.clock),
            ("--http-port", "nem.httpPort", &self.http_port),
            ("--websocket-port", "nem.websocketPort", &self.websocket_port),
            ("--bind", "nisd.bindAddress", &self.bind),
            ("--trust-below", "nisd.trustBelow", &self.trust_below),
            ("--block-time", "nis.blockGenerationTargetTime", &self.block_time),
            ("--rewrite-limit", "nis.blockChainRewriteLimit", &self.rewrite_limit),
        ];
        for (flag, key, value) in flags {
            overrides.extend(value.as_deref().map(|value| flag_override(flag, key, value)));
        }
        let peers = self.peer.join("|");
        overrides.extend((!peers.is_empty()).then(|| flag_override("--peer", "nisd.peers", &peers)));
        Ok(overrides)
    }

    /// Returns whether nisd creates or continues its own private network, because no other network is configured. Must
    /// be called before the overrides are taken.
    pub fn is_devnet(&self) -> bool {
        self.config.is_none() && self.network.is_none() && !self.common.sets("nem.network")
    }
}

impl Import {
    fn take_overrides(&mut self) -> Result<Vec<Override>, UsageError> {
        let mut overrides = self.common.take_overrides()?;
        overrides.push(flag_override("--data", "nisd.data", &self.data));
        Ok(overrides)
    }
}

impl Store {
    fn take_overrides(&mut self) -> Result<Vec<Override>, UsageError> {
        let mut overrides = self.common.take_overrides()?;
        overrides.push(flag_override("--data", "nisd.data", &self.data.to_string_lossy()));
        Ok(overrides)
    }
}

impl Export {
    fn take_overrides(&mut self) -> Result<Vec<Override>, UsageError> {
        match self.to {
            Some(to) if to < self.from => {
                Err(UsageError(format!("--to {to} is below --from {}: there is nothing to write", self.from)))
            }
            _ => self.store.take_overrides(),
        }
    }
}

impl Service {
    fn overrides(&self) -> Vec<Override> {
        let data = self.data.as_ref().map(|data| data.to_string_lossy().into_owned());
        let network = self.network.iter().map(|name| flag_override("--network", "nem.network", name));
        network.chain(data.iter().map(|data| flag_override("--data", "nisd.data", data))).collect()
    }

    /// Returns the flags for `nisd run`; includes `--data` if `data` is given. Paths are absolute.
    pub fn arguments(&self, data: Option<&Path>) -> Vec<String> {
        let text =
            |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned();
        let flags = [
            ("--config", self.config.as_deref().map(text)),
            ("--network", self.network.clone()),
            ("--data", data.map(text)),
        ];
        flags.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value?])).flatten().collect()
    }
}

impl Common {
    /// Returns whether `--set` sets this key.
    fn sets(&self, key: &str) -> bool {
        self.set.iter().any(|Assignment(text)| text.split('=').next().is_some_and(|name| name.trim() == key))
    }

    fn take_overrides(&mut self) -> Result<Vec<Override>, UsageError> {
        let mut overrides = Vec::new();
        for Assignment(text) in std::mem::take(&mut self.set) {
            let Some((key, value)) = text.split_once('=') else {
                return Err(UsageError("--set needs KEY=VALUE; one of its values has no = (not shown)".to_owned()));
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

fn height(text: &str) -> Result<Height, &'static str> {
    match text.parse() {
        Ok(height @ 1..=MAX_HEIGHT) => Ok(Height(height)),
        _ => Err("a height is a whole number, at least 1"),
    }
}

/// Greatest possible height; heights are transmitted as signed 64-bit numbers.
const MAX_HEIGHT: u64 = i64::MAX as u64;

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    use super::*;
    use crate::config::table;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    fn pairs(line: &str) -> Vec<(String, String, &'static str)> {
        let overrides = parse(line).unwrap().command.take_overrides().unwrap();
        overrides.into_iter().map(|o| (o.key, o.value.to_string(), o.flag)).collect()
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
        let cli = parse(line).unwrap();
        assert_eq!(cli.command.config(), Some(Path::new("a.properties")));
        let Command::Run(run) = cli.command else { panic!("not run") };
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
    fn devnet_creates_a_private_network_unless_another_is_configured() {
        let is_devnet = |line: &str| match parse(line).unwrap().command {
            Command::Run(run) => run.is_devnet(),
            other => panic!("{other:?}"),
        };
        assert!(is_devnet("nisd run") && is_devnet("nisd run --data d --set nem.httpPort=1 --fresh-keys"));
        assert!(!is_devnet("nisd run --config c") && !is_devnet("nisd run --set nem.network=mainnet"));
        assert!(!is_devnet("nisd run --network mainnet"));
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
            assert_eq!(error.exit_code(), i32::from(EXIT_USAGE), "{line}");
        }
    }

    #[test]
    fn commands_on_a_store_need_no_settings() {
        for line in ["dump", "digest", "check", "reindex", "rollback --to 7", "export"]
            .map(|command| format!("nisd {command} --data d"))
        {
            let line = line.as_str();
            assert_eq!(parse(line).unwrap().command.config(), None, "{line}");
            assert_eq!(pairs(line), [("nisd.data".to_owned(), "d".to_owned(), "--data")], "{line}");
        }
        let export = parse("nisd export --data d --config c --from 5 --to 9 -o out.bin").unwrap();
        assert_eq!(export.command.config(), Some(Path::new("c")));
        let Command::Export(export) = export.command else { panic!("not export") };
        assert_eq!((export.from, export.to), (Height(5), Some(Height(9))));
        assert!(parse("nisd rollback --data d").is_err() && parse("nisd dump").is_err());
    }

    #[test]
    fn the_peers_command_queries_the_configured_or_the_named_node() {
        assert_eq!(parse("nisd peers").unwrap().command.config(), None);
        let cli = parse("nisd peers --config c --json --set nem.httpPort=1").unwrap();
        let Command::Peers(peers) = &cli.command else { panic!("not peers") };
        assert_eq!((cli.command.config(), peers.json, &peers.node), (Some(Path::new("c")), true, &None));
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
    fn an_export_that_ends_before_it_begins_is_rejected() {
        let mut cli = parse("nisd export --data d --from 5 --to 4").unwrap();
        assert!(cli.command.take_overrides().unwrap_err().to_string().contains("--to 4"));
    }

    #[test]
    fn a_private_key_on_the_command_line_is_never_shown() {
        let mut cli = parse("nisd run --set nis.bootKey:c0ffee").unwrap();
        let error = cli.command.take_overrides().unwrap_err().to_string();
        assert!(error.contains("--set") && !error.contains("c0ffee"), "{error}");
        let mut cli = parse("nisd run --set nis.bootKey=c0ffee").unwrap();
        assert!(!format!("{cli:?} {:?}", cli.command.take_overrides()).contains("c0ffee"));
        assert_eq!(cli.command.take_overrides(), Ok(Vec::new()), "it was moved out");
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
        assert_eq!(parse("nisd").unwrap_err().exit_code(), i32::from(EXIT_USAGE));
    }
}
