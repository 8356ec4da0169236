//! The known public networks, private networks, and the parameters of their chains.

use std::path::Path;

use super::reader::Reader;
use super::settings::NemesisFile;
use super::values;
use crate::crypto::PublicKey;
use crate::model::BLOCK_CHAIN_FEATURES;
use crate::model::address::{Address, NetworkByte};
use crate::model::hash::Hash256;
use crate::model::network::{ChainParameters, Forks, ImportanceScheme, Vesting};
use crate::model::units::Amount;

/// A network with a fixed identity.
struct Known {
    name: &'static str,
    byte: NetworkByte,
    generation_hash: Hash256,
    nemesis_signer: PublicKey,
    nemesis_hash: Hash256,
    total_xem: u64,
    /// Default file name of the nemesis block: beside the configuration file, or in the working folder without one.
    nemesis: &'static str,
    /// Whether all forks are active from the start by default, whatever the network byte implies: today's testnet began
    /// after all forks but has the byte of an earlier testnet.
    is_after_all_forks: bool,
}

const KNOWN: [Known; 3] = [
    Known {
        name: "mainnet",
        byte: NetworkByte::MAINNET,
        generation_hash: hash("16ed3d69d3ca67132aace4405aa122e5e041e58741a4364255b15201f5aaf6e4"),
        nemesis_signer: key("8d07f90fb4bbe7715fa327c926770166a11be2e494a970605f2e12557f66c9b9"),
        nemesis_hash: hash("438cf6375dab5a0d32f9b7bf151d4539e00a590f7c022d5572c7d41815a24be4"),
        total_xem: 9_000_000_240,
        nemesis: "nemesis.bin",
        is_after_all_forks: false,
    },
    Known {
        name: "testnet",
        byte: NetworkByte::TESTNET,
        generation_hash: hash("33496b75b6e5827cd11f50070df2dd38b31e20398b166cb719dd544d4844ed59"),
        nemesis_signer: key("d8e06b38d4ce227fe735eb64bec55d6b9708cf91bcbcbe7e09f36ffd8b97763d"),
        nemesis_hash: hash("6e34a7895ce1653dde64a614f2ad4215f4217d9e0255b4c84a846e5f7677c6c5"),
        total_xem: 9_000_000_000,
        nemesis: "nemesis-testnet.bin",
        is_after_all_forks: true,
    },
    Known {
        name: "mijinnet",
        byte: NetworkByte::MIJINNET,
        generation_hash: hash("16ed3d69d3ca67132aace4405aa122e5e041e58741a4364255b15201f5aaf6e4"),
        nemesis_signer: key("57b4832d9232ee410e93d595207cffc2b9e9c5002472c4b0bb3bb10a4ce152e3"),
        nemesis_hash: hash("fd75b4e5eaa4521690dac6934be2ab0e84ec2f93b7d5a12a96f19bdcfc2f8bca"),
        total_xem: 9_000_000_000,
        nemesis: "nemesis-mijinnet.bin",
        is_after_all_forks: false,
    },
];

/// Identity of a network.
pub(super) struct Identity {
    pub name: String,
    pub byte: NetworkByte,
    pub generation_hash: Hash256,
    pub nemesis_signer: Address,
    pub total_amount: Amount,
    pub nemesis: NemesisFile,
    /// Hash of the nemesis block, for known networks.
    pub nemesis_hash: Option<Hash256>,
}

/// Returns whether a network of this name has a fixed identity.
pub(super) fn is_known(name: &str) -> bool {
    KNOWN.iter().any(|known| known.name == name)
}

/// Returns whether all forks of a network of this name are active from the start by default.
pub(super) fn is_after_all_forks(name: &str) -> bool {
    KNOWN.iter().any(|known| known.name == name && known.is_after_all_forks)
}

/// Reads the network's identity. `None` after a problem was recorded.
pub(super) fn identity(reader: &mut Reader<'_>) -> Option<Identity> {
    let name = reader.read("nem.network", values::name)?;
    match KNOWN.iter().find(|known| known.name.eq_ignore_ascii_case(&name)) {
        Some(known) if known.name == name => Some(known_identity(known, reader)),
        Some(known) => {
            let allowed = format!("{}, in lower case, or a clearly different name", known.name);
            reader.problem("nem.network", "differs from the name of a known network only in case", allowed);
            None
        }
        None => match suggest_network(&name, reader) {
            Some(known) => {
                let why = format!("is not a known network; did you mean {}?", known.name);
                let allowed = "mainnet, testnet, mijinnet, or the name of a network whose nem.network.* are set";
                reader.problem("nem.network", why, allowed);
                None
            }
            None => private_identity(name, reader),
        },
    }
}

/// Returns the known network that an unknown name most likely means: the name is a typing error away, and no other key
/// of a private network is set.
fn suggest_network(name: &str, reader: &Reader<'_>) -> Option<&'static Known> {
    const MAX_DISTANCE: usize = 2;
    if PRIVATE_KEYS.iter().any(|key| reader.is_set(key)) {
        return None;
    }
    let distance = |known: &Known| strsim::damerau_levenshtein(&name.to_lowercase(), known.name);
    KNOWN.iter().filter(|known| distance(known) <= MAX_DISTANCE).min_by_key(|known| distance(known))
}

/// Keys that a private network needs.
const PRIVATE_KEYS: [&str; 5] = [
    "nem.network.version",
    "nem.network.generationHash",
    "nem.network.nemesisSignerAddress",
    "nem.network.totalAmount",
    "nem.network.nemesisFilePath",
];

fn known_identity(known: &Known, reader: &mut Reader<'_>) -> Identity {
    let file = reader.path("nem.network.nemesisFilePath");
    Identity {
        name: known.name.to_owned(),
        byte: known.byte,
        generation_hash: known.generation_hash,
        nemesis_signer: Address::from_public_key(&known.nemesis_signer, known.byte),
        total_amount: Amount::whole(known.total_xem),
        nemesis: NemesisFile(
            file.unwrap_or_else(|| reader.folder_of_file().unwrap_or(Path::new("")).join(known.nemesis)),
        ),
        nemesis_hash: Some(known.nemesis_hash),
    }
}

fn private_identity(name: String, reader: &mut Reader<'_>) -> Option<Identity> {
    for key in PRIVATE_KEYS {
        if !reader.is_set(key) {
            reader.missing(key, format!("is missing; the private network {name:?} needs it"));
        }
    }
    // Everything is read before the first `?`, so that all problems are found.
    let byte = reader.integer("nem.network.version").map(|version| NetworkByte(version as u8));
    let generation_hash = reader.read("nem.network.generationHash", values::hash);
    let total_xem = reader.integer("nem.network.totalAmount");
    let file = reader.path("nem.network.nemesisFilePath");
    let nemesis_signer =
        byte.and_then(|byte| reader.read("nem.network.nemesisSignerAddress", |text| values::address(text, byte)));
    Some(Identity {
        name,
        byte: byte?,
        generation_hash: generation_hash?,
        nemesis_signer: nemesis_signer?,
        total_amount: Amount::whole(total_xem?.unsigned_abs()),
        nemesis: NemesisFile(file?),
        nemesis_hash: None,
    })
}

/// Reads the chain parameters of a network with this byte. `None` after a problem was recorded.
pub(super) fn chain(
    reader: &mut Reader<'_>,
    byte: Option<NetworkByte>,
    is_after_all_forks: bool,
) -> Option<ChainParameters> {
    let target_time = reader.integer("nis.blockGenerationTargetTime");
    let rewrite_limit = reader.integer("nis.blockChainRewriteLimit");
    let per_block = reader.integer("nis.maxTransactionsPerBlock");
    let per_attempt = reader.integer("nis.maxTransactions");
    check_rewrite_limit(reader, target_time?, rewrite_limit?);
    check_max_transactions(reader, per_block?, rewrite_limit?, per_attempt?);
    let (importance, vesting, stabilize_block_times) = features(reader);
    let retention = reader.integer("nis.transactionHashRetentionTime")?;
    Some(ChainParameters {
        target_time: u32::try_from(target_time?).ok()?,
        rewrite_limit: rewrite_limit?.unsigned_abs(),
        max_transactions_per_block: u32::try_from(per_block?).ok()?,
        max_transactions: u32::try_from(per_attempt?).ok()?,
        ignore_fees: reader.boolean("nis.ignoreFees"),
        hash_retention_hours: u32::try_from(retention).ok().map(|hours| hours.max(MIN_RETENTION_HOURS)),
        // Not a chain parameter; the caller that assembles the settings sets it.
        history_from: None,
        importance,
        vesting,
        stabilize_block_times,
        forks: forks(reader, byte, is_after_all_forks)?,
    })
}

/// Minimum retention of transaction hashes, in hours.
const MIN_RETENTION_HOURS: u32 = 36;

fn check_rewrite_limit(reader: &mut Reader<'_>, target_time: i64, rewrite_limit: i64) {
    const LEAST: i64 = 10;
    const TARGET: &str = "nis.blockGenerationTargetTime";
    const LIMIT: &str = "nis.blockChainRewriteLimit";
    if reader.is_wrong(TARGET) || reader.is_wrong(LIMIT) {
        return;
    }
    let blocks_per_day = 86_400 / target_time.max(1);
    if blocks_per_day < LEAST {
        let allowed = format!("at most {}, so that a day has at least {LEAST} blocks", 86_400 / LEAST);
        reader.problem(TARGET, format!("leaves no allowed value for {LIMIT}"), allowed);
    } else if rewrite_limit > blocks_per_day {
        let allowed =
            format!("a whole number from {LEAST} to {blocks_per_day}, the blocks of a day at {TARGET} = {target_time}");
        reader.problem(LIMIT, "is too large", allowed);
    }
}

fn check_max_transactions(reader: &mut Reader<'_>, per_block: i64, rewrite_limit: i64, per_attempt: i64) {
    const ATTEMPT: &str = "nis.maxTransactions";
    let wrong = ["nis.maxTransactionsPerBlock", "nis.blockChainRewriteLimit", ATTEMPT];
    let most = per_block * rewrite_limit;
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

fn features(reader: &mut Reader<'_>) -> (ImportanceScheme, Vesting, bool) {
    const KEY: &str = "nis.blockChainFeatures";
    let features = reader.names(KEY);
    let has = |name| features.contains(&name);
    for (schemes, what) in
        [(&BLOCK_CHAIN_FEATURES[..2], "consensus algorithm"), (&BLOCK_CHAIN_FEATURES[2..4], "weighted balance scheme")]
    {
        let why = match schemes.iter().filter(|name| has(**name)).count() {
            1 => continue,
            0 => format!("names no {what}"),
            _ => format!("names more than one {what}"),
        };
        if !reader.is_wrong(KEY) {
            reader.problem(KEY, why, format!("exactly one of {}", schemes.join(" and ")));
        }
    }
    let importance = match has("PROOF_OF_STAKE") {
        true => ImportanceScheme::ProofOfStake,
        false => ImportanceScheme::ProofOfImportance,
    };
    let vesting = if has("WB_IMMEDIATE_VESTING") { Vesting::Immediate } else { Vesting::TimeBased };
    (importance, vesting, has("STABILIZE_BLOCK_TIMES"))
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
        treasury_hashes: TREASURY_HASHES.to_vec(),
        treasury_fallback_hashes: TREASURY_FALLBACK_HASHES.to_vec(),
    }
}

/// Keys of the forks whose heights depend on the network byte, in the order of their heights in mainnet.
pub(super) const FORK_KEYS: [&str; 6] = [
    "nis.multisigMOfNForkHeight",
    "nis.mosaicsForkHeight",
    "nis.firstFeeForkHeight",
    "nis.remoteAccountForkHeight",
    "nis.mosaicRedefinitionForkHeight",
    "nis.secondFeeForkHeight",
];

fn forks(reader: &mut Reader<'_>, byte: Option<NetworkByte>, is_after_all: bool) -> Option<Forks> {
    let configured = FORK_KEYS.map(|key| reader.integer(key));
    let treasury = reader.integer("nis.treasuryReissuanceForkHeight");
    let hashes = reader.read("nis.treasuryReissuanceForkTransactionHashes", values::hashes);
    let fallback = reader.read("nis.treasuryReissuanceForkFallbackTransactionHashes", values::hashes);
    let default = if is_after_all { Forks::all_past() } else { default_forks(byte?) };
    let height = |configured: Option<i64>, default| configured.map_or(default, i64::unsigned_abs);
    let [multisig_m_of_n, mosaics, first_fee, remote_account, mosaic_redefinition, second_fee] = configured;
    Some(Forks {
        multisig_m_of_n: height(multisig_m_of_n, default.multisig_m_of_n),
        mosaics: height(mosaics, default.mosaics),
        first_fee: height(first_fee, default.first_fee),
        remote_account: height(remote_account, default.remote_account),
        mosaic_redefinition: height(mosaic_redefinition, default.mosaic_redefinition),
        second_fee: height(second_fee, default.second_fee),
        treasury_reissuance: height(treasury, default.treasury_reissuance),
        treasury_hashes: hashes.unwrap_or(default.treasury_hashes),
        treasury_fallback_hashes: fallback.unwrap_or(default.treasury_fallback_hashes),
    })
}

/// Height of mainnet's treasury block.
const TREASURY_HEIGHT: u64 = 3_481_580;
/// Hashes of its transactions.
#[rustfmt::skip]
const TREASURY_HASHES: [Hash256; 52] = [
    hash("1ebf9e2236d3b41468773f639c438891ae8be15b8cea38dba9f7ddc00aeb48d2"),
    hash("e2b7a70ca4dc369572168555dbc7a272d6dd951659915d9059d06fe21124cb6a"),
    hash("a75e84dce0fc68ef1e8a8930d9034408b4b0093c9a93d3eebfdc1a2018ef3333"),
    hash("4ace7a501df3f3c3a9b40d648118fff2f4231e60d498721892917db56105cc6c"),
    hash("c36848b395c6bb8d4f9ba5cd5443095e321b9a1ebeec7503fb53b20c74de430b"),
    hash("04b0645e262d39e567a25b1c149ca628d9c25162f074b4505168120ff17210a7"),
    hash("2b09d8f144745765be4f912cf11596637528587af9b9ab32e4f218724e6682b5"),
    hash("e6d6107e6f43ab1bad34cc91ebdb18ae48525387570bb86dd29500241936fc3e"),
    hash("7dca32bec6a784f9a7a6d81b393791f1ece37eac766c410ed0701a2ce42ad6fc"),
    hash("b25304ef316305b0a8c804cd29bc6a32d90435e77d5a1c1acaa46fe8e0e91715"),
    hash("64e86b57957618a1f432664ea9489213434600c626a3e5c9a3b38df92b47ff4b"),
    hash("0ebbd73a3eea380bbab0be5bf338565980400439ba515776d4d575544e5d1228"),
    hash("ff3b86bc857db57c54402d270441f96b8187167db6eeb296c41ec673790dd026"),
    hash("afe5235ef7f3bc7df38981207dffbf9c3a82c793eae966c1930ebaee2f66c7a7"),
    hash("79da597bb8175a008f606b0511afa100fd6bacb7fd545f5109811b025a2dfb69"),
    hash("77026e0c2898536e0011acfd575b6e79c80a8290ab74e5d8ac99b3db551a6ffc"),
    hash("90217605b2e154b3b6b05219b09486bc7e11a8a028ffd29894ac24effda80815"),
    hash("e27d6574c8fcf710241332de7af4201ffdbd369d8e850f073848be15f5774a38"),
    hash("c6aba90d62b6da0c4562c7760f3fb059adb0b1e66c9d148fd500b5211cd3f5b9"),
    hash("8affdb2ba2151c350ed8dfaf20e6a067edc817bd87dcf3f12189182ec7131282"),
    hash("d662c564628e3fea447b8ca7ce0601bbd6b808c318c528a1b71fc93d65b482af"),
    hash("f6dfdfa9920f69db8e929eb1378a5b1318360ca1442ed69e9443de3e6014a4fe"),
    hash("478bab6750b8fa2ea455fb5d468e46572dba618a8a264a2a5887beeb2d6e5483"),
    hash("12e1652135efaf9a4663c8a87dd1e721c42dbccc9f8d7af07436f1b64fe43227"),
    hash("aa51f4c2c01092641866a9644bc34b9fecfe11b9b0d826942421e0c3d058fa35"),
    hash("e8d2d1bdd98d5822c26c276ca36e67ea2502e10b02274d2f87328ba443d7c5ef"),
    hash("bf1436dbec747efa25b075bdd5154c4c71ade9c149ad268e2cf17233dce8b1c6"),
    hash("a61100b42c4a5879cd64e2d70cf38786dcfbb745202d9f6ae0187f7c7058ffe3"),
    hash("1f5b5fc0a0de7830b8752736cc2544bda9c750b0e92e1f5ea919f59013c1dc50"),
    hash("b684d50f0b6252e096e264b9964ae32b19d6971268e4ec410de98c31e977ae3c"),
    hash("388bc51aaba66fe0d0a552db4f8f384cd2a2c7bd4d7a6af49a8248f629ffc8c9"),
    hash("0ab8fed6646998ba6f1a6a8ae987905096c7c11cc28db99b10ade37fbc49329f"),
    hash("512cd894439b9c97df5372295404c73cf0fc20b751aa169eca9edf6d41cbcac3"),
    hash("db754d48a8bf81e1ef6cbe96964bbe6b8898699f5d220d40bacc3b1aff7f2677"),
    hash("01ddfefde0d8a3d4add0a80974700caff129916324c7803f4256fc64b29e5bae"),
    hash("c978eba95a25fbd8c053fb3077953cc9a187c81fbe991baeebf5ef8c1be22ca3"),
    hash("ceb5accdad1674e875a8dda3d88c15034d3a74a5980c0ce03b1ba7f0f39439f1"),
    hash("26a0e19ca2818222d9febbb89ca4db1ec998ac4bfd8d9551e0406635edc3082d"),
    hash("e445f3286b0c34aa0fea65ba0279696a8332c7196e7a76181e781bfaebc7a900"),
    hash("8d673bbf81bae48dca7cbd83fb00a84eb07605479f65ce4fc104fc1395741767"),
    hash("196aadf67fa2e3bd87faf51825016a371333f33ebfb77cabc3ca004e785dea3d"),
    hash("ef4c8b2249a80bd1f2a773b492b5328ea15c7f969ce53426a5bd6ecde240cf1d"),
    hash("7521fbab72246e6d8aa832aeffd2aecf7743d1dcf85b3d51068dc9106bfaaab8"),
    hash("11b2b982c5947e1e4831b35b1c7a29c1afd1d11eba47c71ac400b0aedf8bd887"),
    hash("3a056c780f06b83d229579d3ffa965e788897ff41305df176df7be999972b2dd"),
    hash("3a5086cc1c414ca744419931b08a11c6173206cbef5e50e8b3baa45dc2a89bcb"),
    hash("e516a4a58ac21333eb0ecb5e08ac671fab2e56c174940122a7192a506fcc0d30"),
    hash("085b20e778355ddfb20b8d263a476e5c3e1ec373e0d7a7a6e6c31e99dd016031"),
    hash("0a0039f85b6581a003f81ee54b6f1b41ebff6727df76a5e0ced2e51719a217d2"),
    hash("bdef43d8b361690add69d740b57d21038369da8a88b3a9e402fc5662e45ef082"),
    hash("3cfb66a96fb19095c8ab66c25197926db2403eabd800e4337ca1db67da50287b"),
    hash("d74d39bae30e97bf76fbd82438154c93af9da44eb9c1cea56410b2671698d649"),
];

/// Hash of the transaction that it may hold instead.
const TREASURY_FALLBACK_HASHES: [Hash256; 1] =
    [hash("2ac17cb342d2ec97f1faab5fdf9409c54cd2dd69d0fb28bbd80adb58a993c1df")];

/// Parses a hash at compile time.
const fn hash(text: &str) -> Hash256 {
    Hash256(bytes(text))
}

/// Parses a public key at compile time.
pub(super) const fn key(text: &str) -> PublicKey {
    PublicKey(bytes(text))
}

/// Parses 64 hex digits; anything else is a compile error, since only constants call it.
const fn bytes(text: &str) -> [u8; 32] {
    let text = text.as_bytes();
    assert!(text.len() == 64, "64 hex digits are needed");
    let mut bytes = [0; 32];
    let mut index = 0;
    while index < 64 {
        let digit = match text[index] {
            digit @ b'0'..=b'9' => digit - b'0',
            digit @ b'a'..=b'f' => digit - b'a' + 10,
            _ => panic!("only small hex digits are allowed"),
        };
        bytes[index / 2] = bytes[index / 2] << 4 | digit;
        index += 1;
    }
    bytes
}
