//! `nisd help`, `nisd man` and `nisd completions`: help of the program, of a command, or on a topic.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, Command, CommandFactory, Parser};
use clap_complete::Shell;

use super::{Cli, CommandError, folder, in_file, print, usage};
use crate::files;
use crate::node::metrics_documentation;

/// Characters of a name that are compared with those of commands and topics.
const MAX_NAME: usize = 32;
/// Name of the program, whatever its file is called.
const PROGRAM: &str = "nisd";

/// A topic that needs more text than the help of a command.
#[derive(Clone, Copy, Debug)]
struct Topic {
    /// Name on the command line; never the name of a command.
    name: &'static str,
    /// Summary in one line.
    summary: &'static str,
    /// Reads its file in `src/help/`.
    read: fn() -> Cow<'static, str>,
    /// Extension of the file: `md` for pages for people, another for files for other programs.
    extension: &'static str,
}

impl Topic {
    fn text(&self) -> String {
        // The metrics of the node stand below the topic's own text.
        let rest = if self.name == "metrics" { metrics_documentation() } else { String::new() };
        (self.read)().into_owned() + &rest
    }
}

/// Returns a page of `src/help/`. It is part of the program, except in a build for development, which reads the file: an
/// edit of a page compiles nothing.
#[cfg(not(debug_assertions))]
macro_rules! page {
    ($file:expr) => {
        Cow::Borrowed(include_str!(concat!("../help/", $file)))
    };
}
#[cfg(debug_assertions)]
macro_rules! page {
    ($file:expr) => {{
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/help/", $file);
        fs::read_to_string(path).unwrap_or_else(|error| format!("{path} cannot be read: {error}\n")).into()
    }};
}

macro_rules! topic {
    ($name:literal, $extension:literal, $summary:literal) => {
        Topic { name: $name, summary: $summary, read: || page!(concat!($name, ".", $extension)), extension: $extension }
    };
}

/// All topics.
const TOPICS: &[Topic] = &[
    topic!("private-networks", "md", "Your own networks, on one machine or several"),
    topic!("joining", "md", "Mainnet and testnet, the first synchronisation, peers"),
    topic!("operating", "md", "Service, settings, upgrade, backup, moving, proxies, commands on a store"),
    topic!("trouble", "md", "What to do about disk, clock, forks, a node without peers"),
    topic!("limits", "md", "Every limit and its effect"),
    topic!("interface", "md", "HTTP, events, websocket, SockJS"),
    topic!("payments", "md", "Crediting deposits: accept, wait, undo, reconcile"),
    topic!("coming-from-nis1", "md", "Differences, for operators and for client authors"),
    topic!("changes", "md", "What is new in each version, for operators and for client authors"),
    topic!("wallet", "md", "Keys, transactions and notarised files on the command line"),
    topic!("contributing", "md", "Your first change: build, test, where each thing goes"),
    topic!("architecture", "md", "How it is built, tested and measured"),
    topic!("metrics", "md", "The meaning of the metrics of GET /metrics and nisd status"),
    topic!("alerts", "yml", "Alert rules for Prometheus, with advice"),
    topic!("dashboard", "json", "A Grafana dashboard"),
];

/// `nisd help`.
#[derive(Args, Debug)]
pub struct Help {
    /// A command, or a topic of the list below the commands
    #[arg(value_name = "COMMAND or TOPIC")]
    words: Vec<String>,
}

/// Runs `nisd help`.
pub fn print_help(help: &Help) -> Result<(), CommandError> {
    print(&help.text()?)
}

impl Help {
    /// Returns the text to show.
    fn text(&self) -> Result<String, CommandError> {
        if let [word] = self.words.as_slice()
            && let Some(topic) = TOPICS.iter().find(|topic| topic.name == word)
        {
            return Ok(topic.text());
        }
        let line = ["nisd"].into_iter().chain(self.words.iter().map(String::as_str)).chain(["--help"]);
        match Cli::try_parse_from(line) {
            Err(help) if help.kind() == ErrorKind::DisplayHelp => Ok(help.to_string()),
            _ => {
                let (words, cli) = (self.words.join(" "), Cli::command());
                let names = TOPICS.iter().map(|topic| topic.name).chain(cli.get_subcommands().map(Command::get_name));
                let wanted: String = words.to_lowercase().replace(' ', "-").chars().take(MAX_NAME).collect();
                let (distance, name) =
                    names.map(|name| (strsim::levenshtein(&wanted, name), name)).min().unwrap_or_default();
                let meant = if distance <= 2 { format!("; did you mean '{name}'?") } else { ";".to_owned() };
                Err(usage(format!("there is no command or topic '{words}'{meant} `nisd help` lists them")))
            }
        }
    }
}

/// Returns the list of topics, followed by `rest`.
pub(super) fn with_topics(rest: &str) -> String {
    let mut text = "Topics (nisd help TOPIC):\n".to_owned();
    for Topic { name, summary, .. } in TOPICS {
        let _ = writeln!(text, "  {name:<16}  {summary}");
    }
    text + "\n" + rest
}

/// `nisd man`.
#[derive(Args, Debug)]
pub struct Man {
    /// Folder to write to, such as /usr/local/share/man/man1; created if missing
    #[arg(value_name = "DIR", value_parser = folder())]
    pub folder: PathBuf,
}

/// `nisd completions`.
#[derive(Args, Debug)]
pub struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// Runs `nisd man`: creates a folder and writes a man page for each command and each topic of `nisd help`.
pub fn write_man_pages(Man { folder }: &Man) -> Result<(), CommandError> {
    files::create_folder(folder).map_err(CommandError::System)?;
    // A page takes the place of an earlier one, or of whatever has its name, once all are written.
    let pages = tempfile::tempdir_in(folder).map_err(in_file(folder))?;
    clap_mangen::generate_to(Cli::command(), pages.path()).map_err(in_file(folder))?;
    for topic in TOPICS.iter().filter(|topic| topic.extension == "md") {
        let path = pages.path().join(format!("{PROGRAM}-{}.7", topic.name));
        fs::write(&path, man_page(topic)).map_err(in_file(folder))?;
    }
    for page in fs::read_dir(pages.path()).map_err(in_file(folder))? {
        let page = page.map_err(in_file(folder))?;
        let path = folder.join(page.file_name());
        fs::rename(page.path(), &path).map_err(in_file(&path))?;
    }
    Ok(())
}

/// Runs `nisd completions`: writes the completions for a shell to standard output.
pub fn print_completions(command: &Completions) -> Result<(), CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(command.shell, &mut Cli::command(), PROGRAM, &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// Returns a topic of `nisd help` as a man page with preformatted text.
fn man_page(topic: &Topic) -> String {
    let escape = |line: &str| match line.replace('\\', "\\e").replace('-', "\\-") {
        line if line.starts_with(['.', '\'']) => format!("\\&{line}"),
        line => line,
    };
    let (name, summary) = (topic.name, topic.summary);
    let text: Vec<String> = topic.text().lines().map(escape).collect();
    format!(
        ".TH NISD\\-{} 7\n.SH NAME\nnisd\\-{name} \\- {summary}\n.SH DESCRIPTION\n.nf\n{}\n.fi\n.SH SEE ALSO\n.BR nisd (1)\n",
        name.to_uppercase(),
        text.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(words: &str) -> Result<String, CommandError> {
        Help { words: words.split_whitespace().map(str::to_owned).collect() }.text()
    }

    #[test]
    fn help_of_the_program_lists_every_topic() {
        let text = help("").unwrap();
        for topic in TOPICS {
            assert!(text.contains(&format!("  {:<16}  {}\n", topic.name, topic.summary)), "{text}");
            assert_eq!(help(topic.name).unwrap(), topic.text());
            assert!(!topic.text().starts_with(env!("CARGO_MANIFEST_DIR")), "{}", topic.text());
        }
        assert!(text.contains("nisd run --network mainnet"), "{text}");
    }

    #[test]
    fn help_of_a_command_is_what_its_flag_shows() {
        for words in ["run", "devnet", "devnet show", "key new"] {
            let text = help(words).unwrap();
            assert!(text.contains(&format!("Usage: nisd {words} ")) && text.contains("--help"), "{text}");
        }
    }

    #[test]
    fn an_unknown_help_topic_is_a_usage_error() {
        for words in ["nonsense", "devnet nonsense", "metrics more", "settings more"] {
            let error = help(words).unwrap_err();
            assert!(error.to_string().contains(&format!("'{words}'; `nisd help`")), "{error}");
        }
        for (words, meant) in
            [("metric", "metrics"), ("Operating", "operating"), ("private networks", "private-networks")]
        {
            let error = help(words).unwrap_err().to_string();
            assert!(error.contains(&format!("did you mean '{meant}'?")), "{error}");
        }
    }

    #[test]
    fn help_topics_and_commands_have_unique_names() {
        let mut names: Vec<_> = TOPICS.iter().map(|topic| topic.name).collect();
        names.extend(Cli::command().get_subcommands().map(|command| command.get_name().to_owned().leak() as &str));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
