//! Settings: origin, allowed values and meaning.
//!
//! There are three layers, each overriding the one before: defaults, one configuration file, the command line. The file
//! is a Java properties file with NIS1's own keys or the `config.json` of a recorded chain. Every setting is defined
//! once, in [`table`], from which it is printed, checked, read and reloaded. All wrong values are reported together,
//! each with its key, its value, its origin and what is allowed.
//!
//! Private keys never leave [`Secret`]: no error, warning or debug output shows them.

mod addresses;
pub mod check;
mod diagnostics;
mod kind;
mod network;
mod peers;
pub mod properties;
mod reader;
mod settings;
pub mod table;

pub use addresses::{AddressRanges, LocalAddresses};
pub use diagnostics::{ConfigError, Diagnostic, Problem, no_block_source_warning};
pub use kind::Secret;
pub use network::network_properties;
pub use peers::{KnownPeers, MAX_PEERS_BYTES, PeersError, PeersFile};
pub use reader::{Origin, Override};
pub use settings::{
    Bind, BlocksNewBody, Endpoint, ExplicitSettings, Features, IpDetection, MAX_NEMESIS_BYTES, NemesisError,
    NemesisFile, SettingChange, Settings, build, load, read_file,
};
pub use table::{
    DefaultValue, HttpSettings, Key, Limits, NodeSettings, PeerSettings, ReloadEffect, Section, WebsocketSettings,
};
