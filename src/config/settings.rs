//! All settings, checked and typed: how they are loaded, what is derived from them, and how a running node reloads them.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use log::Level;
use sha2::{Digest, Sha256};

use super::kind::{Bind, elements, parse_host_names};
use super::network::{self, AFTER_ALL_FORKS, Identity, KnownPeers, NemesisSource, is_known, peers_file_name};
use super::properties::{self, MAX_FILE_BYTES};
use super::reader::{ConfigError, Diagnostic, Layers, Origin, Override, Problem, Reader, redact_key, redact_value};
use super::table::{
    self, DefaultValue, HttpSettings, Key, NetworkSettings, NodeSettings, PeerSettings, WebsocketSettings,
};
use crate::crypto::keys::incomplete_key_note;
use crate::files;
use crate::ip::{Scope, scope};
use crate::model::{Hash256, Height, Network, NetworkByte};
use crate::peer::wire::Endpoint;

/// The settings of a node.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The network and its chain.
    pub network: Network,
    /// Where the nemesis block comes from.
    pub nemesis: NemesisSource,
    /// Hash of the nemesis block, for known networks.
    pub nemesis_hash: Option<Hash256>,
    /// Folder of the chain store: `nisd.data`, else a folder named after the network below `nem.folder`.
    pub data: PathBuf,
    /// Bytes of changed rows that an import collects in memory: `nisd.writeCache`, else for the least memory; see
    /// [`Settings::set_memory`].
    pub write_cache: usize,
    /// The endpoint that the node announces: `http` with the port of the HTTP interface, or `https` with
    /// `nem.httpsPort`.
    pub endpoint: Endpoint,
    /// Names under which browsers and proxies reach this node, besides `localhost` and loopback addresses:
    /// `nisd.hostNames` and `nem.host`. Host names in lower case, IP addresses in their usual form without brackets; no
    /// ports.
    pub host_names: Vec<String>,
    /// File with the peers that are known at startup, beside the configuration file, as in NIS1.
    pub peers_file: PathBuf,
    /// Settings of the node itself.
    pub node: NodeSettings,
    /// Settings of the HTTP interface.
    pub http: HttpSettings,
    /// Settings of the websocket interface.
    pub websocket: WebsocketSettings,
    /// Settings for peers and harvesting.
    pub peers: PeerSettings,
    /// Warnings about these settings, logged once at startup.
    pub diagnostics: Vec<Diagnostic>,
    /// Values that were set explicitly, to find changes on a reload.
    pub explicit: ExplicitSettings,
}

/// Bytes of the write cache that are derived from the memory.
const WRITE_CACHE: RangeInclusive<usize> = 16 << 20..=512 << 20;

/// Loads settings: the file overrides defaults, flags override the file.
///
/// `home` is the user's home folder, if known; it replaces `%h` in paths.
pub fn load(file: Option<&Path>, flags: Vec<Override>, home: Option<&Path>) -> Result<Settings, ConfigError> {
    let Some(path) = file else { return build(None, flags, home) };
    let unreadable = |error| ConfigError::Unreadable(path.to_owned(), error);
    let (content, mode) = files::read_with_mode(path, MAX_FILE_BYTES).map_err(unreadable)?;
    let mut settings = build(Some((path, &content)), flags, home)?;
    settings.diagnostics.extend(exposed_keys_warning(path, mode, settings.explicit.keys().copied()));
    Ok(settings)
}

/// Returns a warning about a file with a private key that any user may read or change. A group may have access: that of
/// the service has it in a package.
pub(super) fn exposed_keys_warning<'a>(
    path: &Path,
    mode: u32,
    mut keys: impl Iterator<Item = &'a str>,
) -> Option<Diagnostic> {
    /// Permission bits of others.
    const OTHERS: u32 = 0o007;
    let is_key = |name: &&str| table::find(name).is_some_and(|key| key.is_secret);
    let name = keys.find(is_key).filter(|_| mode & OTHERS != 0)?;
    let path = path.display();
    Some(Diagnostic::warn(format!(
        "{path} holds {name} and has mode {mode:04o}: every user of this host has access to the private key; prevent \
         this: chmod o= {path}"
    )))
}

/// Loads settings from a file whose content was read already.
pub fn build(file: Option<(&Path, &[u8])>, flags: Vec<Override>, home: Option<&Path>) -> Result<Settings, ConfigError> {
    let mut layers = Layers::default();
    if let Some((path, bytes)) = file {
        layers.add(properties::parse(path, bytes).map_err(|error| ConfigError::Syntax(path.to_owned(), error))?);
        layers.file = Some(path.to_owned());
    }
    layers.add(flags);
    Settings::read(&layers, home).map_err(ConfigError::Wrong)
}

impl Settings {
    /// Derives the defaults that depend on the memory that the process may use, in bytes.
    pub fn set_memory(&mut self, bytes: u64) {
        let derived = usize::try_from(bytes / 32).unwrap_or(usize::MAX);
        self.write_cache = self.node.write_cache.unwrap_or(derived.clamp(*WRITE_CACHE.start(), *WRITE_CACHE.end()));
    }

    /// Reads all settings; the error lists everything that is wrong.
    pub(super) fn read(layers: &Layers, home: Option<&Path>) -> Result<Settings, Vec<Problem>> {
        let reader = &mut Reader { layers, home, network: None, problems: Vec::new() };
        let settings = Settings::assemble(reader);
        let mut notices = check_keys(reader);
        let mut problems = std::mem::take(&mut reader.problems);
        problems.sort_by_key(|problem| problem.origin.order());
        match settings {
            Some(mut settings) if problems.is_empty() => {
                notices.extend(incomplete_key_warnings(layers));
                notices.extend(network_warnings(layers, &settings.network));
                notices.extend(
                    ineffective(layers, &settings.network)
                        .map(|(keys, why)| Diagnostic::warn(format!("{why}; without effect: {}", keys.join(", ")))),
                );
                settings.diagnostics = notices;
                settings.explicit = explicit_settings(layers);
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
        let websocket = WebsocketSettings::read(reader);
        let (peers, mut node, http) = (PeerSettings::read(reader)?, node?, http?);
        node.boot_name = node.boot_name.filter(|name| !name.is_empty());
        let history_from = node.features.historical_account_data.then_some(Height(node.history_from));
        let chain = network::chain(reader, set, identity.as_ref(), history_from);
        let data = data_folder(reader, &node, identity.as_ref());
        let port = if node.protocol == "https" { node.https_port } else { http.port };
        let host_names = host_names(&http, &node);
        // A node that listens on a single address is reached there, unless its host is set.
        let own = http.bind.local_address();
        let has_default = node.host == Ipv4Addr::LOCALHOST.to_string();
        let host = if has_default && own.is_ipv4() { own.to_string() } else { node.host.clone() };
        let Identity { network, nemesis, nemesis_hash } = identity?;
        let folder = reader.layers.file.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
        let peers_file = folder.join(peers_file_name(&network.name));
        let settings = Settings {
            network: Network { chain: chain?, ..network },
            nemesis,
            nemesis_hash,
            data: data?,
            write_cache: node.write_cache.unwrap_or(*WRITE_CACHE.start()),
            endpoint: Endpoint { protocol: node.protocol, host, port: port.into() },
            host_names,
            peers_file,
            node,
            http,
            websocket: websocket?,
            peers,
            diagnostics: Vec::new(),
            explicit: ExplicitSettings::default(),
        };
        check_ports(reader, &settings);
        Some(settings)
    }
}

/// Records a problem for two listeners that cannot have the same port.
fn check_ports(reader: &mut Reader<'_>, settings: &Settings) {
    let (interfaces @ [http, websocket], _) = settings.listeners();
    let has_port = |listener: &Listener, port| listener.port == port && port != 0 && !reader.is_wrong(listener.setting);
    let is_shared = has_port(&http, websocket.port);
    let metrics = settings.http.metrics.filter(|_| !reader.is_wrong("nisd.bindAddress"));
    let taken = metrics
        .and_then(|at| interfaces.into_iter().find(|other| has_port(other, at.port()) && other.bind.overlaps(at.ip())));
    if is_shared {
        let allowed = format!("another port than {} = {}", http.setting, http.port);
        reader.problem(websocket.setting, "is the port of the HTTP interface", allowed);
    }
    if let Some(Listener { setting, port, .. }) = taken {
        let allowed =
            format!("another port than {setting} = {port}, or an address on which that interface does not listen");
        reader.problem("nisd.metricsBind", format!("is an address of {setting}"), allowed);
    }
}

/// Returns the folder of the store.
fn data_folder(reader: &mut Reader<'_>, node: &NodeSettings, identity: Option<&Identity>) -> Option<PathBuf> {
    if let Some(data) = &node.data {
        return Some(data.clone());
    }
    if node.folder.is_none() && !reader.is_wrong("nem.folder") {
        reader.wrong("nisd.data", "is not set, and the home folder is not known: set HOME, or give --data");
    }
    Some(node.folder.as_ref()?.join("nisd").join(folder_name(&identity?.network.name)))
}

/// Converts a network's name to a folder name: no separators, not hidden, not `..`.
fn folder_name(network: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = network.chars().map(plain).collect();
    if name.starts_with('.') { format!("_{name}") } else { name }
}

/// Values that were set explicitly, by key, without defaults. Private keys are kept as SHA-256 digests only.
type ExplicitSettings = BTreeMap<&'static str, String>;

fn explicit_settings(layers: &Layers) -> ExplicitSettings {
    let given = |key: &Key| {
        let text = layers.get(key.name)?.value.as_str();
        let is_secret = key.is_secret && !text.is_empty();
        Some((key.name, if is_secret { hex::encode(Sha256::digest(text)) } else { text.to_owned() }))
    };
    table::keys().filter_map(given).collect()
}

/// Returns the text of a setting: as it was set, else its default.
fn text_of<'a>(key: &Key, explicit: &'a ExplicitSettings) -> &'a str {
    let default = if let DefaultValue::Value(text) = key.default { text } else { "" };
    explicit.get(key.name).map_or(default, String::as_str)
}

/// A setting whose value has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingChange {
    /// Its key.
    pub key: &'static str,
    /// Old and new value, for a person; secrets are not shown.
    pub values: [String; 2],
    /// Whether the change takes effect now, rather than at the next start.
    pub is_live: bool,
}

impl fmt::Display for SettingChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SettingChange { key, values: [was, is], is_live } = self;
        if *is_live {
            write!(f, "{key} is {is} now; it was {was}")
        } else {
            write!(f, "{key} stays {was} until the node restarts; then it will be {is}")
        }
    }
}

/// Where a node listens for one interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The setting of its port.
    pub setting: &'static str,
    /// The addresses.
    pub bind: Bind,
    /// The port; 0 lets the system choose.
    pub port: u16,
}

impl Settings {
    /// Returns where the node listens: for the HTTP interface, the websocket interface, and the metrics, if they have their
    /// own listener.
    pub fn listeners(&self) -> ([Listener; 2], Option<Listener>) {
        let HttpSettings { bind, port, metrics, .. } = self.http;
        let http = Listener { setting: "nem.httpPort", bind, port };
        let websocket = Listener { setting: "nem.websocketPort", bind, port: self.websocket.port };
        let own = |at: SocketAddr| Listener { setting: "nisd.metricsBind", bind: Bind::One(at.ip()), port: at.port() };
        ([http, websocket], metrics.map(own))
    }

    /// Returns the URL at which programs on this machine reach the HTTP interface.
    pub fn url(&self) -> String {
        format!("http://{}{}", SocketAddr::new(self.http.bind.local_address(), self.http.port), self.http.context)
    }

    /// Returns whether the folder of the store is set explicitly and does not depend on the home folder (`%h`).
    pub fn has_explicit_data_folder(&self) -> bool {
        let folder = ["nisd.data", "nem.folder"].iter().find_map(|key| self.explicit.get(key));
        folder.is_some_and(|folder| !folder.contains("%h"))
    }

    /// Returns whether `nem.host` names the host to announce: a name, or an address of more than this machine.
    pub fn announces_host(&self) -> bool {
        let host = Endpoint::http(self.node.host.as_str(), 0);
        host.host != "localhost" && host.address().is_none_or(|address| scope(address) > Scope::Loopback)
    }

    /// Returns the least scope of the addresses that peers may have unless they are listed. On a public network nobody
    /// makes this node call an address that is not part of the internet.
    pub fn peer_scope(&self) -> Scope {
        if is_known(&self.network.name) {
            Scope::Global
        } else if self.peers.loopback {
            Scope::Loopback
        } else {
            Scope::Private
        }
    }

    /// Returns the peers whose keys are known at startup. The built-in ones are left out if the operator names other
    /// peers.
    pub fn listed_peers(&self) -> Result<KnownPeers, String> {
        let listed = KnownPeers::read(&self.peers_file, &self.network)?;
        Ok(if listed.is_built_in && !self.peers.hosts.is_empty() { KnownPeers::default() } else { listed })
    }

    /// Returns a copy without private keys, so that they are in memory only once.
    pub fn without_secrets(&self) -> Settings {
        let mut copy = self.clone();
        (copy.node.boot_key, copy.peers.harvester_keys) = (None, Vec::new());
        copy
    }

    /// Applies from `new`, which was reloaded, the settings that may change while a node runs. Returns all changes, in
    /// the order of the table of settings.
    pub fn reload(&mut self, new: Settings) -> Vec<SettingChange> {
        let changes = table::keys().filter_map(|key| {
            let texts = [&self.explicit, &new.explicit].map(|explicit| text_of(key, explicit));
            let values = texts.map(|text| if key.is_secret { "(not shown)".to_owned() } else { redact_value(text) });
            (texts[0] != texts[1]).then_some(SettingChange { key: key.name, values, is_live: key.is_live })
        });
        let changes: Vec<SettingChange> = changes.collect();
        for change in changes.iter().filter(|change| change.is_live) {
            match new.explicit.get(change.key) {
                Some(text) => self.explicit.insert(change.key, text.clone()),
                None => self.explicit.remove(change.key),
            };
        }
        self.node.reload(new.node);
        self.http.reload(new.http);
        self.host_names = host_names(&self.http, &self.node);
        self.websocket.reload(new.websocket);
        self.peers.reload(new.peers);
        changes
    }
}

/// Returns the names under which browsers and proxies reach this node.
fn host_names(http: &HttpSettings, node: &NodeSettings) -> Vec<String> {
    let mut names = http.host_names.clone();
    names.extend(parse_host_names(&node.host).unwrap_or_default());
    names
}

/// Maximum number of unknown keys that are reported individually.
const MAX_UNKNOWN: usize = 20;

/// Reports private keys on the command line, and keys that are unknown, repeated, or without effect.
///
/// Unknown keys only cause warnings, as NIS1 does not reject them either. Unknown keys with this node's own prefix or
/// on the command line become problems.
fn check_keys(reader: &mut Reader<'_>) -> Vec<Diagnostic> {
    let layers = reader.layers;
    let (mut notices, mut ignored, mut unknown, mut rejected) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (name, Override { origin, .. }) in &layers.values {
        let is_flag = matches!(origin, Origin::Flag(_));
        match table::find(name) {
            // The system shows the command line of a program to all users.
            Some(key) if key.is_secret && is_flag => notices.push(Diagnostic::warn(format!(
                "{name} was given with {origin}, where every user of this host can read it; keep it in the \
                 configuration file (--config), readable by you only"
            ))),
            Some(_) => {}
            None if table::ignored(name).is_some() => ignored.push(name.as_str()),
            None if is_flag || name.to_ascii_lowercase().starts_with("nisd.") => rejected.push(name),
            None => unknown.push((name, origin)),
        }
    }
    for name in rejected.into_iter().take(MAX_UNKNOWN) {
        reader.problem(name, format!("is not a setting{}", hint(name)), "the keys that `nisd settings` lists");
    }
    for (name, origin) in unknown.iter().take(MAX_UNKNOWN) {
        let (key, hint) = (redact_key(name), hint(name));
        notices.push(Diagnostic::warn(format!("{origin}: {key} is unknown and has no effect{hint}")));
    }
    if let Some(more @ 1..) = unknown.len().checked_sub(MAX_UNKNOWN) {
        notices.push(Diagnostic::warn(format!("{more} more keys are unknown and have no effect")));
    }
    for (key, hidden, winning) in layers.repeated.iter().filter(|(key, ..)| table::is_known(key)) {
        notices.push(Diagnostic::warn(format!("{winning}: {key} was already set at {hidden}; this value is used")));
    }
    if !ignored.is_empty() {
        let text = format!("settings without effect in this node: {}", ignored.join(", "));
        notices.push(Diagnostic { level: Level::Info, ..Diagnostic::warn(text) });
    }
    notices
}

fn hint(name: &str) -> String {
    let meant = table::suggest(name).map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
    let lower = name.to_ascii_lowercase();
    let has_prefix = ["nem.", "nis.", "nisd."].iter().any(|prefix| lower.starts_with(prefix));
    let kind = if has_prefix { "" } else { " (settings begin with nem., nis. or nisd.)" };
    format!("{kind}{meant}")
}

/// Returns warnings about private keys of which a part was probably lost.
pub(super) fn incomplete_key_warnings(layers: &Layers) -> impl Iterator<Item = Diagnostic> {
    let secrets = table::keys().filter(|key| key.is_secret);
    secrets.filter_map(|key| Some((key.name, layers.get(key.name)?))).flat_map(
        |(name, Override { value, origin, .. })| {
            let notes = elements(value).filter_map(|text| incomplete_key_note(text.chars().count()));
            notes.map(move |note| Diagnostic::warn(format!("{origin}: {name} holds {note}")))
        },
    )
}

/// Returns warnings about chain parameters that are valid but hardly intended for this network.
pub(super) fn network_warnings(layers: &Layers, network: &Network) -> Vec<Diagnostic> {
    let mut notices = Vec::new();
    let is_after_all_forks = network.name == AFTER_ALL_FORKS;
    // The keys of the forks whose heights depend on the network byte.
    let is_of_byte = |key: &&Key| matches!(key.default, DefaultValue::Derived(table::BY_BYTE));
    let forks: Vec<&str> = table::keys().filter(is_of_byte).map(|key| key.name).collect();
    let forks_are_default = !is_after_all_forks && forks.iter().all(|key| layers.get(key).is_none());
    if network.byte == NetworkByte::TESTNET && forks_are_default {
        notices.push(Diagnostic::warn(format!(
            "network byte 152 without any fork height: those of an earlier testnet apply. Most private networks \
             need the value 1 for {}",
            forks.join(", ")
        )));
    }
    const TREASURY: &str = "nis.treasuryReissuanceForkHeight";
    if network.name != "mainnet" && !is_after_all_forks && layers.get(TREASURY).is_none() {
        notices.push(Diagnostic::warn(format!(
            "{TREASURY} is not set: at height {} the chain will wait for mainnet's treasury block. Set it to 1, and \
             nis.treasuryReissuanceForkTransactionHashes and \
             nis.treasuryReissuanceForkFallbackTransactionHashes to nothing",
            network.chain.forks.treasury_reissuance
        )));
    }
    notices
}

/// Returns the keys that are set without effect on this network, and why: those of the identity of a known network, and a
/// first letter that does not match the network byte, which may be wrong.
pub(super) fn ineffective(layers: &Layers, network: &Network) -> Option<(Vec<&'static str>, String)> {
    const START_CHAR: &str = "nem.network.addressStartChar";
    let name = &network.name;
    if is_known(name) {
        let keys = table::keys().map(|key| key.name).filter(|key| key.starts_with("nem.network."));
        let set: Vec<_> = keys.filter(|key| layers.get(key).is_some()).collect();
        return (!set.is_empty()).then(|| (set, format!("{name} is a known network")));
    }
    let configured = layers.get(START_CHAR)?.value.trim().chars().next()?;
    let letter = network.nemesis_signer.as_str().chars().next()?;
    let why = format!("with this nem.network.version addresses begin with {letter}");
    (configured != letter).then(|| (vec![START_CHAR], why))
}

/// Returns a warning if no block can arrive: the node knows no peers (`is_alone`) and does not harvest from the start.
/// `None` otherwise.
pub fn no_block_source_warning(settings: &Settings, is_alone: bool) -> Option<Diagnostic> {
    let peers = &settings.peers;
    let harvests = peers.auto_harvest && (settings.node.boot_key.is_some() || !peers.harvester_keys.is_empty());
    let name = &settings.network.name;
    (is_alone && !harvests).then(|| {
        Diagnostic::warn(format!(
            "THE CHAIN OF {name} STANDS STILL: this node knows no peers (peers-config_{name}.json beside the settings, \
             or --peer HOST) and harvests with no key. To add blocks, import them with --import, or harvest here: set \
             nis.bootKey to the key of an account with importance, and nis.shouldAutoHarvestOnBoot to true"
        ))
    })
}

/// Returns a warning if a program with addresses of `bits` cannot hold the whole chain of the network: the store of mainnet
/// has about 9 GiB, and must fit into the address space.
pub fn address_space_warning(network: &Network, bits: u32) -> Option<Diagnostic> {
    (bits < 64 && network.byte == NetworkByte::MAINNET && is_known(&network.name)).then(|| {
        Diagnostic::warn(format!(
            "this is a {bits}-bit program, whose store holds at most 2 GiB: THE CHAIN OF {} DOES NOT FIT, and the node \
             will stop before it is synchronised. Use a 64-bit program and system (on a Raspberry Pi: arm64)",
            network.name
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    #[test]
    fn a_32_bit_program_says_that_it_cannot_hold_mainnet() {
        let network = |name: &str| {
            let text = format!("nem.network = {name}");
            let own = Some((std::path::Path::new("a"), text.as_bytes()));
            config::build(own, Vec::new(), Some("/home".as_ref())).unwrap().network
        };
        let warning = address_space_warning(&network("mainnet"), 32).unwrap().to_string();
        assert!(warning.contains("THE CHAIN OF mainnet DOES NOT FIT"), "{warning}");
        for (name, bits) in [("mainnet", 64), ("testnet", 32)] {
            assert!(address_space_warning(&network(name), bits).is_none());
        }
    }

    fn settings(text: &str) -> Settings {
        let text = format!("nem.network = testnet\n{text}");
        config::build(Some((std::path::Path::new("a"), text.as_bytes())), Vec::new(), Some("/home".as_ref())).unwrap()
    }

    #[test]
    fn programs_of_this_machine_reach_the_node_where_it_listens() {
        for (bind, host) in [
            ("*", "127.0.0.1"),
            ("localhost", "127.0.0.1"),
            ("127.0.0.1", "127.0.0.1"),
            ("127.0.0.2", "127.0.0.2"),
            ("0.0.0.0", "127.0.0.1"),
            ("::", "[::1]"),
            ("::1", "[::1]"),
            ("10.0.0.5", "10.0.0.5"),
            ("::ffff:10.0.0.5", "10.0.0.5"),
            ("::ffff:0.0.0.0", "127.0.0.1"),
            ("2001:db8::5", "[2001:db8::5]"),
        ] {
            let url = |more: &str| settings(&format!("nisd.bindAddress = {bind}\n{more}")).url();
            assert_eq!(url(""), format!("http://{host}:7890"));
            assert_eq!(url("nem.apiContext = /a/b\nnem.httpPort = 1"), format!("http://{host}:1/a/b"));
        }
    }

    #[test]
    fn a_node_without_a_host_announces_the_only_ipv4_address_on_which_it_listens() {
        for (bind, host) in [
            ("*", "127.0.0.1"),
            ("127.0.0.4", "127.0.0.4"),
            ("::ffff:10.0.0.5", "10.0.0.5"),
            ("0.0.0.0", "127.0.0.1"),
            ("::1", "127.0.0.1"),
            ("10.0.0.5\nnem.host = 45.1.2.3", "45.1.2.3"),
        ] {
            assert_eq!(settings(&format!("nisd.bindAddress = {bind}")).endpoint.host, host, "{bind}");
        }
    }

    #[test]
    fn every_listener_is_listed_with_its_setting() {
        let listeners = |text: &str| {
            let (interfaces, metrics) = settings(text).listeners();
            let all = interfaces.into_iter().chain(metrics);
            all.map(|Listener { setting, bind, port }| format!("{setting} {bind:?} {port}")).collect::<Vec<_>>()
        };
        assert_eq!(listeners(""), ["nem.httpPort All 7890", "nem.websocketPort All 7778"]);
        let own = "nisd.bindAddress = 10.0.0.5\nnem.httpPort = 1\nnem.websocketPort = 2\nnisd.metricsBind = [::1]:3";
        let expected =
            ["nem.httpPort One(10.0.0.5) 1", "nem.websocketPort One(10.0.0.5) 2", "nisd.metricsBind One(::1) 3"];
        assert_eq!(listeners(own), expected);
    }

    /// Returns the settings, the keys that changed, and those of them that take effect immediately.
    fn changed(old: &str, new: &str) -> (Settings, Vec<&'static str>, Vec<&'static str>) {
        let mut settings = settings(old);
        let changes = settings.reload(self::settings(new));
        let at_once = changes.iter().filter(|change| change.is_live);
        let at_once = at_once.map(|change| change.key).collect();
        (settings, changes.iter().map(|change| change.key).collect(), at_once)
    }

    #[test]
    fn a_reload_applies_only_the_reloadable_settings() {
        let new = "nisd.logLevel = debug\nnem.httpPort = 1\nnisd.maxBuffered = 1M\nnem.useDosFilter = false\n\
                   nis.nodeLimit = 7\nnisd.explorer = false\nnisd.trustedProxies = 10.0.0.0/8";
        let (settings, changed, at_once) = changed("", new);
        assert_eq!(at_once, ["nisd.logLevel", "nem.useDosFilter", "nisd.trustedProxies", "nisd.maxBuffered"]);
        assert_eq!(changed.len(), 7, "{changed:?}");
        assert_eq!((settings.node.log_level, settings.http.buffered), (log::LevelFilter::Debug, 1 << 20));
        assert!(settings.http.trusted_proxies.contains([10, 1, 2, 3].into()) && !settings.http.dos_filter);
        let kept = (settings.http.port, settings.peers.node_limit, settings.http.explorer);
        assert_eq!(kept, (7890, 5, true));
    }

    #[test]
    fn a_reload_keeps_the_host_that_needs_a_restart_and_takes_the_names_that_do_not() {
        let old = "nem.host = old.example\nnisd.hostNames = a.example";
        let (settings, changed, at_once) = changed(old, "nem.host = new.example\nnisd.hostNames = b.example");
        assert_eq!((changed, at_once), (vec!["nem.host", "nisd.hostNames"], vec!["nisd.hostNames"]));
        assert_eq!(settings.host_names, ["b.example", "old.example"]);
    }

    #[test]
    fn a_change_that_needs_a_restart_is_reported_at_every_reload() {
        let mut old = settings("nisd.maxBuffered = 1M");
        for times in 0..2 {
            let changes = old.reload(settings("nisd.maxBuffered = 2M\nnem.httpPort = 1"));
            let said: Vec<_> = changes.iter().map(SettingChange::to_string).collect();
            assert_eq!(said[0], "nem.httpPort stays \"7890\" until the node restarts; then it will be \"1\"");
            assert_eq!(said.len(), 2 - times, "{said:?}");
        }
        assert_eq!(old.reload(settings("nisd.maxBuffered = 2M")), []);
    }

    #[test]
    fn the_write_cache_follows_the_memory_unless_it_is_set() {
        let of = |text, memory| {
            let mut settings = settings(text);
            settings.set_memory(memory);
            settings.write_cache >> 20
        };
        assert_eq!([0, 512 << 20, 4 << 30, u64::MAX].map(|memory| of("", memory)), [16, 16, 128, 512]);
        assert_eq!(of("nisd.writeCache = 2G", 512 << 20), 2048);
        assert_eq!(settings("").write_cache, 16 << 20);
    }

    #[test]
    fn an_explicit_default_is_no_change_and_a_private_key_is_not_shown() {
        assert_eq!(changed("", "nisd.maxBuffered = 128M").1, [""; 0]);
        let key = "ab".repeat(32);
        let changes = settings("").reload(settings(&format!("nis.bootKey = {key}")));
        let said = format!("{} {changes:?}", changes[0]);
        assert!(said.contains("nis.bootKey") && said.contains("(not shown)") && !said.contains("abab"), "{said}");
    }

    #[test]
    fn a_reload_changes_which_addresses_and_names_are_local() {
        let (settings, changed, at_once) = changed("", "nis.additionalLocalIps = 10.0.0.1|localhost");
        assert_eq!((changed, at_once), (vec!["nis.additionalLocalIps"], vec!["nis.additionalLocalIps"]));
        assert!(settings.http.local.contains([10, 0, 0, 1].into()));
        assert_eq!(settings.http.local.hosts, ["localhost"]);
    }

    fn flag(key: &str, value: &str) -> Override {
        Override { key: key.to_owned(), value: value.to_owned().into(), origin: Origin::Flag("--set") }
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
