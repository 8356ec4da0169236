//! Settings: origin, allowed values and meaning.
//!
//! There are three layers, each overriding the one before: defaults, one configuration file, the command line. The file
//! is a Java properties file with NIS1's own keys. Every setting is defined once, in [`table`], from which it is printed,
//! checked, read and reloaded. All wrong values are reported together, each with its key, its value, its origin and what
//! is allowed.
//!
//! No error, warning or debug output shows a private key.

pub mod check;
mod kind;
mod network;
pub mod properties;
mod reader;
mod settings;
pub mod table;

pub use kind::{Bind, LocalAccess};
pub use network::{KnownPeers, MAX_NEMESIS_BYTES, MAX_PEERS_BYTES, NemesisError, NemesisSource, network_properties};
pub use reader::{ConfigError, Diagnostic, Origin, Override, Problem};
pub use settings::{Listener, SettingChange, Settings, address_space_warning, build, load, no_block_source_warning};
pub use table::{DefaultValue, HttpSettings, Key, NodeSettings, PeerSettings, WebsocketSettings};

pub use crate::api::Features;
pub use crate::peer::IpDetection;
pub use crate::peer::wire::Endpoint;
