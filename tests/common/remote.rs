//! What a node does with blocks of another: those pushed to it, and those of a remote it synchronises with.

#![allow(dead_code)] // not every test uses everything

use nisd::chain::chain_comparer::{ChainComparer, ComparisonResult, ComparisonStep, TipInfo};
use nisd::chain::{BranchOutcome, BranchProgress, CandidateBranch, check_block_signature, check_pushed, pushed_branch};
use nisd::codec::Context;
use nisd::crypto::Verifier;
use nisd::model::{Block, Hash256, Height, Timestamp};
use nisd::rules::{Exception, Rejection, ValidationResult};
use nisd::store::{Store, stored_block, stored_header};
use serde_json::Value;

use crate::recorded_chain::{Chain, copy_store, tip_of};

/// A node: a chain and as much of it as is in a store.
#[derive(Clone, Copy)]
pub struct Local<'a> {
    /// The chain.
    pub chain: &'a Chain,
    /// The store.
    pub store: &'a Store,
}

/// A store at some height of a recorded chain, which every case finds as it was.
pub struct Stage<'c> {
    /// The chain.
    pub chain: &'c Chain,
    /// The chain up to the height, never touched by a case.
    pristine: tempfile::TempDir,
    working: tempfile::TempDir,
    store: Option<Store>,
}

impl<'c> Stage<'c> {
    /// An empty one.
    pub fn new(chain: &'c Chain) -> Stage<'c> {
        Stage { chain, pristine: tempfile::tempdir().unwrap(), working: tempfile::tempdir().unwrap(), store: None }
    }

    /// Goes on to a height, never back.
    pub fn raise(&mut self, height: u64) {
        let store = self.chain.store(self.pristine.path());
        self.chain.import(&store, height);
        drop(store);
        self.restore();
    }

    /// Makes the store what it was at the height.
    pub fn restore(&mut self) {
        self.store = None;
        copy_store(self.pristine.path(), self.working.path());
        self.store = Some(self.chain.store(self.working.path()));
    }

    /// The store that cases work on.
    pub fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    /// The node that this is.
    pub fn local(&self) -> Local<'_> {
        Local { chain: self.chain, store: self.store() }
    }
}

/// Bytes from hex.
pub fn bytes_of(value: &Value) -> Vec<u8> {
    hex::decode(value.as_str().unwrap()).unwrap()
}

/// The text of a result in the records of pushes.
pub fn text_of(result: Result<ValidationResult, &Exception>) -> String {
    match result {
        Ok(result) => result.name().to_owned(),
        Err(exception) => format!("HTTP {} {}", exception.http_status(), exception.text),
    }
}

/// Works on a part until it is decided.
pub fn judge(mut part: Box<CandidateBranch<'_>>, now: Timestamp) -> BranchOutcome {
    loop {
        match part.step(now).unwrap() {
            BranchProgress::Working(next) => part = next,
            BranchProgress::Done(outcome) => return outcome,
        }
    }
}

/// A block is pushed: the text of the result, and what came of the block as a chain part if it went that far.
pub fn push(local: Local<'_>, block: Block, now: Timestamp) -> (String, Option<BranchOutcome>) {
    let (store, network) = (local.store, &local.chain.network);
    let refused = |refusal: Rejection| match refusal {
        Rejection::Result(result) => (text_of(Ok(result)), None),
        Rejection::Exception(exception) => (text_of(Err(&exception)), None),
        Rejection::Store(error) => panic!("{error}"),
    };
    let front = check_pushed(&block, &store.snapshot().unwrap(), network, &mut Verifier::default());
    if let Err(refusal) = front {
        return refused(refusal);
    }
    match pushed_branch(store, network, block) {
        Ok(part) => {
            let outcome = judge(part, now);
            (text_of(outcome.as_push_result()), Some(outcome))
        }
        Err(refusal) => refused(refusal),
    }
}

/// A remote whose chain is ours up to a height, with blocks of its own above.
pub struct Remote {
    score: i128,
    common: u64,
    blocks: Vec<Block>,
    hash_limit: usize,
    /// Answers that do not follow from its chain.
    last: Option<Block>,
    hashes: Option<Vec<Hash256>>,
    block_at: Option<Block>,
    part: Option<Vec<Block>>,
}

impl Remote {
    /// One that has these blocks above ours at a height.
    pub fn new(score: i128, common: u64, blocks: Vec<Block>) -> Remote {
        let (last, hashes, block_at, part) = (None, None, None, None);
        Remote { score, common, blocks, hash_limit: 400, last, hashes, block_at, part }
    }

    /// One whose answers were recorded.
    pub fn recorded(chain: &Chain, peer: &Value) -> Remote {
        let block = |value: &Value| chain.block(&bytes_of(value));
        let list = |name: &str| peer[name].as_array().map(|blocks| blocks.iter().map(block).collect::<Vec<_>>());
        let one = |name: &str| Some(&peer[name]).filter(|value| !value.is_null()).map(block);
        let hash = |value: &Value| Hash256::from_hex(value.as_str().unwrap()).unwrap();
        Remote {
            score: peer["score"].as_str().unwrap().parse().unwrap(),
            common: peer["commonHeight"].as_u64().unwrap(),
            blocks: list("blocks").unwrap(),
            hash_limit: peer["hashLimit"].as_u64().map_or(400, |limit| limit as usize),
            last: one("lastBlock"),
            hashes: peer["hashes"].as_array().map(|hashes| hashes.iter().map(hash).collect()),
            block_at: one("blockAt"),
            part: list("part"),
        }
    }

    /// Our own block at a height, and the remote's above.
    fn chain_above(&self, local: Local<'_>, height: u64) -> Vec<Block> {
        let snapshot = local.store.snapshot().unwrap();
        let context = Context::of(&local.chain.network);
        let ours = |height| stored_block(&snapshot, Height(height), context).unwrap().unwrap().1;
        let theirs = self.blocks.iter().skip((height.saturating_sub(self.common)) as usize).cloned();
        (height + 1..=self.common).map(ours).chain(theirs).collect()
    }

    fn last(&self, local: Local<'_>) -> Option<Block> {
        self.last.clone().or_else(|| self.chain_above(local, self.common.saturating_sub(1)).pop())
    }

    fn hashes_from(&self, local: Local<'_>, height: Height) -> Vec<Hash256> {
        let chain = || self.chain_above(local, height.0 - 1);
        self.hashes.clone().unwrap_or_else(|| chain().iter().map(Block::hash).take(self.hash_limit).collect())
    }

    fn blocks_after(&self, local: Local<'_>, height: Height) -> Vec<Block> {
        // Asked for less than its branch, because its hashes lied, it was recorded to answer with the whole of it.
        self.part.clone().unwrap_or_else(|| self.chain_above(local, height.0.min(self.common)))
    }

    fn block_at(&self, local: Local<'_>, height: Height) -> Option<Block> {
        self.block_at.clone().or_else(|| self.chain_above(local, height.0 - 1).into_iter().next())
    }
}

/// What a synchronisation came to.
pub struct Synchronisation {
    /// What the comparison came to.
    pub comparison: ComparisonResult,
    /// What came of the blocks, if they were asked for.
    pub outcome: Option<BranchOutcome>,
}

fn last_block(block: &Block) -> TipInfo {
    TipInfo { height: block.height, hash: block.hash(), signature: block.signature }
}

/// Compares with a remote, and takes its blocks if they are better.
pub fn synchronise(local: Local<'_>, remote: &Remote, now: Timestamp) -> Synchronisation {
    let (store, network) = (local.store, &local.chain.network);
    let tip = tip_of(store);
    let snapshot = store.snapshot().unwrap();
    let (_, ours) = stored_block(&snapshot, tip.height, Context::of(network)).unwrap().unwrap();
    let comparison = ChainComparer::new(tip.score, last_block(&ours), &network.chain);
    let is_good = |block: &Block| check_block_signature(block, false, &mut Verifier::default()).1;
    let hash_at = |height| stored_header(&snapshot, Height(height)).unwrap().unwrap().hash;
    let mut step = comparison.on_score(remote.score);
    let compared = loop {
        step = match step {
            ComparisonStep::AskLastBlock => {
                let last = remote.last(local);
                let known = last.as_ref().map(last_block);
                comparison.on_last_block(known.as_ref(), last.as_ref().is_some_and(is_good))
            }
            ComparisonStep::AskHashes => {
                let ours: Vec<Hash256> = (comparison.first_hash().0..=tip.height.0).map(hash_at).collect();
                comparison.on_hashes(&ours, &remote.hashes_from(local, comparison.first_hash()))
            }
            ComparisonStep::AskBlockAfter(fork) => {
                let block = remote.block_at(local, fork.common.next());
                comparison.on_block_after(fork, block.as_ref().is_some_and(is_good))
            }
            ComparisonStep::Done(compared) => break compared,
        }
    };
    drop(snapshot);
    let outcome = match compared {
        ComparisonResult::RemoteIsNotSynced(fork) => {
            let part =
                CandidateBranch::new(store, network, fork.common, remote.blocks_after(local, fork.common)).unwrap();
            Some(judge(Box::new(part), now))
        }
        _ => None,
    };
    Synchronisation { comparison: compared, outcome }
}
