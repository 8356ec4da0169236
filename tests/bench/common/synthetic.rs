//! A chain made up for measuring: many accounts that take part in the importance calculation, and many payments among
//! them. It ends with the block after which importances are calculated for the second time, an empty one.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use nisd::chain::{Window, harvesting_importance, proof};
use nisd::codec::Form;
use nisd::codec::block_file::write_block;
use nisd::commands;
use nisd::config::{self, Settings};
use nisd::crypto::{KeyPair, PrivateKey};
use nisd::model::transaction::{Transfer, wire_version};
use nisd::model::{
    Address, Amount, Block, BlockKind, Body, Hash256, Height, NetworkByte, Timestamp, Transaction, WireHash,
};
use nisd::store::{Store, StoredBlock, tip};

use super::scatter;

/// The last block.
pub const LAST: u64 = 359;
const NETWORK: NetworkByte = NetworkByte::TESTNET;
const GENERATION_HASH: Hash256 = Hash256([7; 32]);
const TOTAL: u64 = 9_000_000_000;
/// Whole units of the account that makes all blocks.
const OF_THE_HARVESTER: u64 = 3_000_000_000;

/// A chain in files.
pub struct Synthetic {
    /// Settings, also of the network.
    pub config: PathBuf,
    /// All blocks but the nemesis block.
    pub blocks: PathBuf,
    /// The accounts.
    pub addresses: Vec<Address>,
}

fn key_pair(number: u64) -> KeyPair {
    let mut seed = [0; 32];
    seed.chunks_mut(8).zip(1..).for_each(|(part, i)| part.copy_from_slice(&scatter(number * 4 + i).to_le_bytes()));
    KeyPair::new(&PrivateKey::from_seed(&seed))
}

fn address(keys: &KeyPair) -> Address {
    Address::from_public_key(&keys.public(), NETWORK)
}

fn transfer(from: &KeyPair, to: Address, amount: Amount, fee: Amount, time: Timestamp) -> Transaction {
    let body = Body::Transfer(Transfer { recipient: to, amount, message: None, mosaics: Vec::new() });
    let (version, deadline) = (wire_version(NETWORK, 1), Timestamp(time.0 + 3600));
    let signer = from.public();
    let mut transaction = Transaction { version, timestamp: time, signer, signature: None, fee, deadline, body };
    transaction.signature = Some(from.sign(&transaction.signed_bytes()));
    transaction
}

fn block(signer: &KeyPair, height: u64, time: Timestamp, parent: Hash256, transactions: Vec<Transaction>) -> Block {
    let mut block = Block {
        kind: if height == 1 { BlockKind::Nemesis } else { BlockKind::Regular },
        version: wire_version(NETWORK, 1),
        timestamp: time,
        signer: signer.public(),
        signature: None,
        previous_hash: WireHash::from(parent),
        height: Height(height),
        transactions,
    };
    block.signature = Some(signer.sign(&block.to_bytes(Form::NonVerifiable)));
    block
}

impl Synthetic {
    /// Makes a chain of `accounts` that take part, and of `payments` among them.
    pub fn create(folder: &Path, accounts: usize, payments: usize) -> Synthetic {
        let nemesis = key_pair(0);
        let keys: Vec<KeyPair> = (1..=accounts as u64).map(key_pair).collect();
        let addresses: Vec<Address> = keys.iter().map(address).collect();
        let config = write_config(folder, &nemesis, &addresses);
        let settings = config::load(Some(&config), Vec::new(), Some(folder)).expect("settings");
        let blocks = folder.join("blocks.bin");
        let mut file = Vec::new();
        let mut head = import_nemesis(&settings, &folder.join("scratch"));
        for height in 2..=LAST {
            let time = head.time_of_hit(&keys[0], &settings);
            let until = |height: u64| (height.min(LAST - 1) - 1) as usize * payments / (LAST - 2) as usize;
            let share = until(height) - until(height - 1);
            let transactions = (0..share).map(|number| payment(&keys, &addresses, height, number, time)).collect();
            let block = block(&keys[0], height, time, head.hash, transactions);
            write_block(&mut file, &block.to_bytes(Form::Verifiable)).expect("room");
            head.push(&block, &keys[0], &settings);
        }
        fs::write(&blocks, file).expect("room");
        Synthetic { config, blocks, addresses }
    }
}

/// Some accounts receive much more often than others.
fn payment(keys: &[KeyPair], addresses: &[Address], height: u64, number: usize, time: Timestamp) -> Transaction {
    let random = scatter(height << 32 | number as u64);
    let from = 1 + (random % (keys.len() as u64 - 1)) as usize;
    let unit = (random >> 40) as f64 / (1u64 << 24) as f64;
    let to = (unit * unit * unit * keys.len() as f64) as usize % keys.len();
    // No two payments of a block are the same.
    let amount = Amount(Amount::whole(1_000 + (random >> 20) % 500).0 + number as u64);
    transfer(&keys[from], addresses[to], amount, Amount(50_000), time)
}

fn write_config(folder: &Path, nemesis: &KeyPair, addresses: &[Address]) -> PathBuf {
    let each = (TOTAL - OF_THE_HARVESTER) / addresses.len() as u64;
    let amount = |index| Amount::whole(if index == 0 { OF_THE_HARVESTER } else { each });
    let transfers = addresses.iter().enumerate();
    let transfers =
        transfers.map(|(index, to)| transfer(nemesis, *to, amount(index), Amount::ZERO, Timestamp(0))).collect();
    let block = block(nemesis, 1, Timestamp(0), Hash256::default(), transfers);
    fs::write(folder.join("nemesis.bin"), block.to_bytes(Form::Verifiable)).expect("room");
    let mut text = String::new();
    for (key, value) in [
        ("nem.network", "synthetic"),
        ("nem.network.version", "152"),
        ("nem.network.addressStartChar", "T"),
        ("nem.network.generationHash", &GENERATION_HASH.to_string()),
        ("nem.network.nemesisSignerAddress", address(nemesis).as_str()),
        ("nem.network.totalAmount", &TOTAL.to_string()),
        ("nem.network.nemesisFilePath", "nemesis.bin"),
        ("nis.maxTransactionsPerBlock", "10000"),
        ("nis.maxTransactions", "10000"),
        ("nis.treasuryReissuanceForkHeight", "1"),
        ("nis.treasuryReissuanceForkTransactionHashes", ""),
        ("nis.treasuryReissuanceForkFallbackTransactionHashes", ""),
    ] {
        let _ = writeln!(text, "{key} = {value}");
    }
    for fork in ["multisigMOfN", "mosaics", "firstFee", "secondFee", "remoteAccount", "mosaicRedefinition"] {
        let _ = writeln!(text, "nis.{fork}ForkHeight = 1");
    }
    let config = folder.join("node.properties");
    fs::write(&config, text).expect("room");
    config
}

/// The end of the chain that is being made.
struct Head {
    hash: Hash256,
    generation_hash: Hash256,
    timestamp: Timestamp,
    window: Window,
    /// Importance of the account that makes all blocks.
    importance: u64,
}

fn import_nemesis(settings: &Settings, scratch: &Path) -> Head {
    let store: Store = commands::open_store(settings, scratch).expect("a store");
    super::take_in(&store, settings, Vec::new(), None);
    let snapshot = store.snapshot().expect("a snapshot");
    let StoredBlock { hash, generation_hash, timestamp, .. } = tip(&snapshot).expect("a tip").expect("a tip");
    let harvester = address(&key_pair(1));
    let importance = harvesting_importance(&snapshot, &harvester, Height(2), &settings.network).expect("an importance");
    let window = Window::load(&snapshot, Height::NEMESIS).expect("a window");
    Head { hash, generation_hash, timestamp, window, importance }
}

impl Head {
    fn difficulty(&self, settings: &Settings) -> u64 {
        self.window.difficulty(settings.network.chain.target_time).expect("time passes")
    }

    /// The first second at which an account may make the next block.
    fn time_of_hit(&self, signer: &KeyPair, settings: &Settings) -> Timestamp {
        let hit = proof::hit(&proof::generation_hash(&self.generation_hash, &signer.public()));
        let difficulty = self.difficulty(settings);
        let chain = &settings.network.chain;
        let is_hit = |elapsed: &i32| proof::is_hit(hit, &proof::target(*elapsed, self.importance, difficulty, chain));
        Timestamp(self.timestamp.0 + (1..).find(is_hit).expect("a hit"))
    }

    fn push(&mut self, block: &Block, signer: &KeyPair, settings: &Settings) {
        let difficulty = self.difficulty(settings);
        self.window.push(difficulty, block.timestamp);
        self.hash = block.hash();
        self.generation_hash = proof::generation_hash(&self.generation_hash, &signer.public());
        self.timestamp = block.timestamp;
    }
}
