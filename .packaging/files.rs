//! Writes the files that go with the program into a package: man pages, completions for shells, the unit of systemd and
//! a configuration file in which every setting is commented.
//!
//!     cargo run --example package-files -- FOLDER

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_complete::Shell;
use nisd::cli::Cli;
use nisd::commands::manual;
use nisd::commands::service::{DATA, Installation, unit};
use nisd::config::table;

const CONFIG: &str = "/etc/nisd/config-user.properties";

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("the folder is to be named")?);
    fs::create_dir_all(folder.join("completions"))?;
    manual::write_man_pages(&folder.join("man"))?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut Cli::command(), "nisd", folder.join("completions"))?;
    }
    fs::write(folder.join("nisd.service"), unit(&installation()))?;
    fs::write(folder.join("config-user.properties"), table::file())?;
    Ok(())
}

/// The node as the package installs it.
fn installation() -> Installation {
    Installation {
        program: "/usr/bin/nisd".into(),
        arguments: ["--config", CONFIG, "--data", DATA].map(str::to_owned).into(),
        config: Some(CONFIG.into()),
        data: Path::new(DATA).to_owned(),
        user: "nisd".to_owned(),
    }
}
