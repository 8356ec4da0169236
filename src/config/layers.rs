//! Values of settings, their origin and their precedence.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::rc::Rc;

use zeroize::Zeroizing;

use super::properties::Property;

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

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Flag(flag) => write!(f, "{flag} on the command line"),
        }
    }
}

/// A value set on the command line.
#[derive(Clone, PartialEq, Eq)]
pub struct Override {
    /// The key.
    pub key: String,
    /// The value; wiped when dropped, since it may be a secret.
    pub value: Zeroizing<String>,
    /// The flag, such as `--http-port`.
    pub flag: &'static str,
}

impl fmt::Debug for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} = (not shown)", self.flag, self.key)
    }
}

/// A value and its origin.
#[derive(Clone)]
pub(super) struct Value {
    pub text: Zeroizing<String>,
    pub origin: Origin,
}

/// All values that were set; later ones override earlier ones of the same key.
#[derive(Default)]
pub(super) struct Layers {
    /// The configuration file, if there is one.
    pub file: Option<Rc<Path>>,
    values: BTreeMap<String, Value>,
    /// Keys set twice in one file: the key, the overridden origin, the effective one.
    pub repeated: Vec<(String, Origin, Origin)>,
}

impl Layers {
    /// Adds the properties of a file, which override earlier values.
    pub fn add_file(&mut self, path: &Rc<Path>, properties: Vec<Property>) {
        self.file = Some(path.clone());
        for Property { key, value, line } in properties {
            let origin = Origin::File { path: path.clone(), line };
            let hidden = self.values.insert(key.clone(), Value { text: value, origin: origin.clone() });
            if let Some(Value { origin: hidden @ Origin::File { .. }, .. }) = hidden {
                self.repeated.push((key, hidden, origin));
            }
        }
    }

    /// Adds values of the command line, which override earlier values; the last of repeated flags counts.
    pub fn add_flags(&mut self, overrides: Vec<Override>) {
        for Override { key, value, flag } in overrides {
            self.values.insert(key, Value { text: value, origin: Origin::Flag(flag) });
        }
    }

    /// Returns the value of a key, if it was set.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// Returns every key that was set, in alphabetical order, with its origin.
    pub fn keys(&self) -> impl Iterator<Item = (&str, &Origin)> {
        self.values.iter().map(|(key, value)| (key.as_str(), &value.origin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_layers_override_earlier_ones_and_duplicates_in_a_file_are_reported() {
        let mut layers = Layers::default();
        let path: Rc<Path> = Rc::from(Path::new("dir/a.properties"));
        let read = |text: &str| super::super::properties::parse(text.as_bytes()).unwrap();
        layers.add_file(&path, read("a = 1\nc = 1\na = 2"));
        let flag = |key: &str| Override { key: key.into(), value: "3".to_owned().into(), flag: "--set" };
        layers.add_flags(vec![flag("c")]);
        let shown = |key| layers.get(key).map(|value| format!("{} {}", value.text.as_str(), value.origin)).unwrap();
        assert_eq!(shown("a"), "2 dir/a.properties:3");
        assert_eq!(shown("c"), "3 --set on the command line");
        assert_eq!(layers.repeated.len(), 1);
        assert_eq!(layers.get("a").unwrap().origin.folder(), Some(Path::new("dir")));
    }
}
