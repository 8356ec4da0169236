//! The command line: all commands, and the arguments of `nisd run`.

use std::path::PathBuf;

use clap::builder::UnknownArgumentValueParser;
use clap::{Args, Parser, Subcommand};

use super::backup::Backup;
use super::config::{ConfigCommand, PrintSettings};
use super::devnet::DevnetCommand;
use super::help::{self, Completions, Help, Man};
use super::import::{Check, Import};
use super::peers::Peers;
use super::reindex::Rollback;
use super::service::Service;
use super::status::Status;
use super::status_of::StatusOf;
use super::store::{Export, StoreArguments};
use super::watch::Watch;
use super::{CommandError, Common, flag_override};
use crate::config::Override;
use crate::wallet::{WalletCommand, notes};

/// A NEM (NIS1) node in one thread.
#[derive(Parser, Debug)]
#[command(name = "nisd", version, after_help = help::with_topics(notes!("nisd")), disable_help_subcommand = true)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The command that the program runs.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run the node
    #[command(after_help = notes!("run"))]
    Run(Run),
    /// Import recorded blocks into a store, then exit
    #[command(after_help = notes!("import"))]
    Import(Import),
    /// Print the state at the tip as one line of JSON
    Dump(StoreArguments),
    /// Roll back to a lower height, as far as the undo journal reaches
    Rollback(Rollback),
    /// Verify a whole store again, from the nemesis block on
    #[command(after_help = notes!("check"))]
    Check(Check),
    /// Rebuild state and indexes of a store from its own blocks
    #[command(after_help = notes!("reindex"))]
    Reindex(StoreArguments),
    /// Copy the store, also of a running node, to another folder
    #[command(after_help = notes!("backup"))]
    Backup(Backup),
    /// Print the digest of the state, to compare two nodes of the same version
    Digest(StoreArguments),
    /// Write blocks in the recorded format
    Export(Export),
    /// Print every setting, its allowed values and its default
    Settings(PrintSettings),
    /// Check a node's configuration files, also those of NIS1
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Write man pages: one for each command and one for each topic of nisd help
    Man(Man),
    /// Print shell completions
    #[command(after_help = notes!("completions"))]
    Completions(Completions),
    /// Print a systemd unit that runs the node
    #[command(after_help = notes!("service"))]
    Service(Service),
    /// Show what a running node knows of its peers
    #[command(after_help = notes!("peers"))]
    Peers(Peers),
    /// Show the status of a running node, or of its store while no node runs
    #[command(after_help = notes!("status"))]
    Status(Status),
    /// Ask a node what became of a transaction
    #[command(after_help = notes!("status-of"))]
    StatusOf(StatusOf),
    /// Follow payments to accounts, and run a command for each
    #[command(after_help = notes!("watch"))]
    Watch(Watch),
    /// Show a private network, or export what other nodes need to join it
    #[command(subcommand, after_help = notes!("devnet"))]
    Devnet(DevnetCommand),
    /// Work with keys, addresses and transactions
    #[command(flatten)]
    Wallet(WalletCommand),
    /// Print this list, the help of a command, or a topic
    Help(Help),
}

impl Command {
    /// Returns the configuration file, if one is named, and the settings that flags change; later ones win. Values of
    /// `--set` are moved out, so that a private key among them does not stay in memory while the program runs.
    pub fn take_settings(&mut self) -> Result<(Option<PathBuf>, Vec<Override>), CommandError> {
        Ok(match self {
            Command::Run(run) => (run.config.clone(), run.take_overrides()?),
            Command::Import(import) => (Some(import.config.clone()), import.take_overrides()?),
            Command::Export(export) => (export.store.config.clone(), export.take_overrides()?),
            Command::Dump(store)
            | Command::Digest(store)
            | Command::Reindex(store)
            | Command::Check(Check { store, .. })
            | Command::Backup(Backup { store, .. })
            | Command::Rollback(Rollback { store, .. }) => (store.config.clone(), store.take_overrides()?),
            Command::Peers(peers) => (peers.config.clone(), peers.take_overrides()?),
            Command::Status(status) => (status.config.clone(), status.take_overrides()?),
            Command::Service(service) => (service.config.clone(), service.overrides()),
            Command::Devnet(command) => (None, command.overrides()),
            _ => (None, Vec::new()),
        })
    }
}

/// `nisd run`.
#[derive(Args, Debug)]
pub struct Run {
    /// Settings: a properties file with NIS1's keys
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Network to join: mainnet, testnet or mijinnet; needs no files [default: that of the configuration]
    #[arg(long, value_name = "NAME")]
    network: Option<String>,
    /// File with the nemesis block of a private network, as `nisd devnet export-config` writes it
    #[arg(long, value_name = "FILE")]
    nemesis: Option<String>,
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

impl Run {
    fn take_overrides(&mut self) -> Result<Vec<Override>, CommandError> {
        let mut overrides = self.common.take_overrides()?;
        let flags = [
            ("--network", "nem.network", &self.network),
            ("--nemesis", "nem.network.nemesisFilePath", &self.nemesis),
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

/// Rejects `--port` and suggests the two flags that exist.
fn reject_port_flag() -> UnknownArgumentValueParser {
    UnknownArgumentValueParser::suggest_arg("--http-port").and_suggest("the other port is --websocket-port")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use clap::error::ErrorKind;
    use std::path::Path;

    use super::*;
    use crate::config::table;
    use crate::model::Height;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    fn pairs(line: &str) -> Vec<(String, String, &'static str)> {
        let (_, overrides) = parse(line).unwrap().command.take_settings().unwrap();
        overrides.into_iter().map(|o| (o.key, o.value.to_string(), o.flag)).collect()
    }

    fn config(line: &str) -> Option<PathBuf> {
        parse(line).unwrap().command.take_settings().unwrap().0
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
    fn an_export_that_ends_before_it_begins_is_rejected() {
        let mut cli = parse("nisd export --data d --from 5 --to 4").unwrap();
        assert!(cli.command.take_settings().unwrap_err().to_string().contains("--to 4"));
    }

    #[test]
    fn a_private_key_on_the_command_line_is_never_shown() {
        let mut cli = parse("nisd run --set nis.bootKey:c0ffee").unwrap();
        let error = cli.command.take_settings().unwrap_err().to_string();
        assert!(error.contains("--set") && !error.contains("c0ffee"), "{error}");
        let mut cli = parse("nisd run --set nis.bootKey=c0ffee").unwrap();
        assert!(!format!("{cli:?} {:?}", cli.command.take_settings()).contains("c0ffee"));
        assert_eq!(cli.command.take_settings().unwrap().1, [], "it was moved out");
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
