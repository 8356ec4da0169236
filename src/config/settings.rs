//! All settings, checked and typed: how they are loaded, what is derived from them, and how a running node reloads them.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::diagnostics::{self, ConfigError, Diagnostic, Problem, quoted};
use super::kind::parse_host_names;
use super::network::{self, Identity};
use super::peers::{self, PeersFile};
use super::properties::{self, MAX_FILE_BYTES};
use super::reader::{Layers, Override, Reader};
use super::table::{
    self, DefaultValue, Group, HttpSettings, Key, Limits, NetworkSettings, NodeSettings, PeerSettings, ReloadEffect,
    WebsocketSettings,
};
use crate::model::{Hash256, Height, Network};

pub use crate::api::Features;
pub use crate::peer::IpDetection;
pub use crate::peer::wire::Endpoint;
pub use crate::websocket_api::BlocksNewBody;

/// Largest nemesis block in bytes; a larger file is rejected. Mainnet's has 279,786.
pub const MAX_NEMESIS_BYTES: usize = 16 << 20;

/// The settings of a node.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The network and its chain.
    pub network: Network,
    /// File of the nemesis block, unless the block comes from a peer.
    pub nemesis: NemesisFile,
    /// Hash of the nemesis block, for known networks.
    pub nemesis_hash: Option<Hash256>,
    /// Folder of the chain store: `nisd.data`, else a folder named after the network below `nem.folder`.
    pub data: PathBuf,
    /// The endpoint that the node announces: `http` with the port of the HTTP interface, or `https` with
    /// `nem.httpsPort`.
    pub endpoint: Endpoint,
    /// Names under which browsers and proxies reach this node, besides `localhost` and loopback addresses:
    /// `nisd.hostNames` and `nem.host`. Host names in lower case, IP addresses in their usual form without brackets; no
    /// ports.
    pub host_names: Vec<String>,
    /// File with the peers that are known at startup, beside the configuration file, as in NIS1.
    pub peers_file: PeersFile,
    /// Settings of the node itself.
    pub node: NodeSettings,
    /// Settings of the HTTP interface.
    pub http: HttpSettings,
    /// Settings of the websocket interface.
    pub websocket: WebsocketSettings,
    /// Limits on connections and sessions.
    pub limits: Limits,
    /// Settings for peers and harvesting.
    pub peers: PeerSettings,
    /// Warnings about these settings, logged once at startup.
    pub diagnostics: Vec<Diagnostic>,
    /// Values that were set explicitly, to find changes on a reload.
    pub explicit: ExplicitSettings,
}

/// Addresses to listen on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bind {
    /// All addresses of the machine, IPv6 and IPv4.
    #[default]
    All,
    /// 127.0.0.1 and, where the machine has it, ::1.
    Loopback,
    /// This address.
    One(IpAddr),
}

impl Bind {
    /// Returns whether only programs on this machine can reach the node.
    pub fn is_loopback(self) -> bool {
        match self {
            Bind::All => false,
            Bind::Loopback => true,
            Bind::One(address) => address.to_canonical().is_loopback(),
        }
    }
}

impl Limits {
    /// Returns the maximum open connections of the HTTP port.
    pub fn http_connections(&self) -> usize {
        self.http_connections.unwrap_or(self.share())
    }

    /// Returns the maximum open connections of the websocket port.
    pub fn websocket_connections(&self) -> usize {
        self.websocket_connections.unwrap_or(self.share())
    }

    /// By default each port leaves a fifth of the connections to the other.
    fn share(&self) -> usize {
        self.connections - self.connections / 5
    }
}

/// Loads settings: the file overrides defaults, flags override the file.
///
/// `home` is the user's home folder, if known; it replaces `%h` in paths.
pub fn load(file: Option<&Path>, flags: Vec<Override>, home: Option<&Path>) -> Result<Settings, ConfigError> {
    let unreadable = |path: &Path, error| ConfigError::Unreadable { path: path.to_owned(), error };
    let content = match file {
        Some(path) => Some((path, read_file(path, MAX_FILE_BYTES).map_err(|error| unreadable(path, error))?)),
        None => None,
    };
    build(content.as_ref().map(|(path, bytes)| (*path, bytes.as_slice())), flags, home)
}

/// Loads settings from a file whose content was read already.
pub fn build(file: Option<(&Path, &[u8])>, flags: Vec<Override>, home: Option<&Path>) -> Result<Settings, ConfigError> {
    let mut layers = Layers::default();
    if let Some((path, bytes)) = file {
        let json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
            || properties::looks_like_json(bytes);
        let read = if json { properties::parse_json(bytes) } else { properties::parse(bytes) };
        let properties = read.map_err(|error| ConfigError::Syntax { path: path.to_owned(), error })?;
        layers.add_file(&Rc::from(path), properties);
    }
    layers.add_flags(flags);
    Settings::read(&layers, home).map_err(ConfigError::Wrong)
}

/// Reads a file, at most one byte more than `max`, so that the caller can tell that it is too large. The content is
/// wiped when it is dropped, since it may hold private keys.
pub fn read_file(path: &Path, max: usize) -> io::Result<Zeroizing<Vec<u8>>> {
    let file = File::open(path)?;
    // With capacity to spare the content is neither moved nor read through another buffer, so wiping leaves no copy.
    let length =
        file.metadata().ok().filter(fs::Metadata::is_file).map_or(max, |data| data.len().min(max as u64) as usize);
    let mut content = Zeroizing::new(Vec::with_capacity(length + 64));
    file.take(max as u64 + 1).read_to_end(&mut content)?;
    Ok(content)
}

/// Returns an absolute path, so that messages show in which folder a file is expected.
pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The file of a nemesis block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NemesisFile(pub PathBuf);

impl NemesisFile {
    /// Reads the block in verifiable binary form, without parsing it.
    pub fn read(&self) -> Result<Vec<u8>, NemesisError> {
        let failed = |error| NemesisError { path: self.absolute(), error };
        let mut bytes = read_file(&self.0, MAX_NEMESIS_BYTES).map_err(failed)?;
        if bytes.len() > MAX_NEMESIS_BYTES {
            let limit = format!("it has more than {MAX_NEMESIS_BYTES} bytes");
            return Err(failed(io::Error::new(io::ErrorKind::FileTooLarge, limit)));
        }
        Ok(std::mem::take(&mut *bytes))
    }

    /// Reads the block; `None` if there is no such file.
    pub fn read_if_there(&self) -> Result<Option<Vec<u8>>, NemesisError> {
        match self.read() {
            Err(NemesisError { error, .. }) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    /// Returns the error for a missing file.
    pub fn missing(&self) -> NemesisError {
        NemesisError { path: self.absolute(), error: io::ErrorKind::NotFound.into() }
    }

    /// Returns the absolute path.
    pub fn absolute(&self) -> PathBuf {
        absolute(&self.0)
    }
}

/// The nemesis block cannot be read.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot read the nemesis block {}: {error}; set nem.network.nemesisFilePath to another file, or name a peer that \
     sends the block with `nisd run --peer HOST`", path.display()
)]
pub struct NemesisError {
    /// The file, as an absolute path.
    pub path: PathBuf,
    /// The system's error.
    #[source]
    pub error: io::Error,
}

impl Settings {
    /// Reads all settings; the error lists everything that is wrong.
    pub(super) fn read(layers: &Layers, home: Option<&Path>) -> Result<Settings, Vec<Problem>> {
        let reader = &mut Reader::new(layers, home);
        let settings = Settings::assemble(reader);
        table::keys().filter(|key| key.is_ignored).for_each(|key| reader.check(key));
        let mut problems = std::mem::take(&mut reader.problems);
        let mut notices = diagnostics::check_keys(layers, &mut problems);
        problems.sort_by_key(|problem| problem.origin.order());
        match settings {
            Some(mut settings) if problems.is_empty() => {
                notices.extend(diagnostics::check_network(reader, &settings.network));
                settings.diagnostics = notices;
                settings.explicit = layers.into();
                Ok(settings)
            }
            _ => Err(problems),
        }
    }

    fn assemble(reader: &mut Reader<'_>) -> Option<Settings> {
        let set = NetworkSettings::read(reader)?;
        let identity = network::identity(reader, &set);
        // Without the network, addresses cannot be validated.
        reader.network = identity.as_ref().map(|identity| identity.network.byte);
        let (node, http) = (NodeSettings::read(reader), HttpSettings::read(reader));
        let (websocket, limits) = (WebsocketSettings::read(reader), Limits::read(reader));
        let (peers, mut node, http) = (PeerSettings::read(reader)?, node?, http?);
        node.boot_name = node.boot_name.filter(|name| !name.is_empty());
        let history_from = node.features.historical_account_data.then_some(Height(node.history_from));
        let chain = network::chain(reader, set, identity.as_ref(), history_from);
        let data = data_folder(reader, &node, identity.as_ref());
        let port = if node.protocol == "https" { node.https_port } else { http.port };
        let mut host_names = http.host_names.clone();
        host_names.extend(parse_host_names(&node.host).unwrap_or_default());
        let Identity { network, nemesis, nemesis_hash } = identity?;
        let peers_file = PeersFile(reader.beside_file(&peers::file_name(&network.name)));
        let settings = Settings {
            network: Network { chain: chain?, ..network },
            nemesis,
            nemesis_hash,
            data: data?,
            endpoint: Endpoint { protocol: node.protocol, host: node.host.clone(), port: port.into() },
            host_names,
            peers_file,
            node,
            http,
            websocket: websocket?,
            limits: limits?,
            peers,
            diagnostics: Vec::new(),
            explicit: ExplicitSettings::default(),
        };
        check_together(reader, &settings);
        Some(settings)
    }
}

/// Returns the folder of the store.
fn data_folder(reader: &mut Reader<'_>, node: &NodeSettings, identity: Option<&Identity>) -> Option<PathBuf> {
    if let Some(data) = &node.data {
        return Some(data.clone());
    }
    if node.folder.is_none() && !reader.is_wrong("nem.folder") {
        reader.wrong("nisd.data", "is not set, and the home folder is not known");
    }
    Some(node.folder.as_ref()?.join("nisd").join(folder_name(&identity?.network.name)))
}

/// Converts a network's name to a folder name: no separators, not hidden, not `..`.
fn folder_name(network: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = network.chars().map(plain).collect();
    if name.starts_with('.') { format!("_{name}") } else { name }
}

/// Checks values against each other that are valid individually.
fn check_together(reader: &mut Reader<'_>, settings: &Settings) {
    let Settings { http, websocket, limits, .. } = settings;
    if http.port == websocket.port && http.port != 0 && !reader.is_wrong("nem.httpPort") {
        let allowed = format!("another port than nem.httpPort = {}", http.port);
        reader.problem("nem.websocketPort", "is the port of the HTTP interface", allowed);
    }
    if limits.backlog > limits.buffered && !reader.is_wrong("nisd.maxBuffered") {
        let allowed = format!("at most nisd.maxBuffered, which is {} bytes", limits.buffered);
        reader.problem("nisd.maxBacklog", "is more than all connections together may hold", allowed);
    }
    for (name, connections) in [
        ("nisd.maxHttpConnections", limits.http_connections()),
        ("nisd.maxWebsocketConnections", limits.websocket_connections()),
    ] {
        if connections > limits.connections && !reader.is_wrong("nisd.maxConnections") {
            let allowed = format!("at most nisd.maxConnections, which is {}", limits.connections);
            reader.problem(name, "is more than both ports together may have", allowed);
        }
    }
}

/// Values that were set explicitly, by key, without defaults. Private keys are kept as SHA-256 digests only.
#[derive(Clone, Default)]
pub struct ExplicitSettings(BTreeMap<&'static str, String>);

impl fmt::Debug for ExplicitSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} settings (not shown)", self.0.len())
    }
}

impl From<&Layers> for ExplicitSettings {
    fn from(layers: &Layers) -> ExplicitSettings {
        let given = |key: &Key| {
            let text = layers.get(key.name)?.text.as_str();
            let is_secret = key.kind.is_secret() && !text.is_empty();
            Some((key.name, if is_secret { hex::encode(Sha256::digest(text)) } else { text.to_owned() }))
        };
        ExplicitSettings(table::keys().filter_map(given).collect())
    }
}

impl ExplicitSettings {
    fn text(&self, key: &Key) -> &str {
        match (self.0.get(key.name), key.default) {
            (Some(text), _) => text,
            (None, DefaultValue::Value(text)) => text,
            (None, DefaultValue::Derived(_)) => "",
        }
    }
}

/// A setting whose value has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingChange {
    /// Its key.
    pub key: &'static str,
    /// Old and new value, for a person; secrets are not shown.
    pub values: [String; 2],
    /// When the change takes effect.
    pub reload_effect: ReloadEffect,
}

impl fmt::Display for SettingChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SettingChange { key, values: [was, is], reload_effect: counts } = self;
        match counts {
            ReloadEffect::Immediate => write!(f, "{key} is {is} now; it was {was}"),
            ReloadEffect::RestartRequired => {
                write!(f, "{key} stays {was} until the node restarts; then it will be {is}")
            }
        }
    }
}

impl Settings {
    /// Returns whether the folder of the store is set explicitly and does not depend on the home folder (`%h`).
    pub fn has_explicit_data_folder(&self) -> bool {
        let folder = ["nisd.data", "nem.folder"].iter().find_map(|key| self.explicit.0.get(key));
        folder.is_some_and(|folder| !folder.contains("%h"))
    }

    /// Returns a copy without private keys, so that they are in memory only once.
    pub fn without_secrets(&self) -> Settings {
        let mut copy = self.clone();
        (copy.node.boot_key, copy.peers.harvester_keys) = (None, Vec::new());
        copy
    }

    /// Applies from `new`, which was reloaded, the settings that may change while a node runs. Returns all changes, in
    /// the order of the table of settings.
    pub fn reload(&mut self, mut new: Settings) -> Vec<SettingChange> {
        let has_hosts = !self.http.local.hosts().is_empty() || !new.http.local.hosts().is_empty();
        let changes = table::keys().filter_map(|key| {
            let texts = [&self.explicit, &new.explicit].map(|given| given.text(key));
            let values = texts.map(|text| if key.kind.is_secret() { "(not shown)".to_owned() } else { quoted(text) });
            // Host names would have to be resolved, which blocks.
            let needs_lookup = key.name == "nis.additionalLocalIps" && has_hosts;
            let reload_effect = if needs_lookup { ReloadEffect::RestartRequired } else { key.reload_effect };
            (texts[0] != texts[1]).then_some(SettingChange { key: key.name, values, reload_effect })
        });
        let changes: Vec<SettingChange> = changes.collect();
        for change in changes.iter().filter(|change| change.reload_effect == ReloadEffect::Immediate) {
            match new.explicit.0.get(change.key) {
                Some(text) => self.explicit.0.insert(change.key, text.clone()),
                None => self.explicit.0.remove(change.key),
            };
        }
        if has_hosts {
            new.http.local = self.http.local.clone();
        }
        self.host_names = new.host_names;
        self.node.reload(new.node);
        self.http.reload(new.http);
        self.websocket.reload(new.websocket);
        self.limits.reload(new.limits);
        self.peers.reload(new.peers);
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    fn settings(text: &str) -> Settings {
        let text = format!("nem.network = testnet\n{text}");
        config::build(Some((std::path::Path::new("a"), text.as_bytes())), Vec::new(), Some("/home".as_ref())).unwrap()
    }

    /// Returns the settings, the keys that changed, and those of them that take effect immediately.
    fn changed(old: &str, new: &str) -> (Settings, Vec<&'static str>, Vec<&'static str>) {
        let mut settings = settings(old);
        let changes = settings.reload(self::settings(new));
        let at_once = changes.iter().filter(|change| change.reload_effect == ReloadEffect::Immediate);
        let at_once = at_once.map(|change| change.key).collect();
        (settings, changes.iter().map(|change| change.key).collect(), at_once)
    }

    #[test]
    fn a_reload_applies_only_the_reloadable_settings() {
        let new = "nisd.logLevel = debug\nnem.httpPort = 1\nnisd.maxBacklog = 1M\nnisd.gzip = false\n\
                   nis.nodeLimit = 7\nnisd.ipv6PrefixLength = 48\nnisd.trustedProxies = 10.0.0.0/8";
        let (settings, changed, at_once) = changed("", new);
        assert_eq!(at_once, ["nisd.logLevel", "nisd.trustedProxies", "nisd.gzip", "nisd.maxBacklog"]);
        assert_eq!(changed.len(), 7, "{changed:?}");
        assert_eq!((settings.node.log_level, settings.limits.backlog), (log::LevelFilter::Debug, 1 << 20));
        assert!(settings.http.trusted_proxies.contains([10, 1, 2, 3].into()) && !settings.http.gzip);
        let kept = (settings.http.port, settings.peers.node_limit, settings.limits.ipv6_prefix_length);
        assert_eq!(kept, (7890, 5, 64));
    }

    #[test]
    fn a_change_that_needs_a_restart_is_reported_at_every_reload() {
        let mut old = settings("nisd.maxBacklog = 1M");
        for times in 0..2 {
            let changes = old.reload(settings("nisd.maxBacklog = 2M\nnem.httpPort = 1"));
            let said: Vec<_> = changes.iter().map(SettingChange::to_string).collect();
            assert_eq!(said[0], "nem.httpPort stays \"7890\" until the node restarts; then it will be \"1\"");
            assert_eq!(said.len(), 2 - times, "{said:?}");
        }
        assert_eq!(old.reload(settings("nisd.maxBacklog = 2M")), []);
    }

    #[test]
    fn an_explicit_default_is_no_change_and_a_private_key_is_not_shown() {
        assert_eq!(changed("", "nisd.maxBacklog = 512K").1, [""; 0]);
        let key = "ab".repeat(32);
        let changes = settings("").reload(settings(&format!("nis.bootKey = {key}")));
        let said = format!("{} {changes:?}", changes[0]);
        assert!(said.contains("nis.bootKey") && said.contains("(not shown)") && !said.contains("abab"), "{said}");
    }

    #[test]
    fn a_reload_does_not_resolve_local_host_names() {
        let (settings, changed, at_once) = changed("", "nis.additionalLocalIps = 10.0.0.1|localhost");
        assert_eq!((changed, at_once), (vec!["nis.additionalLocalIps"], vec![]));
        assert!(!settings.http.local.contains([10, 0, 0, 1].into()));
    }

    fn flag(key: &str, value: &str) -> Override {
        Override { key: key.to_owned(), value: value.to_owned().into(), flag: "--set" }
    }

    #[test]
    fn network_names_map_to_safe_folder_names() {
        for (network, folder) in
            [("golden-tiny", "golden-tiny"), ("../x", "_.._x"), (".", "_."), ("a/b\\c d", "a_b_c_d"), ("nëm", "nëm")]
        {
            assert_eq!(folder_name(network), folder);
        }
    }

    #[test]
    fn features_have_their_bits() {
        let bits = |names: &str| {
            build(None, vec![flag("nis.optionalFeatures", names)], Some(Path::new("/"))).unwrap().node.features.bits()
        };
        assert_eq!(bits(""), 0);
        assert_eq!(bits("TRANSACTION_HASH_LOOKUP"), 1);
        assert_eq!(bits("TRACK_EXPIRED_MOSAICS|HISTORICAL_ACCOUNT_DATA"), 6);
    }

    #[test]
    fn account_history_starts_at_the_configured_height_if_enabled() {
        let from = |features: &str, height: Option<&str>| {
            let height = height.map(|height| flag("nisd.historyFrom", height));
            let flags = [flag("nis.optionalFeatures", features)].into_iter().chain(height).collect();
            build(None, flags, Some(Path::new("/"))).unwrap().network.chain.history_from
        };
        assert_eq!(from("HISTORICAL_ACCOUNT_DATA", None), Some(Height::NEMESIS));
        assert_eq!(from("HISTORICAL_ACCOUNT_DATA", Some("7")), Some(Height(7)));
        assert_eq!(from("TRANSACTION_HASH_LOOKUP", Some("7")), None);
    }
}
