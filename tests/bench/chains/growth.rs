//! The growing chain: a real one in its own store, which computes the importances that determine who makes the next
//! block, and when.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::io::{self, Read};
use std::rc::Rc;

use nisd::chain::{
    BlockImporter, DifficultyWindow, ImportOptions, ImportProgress, Retention, due_after, harvesting_importance, proof,
};
use nisd::codec::block_file::{BlockFile, write_block};
use nisd::config::Settings;
use nisd::crypto::PublicKey;
use nisd::model::{Block, Body, Hash256, Height, Network, Timestamp, Transaction};
use nisd::rules::may_sign_block;
use nisd::state;
use nisd::store::{Store, StoredHeader, tip};

use super::people::Accounts;
use super::plan::Plan;
use crate::common::{Random, private_network};

/// Number of transactions after which the store commits, besides after every importance recalculation.
const COMMIT_AFTER: usize = 50_000;
/// A network time later than every block.
const FAR_FUTURE: Timestamp = Timestamp(i32::MAX - 100);
/// Maximum interval between two blocks that is tried.
const MAX_BLOCK_TIME: i32 = 86_400;
/// Seconds by which an estimate may differ from another without telling which block is earlier.
const MARGIN: f64 = 1.5;
/// In a chain of the public network's shape each harvester is online for one of this many days of blocks, and for fewer
/// in the rare times of trouble, which last a sixth of a day.
const ONLINE: u64 = 5;
const ONLINE_IN_TROUBLE: u64 = 50;
const TROUBLE: u64 = 200;
const DAY: u64 = 1_440;
const HOURS: u64 = DAY / 6;

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
    plan: &'s Plan,
    /// Pairs of an account that may make a block at some height and the account that receives its fees.
    pairs: Vec<(usize, usize)>,
    /// Those that may make the next block if they are online.
    candidates: Vec<Candidate>,
    /// Harvesters that delegate their importance.
    delegators: Vec<PublicKey>,
    /// Heights at which links take effect.
    link_heights: BTreeSet<Height>,
    /// Number of eligible accounts at the last recalculation of importances.
    pub eligible: u64,
    /// Numbers of blocks whose difficulty changed as much as possible, and was the least and the greatest possible.
    pub limited: [u64; 3],
    last_difficulty: Option<u64>,
}

/// An account that may make blocks until importances or links change.
struct Candidate {
    key: PublicKey,
    signer: usize,
    harvester: usize,
    importance: u64,
}

impl<'s> ChainBuilder<'s> {
    /// Imports the nemesis block into the store.
    pub fn new(plan: &'s Plan, store: &'s Store, settings: &'s Settings, people: &Accounts) -> ChainBuilder<'s> {
        let (network, pipe) = (&settings.network, Pipe::default());
        let nemesis = settings.nemesis.read().expect("the nemesis block");
        // The chain is validated when it is imported later. Commits are requested explicitly.
        let trusted_below = Height(u64::MAX);
        let retention = Retention::State(Height(u64::MAX));
        let options = ImportOptions { trusted_below, retention, ..ImportOptions::DEFAULT };
        let file = BlockFile::new(pipe.clone()).expect("a pipe");
        let mut intake = BlockImporter::new(store, network, nemesis, vec![file], options).expect("an empty store");
        process_until(&mut intake, Height::NEMESIS);
        intake.commit().expect("room");
        let snapshot = store.snapshot().expect("a snapshot");
        let first = tip(&snapshot).expect("a store").expect("the nemesis block");
        let StoredHeader { height, hash, generation_hash, timestamp: time, .. } = first;
        let window = DifficultyWindow::load(&snapshot, height).expect("a window");
        let own = (0..plan.harvesters()).map(|place| (place, place));
        let pairs = own.chain((people.first_remote()..).zip(plan.delegating())).collect();
        let delegators = plan.delegating().map(|place| people.get(place).keys.public()).collect();
        ChainBuilder {
            plan,
            pairs,
            candidates: Vec::new(),
            delegators,
            link_heights: BTreeSet::new(),
            eligible: 0,
            limited: [0; 3],
            last_difficulty: None,
            store,
            network,
            pipe,
            importer: intake,
            uncommitted: 0,
            height,
            hash,
            generation_hash,
            time,
            window,
        }
    }

    /// Returns the time of the last block.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// Returns the earliest possible next block of those who are online.
    pub fn next(&mut self, people: &Accounts) -> NextBlock {
        let height = self.height.next();
        let is_link_due = self.link_heights.remove(&height);
        if is_link_due || due_after(self.height).is_some() {
            self.read_candidates(people);
        }
        let difficulty = self.difficulty();
        let estimate = |one: &Candidate| {
            let drawn = proof::generation_hash(&self.generation_hash, &one.key);
            let [first, ..] = drawn.0.as_chunks().0 else { unreachable!("a hash has 32 bytes") };
            let place = (u64::from_be_bytes(*first) as f64 + 0.5) / 2f64.powi(64);
            (-place.ln() * difficulty as f64 / (1024.0 * one.importance as f64), drawn)
        };
        let online = self.candidates.iter().filter(|one| self.is_online(one.harvester, height));
        let mut drawn: Vec<_> = online.map(|one| (one, estimate(one))).collect();
        if drawn.is_empty() {
            drawn = self.candidates.iter().map(|one| (one, estimate(one))).collect();
        }
        let least = drawn.iter().map(|(_, (seconds, _))| *seconds).fold(f64::INFINITY, f64::min);
        let best = drawn.iter().filter(|(_, (seconds, _))| *seconds < least + MARGIN);
        let all = best.filter_map(|(one, (_, drawn))| {
            let elapsed = self.seconds_until_hit(proof::hit(drawn), one.importance, difficulty)?;
            Some((elapsed, one.signer, one.harvester))
        });
        let (elapsed, signer, harvester) = all.min().expect("somebody is important enough to make a block");
        NextBlock { height, parent: self.time, time: Timestamp(self.time.0 + elapsed), signer, harvester }
    }

    /// Reads who may make the next blocks, and with which importance.
    fn read_candidates(&mut self, people: &Accounts) {
        let snapshot = self.store.snapshot().expect("a snapshot");
        let (height, limit) = (self.height.next(), self.network.chain.rewrite_limit);
        let candidate = |(signer, harvester): (usize, usize)| {
            let account = people.get(signer);
            let status = state::account(&snapshot, &account.address).expect("an account").remote_status(height, limit);
            let importance = harvesting_importance(&snapshot, &account.address, height, self.network);
            let importance = importance.expect("an importance");
            let may_sign = may_sign_block(status) && importance > 0;
            may_sign.then(|| Candidate { key: account.keys.public(), signer, harvester, importance })
        };
        self.candidates = self.pairs.iter().copied().filter_map(candidate).collect();
        self.eligible = state::last_recalculation(&snapshot).expect("a store").map_or(0, |last| last.eligible);
    }

    /// Returns whether a harvester is online. All always are, except in a chain of the public network's shape.
    fn is_online(&self, harvester: usize, height: Height) -> bool {
        let number = harvester as u64;
        let draw = |what: u64, when: u64| Random(self.plan.seed ^ what << 32 ^ when).next();
        // The days of two harvesters rarely begin at the same time.
        let day = (height.0 + number * DAY / self.plan.harvesters() as u64) / DAY;
        let is_trouble = draw(u64::MAX >> 32, height.0 / HOURS).is_multiple_of(TROUBLE);
        let one_of = if is_trouble { ONLINE_IN_TROUBLE } else { ONLINE };
        self.plan.scale.is_none() || draw(number, day).is_multiple_of(one_of)
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
        matches!(transaction.body, Body::ImportanceTransfer(_)) && self.delegators.contains(&transaction.signer)
    }

    /// Adds a block to the chain; `bytes` is its verifiable form.
    pub fn push(&mut self, block: &Block, bytes: &[u8], is_last: bool) {
        let difficulty = self.difficulty();
        let [least, most] = [10_000_000_000_000, 1_000_000_000_000_000];
        let is_limited =
            self.last_difficulty.is_some_and(|last| [last * 19 / 20, last * 21 / 20].contains(&difficulty));
        let limits = [is_limited, difficulty == least, difficulty == most];
        self.limited.iter_mut().zip(limits).for_each(|(count, is_at)| *count += u64::from(is_at));
        self.last_difficulty = Some(difficulty);
        write_block(&mut *self.pipe.0.borrow_mut(), bytes).expect("memory");
        process_until(&mut self.importer, block.height);
        self.window.push(difficulty, block.timestamp);
        (self.height, self.hash, self.time) = (block.height, block.hash(), block.timestamp);
        self.generation_hash = proof::generation_hash(&self.generation_hash, &block.signer);
        self.uncommitted += block.transactions.len();
        let has_links = block.transactions.iter().any(|one| self.is_link(one));
        if has_links {
            self.link_heights.insert(block.height.plus(self.network.chain.rewrite_limit));
        }
        let is_due = has_links || due_after(block.height).is_some();
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
