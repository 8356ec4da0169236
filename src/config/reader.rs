//! Reads settings by name and kind, and collects all problems.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::key::{DefaultValue, Key, Kind};
use super::layers::{Layers, Origin};
use super::problem::{Problem, quoted};
use super::table;
use super::values::{self, Parsed};

/// Reads values from layers.
///
/// Every method takes a name of the [`table`] and returns the value, else the default, else `None` or an empty value. A
/// wrong value is recorded as a problem and treated as not set, so that one pass finds all problems.
pub(super) struct Reader<'a> {
    layers: &'a Layers,
    home: Option<&'a Path>,
    pub problems: Vec<Problem>,
    /// Names that were read, so that the remaining ones can be checked at the end.
    pub read_names: BTreeSet<&'static str>,
}

impl<'a> Reader<'a> {
    pub fn new(layers: &'a Layers, home: Option<&'a Path>) -> Reader<'a> {
        Reader { layers, home, problems: Vec::new(), read_names: BTreeSet::new() }
    }

    /// Returns whether a setting is set, even to a wrong value.
    pub fn is_set(&self, name: &str) -> bool {
        self.layers.get(name).is_some()
    }

    /// Returns whether a problem with a setting was recorded.
    pub fn is_wrong(&self, name: &str) -> bool {
        self.problems.iter().any(|problem| problem.key == name)
    }

    /// Returns the folder of the configuration file, if there is one.
    pub fn folder_of_file(&self) -> Option<&Path> {
        self.layers.file.as_deref().and_then(Path::parent)
    }

    /// Returns the origin of a value.
    fn origin(&self, name: &str) -> Origin {
        self.layers.get(name).map_or(Origin::Default, |value| value.origin.clone())
    }

    /// Reads a value with the parser of its kind, one of [`values`].
    pub fn read<T>(&mut self, name: &'static str, parse: impl Fn(&str) -> Parsed<T>) -> Option<T> {
        self.read_within(name, |_, text| parse(text))
    }

    /// Reads a value with a parser that needs the bounds or names of the kind.
    fn read_within<T>(&mut self, name: &'static str, parse: impl Fn(Kind, &str) -> Parsed<T>) -> Option<T> {
        let key = table::find(name)?;
        self.read_names.insert(key.name);
        if let Some(value) = self.layers.get(name) {
            match parse(key.kind, &value.text) {
                Ok(value) => return Some(value),
                Err(why) => self.problem(name, why, key.kind.to_string()),
            }
        }
        match key.default {
            DefaultValue::Value(text) => parse(key.kind, text).ok(),
            DefaultValue::Derived(_) => None,
        }
    }

    /// Records a problem that the setting's kind alone does not reveal.
    pub fn problem(&mut self, name: &str, why: impl Into<String>, allowed: impl Into<String>) {
        let key = table::find(name);
        let secret = key.is_none_or(|key| key.kind.is_secret());
        let value = match (self.layers.get(name), key.map(|key| key.default)) {
            (Some(_), _) if secret => "(not shown)".to_owned(),
            (Some(value), _) => quoted(&value.text),
            (None, Some(DefaultValue::Value(text))) => quoted(text),
            (None, _) => "(not set)".to_owned(),
        };
        self.problems.push(Problem {
            key: name.to_owned(),
            value,
            origin: self.origin(name),
            why: why.into(),
            allowed: allowed.into(),
        });
    }

    /// Records that a required setting is missing.
    pub fn missing(&mut self, name: &str, why: impl Into<String>) {
        let allowed = table::find(name).map(|key| key.kind.to_string()).unwrap_or_default();
        self.problem(name, why, allowed);
    }

    /// Checks the value of a setting that was not read.
    pub fn check_if_unread(&mut self, key: &'static Key) {
        if !self.read_names.contains(key.name) {
            self.read(key.name, |text| key.kind.check(text));
        }
    }

    pub fn integer(&mut self, name: &'static str) -> Option<i64> {
        self.read_within(name, |kind, text| match kind {
            Kind::Integer { min, max } => values::integer(text, min, max),
            _ => Err(kind_mismatch()),
        })
    }

    pub fn size(&mut self, name: &'static str) -> Option<u64> {
        self.read_within(name, |kind, text| match kind {
            Kind::Size { min, max } => values::size(text, min, max),
            _ => Err(kind_mismatch()),
        })
    }

    pub fn boolean(&mut self, name: &'static str) -> bool {
        self.read(name, values::boolean).unwrap_or_default()
    }

    pub fn choice(&mut self, name: &'static str) -> &'static str {
        let chosen = self.read_within(name, |kind, text| match kind {
            Kind::Choice(names) => values::choice(text, names),
            _ => Err(kind_mismatch()),
        });
        chosen.unwrap_or_default()
    }

    pub fn names(&mut self, name: &'static str) -> Vec<&'static str> {
        let names = self.read_within(name, |kind, text| match kind {
            Kind::Names(known) => values::names(text, known),
            _ => Err(kind_mismatch()),
        });
        names.unwrap_or_default()
    }

    /// Reads a path: `%h` is the home folder, and a relative path starts at the folder of the file that set it.
    pub fn path(&mut self, name: &'static str) -> Option<PathBuf> {
        let home = self.home.map(|home| home.to_string_lossy());
        let path = self.read(name, |text| {
            let text = values::path(text)?;
            match (text.contains("%h"), &home) {
                (false, _) => Ok(text),
                (true, Some(home)) => Ok(text.replace("%h", home)),
                (true, None) => Err("uses %h, but the home folder is not known".to_owned()),
            }
        });
        // Without `.` components: the system cannot create a folder named `store/.`.
        let path: PathBuf = Path::new(&path?).components().collect();
        Some(match self.origin(name).folder() {
            Some(folder) => folder.join(path),
            None => path,
        })
    }
}

/// Error if table and code disagree about the kind of a setting, which a test rules out.
fn kind_mismatch() -> String {
    "is of another kind than expected".to_owned()
}
