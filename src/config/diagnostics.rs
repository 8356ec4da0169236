//! Errors and warnings about settings, and where a value was set.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Not set; the default applies.
    Default,
    /// A line of the configuration file.
    File {
        /// The file as named on the command line.
        path: Rc<Path>,
        /// The line, from 1.
        line: usize,
    },
    /// A flag of the command line.
    Flag(&'static str),
}

impl Origin {
    /// Returns the base folder of relative paths: that of the file, or `None` for the current folder.
    pub(super) fn folder(&self) -> Option<&Path> {
        match self {
            Origin::File { path, .. } => path.parent(),
            _ => None,
        }
    }

    /// Returns a sort key: lines of the file first, then the command line, then defaults.
    pub(super) fn order(&self) -> (u8, usize) {
        match self {
            Origin::File { line, .. } => (0, *line),
            Origin::Flag(_) => (1, 0),
            Origin::Default => (2, 0),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Flag(flag) => write!(f, "{flag} on the command line"),
        }
    }
}

/// The settings are invalid. `Display` describes everything for a person, on several lines.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// The file is no properties file.
    #[error("cannot parse the configuration file {}: {error}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The syntax error.
        #[source]
        error: Diagnostic,
    },
    /// All wrong values.
    #[error("{}", list(.0))]
    Wrong(Vec<Problem>),
}

/// Describes all problems.
fn list(problems: &[Problem]) -> String {
    let mut text = match problems.len() {
        1 => "a setting is wrong:".to_owned(),
        count => format!("{count} settings are wrong:"),
    };
    for problem in problems {
        text.push_str(&format!("\n\n{problem}"));
    }
    text + "\n\n`nisd settings` describes every setting."
}

/// A wrong, missing or unknown setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key.
    pub key: String,
    /// The value as it may be shown: in quotes, or a remark that it is hidden or not set.
    pub value: String,
    /// Where it was set.
    pub origin: Origin,
    /// A clause that describes the error: "is too small".
    pub why: String,
    /// The allowed values.
    pub allowed: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  {} {}", self.key, self.why)?;
        writeln!(f, "    value:   {}", self.value)?;
        writeln!(f, "    from:    {}", self.origin)?;
        write!(f, "    allowed: {}", self.allowed)
    }
}

/// A message about settings or about a file of them. Never contains a private key. `Display` omits the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error: the node does not start with it. Warning: it has no effect, or hardly the intended one. Information
    /// otherwise.
    pub level: log::Level,
    /// The line of the file, or the number of the entry in a peer list, from 1; 0 for the whole.
    pub line: usize,
    /// The key or the peer; `None` for the whole.
    pub key: Option<String>,
    /// What is the case, why, and what to do instead; may be empty.
    pub text: String,
}

impl Diagnostic {
    pub(super) fn error(line: usize, text: impl Into<String>) -> Diagnostic {
        Diagnostic { level: log::Level::Error, line, key: None, text: text.into() }
    }

    pub(super) fn warn(text: impl Into<String>) -> Diagnostic {
        Diagnostic { level: log::Level::Warn, ..Diagnostic::error(0, text) }
    }

    pub(super) fn info(text: impl Into<String>) -> Diagnostic {
        Diagnostic { level: log::Level::Info, ..Diagnostic::error(0, text) }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.text),
            line => write!(f, "line {line}: {}", self.text),
        }
    }
}

impl std::error::Error for Diagnostic {}

/// Formats a value for an error: in quotes, escaped, and shortened.
pub(super) fn quoted(text: &str) -> String {
    const MAX_SHOWN: usize = 80;
    let mut short: String = text.chars().take(MAX_SHOWN).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("{short:?}")
}

/// Longest unknown key that is shown; a longer one may be a private key that lost its separator.
const MAX_SHOWN_KEY: usize = 60;
/// Consecutive hex digits that may be part of a private key.
const SECRET_DIGITS: usize = 12;

/// Returns a key as it may be shown; hides a text that may be a private key.
pub(super) fn redact_key(name: &str) -> String {
    let length = name.chars().count();
    let is_suspicious = |part: &str| part.len() >= SECRET_DIGITS;
    if length > MAX_SHOWN_KEY || name.split(|c: char| !c.is_ascii_hexdigit()).any(is_suspicious) {
        return format!("a key of {length} characters (not shown)");
    }
    name.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_values_are_escaped_and_short() {
        assert_eq!(quoted("a\n\u{1b}[2J"), r#""a\n\u{1b}[2J""#);
        assert!(quoted(&"ä".repeat(1000)).chars().count() < 100);
    }
}
