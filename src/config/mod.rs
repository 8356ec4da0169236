//! Settings: origin, allowed values and meaning.
//!
//! There are three layers, each overriding the one before: defaults, one configuration file, the command line. The file
//! is a Java properties file with NIS1's own keys or the `config.json` of a recorded chain. Every setting is defined
//! once, in [`table`], from which it is printed, checked and read. All wrong values are reported together, each with
//! its key, its value, its origin and what is allowed.
//!
//! Private keys never leave [`Secret`]: no error, warning or debug output shows them.

mod address_ranges;
mod assemble;
mod changes;
pub mod check;
pub mod config_json;
mod key;
mod layers;
mod load;
mod local_addresses;
mod network_file;
mod networks;
mod notices;
mod peers;
mod problem;
pub mod properties;
mod reader;
mod secret;
mod settings;
mod suggest_key;
pub mod table;
mod values;

pub use address_ranges::AddressRanges;
pub use changes::{ExplicitSettings, SettingChange};
pub use key::{DefaultValue, Key, Kind, ReloadEffect, Section, Support};
pub use layers::{Origin, Override};
pub use load::{MAX_NEMESIS_BYTES, NemesisError, build, load};
pub use local_addresses::LocalAddresses;
pub use network_file::network_properties;
pub use notices::no_block_source_warning;
pub use peers::{KnownPeers, MAX_PEERS_BYTES, PeersError, PeersFile};
pub use problem::{ConfigError, Diagnostic, Problem};
pub use secret::Secret;
pub use settings::{
    Bind, BlocksNewBody, Boot, Endpoint, Features, HttpSettings, IpDetection, Limits, NemesisFile, PeerSettings,
    Settings, WebsocketSettings,
};
