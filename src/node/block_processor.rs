//! Processing of blocks that this node pulled from peers, that peers pushed, or that this node harvested.
//!
//! One candidate branch is processed at a time, in small steps. It holds the right to change the chain from its first
//! undone or applied block to its end. Either the whole branch enters the chain or nothing does.

use std::collections::VecDeque;
use std::net::IpAddr;

use crate::chain::ChainSnapshot;
use crate::chain::harvest::Harvested;
use crate::chain::{CandidateBranch, ChainUpdate, RollbackError, StakeCache, check_pushed, pushed_branch};
use crate::codec::{Context, ReadError, SigningForm};
use crate::crypto::Verifier;
use crate::mempool::{ContentHash, MAX_RESULTS, RecentResults};
use crate::model::{Address, Block, Height, Network, Timestamp};
use crate::peer::io::FetchedBlocks;
use crate::peer::peer_table::host;
use crate::peer::{LimitUsage, Pusher};
use crate::rules::{Exception, Rejection, ValidationResult};
use crate::store::{Store, StoreError, stored_header, tip};

#[cfg(test)]
mod tests;

/// Limits of the queue of pushed blocks: blocks and bytes. Beyond them the newest block of the host with the most
/// blocks is dropped, if that host has at least two more than the current sender; otherwise the new block is dropped.
const MAX_QUEUED: usize = 16;
const MAX_QUEUED_BYTES: usize = 4 << 20;
/// Seconds for which the result of a pushed block is remembered.
const RESULT_TTL: i32 = 6_000;

/// Source of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockOrigin {
    /// A peer that this node requested them from.
    Pulled(Address),
    /// A block that a peer pushed.
    Pushed(PushedBlock),
    /// A block that this node harvested.
    Harvested(Box<Block>),
}

impl BlockOrigin {
    /// Returns the block to relay, if it was accepted. Pulled blocks are not relayed.
    pub fn into_block(self) -> Option<Block> {
        match self {
            BlockOrigin::Pulled(_) => None,
            BlockOrigin::Pushed(PushedBlock { block, .. }) | BlockOrigin::Harvested(block) => Some(*block),
        }
    }
}

/// A pushed block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushedBlock {
    block: Box<Block>,
    /// Its key in the memory of results.
    hash: ContentHash,
    bytes: usize,
    /// The peer that pushed it.
    pub by: Pusher,
}

/// Immediate result of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushOutcome {
    /// The block is queued.
    Queued,
    /// The block was rejected before processing, with this result.
    Rejected(ValidationResult),
    /// The block is queued or was seen before, or the queue is full.
    Ignored,
    /// The node has not joined its network and accepts no blocks.
    NotBooted,
}

/// Result of processing blocks.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A validation result of the protocol.
    Result(ValidationResult),
    /// The blocks are invalid in a way for which NIS1 has an error text instead of a result.
    Exception(Exception),
    /// The blocks would undo more of our blocks than allowed; the peer is not blamed.
    TooDeep,
    /// The blocks cannot be decoded; the peer is not blamed, since a response may have been cut short.
    Unreadable(ReadError),
}

/// Blocks whose processing has ended.
#[derive(Debug)]
pub struct ProcessedBlocks {
    /// The source of the blocks.
    pub origin: BlockOrigin,
    /// The result.
    pub outcome: Outcome,
    /// The chain update, if the blocks changed our chain.
    pub chain_update: Option<ChainUpdate>,
}

/// The block processor.
pub struct BlockProcessor<'s> {
    store: &'s Store,
    network: &'s Network,
    queue: VecDeque<PushedBlock>,
    queue_bytes: usize,
    /// Pulled blocks that are being decoded, and the blocks decoded so far.
    decoding: Option<(Box<FetchedBlocks>, Vec<Block>)>,
    /// The candidate branch in validation, and its source.
    validating: Option<(Box<CandidateBranch<'s>>, BlockOrigin)>,
    /// The peer whose blocks were dropped because the store failed.
    dropped: Option<Address>,
    recent_results: RecentResults,
    verifier: Verifier,
    stakes: StakeCache,
}

impl<'s> BlockProcessor<'s> {
    /// Creates an idle block processor.
    pub fn new(store: &'s Store, network: &'s Network) -> BlockProcessor<'s> {
        BlockProcessor {
            store,
            network,
            queue: VecDeque::new(),
            queue_bytes: 0,
            decoding: None,
            validating: None,
            dropped: None,
            recent_results: RecentResults::with_ttl(RESULT_TTL),
            verifier: Verifier::default(),
            stakes: StakeCache::default(),
        }
    }

    /// Usage of the queue and of the memory of results.
    pub fn limit_usage(&self) -> [LimitUsage; 3] {
        [
            LimitUsage::new("queued pushed blocks", self.queue.len(), MAX_QUEUED),
            LimitUsage::new("bytes of queued pushed blocks", self.queue_bytes, MAX_QUEUED_BYTES),
            LimitUsage::new("cached results of pushed blocks", self.recent_results.len(), MAX_RESULTS),
        ]
    }

    /// Returns whether there are blocks to process.
    pub fn has_work(&self) -> bool {
        self.validating.is_some() || self.decoding.is_some() || !self.queue.is_empty()
    }

    /// Returns whether a branch is in validation; nothing else may change the chain meanwhile.
    pub fn holds_chain(&self) -> bool {
        self.validating.is_some()
    }

    /// Returns whether pulled blocks can be accepted: no blocks of a peer are in progress.
    pub fn may_pull(&self) -> bool {
        let is_own = |(_, origin): &(_, BlockOrigin)| matches!(origin, BlockOrigin::Harvested(_));
        self.decoding.is_none() && self.validating.as_ref().is_none_or(is_own)
    }

    /// Accepts pulled blocks if the processor is free; they go before all queued pushed blocks.
    pub fn pull(&mut self, pulled: FetchedBlocks) {
        if self.may_pull() {
            self.decoding = Some((Box::new(pulled), Vec::new()));
        }
    }

    /// Starts to add a harvested block to the chain. No branch may be in validation.
    pub fn add_harvested(&mut self, harvested: Harvested) -> Result<(), StoreError> {
        let Harvested { block, hashes, .. } = harvested;
        match pushed_branch(self.store, self.network, block.clone(), Some(hashes)) {
            Ok(branch) => self.validating = Some((Box::new(branch), BlockOrigin::Harvested(Box::new(block)))),
            Err(Rejection::Store(error)) => return Err(error),
            Err(rejection) => log::warn!("the harvested block was not accepted: {rejection}"),
        }
        Ok(())
    }

    /// Drops a harvested block in progress, unless it is already committed.
    pub fn drop_harvested(&mut self) {
        self.validating
            .take_if(|(branch, origin)| matches!(origin, BlockOrigin::Harvested(_)) && !branch.is_committed());
    }

    /// Queues a block of this network that a peer pushed. A block that was seen before or does not extend our tip is
    /// not queued. A node that has not joined its network rejects the block but remembers it.
    pub fn push(
        &mut self,
        block: Block,
        by: Pusher,
        confirmed: &ChainSnapshot<'_>,
        is_booted: bool,
    ) -> Result<PushOutcome, StoreError> {
        let bytes = block.to_bytes(SigningForm::Verifiable);
        let (hash, bytes) = (ContentHash::of(&bytes), bytes.len());
        let is_waiting = self.queue.iter().any(|waiting| waiting.hash == hash);
        if is_waiting || self.recent_results.get(&hash, confirmed.now).is_some() {
            return Ok(PushOutcome::Ignored);
        }
        if !is_booted {
            self.recent_results.insert(hash, confirmed.now);
            return Ok(PushOutcome::NotBooted);
        }
        match check_pushed(&block, confirmed.snapshot, self.network, &mut self.verifier) {
            Ok(()) => {}
            Err(Rejection::Store(error)) => return Err(error),
            Err(Rejection::Result(result)) => {
                self.recent_results.insert(hash, confirmed.now);
                self.recent_results.set_result(&hash, result);
                return Ok(PushOutcome::Rejected(result));
            }
            Err(Rejection::Exception(_)) => {
                self.recent_results.insert(hash, confirmed.now);
                return Ok(PushOutcome::Rejected(ValidationResult::FailureChainInvalid));
            }
        }
        if !self.evict_for(host(by.from), bytes) {
            return Ok(PushOutcome::Ignored);
        }
        self.queue_bytes += bytes;
        self.queue.push_back(PushedBlock { block: Box::new(block), hash, bytes, by });
        Ok(PushOutcome::Queued)
    }

    /// Frees space for a pushed block of this size. Returns whether there is space. A block that finds no space or is
    /// dropped is not remembered: it may be pushed again.
    fn evict_for(&mut self, pusher: IpAddr, bytes: usize) -> bool {
        while self.queue.len() >= MAX_QUEUED || self.queue_bytes + bytes > MAX_QUEUED_BYTES {
            let count = |from| self.queue.iter().filter(|waiting| host(waiting.by.from) == from).count();
            let counts = self.queue.iter().map(|waiting| count(host(waiting.by.from)));
            let largest = counts.enumerate().max_by_key(|(_, count)| *count);
            let Some((newest, _)) = largest.filter(|(_, most)| *most > count(pusher) + 1) else { return false };
            let dropped = self.queue.remove(newest);
            self.queue_bytes -= dropped.map_or(0, |dropped| dropped.bytes);
        }
        true
    }

    /// Performs one step; `now` is network time. Returns the processed blocks once their result is known. If the store
    /// fails, the current blocks are dropped, since peers will send them again; [`BlockProcessor::take_dropped`] returns their
    /// source.
    pub fn step(&mut self, now: Timestamp) -> Result<Option<ProcessedBlocks>, StoreError> {
        let pulled_from = match (&self.validating, &self.decoding) {
            (Some((_, BlockOrigin::Pulled(from))), _) => Some(*from),
            (None, Some((pulled, _))) => Some(pulled.from),
            _ => None,
        };
        let result = if let Some((branch, origin)) = self.validating.take() {
            self.validate(branch, origin, now)
        } else if let Some((pulled, read)) = self.decoding.take() {
            self.decode_next(pulled, read)
        } else {
            self.start_pushed(now)
        };
        if result.is_err() {
            self.dropped = pulled_from;
        }
        result
    }

    /// Returns, once, the peer whose pulled blocks were dropped because the store failed.
    pub fn take_dropped(&mut self) -> Option<Address> {
        self.dropped.take()
    }

    fn start_pushed(&mut self, now: Timestamp) -> Result<Option<ProcessedBlocks>, StoreError> {
        let Some(pushed) = self.queue.pop_front() else { return Ok(None) };
        self.queue_bytes -= pushed.bytes;
        self.recent_results.insert(pushed.hash, now);
        let rejected = match pushed_branch(self.store, self.network, (*pushed.block).clone(), None) {
            Ok(branch) => {
                self.validating = Some((Box::new(branch), BlockOrigin::Pushed(pushed)));
                return Ok(None);
            }
            Err(Rejection::Store(error)) => return Err(error),
            Err(Rejection::Result(result)) => Outcome::Result(result),
            Err(Rejection::Exception(exception)) => Outcome::Exception(exception),
        };
        Ok(Some(self.finish(BlockOrigin::Pushed(pushed), rejected, None)))
    }

    /// Decodes one block. When all are decoded and our tip is still the compared one, validation starts.
    fn decode_next(
        &mut self,
        mut pulled: Box<FetchedBlocks>,
        mut read: Vec<Block>,
    ) -> Result<Option<ProcessedBlocks>, StoreError> {
        let origin = BlockOrigin::Pulled(pulled.from);
        match pulled.blocks.next(Context::of(self.network)) {
            // Any number of blocks above the sync limit is too many.
            Some(Ok(block)) if read.len() as u64 <= self.network.chain.max_blocks_per_sync() => {
                // The peer may have adopted our chain since the comparison. Common blocks are skipped, so that no block
                // is published twice.
                match read.is_empty() && self.is_ours(&block, pulled.common.next())? {
                    true => pulled.common = pulled.common.next(),
                    false => read.push(block),
                }
                self.decoding = Some((pulled, read));
                return Ok(None);
            }
            Some(Err(error)) => return Ok(Some(self.finish(origin, Outcome::Unreadable(error), None))),
            _ => {}
        }
        let FetchedBlocks { common, base, .. } = *pulled;
        let last = tip(&self.store.snapshot()?)?.ok_or(StoreError::Empty)?;
        if last.hash != base {
            return Ok(Some(self.finish(origin, Outcome::Result(ValidationResult::Neutral), None)));
        }
        let outcome = match CandidateBranch::new(self.store, self.network, common, read) {
            Ok(branch) => {
                self.validating = Some((Box::new(branch), origin));
                return Ok(None);
            }
            Err(RollbackError::Store(error)) => return Err(error),
            // The branch cannot be applied to our chain; the peer is not blamed.
            Err(RollbackError::NotBelow { .. }) => Outcome::Result(ValidationResult::Neutral),
            Err(RollbackError::TooDeep { .. }) => Outcome::TooDeep,
        };
        Ok(Some(self.finish(origin, outcome, None)))
    }

    /// Returns whether our block at a height is this one.
    fn is_ours(&self, block: &Block, height: Height) -> Result<bool, StoreError> {
        let ours = stored_header(&self.store.snapshot()?, height)?;
        Ok(ours.is_some_and(|ours| ours.hash == block.hash()))
    }

    fn validate(
        &mut self,
        mut branch: Box<CandidateBranch<'s>>,
        origin: BlockOrigin,
        now: Timestamp,
    ) -> Result<Option<ProcessedBlocks>, StoreError> {
        let Some(outcome) = branch.step(now, &mut self.stakes)? else {
            self.validating = Some((branch, origin));
            return Ok(None);
        };
        let result = match origin {
            BlockOrigin::Pulled(_) => outcome.as_sync_result(),
            BlockOrigin::Pushed(_) | BlockOrigin::Harvested(_) => outcome.as_push_result(),
        };
        let result = match result {
            Ok(result) => Outcome::Result(result),
            Err(exception) => Outcome::Exception(exception.clone()),
        };
        if outcome.update.is_none() && matches!(origin, BlockOrigin::Harvested(_)) {
            log::warn!("the harvested block was not accepted: {:?}", outcome.validity);
        }
        Ok(Some(self.finish(origin, result, outcome.update)))
    }

    /// Remembers the result of a pushed block.
    fn finish(&mut self, origin: BlockOrigin, outcome: Outcome, chain_update: Option<ChainUpdate>) -> ProcessedBlocks {
        if let (BlockOrigin::Pushed(pushed), Outcome::Result(result)) = (&origin, &outcome) {
            self.recent_results.set_result(&pushed.hash, *result);
        }
        ProcessedBlocks { origin, outcome, chain_update }
    }
}
