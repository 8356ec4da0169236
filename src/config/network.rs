//! The known public networks, private networks, and the parameters of their chains.

use super::files::NemesisSource;
use super::kind::parse_address;
use super::reader::Reader;
use super::table::NetworkSettings;
use crate::crypto::PublicKey;
use crate::model::address::{Address, NetworkByte};
use crate::model::network::{ChainParameters, Forks, Network};
use crate::model::units::{Amount, Height};
use crate::model::{BLOCK_CHAIN_FEATURES, Hash256};

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
    let signer = parse_address(set.nemesis_signer.as_deref()?, byte);
    let nemesis_signer = signer.map_err(|why| reader.wrong(SIGNER_KEY, why)).ok()?;
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::build;
    use super::*;
    use crate::model::network::{ChainParameters, Forks};
    use crate::model::{Address, Hash256, NetworkByte};

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
