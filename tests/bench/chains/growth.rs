//! The growing chain: a real one in its own store, which computes the importances that determine who makes the next
//! block, and when.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::rc::Rc;

use nisd::chain::{
    BlockImporter, DifficultyWindow, ImportOptions, ImportProgress, due_after, harvesting_importance, proof,
};
use nisd::codec::block_file::{BlockFile, write_block};
use nisd::config::Settings;
use nisd::crypto::PublicKey;
use nisd::model::{Block, Body, Hash256, Height, Network, Timestamp, Transaction};
use nisd::rules::may_sign_block;
use nisd::state;
use nisd::store::{Store, StoredHeader, tip};

use super::people::{Accounts, DELEGATING_HARVESTER, HARVESTERS};
use crate::common::private_network;

/// Number of transactions after which the store commits, besides after every importance recalculation.
const COMMIT_AFTER: usize = 50_000;
/// A network time later than every block.
const FAR_FUTURE: Timestamp = Timestamp(i32::MAX - 100);
/// Maximum interval between two blocks that is tried.
const MAX_BLOCK_TIME: i32 = 86_400;

/// The position, time and signer of the next block.
#[derive(Clone, Copy, Debug)]
pub struct NextBlock {
    pub height: Height,
    /// Time of the previous block.
    pub parent: Timestamp,
    /// Time of the block.
    pub time: Timestamp,
    /// The account that signs it.
    pub signer: usize,
    /// The account that receives its fees.
    pub harvester: usize,
}

/// A queue of bytes that a reader drains.
#[derive(Clone, Default)]
struct Pipe(Rc<RefCell<VecDeque<u8>>>);

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.borrow_mut().read(buffer)
    }
}

/// The growing chain.
pub struct ChainBuilder<'s> {
    store: &'s Store,
    network: &'s Network,
    pipe: Pipe,
    importer: BlockImporter<'s>,
    uncommitted: usize,
    height: Height,
    hash: Hash256,
    generation_hash: Hash256,
    time: Timestamp,
    window: DifficultyWindow,
    /// Pairs of an account that may make a block and the account that receives its fees.
    candidates: Vec<(usize, usize)>,
    /// The harvester that delegates its importance.
    delegator: PublicKey,
}

impl<'s> ChainBuilder<'s> {
    /// Imports the nemesis block into the store.
    pub fn new(store: &'s Store, settings: &'s Settings, people: &Accounts) -> ChainBuilder<'s> {
        let (network, pipe) = (&settings.network, Pipe::default());
        let nemesis = settings.nemesis.read().expect("the nemesis block");
        // The chain is validated when it is imported later. Commits are requested explicitly.
        let trusted_below = Height(u64::MAX);
        let options = ImportOptions { batch_steps: u32::MAX, batch_blocks: u32::MAX, stop_at: None, trusted_below };
        let file = BlockFile::new(pipe.clone()).expect("a pipe");
        let mut intake = BlockImporter::new(store, network, nemesis, vec![file], options).expect("an empty store");
        intake.set_batch_rows(u32::MAX);
        process_until(&mut intake, Height::NEMESIS);
        intake.commit().expect("room");
        let snapshot = store.snapshot().expect("a snapshot");
        let first = tip(&snapshot).expect("a store").expect("the nemesis block");
        let StoredHeader { height, hash, generation_hash, timestamp: time, .. } = first;
        let window = DifficultyWindow::load(&snapshot, height).expect("a window");
        let own = (0..HARVESTERS).map(|place| (place, place));
        let candidates = own.chain(people.harvesting_remote().map(|remote| (remote, DELEGATING_HARVESTER))).collect();
        let (uncommitted, lender) = (0, people.get(DELEGATING_HARVESTER).keys.public());
        ChainBuilder {
            delegator: lender,
            store,
            network,
            pipe,
            importer: intake,
            uncommitted,
            height,
            hash,
            generation_hash,
            time,
            window,
            candidates,
        }
    }

    /// Returns the time of the last block.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// Returns the earliest possible next block.
    pub fn next(&self, people: &Accounts) -> NextBlock {
        let snapshot = self.store.snapshot().expect("a snapshot");
        let (height, limit) = (self.height.next(), self.network.chain.rewrite_limit);
        let difficulty = self.difficulty();
        let elapsed = |signer: usize| {
            let address = &people.get(signer).address;
            // The link of a harvester is committed at once, long before it takes effect.
            let account = state::account(&snapshot, address).expect("an account");
            if !may_sign_block(account.remote_status(height, limit)) {
                return None;
            }
            let importance = harvesting_importance(&snapshot, address, height, self.network).expect("an importance");
            let drawn = proof::generation_hash(&self.generation_hash, &people.get(signer).keys.public());
            self.seconds_until_hit(proof::hit(&drawn), importance, difficulty)
        };
        let all =
            self.candidates.iter().filter_map(|(signer, harvester)| Some((elapsed(*signer)?, *signer, *harvester)));
        let (elapsed, signer, harvester) = all.min().expect("somebody is important enough to make a block");
        NextBlock { height, parent: self.time, time: Timestamp(self.time.0 + elapsed), signer, harvester }
    }

    /// Returns the first second at which a block may be made. Targets grow with time.
    fn seconds_until_hit(&self, hit: u64, importance: u64, difficulty: u64) -> Option<i32> {
        let is_hit =
            |elapsed: i32| proof::is_hit(hit, &proof::target(elapsed, importance, difficulty, &self.network.chain));
        let (mut below, mut above) = (0, MAX_BLOCK_TIME);
        if !is_hit(above) {
            return None;
        }
        while above - below > 1 {
            let middle = (below + above) / 2;
            *(if is_hit(middle) { &mut above } else { &mut below }) = middle;
        }
        Some(above)
    }

    fn difficulty(&self) -> u64 {
        self.window.difficulty(self.network.chain.target_time).expect("time passes")
    }

    /// Returns the signed block.
    pub fn make(&self, people: &Accounts, place: &NextBlock, transactions: Vec<Transaction>) -> Block {
        let keys = &people.get(place.signer).keys;
        private_network::block(keys, place.height.0, place.time, self.hash, transactions)
    }

    /// Returns whether a transaction affects who may make blocks.
    fn is_link(&self, transaction: &Transaction) -> bool {
        matches!(transaction.body, Body::ImportanceTransfer(_)) && transaction.signer == self.delegator
    }

    /// Adds a block to the chain; `bytes` is its verifiable form.
    pub fn push(&mut self, block: &Block, bytes: &[u8], is_last: bool) {
        let difficulty = self.difficulty();
        write_block(&mut *self.pipe.0.borrow_mut(), bytes).expect("memory");
        process_until(&mut self.importer, block.height);
        self.window.push(difficulty, block.timestamp);
        (self.height, self.hash, self.time) = (block.height, block.hash(), block.timestamp);
        self.generation_hash = proof::generation_hash(&self.generation_hash, &block.signer);
        self.uncommitted += block.transactions.len();
        let is_due = due_after(block.height).is_some() || block.transactions.iter().any(|one| self.is_link(one));
        if is_due || self.uncommitted >= COMMIT_AFTER || is_last {
            self.importer.commit().expect("room");
            self.uncommitted = 0;
        }
    }
}

/// Processes blocks until one at this height exists.
fn process_until(importer: &mut BlockImporter<'_>, height: Height) {
    while importer.height() < height {
        let progress = importer.step(FAR_FUTURE).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(progress, ImportProgress::Working, "the block is there, and nothing else is committed");
    }
}
