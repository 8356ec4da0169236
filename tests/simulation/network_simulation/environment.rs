//! The base of a simulated network: keys, the nemesis block, settings, and stores in temporary folders.

use std::cell::{Cell, OnceCell};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use nisd::chain::BlockSource;
use nisd::codec::Context;
use nisd::config::{IpDetection, PeerSettings, Settings};
use nisd::crypto::{KeyPair, PrivateKey, PublicKey};
use nisd::model::network::ChainParameters;
use nisd::model::{Address, Amount, Checkpoint, Hash256, Height, Network, Timestamp};
use nisd::peer::wire::{Endpoint, Identity, MetaData, NodeInfo, Version};
use nisd::store::{ChainIdentity, Options, Store};
use tempfile::TempDir;

use super::plan::{MemberPlan, Plan};
use crate::common::private_network::{Genesis, NETWORK, TOTAL, address, key_pair, private_key};
use crate::common::recorded_chain::{copy_store, import_blocks, import_list};
use crate::common::simulated_node::simulated_network;
use crate::common::{Random, TESTNET, load_settings};

/// Network time at the start of the simulation.
pub const START: Timestamp = Timestamp(300_000_000);
/// Seconds from the nemesis block to the start.
const AGE: i32 = 10;
/// Address space of a store in bytes.
const MAP_SIZE: usize = 256 << 20;
/// Maximum number of stores of one simulation; every restart needs a new one.
const MAX_STORES: usize = 64;
/// Initial balance of each user, and of each byzantine peer with a balance, in whole units.
const USER_BALANCE: u64 = 10_000_000;
const BYZANTINE_BALANCE: u64 = 400_000_000;
/// Number of users, and of byzantine peers with a balance.
pub const USERS: u64 = 6;
pub const BYZANTINE_PEERS: usize = 3;
/// Port of every node.
pub const PORT: u16 = 7890;

/// Returns the key with which a member identifies itself and harvests.
pub fn member_key(member: usize) -> PrivateKey {
    private_key(1 + member as u64)
}

/// Returns the name of a member.
pub fn member_name(member: usize) -> String {
    format!("member {member}")
}

/// Returns the keys of a user who sends transactions.
pub fn user_keys(number: u64) -> KeyPair {
    key_pair(101 + number)
}

/// Returns the keys of a byzantine peer for one of its identities.
pub fn byzantine_keys(byzantine: usize, identity: usize) -> KeyPair {
    key_pair(201 + 100 * byzantine as u64 + identity as u64)
}

/// Returns the keys of an account that owns nothing.
pub fn unfunded_keys() -> KeyPair {
    key_pair(999)
}

/// Builds the node information of a node.
pub fn node_info(key: PublicKey, name: String, ip: IpAddr, port: u16) -> NodeInfo {
    NodeInfo {
        identity: Identity { key, name: Some(name) },
        endpoint: Endpoint::http(ip.to_string(), port),
        meta_data: MetaData {
            version: Version::OWN,
            network_id: MetaData::network_id_of(NETWORK),
            ..MetaData::default()
        },
    }
}

/// The base of a network.
pub struct Environment {
    pub network: Network,
    base: Settings,
    checkpoint: Option<u64>,
    nemesis: Vec<u8>,
    folder: TempDir,
    stores: [OnceCell<Store>; MAX_STORES],
    folders: Cell<usize>,
}

impl Environment {
    /// Creates the base for a plan, with a store that holds the nemesis block.
    pub fn new(plan: &Plan) -> Environment {
        let nemesis = Genesis::new(Timestamp(START.0 - AGE), &shares(plan));
        let network = network(plan);
        let base = settings(&network);
        let environment = Environment {
            network,
            base,
            checkpoint: plan.checkpoint,
            nemesis: nemesis.block,
            folder: folder(),
            stores: [const { OnceCell::new() }; MAX_STORES],
            folders: Cell::new(0),
        };
        let template = Store::open(&environment.path("template"), &environment.identity(), options()).expect("a store");
        import_list(&template, &environment.network, &environment.nemesis, []);
        environment
    }

    /// Imports blocks after the nemesis block with full validation.
    pub fn import<'a>(&'a self, store: &'a Store, blocks: BlockSource<'a>) {
        import_blocks(store, &self.network, self.nemesis.clone(), blocks, None).expect("valid blocks");
    }

    pub fn context(&self) -> Context {
        Context::of(&self.network)
    }

    fn identity(&self) -> ChainIdentity {
        ChainIdentity::of(&self.network)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Creates a folder that holds only the nemesis block.
    pub fn new_folder(&self) -> PathBuf {
        self.copy(&self.path("template"))
    }

    /// Copies the present content of a folder, as a disk image.
    pub fn copy(&self, from: &Path) -> PathBuf {
        self.folders.set(self.folders.get() + 1);
        let to = self.path(&format!("store-{}", self.folders.get()));
        fs::create_dir(&to).expect("a folder");
        copy_store(from, &to);
        to
    }

    /// Opens the store in a folder.
    pub fn open(&self, folder: &Path) -> &Store {
        let place = self.stores.iter().find(|place| place.get().is_none()).expect("room for one more store");
        place.get_or_init(|| Store::open(folder, &self.identity(), options()).expect("a store"))
    }

    /// Returns the settings of a member.
    pub fn settings(&self, index: usize, member: &MemberPlan) -> Settings {
        let mut settings = self.base.clone();
        settings.endpoint = Endpoint::http(member.ip.to_string(), PORT);
        settings.node.auto_boot = true;
        settings.node.boot_key = Some(member_key(index));
        settings.node.boot_name = Some(member_name(index));
        settings.peers.auto_harvest = member.harvests;
        // No chain has it.
        settings.peers.checkpoint =
            self.checkpoint.map(|height| Checkpoint { height: Height(height), hash: Hash256([9; 32]) });
        settings.peers = PeerSettings {
            node_limit: member.node_limit,
            binary_transport: member.is_binary,
            use_network_time: member.uses_network_time,
            ip_detection: member.ip_detection,
            ..settings.peers
        };
        settings
    }
}

/// Returns the initial balances: members by weight, users and byzantine peers equally.
fn shares(plan: &Plan) -> Vec<(Address, Amount)> {
    let people = (0..USERS).map(|number| (address(&user_keys(number)), Amount::whole(USER_BALANCE)));
    let byzantine_peers = (0..BYZANTINE_PEERS)
        .map(|byzantine| (address(&byzantine_keys(byzantine, 0)), Amount::whole(BYZANTINE_BALANCE)));
    let rest = TOTAL - USERS * USER_BALANCE - BYZANTINE_PEERS as u64 * BYZANTINE_BALANCE;
    let weights: u64 = plan.members.iter().map(|member| member.weight).sum();
    let member = |(index, member): (usize, &MemberPlan)| {
        let key = KeyPair::new(&member_key(index));
        (address(&key), Amount::whole(rest / weights * member.weight))
    };
    let mut shares: Vec<_> = plan.members.iter().enumerate().map(member).chain(people).chain(byzantine_peers).collect();
    let given: u64 = shares.iter().map(|(_, amount)| amount.0).sum();
    // The remainder of the division.
    shares[0].1.0 += Amount::whole(TOTAL).0 - given;
    shares
}

fn network(plan: &Plan) -> Network {
    let chain = ChainParameters {
        target_time: plan.target_time,
        rewrite_limit: plan.rewrite_limit,
        proof_of_stake: true,
        immediate_vesting: true,
        stabilize_block_times: plan.is_stabilized,
        ..ChainParameters::after_all_forks()
    };
    simulated_network(chain, &mut Random(plan.seed))
}

fn settings(network: &Network) -> Settings {
    Settings { network: network.clone(), ..load_settings(None, &TESTNET) }
}

fn options() -> Options {
    Options { map_size: MAP_SIZE }
}

/// Creates a folder in memory where possible.
fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a folder")
}

/// How a member detects its own address.
pub const IP_DETECTION: [IpDetection; 3] = [IpDetection::Disabled, IpDetection::Optional, IpDetection::Required];
