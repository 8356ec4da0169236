//! Arguments of the commands for private networks of nisd.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::flag_override;
use crate::config::Override;

/// Text below the help of the command.
pub const EXAMPLES: &str = "\
Examples:
  nisd devnet show
      Shows the accounts of the private network that nisd run has created, and commands to copy.
  nisd devnet export-config --output for-others --host 192.168.1.5 --http-port 7890
      Writes what another node, nisd or NIS1, needs to join it: settings, nemesis block, list of peers.";

/// `nisd devnet`.
#[derive(Subcommand, Debug)]
pub enum DevnetCommand {
    /// Show the accounts of a private network, and commands to copy
    Show(ShowDevnet),
    /// Write what another node, nisd or NIS1, needs to join a private network
    ExportConfig(ExportConfig),
}

/// `nisd devnet show`.
#[derive(Args, Debug)]
pub struct ShowDevnet {
    /// Folder of the private network [default: that of nisd run]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// Port of the node's HTTP interface [default: nem.httpPort of its settings]
    #[arg(long, value_name = "PORT", allow_negative_numbers = true)]
    http_port: Option<String>,
}

/// `nisd devnet export-config`.
#[derive(Args, Debug)]
pub struct ExportConfig {
    /// Folder of the private network [default: that of nisd run]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// Folder to write to
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Host name or address at which other nodes reach this node [default: nem.host of its settings]
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Port at which other nodes reach this node [default: nem.httpPort of its settings]
    #[arg(long, value_name = "PORT", allow_negative_numbers = true)]
    http_port: Option<String>,
}

impl DevnetCommand {
    /// Returns the settings that flags change.
    pub(super) fn overrides(&self) -> Vec<Override> {
        let (DevnetCommand::Show(ShowDevnet { data, http_port })
        | DevnetCommand::ExportConfig(ExportConfig { data, http_port, .. })) = self;
        let flags = [("--data", "nisd.data", data), ("--http-port", "nem.httpPort", http_port)];
        let given = flags.into_iter().filter_map(|(flag, key, value)| Some((flag, key, value.as_deref()?)));
        given.map(|(flag, key, value)| flag_override(flag, key, value)).collect()
    }
}
