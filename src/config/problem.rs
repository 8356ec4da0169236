//! Errors and warnings about settings.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::layers::Origin;

/// The settings are invalid. `Display` describes everything for a person, on several lines.
#[derive(Debug)]
pub enum ConfigError {
    /// The file cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The file is neither properties nor the `config.json` of a recorded chain.
    Syntax {
        /// The file.
        path: PathBuf,
        /// The syntax error.
        error: Diagnostic,
    },
    /// All wrong values.
    Wrong(Vec<Problem>),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Unreadable { path, error } => {
                write!(f, "cannot read the configuration file {}: {error}", path.display())
            }
            ConfigError::Syntax { path, error } => {
                write!(f, "cannot parse the configuration file {}: {error}", path.display())
            }
            ConfigError::Wrong(problems) => {
                match problems.len() {
                    1 => f.write_str("a setting is wrong:")?,
                    count => write!(f, "{count} settings are wrong:")?,
                }
                for problem in problems {
                    write!(f, "\n\n{problem}")?;
                }
                f.write_str("\n\n`nisd settings` describes every setting.")
            }
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ConfigError::Unreadable { error, .. } => Some(error),
            ConfigError::Syntax { error, .. } => Some(error),
            ConfigError::Wrong(_) => None,
        }
    }
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
    /// The line of the file, or the number among the accepted entries of a peer list, from 1; 0 for the whole.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_values_are_escaped_and_short() {
        assert_eq!(quoted("a\n\u{1b}[2J"), r#""a\n\u{1b}[2J""#);
        assert!(quoted(&"ä".repeat(1000)).chars().count() < 100);
    }
}
