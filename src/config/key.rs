//! Definition of a setting: name, allowed values, default and meaning.

use std::fmt;

use super::values::{self, Parsed};

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The key in the file.
    pub name: &'static str,
    /// The allowed values.
    pub kind: Kind,
    /// The default value.
    pub default: DefaultValue,
    /// Whether the setting has an effect in this node.
    pub support: Support,
    /// Its meaning, for a person.
    pub meaning: &'static str,
    /// When a change takes effect.
    pub reload_effect: ReloadEffect,
}

impl Key {
    /// Creates a setting with a default value; an empty text means no value.
    pub const fn new(name: &'static str, kind: Kind, default: &'static str, meaning: &'static str) -> Key {
        let (default, used, counts) = (DefaultValue::Value(default), Support::Active, ReloadEffect::RestartRequired);
        Key { name, kind, default, support: used, meaning, reload_effect: counts }
    }

    /// Makes the default depend on something else, which `from` explains.
    pub const fn derived(mut self, from: &'static str) -> Key {
        self.default = DefaultValue::Derived(from);
        self
    }

    /// Lets a running node apply a change.
    pub const fn reloadable(mut self) -> Key {
        self.reload_effect = ReloadEffect::Immediate;
        self
    }

    /// Marks the setting as without effect in this node.
    pub const fn ignored(mut self) -> Key {
        self.support = Support::Ignored;
        self
    }
}

/// Default of a setting.
#[derive(Clone, Copy, Debug)]
pub enum DefaultValue {
    /// This value.
    Value(&'static str),
    /// Depends on something else, as this text explains.
    Derived(&'static str),
}

/// Whether a setting has an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// The setting takes effect.
    Active,
    /// No effect: the setting concerns something that only NIS1's own software has.
    Ignored,
}

/// When a change of a setting takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReloadEffect {
    /// When a running node reloads its settings.
    Immediate,
    /// At the next start.
    RestartRequired,
}

/// Allowed values of a setting. `Display` describes them for a person.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number in decimal digits within these bounds.
    Integer {
        /// Minimum.
        min: i64,
        /// Maximum.
        max: i64,
    },
    /// A number of bytes within these bounds.
    Size {
        /// Minimum.
        min: u64,
        /// Maximum.
        max: u64,
    },
    /// One of these names.
    Choice(&'static [&'static str]),
    /// Any of these names.
    Names(&'static [&'static str]),
    /// Any other text with a description and a check.
    Form {
        /// The description.
        allowed: &'static str,
        /// Returns a clause about what is wrong with a text.
        check: fn(&str) -> Result<(), String>,
        /// Whether values must never be shown.
        is_secret: bool,
    },
}

impl Kind {
    /// Returns whether values of this kind must never be shown.
    pub fn is_secret(self) -> bool {
        matches!(self, Kind::Form { is_secret: true, .. })
    }

    /// Checks a value as far as possible without other settings.
    pub(super) fn check(self, text: &str) -> Parsed<()> {
        match self {
            Kind::Integer { min, max } => values::integer(text, min, max).map(drop),
            Kind::Size { min, max } => values::size(text, min, max).map(drop),
            Kind::Choice(names) => values::choice(text, names).map(drop),
            Kind::Names(known) => values::names(text, known).map(drop),
            Kind::Form { check, .. } => check(text),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Integer { min, max } if [i64::from(i32::MAX), i64::MAX].contains(max) => {
                write!(f, "a whole number, at least {min}")
            }
            Kind::Integer { min, max } => write!(f, "a whole number from {min} to {max}"),
            Kind::Size { min, max } => {
                let (min, max) = (Bytes(*min), Bytes(*max));
                write!(f, "bytes, or a number followed by K, M, G or T, from {min} to {max}")
            }
            Kind::Choice(names) => f.write_str(&names.join(" or ")),
            Kind::Names(names) => write!(f, "nothing, or some of {}, joined by |", names.join(", ")),
            Kind::Form { allowed, .. } => f.write_str(allowed),
        }
    }
}

/// A number of bytes, shown in the largest unit that divides it.
pub(super) struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, shift) in [("T", 40), ("G", 30), ("M", 20), ("K", 10)] {
            if self.0 != 0 && self.0.trailing_zeros() >= shift {
                return write!(f, "{}{unit}", self.0 >> shift);
            }
        }
        self.0.fmt(f)
    }
}

/// A group of settings.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Title of the group.
    pub title: &'static str,
    /// The settings.
    pub keys: &'static [Key],
}
