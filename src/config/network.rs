//! The known public networks, private networks, and the parameters of their chains. Files of a network beside the settings:
//! the nemesis block, and the peers that a node knows at startup.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

use super::reader::{Diagnostic, Reader, quoted};
use super::table::NetworkSettings;
use crate::codec::Context;
use crate::codec::json::JsonDecoder;
use crate::codec::lenient_json::{self, Value};
use crate::codec::text::text_of_file;
use crate::crypto::PublicKey;
use crate::files;
use crate::ip::parse_host;
use crate::model::address::{Address, NetworkByte};
use crate::model::network::{ChainParameters, Forks, Network};
use crate::model::units::{Amount, Height};
use crate::model::{BLOCK_CHAIN_FEATURES, Hash256};
use crate::peer::wire::{NodeInfo, limits};

/// A network with a fixed identity.
struct Known {
    name: &'static str,
    byte: NetworkByte,
    generation_hash: &'static str,
    /// Public key of the account that signed the nemesis block.
    nemesis_signer: &'static str,
    nemesis_hash: &'static str,
    total_xem: u64,
    /// The nemesis block in verifiable binary form, compressed by gzip.
    nemesis: &'static [u8],
}

const KNOWN: [Known; 3] = [
    Known {
        name: "mainnet",
        byte: NetworkByte::MAINNET,
        generation_hash: "16ed3d69d3ca67132aace4405aa122e5e041e58741a4364255b15201f5aaf6e4",
        nemesis_signer: "8d07f90fb4bbe7715fa327c926770166a11be2e494a970605f2e12557f66c9b9",
        nemesis_hash: "438cf6375dab5a0d32f9b7bf151d4539e00a590f7c022d5572c7d41815a24be4",
        total_xem: 9_000_000_240,
        nemesis: include_bytes!("nemesis/mainnet.bin.gz"),
    },
    Known {
        name: "testnet",
        byte: NetworkByte::TESTNET,
        generation_hash: "33496b75b6e5827cd11f50070df2dd38b31e20398b166cb719dd544d4844ed59",
        nemesis_signer: "d8e06b38d4ce227fe735eb64bec55d6b9708cf91bcbcbe7e09f36ffd8b97763d",
        nemesis_hash: "6e34a7895ce1653dde64a614f2ad4215f4217d9e0255b4c84a846e5f7677c6c5",
        total_xem: 9_000_000_000,
        nemesis: include_bytes!("nemesis/testnet.bin.gz"),
    },
    Known {
        name: "mijinnet",
        byte: NetworkByte::MIJINNET,
        generation_hash: "16ed3d69d3ca67132aace4405aa122e5e041e58741a4364255b15201f5aaf6e4",
        nemesis_signer: "57b4832d9232ee410e93d595207cffc2b9e9c5002472c4b0bb3bb10a4ce152e3",
        nemesis_hash: "fd75b4e5eaa4521690dac6934be2ab0e84ec2f93b7d5a12a96f19bdcfc2f8bca",
        total_xem: 9_000_000_000,
        nemesis: include_bytes!("nemesis/mijinnet.bin.gz"),
    },
];

/// A network whose chain parameters are not known yet, and where its nemesis block comes from.
pub(super) struct Identity {
    pub network: Network,
    pub nemesis: NemesisSource,
    /// Hash of the nemesis block, for known networks.
    pub nemesis_hash: Option<Hash256>,
}

/// Returns whether a network of this name has a fixed identity.
pub(super) fn is_known(name: &str) -> bool {
    KNOWN.iter().any(|known| known.name == name)
}

/// The network that began after all forks, but has the byte of an earlier testnet.
pub(super) const AFTER_ALL_FORKS: &str = "testnet";

/// Returns the network's identity. `None` after a problem was recorded.
pub(super) fn identity(reader: &mut Reader<'_>, set: &NetworkSettings) -> Option<Identity> {
    let name = &set.name;
    if let Some(known) = KNOWN.iter().find(|known| known.name == name) {
        return known_identity(known);
    }
    let (why, allowed) = if let Some(known) = KNOWN.iter().find(|known| known.name.eq_ignore_ascii_case(name)) {
        let allowed = format!("{}, in lower case, or a clearly different name", known.name);
        ("differs from the name of a known network only in case".to_owned(), allowed)
    } else if let Some(known) = suggest_network(name, reader) {
        let allowed = "mainnet, testnet, mijinnet, or the name of a network whose nem.network.* are set".to_owned();
        (format!("is not a known network; did you mean {}?", known.name), allowed)
    } else {
        return private_identity(reader, set);
    };
    reader.problem("nem.network", why, allowed);
    None
}

/// Returns the known network that an unknown name most likely means: the name is a typing error away, and no other key
/// of a private network is set.
fn suggest_network(name: &str, reader: &Reader<'_>) -> Option<&'static Known> {
    const MAX_DISTANCE: usize = 2;
    if PRIVATE_KEYS.iter().any(|key| reader.layers.get(key).is_some()) {
        return None;
    }
    let distance = |known: &Known| strsim::damerau_levenshtein(&name.to_lowercase(), known.name);
    KNOWN.iter().filter(|known| distance(known) <= MAX_DISTANCE).min_by_key(|known| distance(known))
}

const SIGNER_KEY: &str = "nem.network.nemesisSignerAddress";

/// Keys that a private network needs.
const PRIVATE_KEYS: [&str; 5] = [
    "nem.network.version",
    "nem.network.generationHash",
    SIGNER_KEY,
    "nem.network.totalAmount",
    "nem.network.nemesisFilePath",
];

fn known_identity(known: &Known) -> Option<Identity> {
    let network = Network {
        name: known.name.to_owned(),
        byte: known.byte,
        generation_hash: Hash256::from_hex(known.generation_hash)?,
        nemesis_signer: Address::from_public_key(&PublicKey::from_hex(known.nemesis_signer).ok()?, known.byte),
        total_amount: Amount::whole(known.total_xem),
        chain: ChainParameters::after_all_forks(),
    };
    let nemesis_hash = Hash256::from_hex(known.nemesis_hash);
    Some(Identity { network, nemesis: NemesisSource::Embedded(known.nemesis), nemesis_hash })
}

fn private_identity(reader: &mut Reader<'_>, set: &NetworkSettings) -> Option<Identity> {
    let name = set.name.clone();
    for key in PRIVATE_KEYS {
        if reader.layers.get(key).is_none() {
            reader.wrong(key, format!("is missing; the private network {name:?} needs it"));
        }
    }
    let byte = NetworkByte(set.version? as u8);
    let Some(nemesis_signer) = Address::parse(set.nemesis_signer.as_deref()?.trim(), byte) else {
        reader.wrong(SIGNER_KEY, "is not a valid address of the network");
        return None;
    };
    let (generation_hash, total_amount) = (set.generation_hash?, Amount::whole(set.total_xem?));
    let chain = ChainParameters::after_all_forks();
    let network = Network { name, byte, generation_hash, nemesis_signer, total_amount, chain };
    Some(Identity { network, nemesis: NemesisSource::File(set.nemesis.clone()?), nemesis_hash: None })
}

/// Returns the chain parameters of a network. `None` after a problem was recorded.
pub(super) fn chain(
    reader: &mut Reader<'_>,
    set: NetworkSettings,
    identity: Option<&Identity>,
    history_from: Option<Height>,
) -> Option<ChainParameters> {
    check_rewrite_limit(reader, set.target_time, set.rewrite_limit);
    check_max_transactions(reader, &set);
    let (proof_of_stake, immediate_vesting, stabilize_block_times) = features(reader, &set.features);
    let network = &identity?.network;
    let default = if network.name == AFTER_ALL_FORKS { Forks::all_past() } else { default_forks(network.byte) };
    Some(ChainParameters {
        target_time: set.target_time,
        rewrite_limit: set.rewrite_limit,
        max_transactions_per_block: set.max_transactions_per_block,
        max_transactions: set.max_transactions,
        ignore_fees: set.ignore_fees,
        hash_retention_hours: u32::try_from(set.hash_retention_hours).ok().map(|hours| hours.max(MIN_RETENTION_HOURS)),
        history_from,
        proof_of_stake,
        immediate_vesting,
        stabilize_block_times,
        forks: Forks {
            multisig_m_of_n: set.multisig_m_of_n.unwrap_or(default.multisig_m_of_n),
            mosaics: set.mosaics.unwrap_or(default.mosaics),
            first_fee: set.first_fee.unwrap_or(default.first_fee),
            remote_account: set.remote_account.unwrap_or(default.remote_account),
            mosaic_redefinition: set.mosaic_redefinition.unwrap_or(default.mosaic_redefinition),
            second_fee: set.second_fee.unwrap_or(default.second_fee),
            treasury_reissuance: set.treasury_reissuance.unwrap_or(default.treasury_reissuance),
            treasury_hashes: set.treasury_hashes.unwrap_or(default.treasury_hashes),
            treasury_fallback_hashes: set.treasury_fallback_hashes.unwrap_or(default.treasury_fallback_hashes),
        },
    })
}

/// Minimum retention of transaction hashes, in hours.
const MIN_RETENTION_HOURS: u32 = 36;

fn check_rewrite_limit(reader: &mut Reader<'_>, target_time: u32, rewrite_limit: u64) {
    const LEAST: u64 = 10;
    const TARGET: &str = "nis.blockGenerationTargetTime";
    const LIMIT: &str = "nis.blockChainRewriteLimit";
    if reader.is_wrong(TARGET) || reader.is_wrong(LIMIT) {
        return;
    }
    let blocks_per_day = 86_400 / u64::from(target_time.max(1));
    if blocks_per_day < LEAST {
        let allowed = format!("at most {}, so that a day has at least {LEAST} blocks", 86_400 / LEAST);
        reader.problem(TARGET, format!("leaves no allowed value for {LIMIT}"), allowed);
    } else if rewrite_limit > blocks_per_day {
        let allowed =
            format!("a whole number from {LEAST} to {blocks_per_day}, the blocks of a day at {TARGET} = {target_time}");
        reader.problem(LIMIT, "is too large", allowed);
    }
}

fn check_max_transactions(reader: &mut Reader<'_>, set: &NetworkSettings) {
    const ATTEMPT: &str = "nis.maxTransactions";
    let wrong = ["nis.maxTransactionsPerBlock", "nis.blockChainRewriteLimit", ATTEMPT];
    let (per_block, rewrite_limit) = (u64::from(set.max_transactions_per_block), set.rewrite_limit);
    let (per_attempt, most) = (u64::from(set.max_transactions), per_block * rewrite_limit);
    if wrong.iter().any(|name| reader.is_wrong(name)) || (per_block..=most).contains(&per_attempt) {
        return;
    }
    let allowed = format!(
        "a whole number from {per_block} (nis.maxTransactionsPerBlock) to {most} (this × nis.blockChainRewriteLimit = \
         {rewrite_limit})"
    );
    let why = if per_attempt < per_block { "is too small" } else { "is too large" };
    reader.problem(ATTEMPT, why, allowed);
}

/// Returns whether proof of stake, immediate vesting and stabilized block times are set.
fn features(reader: &mut Reader<'_>, features: &[&str]) -> (bool, bool, bool) {
    const KEY: &str = "nis.blockChainFeatures";
    let has = |name: &str| features.contains(&name);
    for (schemes, what) in
        [(&BLOCK_CHAIN_FEATURES[..2], "consensus algorithm"), (&BLOCK_CHAIN_FEATURES[2..4], "weighted balance scheme")]
    {
        let why = match schemes.iter().filter(|name| has(name)).count() {
            1 => continue,
            0 => format!("names no {what}"),
            _ => format!("names more than one {what}"),
        };
        if !reader.is_wrong(KEY) {
            reader.problem(KEY, why, format!("exactly one of {}", schemes.join(" and ")));
        }
    }
    (has("PROOF_OF_STAKE"), has("WB_IMMEDIATE_VESTING"), has("STABILIZE_BLOCK_TIMES"))
}

/// Returns the default forks of a network with this byte. The treasury fork is always that of mainnet, as in NIS1.
fn default_forks(byte: NetworkByte) -> Forks {
    let heights = match byte {
        NetworkByte::MAINNET => [199_800, 440_000, 875_000, 1_025_000, 1_110_000, 1_250_000],
        NetworkByte::TESTNET => [90_000, 180_000, 572_500, 830_000, 871_500, 975_000],
        _ => [1; 6],
    };
    let [multisig_m_of_n, mosaics, first_fee, remote_account, mosaic_redefinition, second_fee] = heights;
    Forks {
        multisig_m_of_n,
        mosaics,
        first_fee,
        remote_account,
        mosaic_redefinition,
        second_fee,
        treasury_reissuance: TREASURY_HEIGHT,
        treasury_hashes: TREASURY_HASHES.lines().filter_map(Hash256::from_hex).collect(),
        treasury_fallback_hashes: Hash256::from_hex(TREASURY_FALLBACK_HASH).into_iter().collect(),
    }
}

/// Height of mainnet's treasury block.
const TREASURY_HEIGHT: u64 = 3_481_580;
/// Hashes of its transactions, one per line.
const TREASURY_HASHES: &str = include_str!("treasury-hashes.txt");
/// Hash of the transaction that it may hold instead.
const TREASURY_FALLBACK_HASH: &str = "2ac17cb342d2ec97f1faab5fdf9409c54cd2dd69d0fb28bbd80adb58a993c1df";

/// Returns the settings as a properties file, one per line. `nemesis_file` is the name of the nemesis block's file in
/// the same folder.
pub fn network_properties(network: &Network, nemesis_file: &str) -> String {
    let first_character = network.nemesis_signer.as_str().chars().take(1).collect();
    let further =
        [("nem.network.addressStartChar", first_character), ("nem.network.nemesisFilePath", nemesis_file.to_owned())];
    let all = network.parameters().chain(further);
    all.map(|(key, value)| format!("{}\n", format!("{key} = {value}").trim_end())).collect()
}

/// Largest nemesis block in bytes; a larger file is rejected. Mainnet's has 279,786.
pub const MAX_NEMESIS_BYTES: usize = 16 << 20;
/// Largest peer list in bytes; a larger file is rejected.
pub const MAX_PEERS_BYTES: usize = limits::NODE_LIST;

/// Returns an absolute path, so that messages show in which folder a file is expected.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Where the nemesis block of a network comes from.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
pub enum NemesisSource {
    /// The block of a public network, compressed by gzip, is part of the program.
    #[debug("Embedded({} bytes)", _0.len())]
    Embedded(&'static [u8]),
    /// This file holds it.
    File(PathBuf),
}

impl NemesisSource {
    /// Reads the block in verifiable binary form, without parsing it.
    pub fn read(&self) -> Result<Vec<u8>, NemesisError> {
        let mut bytes = Vec::new();
        let read = match self {
            NemesisSource::Embedded(compressed) => GzDecoder::new(*compressed).read_to_end(&mut bytes).map(|_| bytes),
            NemesisSource::File(path) => {
                files::read(path, MAX_NEMESIS_BYTES).map(|mut read| std::mem::take(&mut *read))
            }
        };
        read.map_err(|error| NemesisError { path: self.path(), error })
    }

    /// Returns the absolute path of the file; an embedded block has an empty one.
    pub fn path(&self) -> PathBuf {
        match self {
            NemesisSource::Embedded(_) => PathBuf::new(),
            NemesisSource::File(path) => absolute(path),
        }
    }
}

/// The nemesis block cannot be read.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot read the nemesis block {}; copy the file from another node of the network and name it with \
     nem.network.nemesisFilePath or --nemesis",
    files::describe_at(path, error)
)]
pub struct NemesisError {
    /// The file, as an absolute path.
    pub path: PathBuf,
    /// The system's error.
    #[source]
    pub error: io::Error,
}

/// Returns the name of the file with the peers that a node of a network knows at startup, in NIS1's format: an object with
/// the list `knownPeers`.
pub(super) fn peers_file_name(network: &str) -> String {
    format!("{PEERS_FILE_START}{network}{PEERS_FILE_END}")
}

/// What is in front of the network and behind it in the name of such a file.
pub(super) const PEERS_FILE_START: &str = "peers-config_";
pub(super) const PEERS_FILE_END: &str = ".json";

/// The peers that a node knows at startup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownPeers {
    /// The peers, without duplicates. They are listed.
    pub nodes: Vec<NodeInfo>,
    /// The number of each peer's entry in the list, from 1.
    pub numbers: Vec<usize>,
    /// Whether these are the built-in peers, because there is no file.
    pub is_built_in: bool,
    /// Warnings about the list.
    pub diagnostics: Vec<Diagnostic>,
}

impl KnownPeers {
    /// Reads the list in a file. Without a file, returns the built-in peers, which only mainnet and testnet have. The error
    /// says what is wrong with which file.
    pub fn read(path: &Path, network: &Network) -> Result<KnownPeers, String> {
        let read = match files::read(path, MAX_PEERS_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(KnownPeers::built_in(&network.name)),
            Err(error) => Err(format!("cannot be read: {}", files::explain(&error, Some(path)))),
            Ok(text) => KnownPeers::parse(&text, Context::of(network)),
        };
        // Absolute, so that messages show in which folder the file is expected.
        read.map_err(|text| format!("the list of peers {}: {text}", absolute(path).display()))
    }

    /// Parses the content of a file. An entry whose endpoint is invalid is left out with a warning; the error
    /// describes any other defect.
    pub fn parse(text: &[u8], context: Context) -> Result<KnownPeers, String> {
        let text = text_of_file(text).map_err(|error| error.to_string())?;
        let value = lenient_json::parse(text.as_bytes()).map_err(|error| error.to_string())?;
        let entries = match (&value, value.get("knownPeers")) {
            (Value::Object(_), None | Some(Value::Null)) => &[],
            (_, Some(Value::Array(entries))) => entries.as_slice(),
            _ => return Err("it must be an object with a list knownPeers".to_owned()),
        };
        if entries.len() > limits::LISTED_NODES {
            return Err(format!("it has more than {} entries", limits::LISTED_NODES));
        }
        let mut peers = KnownPeers::default();
        if value.get("knownPeers").is_none() {
            peers.diagnostics.push(Diagnostic::warn("the list of peers has no knownPeers, so it names no peers"));
        }
        for (index, entry) in entries.iter().enumerate() {
            peers.add(index + 1, entry, context)?;
        }
        Ok(peers)
    }

    fn add(&mut self, number: usize, entry: &Value, context: Context) -> Result<(), String> {
        let text = |object, member| match entry.get(object).and_then(|object| object.get(member)) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let name = || text("identity", "name").map(|name| format!(" ({})", quoted(name))).unwrap_or_default();
        let read = JsonDecoder::new(entry, context).and_then(|mut source| NodeInfo::read_unchecked(&mut source));
        let read = read.map_err(|error| format!("entry {number}{}: {}", name(), error.reason()))?;
        let is_callable = |node: &NodeInfo| node.endpoint.to_connect().is_some();
        match read {
            Ok(node) if self.nodes.iter().any(|known| known.identity.key == node.identity.key) => {}
            Ok(node) if is_callable(&node) => {
                self.nodes.push(node);
                self.numbers.push(number);
            }
            left_out => {
                let wrong_host = text("endpoint", "host").and_then(|host| parse_host(host).err());
                let why = wrong_host.map(|why| format!(" ({why})")).unwrap_or_default();
                let error = left_out.err().unwrap_or("peers are called by http, at a port from 1 to 65535");
                let text = format!("entry {number}{} of the list of peers is left out: {error}{why}", name());
                self.diagnostics.push(Diagnostic::warn(text));
            }
        }
        Ok(())
    }

    /// Returns the built-in peers of a network: those that NIS1 ships with.
    fn built_in(network: &str) -> KnownPeers {
        let text = match network {
            "mainnet" => include_str!("peers-config_mainnet.json"),
            "testnet" => include_str!("peers-config_testnet.json"),
            _ => r#"{"knownPeers":[]}"#,
        };
        // Nothing in the list depends on the network.
        let peers = KnownPeers::parse(text.as_bytes(), Context::trusted_store()).unwrap_or_default();
        KnownPeers { is_built_in: true, ..peers }
    }
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::*;

    #[test]
    fn the_public_networks_are_complete() {
        for known in &KNOWN {
            let identity = known_identity(known).expect("hex digits");
            assert!(identity.nemesis_hash.is_some() && identity.network.name == known.name);
        }
        let forks = default_forks(NetworkByte::MAINNET);
        assert_eq!((forks.treasury_hashes.len(), forks.treasury_fallback_hashes.len()), (52, 1));
    }

    #[test]
    fn a_network_file_round_trips() {
        let mut network = Network::example();
        let mut other = network.clone();
        other.chain = ChainParameters {
            target_time: 10,
            rewrite_limit: 11,
            max_transactions_per_block: 500,
            max_transactions: 501,
            ignore_fees: true,
            hash_retention_hours: None,
            history_from: None,
            proof_of_stake: true,
            immediate_vesting: true,
            stabilize_block_times: true,
            forks: Forks {
                multisig_m_of_n: 2,
                mosaics: 3,
                first_fee: 4,
                remote_account: 5,
                mosaic_redefinition: 6,
                second_fee: 7,
                treasury_reissuance: 8,
                treasury_hashes: vec![Hash256([1; 32]), Hash256([2; 32])],
                treasury_fallback_hashes: vec![Hash256([3; 32])],
            },
        };
        network.byte = NetworkByte(0x60);
        network.nemesis_signer = Address::from_public_key(&crate::model::network::MOSAIC_SINK, network.byte);
        for network in [network, other] {
            let text = network_properties(&network, "first.bin");
            let read = build(Some((Path::new("conf/a"), text.as_bytes())), Vec::new(), Some(Path::new("/")));
            let read = read.unwrap();
            assert_eq!(read.network, network);
            assert_eq!(read.nemesis, NemesisSource::File("conf/first.bin".into()));
            assert!(read.diagnostics.is_empty(), "{:?}", read.diagnostics);
        }
    }
}

#[cfg(test)]
mod files_tests {
    use super::*;
    use crate::peer::wire::{Endpoint, MetaData};

    const KEY: &str = "7c814b3b44b1a98b917d223d81a9ff36a3eba9dc784634fa93627a29b56c235d";
    const OTHER: &str = "95ba0e864cd5edb3ec03b6486b5d64b4e3125d9085a4898aeb5748b88a010ef4";

    fn parse(text: &str) -> Result<KnownPeers, String> {
        let context = Context::of(&Network::example());
        KnownPeers::parse(text.as_bytes(), context)
    }

    fn entry(host: &str, key: &str) -> String {
        format!(
            r#"{{"endpoint":{{"protocol":"http","port":7890,"host":"{host}"}},
                "identity":{{"name":"n","public-key":"{key}"}}}}"#
        )
    }

    fn file(entries: &[String]) -> String {
        format!(r#"{{"_info":"any","knownPeers":[{}]}}"#, entries.join(","))
    }

    #[test]
    fn known_peers_are_read_once_and_without_meta_data() {
        let peers = parse(&file(&[entry("a", KEY), entry("b", OTHER), entry("c", KEY)])).unwrap();
        let hosts: Vec<_> = peers.nodes.iter().map(|node| node.endpoint.host.as_str()).collect();
        assert_eq!(hosts, ["a", "b"]);
        assert_eq!(peers.nodes[0].identity.key.to_string(), KEY);
        assert_eq!(peers.nodes[0].meta_data, MetaData::default());
        assert_eq!((peers.diagnostics.len(), peers.is_built_in), (0, false));
    }

    #[test]
    fn an_empty_peer_list_is_accepted() {
        for text in [r#"{"knownPeers":[]}"#, r#"{"knownPeers":null}"#] {
            assert_eq!(parse(text), Ok(KnownPeers::default()), "{text}");
        }
        for text in ["{}", r#"{"_info":[1]}"#, r#"{"knownpeers":[{}]}"#] {
            let peers = parse(text).unwrap();
            let notices: Vec<_> = peers.diagnostics.iter().map(ToString::to_string).collect();
            assert_eq!(
                (peers.nodes.len(), notices),
                (0, vec!["the list of peers has no knownPeers, so it names no peers".to_owned()])
            );
        }
    }

    #[test]
    fn a_known_peer_with_a_bad_endpoint_is_skipped_with_a_warning() {
        let peers = parse(&file(&[
            entry("http://a", KEY),
            entry("b", OTHER).replace("http", "gopher"),
            entry("c", KEY),
            entry("d", OTHER).replace("http", "https"),
            entry("e", OTHER).replace("7890", "0"),
            entry("f", OTHER).replace("7890", "70000"),
        ]))
        .unwrap();
        assert_eq!(peers.nodes.len(), 1);
        let notices: Vec<_> = peers.diagnostics.iter().map(|notice| format!("{} {notice}", notice.level)).collect();
        assert_eq!(
            notices,
            [
                "WARN entry 1 (\"n\") of the list of peers is left out: host is unknown (write only a)",
                "WARN entry 2 (\"n\") of the list of peers is left out: url is malformed",
                "WARN entry 4 (\"n\") of the list of peers is left out: peers are called by http, at a port from 1 to 65535",
                "WARN entry 5 (\"n\") of the list of peers is left out: peers are called by http, at a port from 1 to 65535",
                "WARN entry 6 (\"n\") of the list of peers is left out: peers are called by http, at a port from 1 to 65535",
            ]
        );
    }

    #[test]
    fn any_other_defect_is_an_error_that_names_its_entry() {
        let good = entry("a", KEY);
        let wrong = |second: String| parse(&file(&[good.clone(), second])).unwrap_err();
        assert_eq!(wrong(entry("b", "00")), "entry 2 (\"n\"): publicKey must be in compressed form");
        assert_eq!(wrong("7".to_owned()), "entry 2: JSON Object was expected");
        let without = good.replace("\"endpoint\"", "\"other\"");
        assert_eq!(wrong(without), "entry 2 (\"n\"): expected value for property endpoint, but none was found");
        assert!(wrong(good.replace("7890", "\"x\"")).starts_with("entry 2 (\"n\"): property port"));
        for text in ["[]", "7", r#"{"knownPeers":{}}"#, r#"{"knownPeers":7}"#] {
            assert!(parse(text).unwrap_err().contains("a list knownPeers"), "{text}");
        }
        assert!(parse("{").unwrap_err().contains("ends too early"));
        let large = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&large, " ".repeat(MAX_PEERS_BYTES + 1)).unwrap();
        let error = KnownPeers::read(large.path(), &Network::example()).unwrap_err();
        assert!(error.contains("more than 1048576 bytes"), "{error}");
        let many = vec!["{}".to_owned(); limits::LISTED_NODES + 1];
        assert!(parse(&file(&many)).unwrap_err().contains("more than 1000 entries"));
    }

    #[test]
    fn the_public_networks_have_built_in_peers() {
        for (network, count) in [("mainnet", 10), ("testnet", 3), ("mijinnet", 0), ("devnet", 0)] {
            let peers = KnownPeers::built_in(network);
            assert_eq!((peers.nodes.len(), peers.is_built_in), (count, true), "{network}");
            for node in &peers.nodes {
                assert_eq!(Endpoint::parse(&node.endpoint.to_string()).as_ref(), Ok(&node.endpoint));
            }
        }
    }
}
