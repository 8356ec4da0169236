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
use nisd::cli::help::{TOPICS, Topic};
use nisd::commands::service::{Installation, unit};
use nisd::config::table;

const CONFIG: &str = "/etc/nisd/config-user.properties";
const DATA: &str = "/var/lib/nisd";

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("the folder is to be named")?);
    for part in ["man", "completions"] {
        fs::create_dir_all(folder.join(part))?;
    }
    clap_mangen::generate_to(Cli::command(), folder.join("man"))?;
    for topic in TOPICS.iter().filter(|topic| topic.is_page) {
        fs::write(folder.join(format!("man/nisd-{}.7", topic.name)), man_page(topic))?;
    }
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut Cli::command(), "nisd", folder.join("completions"))?;
    }
    fs::write(folder.join("nisd.service"), unit(&installation()))?;
    fs::write(folder.join("config-user.properties"), table::file())?;
    Ok(())
}

/// A topic of `nisd help` as a man page: the text as it is.
fn man_page(topic: &Topic) -> String {
    let escape = |line: &str| match line.replace('\\', "\\e").replace('-', "\\-") {
        line if line.starts_with(['.', '\'']) => format!("\\&{line}"),
        line => line,
    };
    let (name, summary) = (topic.name, topic.summary);
    let text: Vec<String> = topic.text.lines().map(escape).collect();
    format!(
        ".TH NISD\\-{} 7\n.SH NAME\nnisd\\-{name} \\- {summary}\n.SH DESCRIPTION\n.nf\n{}\n.fi\n.SH SEE ALSO\n.BR nisd (1)\n",
        name.to_uppercase(),
        text.join("\n")
    )
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
