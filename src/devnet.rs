//! A private network of one's own, created from nothing.
//!
//! | Part | Content |
//! |---|---|
//! | [`Role`] | accounts, balances and demo keys |
//! | [`nemesis_block`] | the first block |
//! | [`Devnet`] | the folder of the network: settings, keys and nemesis block beside the store |
//!
//! Time and randomness are passed in as [`System`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::clock::{NetworkClock, System};
use crate::codec::SigningForm;
use crate::config::{self, ConfigError, Override, Settings, network_properties};
use crate::crypto::hash::keccak256_parts;
use crate::crypto::{KeyPair, PrivateKey};
use crate::model::transaction::{Transfer, wire_version};
use crate::model::{
    Address, Amount, Block, BlockKind, Body, Hash256, Height, Network, NetworkByte, Timestamp, Transaction,
};
use crate::store::{self, folder_error_text};
use crate::wallet::key_file::{self, KeyFileError};
use zeroize::Zeroizing;

/// An error about a private network. `Display` says what to do.
#[derive(Debug, thiserror::Error)]
pub enum DevnetError {
    /// The settings are wrong.
    #[error(transparent)]
    Settings(#[from] ConfigError),
    /// This folder cannot be created.
    #[error("the folder {} cannot be used: {}", .0.display(), folder_error_text(.1))]
    Folder(PathBuf, io::Error),
    /// This file cannot be read or written.
    #[error("{path}: {1}", path = .0.display())]
    File(PathBuf, io::Error),
    /// This key file cannot be read or written.
    #[error("the key file {path}: {1}", path = .0.display())]
    KeyFile(PathBuf, KeyFileError),
    /// The system provides no randomness for keys.
    #[error("the system provides no random numbers for keys: {0}")]
    Randomness(io::Error),
    /// Fresh keys were requested for a network that has keys.
    #[error("the private network in {} already has its keys; choose another folder with --data, or remove this one", .0.display())]
    HasKeys(PathBuf),
    /// Settings of the command line would change the chain of an existing network.
    #[error("the private network in {} was created with another block time or other rules, which cannot change \
                 later; choose another folder with --data, or remove this one", .0.display())]
    OtherChain(PathBuf),
    /// This setting of the command line is part of the network's identity, which nisd chooses.
    #[error(
        "{0} cannot be set for nisd's own private network; omit it, or pass your own configuration with \
                 --config"
    )]
    Identity(String),
    /// The folder holds the store of another chain.
    #[error("{} holds the store of a chain with another configuration; pass that configuration with --config, or \
                 choose another folder with --data", .0.display())]
    ForeignStore(PathBuf),
    /// There is no private network in this folder.
    #[error("there is no private network in {}; nisd run creates one, and --data names another folder", .0.display())]
    Absent(PathBuf),
}

/// Creates the nemesis block with the initial balances.
///
/// Its time stamp should be the current time: after an older one, blocks come too fast at first, then too slowly. Where
/// balances vest over time, an account may occur only once.
pub fn nemesis_block(signer: &KeyPair, time: Timestamp, network: NetworkByte, grants: &[(Address, Amount)]) -> Block {
    let transactions = grants.iter().map(|grant| transfer(signer, time, network, *grant)).collect();
    let mut block = Block {
        kind: BlockKind::Nemesis,
        version: wire_version(network, 1),
        timestamp: time,
        signer: signer.public(),
        signature: None,
        previous_hash: Hash256([0; 32]).into(),
        height: Height::NEMESIS,
        transactions,
    };
    block.signature = Some(signer.sign(&block.to_bytes(SigningForm::NonVerifiable)));
    block
}

/// Creates a transfer of the nemesis account. Its fee is zero, also in the signed data.
fn transfer(signer: &KeyPair, time: Timestamp, network: NetworkByte, grant: (Address, Amount)) -> Transaction {
    /// Seconds until the deadline, which is never checked.
    const DEADLINE_SECONDS: i32 = 3_600;
    let (recipient, amount) = grant;
    let mut transaction = Transaction {
        version: wire_version(network, 1),
        timestamp: time,
        signer: signer.public(),
        signature: None,
        fee: Amount::ZERO,
        deadline: Timestamp(time.0.saturating_add(DEADLINE_SECONDS)),
        body: Body::Transfer(Transfer { recipient, amount, message: None, mosaics: Vec::new() }),
    };
    transaction.signature = Some(signer.sign(&transaction.signed_bytes()));
    transaction
}

/// Returns a generation hash for a new network. Any value works, but two networks should not share one.
pub fn generation_hash(signer: &KeyPair, time: Timestamp) -> Hash256 {
    Hash256(keccak256_parts(&[&signer.public().0, &time.0.to_le_bytes()]))
}

/// Total supply in whole XEM: the supply of `nem:xem` in the protocol.
pub const SUPPLY: u64 = 8_999_999_999;
/// Maximum initial balance of the harvester, in whole XEM.
const LARGEST_STAKE: u64 = 8_000_000_000;
/// Maximum of stake, in whole XEM, times block time, in seconds: above it even the greatest difficulty cannot slow
/// blocks down to the block time, since 10^15 = 1024 · seconds · stake · 1.9.
const LARGEST_STAKE_SECONDS: u64 = 500_000_000_000;
/// Initial balance of an account for experiments, in whole XEM.
const TEST_BALANCE: u64 = 100_000_000;
/// Prefix from which demo keys are derived; the name of the role follows.
const DEMO: &[u8] = b"nisd devnet: a demo key that everybody knows: ";

/// An account of the nemesis block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Signs the nemesis block, and never anything else.
    Nemesis,
    /// Makes the blocks. It must not send: no other account would confirm its transactions.
    Harvester,
    /// Owns the rest of the supply.
    Bank,
    /// For experiments.
    Alice,
    /// For experiments.
    Bob,
    /// For experiments.
    Carol,
}

impl Role {
    /// The roles with an initial balance.
    pub const OWNERS: [Role; 5] = [Role::Harvester, Role::Bank, Role::Alice, Role::Bob, Role::Carol];

    /// Returns its name, which is also that of its key file.
    pub fn name(self) -> &'static str {
        match self {
            Role::Nemesis => "nemesis",
            Role::Harvester => "harvester",
            Role::Bank => "bank",
            Role::Alice => "alice",
            Role::Bob => "bob",
            Role::Carol => "carol",
        }
    }

    /// Returns its initial balance on a network with a block time of `target_time` seconds.
    pub fn balance(self, target_time: u32) -> Amount {
        let stake = (LARGEST_STAKE_SECONDS / u64::from(target_time.max(1))).min(LARGEST_STAKE);
        Amount::whole(match self {
            Role::Nemesis => 0,
            Role::Harvester => stake,
            Role::Bank => SUPPLY - stake - 3 * TEST_BALANCE,
            Role::Alice | Role::Bob | Role::Carol => TEST_BALANCE,
        })
    }

    /// Returns its key on every network with demo keys. The key is worthless, since anyone can compute it.
    pub fn demo_key(self) -> PrivateKey {
        key_from_seed(Zeroizing::new(keccak256_parts(&[DEMO, self.name().as_bytes()])))
    }
}

/// Creates a key from 32 random bytes. Its top bit is cleared, so that it is always printed with 64 digits: NIS1 puts
/// `00` before other keys, which some software does not accept.
pub fn key_from_seed(mut seed: Zeroizing<[u8; 32]>) -> PrivateKey {
    seed[31] &= 0x7f;
    PrivateKey::from_seed(&seed)
}

/// The settings of the network and of its node. Written last: if it exists, the other files do too.
const SETTINGS_FILE: &str = "devnet.properties";
/// The nemesis block.
const NEMESIS_FILE: &str = "nemesis.bin";
/// Start of the settings file.
const HEADER: &str = "\
# A private network, created by nisd. `nisd run --data` with this folder continues it.
#
# All nodes of the network must have the same values here:
";
/// Comment before the setting that keeps other machines away from demo keys.
const DEMO_HEADER: &str = "
# The keys are publicly known demo keys, so only this machine can reach the node, its peers are on this machine, and no rate
# limits its requests. The values * and false, and true for the last one, are for other machines.
";
/// Comment between the settings of the network and those of the node.
const NODE_HEADER: &str = "
# This node. Its key is that of the harvester, and also the node's identity.
";

/// Default rewrite limit of a private network; the same as on other networks, unless blocks are too rare for it.
const REWRITE_LIMIT: u64 = 360;

/// Settings of a private network before it has keys, and the defaults of its adjustable settings. The identity is a
/// placeholder until the keys exist.
const TEMPLATE: &str = include_str!("devnet/template.properties");

/// A private network in its folder.
#[derive(Debug)]
pub struct Devnet {
    /// The folder, which also holds the store.
    pub folder: PathBuf,
    /// The accounts whose key files exist.
    pub accounts: Vec<Account>,
}

/// An account of the network.
#[derive(Debug)]
pub struct Account {
    /// Its role.
    pub role: Role,
    /// Its address.
    pub address: Address,
    /// Its initial balance.
    pub balance: Amount,
    /// The file with its key.
    pub key_file: PathBuf,
    /// Whether its key is the publicly known demo key.
    pub is_demo: bool,
}

impl Devnet {
    /// Opens the network that the flags select, or creates it. Returns it with the settings of its node.
    pub fn open_or_make(
        flags: Vec<Override>,
        fresh_keys: bool,
        home: Option<&Path>,
        system: System,
    ) -> Result<(Devnet, Settings), DevnetError> {
        let planned = plan(&flags, home)?;
        let settings_file = planned.data.join(SETTINGS_FILE);
        if !settings_file.exists() {
            make(&planned, fresh_keys, system)?;
        } else if fresh_keys {
            return Err(DevnetError::HasKeys(planned.data));
        }
        open(&planned.data, flags, home)
    }

    /// Opens the network that the flags select, which must exist.
    pub fn open(flags: Vec<Override>, home: Option<&Path>) -> Result<(Devnet, Settings), DevnetError> {
        let folder = plan(&flags, home)?.data;
        if !folder.join(SETTINGS_FILE).exists() {
            return Err(DevnetError::Absent(folder));
        }
        open(&folder, flags, home)
    }

    /// Returns the account of a role.
    pub fn account(&self, role: Role) -> Option<&Account> {
        self.accounts.iter().find(|account| account.role == role)
    }
}

/// Applies the flags to the template. The result has the folder and all adjustable chain parameters.
fn plan(flags: &[Override], home: Option<&Path>) -> Result<Settings, DevnetError> {
    if let Some(flag) = flags.iter().find(|flag| flag.key.starts_with("nem.network")) {
        return Err(DevnetError::Identity(flag.key.clone()));
    }
    let template = Path::new("(nisd's own private network)");
    let text = format!("{TEMPLATE}nis.blockChainRewriteLimit = {}\n", default_rewrite_limit(flags));
    Ok(config::build(Some((template, text.as_bytes())), flags.to_vec(), home)?)
}

/// Returns [`REWRITE_LIMIT`], or the blocks of half a day if these are fewer, but at least the 10 that settings allow.
fn default_rewrite_limit(flags: &[Override]) -> u64 {
    const HALF_A_DAY: u64 = 43_200;
    let chosen = flags.iter().rfind(|flag| flag.key == "nis.blockGenerationTargetTime");
    let seconds = chosen.and_then(|flag| flag.value.trim().parse().ok());
    let blocks = seconds.and_then(|seconds| HALF_A_DAY.checked_div(seconds));
    blocks.unwrap_or(REWRITE_LIMIT).clamp(10, REWRITE_LIMIT)
}

fn open(folder: &Path, flags: Vec<Override>, home: Option<&Path>) -> Result<(Devnet, Settings), DevnetError> {
    let file = folder.join(SETTINGS_FILE);
    let settings = config::load(Some(&file), flags, home)?;
    let mut made = config::load(Some(&file), Vec::new(), home)?.network;
    // What is stored in addition to the chain may change.
    made.chain.history_from = settings.network.chain.history_from;
    if made != settings.network {
        return Err(DevnetError::OtherChain(folder.to_owned()));
    }
    let mut accounts = Vec::new();
    for role in Role::OWNERS {
        let key_file = key_file_of(folder, role);
        // The operator may have moved a key elsewhere.
        if key_file.exists() {
            let key = read_key(&key_file)?;
            accounts.push(Account {
                role,
                address: address_of(&key, &settings.network),
                balance: role.balance(settings.network.chain.target_time),
                is_demo: is_demo(role, &key),
                key_file,
            });
        }
    }
    Ok((Devnet { folder: folder.to_owned(), accounts }, settings))
}

/// Creates keys, nemesis block and settings. Keys that exist already, from an interrupted attempt, are used.
fn make(planned: &Settings, fresh_keys: bool, system: System) -> Result<(), DevnetError> {
    let folder = &planned.data;
    if store::exists(folder) {
        return Err(DevnetError::ForeignStore(folder.clone()));
    }
    fs::create_dir_all(folder).map_err(|error| DevnetError::Folder(folder.clone(), error))?;
    let mut network = planned.network.clone();
    let mut grants = Vec::new();
    for role in Role::OWNERS {
        let key = account_key(folder, role, fresh_keys, system)?;
        grants.push((address_of(&key, &network), role.balance(network.chain.target_time)));
    }
    // This key is not kept: its account can never send.
    let signer = KeyPair::new(&new_key(Role::Nemesis, fresh_keys, system)?);
    let time = NetworkClock::new(planned.node.clock, 0).now((system.unix_millis)(), 0);
    network.generation_hash = generation_hash(&signer, time);
    network.nemesis_signer = Address::from_public_key(&signer.public(), network.byte);
    let nemesis = nemesis_block(&signer, time, network.byte, &grants);
    write(folder, NEMESIS_FILE, &nemesis.to_bytes(SigningForm::Verifiable))?;
    let harvester = read_key(&key_file_of(folder, Role::Harvester))?;
    write(folder, SETTINGS_FILE, settings_text(&network, &harvester).as_bytes())
}

/// Returns the settings of network and node, which contain the harvester's key.
fn settings_text(network: &Network, harvester: &PrivateKey) -> Zeroizing<String> {
    /// Capacity for all of it, so that growth leaves no copy of the key behind.
    const ROOM: usize = 8 << 10;
    let mut text = Zeroizing::new(String::with_capacity(ROOM));
    text.push_str(HEADER);
    text.push_str(&network_properties(network, NEMESIS_FILE));
    text.push_str(NODE_HEADER);
    text.push_str("nisd.data = .\nnis.bootName = devnet\nnis.bootKey = ");
    text.push_str(&harvester.printed());
    text.push('\n');
    if is_demo(Role::Harvester, harvester) {
        text.push_str(DEMO_HEADER);
        text.push_str("nisd.bindAddress = localhost\nnisd.loopbackPeers = true\nnem.useDosFilter = false\n");
    }
    text
}

/// Writes a file atomically, readable by its owner only.
fn write(folder: &Path, name: &str, content: &[u8]) -> Result<(), DevnetError> {
    let path = folder.join(name);
    let file = key_file::private_file(&path, &[content]);
    let written = file.and_then(|file| file.persist(&path).map_err(|refused| refused.error));
    written.map(drop).map_err(|error| DevnetError::File(path, error))
}

fn key_file_of(folder: &Path, role: Role) -> PathBuf {
    folder.join(format!("{}.key", role.name()))
}

fn read_key(path: &Path) -> Result<PrivateKey, DevnetError> {
    key_file::read(path).map(|file| file.key).map_err(|error| DevnetError::KeyFile(path.to_owned(), error))
}

/// Returns the key of an account with an initial balance; reads its file, or creates it.
fn account_key(folder: &Path, role: Role, fresh: bool, system: System) -> Result<PrivateKey, DevnetError> {
    let path = key_file_of(folder, role);
    if path.exists() {
        let key = read_key(&path)?;
        return if fresh && is_demo(role, &key) { Err(DevnetError::HasKeys(folder.to_owned())) } else { Ok(key) };
    }
    let key = new_key(role, fresh, system)?;
    key_file::write(&path, &key).map_err(|error| DevnetError::KeyFile(path, error))?;
    Ok(key)
}

fn new_key(role: Role, fresh: bool, system: System) -> Result<PrivateKey, DevnetError> {
    if !fresh {
        return Ok(role.demo_key());
    }
    let mut seed = Zeroizing::new([0; 32]);
    (system.random)(seed.as_mut_slice()).map_err(DevnetError::Randomness)?;
    Ok(key_from_seed(seed))
}

fn is_demo(role: Role, key: &PrivateKey) -> bool {
    role.demo_key().seed() == key.seed()
}

fn address_of(key: &PrivateKey, network: &Network) -> Address {
    Address::from_public_key(&KeyPair::new(key).public(), network.byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::PrivateKey;

    /// The nemesis block of the golden chain, which NIS1 accepted.
    #[test]
    fn the_golden_nemesis_block_is_made_byte_for_byte() {
        let golden: serde_json::Value = serde_json::from_str(include_str!("../tests/data/golden-chain.json")).unwrap();
        let key =
            |role: &str| KeyPair::new(&PrivateKey::from_hex(golden["privateKeys"][role].as_str().unwrap()).unwrap());
        let network = NetworkByte::TESTNET;
        let grants = [
            ("harvester", 8_000_000_000),
            ("alice", 999_000_000),
            ("bob", 333_333),
            ("carol", 333_333),
            ("multisig", 333_333),
        ]
        .map(|(role, xem)| (Address::from_public_key(&key(role).public(), network), Amount::whole(xem)));
        let block = nemesis_block(&key("nemesis"), Timestamp(300_000_000), network, &grants);
        assert_eq!(hex::encode(block.to_bytes(SigningForm::Verifiable)), golden["nemesis"].as_str().unwrap());
    }

    #[test]
    fn other_signers_and_times_have_other_generation_hashes() {
        let signer = |seed| KeyPair::new(&PrivateKey::from_seed(&[seed; 32]));
        let hash = |seed, time| generation_hash(&signer(seed), Timestamp(time));
        assert_eq!(hash(1, 5), hash(1, 5));
        assert_ne!(hash(1, 5), hash(1, 6));
        assert_ne!(hash(1, 5), hash(2, 5));
    }
}

#[cfg(test)]
mod accounts_tests {
    use super::*;

    #[test]
    fn the_initial_balances_sum_to_the_supply_at_any_block_time() {
        for target_time in [10, 60, 62, 63, 300, 8_640, 86_400] {
            let total: u64 = Role::OWNERS.iter().map(|role| role.balance(target_time).0).sum();
            assert_eq!(Amount(total), Amount::whole(SUPPLY), "{target_time}");
        }
        assert_eq!(Role::Harvester.balance(10), Amount::whole(8_000_000_000));
        assert_eq!(Role::Harvester.balance(300), Amount::whole(1_666_666_666));
    }

    #[test]
    fn demo_keys_are_the_same_on_every_machine_and_have_64_digits() {
        let keys = Role::OWNERS.map(|role| role.demo_key().printed());
        assert!(keys.iter().all(|key| key.len() <= 64));
        let alice = keys[2].as_str();
        assert_eq!(alice, "1281c9cbc953c0e341e4dbe99bf15f74c0f3f243b41a9907b40ed99a66dbfcb8");
        assert!(keys.iter().filter(|key| key.as_str() == alice).count() == 1);
    }
}
