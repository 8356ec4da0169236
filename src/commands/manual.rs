//! `nisd man` and `nisd completions`.

use std::fs;
use std::io;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use super::CommandError;
use crate::cli::Cli;
use crate::cli::help::{TOPICS, Topic};

/// Name of the program, whatever its file is called.
const PROGRAM: &str = "nisd";

/// Runs `nisd man`: creates a folder and writes a man page for each command and each topic of `nisd help`.
pub fn write_man_pages(folder: &Path) -> Result<(), CommandError> {
    let failed = |error| CommandError::File(folder.to_owned(), error);
    fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), folder).map_err(failed)?;
    for topic in TOPICS.iter().filter(|topic| topic.is_page) {
        fs::write(folder.join(format!("{PROGRAM}-{}.7", topic.name)), man_page(topic)).map_err(failed)?;
    }
    Ok(())
}

/// Runs `nisd completions`: writes the completions for a shell to standard output.
pub fn print_completions(shell: Shell) -> Result<(), CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), PROGRAM, &mut script);
    io::Write::write_all(&mut io::stdout(), &script).map_err(CommandError::Output)
}

/// Returns a topic of `nisd help` as a man page with preformatted text.
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
