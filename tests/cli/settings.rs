//! Configurations of users: they yield settings, or a list of everything that is wrong with them.

use std::path::Path;
use std::time::Duration;

use nisd::clock::ClockMode;
use nisd::config::{
    Bind, ConfigError, IpDetection, KnownPeers, NemesisSource, Origin, Override, Settings, build, load,
};
use nisd::ip::{AddressRanges, Scope};
use nisd::model::address::NetworkByte;
use nisd::model::network::Forks;
use nisd::model::units::Amount;
use proptest::prelude::*;

const HOME: &str = "/home/someone";
const REWRITE_LIMIT: &str = "nis.blockChainRewriteLimit";
/// The configuration of a recorded chain.
const TINY: &str = include_str!("../data/recorded/chains/tiny/network.properties");

fn file(text: &str) -> Result<Settings, ConfigError> {
    build(Some((Path::new("conf/node.properties"), text.as_bytes())), Vec::new(), Some(Path::new(HOME)))
}

fn flags(pairs: &[(&'static str, &str, &str)]) -> Result<Settings, ConfigError> {
    let flag = |(flag, key, value): &(&'static str, &str, &str)| Override {
        key: (*key).to_owned(),
        value: (*value).to_owned().into(),
        origin: Origin::Flag(flag),
    };
    build(None, pairs.iter().map(flag).collect(), Some(Path::new(HOME)))
}

fn notices(settings: &Settings) -> String {
    settings.diagnostics.iter().map(|notice| format!("{} {notice}\n", notice.level)).collect()
}

#[test]
fn unset_settings_have_their_defaults() {
    let settings = flags(&[]).unwrap();
    assert_eq!((settings.http.port, settings.websocket.port), (7890, 7778));
    assert_eq!((settings.http.bind, settings.node.clock), (Bind::All, ClockMode::System));
    assert!(settings.http.dos_filter && settings.node.auto_boot);
    assert_eq!(settings.http.idle_timeout, Duration::from_secs(30));
    assert_eq!(notices(&settings), "");
}

#[test]
fn a_file_that_names_no_network_is_for_mainnet() {
    let settings = file("nem.httpPort = 7890").unwrap();
    let network = &settings.network;
    assert_eq!((network.name.as_str(), network.byte), ("mainnet", NetworkByte::MAINNET));
    assert_eq!(network.total_amount, Amount::whole(9_000_000_240));
    assert_eq!(network.nemesis_signer.as_str(), "NANEMOABLAGR72AZ2RV3V4ZHDCXW25XQ73O7OBT5");
    assert!(matches!(settings.nemesis, NemesisSource::Embedded(_)));
    assert!(settings.nemesis_hash.unwrap().to_string().starts_with("438cf6375dab5a0d"));
    assert_eq!(settings.data, Path::new("/home/someone/nem/nisd/mainnet"));
    let chain = &network.chain;
    assert_eq!((chain.target_time, chain.rewrite_limit, chain.max_transactions), (60, 360, 10_000));
    assert_eq!((chain.max_transactions_per_block, chain.hash_retention_hours), (120, Some(36)));
    assert_eq!((chain.proof_of_stake, chain.immediate_vesting, chain.ignore_fees), (false, false, false));
    let forks = &chain.forks;
    assert_eq!((forks.multisig_m_of_n, forks.mosaics, forks.first_fee), (199_800, 440_000, 875_000));
    assert_eq!((forks.remote_account, forks.mosaic_redefinition), (1_025_000, 1_110_000));
    assert_eq!((forks.second_fee, forks.treasury_reissuance), (1_250_000, 3_481_580));
    assert_eq!((forks.treasury_hashes.len(), forks.treasury_fallback_hashes.len()), (52, 1));
    assert!(forks.treasury_hashes[51].to_string().starts_with("d74d39bae30e97bf"));
    assert_eq!(notices(&settings), "");
}

#[test]
fn the_other_known_networks_have_their_constants() {
    let testnet = flags(&[("--set", "nem.network", "testnet")]).unwrap();
    assert_eq!(testnet.network.nemesis_signer.as_str(), "TAUKHZ5VAUMJ7WG6CZLTVEJERBUZ3Y5EL7SXZVJP");
    assert!(matches!(testnet.nemesis, NemesisSource::Embedded(_)));
    assert_eq!(testnet.network.chain.forks, Forks::all_past(), "today's testnet began after all of them");
    assert_eq!(notices(&testnet), "");
    let set = [("--set", "nem.network", "testnet"), ("--set", "nis.secondFeeForkHeight", "7")];
    assert_eq!(flags(&set).unwrap().network.chain.forks, Forks { second_fee: 7, ..Forks::all_past() });
    let mijinnet = flags(&[("--set", "nem.network", "mijinnet")]).unwrap();
    assert_eq!(mijinnet.network.nemesis_signer.as_str(), "MAMIJINSVHBIPKT5XCFHJYGWL7WVRZQ6U7JG7LLN");
    assert_eq!(mijinnet.network.byte, NetworkByte::MIJINNET);
    assert!(matches!(mijinnet.nemesis, NemesisSource::Embedded(_)));
    assert_eq!(mijinnet.network.chain.forks.second_fee, 1);
    assert!(notices(&mijinnet).contains("nis.treasuryReissuanceForkHeight is not set"));
}

/// The file of a private network with worthless keys.
const DEVNET: &str = "
nem.network = devnet
nem.network.version = 152
nem.network.addressStartChar = T
nem.network.generationHash = 63ef624d9135326531fe275fe44a42984de0f2dc46985d1ab51b9ed2eeae0399
nem.network.nemesisSignerAddress = TDJWRFZQCLD6YGJMHD64AC4X372EIMWVUB2L56J7
nem.network.totalAmount = 8999999999
nem.network.nemesisFilePath = nemesis-devnet.bin
nis.bootKey = 309327d0fe28dc67af3603413586381ed6902376451c5a7322452201ef6d9a6d
nis.bootName = devnet-1
nis.ipDetectionMode = Disabled
nis.blockGenerationTargetTime = 10
nis.blockChainRewriteLimit = 10
nis.maxTransactions = 1200
nis.blockChainFeatures = PROOF_OF_STAKE|WB_IMMEDIATE_VESTING|STABILIZE_BLOCK_TIMES
nis.treasuryReissuanceForkHeight = 1
nis.treasuryReissuanceForkTransactionHashes =
nis.treasuryReissuanceForkFallbackTransactionHashes =
nis.multisigMOfNForkHeight = 1
nis.mosaicsForkHeight = 1
nis.firstFeeForkHeight = 1
nis.secondFeeForkHeight = 1
nis.remoteAccountForkHeight = 1
nis.mosaicRedefinitionForkHeight = 1
";

#[test]
fn a_private_network_of_an_operator_is_accepted_unchanged() {
    let settings = file(DEVNET).unwrap();
    let chain = &settings.network.chain;
    assert_eq!(settings.network.byte, NetworkByte::TESTNET);
    assert_eq!(settings.nemesis, NemesisSource::File("conf/nemesis-devnet.bin".into()));
    assert!(chain.proof_of_stake && chain.immediate_vesting);
    assert!(chain.stabilize_block_times);
    assert_eq!((chain.forks.treasury_reissuance, chain.forks.treasury_hashes.len()), (1, 0));
    assert_eq!(settings.node.boot_name.as_deref(), Some("devnet-1"));
    assert_eq!(settings.peers.ip_detection, IpDetection::Disabled);
    assert_eq!(settings.node.boot_key.as_ref().unwrap().printed().len(), 64);
    assert_eq!(notices(&settings), "");
    assert!(settings.nemesis.read().unwrap_err().to_string().contains("nemesis-devnet.bin"));
    assert_eq!(settings.nemesis_hash, None);
}

#[test]
fn a_private_network_with_the_testnet_byte_gets_a_warning_about_its_forks() {
    let text: String =
        DEVNET.lines().filter(|line| !line.contains("ForkHeight")).map(|line| format!("{line}\n")).collect();
    let settings = file(&text).unwrap();
    let forks = &settings.network.chain.forks;
    assert_eq!((forks.second_fee, forks.treasury_reissuance), (975_000, 3_481_580));
    let said = notices(&settings);
    assert!(said.contains("earlier testnet") && said.contains("nis.treasuryReissuanceForkHeight is not set"), "{said}");
}

#[test]
fn the_boot_key_appears_in_no_output() {
    let settings = file(DEVNET).unwrap();
    assert!(!format!("{settings:?} {settings:#?}").contains("309327d0"));
    let wrong = DEVNET.replace("nis.bootKey = 3", "nis.bootKey = 0x3").replace("= 1200", "= 0");
    let error = file(&wrong).unwrap_err();
    assert!(error.to_string().contains("nis.bootKey") && error.to_string().contains("(not shown)"), "{error}");
    assert!(!format!("{error} {error:?}").contains("309327d0"), "{error}");
    for typo in ["nis.bootkey = 3", "nis.bootKey3", "nisd.bootKey = 3"] {
        let text = DEVNET.replace("nis.bootKey = 3", typo);
        let said = file(&text).map_or_else(|error| error.to_string(), |settings| notices(&settings));
        assert!(said.contains("unknown") || said.contains("is not a setting"), "{said}");
        assert!(!said.contains("09327d0"), "{said}");
    }
}

#[test]
fn only_a_private_key_on_the_command_line_causes_a_warning() {
    let key = "c0ffee11".repeat(8);
    for name in ["nis.bootKey", "nis.additionalHarvesterPrivateKeys"] {
        let said = notices(&flags(&[("--set", name, &key)]).unwrap());
        assert!(said.starts_with(&format!("WARN {name} was given with --set on the command line")), "{said}");
        assert!(said.contains("configuration file") && !said.contains("c0ffee"), "{said}");
        assert_eq!(notices(&file(&format!("{name} = {key}")).unwrap()), "");
    }
}

#[test]
fn a_private_key_that_lacks_a_digit_is_accepted_with_a_warning() {
    let key = "c0ffee11".repeat(8);
    for name in ["nis.bootKey", "nis.additionalHarvesterPrivateKeys"] {
        for digits in [59, 61, 63] {
            let said = notices(&file(&format!("{name} = {}", &key[..digits])).unwrap());
            let start =
                format!("WARN conf/node.properties:1: {name} holds a private key of {digits} hex digits, not 64");
            assert!(said.starts_with(&start) && !said.contains("c0ffee"), "{said}");
        }
        // NIS1 prints whole bytes, without those that are zero.
        for complete in [key.clone(), key[..62].to_owned(), key[..58].to_owned(), format!("00{key}"), String::new()] {
            assert_eq!(notices(&file(&format!("{name} = {complete}")).unwrap()), "", "{complete}");
        }
    }
    let two = file(&format!("nis.additionalHarvesterPrivateKeys = {key} | {} |{}", &key[1..], &key[3..])).unwrap();
    let said = notices(&two);
    assert!(said.contains("of 63 hex") && said.contains("of 61 hex") && said.lines().count() == 2, "{said}");
}

#[test]
fn an_incomplete_private_key_is_rejected_with_a_clear_error() {
    let said = problem("nis.bootKey = 12345678", "nis.bootKey");
    assert!(said.contains("holds a key of 8 hex digits; a private key has 64"), "{said}");
    let said = problem(&format!("nis.bootKey = {}", "x".repeat(64)), "nis.bootKey");
    assert!(said.contains("64 characters that are not all hex digits"), "{said}");
    // A truncated key in the place of a setting is not shown either.
    let text = "309327d0fe28dc67af36\n";
    let alone = file(text).unwrap_err().to_string();
    for said in [alone, notices(&file(&format!("nem.httpPort = 1\n{text}")).unwrap())] {
        assert!(said.contains("a key of 20 characters (not shown)") && !said.contains("309327"), "{said}");
    }
}

#[test]
fn peer_settings_default_to_those_of_nis1() {
    let settings = flags(&[]).unwrap();
    let peers = &settings.peers;
    assert_eq!((peers.node_limit, peers.time_sync_node_limit), (5, 20));
    assert!(peers.binary_transport && peers.use_network_time && peers.hosts.is_empty());
    assert_eq!(peers.ip_detection, IpDetection::Required);
    assert_eq!(settings.peers_file, Path::new("peers-config_mainnet.json"), "in the folder of the program");
    assert_eq!(peers.unaudited_paths.len(), 16);
    assert!(peers.unaudited_paths.contains(&"/account/unconfirmedtransactions".to_owned()));

    let text = "nis.nodeLimit = 9\nnis.timeSyncNodeLimit = 8\nnis.useBinaryTransport = false\n\
                nis.useNetworkTime = FALSE\nnis.ipDetectionMode = AutoOptional\nnem.nonAuditedApiPaths = /A | /b|\n\
                nisd.peers = a.example | [::1]:7891\nnem.network = testnet";
    let settings = file(text).unwrap();
    let peers = &settings.peers;
    assert_eq!((peers.node_limit, peers.time_sync_node_limit), (9, 8));
    assert!(!peers.binary_transport && !peers.use_network_time);
    assert_eq!(peers.ip_detection, IpDetection::Optional);
    assert_eq!(settings.peers_file, Path::new("conf/peers-config_testnet.json"), "beside the file");
    assert_eq!(peers.unaudited_paths, ["/a", "/b"]);
    let hosts: Vec<_> = peers.hosts.iter().map(|host| host.to_string()).collect();
    assert_eq!(hosts, ["http://a.example:7890", "http://[::1]:7891"]);
    let known = KnownPeers::read(&settings.peers_file, &settings.network).unwrap();
    assert_eq!((known.nodes.len(), known.is_built_in), (3, true), "there is no such folder");
    assert_eq!(settings.listed_peers().unwrap().nodes, [], "the operator names other nodes");
    let alone = file("nem.network = testnet").unwrap();
    assert_eq!(alone.listed_peers().unwrap(), known);
}

#[test]
fn the_scope_of_peers_follows_the_network() {
    for (text, scope) in [
        ("nem.network = mainnet", Scope::Global),
        ("nem.network = testnet\nnisd.loopbackPeers = true", Scope::Global),
        (DEVNET, Scope::Private),
        (&format!("{DEVNET}\nnisd.loopbackPeers = true"), Scope::Loopback),
    ] {
        assert_eq!(file(text).unwrap().peer_scope(), scope, "{text}");
    }
}

#[test]
fn a_host_is_announced_only_if_it_is_of_more_than_this_machine() {
    for (host, is_announced) in [
        ("127.0.0.1", false),
        ("127.1.2.3", false),
        ("::1", false),
        ("localhost", false),
        ("192.168.1.5", true),
        ("9.9.9.9", true),
        ("node.example", true),
        ("2a01::1", true),
    ] {
        assert_eq!(file(&format!("nem.host = {host}")).unwrap().announces_host(), is_announced, "{host}");
    }
    assert!(!file("nem.network = mainnet").unwrap().announces_host());
    file("nem.host = 0.0.0.0").unwrap_err();
}

#[test]
fn clients_are_identified_by_the_configured_proxies_and_hosts() {
    let text = "nisd.trustedProxies = 127.0.0.1|10.0.0.0/8\nnisd.hostNames = Node.Example|[2001:DB8::1]\n\
                nem.host = my.host\nnisd.localOrigins = http://localhost:3000\nnisd.maxConnectionsPerAddress = 7";
    let settings = file(text).unwrap();
    assert!(settings.http.trusted_proxies.contains("10.9.8.7".parse().unwrap()));
    assert!(!settings.http.trusted_proxies.contains("11.0.0.1".parse().unwrap()));
    assert_eq!(settings.host_names, ["node.example", "2001:db8::1", "my.host"]);
    assert_eq!(settings.http.local_origins, ["http://localhost:3000"]);
    assert_eq!(settings.http.connections_per_address, 7);
    let settings = file("nem.network = mainnet").unwrap();
    assert_eq!(settings.http.trusted_proxies, AddressRanges::default());
    assert_eq!(settings.host_names, ["127.0.0.1"]);
}

#[test]
fn a_node_without_any_source_of_blocks_gets_a_warning() {
    let said =
        |text: &str| nisd::config::no_block_source_warning(&file(text).unwrap(), true).map(|notice| notice.to_string());
    assert_eq!(said(DEVNET), None, "it harvests");
    for text in [DEVNET.replace("nis.bootKey = ", "# "), format!("{DEVNET}nis.shouldAutoHarvestOnBoot = false")] {
        let said = said(&text).unwrap();
        assert!(said.contains("THE CHAIN OF devnet STANDS STILL") && said.contains("knows no peers"), "{said}");
    }
    assert!(said("nem.network = mainnet").is_some_and(|said| said.contains("THE CHAIN OF mainnet STANDS STILL")));
}

#[test]
fn all_wrong_values_are_reported_with_their_origin_and_allowed_values() {
    let text = "nis.blockChainRewriteLimit = 5\n# comment\nnem.useDosFilter=maybe\nnis.optionalFeatures = LOOKUP\n\
                nem.httpPort = 0x1ed2\nnis.nodeLimit = some";
    let expected = "\
6 settings are wrong:

  nis.blockChainRewriteLimit is too small
    value:   \"5\"
    from:    conf/node.properties:1
    allowed: a whole number from 10 to 8640

  nem.useDosFilter is neither true nor false
    value:   \"maybe\"
    from:    conf/node.properties:3
    allowed: true or false

  nis.optionalFeatures holds \"LOOKUP\", which is unknown
    value:   \"LOOKUP\"
    from:    conf/node.properties:4
    allowed: nothing, or some of TRANSACTION_HASH_LOOKUP, HISTORICAL_ACCOUNT_DATA, TRACK_EXPIRED_MOSAICS, joined by |

  nem.httpPort is not a whole number in decimal digits
    value:   \"0x1ed2\"
    from:    conf/node.properties:5
    allowed: a whole number from 0 to 65535

  nis.nodeLimit is not a whole number in decimal digits
    value:   \"some\"
    from:    conf/node.properties:6
    allowed: a whole number, at least 0

  nisd.clok is not a setting; did you mean nisd.clock?
    value:   (not shown)
    from:    conf/node.properties:7
    allowed: the keys that `nisd settings` lists

`nisd settings` describes every setting.";
    assert_eq!(file(&format!("{text}\nnisd.clok = 1")).unwrap_err().to_string(), expected);
    let error = flags(&[("--clock", "nisd.clock", "soon")]).unwrap_err().to_string();
    assert!(error.starts_with("a setting is wrong:\n\n  nisd.clock is neither"), "{error}");
    assert!(error.contains("value:   \"soon\"\n    from:    --clock on the command line"), "{error}");
}

fn problem(text: &str, key: &str) -> String {
    match file(text) {
        Err(ConfigError::Wrong(problems)) => {
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert_eq!(problems[0].key, key);
            problems[0].to_string()
        }
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn each_wrong_value_is_reported_alone_with_its_bounds() {
    let day = "nis.blockGenerationTargetTime = 3600\nnis.blockChainRewriteLimit = 25\nnis.maxTransactions=3000";
    let long = "nis.blockGenerationTargetTime = 8641\nnis.blockChainRewriteLimit = 10\nnis.maxTransactions = 1200";
    for (text, key, words) in [
        ("nisd.peers = a|b:x", "nisd.peers", ""),
        ("nis.nodeLimit = -1", "nis.nodeLimit", ""),
        ("nis.timeSyncNodeLimit = many", "nis.timeSyncNodeLimit", ""),
        ("nis.useBinaryTransport = yes", "nis.useBinaryTransport", ""),
        ("nis.ipDetectionMode = Auto", "nis.ipDetectionMode", ""),
        ("nis.maxTransactions = 119", "nis.maxTransactions", "is too small"),
        ("nis.maxTransactions = 43201", "nis.maxTransactions", ""),
        ("nisd.trustedProxies = proxy.example", "nisd.trustedProxies", "neither an address nor a range"),
        ("nisd.hostNames = a:7890", "nisd.hostNames", "no host name"),
        ("nisd.localOrigins = localhost:3000", "nisd.localOrigins", "no origin"),
        ("nisd.maxBuffered = 1K", "nisd.maxBuffered", "from 1M to 64G"),
        // Bounds that depend on other settings.
        (day, REWRITE_LIMIT, "from 10 to 24, the blocks of a day at nis.blockGenerationTargetTime = 3600"),
        ("nis.blockGenerationTargetTime = 3600", REWRITE_LIMIT, "value:   \"360\"\n    from:    default"),
        (long, "nis.blockGenerationTargetTime", "at most 8640"),
        ("nis.blockChainRewriteLimit = 24", "nis.maxTransactions", "from 120 (nis.maxTransactionsPerBlock) to 2880"),
        ("nem.httpPort = 7778", "nem.websocketPort", "the port of the HTTP interface"),
        ("nem.httpPort = x\nnem.websocketPort = 7890", "nem.httpPort", ""),
        ("nisd.metricsBind = 127.0.0.1:7890", "nisd.metricsBind", "is an address of nem.httpPort"),
        ("nisd.metricsBind = [::1]:7778", "nisd.metricsBind", "another port than nem.websocketPort = 7778"),
        ("nisd.bindAddress = localhost\nnisd.metricsBind = [::]:7890", "nisd.metricsBind", ""),
        ("nisd.bindAddress = 10.0.0.5\nnisd.metricsBind = 0.0.0.0:7890", "nisd.metricsBind", ""),
        ("nisd.bindAddress = x\nnisd.metricsBind = 127.0.0.1:7890", "nisd.bindAddress", ""),
    ] {
        let said = problem(text, key);
        assert!(said.contains(words), "{text}: {said}");
    }
    assert!(file("nem.httpPort = 0\nnem.websocketPort = 0").is_ok());
    for apart in [
        "nisd.metricsBind = 127.0.0.1:9100",
        "nem.httpPort = 0\nnem.websocketPort = 0\nnisd.metricsBind = 127.0.0.1:0",
        "nisd.bindAddress = 10.0.0.5\nnisd.metricsBind = 127.0.0.1:7890",
        "nisd.bindAddress = ::1\nnisd.metricsBind = 0.0.0.0:7890",
        "nisd.bindAddress = localhost\nnisd.metricsBind = 10.0.0.5:7890",
    ] {
        assert!(file(apart).is_ok(), "{apart}");
    }
}

#[test]
fn exactly_one_of_each_pair_of_features_is_needed() {
    let key = "nis.blockChainFeatures";
    for (features, why) in [
        ("", "names no consensus algorithm"),
        ("PROOF_OF_STAKE|PROOF_OF_IMPORTANCE|WB_TIME_BASED_VESTING", "more than one consensus algorithm"),
        ("PROOF_OF_STAKE", "names no weighted balance scheme"),
        ("PROOF_OF_STAKE|WB_TIME_BASED_VESTING|WB_IMMEDIATE_VESTING", "more than one weighted balance scheme"),
        ("proof_of_stake|WB_TIME_BASED_VESTING", "holds \"proof_of_stake\", which is unknown"),
    ] {
        let error = file(&format!("{key} = {features}")).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains(why), "{features}: {error}");
    }
}

#[test]
fn a_private_network_without_identity_gets_all_missing_settings_listed() {
    let error = file("nem.network = mine\nnem.network.version = 0x98").unwrap_err().to_string();
    for key in ["generationHash", "nemesisSignerAddress", "totalAmount", "nemesisFilePath"] {
        let expected =
            format!("nem.network.{key} is missing; the private network \"mine\" needs it\n    value:   (not set)");
        assert!(error.contains(&expected), "{error}");
    }
    assert!(error.contains("nem.network.version is not a whole number in decimal digits"), "{error}");
    let error = file("nem.network = Mainnet").unwrap_err().to_string();
    assert!(error.contains("mainnet, in lower case"), "{error}");
    let wrong = DEVNET.replace("version = 152", "version = 104");
    assert!(problem(&wrong, "nem.network.nemesisSignerAddress").contains("not a valid address of the network"));
    let letter = DEVNET.replace("addressStartChar = T", "addressStartChar = N");
    assert!(notices(&file(&letter).unwrap()).contains("addresses begin with T"));
}

#[test]
fn hash_retention_is_at_least_36_hours_or_unlimited() {
    for (text, hours) in [("-1", None), ("0", Some(36)), ("35", Some(36)), ("37", Some(37))] {
        let settings = file(&format!("nis.transactionHashRetentionTime = {text}")).unwrap();
        assert_eq!(settings.network.chain.hash_retention_hours, hours, "{text}");
    }
}

#[test]
fn ineffective_keys_are_reported_once_and_unknown_ones_with_a_suggestion() {
    let text = "nem.maxThreads = 500\nnis.blockChainRewritLimit = 5\nNIS.bootkey = 00\n\
                java.util.logging.level = INFO\nnem.httpPort = 1\nnem.httpPort = 2\nhttpPort = 3";
    let said = notices(&file(text).unwrap());
    let expected = "\
WARN conf/node.properties:3: NIS.bootkey is unknown and has no effect; did you mean nis.bootKey?
WARN conf/node.properties:7: httpPort is unknown and has no effect (settings begin with nem., nis. or nisd.); did you mean nem.httpPort?
WARN conf/node.properties:4: java.util.logging.level is unknown and has no effect (settings begin with nem., nis. or nisd.)
WARN conf/node.properties:2: nis.blockChainRewritLimit is unknown and has no effect; did you mean nis.blockChainRewriteLimit?
WARN conf/node.properties:6: nem.httpPort was already set at conf/node.properties:5; this value is used
INFO settings without effect in this node: nem.maxThreads
";
    assert_eq!(said, expected);
    let many: String = (0..50).map(|n| format!("nis.unheardOf{n} = {n}\n")).collect();
    let said = notices(&file(&format!("{many}nem.httpPort = 1\n")).unwrap());
    assert_eq!(said.lines().count(), 21, "{said}");
    assert!(said.contains("30 more keys"), "{said}");
    let error = flags(&[("--set", "nis.bootname", "x")]).unwrap_err().to_string();
    assert!(error.contains("nis.bootname is not a setting; did you mean nis.bootName?"), "{error}");
}

#[test]
fn paths_are_relative_to_the_file_or_the_current_folder() {
    let settings = file("nisd.data = store").unwrap();
    assert_eq!(settings.data, Path::new("conf/store"));
    let settings = file("nem.folder = /srv/%h/x").unwrap();
    assert_eq!(settings.data, Path::new("/srv//home/someone/x/nisd/mainnet"));
    let settings = flags(&[("--data", "nisd.data", "store")]).unwrap();
    assert_eq!(settings.data, Path::new("store"));
    let homeless = build(Some((Path::new("a"), b"nem.network = mainnet")), Vec::new(), None).unwrap_err().to_string();
    let words = "nisd.data is not set, and the home folder is not known: set HOME, or give --data";
    assert!(homeless.contains(words), "{homeless}");
    assert!(build(None, Vec::new(), None).is_err());
}

#[test]
fn a_file_is_read_whatever_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let named = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        load(Some(&path), Vec::new(), Some(Path::new(HOME)))
    };
    for name in ["network.properties", "chain.JSON", "chain"] {
        let settings = named(name, TINY).unwrap();
        assert_eq!(settings.nemesis, NemesisSource::File(folder.path().join("nemesis.bin")));
    }
    assert_eq!(named("a.properties", DEVNET).unwrap().network.name, "devnet");
    let error = named("b.json", "{}").unwrap_err().to_string();
    assert!(error.contains("b.json: line 1: this is JSON"), "{error}");
    let error = named("c.properties", "\na = \\u12").unwrap_err().to_string();
    assert!(error.contains("c.properties: line 2: \\u must be followed by four hex digits"), "{error}");
    let error = named("d.properties", &"#".repeat((1 << 20) + 1)).unwrap_err().to_string();
    assert!(error.contains("more than 1048576 bytes"), "{error}");
    let error = load(Some(&folder.path().join("absent")), Vec::new(), None).unwrap_err().to_string();
    assert!(error.contains("cannot read the configuration file") && error.contains("absent"), "{error}");
    assert!(matches!(load(Some(folder.path()), Vec::new(), None), Err(ConfigError::Unreadable { .. })));
}

fn key() -> impl Strategy<Value = String> {
    let names: Vec<_> = nisd::config::table::keys().map(|key| key.name.to_owned()).collect();
    prop_oneof![prop::sample::select(names), "(nem|nis|nisd)\\.[a-zA-Z.]{0,12}", "\\PC{0,12}"]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof!["\\PC{0,30}", "-?[0-9]{1,25}[KMGT+]?", "[a-f0-9]{64}", "[0-9*.:|]{0,30}", Just("testnet".to_owned())]
}

proptest! {
    #[test]
    fn arbitrary_files_do_not_panic_the_settings_reader(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = build(Some((Path::new("x"), &bytes)), Vec::new(), Some(Path::new(HOME)));
    }

    #[test]
    fn arbitrary_keys_and_values_give_settings_or_an_error(pairs in prop::collection::vec((key(), value()), 0..12)) {
        let text: String = pairs.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        match file(&text) {
            Ok(settings) => {
                let chain = &settings.network.chain;
                prop_assert!((10..=chain.blocks_per_day()).contains(&chain.rewrite_limit));
            }
            Err(ConfigError::Wrong(problems)) => prop_assert!(!problems.is_empty()),
            Err(ConfigError::Syntax(_, error)) => prop_assert!(!error.text.is_empty()),
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}
