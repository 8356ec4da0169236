//! Fuzz target: candidate branches sent to a node.

use std::collections::BTreeMap;

use nisd::chain::{BranchOutcome, CandidateBranch, StakeCache, rollback};
use nisd::codec::{Context, SigningForm};
use nisd::crypto::{KeyPair, PublicKey};
use nisd::model::transaction::{entity_version, wire_version};
use nisd::model::{Block, Body, Hash256, Height, Network, Timestamp, Transaction};
use nisd::store::{Store, StoredHeader, stored_block, stored_header};

use crate::invariants::{self, StateSummary};
use crate::tiny::{self, LATE, state_of};

/// Height of the node's chain: its first blocks are those of `tests/data/recorded/chains/tiny`.
pub const TIP: u64 = 53;
/// Flag: sign transactions and blocks again, if their keys are known.
pub const SIGN: u8 = 1;
/// Flag: before signing, repair what must match: heights, time stamps, keys, cosignatures.
pub const REPAIR: u8 = 2;
/// Flag: the clock shows the time of the tip instead of the far future.
pub const EARLY: u8 = 16;

/// Maximum blocks of an input that are read.
const MAX_BLOCKS: usize = 12;
/// Seconds after which nearly every account with importance may make the next block.
const HIT_TIME: i32 = 6 * 3600;

/// Returns the first byte for blocks that follow our block at this height, at most three below [`TIP`].
pub fn selector(common: u64, flags: u8) -> u8 {
    let below = TIP.checked_sub(common).filter(|below| *below < 4).expect("a height near the tip");
    flags | (below as u8) << 2
}

/// The node, created once per thread. Every input finds it in the same state.
struct Node {
    network: Network,
    store: Store,
    keys: BTreeMap<PublicKey, KeyPair>,
    /// Our blocks that may be replaced.
    own: Vec<Block>,
    digest: Hash256,
    tip: StoredHeader,
}

thread_local! {
    static NODE: Node = Node::new();
}

/// Checks for any candidate branch: a rejected one changes neither the digest of the state nor the tip. An accepted one
/// has the expected tip, its blocks are stored, and the state's invariants hold; after a rollback and processing our
/// own blocks again, the state is the old one.
///
/// The first byte is a [`selector`]; the blocks follow as in a block file, up to the first that cannot be read.
pub fn check(data: &[u8]) -> usize {
    let Some((selector, bytes)) = data.split_first() else { return 0 };
    NODE.with(|node| {
        let common = Height(TIP - u64::from(selector >> 2 & 3));
        let mut blocks = node.read(bytes);
        node.prepare(&mut blocks, common, *selector);
        let now = if selector & EARLY == 0 { LATE } else { node.tip.timestamp };
        let outcome = node.offer(common, blocks.clone(), now);
        match &outcome.update {
            Some(_) => node.check_taken(common, &blocks, &outcome),
            None => {
                node.assert_as_before();
                0
            }
        }
    })
}

impl Node {
    fn new() -> Node {
        let settings = tiny::settings();
        let store = tiny::store(&settings, Height(TIP));
        let network = settings.network;
        let (digest, tip) = state_of(&store);
        let own = (TIP - 2..=TIP).map(|height| block_of(&store, Height(height))).collect();
        Node { network, store, keys: tiny::keys(), own, digest, tip }
    }

    /// Reads the blocks of an input. A length that is too large means the rest.
    fn read(&self, mut bytes: &[u8]) -> Vec<Block> {
        let mut blocks = Vec::new();
        while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
            let length = rest.len().min(u32::from_le_bytes(*length) as usize);
            let (block, rest) = rest.split_at(length);
            let Ok(block) = Block::from_bytes(block, Context::of(&self.network)) else { break };
            blocks.push(block);
            bytes = rest;
            if blocks.len() == MAX_BLOCKS {
                break;
            }
        }
        blocks
    }

    fn prepare(&self, blocks: &mut [Block], common: Height, flags: u8) {
        let header = self.header(common);
        let (mut hash, mut height, mut time) = (header.hash, common, header.timestamp);
        for block in blocks {
            height = height.next();
            if flags & REPAIR != 0 {
                self.repair(block, height, time);
            }
            if flags & SIGN != 0 {
                self.sign_block(block, hash);
            }
            (hash, time) = (block.hash(), block.timestamp);
        }
    }

    fn header(&self, height: Height) -> StoredHeader {
        let snapshot = self.store.snapshot().expect("a snapshot");
        stored_header(&snapshot, height).expect("a store").expect("a block")
    }

    /// Moves a block to a height of the chain. Its transactions move in time with it.
    fn repair(&self, block: &mut Block, height: Height, parent: Timestamp) {
        block.height = height;
        self.repair_entity(&mut block.version, &mut block.signer);
        let late = parent.0.saturating_add(HIT_TIME).saturating_sub(block.timestamp.0).max(0);
        block.timestamp.0 = block.timestamp.0.saturating_add(late);
        block.transactions.iter_mut().for_each(|transaction| self.repair_transaction(transaction, late));
    }

    fn repair_transaction(&self, transaction: &mut Transaction, late: i32) {
        self.repair_entity(&mut transaction.version, &mut transaction.signer);
        transaction.timestamp.0 = transaction.timestamp.0.saturating_add(late);
        transaction.deadline.0 = transaction.deadline.0.saturating_add(late);
        if let Body::Multisig(body) = &mut transaction.body {
            self.repair_transaction(&mut body.inner, late);
            let hash = body.inner.hash();
            for cosignature in &mut body.cosignatures {
                self.repair_transaction(cosignature, late);
                if let Body::Cosignature(body) = &mut cosignature.body {
                    body.other_hash = hash.into();
                }
            }
        }
    }

    /// Replaces an unknown key by a known one.
    fn repair_entity(&self, version: &mut i32, signer: &mut PublicKey) {
        *version = wire_version(self.network.byte, entity_version(*version));
        if !self.keys.contains_key(signer) {
            let other = self.keys.keys().nth(usize::from(signer.0[0]) % self.keys.len());
            *signer = *other.expect("a key");
        }
    }

    fn sign_block(&self, block: &mut Block, parent: Hash256) {
        block.transactions.iter_mut().for_each(|transaction| self.sign(transaction));
        block.previous_hash = parent.into();
        if let Some(pair) = self.keys.get(&block.signer) {
            block.signature = Some(pair.sign(&block.to_bytes(SigningForm::NonVerifiable)));
        }
    }

    fn sign(&self, transaction: &mut Transaction) {
        if let Body::Multisig(body) = &mut transaction.body {
            body.cosignatures.iter_mut().for_each(|cosignature| self.sign(cosignature));
        }
        if let Some(pair) = self.keys.get(&transaction.signer) {
            transaction.signature = Some(pair.sign(&transaction.signed_bytes()));
        }
    }

    fn offer(&self, common: Height, blocks: Vec<Block>, now: Timestamp) -> BranchOutcome {
        let mut part = CandidateBranch::new(&self.store, &self.network, common, blocks).expect("near the tip");
        let mut stakes = StakeCache::default();
        loop {
            if let Some(outcome) = part.step(now, &mut stakes).expect("a store that works") {
                return outcome;
            }
        }
    }

    fn assert_as_before(&self) {
        let (digest, tip) = state_of(&self.store);
        assert_eq!((tip, digest), (self.tip, self.digest));
    }

    fn check_taken(&self, common: Height, blocks: &[Block], outcome: &BranchOutcome) -> usize {
        assert!(outcome.validity.is_ok(), "{outcome:?}");
        let (ours, theirs) = outcome.scores.expect("those that were compared");
        assert!(theirs > ours);
        let (_, tip) = state_of(&self.store);
        assert_eq!(tip.height, common.plus(blocks.len() as u64));
        assert_eq!(tip.score, self.header(common).score + i128::from(theirs));
        self.assert_stored(blocks);
        let after = self.facts();
        let undone: Vec<Block> = self.own.iter().filter(|block| block.height > common).cloned().collect();
        let mut batch = self.store.begin_write().expect("a batch");
        rollback(&mut batch, common).expect("blocks taken a moment ago");
        batch.commit().expect("a store that works");
        let added = blocks.iter().flat_map(|block| &block.transactions).flat_map(Transaction::self_and_children);
        assert_eq!(self.facts().hashes + added.count() as u64, after.hashes);
        if !undone.is_empty() {
            assert!(self.offer(common, undone, LATE).update.is_some(), "our own blocks are good");
        }
        self.assert_as_before();
        blocks.len()
    }

    /// Checks the state's invariants.
    fn facts(&self) -> StateSummary {
        invariants::check(&self.store, &self.network).unwrap_or_else(|broken| panic!("{broken}"))
    }

    /// Asserts that all blocks are stored, each naming the one before.
    fn assert_stored(&self, blocks: &[Block]) {
        for block in blocks {
            let mut stored = block_of(&self.store, block.height);
            assert_eq!(stored.hash(), self.header(block.height).hash);
            assert_eq!(stored.previous_hash, self.header(Height(block.height.0 - 1)).hash);
            stored.previous_hash = block.previous_hash.clone();
            assert_eq!(stored, *block);
        }
    }
}

fn block_of(store: &Store, height: Height) -> Block {
    let snapshot = store.snapshot().expect("a snapshot");
    stored_block(&snapshot, height).expect("a store").expect("a block").1
}
