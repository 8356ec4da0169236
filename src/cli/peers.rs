//! Arguments of the command that shows what a running node knows of its peers.

use std::path::PathBuf;

use clap::Args;

use super::Common;

/// Text below the help of the command.
pub const NOTE: &str = "\
Examples:
  nisd peers
      Asks the node of this machine on port 7890.
  nisd peers --config ~/nem/nisd/devnet/devnet.properties
      Asks the node that runs on these settings.
  nisd peers --node http://127.0.0.1:8000 --json | jq '.peers[].state'

A node answers callers from its own machine only, and those of nis.additionalLocalIps.

A table on a terminal, without addresses; for other programs lines with tabs between the columns, or JSON.
  STATE   active: it answers; busy: it is slow, or starts; inactive: it is not reached;
          failure: it answers wrongly; untried: it is known from the start and was not asked yet;
          unknown: it is on the list and has not said who it is; dropped: no longer known
  LISTED  whether it is on the operator's list (peers-config_NETWORK.json, --peer)
  SEEN    when it last answered
  TRUST   its share of the trust in all nodes, by which partners are drawn
  GOOD, BAD  blocks and transactions of use that it was the first to bring, and useless ones
  NOTE    why it failed, and when it is asked again";

/// `nisd peers`.
#[derive(Args, Debug)]
pub struct Peers {
    /// Settings of the node to query, which include its address
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Node to query [default: the one of the settings, or http://127.0.0.1:7890]
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    pub node: Option<String>,
    /// Print the node's whole answer as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub(super) common: Common,
}
