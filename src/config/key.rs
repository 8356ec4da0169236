//! Definition of a setting: name, allowed values, default and meaning.

use std::fmt;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text without control characters.
    Text,
    /// A non-empty name of at most 64 characters, without control characters.
    Name,
    /// A file or folder.
    Path,
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
    /// `true` or `false`.
    Boolean,
    /// One of these names.
    Choice(&'static [&'static str]),
    /// Any of these names.
    Names(&'static [&'static str]),
    /// A hash.
    Hash,
    /// Any number of hashes.
    Hashes,
    /// An address of the network.
    Address,
    /// Any number of addresses of the network.
    Addresses,
    /// A private key.
    Secret,
    /// Any number of private keys.
    Secrets,
    /// Addresses that count as local.
    LocalAddresses,
    /// Any number of IP addresses and ranges of them.
    AddressRanges,
    /// Any number of host names.
    HostNames,
    /// Any number of origins of web pages.
    Origins,
    /// Any number of endpoints of peers.
    Endpoints,
    /// A trusted checkpoint: height and hash of a block.
    Checkpoint,
    /// Addresses to listen on.
    Bind,
    /// An address and a port to listen on, or none.
    Listener,
    /// A path prefix of the HTTP interface.
    Context,
    /// Source of network time.
    Clock,
    /// A version of NIS1.
    Version,
}

impl Kind {
    /// Returns whether values of this kind must never be shown.
    pub fn is_secret(self) -> bool {
        matches!(self, Kind::Secret | Kind::Secrets)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Kind::Integer { min, max } if [i64::from(i32::MAX), i64::MAX].contains(max) => {
                return write!(f, "a whole number, at least {min}");
            }
            Kind::Integer { min, max } => return write!(f, "a whole number from {min} to {max}"),
            Kind::Size { min, max } => {
                let (min, max) = (Bytes(*min), Bytes(*max));
                return write!(f, "bytes, or a number followed by K, M, G or T, from {min} to {max}");
            }
            Kind::Choice(names) => return f.write_str(&names.join(" or ")),
            Kind::Names(names) => return write!(f, "nothing, or some of {}, joined by |", names.join(", ")),
            Kind::Text => "a text",
            Kind::Name => "a name of 1 to 64 characters",
            Kind::Path => "a path; a relative one starts at the folder of the configuration file",
            Kind::Boolean => "true or false",
            Kind::Hash => "64 hex digits",
            Kind::Hashes => "nothing, or hashes of 64 hex digits, joined by |",
            Kind::Address => "an address of the network: 40 letters and digits without hyphens",
            Kind::Addresses => "nothing, or addresses of the network without hyphens, joined by |",
            Kind::Secret => "nothing, or a private key of 64 hex digits",
            Kind::Secrets => "nothing, or private keys of 64 hex digits, joined by |",
            Kind::LocalAddresses => {
                "nothing, or IP addresses, host names and patterns such as 10.0.*.* (IPv6: all eight \
                 parts), joined by |"
            }
            Kind::AddressRanges => {
                "nothing, or IP addresses and ranges such as 10.0.0.0/8 or 2001:db8::/32, joined by |"
            }
            Kind::HostNames => "nothing, or host names and IP addresses without ports, joined by |",
            Kind::Origins => "nothing, or origins such as http://127.0.0.1:3000, joined by |",
            Kind::Checkpoint => "nothing, or HEIGHT:HASH",
            Kind::Endpoints => "nothing, or HOST, HOST:PORT and [IPV6]:PORT, joined by |",
            Kind::Listener => {
                "nothing, or an IP address of this machine and a port, such as 10.0.0.5:9100 or [::]:9100"
            }
            Kind::Bind => "an IP address of this machine, localhost for 127.0.0.1 and ::1, or * for all",
            Kind::Context => "nothing, or a path that begins with / and does not end with it",
            Kind::Version => "MAJOR.MINOR.BUILD compatible with 0.6 and 0.7, such as 0.6.102",
            Kind::Clock => "system, or network seconds: N holds the clock there, N+ lets it run from there",
        };
        f.write_str(text)
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
