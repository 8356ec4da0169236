//! `nisd devnet`: the private network that nisd has created.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{CommandError, flag_override};
use crate::config::{Override, Settings};
use crate::devnet::{Devnet, JoinFiles, introduction};

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

/// `nisd devnet`.
pub fn devnet(command: &DevnetCommand, settings: &Settings, devnet: Option<&Devnet>) -> Result<(), CommandError> {
    match command {
        DevnetCommand::Show(_) => devnet.map_or(Ok(()), |devnet| print_introduction(devnet, settings)),
        DevnetCommand::ExportConfig(export) => {
            let join = JoinFiles::new(settings, export.host.as_deref())?;
            let paths = join.write(&export.output)?;
            log::info!(
                "other nodes will reach this node at {}; --host and --http-port name another endpoint",
                join.url
            );
            // The flags of the running node are not known here.
            let (host, own) = (export.host.as_ref(), &settings.endpoint.host);
            if let Some(host) = host.filter(|host| *host != own) {
                log::info!("NIS1 nodes use the address that the node reports: run it with --set nem.host={host}");
            }
            if settings.http.bind.is_loopback() {
                log::info!("its settings allow only this machine: run it with --bind '*', or set nisd.bindAddress");
            }
            let lines: String = paths.iter().map(|path| format!("{}\n", path.display())).collect();
            io::stdout().write_all(lines.as_bytes()).map_err(CommandError::Output)
        }
    }
}

/// Prints how to use a private network.
pub fn print_introduction(devnet: &Devnet, settings: &Settings) -> Result<(), CommandError> {
    let program = std::env::args().next().unwrap_or_else(|| "nisd".to_owned());
    let text = introduction(devnet, settings, &program);
    io::stdout().write_all(text.as_bytes()).map_err(CommandError::Output)
}
