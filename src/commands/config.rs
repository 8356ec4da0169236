//! `nisd settings`, and `nisd config check`, which shows what this node does with the files of NIS1.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use log::Level;

use super::import::try_start;
use super::{CommandError, in_file, notes, print, shell_word, usage};
use crate::clock::System;
use crate::config::Settings;
use crate::config::check::{self, File, FileKind, FileReport};
use crate::config::properties::MAX_FILE_BYTES;
use crate::config::table;
use crate::files;

/// Width of the table of settings, in characters.
const TABLE_WIDTH: usize = 100;

/// `nisd config`.
#[derive(Subcommand, Debug)]
pub enum ConfigCommand {
    /// Show line by line which settings are used, which have no effect here, and what to do instead
    #[command(after_help = notes!("config"))]
    Check {
        /// config-user.properties and peers-config_NETWORK.json, as NIS1 has them
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

/// `nisd settings`.
#[derive(Args, Debug)]
pub struct PrintSettings {
    /// Print a configuration file to start from, in which every setting but the network is commented out
    #[arg(long)]
    pub file: bool,
}

/// Runs `nisd settings`.
pub fn print_settings(command: &PrintSettings) -> Result<(), CommandError> {
    print(&if command.file { table::file() } else { table::print(TABLE_WIDTH) })
}

/// Runs `nisd config check`. Fails if the node would not start with these files.
pub fn check(command: &ConfigCommand, home: Option<&Path>, system: System) -> Result<(), CommandError> {
    let ConfigCommand::Check { files } = command;
    let mut contents = Vec::new();
    for path in files {
        let (content, mode) = files::read_with_mode(path, MAX_FILE_BYTES).map_err(in_file(path))?;
        contents.push(File { path: path.clone(), content, mode });
    }
    let check_start = |settings: &Settings| try_start(settings, system).map_err(|error| error.to_string());
    let checked = check::check(&contents, home, &check_start);
    let text: String = checked.iter().map(FileReport::to_string).collect::<Vec<_>>().join("\n");
    let count = |level| checked.iter().flat_map(|file| &file.findings).filter(|one| one.level == level).count();
    let [taken, without, wrong] = [Level::Info, Level::Warn, Level::Error].map(count);
    let warnings: usize = checked.iter().map(|file| file.warnings.len()).sum();
    let summary = format!("\n{taken} used, {without} without effect, {wrong} wrong, {warnings} warnings\n");
    print(&(text + &summary))?;
    if wrong > 0 {
        return Err(usage(
            "the node does not start with the lines marked WRONG; `nisd settings` describes every setting",
        ));
    }
    match checked.iter().find(|file| file.kind == FileKind::Settings) {
        Some(settings) => print(&format!("nisd run --config {}\n", shell_word(settings.path.display()))),
        None => Ok(()),
    }
}
