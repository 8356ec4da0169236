//! Every setting of `nisd`, defined once. The structs of the settings, `nisd settings`, the checks, the reader and the
//! reload come from this table: a new setting is one entry here, and the place that uses its field. A layer above this one
//! (`net`, `peer`, `api`) does not know the table: `node` and `event_loop` hand it the value.
//!
//! Keys that start with `nem.` and `nis.` are NIS1's, with its shipped values as defaults; keys that start with `nisd.`
//! are this node's own.

use std::fmt::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use log::LevelFilter;

use super::kind::{
    ADDRESS, ADDRESS_RANGES, ADDRESSES, BIND, BOOLEAN, Bind, CHAIN_FEATURES, CHECKPOINT, CLOCK, CONTEXT, ENDPOINTS,
    FEATURES, HASH, HASHES, HOST, HOST_NAMES, IP_DETECTION, Kind, LISTENER, LOCAL_ACCESS, LOCAL_ADDRESSES, LOG_FORMAT,
    LOG_LEVEL, LocalAccess, NAME, ORIGINS, PATH, PATHS, PORT, PROTOCOL, SECRET, SECRETS, TEXT, VERSION, integer,
    map_size, seconds, size,
};
use super::reader::Reader;
use crate::api::Features;
use crate::clock::ClockMode;
use crate::crypto::PrivateKey;
use crate::ip::{AddressRanges, LocalAddresses};
use crate::model::{Address, Checkpoint, Hash256};
use crate::peer::IpDetection;
use crate::peer::wire::{Endpoint, Version};

const I32_MAX: i64 = i32::MAX as i64;

/// Default and maximum size of the address space reserved for the store, for the machine's pointer width.
const MAP_SIZE: &str = if cfg!(target_pointer_width = "32") { "1G" } else { "64G" };
const MAX_MAP_SIZE: &str = if cfg!(target_pointer_width = "32") { "2G" } else { "4T" };

const BY_NETWORK: &str = "mainnet, mijinnet, testnet: that of the network; others must set it";
pub(super) const BY_BYTE: &str =
    "testnet: 1; others by network byte: 104 mainnet's height, 152 that of an earlier testnet, else 1";

/// One setting.
#[derive(Clone, Copy)]
pub struct Key {
    /// The key in the file.
    pub name: &'static str,
    /// The allowed values, for a person.
    pub allowed: &'static (dyn fmt::Display + Sync),
    /// Whether values must never be shown.
    pub is_secret: bool,
    /// The default value.
    pub default: DefaultValue,
    /// Its meaning, for a person.
    pub meaning: &'static str,
    /// Whether a change takes effect when a running node reloads its settings, rather than at the next start.
    pub is_live: bool,
}

/// Default of a setting.
#[derive(Clone, Copy, Debug)]
pub enum DefaultValue {
    /// This value; an empty text means no value.
    Value(&'static str),
    /// Depends on something else, as this text explains.
    Derived(&'static str),
}

/// Defines [`SECTIONS`], and a struct with a field for each setting of the sections of a group.
///
/// An entry is `field: type = key, when, kind, default, meaning`. A change takes effect [`LIVE`] or [`AT_START`]. The default
/// is `default` with a text of the kind, `optional` with a text that may be impossible, or `derived` with an explanation;
/// the field of the last two is an `Option`.
macro_rules! settings {
    (
        $($(#[$doc:meta])* pub struct $group:ident { $($title:literal { $(
            $field:ident: $type:ty = $name:literal, $when:ident, $kind:expr,
            $(default $default:expr,)? $(optional $optional:expr,)? $(derived $derived:expr,)?
            $meaning:literal;
        )* })* })*
    ) => {
        $(
            $(#[$doc])*
            #[allow(rustdoc::invalid_html_tags, rustdoc::bare_urls, rustdoc::broken_intra_doc_links)]
            #[derive(Clone, Debug, PartialEq, Eq)]
            pub struct $group { $($(
                #[doc = $meaning]
                pub $field: field_type!($type $(, $optional)? $(, $derived)?),
            )*)* }

            impl $group {
                /// Reads every setting of the group, so that all problems are found. `None` after a problem was recorded.
                pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
                    $($(let $field = reader.read::<$type>($name, &$kind);)*)*
                    Some($group { $($($field: field_value!($field $(, $optional)? $(, $derived)?),)*)* })
                }

                /// Takes over those settings that change while a node runs.
                pub fn reload(&mut self, new: Self) {
                    $($(if $when {
                        self.$field = new.$field;
                    })*)*
                }
            }
        )*

        /// All settings, in groups with their titles.
        const SECTIONS: &[(&str, &[Key])] = &[
            $($(($title, &[$(Key {
                name: $name,
                allowed: &($kind as Kind<$type>),
                is_secret: ($kind as Kind<$type>).is_secret(),
                default: default_value!($(default $default)? $(default $optional)? $(derived $derived)?),
                meaning: $meaning,
                is_live: $when,
            }),*]),)*)*
        ];
    };
}

macro_rules! field_type {
    ($type:ty) => { $type };
    ($type:ty, $default:expr) => { Option<$type> };
}

macro_rules! field_value {
    ($read:expr) => {
        $read?
    };
    ($read:expr, $default:expr) => {
        $read
    };
}

macro_rules! default_value {
    (default $text:expr) => {
        DefaultValue::Value($text)
    };
    (derived $how:expr) => {
        DefaultValue::Derived($how)
    };
}

/// A change of the setting takes effect when a running node reloads its settings.
const LIVE: bool = true;
/// A change of the setting takes effect at the next start.
const AT_START: bool = false;

settings! {
    /// The network and its chain as they are set; [`Network`](crate::model::Network) is made of them.
    pub struct NetworkSettings {
        "Network" {
            name: String = "nem.network", AT_START, NAME, default "mainnet",
                "mainnet, testnet, mijinnet, or any other name for a private network (--network). Without any configuration `nisd run` creates its own private network";
            version: i64 = "nem.network.version", AT_START, integer(-128, 255), derived BY_NETWORK,
                "Network byte, in decimal: 104 for addresses N… (mainnet), 152 or -104 for T…, 96 for M…";
            start_char: String = "nem.network.addressStartChar", AT_START, NAME, derived "follows from the network byte",
                "First letter of addresses; only compared, because it follows from the network byte";
            generation_hash: Hash256 = "nem.network.generationHash", AT_START, HASH, derived BY_NETWORK,
                "Generation hash of the nemesis block";
            nemesis_signer: String = "nem.network.nemesisSignerAddress", AT_START, ADDRESS, derived BY_NETWORK,
                "Address of the account that signed the nemesis block";
            total_xem: u64 = "nem.network.totalAmount", AT_START, integer(1, (i64::MAX as u64 / 1_000_000) as i64), derived BY_NETWORK,
                "Total supply in whole XEM";
            nemesis: PathBuf = "nem.network.nemesisFilePath", AT_START, PATH, derived "mainnet, mijinnet, testnet: part of the program; others must set it",
                "File with the nemesis block in binary form (--nemesis)";
        }
        "Chain (equal on all nodes of a network)" {
            target_time: u32 = "nis.blockGenerationTargetTime", AT_START, integer(10, 86_400), default "60",
                "Target time between blocks in seconds";
            rewrite_limit: u64 = "nis.blockChainRewriteLimit", AT_START, integer(10, 8_640), default "360",
                "Maximum number of blocks that can be rolled back; at most the blocks of a day";
            max_transactions_per_block: u32 = "nis.maxTransactionsPerBlock", AT_START, integer(1, 10_000), default "120",
                "Maximum transactions in a block, including those nested in others";
            max_transactions: u32 = "nis.maxTransactions", AT_START, integer(1, 86_400_000), default "10000",
                "Maximum transactions in one synchronisation attempt; from nis.maxTransactionsPerBlock to that number times nis.blockChainRewriteLimit";
            features: Vec<&'static str> = "nis.blockChainFeatures", AT_START, CHAIN_FEATURES, default "PROOF_OF_IMPORTANCE|WB_TIME_BASED_VESTING",
                "Exactly one PROOF_OF_…, exactly one WB_…, and optionally STABILIZE_BLOCK_TIMES";
            ignore_fees: bool = "nis.ignoreFees", AT_START, BOOLEAN, default "false",
                "Whether transactions without a fee are valid";
            hash_retention_hours: i64 = "nis.transactionHashRetentionTime", AT_START, integer(-1, I32_MAX), default "36",
                "Hours for which repeated transactions are rejected as duplicates; -1 for ever; less than 36 counts as 36";
        }
        "Heights at which rules change (equal on all nodes of a network)" {
            multisig_m_of_n: u64 = "nis.multisigMOfNForkHeight", AT_START, integer(1, i64::MAX), derived BY_BYTE,
                "m-of-n multisig accounts";
            mosaics: u64 = "nis.mosaicsForkHeight", AT_START, integer(1, i64::MAX), derived BY_BYTE,
                "Namespaces and mosaics";
            first_fee: u64 = "nis.firstFeeForkHeight", AT_START, integer(1, i64::MAX), derived BY_BYTE,
                "First change of fees";
            remote_account: u64 = "nis.remoteAccountForkHeight", AT_START, integer(1, i64::MAX), derived BY_BYTE,
                "Rules for remote accounts";
            mosaic_redefinition: u64 = "nis.mosaicRedefinitionForkHeight", AT_START, integer(1, i64::MAX), derived BY_BYTE,
                "Redefinition of mosaics";
            second_fee: u64 = "nis.secondFeeForkHeight", AT_START, integer(1, i64::MAX), derived BY_BYTE,
                "Second change of fees";
            treasury_reissuance: u64 = "nis.treasuryReissuanceForkHeight", AT_START, integer(1, I32_MAX), derived "3481580; testnet: 1",
                "Height of mainnet's treasury block. On every private network set it to 1 and the two lists below to nothing: a chain without these transactions stops at this height";
            treasury_hashes: Vec<Hash256> = "nis.treasuryReissuanceForkTransactionHashes", AT_START, HASHES, derived "mainnet's 52 hashes; testnet: nothing",
                "Hashes of the transactions that the treasury block must contain, in order";
            treasury_fallback_hashes: Vec<Hash256> = "nis.treasuryReissuanceForkFallbackTransactionHashes", AT_START, HASHES, derived "mainnet's one hash; testnet: nothing",
                "Hashes of the transactions that it must contain otherwise";
        }
    }
    /// Settings of the node itself.
    pub struct NodeSettings {
        "Node" {
            folder: PathBuf = "nem.folder", AT_START, PATH, optional "%h/nem",
                "Folder for data; %h is the user's home folder";
            data: PathBuf = "nisd.data", AT_START, PATH, derived "nisd/<nem.network> in nem.folder",
                "Folder of the chain store (--data)";
            map_size: usize = "nisd.mapSize", AT_START, map_size("16M", MAX_MAP_SIZE), default MAP_SIZE,
                "Maximum size of the chain store; reserves address space only, no disk or memory";
            write_cache: usize = "nisd.writeCache", AT_START, size("1M", "16G"), derived "a 32nd of the memory, 16M to 512M",
                "Memory in which imports and the first synchronisation collect changed rows; with more of it, fewer pages are written";
            readers: usize = "nisd.readers", AT_START, integer(0, 8), default "4",
                "Helper processes that read ahead what requests and blocks need of a store that is not in memory, so that a slow disk keeps nobody else waiting; 0: none. They are started when they are needed";
            log_level: LevelFilter = "nisd.logLevel", LIVE, LOG_LEVEL, default "info",
                "Log level (--log)";
            logs_json: bool = "nisd.logFormat", AT_START, LOG_FORMAT, default "text",
                "Log format (--log-format): text, whose lines begin with their priority if systemd reads them, or one JSON object per line";
            clock: ClockMode = "nisd.clock", AT_START, CLOCK, default "system",
                "Source of network time (--clock); any value but system is for tests";
            features: Features = "nis.optionalFeatures", AT_START, FEATURES, default "TRANSACTION_HASH_LOOKUP",
                "Optional parts of the HTTP interface. HISTORICAL_ACCOUNT_DATA stores account data of earlier heights, beginning with the next block; `nisd reindex` adds the heights before it";
            history_from: u64 = "nisd.historyFrom", AT_START, integer(1, I32_MAX), default "1",
                "Height from which HISTORICAL_ACCOUNT_DATA keeps account data";
            forgets_hashes: bool = "nisd.forgetHashes", AT_START, BOOLEAN, default "false",
                "Whether transactions are found by their hashes only for nis.transactionHashRetentionTime, as in NIS1, instead of for ever";
            auto_boot: bool = "nis.shouldAutoBoot", AT_START, BOOLEAN, default "true",
                "Whether the node boots with a random key when nis.bootKey is not set";
            boot_key: Option<PrivateKey> = "nis.bootKey", AT_START, SECRET, default "",
                "Private key of the node's identity, also the first that harvests. Keep it in the file, never on the command line";
            boot_name: String = "nis.bootName", AT_START, TEXT, derived "address of the boot key",
                "Name of the node";
            protocol: &'static str = "nem.protocol", AT_START, PROTOCOL, default "http",
                "Protocol of the endpoint that the node announces; the node itself always serves plain HTTP";
            host: String = "nem.host", AT_START, HOST, default "127.0.0.1",
                "Host of the endpoint that the node announces; does not limit who can connect";
            https_port: u16 = "nem.httpsPort", AT_START, PORT, default "7891",
                "Port of the endpoint that the node announces if nem.protocol is https; the node does not listen there";
        }
    }
    /// Settings of the HTTP interface.
    pub struct HttpSettings {
        "HTTP interface" {
            bind: Bind = "nisd.bindAddress", AT_START, BIND, default "*",
                "Address on which both interfaces listen (--bind). A private network with demo keys is created with localhost";
            port: u16 = "nem.httpPort", AT_START, PORT, default "7890",
                "Port of the HTTP interface (--http-port); 0 lets the system choose";
            context: String = "nem.apiContext", AT_START, CONTEXT, default "",
                "Path in front of all paths of the HTTP interface, which --node http://HOST:PORT/PATH of commands ends with";
            dos_filter: bool = "nem.useDosFilter", LIVE, BOOLEAN, default "true",
                "Whether each client is limited to 50 requests a second on each port; requests with local access are exempt";
            local_access: LocalAccess = "nisd.localAccess", LIVE, LOCAL_ACCESS, default "cookie",
                "What gives a request of this machine local access: cookie, the secret of the file local-cookie in the data folder, sent as Authorization: Bearer; or address, its address, as in NIS1: then every client of a proxy on this machine has local access, unless the proxy names its clients";
            local: LocalAddresses = "nis.additionalLocalIps", LIVE, LOCAL_ADDRESSES, default "",
                "Clients that may have local access, besides 127.0.0.1, ::1, and those that connect from the address at which they reach the node, which are on this machine";
            trusted_proxies: AddressRanges = "nisd.trustedProxies", LIVE, ADDRESS_RANGES, default "",
                "Reverse proxies in front of this node: a request from one of them counts for the client that X-Forwarded-For names or, without it, Forwarded; the proxy must write or remove both. From any other client such a header names nobody and removes local access. Without such a header, a request from one of them has local access with the secret only";
            host_names: Vec<String> = "nisd.hostNames", LIVE, HOST_NAMES, default "",
                "Names, besides nem.host, under which browsers and proxies reach this node. By its address alone, a request has local access or gets the metrics only if its Host is local or one of these, and its Origin, if any, is the same host or in nisd.localOrigins; otherwise a foreign web page could send such a request from a browser on this machine";
            local_origins: Vec<String> = "nisd.localOrigins", LIVE, ORIGINS, default "",
                "Origins of web pages, such as http://127.0.0.1:3000, that may have what an address alone gives; otherwise only this node's own pages have it";
            allowed_harvesters: Vec<Address> = "nis.allowedHarvesterAddresses", LIVE, ADDRESSES, default "",
                "Accounts whose private keys requests may contain; nothing allows all";
            explorer: bool = "nisd.explorer", AT_START, BOOLEAN, default "true",
                "Whether the explorer page /explorer is served";
            metrics: Option<SocketAddr> = "nisd.metricsBind", AT_START, LISTENER, default "",
                "Address and port that serve GET /metrics to every client, and nothing else: for a Prometheus on another machine. Without it only clients of this machine and those with local access get the metrics, on the HTTP port";
        }
        "Limits on connections" {
            connections: usize = "nisd.maxConnections", LIVE, integer(16, 1_000_000), default "10000",
                "Maximum open connections of both ports together; a further one evicts the longest idle one of the client with the most, in the network with the most";
            connections_per_address: usize = "nisd.maxConnectionsPerAddress", LIVE, integer(1, 1_000_000), default "250",
                "Maximum open connections of one IPv4 address, or of the first 64 bits of an IPv6 address, on both ports together; this machine and nisd.trustedProxies are exempt";
            buffered: usize = "nisd.maxBuffered", LIVE, size("1M", "64G"), default "128M",
                "Maximum bytes of requests and unsent responses of all connections; beyond it, the client that holds most loses the connection that holds most. One network (a /24 of IPv4, a /48 of IPv6) may hold an eighth of it";
            idle_timeout: Duration = "nisd.idleTimeout", LIVE, seconds(1, 3_600), default "30",
                "Seconds after which an idle HTTP connection is closed";
        }
    }
    /// Settings of the websocket interface.
    pub struct WebsocketSettings {
        "Websocket interface" {
            port: u16 = "nem.websocketPort", AT_START, PORT, default "7778",
                "Port of the websocket interface (--websocket-port); 0 lets the system choose";
            idle_timeout: Duration = "nisd.websocketIdleTimeout", LIVE, seconds(10, 86_400), default "300",
                "Seconds without traffic after which a websocket session is closed";
            registered_addresses: usize = "nisd.maxRegisteredAddresses", LIVE, integer(1, 100_000), default "1000",
                "Maximum accounts that one session can register for messages; a further SUBSCRIBE is answered with ERROR, a SEND on /errors";
        }
    }
    /// Settings for peers and harvesting.
    pub struct PeerSettings {
        "Peers and harvesting" {
            auto_harvest: bool = "nis.shouldAutoHarvestOnBoot", AT_START, BOOLEAN, default "true",
                "Whether harvesting starts at boot with nis.bootKey and nis.additionalHarvesterPrivateKeys";
            harvester_keys: Vec<PrivateKey> = "nis.additionalHarvesterPrivateKeys", AT_START, SECRETS, default "",
                "Further private keys to harvest with";
            unlocked_limit: i32 = "nis.unlockedLimit", AT_START, integer(0, I32_MAX), default "4",
                "Maximum accounts that harvest on this node";
            hosts: Vec<Endpoint> = "nisd.peers", LIVE, ENDPOINTS, default "",
                "Initial peers (--peer), in addition to those of peers-config_NETWORK.json beside the configuration file. Without that file and this setting, mainnet and testnet use NIS1's built-in peers. The key of each is pinned when it first answers";
            loopback: bool = "nisd.loopbackPeers", AT_START, BOOLEAN, default "false",
                "Whether peers of a private network may be at loopback addresses without being listed in nisd.peers or the peers file: for networks on one machine. Otherwise a stranger could make this node call services of this machine. Has no effect on mainnet, testnet and mijinnet";
            checkpoint: Option<Checkpoint> = "nisd.trustBelow", AT_START, CHECKPOINT, default "",
                "Trusted checkpoint (--trust-below): while this node is far behind, it imports no blocks of peers unless they lead to this block, and verifies no signatures and proofs below it";
            announced_version: Version = "nisd.announcedVersion", AT_START, VERSION, default "0.6.102",
                "Version of NIS1 that this node announces to peers and in /node/info. Reward programmes for nodes may require the current one";
            node_limit: usize = "nis.nodeLimit", AT_START, integer(0, I32_MAX), default "5",
                "Peers per query or broadcast";
            time_sync_node_limit: usize = "nis.timeSyncNodeLimit", AT_START, integer(0, I32_MAX), default "20",
                "Peers queried for their time";
            binary_transport: bool = "nis.useBinaryTransport", AT_START, BOOLEAN, default "true",
                "Whether requests to peers are binary instead of JSON";
            use_network_time: bool = "nis.useNetworkTime", AT_START, BOOLEAN, default "true",
                "Whether the clock follows that of peers";
            ip_detection: IpDetection = "nis.ipDetectionMode", AT_START, IP_DETECTION, default "AutoRequired",
                "Whether peers are queried for the node's own address";
            unaudited_paths: Vec<String> = "nem.nonAuditedApiPaths", LIVE, PATHS, default "/heartbeat|/status|/chain/height|/chain/score|/chain/last-block|/chain/hashes-from|/push/transaction|/node/ping|/node/info|/node/extended-info|/node/peer-list/active|/account/get|/account/status|/account/unconfirmedTransactions|/account/transfers/all|/account/get/batch",
                "Paths that /debug/connections/incoming leaves out, joined by |; not case-sensitive";
        }
    }
}

/// Settings of NIS1 that have no effect in this node, because they concern something that only NIS1 has, and why.
pub(super) const IGNORED: [(&str, &str); 6] = [
    ("nem.shortServerName", "Name of NIS1's lock file; here the folder of the store is locked"),
    (
        "nem.maxThreads",
        "Threads that serve requests; this node has one thread and limits the work of each client instead",
    ),
    ("nem.webContext", "Not used by NIS1 either"),
    ("nem.homePath", "Not used by NIS1 either"),
    (
        "nem.shutdownPath",
        "Path that NIS1 calls to stop another instance on its port; this node stops none, and reports that the port is in use",
    ),
    (
        "nis.delayBlockLoading",
        "Whether NIS1 listens before it has read all blocks; this node reads none at its start, and listens before it boots",
    ),
];

/// Returns why a setting of NIS1 has no effect in this node; `None` for any other.
pub(super) fn ignored(name: &str) -> Option<&'static str> {
    IGNORED.iter().find(|(ignored, _)| *ignored == name).map(|(_, meaning)| *meaning)
}

/// Returns all settings in the order of the table.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    SECTIONS.iter().flat_map(|(_, keys)| *keys)
}

/// Returns the setting with this exact name.
pub fn find(name: &str) -> Option<&'static Key> {
    keys().find(|key| key.name == name)
}

/// Returns whether a key is a setting of this node or of NIS1.
pub(super) fn is_known(name: &str) -> bool {
    find(name).is_some() || ignored(name).is_some()
}

/// Longest unknown key for which a suggestion is searched; no setting has a longer one.
const MAX_KEY: usize = 64;
/// Returns the setting that `unknown` most likely means: one within a small edit distance, else one that differs only
/// in its prefix.
pub(super) fn suggest(unknown: &str) -> Option<&'static str> {
    if unknown.len() > MAX_KEY {
        return None;
    }
    let unknown = unknown.to_lowercase();
    let edit_distance = |name: &str| strsim::levenshtein(&unknown, &name.to_lowercase());
    let (distance, name) = keys().map(|key| (edit_distance(key.name), key.name)).min()?;
    if distance <= 2.max(name.len() / 5) {
        return Some(name);
    }
    let behind = unknown.split_once('.').map_or(unknown.as_str(), |(_, rest)| rest);
    let is_same = |name: &str| name.split_once('.').is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(behind));
    keys().map(|key| key.name).find(|name| is_same(name))
}

/// Formats the table for a person, in lines of about `width` characters.
pub fn print(width: usize) -> String {
    let width = width.clamp(40, 120);
    let mut text = String::from(INTRODUCTION);
    for (title, keys) in SECTIONS {
        let _ = writeln!(text, "\n{}\n", title.to_uppercase());
        for key in *keys {
            let used = if key.is_live { " (reloaded on SIGHUP)" } else { "" };
            let _ = writeln!(text, "  {}{used}\n{}", key.name, key.describe(width));
        }
    }
    text.push_str("\nNIS1'S OWN SOFTWARE ONLY (ACCEPTED, WITHOUT EFFECT)\n");
    for (name, meaning) in IGNORED {
        let _ = writeln!(text, "\n  {name}");
        wrap(&mut text, &format!("{meaning}."), width);
    }
    text
}

/// Returns a configuration file in which every setting is described and, but for the network, commented out, with its default.
pub fn file() -> String {
    const WIDTH: usize = 96;
    let mut text = String::from(FILE_INTRODUCTION);
    for (title, keys) in SECTIONS {
        let _ = writeln!(text, "\n\n# {}", title.to_uppercase());
        for key in *keys {
            text.push('\n');
            for line in key.describe(WIDTH).lines() {
                let _ = writeln!(text, "# {}", line.trim_start());
            }
            let value = if let DefaultValue::Value(value) = key.default { value } else { "" };
            // A file that sets nothing is rejected.
            let mark = if key.name == "nem.network" { "" } else { "#" };
            let _ = writeln!(text, "{mark}{}", format!("{} = {value}", key.name).trim_end());
        }
    }
    text
}

impl Key {
    /// Returns meaning, allowed values and default in indented lines.
    fn describe(&self, width: usize) -> String {
        let default = match self.default {
            DefaultValue::Value("") => "nothing",
            DefaultValue::Value(value) => value,
            DefaultValue::Derived(how) => how,
        };
        let mut text = String::new();
        wrap(&mut text, &format!("{}.", self.meaning), width);
        wrap(&mut text, &format!("Allowed: {}", self.allowed), width);
        wrap(&mut text, &format!("Default: {default}"), width);
        text
    }
}

const FILE_INTRODUCTION: &str = "\
# Settings of a node, for `nisd run --config FILE`. Lines that begin with # are comments; each
# setting is shown with its default. Only the network is set, since a file that sets nothing is
# rejected. `nisd config check FILE` checks the file.
#
# The file may contain private keys: keep it readable by the node only.
";

const INTRODUCTION: &str = "\
Settings of nisd, from the file given with --config, one `key = value` per line, or from
the command line as --set KEY=VALUE. Keys that begin with nem. and nis. are those of NIS1
and have the same meaning. A running node reloads the file when it receives the signal
SIGHUP; settings without the mark (reloaded on SIGHUP) change at the next start.
";

/// Appends words in indented lines of at most `width` characters; a longer word gets its own line. Lists may also break
/// after their bars.
fn wrap(text: &mut String, words: &str, width: usize) {
    const INDENT: &str = "      ";
    let mut column = 0;
    let mut gap = INDENT;
    for word in words.split_inclusive([' ', '|']) {
        let bare = word.trim_end();
        let length = bare.chars().count();
        if column > 0 && column + gap.len() + length > width {
            text.push('\n');
            column = 0;
            gap = INDENT;
        }
        text.push_str(gap);
        text.push_str(bare);
        column += gap.len() + length;
        gap = if word.ends_with(' ') { " " } else { "" };
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_have_a_known_prefix() {
        let names: Vec<_> = keys().map(|key| key.name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        for name in names {
            assert!(["nem.", "nis.", "nisd."].iter().any(|prefix| name.starts_with(prefix)), "{name}");
        }
    }

    #[test]
    fn a_file_of_all_defaults_is_commented_but_for_the_network_and_changes_nothing() {
        use super::super::build;
        let read = |text: &str| build(Some(("a".as_ref(), text.as_bytes())), Vec::new(), Some("/home".as_ref()));
        let text = file();
        let effective: Vec<_> = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        assert_eq!(effective, ["nem.network = mainnet"]);
        let set: Vec<_> = text
            .lines()
            .map(|line| line.strip_prefix('#').unwrap_or(line))
            .filter(|line| line.starts_with('n'))
            .collect();
        assert_eq!(set.len(), keys().count());
        let set: String = set.iter().filter(|line| !line.ends_with('=')).map(|line| format!("{line}\n")).collect();
        let (with_all, with_none) = (read(&set).unwrap(), read(&text).unwrap());
        let without_given = |settings| super::super::Settings { explicit: Default::default(), ..settings };
        assert_eq!(format!("{:?}", without_given(with_all)), format!("{:?}", without_given(with_none)));
    }

    #[test]
    fn every_key_of_nis1_is_known() {
        let text = include_str!("../../tests/data/nis1-keys.txt");
        let nis1: BTreeSet<_> = text.lines().collect();
        let names = keys().map(|key| key.name).chain(IGNORED.map(|(name, _)| name));
        let ours: BTreeSet<_> = names.filter(|name| !name.starts_with("nisd.")).collect();
        assert_eq!(ours, nis1);
    }

    #[test]
    fn the_printed_table_names_every_key_within_the_width() {
        let text = print(92);
        for name in keys().map(|key| key.name).chain(IGNORED.map(|(name, _)| name)) {
            assert!(text.contains(&format!("\n  {name}")), "{name}");
        }
        for line in text.lines() {
            assert!(line.chars().count() <= 92, "{line}");
        }
    }

    #[test]
    fn a_mistyped_key_suggests_the_intended_one() {
        for (unknown, meant) in [
            ("nis.blockChainRewritLimit", Some("nis.blockChainRewriteLimit")),
            ("nis.bootkey", Some("nis.bootKey")),
            ("nem.http.Port", Some("nem.httpPort")),
            ("nsi.bootKey", Some("nis.bootKey")),
            ("bootKey", Some("nis.bootKey")),
            ("node.httpport", Some("nem.httpPort")),
            ("nis.trustedProxies", Some("nisd.trustedProxies")),
            ("nis.somethingElseEntirely", None),
            ("java.util.logging.level", None),
            ("", None),
        ] {
            assert_eq!(suggest(unknown), meant, "{unknown}");
        }
        assert_eq!(suggest(&"x".repeat(1_000_000)), None);
    }
}
