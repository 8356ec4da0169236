//! Writes the files that go with the program into a package: man pages, completions for shells, the unit of systemd and
//! a configuration file in which every setting but the network is commented out.
//!
//!     cargo run --example package-files -- FOLDER

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_complete::Shell;
use nisd::commands::Cli;
use nisd::commands::help::{Man, write_man_pages};
use nisd::commands::service::{DATA, Service, unit};
use nisd::config::table;

const CONFIG: &str = "/etc/nisd/config-user.properties";

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("the folder is to be named")?);
    fs::create_dir_all(folder.join("completions"))?;
    write_man_pages(&Man { folder: folder.join("man") })?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut Cli::command(), "nisd", folder.join("completions"))?;
    }
    fs::write(
        folder.join("nisd.service"),
        unit(&service(), Path::new("/usr/bin/nisd"), Some(Path::new(DATA)), Path::new(DATA), &[], false, 10_000)?,
    )?;
    fs::write(folder.join("config-user.properties"), table::file())?;
    Ok(())
}

/// The service as the package installs it.
fn service() -> Service {
    Service { config: Some(CONFIG.into()), network: None, data: Some(DATA.into()), user: "nisd".to_owned() }
}
