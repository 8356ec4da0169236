//! The folder of a private network.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::DevnetError;
use super::{Role, key_from_seed};
use super::{generation_hash, nemesis_block};
use crate::clock::{NetworkClock, System};
use crate::codec::SigningForm;
use crate::config::{self, Override, Settings, network_properties};
use crate::crypto::{KeyPair, PrivateKey};
use crate::model::{Address, Amount, Network};
use crate::store;
use crate::wallet::key_file;

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
const TEMPLATE: &str = include_str!("template.properties");

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
    let write = || -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(content)?;
        file.as_file().sync_all()?;
        file.persist(folder.join(name))?;
        Ok(())
    };
    write().map_err(|error| DevnetError::File(folder.join(name), error))
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
