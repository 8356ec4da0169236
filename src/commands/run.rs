//! Arguments of `nisd run`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::UnknownArgumentValueParser;

use super::{CommandError, Common, flag_override};
use crate::config::Override;

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

impl Run {
    pub(super) fn take_overrides(&mut self) -> Result<Vec<Override>, CommandError> {
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

/// Rejects `--port` and suggests the two flags that exist.
fn reject_port_flag() -> UnknownArgumentValueParser {
    UnknownArgumentValueParser::suggest_arg("--http-port").and_suggest("the other port is --websocket-port")
}
