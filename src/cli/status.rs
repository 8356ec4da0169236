//! Arguments of the command that shows the status of a node.

use std::path::PathBuf;

use clap::Args;

use super::{Common, flag_override};
use crate::config::Override;

/// Text below the help of the command.
pub const NOTE: &str = "\
Examples:
  nisd status
      Shows the node on this machine, on port 7890; on a terminal refreshed every second until q or Ctrl-C.
  nisd status --config node.properties
      Shows the node that runs with these settings, or its store while none runs.
  nisd status --data ~/nem/nisd/devnet
      Shows a store, or the node on port 7890 while one runs on that store.
  nisd status --json | jq .figures.nisd_height

A node answers only clients on its own machine and those in nis.additionalLocalIps.
`nisd help metrics` explains each metric.";

/// `nisd status`.
#[derive(Args, Debug)]
pub struct Status {
    /// Settings of the node to query, which include its address and the folder of its store
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Node to query [default: the one of the settings, or http://127.0.0.1:7890]
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "data"])]
    pub node: Option<String>,
    /// Folder of the chain store to show while no node runs on it
    #[arg(long, value_name = "DIR")]
    pub data: Option<String>,
    /// Print all metrics as JSON
    #[arg(long)]
    pub json: bool,
    /// Print once and exit, also on a terminal
    #[arg(long)]
    pub once: bool,
    #[command(flatten)]
    common: Common,
}

impl Status {
    pub(super) fn take_overrides(&mut self) -> Result<Vec<Override>, super::UsageError> {
        let mut overrides = self.common.take_overrides()?;
        overrides.extend(self.data.as_deref().map(|data| flag_override("--data", "nisd.data", data)));
        Ok(overrides)
    }
}
