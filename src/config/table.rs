//! Every setting of `nisd`, defined once. `nisd settings`, the checks and the reader use this table.
//!
//! Keys that start with `nem.` and `nis.` are NIS1's, with its shipped values as defaults; keys that start with `nisd.`
//! are this node's own.

use std::fmt::Write;

use super::key::Kind::{self, Choice, Integer, Names, Size};
use super::key::{DefaultValue, Key, ReloadEffect, Section, Support};
use super::values::{
    ADDRESS, ADDRESS_RANGES, ADDRESSES, BIND, BOOLEAN, CHECKPOINT, CLOCK, CONTEXT, ENDPOINTS, HASH, HASHES, HOST_NAMES,
    LISTENER, LOCAL_ADDRESSES, NAME, ORIGINS, PATH, SECRET, SECRETS, TEXT, VERSION,
};
use crate::model::BLOCK_CHAIN_FEATURES;

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;
const G: u64 = 1 << 30;
const I32_MAX: i64 = i32::MAX as i64;

/// Optional features of a node, in the order of their bits.
pub const OPTIONAL_FEATURES: &[&str] = &["TRANSACTION_HASH_LOOKUP", "HISTORICAL_ACCOUNT_DATA", "TRACK_EXPIRED_MOSAICS"];

/// Default and maximum size of the address space reserved for the store, for the machine's pointer width.
const MAP_SIZE: &str = if cfg!(target_pointer_width = "32") { "1G" } else { "64G" };
const MAX_MAP_SIZE: u64 = if cfg!(target_pointer_width = "32") { 2 * G } else { 4096 * G };

const BY_NETWORK: &str = "mainnet, mijinnet, testnet: that of the network; others must set it";
const BY_BYTE: &str =
    "testnet: 1; others by network byte: 104 mainnet's height, 152 that of an earlier testnet, else 1";

/// All settings.
pub const SECTIONS: &[Section] = &[
    Section { title: "Network", keys: NETWORK },
    Section { title: "Chain (equal on all nodes of a network)", keys: CHAIN },
    Section { title: "Heights at which rules change (equal on all nodes of a network)", keys: FORKS },
    Section { title: "Node", keys: NODE },
    Section { title: "HTTP interface", keys: HTTP },
    Section { title: "Websocket interface", keys: WEBSOCKET },
    Section { title: "Limits", keys: LIMITS },
    Section { title: "Peers and harvesting", keys: PEERS },
    Section { title: "NIS1's own software only", keys: NIS1_ONLY },
];

const NETWORK: &[Key] = &[
    Key::new(
        "nem.network",
        NAME,
        "mainnet",
        "mainnet, testnet, mijinnet, or any other name for a private network (--network). Without any configuration `nisd run` creates its own private network",
    ),
    Key::new(
        "nem.network.version",
        Integer { min: -128, max: 255 },
        "",
        "Network byte, in decimal: 104 for addresses N… (mainnet), 152 or -104 for T…, 96 for M…",
    )
    .derived(BY_NETWORK),
    Key::new(
        "nem.network.addressStartChar",
        NAME,
        "",
        "First letter of addresses; only compared, because it follows from the network byte",
    )
    .derived("follows from the network byte"),
    Key::new("nem.network.generationHash", HASH, "", "Generation hash of the nemesis block").derived(BY_NETWORK),
    Key::new("nem.network.nemesisSignerAddress", ADDRESS, "", "Address of the account that signed the nemesis block")
        .derived(BY_NETWORK),
    Key::new(
        "nem.network.totalAmount",
        Integer { min: 1, max: (i64::MAX as u64 / 1_000_000) as i64 },
        "",
        "Total supply in whole XEM",
    )
    .derived(BY_NETWORK),
    Key::new(
        "nem.network.nemesisFilePath",
        PATH,
        "",
        "The nemesis block in binary form. Without this file the block is requested from peers",
    )
    .derived("mainnet: nemesis.bin; testnet, mijinnet: nemesis-NETWORK.bin; others must set it"),
];

const CHAIN: &[Key] = &[
    Key::new(
        "nis.blockGenerationTargetTime",
        Integer { min: 10, max: 86_400 },
        "60",
        "Target time between blocks in seconds",
    ),
    Key::new(
        "nis.blockChainRewriteLimit",
        Integer { min: 10, max: 8_640 },
        "360",
        "Maximum number of blocks that can be rolled back; at most the blocks of a day",
    ),
    Key::new(
        "nis.maxTransactionsPerBlock",
        Integer { min: 1, max: 10_000 },
        "120",
        "Maximum transactions in a block, including those nested in others",
    ),
    Key::new(
        "nis.maxTransactions",
        Integer { min: 1, max: 86_400_000 },
        "10000",
        "Maximum transactions in one synchronisation attempt; from nis.maxTransactionsPerBlock to that number times nis.blockChainRewriteLimit",
    ),
    Key::new(
        "nis.blockChainFeatures",
        Names(&BLOCK_CHAIN_FEATURES),
        "PROOF_OF_IMPORTANCE|WB_TIME_BASED_VESTING",
        "Exactly one PROOF_OF_…, exactly one WB_…, and optionally STABILIZE_BLOCK_TIMES",
    ),
    Key::new("nis.ignoreFees", BOOLEAN, "false", "Whether transactions without a fee are valid"),
    Key::new(
        "nis.transactionHashRetentionTime",
        Integer { min: -1, max: I32_MAX },
        "36",
        "Hours for which repeated transactions are rejected as duplicates; -1 for ever; less than 36 counts as 36",
    ),
];

const FORKS: &[Key] = &[
    fork("nis.multisigMOfNForkHeight", "m-of-n multisig accounts"),
    fork("nis.mosaicsForkHeight", "Namespaces and mosaics"),
    fork("nis.firstFeeForkHeight", "First change of fees"),
    fork("nis.remoteAccountForkHeight", "Rules for remote accounts"),
    fork("nis.mosaicRedefinitionForkHeight", "Redefinition of mosaics"),
    fork("nis.secondFeeForkHeight", "Second change of fees"),
    Key::new(
        "nis.treasuryReissuanceForkHeight",
        Integer { min: 1, max: I32_MAX },
        "",
        "Height of mainnet's treasury block. On every private network set it to 1 and the two lists below to nothing: a chain without these transactions stops at this height",
    )
    .derived("3481580; testnet: 1"),
    Key::new(
        "nis.treasuryReissuanceForkTransactionHashes",
        HASHES,
        "",
        "Hashes of the transactions that the treasury block must contain, in order",
    )
    .derived("mainnet's 52 hashes; testnet: nothing"),
    Key::new(
        "nis.treasuryReissuanceForkFallbackTransactionHashes",
        HASHES,
        "",
        "Hashes of the transactions that it must contain otherwise",
    )
    .derived("mainnet's one hash; testnet: nothing"),
];

const fn fork(name: &'static str, meaning: &'static str) -> Key {
    Key::new(name, Integer { min: 1, max: i64::MAX }, "", meaning).derived(BY_BYTE)
}

const NODE: &[Key] = &[
    Key::new("nem.folder", PATH, "%h/nem", "Folder for data; %h is the user's home folder"),
    Key::new("nisd.data", PATH, "", "Folder of the chain store (--data)").derived("nisd/<nem.network> in nem.folder"),
    Key::new(
        "nisd.mapSize",
        Size { min: 16 * M, max: MAX_MAP_SIZE },
        MAP_SIZE,
        "Maximum size of the chain store; reserves address space only, no disk or memory",
    ),
    Key::new("nisd.logLevel", Choice(&["off", "error", "warn", "info", "debug", "trace"]), "info", "Log level (--log)")
        .reloadable(),
    Key::new(
        "nisd.logFormat",
        Choice(&["text", "json"]),
        "text",
        "Log format (--log-format): text, whose lines begin with their priority if systemd reads them, or one JSON object per line",
    ),
    Key::new("nisd.clock", CLOCK, "system", "Source of network time (--clock); any value but system is for tests"),
    Key::new(
        "nis.optionalFeatures",
        Names(OPTIONAL_FEATURES),
        "TRANSACTION_HASH_LOOKUP",
        "Optional parts of the HTTP interface. HISTORICAL_ACCOUNT_DATA stores account data of earlier heights, beginning with the next block; `nisd reindex` adds the heights before it",
    ),
    Key::new(
        "nisd.historyFrom",
        Integer { min: 1, max: I32_MAX },
        "1",
        "Height from which HISTORICAL_ACCOUNT_DATA keeps account data",
    ),
    Key::new(
        "nisd.forgetHashes",
        BOOLEAN,
        "false",
        "Whether transactions are found by their hashes only for nis.transactionHashRetentionTime, as in NIS1, instead of for ever",
    ),
    Key::new(
        "nis.shouldAutoBoot",
        BOOLEAN,
        "true",
        "Whether the node boots with a random key when nis.bootKey is not set",
    ),
    Key::new(
        "nis.bootKey",
        SECRET,
        "",
        "Private key of the node's identity, also the first that harvests. Keep it in the file, never on the command line",
    ),
    Key::new("nis.bootName", TEXT, "", "Name of the node").derived("address of the boot key"),
    Key::new(
        "nem.protocol",
        Choice(&["http", "https"]),
        "http",
        "Protocol of the endpoint that the node announces; the node itself always serves plain HTTP",
    ),
    Key::new(
        "nem.host",
        NAME,
        "127.0.0.1",
        "Host of the endpoint that the node announces; does not limit who can connect",
    ),
    Key::new(
        "nem.httpsPort",
        port(),
        "7891",
        "Port of the endpoint that the node announces if nem.protocol is https; the node does not listen there",
    ),
];

const fn port() -> Kind {
    Integer { min: 0, max: 65_535 }
}

const HTTP: &[Key] = &[
    Key::new(
        "nisd.bindAddress",
        BIND,
        "*",
        "Address on which both interfaces listen (--bind). A private network with demo keys is created with localhost",
    ),
    Key::new("nem.httpPort", port(), "7890", "Port of the HTTP interface (--http-port); 0 lets the system choose"),
    Key::new("nem.apiContext", CONTEXT, "", "Path in front of all paths of the HTTP interface"),
    Key::new(
        "nem.useDosFilter",
        BOOLEAN,
        "true",
        "Whether each client except 127.0.0.1 is limited to 50 requests a second on each port",
    ).reloadable(),
    Key::new(
        "nis.additionalLocalIps",
        LOCAL_ADDRESSES,
        "",
        "Clients with local access, besides 127.0.0.1 and ::1",
    ).reloadable(),
    Key::new(
        "nisd.trustedProxies",
        ADDRESS_RANGES,
        "",
        "Reverse proxies in front of this node: a request from one of them counts for the client that X-Forwarded-For or Forwarded names. From any other client such a header names nobody and removes local access",
    ).reloadable(),
    Key::new(
        "nisd.hostNames",
        HOST_NAMES,
        "",
        "Names, besides nem.host, under which browsers and proxies reach this node. A request has local access only if its Host is local or one of these, and its Origin, if any, is the same host or in nisd.localOrigins; otherwise a foreign web page could send such a request from a browser on this machine",
    ).reloadable(),
    Key::new(
        "nisd.localOrigins",
        ORIGINS,
        "",
        "Origins of web pages, such as http://127.0.0.1:3000, with local access; otherwise only this node's own pages have it",
    ).reloadable(),
    Key::new(
        "nis.allowedHarvesterAddresses",
        ADDRESSES,
        "",
        "Accounts whose private keys requests may contain; nothing allows all",
    ).reloadable(),
    Key::new(
        "nisd.gzip",
        BOOLEAN,
        "true",
        "Whether responses to GET are compressed if the client accepts it and it is worthwhile",
    ).reloadable(),
    Key::new(
        "nisd.explorer",
        BOOLEAN,
        "true",
        "Whether the explorer page /explorer is served",
    ),
    Key::new(
        "nisd.metricsBind",
        LISTENER,
        "",
        "Address and port that serve GET /metrics to every client, and nothing else: for a Prometheus on another machine. Without it only local clients get the metrics, on the HTTP port",
    ),
];

const WEBSOCKET: &[Key] = &[
    Key::new(
        "nem.websocketPort",
        port(),
        "7778",
        "Port of the websocket interface (--websocket-port); 0 lets the system choose",
    ),
    Key::new(
        "nisd.blocksNewBody",
        Choice(&["auto", "object", "number"]),
        "auto",
        "Body of /blocks/new: {\"height\":N} as NIS1 sends it, the number N, or auto: the number for clients that connect without any header, else the object",
    ),
    Key::new(
        "nisd.registerOnSubscribe",
        BOOLEAN,
        "true",
        "Whether subscribing to a channel of an account also registers the account, as /w/api/account/subscribe does",
    ),
    Key::new(
        "nisd.implicitSubscription",
        BOOLEAN,
        "true",
        "Whether /w/api/account/subscribe subscribes a session without any subscription to /transactions/<ADDRESS>",
    ),
    Key::new(
        "nisd.forgivingStomp",
        BOOLEAN,
        "true",
        "Whether STOMP frames are parsed leniently: blanks around header values, SUBSCRIBE without id, receipts",
    ),
];

const LIMITS: &[Key] = &[
    Key::new(
        "nisd.maxConnections",
        Integer { min: 16, max: 1_000_000 },
        "10000",
        "Maximum open connections of both ports together; a further one evicts a connection of the client with the most",
    ).reloadable(),
    Key::new(
        "nisd.maxHttpConnections",
        Integer { min: 8, max: 1_000_000 },
        "",
        "Maximum open connections of the HTTP port, at most nisd.maxConnections; a further one evicts a connection of \
         the client with the most",
    ).reloadable()
    .derived("four fifths of nisd.maxConnections: one fifth is reserved for websockets"),
    Key::new(
        "nisd.maxWebsocketConnections",
        Integer { min: 8, max: 1_000_000 },
        "",
        "Maximum open connections of the websocket port, at most nisd.maxConnections; a further one evicts a connection \
         of the client with the most",
    ).reloadable()
    .derived("four fifths of nisd.maxConnections: one fifth is reserved for HTTP"),
    Key::new(
        "nisd.maxConnectionsPerAddress",
        Integer { min: 1, max: 1_000_000 },
        "250",
        "Maximum open connections of one IPv4 address or IPv6 prefix on both ports together; this machine and nisd.trustedProxies are exempt",
    ).reloadable(),
    Key::new(
        "nisd.ipv6PrefixLength",
        Integer { min: 32, max: 128 },
        "64",
        "Number of leading bits of an IPv6 address that identify a client; the owner of an address usually has all addresses with the same first 64 bits",
    ),
    Key::new(
        "nisd.maxBuffered",
        Size { min: M, max: 64 * G },
        "128M",
        "Maximum bytes of requests and unsent responses of all connections; beyond it, the client that holds most loses the connection that holds most. One client except 127.0.0.1 may hold a quarter of it",
    ).reloadable(),
    Key::new(
        "nisd.maxBodySize",
        Size { min: K, max: M },
        "1M",
        "Maximum body of a request; a longer one gets 413. Each route also has its own limit, and the lower one applies: mostly 8K, 64K for announcements and batches, the largest block for blocks and transactions that peers push (481K with nis.maxTransactionsPerBlock = 120, at most 1M, 256K in JSON)",
    ).reloadable(),
    Key::new(
        "nisd.idleTimeout",
        Integer { min: 1, max: 3_600 },
        "30",
        "Seconds after which an idle HTTP connection is closed",
    ).reloadable(),
    Key::new(
        "nisd.requestTimeout",
        Integer { min: 1, max: 3_600 },
        "30",
        "Seconds within which a request must arrive completely and its response must be received",
    ).reloadable(),
    Key::new(
        "nisd.websocketIdleTimeout",
        Integer { min: 10, max: 86_400 },
        "300",
        "Seconds without traffic after which a websocket session is closed",
    ).reloadable(),
    Key::new(
        "nisd.sendTimeout",
        Integer { min: 1, max: 3_600 },
        "10",
        "Seconds after which a subscriber that does not receive a message is dropped",
    ).reloadable(),
    Key::new(
        "nisd.maxBacklog",
        Size { min: 64 * K, max: 256 * M },
        "512K",
        "Maximum bytes of messages that wait for one subscriber; beyond it the subscriber is dropped",
    ).reloadable(),
    Key::new("nisd.maxSubscriptions", Integer { min: 1, max: 100_000 }, "1000", "Maximum subscriptions of one session").reloadable(),
    Key::new(
        "nisd.maxRegisteredAddresses",
        Integer { min: 1, max: 100_000 },
        "1000",
        "Maximum accounts that one session can register for messages; further ones get an error",
    ).reloadable(),
];

const PEERS: &[Key] = &[
    Key::new(
        "nis.shouldAutoHarvestOnBoot",
        BOOLEAN,
        "true",
        "Whether harvesting starts at boot with nis.bootKey and nis.additionalHarvesterPrivateKeys",
    ),
    Key::new("nis.additionalHarvesterPrivateKeys", SECRETS, "", "Further private keys to harvest with"),
    Key::new("nis.unlockedLimit", Integer { min: 0, max: I32_MAX }, "4", "Maximum accounts that harvest on this node"),
    Key::new(
        "nisd.peers",
        ENDPOINTS,
        "",
        "Initial peers (--peer), in addition to those of peers-config_NETWORK.json beside the configuration file. Without that file and this setting, mainnet and testnet use NIS1's built-in peers. The key of each is pinned when it first answers",
    ).reloadable(),
    Key::new(
        "nisd.trustBelow",
        CHECKPOINT,
        "",
        "Trusted checkpoint (--trust-below): while this node is far behind, it imports no blocks of peers unless they lead to this block, and verifies no signatures and proofs below it",
    ),
    Key::new(
        "nisd.announcedVersion",
        VERSION,
        "0.6.102",
        "Version of NIS1 that this node announces to peers and in /node/info. Reward programmes for nodes may require the current one",
    ),
    Key::new("nis.nodeLimit", Integer { min: 0, max: I32_MAX }, "5", "Peers per query or broadcast"),
    Key::new("nis.timeSyncNodeLimit", Integer { min: 0, max: I32_MAX }, "20", "Peers queried for their time"),
    Key::new("nis.useBinaryTransport", BOOLEAN, "true", "Whether requests to peers are binary instead of JSON"),
    Key::new("nis.useNetworkTime", BOOLEAN, "true", "Whether the clock follows that of peers"),
    Key::new(
        "nis.ipDetectionMode",
        Choice(&["AutoRequired", "AutoOptional", "Disabled"]),
        "AutoRequired",
        "Whether peers are queried for the node's own address",
    ),
    Key::new(
        "nem.nonAuditedApiPaths",
        TEXT,
        "/heartbeat|/status|/chain/height|/chain/score|/chain/last-block|/chain/hashes-from|/push/transaction|/node/ping|/node/info|/node/extended-info|/node/peer-list/active|/account/get|/account/status|/account/unconfirmedTransactions|/account/transfers/all|/account/get/batch",
        "Paths that /debug/connections/incoming leaves out, joined by |; not case-sensitive",
    ).reloadable(),
];

const NIS1_ONLY: &[Key] = &[
    Key::new("nem.shortServerName", TEXT, "Nis", "Name of NIS1's lock file; here the folder of the store is locked").ignored(),
    Key::new("nem.maxThreads", Integer { min: 1, max: I32_MAX }, "500", "Threads that serve requests; this node has one thread and limits the work of each client instead").ignored(),
    Key::new("nem.webContext", TEXT, "", "Not used by NIS1 either").ignored(),
    Key::new("nem.homePath", TEXT, "", "Not used by NIS1 either").ignored(),
    Key::new("nem.shutdownPath", TEXT, "/shutdown", "Path that NIS1 calls to stop another instance on its port; this node stops none, and reports that the port is in use").ignored(),
    Key::new("nis.delayBlockLoading", BOOLEAN, "true", "Whether NIS1 listens before it has read all blocks; this node reads none at its start, and listens before it boots")
        .ignored(),
];

/// Returns all settings in the order of the table.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    SECTIONS.iter().flat_map(|section| section.keys)
}

/// Returns the setting with this exact name.
pub fn find(name: &str) -> Option<&'static Key> {
    keys().find(|key| key.name == name)
}

/// Formats the table for a person, in lines of about `width` characters.
pub fn print(width: usize) -> String {
    let width = width.clamp(40, 120);
    let mut text = String::from(INTRODUCTION);
    for section in SECTIONS {
        let _ = writeln!(text, "\n{}\n", section.title.to_uppercase());
        for key in section.keys {
            print_key(&mut text, key, width);
        }
    }
    text
}

/// Returns a configuration file in which every setting is described and commented out, with its default.
pub fn file() -> String {
    const WIDTH: usize = 96;
    let mut text = String::from(FILE_INTRODUCTION);
    for section in SECTIONS {
        let _ = writeln!(text, "\n\n# {}", section.title.to_uppercase());
        for key in section.keys.iter().filter(|key| key.support == Support::Active) {
            let mut words = String::new();
            wrap(&mut words, &format!("{}.", key.meaning), WIDTH);
            wrap(&mut words, &format!("Allowed: {}.", key.kind), WIDTH);
            let value = match key.default {
                DefaultValue::Value(value) => value,
                DefaultValue::Derived(how) => {
                    wrap(&mut words, &format!("Default: {how}."), WIDTH);
                    ""
                }
            };
            text.push('\n');
            for line in words.lines() {
                let _ = writeln!(text, "# {}", line.trim_start());
            }
            let _ = writeln!(text, "#{}", format!("{} = {value}", key.name).trim_end());
        }
    }
    text
}

const FILE_INTRODUCTION: &str = "\
# Settings of a node, for `nisd run --config FILE`. Lines that begin with # are comments; each
# setting is shown with its default. `nisd config check FILE` checks the file.
#
# The file may contain private keys: keep it readable by the node only.
";

const INTRODUCTION: &str = "\
Settings of nisd, from the file given with --config, one `key = value` per line, or from
the command line as --set KEY=VALUE. Keys that begin with nem. and nis. are those of NIS1
and have the same meaning. A running node reloads the file when it receives the signal
SIGHUP; settings without the mark (reloaded on SIGHUP) change at the next start.
";

fn print_key(text: &mut String, key: &Key, width: usize) {
    let default = match key.default {
        DefaultValue::Value("") => "nothing",
        DefaultValue::Value(value) => value,
        DefaultValue::Derived(how) => how,
    };
    let used = match (key.support, key.reload_effect) {
        (Support::Ignored, _) => " (accepted, has no effect)",
        (Support::Active, ReloadEffect::Immediate) => " (reloaded on SIGHUP)",
        (Support::Active, ReloadEffect::RestartRequired) => "",
    };
    let _ = writeln!(text, "  {}{used}", key.name);
    wrap(text, &format!("{}.", key.meaning), width);
    wrap(text, &format!("Allowed: {}", key.kind), width);
    wrap(text, &format!("Default: {default}"), width);
    text.push('\n');
}

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
    fn every_default_is_allowed() {
        for key in keys() {
            if let DefaultValue::Value(value) = key.default {
                assert_eq!(key.kind.check(value), Ok(()), "{}", key.name);
            }
        }
    }

    #[test]
    fn a_file_of_all_defaults_is_commented_and_changes_nothing() {
        use super::super::build;
        let read = |text: &str| build(Some(("a".as_ref(), text.as_bytes())), Vec::new(), Some("/home".as_ref()));
        let text = file();
        assert!(text.lines().all(|line| line.is_empty() || line.starts_with('#')), "{text}");
        let set: Vec<_> =
            text.lines().filter_map(|line| line.strip_prefix('#')).filter(|line| line.starts_with('n')).collect();
        assert_eq!(set.len(), keys().filter(|key| key.support == Support::Active).count());
        let set: String = set.iter().filter(|line| !line.ends_with('=')).map(|line| format!("{line}\n")).collect();
        let (with_all, with_none) = (read(&set).unwrap(), read("").unwrap());
        let without_given =
            |settings| super::super::Settings { explicit: std::default::Default::default(), ..settings };
        assert_eq!(format!("{:?}", without_given(with_all)), format!("{:?}", without_given(with_none)));
    }

    #[test]
    fn every_key_of_nis1_is_known() {
        let text = include_str!("../../tests/data/nis1-keys.txt");
        let nis1: BTreeSet<_> = text.lines().collect();
        let ours: BTreeSet<_> = keys().map(|key| key.name).filter(|name| !name.starts_with("nisd.")).collect();
        assert_eq!(ours, nis1);
    }

    #[test]
    fn the_printed_table_names_every_key_within_the_width() {
        let text = print(92);
        for key in keys() {
            assert!(text.contains(&format!("\n  {}", key.name)), "{}", key.name);
        }
        for line in text.lines() {
            assert!(line.chars().count() <= 92, "{line}");
        }
    }
}
