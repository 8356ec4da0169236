//! `nisd help`: help of the program, of a command, or on a topic.

use std::fmt::Write;

use clap::error::ErrorKind;
use clap::{Args, Parser};

use super::{Cli, UsageError};

/// A topic that needs more text than the help of a command.
#[derive(Clone, Copy, Debug)]
pub struct Topic {
    /// Name on the command line; never the name of a command.
    pub name: &'static str,
    /// Summary in one line.
    pub summary: &'static str,
    /// The whole text.
    pub text: &'static str,
    /// Whether the text is a page for people, rather than a file for another program.
    pub is_page: bool,
}

impl Topic {
    const fn page(name: &'static str, summary: &'static str, text: &'static str) -> Topic {
        Topic { name, summary, text, is_page: true }
    }

    const fn file(name: &'static str, summary: &'static str, text: &'static str) -> Topic {
        Topic { name, summary, text, is_page: false }
    }
}

/// All topics. Their texts are in `src/help/`.
pub const TOPICS: &[Topic] = &[
    Topic::page(
        "private-networks",
        "Your own networks, on one machine or several",
        include_str!("../help/private-networks.md"),
    ),
    Topic::page("joining", "Mainnet and testnet, the first synchronisation, peers", include_str!("../help/joining.md")),
    Topic::page(
        "operating",
        "Service, settings, upgrade, backup, moving, proxies, commands on a store",
        include_str!("../help/operating.md"),
    ),
    Topic::page(
        "trouble",
        "What to do about disk, clock, forks, a node without peers",
        include_str!("../help/trouble.md"),
    ),
    Topic::page("limits", "Every limit and its effect", include_str!("../help/limits.md")),
    Topic::page("interface", "HTTP, websocket, SockJS", include_str!("../help/interface.md")),
    Topic::page(
        "coming-from-nis1",
        "Differences, for operators and for client authors",
        include_str!("../help/coming-from-nis1.md"),
    ),
    Topic::page(
        "wallet",
        "Keys, transactions and notarised files on the command line",
        include_str!("../help/wallet.md"),
    ),
    Topic::page("architecture", "How it is built, tested and measured", include_str!("../help/architecture.md")),
    Topic::page(
        "metrics",
        "The meaning of the metrics of GET /metrics and nisd status",
        include_str!("../help/metrics.md"),
    ),
    Topic::file("alerts", "Alert rules for Prometheus, with advice", include_str!("../help/alerts.yml")),
    Topic::file("dashboard", "A Grafana dashboard", include_str!("../help/dashboard.json")),
];

/// `nisd help`.
#[derive(Args, Debug)]
pub struct Help {
    /// A command, or a topic of the list below the commands
    #[arg(value_name = "COMMAND or TOPIC")]
    words: Vec<String>,
}

impl Help {
    /// Returns the text to show.
    pub fn text(&self) -> Result<String, UsageError> {
        if let [word] = self.words.as_slice()
            && let Some(topic) = TOPICS.iter().find(|topic| topic.name == word)
        {
            return Ok(topic.text.to_owned());
        }
        let line = ["nisd"].into_iter().chain(self.words.iter().map(String::as_str)).chain(["--help"]);
        match Cli::try_parse_from(line) {
            Err(help) if help.kind() == ErrorKind::DisplayHelp => Ok(help.to_string()),
            _ => {
                let words = self.words.join(" ");
                Err(UsageError(format!("there is no command or topic '{words}'; `nisd help` lists them")))
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn help(words: &str) -> Result<String, UsageError> {
        Help { words: words.split_whitespace().map(str::to_owned).collect() }.text()
    }

    #[test]
    fn help_of_the_program_lists_every_topic() {
        let text = help("").unwrap();
        for topic in TOPICS {
            assert!(text.contains(&format!("  {:<16}  {}\n", topic.name, topic.summary)), "{text}");
            assert_eq!(help(topic.name).unwrap(), topic.text);
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
            assert!(error.to_string().contains(&format!("'{words}'")), "{error}");
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
