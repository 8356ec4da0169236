//! Invariants of every member at all times.

use std::collections::{BTreeMap, BTreeSet};

use nisd::codec::SigningForm;
use nisd::crypto::{PublicKey, verify};
use nisd::model::{Block, Hash256, Height, Timestamp, Transaction};
use nisd::peer::LimitUsage;
use nisd::store::{Snapshot, Store, stored_block, stored_header, tip};

use super::bad_requests::is_of_byzantine_peer;
use super::environment::Environment;

/// Seconds by which blocks may be ahead of the receiver's clock.
const MAX_AHEAD: i32 = 10;

/// A block of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    pub hash: Hash256,
    pub score: i128,
    time: Timestamp,
}

/// What is known of a member's chain.
pub struct View {
    pub chain: Vec<BlockInfo>,
    /// Heights that must be reported to its subscriber, and those that were.
    unreported: Vec<u64>,
    reported: Vec<u64>,
    /// Maximum number of blocks replaced at once.
    pub deepest: u64,
    /// The key that its node harvests with.
    own_key: PublicKey,
}

impl View {
    /// Returns the view of a node that has just been started.
    pub fn of(store: &Store, own: PublicKey) -> View {
        let snapshot = store.snapshot().expect("a snapshot");
        let chain = (1..).map_while(|height| block_info(&snapshot, height)).collect();
        View { chain, unreported: Vec::new(), reported: Vec::new(), deepest: 0, own_key: own }
    }

    pub fn tip(&self) -> BlockInfo {
        *self.chain.last().expect("a chain")
    }

    pub fn height(&self) -> u64 {
        self.chain.len() as u64
    }

    /// Processes a message of the node to its subscriber.
    pub fn process_message(&mut self, message: Vec<u8>) {
        let message = String::from_utf8(message).expect("text");
        let rest = message.rsplit_once("\"height\":").map_or("", |(_, rest)| rest);
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        log::debug!("publishes block {digits}");
        self.reported.push(digits.parse().unwrap_or_else(|_| panic!("a block without a height: {message:?}")));
    }

    /// Blocks above a height are replaced; those not reported yet need not be.
    fn replace_above(&mut self, height: u64) {
        let mut untold = self.unreported.split_off(self.reported.len().min(self.unreported.len()));
        untold.retain(|due| *due <= height);
        self.unreported.append(&mut untold);
        self.chain.truncate(height as usize);
    }

    /// Checks that every new block is reported once and in order, and nothing else is. Returns whether all were
    /// reported.
    pub fn is_all_reported(&self) -> bool {
        let (told, due) = (&self.reported, &self.unreported);
        assert!(due.starts_with(told), "these blocks were told: {told:?}, and these have come: {due:?}");
        told.len() == due.len()
    }
}

fn block_info(snapshot: &Snapshot<'_>, height: u64) -> Option<BlockInfo> {
    let header = stored_header(snapshot, Height(height)).expect("a store")?;
    Some(BlockInfo { hash: header.hash, score: header.score, time: header.timestamp })
}

/// Maximum usage of every bounded collection by name, with the limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeakUsage(BTreeMap<&'static str, (usize, usize)>);

impl PeakUsage {
    /// Checks that no usage exceeds its limit.
    pub fn update(&mut self, loads: &[LimitUsage]) {
        for LimitUsage { name: what, used: held, max: most } in loads {
            assert!(held <= most, "{held} {what}, and {most} may be");
            let fullest = self.0.entry(what).or_insert((0, *most));
            fullest.0 = fullest.0.max(*held);
        }
    }

    pub fn merge(&mut self, other: &PeakUsage) {
        for (what, (held, most)) in &other.0 {
            let fullest = self.0.entry(what).or_insert((0, *most));
            fullest.0 = fullest.0.max(*held);
        }
    }

    /// Returns a table for display.
    pub fn table(&self) -> String {
        let line = |(what, (held, most)): (&&str, &(usize, usize))| format!("  {what:<36} {held:>8} of {most}\n");
        self.0.iter().map(line).collect()
    }
}

/// What is known of all members.
pub struct InvariantChecker {
    /// All blocks that any member ever had.
    pub blocks: BTreeMap<Hash256, Block>,
    /// Users' transactions in the order in which they were sent.
    pub sent: Vec<Transaction>,
    known: BTreeSet<Hash256>,
    /// Keys that may harvest.
    harvesters: BTreeSet<PublicKey>,
    pub peak_usage: PeakUsage,
}

impl InvariantChecker {
    pub fn new(harvesters: BTreeSet<PublicKey>) -> InvariantChecker {
        InvariantChecker {
            blocks: BTreeMap::new(),
            sent: Vec::new(),
            known: BTreeSet::new(),
            harvesters,
            peak_usage: PeakUsage::default(),
        }
    }

    /// Records a transaction that a user sends.
    pub fn send(&mut self, transaction: Transaction) {
        self.known.insert(transaction.hash());
        self.sent.push(transaction);
    }

    /// Checks the chain of a member whose clock shows `time`; returns whether the chain has changed.
    pub fn check(&mut self, view: &mut View, store: &Store, environment: &Environment, time: Timestamp) -> bool {
        let snapshot = store.snapshot().expect("a snapshot");
        let last = tip(&snapshot).expect("a store").expect("a tip");
        if last.hash == view.tip().hash {
            return false;
        }
        let mut new = Vec::new();
        let mut height = last.height.0;
        loop {
            let link = block_info(&snapshot, height).expect("a block");
            if view.chain.get(height as usize - 1).is_some_and(|known| known.hash == link.hash) {
                break;
            }
            new.push(link);
            height -= 1;
        }
        new.reverse();
        self.check_reorg(view, &new, height, environment);
        view.deepest = view.deepest.max(view.height() - height);
        let is_replacing = view.height() > height;
        view.replace_above(height);
        for link in new {
            let (parent, is_new) = (view.tip(), !self.blocks.contains_key(&link.hash));
            view.chain.push(link);
            self.check_block(&snapshot, view, parent, time);
            // A node harvests on its own tip.
            let is_own = self.blocks[&link.hash].signer == view.own_key;
            assert!(!(is_replacing && is_new && is_own), "block {} is made beside another one", view.height());
        }
        view.unreported.extend(height + 1..=view.height());
        log::debug!("its chain is the same up to {height} and ends at {} now", view.height());
        true
    }

    /// Checks that a chain is replaced only by one with a higher score, and only from a height that may be rewritten.
    fn check_reorg(&self, view: &View, new: &[BlockInfo], common: u64, environment: &Environment) {
        let undone = view.height() - common;
        let limit = environment.network.chain.rewrite_limit;
        assert!(undone <= limit, "{undone} blocks are undone, and {limit} may be");
        let (old, new) = (view.tip().score, new.last().map_or(0, |last| last.score));
        assert!(new > old, "a chain of score {old} is replaced by one of score {new}");
    }

    /// Checks that a block follows its parent, comes from a permitted harvester, and holds only transactions that users
    /// have sent, or byzantine peers from their own accounts.
    fn check_block(&mut self, snapshot: &Snapshot<'_>, view: &View, parent: BlockInfo, time: Timestamp) {
        let (link, height) = (view.tip(), view.height());
        if !self.blocks.contains_key(&link.hash) {
            let (_, block) = stored_block(snapshot, Height(height)).expect("a store").expect("a block");
            assert_eq!(block.hash(), link.hash);
            assert!(self.harvesters.contains(&block.signer), "block {height} is of somebody who harvests nothing");
            let signature = block.signature.expect("a signature");
            let is_good = verify(&block.signer, &block.to_bytes(SigningForm::NonVerifiable), &signature);
            assert_eq!(is_good, Ok(true), "signature of block {height}");
            let is_strange = |one: &&Transaction| !self.known.contains(&one.hash()) && !is_of_byzantine_peer(one);
            let strange = block.transactions.iter().find(is_strange);
            assert!(strange.is_none(), "block {height} holds what nobody has sent: {strange:?}");
            self.blocks.insert(link.hash, block);
        }
        let block = &self.blocks[&link.hash];
        assert!(block.previous_hash == parent.hash && block.height.0 == height, "block {height} follows another one");
        assert!(block.timestamp.0 <= time.0 + MAX_AHEAD, "block {height} is of the future");
        assert!(block.timestamp > parent.time, "block {height} is older than the one before");
    }

    /// Returns the transactions of a chain.
    pub fn confirmed(&self, chain: &[BlockInfo]) -> BTreeSet<Hash256> {
        let blocks = chain.iter().filter_map(|link| self.blocks.get(&link.hash));
        blocks.flat_map(|block| block.transactions.iter().map(Transaction::hash)).collect()
    }
}
