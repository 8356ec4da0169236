//! Processing of blocks that this node pulled from peers, that peers pushed, or that this node harvested.
//!
//! One candidate branch is processed at a time, in small steps. It holds the right to change the chain from its first
//! undone or applied block to its end. Either the whole branch enters the chain or nothing does.

use std::collections::BTreeMap;
use std::time::Duration;

use super::read_ahead::{AheadTicket, ReadAhead};
use crate::chain::harvest::Harvested;
use crate::chain::{
    CandidateBranch, ChainUpdate, RecalculationPart, RollbackError, StakeCache, Verified, check_pushed, due_after,
    pushed_branch,
};
use crate::codec::block::EncodedTransactions;
use crate::codec::{Context, SigningForm};
use crate::crypto::{PublicKey, Verifier};
use crate::mempool::{ContentHash, MAX_RESULTS, RecentResults};
use crate::model::{Address, Block, Hash256, Height, Network, Timestamp};
use crate::peer::io::{FetchedBlocks, Now};
use crate::peer::{LimitUsage, Pusher};
use crate::quota::{Owner, Quota};
use crate::rules::{Rejection, RuleResult, ValidationResult, is_in_future};
use crate::store::{Snapshot, Store, StoreError, stored_header, tip};

#[cfg(test)]
pub(super) mod tests;

/// Limits of the pushed blocks that wait: blocks and bytes. Beyond them the block of the owner that holds most gives way; a
/// block holds at least its share of the bytes, which a block of 120 usual transactions does not exceed. So beside half as
/// many networks, whoever holds a single such block keeps it.
const MAX_QUEUED: usize = 128;
const MAX_QUEUED_BYTES: usize = 8 << 20;
/// The same for pushed blocks of the future, which wait for their time beside the others and take no place of theirs, and
/// seconds after which their time is too far away.
const MAX_EARLY: usize = 16;
const MAX_EARLY_BYTES: usize = 1 << 20;
const MAX_EARLY_SECONDS: i32 = 60;
/// Number of blocks before a recalculation at which it begins to be read ahead.
const EARLY_BLOCKS: u64 = 10;
/// How long the result of a pushed block is remembered.
const RESULT_TTL: Duration = Duration::from_secs(6_000);

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

/// Returns whether the time of a pushed block is too far away to wait for it.
fn is_too_early(time: Timestamp, now: Timestamp) -> bool {
    time.0 > now.0.saturating_add(MAX_EARLY_SECONDS)
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
    /// Its transactions as they are hashed, signed and stored.
    encoded: Option<EncodedTransactions>,
    /// Its length in its verifiable binary form.
    bytes: usize,
    /// Its key in the memory of results.
    hash: ContentHash,
    /// Its hash, if its signature is checked.
    verified: Option<Hash256>,
    /// Whether it waits for its time.
    is_early: bool,
    /// The peer that pushed it.
    pub by: Pusher,
}

/// Blocks whose processing has ended.
#[derive(Debug)]
pub struct ProcessedBlocks {
    /// The source of the blocks.
    pub origin: BlockOrigin,
    /// Whether they are valid and have changed our chain.
    pub result: RuleResult,
    /// The chain update, if the blocks changed our chain.
    pub chain_update: Option<ChainUpdate>,
}

/// Result of a step: the processed blocks, once their result is known.
type Processed = Result<Option<ProcessedBlocks>, StoreError>;

/// The block processor.
pub struct BlockProcessor<'s> {
    store: &'s Store,
    network: &'s Network,
    /// Pushed blocks in order of arrival.
    queue: BTreeMap<u64, PushedBlock>,
    last_queued: u64,
    /// Who holds the blocks that wait for processing, and has used the time in which others waited for the proofs of its
    /// blocks.
    quota: Quota<u64>,
    /// Who holds the blocks that wait for their time.
    early_quota: Quota<u64>,
    /// The pushed block whose turn it is, which gives way to no other, and since when.
    next_pushed: Option<(u64, Duration)>,
    /// Pulled blocks that are being decoded, and the blocks decoded so far.
    decoding: Option<(Box<FetchedBlocks>, Vec<Block>)>,
    /// Whether the next of the pulled blocks in progress is of the future, so that it and those after it are not used.
    is_cut: bool,
    /// The candidate branch in validation, and its source.
    validating: Option<(Box<CandidateBranch<'s>>, BlockOrigin)>,
    /// The signer of the block that is proven next, and what is read ahead for its proof.
    proof: Option<(PublicKey, AheadTicket)>,
    /// What is read ahead for each block of the branch that is proven and going to be executed.
    ahead: Vec<AheadTicket>,
    /// Whether the next block waits for either.
    is_reading: bool,
    /// The next block after which importances are recalculated, and what is still to be read ahead for that while no block is
    /// processed.
    early: (Height, Vec<RecalculationPart>),
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
            queue: BTreeMap::new(),
            last_queued: 0,
            quota: Quota::default(),
            early_quota: Quota::default(),
            next_pushed: None,
            decoding: None,
            is_cut: false,
            validating: None,
            proof: None,
            ahead: Vec::new(),
            is_reading: false,
            early: (Height(0), Vec::new()),
            recent_results: RecentResults::with_ttl(RESULT_TTL),
            verifier: Verifier::default(),
            stakes: StakeCache::default(),
        }
    }

    /// Usage of the queue and of the memory of results.
    pub fn limit_usage(&self) -> [LimitUsage; 5] {
        [
            LimitUsage::new("queued pushed blocks", self.quota.len(), MAX_QUEUED),
            LimitUsage::new("bytes of queued pushed blocks", self.quota.total(), MAX_QUEUED_BYTES),
            LimitUsage::new("pushed blocks of the future", self.early_quota.len(), MAX_EARLY),
            LimitUsage::new("bytes of pushed blocks of the future", self.early_quota.total(), MAX_EARLY_BYTES),
            LimitUsage::new("cached results of pushed blocks", self.recent_results.count(), MAX_RESULTS),
        ]
    }

    /// Returns whether there are blocks to process; `now` is network time.
    pub fn has_work(&self, now: Timestamp) -> bool {
        let has_blocks = self.validating.is_some() || self.decoding.is_some() || self.due_pushed(now).next().is_some();
        has_blocks && !self.is_reading
    }

    /// Reads ahead what the next block needs, first for its proof, then for its execution, and lets it wait for that. A
    /// pushed block waits for its proof in the queue, where it holds up nothing. It is the only one that is not proven for
    /// which the node reads, so that any number of them delays the others by little. While there is no block, reads ahead
    /// what a recalculation soon after the `tip` needs.
    pub fn read_ahead(&mut self, tip: Height, ahead: &mut ReadAhead, now: Now) {
        self.is_reading = false;
        let unproven = match &self.validating {
            Some((branch, BlockOrigin::Pulled(_))) => branch.next_to_prove(),
            Some((_, BlockOrigin::Pushed(_) | BlockOrigin::Harvested(_))) => None,
            None if self.decoding.is_some() => None,
            None => self.choose_pushed(now).and_then(|(number, _)| Some(&*self.queue.get(&number)?.block)),
        };
        let is_idle = self.validating.is_none() && unproven.is_none();
        if let Some(block) = unproven {
            if self.proof.is_none_or(|(signer, _)| signer != block.signer) {
                let signer = Address::from_public_key(&block.signer, self.network.byte);
                let ticket = ahead.read_accounts(&[signer], now.monotonic);
                if let Some((_, last)) = self.proof.replace((block.signer, ticket)) {
                    ahead.cancel(last);
                }
            }
            self.is_reading = self.proof.is_some_and(|(_, ticket)| ahead.is_reading(ticket));
        }
        let Some((branch, _)) = &self.validating else {
            let proof = self.proof.take_if(|_| is_idle).map(|(_, ticket)| ticket);
            for ticket in self.ahead.drain(..).chain(proof) {
                ahead.cancel(ticket);
            }
            let due = (1..=EARLY_BLOCKS).map(|blocks| tip.plus(blocks)).find(|height| due_after(*height).is_some());
            if let Some(due) = due.filter(|due| *due != self.early.0) {
                self.early = (due, RecalculationPart::all(due, self.store, self.network, &self.stakes));
            }
            self.early.1.pop_if(|part| ahead.read_early(part, now.monotonic));
            return;
        };
        for block in branch.proven_blocks(self.ahead.len()) {
            let recalculation = RecalculationPart::all(block.height, self.store, self.network, &self.stakes);
            self.ahead.push(ahead.read_block(block, &recalculation, now.monotonic));
        }
        let next = branch.next_to_execute().and_then(|place| self.ahead.get(place));
        self.is_reading |= next.is_some_and(|ticket| ahead.is_reading(*ticket));
    }

    /// Returns the numbers of the pushed blocks whose time has come.
    fn due_pushed(&self, now: Timestamp) -> impl Iterator<Item = u64> {
        let due = move |(_, pushed): &(&u64, &PushedBlock)| !is_in_future(pushed.block.timestamp, now);
        self.queue.iter().filter(due).map(|(number, _)| *number)
    }

    /// Chooses the pushed block whose turn it is, if its time has come, and keeps it until it is started.
    fn choose_pushed(&mut self, now: Now) -> Option<(u64, Duration)> {
        if self.next_pushed.is_none() {
            self.place_early(now);
            let due: Vec<_> = self.due_pushed(now.network).collect();
            due.into_iter().for_each(|number| self.quota.wait(number, now.monotonic));
            let (_, number) = self.quota.next(now.monotonic)?;
            self.quota.release(number, now.monotonic);
            self.next_pushed = Some((number, now.monotonic));
        }
        self.next_pushed
    }

    /// Gives the blocks whose time has come a place among those that wait for processing. After the clock was set back,
    /// blocks wait for their time again, or are dropped.
    fn place_early(&mut self, now: Now) {
        let stays = |pushed: &PushedBlock| {
            let time = pushed.block.timestamp;
            pushed.is_early == is_in_future(time, now.network) && !is_too_early(time, now.network)
        };
        let moved = self.queue.iter().filter(|(_, pushed)| !stays(pushed));
        for number in moved.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.place(number, now);
        }
    }

    /// Gives a queued block a place, unless its time is too far away. Whoever holds most gives way.
    fn place(&mut self, number: u64, now: Now) {
        self.quota.release(number, now.monotonic);
        self.early_quota.release(number, now.monotonic);
        let Some(pushed) = self.queue.get_mut(&number) else { return };
        let time = pushed.block.timestamp;
        pushed.is_early = is_in_future(time, now.network);
        if is_too_early(time, now.network) {
            self.queue.remove(&number);
            return;
        }
        let (quota, bytes, blocks) = if pushed.is_early {
            (&mut self.early_quota, MAX_EARLY_BYTES, MAX_EARLY)
        } else {
            (&mut self.quota, MAX_QUEUED_BYTES, MAX_QUEUED)
        };
        quota.hold(number, Owner::at(pushed.by.from), pushed.bytes.max(bytes / blocks), now.monotonic);
        while quota.total() > bytes
            && let Some((_, number)) = quota.gives_way()
        {
            quota.release(number, now.monotonic);
            self.queue.remove(&number);
        }
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
            self.is_cut = false;
        }
    }

    /// Starts to add a harvested block to the chain. No branch may be in validation.
    pub fn add_harvested(&mut self, harvested: Harvested) -> Result<(), StoreError> {
        let Harvested { block, hashes, .. } = harvested;
        let verified = Verified { transactions: Some(hashes), ..Verified::default() };
        let branch = pushed_branch(self.store, self.network, block.clone(), verified);
        let rejected = self.begin(branch, BlockOrigin::Harvested(Box::new(block)))?;
        if let Some(ProcessedBlocks { result: Err(rejection), .. }) = rejected {
            log::warn!("the harvested block was not accepted: {rejection}");
        }
        Ok(())
    }

    /// Drops a harvested block in progress, unless it is already committed.
    pub fn drop_harvested(&mut self) {
        self.validating
            .take_if(|(branch, origin)| matches!(origin, BlockOrigin::Harvested(_)) && !branch.is_committed());
    }

    /// Remembers a block that a peer pushes while this node has not joined its network. Returns whether it is new; `now`
    /// is the time since the start.
    pub fn push_before_join(&mut self, block: &Block, now: Duration) -> bool {
        let hash = ContentHash::of(&block.to_bytes(SigningForm::Verifiable));
        let is_new = self.is_new(&hash, now);
        if is_new {
            self.recent_results.insert(hash, now);
        }
        is_new
    }

    fn is_new(&mut self, hash: &ContentHash, now: Duration) -> bool {
        !self.queue.values().any(|waiting| waiting.hash == *hash) && self.recent_results.get(hash, now).is_none()
    }

    /// Queues a block of this network that a peer pushed. Returns whether it is queued: not if it was seen before, if its
    /// time is too far away, or if there is no space. A block that does not extend our tip is rejected.
    pub fn push(&mut self, block: Block, by: Pusher, snapshot: &Snapshot<'_>, now: Now) -> Result<bool, Rejection> {
        let encoded = block.encode_transactions();
        let bytes = block.to_bytes_with(&encoded, SigningForm::Verifiable);
        let (hash, bytes) = (ContentHash::of(&bytes), bytes.len());
        if !self.is_new(&hash, now.monotonic) {
            return Ok(false);
        }
        let checked = check_pushed(&block, &encoded, snapshot, self.network, &mut self.verifier);
        if checked.as_ref().is_err_and(|rejection| !matches!(rejection, Rejection::Store(_))) {
            self.recent_results.insert(hash, now.monotonic);
        }
        let verified = checked?;
        self.last_queued += 1;
        let number = self.last_queued;
        let (block, encoded) = (Box::new(block), Some(encoded));
        self.queue.insert(number, PushedBlock { block, encoded, bytes, hash, verified, is_early: false, by });
        // A block that gives way is not remembered: it may be pushed again.
        self.place(number, now);
        Ok(self.queue.contains_key(&number))
    }

    /// Performs one step. Returns the processed blocks once their result is known. If the store fails, the blocks in
    /// progress are dropped unless they are committed; with the error comes the peer of dropped ones that were pulled, which
    /// may send them again.
    pub fn step(&mut self, now: Now) -> Result<Option<ProcessedBlocks>, (StoreError, Option<Address>)> {
        let pulled_from = match (&self.validating, &self.decoding) {
            (Some((_, BlockOrigin::Pulled(from))), _) => Some(*from),
            (None, Some((pulled, _))) => Some(pulled.from),
            _ => None,
        };
        let result = if let Some((branch, origin)) = self.validating.take() {
            self.validate(branch, origin, now.network)
        } else if let Some((pulled, read)) = self.decoding.take() {
            self.decode_next(pulled, read, now.network)
        } else {
            self.start_pushed(now)
        };
        result.map_err(|error| (error, pulled_from.filter(|_| self.validating.is_none())))
    }

    fn start_pushed(&mut self, now: Now) -> Processed {
        let Some((number, since)) = self.choose_pushed(now) else { return Ok(None) };
        self.next_pushed = None;
        let Some(mut pushed) = self.queue.remove(&number) else { return Ok(None) };
        let waited = now.monotonic.saturating_sub(since).as_micros();
        self.quota.charge(Owner::at(pushed.by.from), u32::try_from(waited).unwrap_or(u32::MAX), now.monotonic);
        // If the clock was set back since, the block is of the future and may be pushed again.
        if !is_in_future(pushed.block.timestamp, now.network) {
            self.recent_results.insert(pushed.hash, now.monotonic);
        }
        let verified = Verified { hash: pushed.verified, transactions: None, encoded: pushed.encoded.take() };
        let branch = pushed_branch(self.store, self.network, (*pushed.block).clone(), verified);
        self.begin(branch, BlockOrigin::Pushed(pushed))
    }

    /// Begins to validate a branch, or rejects what is none.
    fn begin(&mut self, branch: Result<CandidateBranch<'s>, Rejection>, origin: BlockOrigin) -> Processed {
        match branch {
            Ok(branch) => self.validating = Some((Box::new(branch), origin)),
            Err(Rejection::Store(error)) => return Err(error),
            Err(rejection) => return Ok(Some(ProcessedBlocks { origin, result: Err(rejection), chain_update: None })),
        }
        Ok(None)
    }

    /// Decodes one block. When all are decoded and our tip is still the compared one, validation starts.
    fn decode_next(&mut self, mut pulled: Box<FetchedBlocks>, mut read: Vec<Block>, now: Timestamp) -> Processed {
        let origin = BlockOrigin::Pulled(pulled.from);
        match pulled.blocks.next(Context::of(self.network)) {
            // Our clock may be slow: the peer is not blamed, and the blocks before are used.
            Some(Ok(block)) if is_in_future(block.timestamp, now) => self.is_cut = true,
            // Any number of blocks above the sync limit is too many.
            Some(Ok(mut block)) if read.len() as u64 <= self.network.chain.max_blocks_per_sync() => {
                // The peer may have adopted our chain since the comparison. Common blocks are skipped, so that no block
                // is published twice.
                if read.is_empty() && self.is_ours(&mut block, pulled.common)? {
                    pulled.common = pulled.common.next();
                } else {
                    read.push(block);
                }
                self.decoding = Some((pulled, read));
                return Ok(None);
            }
            // The peer is not blamed, since a response may have been cut short.
            Some(Err(_)) => return self.begin(Err(Rejection::Unusable), origin),
            _ => {}
        }
        let FetchedBlocks { common, base, .. } = *pulled;
        let last = tip(&self.store.snapshot()?)?.ok_or(StoreError::Empty)?;
        let branch = if last.hash != base {
            Err(ValidationResult::Neutral.into())
        } else if self.is_cut && read.is_empty() {
            Err(Rejection::Unusable)
        } else {
            CandidateBranch::new(self.store, self.network, common, read).map_err(|error| match error {
                RollbackError::Store(error) => Rejection::Store(error),
                // The branch cannot be applied to our chain; the peer is not blamed.
                RollbackError::NotBelow { .. } => ValidationResult::Neutral.into(),
                RollbackError::TooDeep { .. } => Rejection::TooDeep,
            })
        };
        self.begin(branch, origin)
    }

    /// Lets a block name our block at the height `common` as its parent, as its proof does too, whatever it names. Returns
    /// whether it is ours then.
    fn is_ours(&self, block: &mut Block, common: Height) -> Result<bool, StoreError> {
        let snapshot = self.store.snapshot()?;
        let (parent, ours) = (stored_header(&snapshot, common)?, stored_header(&snapshot, common.next())?);
        let (Some(parent), Some(ours)) = (parent, ours) else { return Ok(false) };
        block.previous_hash = parent.hash.into();
        Ok(ours.hash == block.hash())
    }

    fn validate(&mut self, mut branch: Box<CandidateBranch<'s>>, origin: BlockOrigin, now: Timestamp) -> Processed {
        let outcome = match branch.step(now, &mut self.stakes) {
            Ok(Some(outcome)) => outcome,
            Ok(None) => {
                self.validating = Some((branch, origin));
                return Ok(None);
            }
            Err(error) => {
                // What is committed only waits for the disk, which the next step tries again.
                if branch.is_committed() {
                    self.validating = Some((branch, origin));
                }
                return Err(error);
            }
        };
        let is_early = match (&outcome.validity, &origin) {
            (Err(Rejection::Result(result)), _) => *result == ValidationResult::FailureTimestampTooFarInFuture,
            (Ok(()), BlockOrigin::Pulled(_)) => self.is_cut && outcome.update.is_none(),
            _ => false,
        };
        let result = match origin {
            BlockOrigin::Pulled(_) if is_early => Err(ValidationResult::FailureTimestampTooFarInFuture.into()),
            _ if is_early => Err(ValidationResult::Neutral.into()),
            BlockOrigin::Pulled(_) => outcome.as_sync_result(),
            BlockOrigin::Pushed(_) | BlockOrigin::Harvested(_) => outcome.as_push_result(),
        };
        if outcome.update.is_none() && matches!(origin, BlockOrigin::Harvested(_)) {
            log::warn!("the harvested block was not accepted: {:?}", outcome.validity);
        }
        Ok(Some(ProcessedBlocks { origin, result, chain_update: outcome.update }))
    }
}
