//! Arguments of the command that shows what a running node knows of its peers.

use std::path::PathBuf;

use clap::Args;

use super::Common;

/// Text below the help of the command.
pub const NOTE: &str = "\
Examples:
  nisd peers
      Queries the node on this machine, on port 7890.
  nisd peers --config ~/nem/nisd/devnet/devnet.properties
      Queries the node that runs with these settings.
  nisd peers --node http://127.0.0.1:8000 --json | jq '.peers[].state'

A node answers only clients on its own machine and those in nis.additionalLocalIps.

Prints a table without addresses on a terminal, tab-separated lines for other programs, or JSON.
  STATE   active: it answers; busy: it is slow, or starts; inactive: it cannot be reached;
          failure: its answers are wrong; untried: an initial peer that was not contacted yet;
          unknown: a listed peer that has not reported its key yet; dropped: no longer known
  LISTED  whether it is on the operator's list (peers-config_NETWORK.json, --peer)
  SEEN    when it last answered
  TRUST   its share of the trust in all peers; sync peers are drawn by it
  GOOD, BAD  useful blocks and transactions that it was the first to send, and useless ones
  NOTE    the reason of its last failure, and the time of the next attempt";

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
