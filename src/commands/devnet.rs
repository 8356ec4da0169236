//! A private network of one's own, created from nothing, and `nisd devnet`, which shows it and exports what other nodes
//! need. Its introduction is also shown at its start.
//!
//! | Part | Content |
//! |---|---|
//! | [`Role`] | accounts, balances and demo keys |
//! | `nemesis_block` | the first block |
//! | [`Devnet`] | the folder of the network: settings, keys and nemesis block beside the store |
//!
//! Time and randomness are passed in as [`System`].

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::json;
use zeroize::Zeroizing;

use super::keys::{in_key_file, load_key};
use super::{CommandError, failed, in_file, node_flag, print, random_bytes, shell_word, usage};
use crate::clock::{NetworkClock, System};
use crate::codec::SigningForm;
use crate::config::{self, Bind, Endpoint, Override, Settings, network_properties};
use crate::crypto::hash::keccak256_parts;
use crate::crypto::{KeyPair, PrivateKey};
use crate::files;
use crate::ip::parse_own_host;
use crate::local_cookie::LocalCookie;
use crate::model::transaction::{Transfer, wire_version};
use crate::model::{
    Address, Amount, Block, BlockKind, Body, Hash256, Height, Network, NetworkByte, Timestamp, Transaction,
};
use crate::store::{self, StoreError};
use crate::wallet::key_file;
use crate::wallet::values::currency;

/// `nisd devnet`.
#[derive(Subcommand, Debug)]
pub enum DevnetCommand {
    /// Show the accounts of a private network, and commands to copy
    Show {
        /// Folder of the private network [default: that of nisd run]
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Port of the node's HTTP interface [default: that of the running node, else nem.httpPort of its settings]
        #[arg(long, value_name = "PORT", allow_negative_numbers = true)]
        http_port: Option<String>,
    },
    /// Write what another node, nisd or NIS1, needs to join a private network
    ExportConfig {
        /// Folder of the private network [default: that of nisd run]
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Folder to write to
        #[arg(short, long, value_name = "DIR", value_parser = super::folder())]
        output: PathBuf,
        /// Host name or address at which other nodes reach this node [default: nem.host of its settings]
        #[arg(long, value_name = "HOST", value_parser = parse_own_host)]
        host: Option<String>,
        /// Port at which other nodes reach this node [default: nem.httpPort of its settings]
        #[arg(long, value_name = "PORT", allow_negative_numbers = true)]
        http_port: Option<String>,
    },
}

/// `nisd devnet`.
pub fn devnet(command: &DevnetCommand, settings: &Settings, devnet: &Devnet) -> Result<(), CommandError> {
    match command {
        DevnetCommand::Show { http_port, .. } => {
            // A running node may have been started with other flags.
            let running = if http_port.is_none() { LocalCookie::url_in(&devnet.folder).ok() } else { None };
            print(&introduction(devnet, settings, &running.unwrap_or_else(|| settings.url())))
        }
        DevnetCommand::ExportConfig { output, host, .. } => {
            let (url, files) = join_files(settings, host.as_deref())?;
            files::create_folder(output).map_err(CommandError::System)?;
            let files = files.map(|(name, content)| (output.join(name), content));
            write_new(&files)?;
            log::info!("other nodes will reach this node at {url}; --host and --http-port name another endpoint");
            // The flags of the running node are not known here.
            let own = &settings.endpoint.host;
            if let Some(host) = host.as_ref().filter(|host| *host != own) {
                log::info!("NIS1 nodes use the address that the node reports: run it with --set nem.host={host}");
            }
            if settings.http.bind.is_loopback() {
                log::info!("its settings allow only this machine: run it with --bind '*', or set nisd.bindAddress");
            }
            print(&files.iter().map(|(path, _)| format!("{}\n", path.display())).collect::<String>())
        }
    }
}

/// Describes how to use a private network: its accounts, and commands to copy for its node at a URL.
pub fn introduction(devnet: &Devnet, settings: &Settings, url: &str) -> String {
    let program = std::env::args().next().unwrap_or_else(|| "nisd".to_owned());
    let (summary, accounts) = (summary(devnet, settings), accounts(devnet));
    let commands = commands(devnet, settings, url, &shell_word(&program));
    format!("\n{summary}\n\n{accounts}\nIn another terminal:\n\n{commands}\n")
}

fn summary(devnet: &Devnet, settings: &Settings) -> String {
    let chain = &settings.network.chain;
    let consensus = if chain.proof_of_stake { "stake" } else { "importance" };
    let has_demo_keys = devnet.accounts.iter().any(|account| account.is_demo);
    let keys = if has_demo_keys {
        "THE KEYS ARE PUBLICLY KNOWN DEMO KEYS: WORTHLESS. For your own keys: --fresh-keys --data DIR"
    } else {
        "Its keys are your own; keep the key files."
    };
    format!(
        "A private network of your own: a block every {} s, proof of {consensus}.\nIt is stored in {}; every later start \
         continues it.\n{keys}\n{}",
        chain.target_time,
        devnet.folder.display(),
        reach(settings.http.bind, has_demo_keys)
    )
}

/// Describes which machines can reach the node.
fn reach(bind: Bind, has_demo_keys: bool) -> String {
    let place = match bind {
        Bind::All | Bind::One(IpAddr::V6(Ipv6Addr::UNSPECIFIED)) => "all addresses of this machine".to_owned(),
        Bind::Loopback => "127.0.0.1 and ::1".to_owned(),
        Bind::One(address) if address.to_canonical() == Ipv4Addr::UNSPECIFIED => {
            "all IPv4 addresses of this machine".to_owned()
        }
        Bind::One(address) => address.to_string(),
    };
    let remark = match (bind.is_loopback(), has_demo_keys) {
        (true, _) => ": other machines cannot reach it. --bind '*' allows them",
        (false, true) => ", SO OTHER MACHINES CAN REACH IT AND ITS PUBLICLY KNOWN KEYS. --bind localhost prevents this",
        (false, false) => ": other machines can reach it. --bind localhost prevents this",
    };
    format!("It listens on {place}{remark}.")
}

fn accounts(devnet: &Devnet) -> String {
    let line = |account: &Account| {
        let Account { role, address, balance, key_file, .. } = account;
        let (name, balance, file) = (role.to_string(), currency(*balance), key_file.display());
        let remark = if *role == Role::Harvester { "  (harvests the blocks; must not send)" } else { "" };
        format!("  {name:<9}  {address}  {balance:>14}  {file}{remark}\n")
    };
    devnet.accounts.iter().map(line).collect()
}

/// Returns commands to copy for the node at a URL. `program` is how nisd was called.
fn commands(devnet: &Devnet, settings: &Settings, url: &str, program: &str) -> String {
    let websocket = SocketAddr::new(settings.http.bind.local_address(), settings.websocket.port);
    let explorer = if settings.http.explorer { format!("  {url}/explorer in a browser\n") } else { String::new() };
    let at = node_flag(url);
    let height = shell_word(format!("{url}/chain/height"));
    let text = format!("{explorer}  {program} status{at}\n  curl {height}\n");
    let account = |role| devnet.accounts.iter().find(|account| account.role == role);
    let (Some(alice), Some(bob)) = (account(Role::Alice), account(Role::Bob)) else { return text };
    let (key_file, bob) = (shell_word(alice.key_file.display()), &bob.address);
    format!(
        "{text}  {program} send --from-key-file {key_file} --to {bob} --amount 12.5 --message hello{at} --wait\n  \
         curl '{url}/account/get?address={bob}'\n\n\
         Messages, STOMP at ws://{websocket}/w/messages/websocket: /blocks/new, /unconfirmed/{bob},\n\
         /transactions/{bob}\n"
    )
}

/// Settings with which another node joins, with a word in place of those of the network.
const JOIN_SETTINGS: &str = include_str!("join.properties");

/// Name and content of a file.
type NamedFile = (String, Vec<u8>);

/// Returns what another node needs to join the network of these settings through their node: the URL of this node, and
/// three files: settings, nemesis block, and a peer list with one entry. `host` is its address for other nodes; the default
/// is that of the settings.
fn join_files(settings: &Settings, host: Option<&str>) -> Result<(String, [NamedFile; 3]), CommandError> {
    let network = &settings.network;
    let key = settings.node.boot_key.as_ref();
    let key = key.ok_or_else(|| failed("nis.bootKey is missing in the settings of the private network"))?;
    let public = KeyPair::new(key).public();
    let name = settings.node.boot_name.clone();
    let name = name.unwrap_or_else(|| Address::from_public_key(&public, network.byte).to_string());
    let Endpoint { protocol, host: own_host, port } = &settings.endpoint;
    if *port == 0 {
        return Err(failed(
            "nem.httpPort is 0, so the system chooses another port at each start; name one with --http-port, and start \
             the node with the same port",
        ));
    }
    let host = host.unwrap_or(own_host);
    let peers = json!({"knownPeers": [{
        "endpoint": {"protocol": protocol, "port": port, "host": host},
        "identity": {"name": name, "public-key": public.to_string()},
    }]});
    let nemesis_file = format!("nemesis-{}.bin", network.name);
    let text = JOIN_SETTINGS.replace("NETWORK\n", &network_properties(network, &nemesis_file));
    let files = [
        ("config-user.properties".to_owned(), text.into_bytes()),
        (nemesis_file, settings.nemesis.read()?),
        (format!("peers-config_{}.json", network.name), format!("{peers:#}\n").into_bytes()),
    ];
    Ok((format!("{protocol}://{host}:{port}"), files))
}

/// Writes all files, or none of them. Fails if any of them exists.
fn write_new(new_files: &[(PathBuf, Vec<u8>)]) -> Result<(), CommandError> {
    if let Some((path, _)) = new_files.iter().find(|(path, _)| path.exists()) {
        let path = path.display();
        return Err(failed(format!("{path} exists and is not overwritten; choose another folder with --output")));
    }
    for (number, (path, content)) in new_files.iter().enumerate() {
        files::create_named(path, &[content], files::SHARED_MODE).map_err(|error| {
            // The same command can be repeated.
            for (written, _) in &new_files[..number] {
                let _ = fs::remove_file(written);
            }
            in_file(path)(error)
        })?;
    }
    Ok(())
}

/// Creates the nemesis block with the initial balances.
///
/// Its time stamp should be the current time: after an older one, blocks come too fast at first, then too slowly. Where
/// balances vest over time, an account may occur only once.
fn nemesis_block(signer: &KeyPair, time: Timestamp, network: NetworkByte, grants: &[(Address, Amount)]) -> Block {
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
fn generation_hash(signer: &KeyPair, time: Timestamp) -> Hash256 {
    Hash256(keccak256_parts(&[&signer.public().0, &time.0.to_le_bytes()]))
}

/// Total supply in whole XEM: the supply of `nem:xem` in the protocol.
const SUPPLY: u64 = 8_999_999_999;
/// Maximum initial balance of the harvester, in whole XEM.
const LARGEST_STAKE: u64 = 8_000_000_000;
/// Maximum of stake, in whole XEM, times block time, in seconds: above it even the greatest difficulty cannot slow
/// blocks down to the block time, since 10^15 = 1024 · seconds · stake · 1.9.
const LARGEST_STAKE_SECONDS: u64 = 500_000_000_000;
/// Initial balance of an account for experiments, in whole XEM.
const TEST_BALANCE: u64 = 100_000_000;
/// Prefix from which demo keys are derived; the name of the role follows.
const DEMO: &[u8] = b"nisd devnet: a demo key that everybody knows: ";

/// An account of the nemesis block. `Display` writes its name, which is also that of its key file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
#[display(rename_all = "lowercase")]
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
        key_from_seed(Zeroizing::new(keccak256_parts(&[DEMO, self.to_string().as_bytes()])))
    }
}

/// Creates a key from 32 random bytes. Its top bit is cleared, so that it is always printed with 64 digits: NIS1 puts
/// `00` before other keys, which some software does not accept.
fn key_from_seed(mut seed: Zeroizing<[u8; 32]>) -> PrivateKey {
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
/// Settings that keep other machines away from demo keys.
const DEMO_SETTINGS: &str = "
# The keys are publicly known demo keys, so only this machine can reach the node, its peers are on this machine, and no rate
# limits its requests. The values * and false, and true for the last one, are for other machines.
nisd.bindAddress = localhost
nisd.loopbackPeers = true
nem.useDosFilter = false
";
/// Settings of the node, behind those of the network; the harvester's key follows.
const NODE_SETTINGS: &str = "
# This node. Its key is that of the harvester, and also the node's identity.
nisd.data = .
nis.bootName = devnet
nis.bootKey = ";

/// Default rewrite limit of a private network; the same as on other networks, unless blocks are too rare for it.
const REWRITE_LIMIT: u64 = 360;

/// Settings of a private network before it has keys, and the defaults of its adjustable settings. The identity is a
/// placeholder until the keys exist.
const TEMPLATE: &str = include_str!("devnet.properties");

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
    /// Opens the network that the flags select, and returns it with the settings of its node. `data` is its folder, if the
    /// command line names it. A network that does not exist is made, with fresh keys or demo keys, if `make_with` says which.
    pub fn open(
        flags: Vec<Override>,
        data: Option<&Path>,
        home: Option<&Path>,
        make_with: Option<(bool, System)>,
    ) -> Result<(Devnet, Settings), CommandError> {
        let planned = plan(&flags, data, home)?;
        let (folder, shown) = (planned.data.clone(), planned.data.display());
        let file = folder.join(SETTINGS_FILE);
        match (files::exists(&file), make_with) {
            (false, Some((fresh_keys, system))) => make(&planned, fresh_keys, system)?,
            (false, None) => {
                return Err(usage(format!(
                    "there is no private network in {shown}; nisd run creates one, and --data names another folder"
                )));
            }
            (true, _) => {}
        }
        let settings = Settings { data: folder.clone(), ..config::load(Some(&file), flags, home)? };
        let mut made = config::load(Some(&file), Vec::new(), home)?.network;
        // What is stored in addition to the chain may change.
        made.chain.history_from = settings.network.chain.history_from;
        if made != settings.network {
            return Err(usage(format!(
                "the private network in {shown} was created with another block time or other rules, which cannot change \
                 later; choose another folder with --data"
            )));
        }
        let mut accounts = Vec::new();
        for role in Role::OWNERS {
            let key_file = key_file_of(&folder, role);
            // The operator may have moved a key elsewhere.
            if files::exists(&key_file) {
                let key = load_key(&key_file)?;
                let (address, is_demo) = (address_of(&key, &settings.network), is_demo(&key));
                let balance = role.balance(settings.network.chain.target_time);
                accounts.push(Account { role, address, balance, key_file, is_demo });
            }
        }
        if matches!(make_with, Some((true, _))) && accounts.iter().any(|account| account.is_demo) {
            return Err(usage(format!(
                "the private network in {shown} has demo keys, which others know; omit --fresh-keys, or choose another \
                 folder with --data"
            )));
        }
        Ok((Devnet { folder, accounts }, settings))
    }
}

/// Applies the flags to the template. The result has the folder and all adjustable chain parameters.
fn plan(flags: &[Override], data: Option<&Path>, home: Option<&Path>) -> Result<Settings, CommandError> {
    if let Some(flag) = flags.iter().find(|flag| flag.key.starts_with("nem.network")) {
        return Err(usage(format!(
            "{} cannot be set for nisd's own private network; omit it, or pass your own configuration with --config",
            flag.key
        )));
    }
    let template = Path::new("(nisd's own private network)");
    let text = format!("{TEMPLATE}nis.blockChainRewriteLimit = {}\n", default_rewrite_limit(flags));
    let planned = config::build(Some((template, text.as_bytes())), flags.to_vec(), home)?;
    Ok(Settings { data: data.map_or(planned.data, Path::to_owned), ..planned })
}

/// Returns [`REWRITE_LIMIT`], or the blocks of half a day if these are fewer, but at least the 10 that settings allow.
fn default_rewrite_limit(flags: &[Override]) -> u64 {
    const HALF_A_DAY: u64 = 43_200;
    let chosen = flags.iter().rfind(|flag| flag.key == "nis.blockGenerationTargetTime");
    let seconds = chosen.and_then(|flag| flag.value.trim().parse().ok());
    let blocks = seconds.and_then(|seconds| HALF_A_DAY.checked_div(seconds));
    blocks.unwrap_or(REWRITE_LIMIT).clamp(10, REWRITE_LIMIT)
}

/// Creates keys, nemesis block and settings. Key files that exist already, from an interrupted attempt or from the operator,
/// are used if they are of the same kind.
fn make(planned: &Settings, fresh_keys: bool, system: System) -> Result<(), CommandError> {
    let folder = &planned.data;
    if store::size(folder).is_ok() {
        return Err(usage(format!(
            "{} holds the store of a chain with another configuration; pass that configuration with --config, or choose \
             another folder with --data",
            folder.display()
        )));
    }
    files::create_folder(folder).map_err(|error| StoreError::Folder(folder.clone(), error))?;
    let mut network = planned.network.clone();
    // All are checked before the first one is created.
    let existing = Role::OWNERS.map(|role| existing_key(folder, role, fresh_keys));
    let mut grants = Vec::new();
    for (role, existing) in Role::OWNERS.into_iter().zip(existing.into_iter().collect::<Result<Vec<_>, _>>()?) {
        let key = existing.map_or_else(|| create_key(folder, role, fresh_keys, system), Ok)?;
        grants.push((address_of(&key, &network), role.balance(network.chain.target_time)));
    }
    // This key is not kept: its account can never send.
    let signer = KeyPair::new(&new_key(Role::Nemesis, fresh_keys, system)?);
    let time = NetworkClock::new(planned.node.clock, 0).now((system.unix_millis)(), 0);
    network.generation_hash = generation_hash(&signer, time);
    network.nemesis_signer = Address::from_public_key(&signer.public(), network.byte);
    let nemesis = nemesis_block(&signer, time, network.byte, &grants);
    write(folder, NEMESIS_FILE, &[&nemesis.to_bytes(SigningForm::Verifiable)])?;
    let harvester = load_key(&key_file_of(folder, Role::Harvester))?;
    let network = network_properties(&network, NEMESIS_FILE);
    let demo = if is_demo(&harvester) { DEMO_SETTINGS } else { "" };
    let settings = [HEADER, &network, NODE_SETTINGS, &harvester.printed(), "\n", demo];
    write(folder, SETTINGS_FILE, &settings.map(str::as_bytes))
}

/// Writes a file atomically, readable by its owner only.
fn write(folder: &Path, name: &str, content: &[&[u8]]) -> Result<(), CommandError> {
    let path = folder.join(name);
    files::replace_own(&path, content, true).map_err(in_file(&path))
}

fn key_file_of(folder: &Path, role: Role) -> PathBuf {
    folder.join(format!("{role}.key"))
}

/// Reads the key of an account with an initial balance, if its file exists. With fresh keys it must be nobody else's,
/// otherwise a demo key: the settings of a network are right for one kind only.
fn existing_key(folder: &Path, role: Role, fresh: bool) -> Result<Option<PrivateKey>, CommandError> {
    let path = key_file_of(folder, role);
    if !files::exists(&path) {
        return Ok(None);
    }
    let key = load_key(&path)?;
    let name = path.display();
    match (is_demo(&key), fresh) {
        (true, true) => Err(usage(format!(
            "{name} has a publicly known demo key, and --fresh-keys does not mix others with it: omit --fresh-keys, \
             remove the key files with demo keys, or choose another folder with --data"
        ))),
        (false, false) => Err(usage(format!(
            "{name} has a key of its own, with which no demo keys are mixed: with --fresh-keys it is used, and the \
             missing keys are generated; without, remove it or choose another folder with --data"
        ))),
        _ => Ok(Some(key)),
    }
}

/// Creates the key of an account with an initial balance, and its file.
fn create_key(folder: &Path, role: Role, fresh: bool, system: System) -> Result<PrivateKey, CommandError> {
    let path = key_file_of(folder, role);
    let key = new_key(role, fresh, system)?;
    key_file::write(&path, &key).map_err(in_key_file(&path))?;
    Ok(key)
}

fn new_key(role: Role, fresh: bool, system: System) -> Result<PrivateKey, CommandError> {
    Ok(if fresh { key_from_seed(random_bytes(system)?) } else { role.demo_key() })
}

/// Returns whether a key is the demo key of any role.
fn is_demo(key: &PrivateKey) -> bool {
    Role::OWNERS.iter().any(|role| role.demo_key().seed() == key.seed())
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
        let golden: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/data/golden-chain.json")).unwrap();
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
