//! Values of settings, where each was set, and how they are read; errors and warnings about them.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use zeroize::Zeroizing;

use super::kind::{Kind, Source};
use super::table::{self, DefaultValue};
use crate::crypto::keys::USUAL_KEY_DIGITS;
use crate::files;
use crate::model::NetworkByte;

/// Origin of a value. `Display` describes it for a person.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
pub enum Origin {
    /// Not set; the default applies.
    #[display("default")]
    Default,
    /// A line of the configuration file.
    #[display("{}:{line}", path.display())]
    File {
        /// The file as named on the command line.
        path: Rc<Path>,
        /// The line, from 1.
        line: usize,
    },
    /// A flag of the command line.
    #[display("{_0} on the command line")]
    Flag(&'static str),
}

impl Origin {
    /// Returns a sort key: lines of the file first, then the command line, then defaults.
    pub(super) fn order(&self) -> (u8, usize) {
        match self {
            Origin::File { line, .. } => (0, *line),
            Origin::Flag(_) => (1, 0),
            Origin::Default => (2, 0),
        }
    }
}

/// The settings are invalid. `Display` describes everything for a person, on several lines.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// This file cannot be read.
    #[error("cannot read the configuration file {}", files::describe_at(.0, .1))]
    Unreadable(PathBuf, io::Error),
    /// This file is no properties file, or sets nothing that is known.
    #[error("cannot use the configuration file {path}: {1}", path = .0.display())]
    Syntax(PathBuf, Diagnostic),
    /// All wrong values.
    #[error("{}", list(.0))]
    Wrong(Vec<Problem>),
}

/// Describes all problems.
fn list(problems: &[Problem]) -> String {
    let count = match problems.len() {
        1 => "a setting is wrong".to_owned(),
        count => format!("{count} settings are wrong"),
    };
    let problems: String = problems.iter().map(|problem| format!("{problem}\n\n")).collect();
    format!("{count}:\n\n{problems}`nisd settings` describes every setting.")
}

/// A wrong, missing or unknown setting. `Display` describes it for a person, on several lines.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[display("  {key} {why}\n    value:   {value}\n    from:    {origin}\n    allowed: {allowed}")]
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
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.text),
            line => write!(f, "line {line}: {}", self.text),
        }
    }
}

/// Formats a value for an error: in quotes, escaped, and shortened.
pub(super) fn quoted(text: &str) -> String {
    const MAX_SHOWN: usize = 80;
    let mut short: String = text.chars().take(MAX_SHOWN).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("{short:?}")
}

/// Formats a value like [`quoted`]; hides a text that may be a private key in the wrong place.
pub(super) fn redact_value(text: &str) -> String {
    let is_key = |part: &str| part.len() >= USUAL_KEY_DIGITS;
    if text.split(|c: char| !c.is_ascii_hexdigit()).any(is_key) {
        return format!("a text of {} characters (not shown: it may be a private key)", text.chars().count());
    }
    quoted(text)
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

/// A value that is set, and where.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
pub struct Override {
    /// The key.
    pub key: String,
    /// The value; wiped when dropped, since it may be a secret.
    #[debug("(not shown)")]
    pub value: Zeroizing<String>,
    /// Where it is set.
    pub origin: Origin,
}

/// All values that were set; later ones override earlier ones of the same key.
#[derive(Default)]
pub(super) struct Layers {
    /// The configuration file, if there is one.
    pub file: Option<PathBuf>,
    pub values: BTreeMap<String, Override>,
    /// Keys set twice in files: the key, the overridden origin, the effective one.
    pub repeated: Vec<(String, Origin, Origin)>,
}

impl Layers {
    /// Adds values of a file or of the command line, which override earlier values.
    pub fn add(&mut self, values: Vec<Override>) {
        for value in values {
            let (key, origin) = (value.key.clone(), value.origin.clone());
            if let Some(Override { origin: hidden @ Origin::File { .. }, .. }) = self.values.insert(key.clone(), value)
                && matches!(origin, Origin::File { .. })
            {
                self.repeated.push((key, hidden, origin));
            }
        }
    }

    /// Returns the value of a key, if it was set.
    pub fn get(&self, key: &str) -> Option<&Override> {
        self.values.get(key)
    }
}

/// Reads values of settings and collects all problems.
///
/// A wrong value is recorded as a problem and treated as not set, so that one pass finds all problems.
pub(super) struct Reader<'a> {
    pub layers: &'a Layers,
    /// The user's home folder, if known.
    pub home: Option<&'a Path>,
    /// The network of addresses, once it is known.
    pub network: Option<NetworkByte>,
    pub problems: Vec<Problem>,
}

impl Reader<'_> {
    /// Returns whether a problem with a setting was recorded.
    pub fn is_wrong(&self, name: &str) -> bool {
        self.problems.iter().any(|problem| problem.key == name)
    }

    /// Returns the value of a setting, else its default, else `None`.
    pub fn read<T: Clone>(&mut self, name: &str, kind: &Kind<T>) -> Option<T> {
        let (home, network) = (self.home, self.network);
        let parse = |text, folder| kind.parse(&Source { text, folder, home, network });
        if let Some(Override { value, origin, .. }) = self.layers.get(name) {
            let folder = if let Origin::File { path, .. } = origin { path.parent() } else { None };
            match parse(value, folder) {
                Ok(value) => return Some(value),
                Err(why) => self.wrong(name, why),
            }
        }
        match table::find(name)?.default {
            DefaultValue::Value(text) => parse(text, None).ok(),
            DefaultValue::Derived(_) => None,
        }
    }

    /// Records a value that is not of the setting's kind, or a missing value.
    pub fn wrong(&mut self, name: &str, why: impl Into<String>) {
        let allowed = table::find(name).map(|key| key.allowed.to_string()).unwrap_or_default();
        self.problem(name, why, allowed);
    }

    /// Records a problem that the setting's kind alone does not reveal, or with a key that is no setting.
    pub fn problem(&mut self, name: &str, why: impl Into<String>, allowed: impl Into<String>) {
        let key = table::find(name);
        let set = self.layers.get(name);
        let value = match (set, key.map(|key| key.default)) {
            (Some(_), _) if key.is_none_or(|key| key.is_secret) => "(not shown)".to_owned(),
            (Some(set), _) => redact_value(&set.value),
            (None, Some(DefaultValue::Value(text))) => quoted(text),
            (None, _) => "(not set)".to_owned(),
        };
        let origin = set.map_or(Origin::Default, |set| set.origin.clone());
        self.problems.push(Problem { key: redact_key(name), value, origin, why: why.into(), allowed: allowed.into() });
    }
}

#[cfg(test)]
mod diagnostics_tests {
    use super::*;

    #[test]
    fn shown_values_are_escaped_and_short() {
        assert_eq!(quoted("a\n\u{1b}[2J"), r#""a\n\u{1b}[2J""#);
        assert!(quoted(&"ä".repeat(1000)).chars().count() < 100);
    }

    #[test]
    fn a_wrong_value_that_may_be_a_private_key_is_not_shown() {
        for text in ["ab".repeat(29), format!("NALICE|{}", "12".repeat(32)), format!("x={}", "F".repeat(66))] {
            let shown = redact_value(&text);
            assert!(shown.contains(&format!("{} characters", text.len())) && !shown.contains(&text[10..]), "{shown}");
        }
        assert_eq!(redact_value(&"a".repeat(57)), quoted(&"a".repeat(57)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_layers_override_earlier_ones_and_duplicates_in_a_file_are_reported() {
        let mut layers = Layers::default();
        let read =
            |text: &str| super::super::properties::parse_lines(Path::new("dir/a.properties"), text.as_bytes()).unwrap();
        layers.add(read("a = 1\nc = 1\na = 2"));
        let flag =
            |key: &str| Override { key: key.into(), value: "3".to_owned().into(), origin: Origin::Flag("--set") };
        layers.add(vec![flag("c")]);
        let shown = |key| layers.get(key).map(|set| format!("{} {}", set.value.as_str(), set.origin)).unwrap();
        assert_eq!(shown("a"), "2 dir/a.properties:3");
        assert_eq!(shown("c"), "3 --set on the command line");
        assert_eq!(layers.repeated.len(), 1);
        let Origin::File { path, .. } = &layers.get("a").unwrap().origin else { panic!("a file") };
        assert_eq!(path.parent(), Some(Path::new("dir")));
    }
}
