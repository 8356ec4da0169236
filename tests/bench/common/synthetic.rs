//! A synthetic chain: many accounts that are eligible for importance, and many payments among them. It ends with an
//! empty block that triggers the second importance calculation.

use std::fs;
use std::path::{Path, PathBuf};

use nisd::chain::{DifficultyWindow, harvesting_importance, proof};
use nisd::codec::SigningForm;
use nisd::codec::block_file::write_block;
use nisd::commands;
use nisd::config::{self, Settings};
use nisd::crypto::KeyPair;
use nisd::model::{Address, Amount, Block, Hash256, Height, Timestamp, Transaction};
use nisd::store::{Store, StoredHeader, tip};

use super::data::private_network::{Genesis, TOTAL, address, block, key_pair, transfer};
use super::scatter;

/// The last block.
pub const LAST: u64 = 359;
/// Balance in whole units of the account that makes all blocks.
const HARVESTER_BALANCE: u64 = 3_000_000_000;

/// The files of a chain.
pub struct SyntheticChain {
    /// Settings, including those of the network.
    pub config: PathBuf,
    /// All blocks except the nemesis block.
    pub blocks: PathBuf,
    /// The accounts.
    pub addresses: Vec<Address>,
}

impl SyntheticChain {
    /// Creates a chain with `accounts` eligible accounts and `payments` among them.
    pub fn create(folder: &Path, accounts: usize, payments: usize) -> SyntheticChain {
        let keys: Vec<KeyPair> = (1..=accounts as u64).map(key_pair).collect();
        let addresses: Vec<Address> = keys.iter().map(address).collect();
        let config = write_config(folder, &addresses);
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
            write_block(&mut file, &block.to_bytes(SigningForm::Verifiable)).expect("room");
            head.push(&block, &keys[0], &settings);
        }
        fs::write(&blocks, file).expect("room");
        SyntheticChain { config, blocks, addresses }
    }
}

/// Some accounts receive much more often than others.
fn payment(keys: &[KeyPair], addresses: &[Address], height: u64, number: usize, time: Timestamp) -> Transaction {
    let random = scatter(height << 32 | number as u64);
    let from = 1 + (random % (keys.len() as u64 - 1)) as usize;
    let unit = (random >> 40) as f64 / (1u64 << 24) as f64;
    let to = (unit * unit * unit * keys.len() as f64) as usize % keys.len();
    // No two payments of a block are equal.
    let amount = Amount(Amount::whole(1_000 + (random >> 20) % 500).0 + number as u64);
    transfer(&keys[from], addresses[to], amount, Amount(50_000), time)
}

/// Writes the settings of the network, whose first account owns so much that it makes all blocks.
fn write_config(folder: &Path, addresses: &[Address]) -> PathBuf {
    let each = (TOTAL - HARVESTER_BALANCE) / addresses.len() as u64;
    let amount = |index| Amount::whole(if index == 0 { HARVESTER_BALANCE } else { each });
    let funded: Vec<_> = addresses.iter().enumerate().map(|(index, to)| (*to, amount(index))).collect();
    let limits = [("nis.maxTransactionsPerBlock", "10000"), ("nis.maxTransactions", "10000")];
    Genesis::new(Timestamp(0), &funded).write(folder, &limits)
}

/// The tip of the chain being made.
struct ChainTip {
    hash: Hash256,
    generation_hash: Hash256,
    timestamp: Timestamp,
    window: DifficultyWindow,
    /// Importance of the account that makes all blocks.
    importance: u64,
}

fn import_nemesis(settings: &Settings, scratch: &Path) -> ChainTip {
    let store: Store = commands::open_store(settings, scratch).expect("a store");
    super::import_timed(&store, settings, Vec::new(), None);
    let snapshot = store.snapshot().expect("a snapshot");
    let StoredHeader { hash, generation_hash, timestamp, .. } = tip(&snapshot).expect("a tip").expect("a tip");
    let harvester = address(&key_pair(1));
    let importance = harvesting_importance(&snapshot, &harvester, Height(2), &settings.network).expect("an importance");
    let window = DifficultyWindow::load(&snapshot, Height::NEMESIS).expect("a window");
    ChainTip { hash, generation_hash, timestamp, window, importance }
}

impl ChainTip {
    fn difficulty(&self, settings: &Settings) -> u64 {
        self.window.difficulty(settings.network.chain.target_time).expect("time passes")
    }

    /// Returns the first second at which an account may make the next block.
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
