//! Assembles the settings from single values, and checks the values against each other.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::changes::ExplicitSettings;
use super::layers::Layers;
use super::local_addresses::LocalAddresses;
use super::networks::{self, Identity};
use super::notices;
use super::peers::{self, PeersFile};
use super::problem::Problem;
use super::reader::Reader;
use super::settings::{
    BlocksNewBody, Boot, Endpoint, Features, HttpSettings, IpDetection, Limits, PeerSettings, Settings,
    WebsocketSettings,
};
use super::table::{self, OPTIONAL_FEATURES};
use super::values;
use crate::model::Height;
use crate::model::address::NetworkByte;
use crate::model::network::{ChainParameters, Network};
use crate::peer::wire::Version;

impl Settings {
    /// Reads all settings; the error lists everything that is wrong.
    pub(super) fn read(layers: &Layers, home: Option<&Path>) -> Result<Settings, Vec<Problem>> {
        let reader = &mut Reader::new(layers, home);
        let identity = networks::identity(reader);
        let byte = identity.as_ref().map(|identity| identity.byte);
        let settings = read_all(reader, identity, byte);
        check_together(reader, settings.as_ref());
        for key in table::keys() {
            reader.check_if_unread(key);
        }
        let mut problems = std::mem::take(&mut reader.problems);
        let mut notices = notices::check_keys(layers, &mut problems);
        problems.sort_by_key(|problem| problem.origin.order());
        match settings {
            Some(mut settings) if problems.is_empty() => {
                notices.extend(notices::check_network(reader, &settings.network));
                settings.diagnostics = notices;
                settings.explicit = layers.into();
                Ok(settings)
            }
            _ => Err(problems),
        }
    }
}

fn read_all(reader: &mut Reader<'_>, identity: Option<Identity>, byte: Option<NetworkByte>) -> Option<Settings> {
    let is_after_all_forks = identity.as_ref().is_some_and(|known| networks::is_after_all_forks(&known.name));
    let chain = networks::chain(reader, byte, is_after_all_forks);
    let data = data_folder(reader, identity.as_ref());
    let map_size = reader.size("nisd.mapSize").map(map_size);
    let boot = boot(reader);
    let http = http(reader);
    let websocket = websocket(reader, http.as_ref());
    let limits = limits(reader);
    let endpoint = endpoint(reader, http.as_ref());
    let announced_version = reader.read("nisd.announcedVersion", values::version).unwrap_or(Version::OWN);
    let clock = reader.read("nisd.clock", values::clock).unwrap_or_default();
    let logs_json = reader.choice("nisd.logFormat") == "json";
    let log_level = reader.choice("nisd.logLevel").parse().unwrap_or(log::LevelFilter::Info);
    let local = reader.read("nis.additionalLocalIps", LocalAddresses::parse).unwrap_or_default();
    let trusted_proxies = reader.read("nisd.trustedProxies", values::address_ranges).unwrap_or_default();
    let host_names = host_names(reader, endpoint.as_ref());
    let local_origins = reader.read("nisd.localOrigins", values::origins).unwrap_or_default();
    let harvester_keys = reader.read("nis.additionalHarvesterPrivateKeys", values::secrets).unwrap_or_default();
    let unlocked_limit = reader.integer("nis.unlockedLimit");
    let features = features(reader);
    let history_from = reader.integer("nisd.historyFrom").map(|height| Height(height.unsigned_abs()));
    let forgets_hashes = reader.boolean("nisd.forgetHashes");
    let peers = peers(reader, identity.as_ref());
    // Without the network, addresses cannot be validated.
    let byte = byte?;
    let addresses = |text: &str| values::addresses(text, byte);
    let allowed_harvesters = reader.read("nis.allowedHarvesterAddresses", addresses).unwrap_or_default();
    let Identity { name, byte, generation_hash, nemesis_signer, total_amount, nemesis, nemesis_hash } = identity?;
    let history_from = history_from.filter(|_| features.historical_account_data);
    let chain = ChainParameters { history_from, ..chain? };
    Some(Settings {
        network: Network { name, byte, generation_hash, nemesis_signer, total_amount, chain },
        nemesis,
        nemesis_hash,
        data: data?,
        map_size: map_size?,
        clock,
        log_level,
        logs_json,
        features,
        boot,
        endpoint: endpoint?,
        announced_version,
        local,
        trusted_proxies,
        host_names,
        local_origins,
        allowed_harvesters,
        forgets_hashes,
        http: http?,
        websocket: websocket?,
        limits: limits?,
        harvester_keys,
        unlocked_limit: i32::try_from(unlocked_limit?).ok()?,
        peers: peers?,
        diagnostics: Vec::new(),
        explicit: ExplicitSettings::default(),
    })
}

/// Rounds a size down to a multiple of 64 KiB, which LMDB accepts with any usual page size.
fn map_size(bytes: u64) -> usize {
    const PAGE: usize = 64 << 10;
    usize::try_from(bytes).unwrap_or(usize::MAX) / PAGE * PAGE
}

/// Returns the folder of the store: `nisd.data`, else a folder named after the network below `nem.folder`.
fn data_folder(reader: &mut Reader<'_>, identity: Option<&Identity>) -> Option<PathBuf> {
    if let Some(data) = reader.path("nisd.data") {
        return Some(data);
    }
    match (reader.path("nem.folder"), identity) {
        (Some(folder), Some(identity)) => Some(folder.join("nisd").join(folder_name(&identity.name))),
        (None, _) if !reader.is_wrong("nem.folder") => {
            reader.missing("nisd.data", "is not set, and the home folder is not known");
            None
        }
        _ => None,
    }
}

/// Converts a network's name to a folder name: no separators, not hidden, not `..`.
fn folder_name(network: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = network.chars().map(plain).collect();
    if name.starts_with('.') { format!("_{name}") } else { name }
}

fn boot(reader: &mut Reader<'_>) -> Boot {
    Boot {
        auto: reader.boolean("nis.shouldAutoBoot"),
        key: reader.read("nis.bootKey", values::secret).flatten(),
        name: reader.read("nis.bootName", values::text).filter(|name| !name.is_empty()),
        auto_harvest: reader.boolean("nis.shouldAutoHarvestOnBoot"),
    }
}

fn features(reader: &mut Reader<'_>) -> Features {
    let names = reader.names("nis.optionalFeatures");
    let has = |index: usize| OPTIONAL_FEATURES.get(index).is_some_and(|name| names.contains(name));
    Features { transaction_hash_lookup: has(0), historical_account_data: has(1), track_expired_mosaics: has(2) }
}

fn ip_detection(reader: &mut Reader<'_>) -> IpDetection {
    match reader.choice("nis.ipDetectionMode") {
        "Disabled" => IpDetection::Disabled,
        "AutoOptional" => IpDetection::AutoOptional,
        _ => IpDetection::AutoRequired,
    }
}

fn peers(reader: &mut Reader<'_>, identity: Option<&Identity>) -> Option<PeerSettings> {
    let hosts = reader.read("nisd.peers", values::endpoints).unwrap_or_default();
    let checkpoint = reader.read("nisd.trustBelow", values::checkpoint).flatten();
    let node_limit = count(reader, "nis.nodeLimit");
    let time_sync_node_limit = count(reader, "nis.timeSyncNodeLimit");
    let binary_transport = reader.boolean("nis.useBinaryTransport");
    let use_network_time = reader.boolean("nis.useNetworkTime");
    let ip_detection = ip_detection(reader);
    let paths = reader.read("nem.nonAuditedApiPaths", values::text).unwrap_or_default().to_lowercase();
    let unaudited_paths = paths.split('|').map(|path| path.trim().to_owned()).filter(|path| !path.is_empty()).collect();
    // Beside the configuration file, as in NIS1.
    let file = peers::file_name(&identity?.name);
    Some(PeerSettings {
        file: PeersFile(reader.folder_of_file().unwrap_or(Path::new("")).join(file)),
        hosts,
        checkpoint,
        node_limit: node_limit?,
        time_sync_node_limit: time_sync_node_limit?,
        binary_transport,
        use_network_time,
        ip_detection,
        unaudited_paths,
    })
}

fn port(reader: &mut Reader<'_>, name: &'static str) -> Option<u16> {
    u16::try_from(reader.integer(name)?).ok()
}

fn endpoint(reader: &mut Reader<'_>, http: Option<&HttpSettings>) -> Option<Endpoint> {
    let protocol = reader.choice("nem.protocol");
    let https_port = port(reader, "nem.httpsPort");
    let host = reader.read("nem.host", values::name);
    let port = if protocol == "https" { https_port? } else { http?.port };
    Some(Endpoint { protocol, host: host?, port: port.into() })
}

/// Returns the configured names of this node, normalised.
fn host_names(reader: &mut Reader<'_>, endpoint: Option<&Endpoint>) -> Vec<String> {
    let mut names = reader.read("nisd.hostNames", values::host_names).unwrap_or_default();
    names.extend(endpoint.into_iter().flat_map(|endpoint| values::host_names(&endpoint.host).unwrap_or_default()));
    names
}

fn http(reader: &mut Reader<'_>) -> Option<HttpSettings> {
    Some(HttpSettings {
        bind: reader.read("nisd.bindAddress", values::bind).unwrap_or_default(),
        context: reader.read("nem.apiContext", values::context).unwrap_or_default(),
        dos_filter: reader.boolean("nem.useDosFilter"),
        gzip: reader.boolean("nisd.gzip"),
        explorer: reader.boolean("nisd.explorer"),
        metrics: reader.read("nisd.metricsBind", values::listener).flatten(),
        port: port(reader, "nem.httpPort")?,
    })
}

fn websocket(reader: &mut Reader<'_>, http: Option<&HttpSettings>) -> Option<WebsocketSettings> {
    let blocks_new_body = match reader.choice("nisd.blocksNewBody") {
        "object" => BlocksNewBody::Object,
        "number" => BlocksNewBody::Number,
        _ => BlocksNewBody::Auto,
    };
    let register_on_subscribe = reader.boolean("nisd.registerOnSubscribe");
    let implicit_subscription = reader.boolean("nisd.implicitSubscription");
    let lenient_stomp = reader.boolean("nisd.forgivingStomp");
    let port = port(reader, "nem.websocketPort");
    Some(WebsocketSettings {
        bind: http?.bind,
        port: port?,
        blocks_new_body,
        register_on_subscribe,
        implicit_subscription,
        lenient_stomp,
    })
}

fn seconds(reader: &mut Reader<'_>, name: &'static str) -> Option<Duration> {
    reader.integer(name).map(|seconds| Duration::from_secs(seconds.unsigned_abs()))
}

fn count(reader: &mut Reader<'_>, name: &'static str) -> Option<usize> {
    usize::try_from(reader.integer(name)?).ok()
}

fn bytes(reader: &mut Reader<'_>, name: &'static str) -> Option<usize> {
    usize::try_from(reader.size(name)?).ok()
}

fn limits(reader: &mut Reader<'_>) -> Option<Limits> {
    // A wrong value counts as its default here, so no check is skipped.
    let connections = count(reader, "nisd.maxConnections")?;
    // By default each port leaves a fifth of the connections to the other.
    let share = connections - connections / 5;
    Some(Limits {
        connections,
        http_connections: count(reader, "nisd.maxHttpConnections").unwrap_or(share),
        websocket_connections: count(reader, "nisd.maxWebsocketConnections").unwrap_or(share),
        connections_per_address: count(reader, "nisd.maxConnectionsPerAddress")?,
        ipv6_prefix_length: u8::try_from(reader.integer("nisd.ipv6PrefixLength")?).ok()?,
        buffered: bytes(reader, "nisd.maxBuffered")?,
        body_size: bytes(reader, "nisd.maxBodySize")?,
        idle_timeout: seconds(reader, "nisd.idleTimeout")?,
        request_timeout: seconds(reader, "nisd.requestTimeout")?,
        websocket_idle_timeout: seconds(reader, "nisd.websocketIdleTimeout")?,
        send_timeout: seconds(reader, "nisd.sendTimeout")?,
        backlog: bytes(reader, "nisd.maxBacklog")?,
        subscriptions: count(reader, "nisd.maxSubscriptions")?,
        registered_addresses: count(reader, "nisd.maxRegisteredAddresses")?,
    })
}

/// Checks values against each other that are valid individually.
fn check_together(reader: &mut Reader<'_>, settings: Option<&Settings>) {
    let Some(Settings { http, websocket, limits, .. }) = settings else { return };
    if http.port == websocket.port && http.port != 0 && !reader.is_wrong("nem.httpPort") {
        let allowed = format!("another port than nem.httpPort = {}", http.port);
        reader.problem("nem.websocketPort", "is the port of the HTTP interface", allowed);
    }
    if limits.backlog > limits.buffered && !reader.is_wrong("nisd.maxBuffered") {
        let allowed = format!("at most nisd.maxBuffered, which is {} bytes", limits.buffered);
        reader.problem("nisd.maxBacklog", "is more than all connections together may hold", allowed);
    }
    for (name, connections) in [
        ("nisd.maxHttpConnections", limits.http_connections),
        ("nisd.maxWebsocketConnections", limits.websocket_connections),
    ] {
        if connections > limits.connections && !reader.is_wrong("nisd.maxConnections") {
            let allowed = format!("at most nisd.maxConnections, which is {}", limits.connections);
            reader.problem(name, "is more than both ports together may have", allowed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::{Key, Support};
    use super::super::{Override, build};
    use super::*;

    fn flag(key: &str, value: &str) -> Override {
        Override { key: key.to_owned(), value: value.to_owned().into(), flag: "--set" }
    }

    #[test]
    fn every_active_setting_is_read() {
        let mut layers = Layers::default();
        layers.add_flags(vec![flag("nem.network", "private"), flag("nem.network.version", "152")]);
        let mut reader = Reader::new(&layers, None);
        networks::identity(&mut reader);
        read_all(&mut reader, None, Some(NetworkByte::TESTNET));
        let unread = |key: &&Key| key.support == Support::Active && !reader.read_names.contains(key.name);
        let unread: Vec<_> = table::keys().filter(unread).map(|key| key.name).collect();
        assert_eq!(unread, ["nem.network.addressStartChar"], "which is only compared");
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
            build(None, vec![flag("nis.optionalFeatures", names)], Some(Path::new("/"))).unwrap().features.bits()
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

    #[test]
    fn map_sizes_are_whole_pages() {
        assert_eq!(map_size(0x12345), 0x10000);
        assert_eq!(map_size(1 << 30), 1 << 30);
    }
}
