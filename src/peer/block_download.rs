//! Block download from several peers, for a chain that is far ahead of ours.
//!
//! One peer, the sync peer, supplies the block hashes. Several peers supply the blocks, some batches ahead of the one
//! being processed, so that processing never waits for a single peer. Blocks are returned in order of height. Each must
//! have the hash that the sync peer supplied and follow the previous block, so only the sync peer determines the chain.
//! A majority of the peers that supply blocks can outvote a sync peer whose chain they do not have.
//!
//! A download keeps the right to change the chain only while blocks arrive at a minimum pace ([`PATIENCE`]), and ends if
//! none arrives for [`STALL_TIMEOUT`]. While it follows hashes to a checkpoint, it changes nothing and keeps nothing; then
//! it ends if blocks arrive at less than that pace on average ([`VERIFYING_PATIENCE`]).
//!
//! With a trusted checkpoint, the blocks up to it are downloaded twice: first to verify that they lead to the
//! checkpoint, keeping one digest per hash answer, and then to be processed without signature checks.
//!
//! | data | grows by | limit |
//! |---|---|---|
//! | hashes without a batch | answers of the sync peer | [`MAX_PENDING_HASHES`] and one answer |
//! | received blocks not yet returned | answers | [`MAX_BUFFERED_BYTES`] and the requests in flight |
//! | requests in flight | batches | [`MAX_IN_FLIGHT`], [`MAX_IN_FLIGHT_PER_PEER`] |
//! | download peers | selections | [`MAX_DOWNLOAD_PEERS`] |
//! | digests, with a checkpoint | height of the checkpoint | 32 bytes per answer of the sync peer |

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use super::io::backoff;
use super::wire::{BlockList, ChainRequest, Query};
use crate::codec::Context;
use crate::crypto::hash::keccak256;
use crate::model::{Address, Block, Checkpoint, Hash256, Height};

/// Maximum number of download peers.
pub const MAX_DOWNLOAD_PEERS: usize = 8;
/// Maximum number of requests in flight.
pub const MAX_IN_FLIGHT: usize = 6;
/// Maximum number of requests in flight to one peer.
pub const MAX_IN_FLIGHT_PER_PEER: usize = 3;
/// Maximum bytes of received blocks that wait, as long as answers have the usual size.
pub const MAX_BUFFERED_BYTES: usize = 2 << 20;
/// Maximum number of transactions in a batch, which bounds its bytes.
pub const MAX_BATCH_TRANSACTIONS: i32 = 1_000;
/// Number of hashes without a batch from which on no more are requested.
pub const MAX_PENDING_HASHES: usize = 2_000;
/// Maximum time for which a download waits for blocks and keeps the chain, in all, and what each block adds again.
pub const PATIENCE: Duration = Duration::from_secs(4);
const PATIENCE_PER_BLOCK: Duration = Duration::from_millis(250);
/// The same for blocks that are verified up to the checkpoint, after which the download ends: enough for a silent peer to be
/// passed over twice. What blocks add has no maximum here, since a download that ends loses what it has verified.
pub const VERIFYING_PATIENCE: Duration = Duration::from_secs(10);
/// Time without a block after which a download ends.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Time after which the batch that blocks progress is also requested from another peer, and again from a third.
pub const HEDGE_DELAY: Duration = Duration::from_secs(3);
/// Interval between selections of further download peers.
const SELECT_INTERVAL: Duration = Duration::from_secs(10);
/// Consecutive failures after which a peer is removed.
const MAX_FAILURES: u32 = 4;
/// Backoff of a peer after the first failure, and its maximum.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(32);
/// Assumed bytes of a batch before the first has arrived.
const INITIAL_BATCH_BYTES: usize = 256 << 10;

/// Request to a peer. The same request is not in flight twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownloadRequest {
    /// Number of the download.
    pub download: u64,
    /// Peer to query.
    pub peer: Address,
    /// Query for hashes or blocks.
    pub query: Query,
}

/// Answer of a peer.
#[derive(Debug)]
pub enum DownloadAnswer {
    /// Block hashes.
    Hashes(Vec<Hash256>),
    /// Blocks.
    Blocks(BlockList),
}

/// Result of [`BlockDownload::next`].
#[derive(Debug)]
pub enum NextBlock {
    /// The next block.
    Block(Box<Block>),
    /// Some work was done; there is more to do before the next block.
    Working,
    /// The next block has not arrived.
    Waiting,
    /// The download has ended.
    Ended,
}

/// Result of a download; the text says why it failed.
#[derive(Clone, Copy, Debug, derive_more::Display, PartialEq, Eq)]
pub enum DownloadOutcome {
    /// All blocks were returned.
    #[display("all blocks have arrived")]
    Done,
    /// No block has arrived for [`STALL_TIMEOUT`].
    #[display("no block has arrived for {} s", STALL_TIMEOUT.as_secs())]
    Stalled,
    /// Blocks to verify up to the checkpoint, which this peer claims, arrived too slowly.
    #[display("the blocks that {_0} claims come too slowly")]
    TooSlow(Address),
    /// The sync peer's hashes do not form a chain, or most other peers do not have that chain.
    #[display("its statements about its chain are false")]
    SyncPeerMisbehaved(Address),
    /// The chain of this peer has a block of this hash at the height of the trusted checkpoint.
    #[display("its block at the height of --trust-below has another hash: {_1}")]
    CheckpointMismatch(Address, Hash256),
    /// No download peer is left.
    #[display("no peer is left that has its chain")]
    NoPeersLeft,
}

/// State of the trusted checkpoint.
#[derive(Debug)]
enum CheckpointState {
    NoCheckpoint,
    /// The hashes are followed up to the checkpoint; holds one digest, a hash over all block hashes, per answer so far.
    Verifying(Checkpoint, Vec<Hash256>),
    /// The hashes with these digests lead to the checkpoint; holds the number of digests that were compared again.
    Verified(Checkpoint, Vec<Hash256>, usize),
}

/// Peer of the download.
#[derive(Debug)]
struct DownloadPeer {
    node: Address,
    /// Consecutive failures.
    failures: u32,
    retry_at: Duration,
}

/// Consecutive blocks that are downloaded together, from the first that is still missing on.
#[derive(Debug)]
struct BlockBatch {
    first: Height,
    /// Expected hashes of the blocks that were not taken yet.
    hashes: VecDeque<Hash256>,
    /// Peer that supplied the hashes.
    hashes_from: Address,
    /// Received blocks and the peer that sent them.
    received: Option<(Address, BlockList)>,
}

impl BlockBatch {
    fn held_bytes(&self) -> usize {
        self.received.as_ref().map_or(0, |(_, blocks)| blocks.held_bytes())
    }

    /// Returns the next block and its hash. If it is missing or has another hash, discards the received blocks and
    /// returns `None`; this block and all that follow are then missing again.
    fn next(&mut self, context: Context) -> Option<(Box<Block>, Hash256)> {
        let (_, blocks) = self.received.as_mut()?;
        let (expected, height) = (*self.hashes.front()?, self.first);
        let block = blocks.next(context).and_then(Result::ok).filter(|block| block.height == height);
        let found = block.map(|block| (block.hash(), block)).filter(|(hash, _)| *hash == expected);
        let Some((hash, block)) = found else {
            self.received = None;
            return None;
        };
        self.hashes.pop_front();
        self.first = self.first.next();
        Some((Box::new(block), hash))
    }
}

/// Download of one chain.
#[derive(Debug)]
pub struct BlockDownload {
    /// Number of the download.
    number: u64,
    /// Peer that supplies the hashes.
    pub sync_peer: Address,
    /// Peer that claimed the chain up to `target`; another one becomes the sync peer if it is removed.
    pub claimed_by: Address,
    /// Our tip at the start of the download.
    pub base: Checkpoint,
    /// Last height of the sync peer's chain at the start of the download.
    pub target: Height,
    /// Request for a batch, after any height.
    batch_request: ChainRequest,
    /// Maximum number of hashes in an answer.
    max_hashes: usize,
    checkpoint: CheckpointState,
    /// Hashes without a batch, and the next height for which to request a hash.
    hashes: VecDeque<Hash256>,
    next_hash_height: Height,
    batches: VecDeque<BlockBatch>,
    peers: Vec<DownloadPeer>,
    /// The last peers that were removed, which are not added again.
    removed: Vec<Address>,
    /// Requests in flight and the times of sending.
    in_flight: Vec<(DownloadRequest, Duration)>,
    /// When further download peers are selected, if there is space.
    select_at: Duration,
    /// Time of the last call of [`BlockDownload::next_request`].
    last_poll: Duration,
    /// The last block that was returned, or that was verified on the way to the checkpoint.
    last: Checkpoint,
    /// Since when the next block is missing.
    waiting_since: Option<Duration>,
    /// Time for which it may be missing until the download lets go of the chain, or ends while it verifies.
    patience: Duration,
    /// Running averages of the blocks and bytes in an answer.
    usual_blocks: usize,
    usual_bytes: usize,
    /// Peers that supplied blocks of the sync peer's chain, and peers that supplied others.
    agreeing: BTreeSet<Address>,
    disagreeing: BTreeSet<Address>,
    /// Peers that supplied a useful batch, one entry per batch, until the caller takes them.
    pub useful_peers: Vec<Address>,
    /// Result, if the download has ended.
    pub outcome: Option<DownloadOutcome>,
}

impl BlockDownload {
    /// Starts a download after `base`, our tip, of the sync peer's chain up to `target` at least. `number` must be unique;
    /// an answer has at most `max_hashes` hashes. A checkpoint counts only if it lies above `base` and up to `target`.
    pub fn new(
        number: u64,
        sync_peer: Address,
        (base, target): (Checkpoint, Height),
        max_hashes: u64,
        batch_request: ChainRequest,
        checkpoint: Option<Checkpoint>,
    ) -> BlockDownload {
        let checkpoint = checkpoint.filter(|checkpoint| checkpoint.height > base.height && checkpoint.height <= target);
        let verifying = |checkpoint| CheckpointState::Verifying(checkpoint, Vec::new());
        let patience = if checkpoint.is_some() { VERIFYING_PATIENCE } else { PATIENCE };
        let max_hashes = usize::try_from(max_hashes).unwrap_or(usize::MAX).max(1);
        let mut download = BlockDownload {
            number,
            sync_peer,
            claimed_by: sync_peer,
            base,
            target,
            batch_request,
            max_hashes,
            checkpoint: checkpoint.map_or(CheckpointState::NoCheckpoint, verifying),
            hashes: VecDeque::new(),
            next_hash_height: base.height.next(),
            batches: VecDeque::new(),
            peers: Vec::new(),
            removed: Vec::new(),
            in_flight: Vec::new(),
            select_at: Duration::ZERO,
            last_poll: Duration::ZERO,
            last: base,
            waiting_since: None,
            patience,
            usual_blocks: max_hashes,
            usual_bytes: INITIAL_BATCH_BYTES,
            agreeing: BTreeSet::new(),
            disagreeing: BTreeSet::new(),
            useful_peers: Vec::new(),
            outcome: None,
        };
        download.add_peer(sync_peer);
        download
    }

    /// Returns the verified height and the checkpoint while the blocks up to the checkpoint are verified.
    pub fn verifying(&self) -> Option<(Height, Checkpoint)> {
        let CheckpointState::Verifying(checkpoint, _) = self.checkpoint else { return None };
        Some((self.last.height, checkpoint))
    }

    /// Returns the height below which blocks are known to lead to the trusted checkpoint.
    pub fn trusted_below(&self) -> Height {
        if let CheckpointState::Verified(checkpoint, ..) = self.checkpoint { checkpoint.height } else { Height(0) }
    }

    /// Returns whether a peer has supplied blocks of the sync peer's chain, and none of another one.
    pub fn has_agreed(&self, node: &Address) -> bool {
        self.agreeing.contains(node)
    }

    /// Adds newly selected download peers, as far as there is space.
    pub fn add_peers(&mut self, nodes: Vec<Address>, now: Duration) {
        self.select_at = now + SELECT_INTERVAL;
        for node in nodes {
            self.add_peer(node);
        }
    }

    /// Adds a peer, unless it is known, removed or there is no space.
    fn add_peer(&mut self, node: Address) {
        if self.peers.len() < MAX_DOWNLOAD_PEERS && !self.has_peer(&node) && !self.removed.contains(&node) {
            self.peers.push(DownloadPeer { node, failures: 0, retry_at: Duration::ZERO });
        }
    }

    fn in_flight_to(&self, peer: &DownloadPeer) -> usize {
        self.in_flight.iter().filter(|(asked, _)| asked.peer == peer.node).count()
    }

    fn is_ready(&self, peer: &DownloadPeer, now: Duration) -> bool {
        self.in_flight_to(peer) < MAX_IN_FLIGHT_PER_PEER && peer.retry_at <= now
    }

    fn has_peer(&self, node: &Address) -> bool {
        self.peers.iter().any(|peer| peer.node == *node)
    }

    /// Removes a peer. Keeps the last `2 * MAX_DOWNLOAD_PEERS` removed peers, which cannot be added again.
    fn remove_peer(&mut self, node: Address) {
        let before = self.peers.len();
        self.peers.retain(|peer| peer.node != node);
        if self.peers.len() < before {
            if self.removed.len() == 2 * MAX_DOWNLOAD_PEERS {
                self.removed.remove(0);
            }
            self.removed.push(node);
        }
    }

    /// Returns whether further download peers are to be selected.
    pub fn wants_peers(&self, now: Duration) -> bool {
        self.peers.len() < MAX_DOWNLOAD_PEERS && self.select_at <= now
    }

    /// Returns the next request to send, if any; `now` is the time since the start of the node.
    pub fn next_request(&mut self, now: Duration) -> Option<DownloadRequest> {
        self.last_poll = now;
        // Late requests give way to others, so that peers that do not answer in time do not stop the download.
        let in_time = self.in_flight.iter().filter(|(_, sent)| now < *sent + HEDGE_DELAY);
        if self.outcome.is_some() || in_time.count() >= MAX_IN_FLIGHT {
            return None;
        }
        if !self.has_peer(&self.sync_peer) {
            let Some(peer) = self.peers.first() else {
                self.outcome = Some(DownloadOutcome::NoPeersLeft);
                return None;
            };
            self.change_sync_peer(peer.node);
        }
        let (peer, query) = self.request_hashes(now).or_else(|| self.request_blocks(now))?;
        let request = DownloadRequest { download: self.number, peer, query };
        self.in_flight.push((request.clone(), now));
        Some(request)
    }

    /// Replaces the sync peer. Discards the hashes of the former one, unless a checkpoint proves them or will.
    fn change_sync_peer(&mut self, sync_peer: Address) {
        if matches!(self.checkpoint, CheckpointState::NoCheckpoint) {
            self.hashes.clear();
            self.batches.clear();
            self.next_hash_height = self.last.height.next();
        } else {
            self.cut_batches(usize::MAX);
        }
        self.agreeing.clear();
        self.disagreeing.clear();
        self.sync_peer = sync_peer;
    }

    /// Returns the last height for which a hash may be requested now.
    fn hash_limit(&self) -> Height {
        match &self.checkpoint {
            CheckpointState::Verifying(checkpoint, _) => checkpoint.height,
            CheckpointState::Verified(checkpoint, ..) if self.next_hash_height <= checkpoint.height => {
                checkpoint.height
            }
            _ => self.target,
        }
    }

    fn request_hashes(&self, now: Duration) -> Option<(Address, Query)> {
        let is_asked = self.in_flight.iter().any(|(asked, _)| matches!(asked.query, Query::HashesFrom(_)));
        let is_wanted = self.next_hash_height <= self.hash_limit() && self.hashes.len() < MAX_PENDING_HASHES;
        let is_ready = |peer: &DownloadPeer| peer.node == self.sync_peer && self.is_ready(peer, now);
        let may_ask = is_wanted && !is_asked && self.peers.iter().any(is_ready);
        may_ask.then_some((self.sync_peer, Query::HashesFrom(self.next_hash_height)))
    }

    fn request_blocks(&mut self, now: Duration) -> Option<(Address, Query)> {
        self.cut_batches(MAX_IN_FLIGHT);
        let asked_blocks = self.in_flight.iter().filter(|(asked, _)| matches!(asked.query, Query::BlocksAfter(_)));
        let expected = asked_blocks.count().saturating_add(1).saturating_mul(self.usual_bytes);
        let held: usize = self.batches.iter().map(BlockBatch::held_bytes).sum();
        let has_room = held.saturating_add(expected) <= MAX_BUFFERED_BYTES;
        for (place, batch) in self.batches.iter().enumerate().filter(|(_, batch)| batch.received.is_none()) {
            // The batch that blocks progress is requested in any case.
            let is_awaited = place == 0;
            if !is_awaited && !has_room {
                return None;
            }
            let query = self.batch_query(batch);
            let asked: Vec<_> = self.in_flight.iter().filter(|(asked, _)| asked.query == query).collect();
            let is_late = is_awaited && asked.iter().all(|(_, sent)| now >= *sent + HEDGE_DELAY);
            if is_late || asked.is_empty() {
                // The peer with the fewest requests in flight, then the fewest failures. Where the pace decides, the sync
                // peer can keep it whatever others do.
                let is_asked = |peer: &DownloadPeer| asked.iter().any(|(asked, _)| asked.peer == peer.node);
                let is_for_sync_peer = self.verifying().is_some() && !asked.is_empty();
                let is_second = |peer: &DownloadPeer| is_for_sync_peer && peer.node != self.sync_peer;
                let free = self.peers.iter().filter(|peer| self.is_ready(peer, now) && !is_asked(peer));
                let order = |peer: &&DownloadPeer| (is_second(peer), self.in_flight_to(peer), peer.failures);
                if let Some(peer) = free.min_by_key(order) {
                    return Some((peer.node, query));
                }
            }
        }
        None
    }

    fn batch_query(&self, batch: &BlockBatch) -> Query {
        Query::BlocksAfter(ChainRequest { after: Height(batch.first.0.saturating_sub(1)), ..self.batch_request })
    }

    /// Cuts hashes into batches until `most` of them wait for blocks.
    fn cut_batches(&mut self, most: usize) {
        let wanted = self.usual_blocks;
        let is_last = most == usize::MAX || self.next_hash_height > self.hash_limit();
        while self.batches.iter().filter(|batch| batch.received.is_none()).count() < most
            && !self.hashes.is_empty()
            && (self.hashes.len() >= wanted || is_last)
        {
            let first = Height(self.next_hash_height.0 - self.hashes.len() as u64);
            let hashes = self.hashes.drain(..wanted.min(self.hashes.len())).collect();
            self.batches.push_back(BlockBatch { first, hashes, hashes_from: self.sync_peer, received: None });
        }
    }

    /// Returns the time at which a delayed request becomes possible or peers are selected, if no answer arrives before.
    pub fn next_due(&self) -> Option<Duration> {
        let hedges = self.in_flight.iter().map(|(_, sent)| *sent + HEDGE_DELAY);
        let retries = self.peers.iter().map(|peer| peer.retry_at);
        let delayed = hedges.chain(retries).filter(|due| *due > self.last_poll);
        let selection = (self.peers.len() < MAX_DOWNLOAD_PEERS).then_some(self.select_at);
        let stalls = self.waiting_since.into_iter().flat_map(|since| [since + self.patience, since + STALL_TIMEOUT]);
        delayed.chain(stalls.filter(|due| *due > self.last_poll)).chain(selection).min()
    }

    /// Ends a request. Returns `false` for one that is not in flight.
    fn end_request(&mut self, request: &DownloadRequest) -> bool {
        let place = self.in_flight.iter().position(|(asked, _)| asked == request);
        place.map(|place| self.in_flight.remove(place)).is_some()
    }

    /// Processes an answer.
    pub fn on_answer(&mut self, request: &DownloadRequest, received: DownloadAnswer) {
        if !self.end_request(request) {
            return;
        }
        if let Some(peer) = self.peers.iter_mut().find(|peer| peer.node == request.peer) {
            peer.failures = 0;
        }
        match received {
            DownloadAnswer::Hashes(hashes)
                if request.query == Query::HashesFrom(self.next_hash_height) && request.peer == self.sync_peer =>
            {
                self.on_hashes(hashes);
            }
            DownloadAnswer::Hashes(_) => {}
            DownloadAnswer::Blocks(blocks) => self.on_blocks(request, blocks),
        }
    }

    /// Handles a failed request.
    pub fn on_failure(&mut self, request: &DownloadRequest, now: Duration) {
        if !self.end_request(request) {
            return;
        }
        let Some(peer) = self.peers.iter_mut().find(|peer| peer.node == request.peer) else { return };
        peer.retry_at = now + backoff(FIRST_BACKOFF, peer.failures, MAX_BACKOFF);
        peer.failures += 1;
        if peer.failures >= MAX_FAILURES {
            self.remove_peer(request.peer);
        }
    }

    fn on_hashes(&mut self, mut hashes: Vec<Hash256>) {
        if hashes.len() > self.max_hashes {
            self.outcome = Some(DownloadOutcome::SyncPeerMisbehaved(self.sync_peer));
            return;
        }
        let left = (self.hash_limit().0 + 1).saturating_sub(self.next_hash_height.0);
        let expected = left.min(self.max_hashes as u64) as usize;
        hashes.truncate(expected);
        // The peer's chain has become shorter, or differs from the proven one.
        if hashes.len() < expected || !self.record_or_check_hashes(&hashes) {
            return self.remove_peer(self.sync_peer);
        }
        self.next_hash_height = Height(self.next_hash_height.0 + hashes.len() as u64);
        self.hashes.extend(hashes);
    }

    /// Records the digest of an answer, or compares it with the recorded one. Returns whether the hashes may be right.
    fn record_or_check_hashes(&mut self, hashes: &[Hash256]) -> bool {
        let digest = || Hash256(keccak256(&hashes.iter().flat_map(|hash| hash.0).collect::<Vec<_>>()));
        match &mut self.checkpoint {
            CheckpointState::Verifying(_, digests) => digests.push(digest()),
            CheckpointState::Verified(_, digests, claimed) => {
                if digests.get(*claimed).is_some_and(|proven| *proven != digest()) {
                    return false;
                }
                *claimed += 1;
            }
            CheckpointState::NoCheckpoint => {}
        }
        true
    }

    fn on_blocks(&mut self, request: &DownloadRequest, blocks: BlockList) {
        let (received, bytes) = (blocks.left(), blocks.held_bytes());
        let place = self.batches.iter().position(|batch| self.batch_query(batch) == request.query);
        let Some((place, batch)) = place.and_then(|place| Some((place, self.batches.get_mut(place)?))) else { return };
        if batch.received.is_some() {
            return;
        }
        if received == 0 {
            // The peer's chain ends below.
            return self.remove_peer(request.peer);
        }
        // What is left becomes a batch of its own.
        let taken = received.min(batch.hashes.len());
        let hashes = batch.hashes.split_off(taken);
        batch.received = Some((request.peer, blocks));
        if !hashes.is_empty() {
            let (first, hashes_from) = (Height(batch.first.0 + taken as u64), batch.hashes_from);
            self.batches.insert(place + 1, BlockBatch { first, hashes, hashes_from, received: None });
        }
        // Slightly less than the usual number, so that answers are seldom short.
        let usual = usize::midpoint(self.usual_blocks, received) * 15 / 16;
        self.usual_blocks = if received < self.max_hashes { usual.max(1) } else { self.max_hashes };
        self.usual_bytes = usize::midpoint(self.usual_bytes, bytes);
    }

    /// Returns the next block or the state of the download; `now` is the time since the start of the node.
    pub fn next(&mut self, context: Context, now: Duration) -> NextBlock {
        let (before, is_verifying) = (self.last.height, self.verifying().is_some());
        let next = self.next_available(context);
        if matches!(next, NextBlock::Waiting) {
            let since = *self.waiting_since.get_or_insert(now);
            if now >= since + STALL_TIMEOUT {
                return self.end(DownloadOutcome::Stalled);
            }
            if is_verifying && self.is_late(now) {
                return self.end(DownloadOutcome::TooSlow(self.claimed_by));
            }
        } else if self.last.height > before || matches!(next, NextBlock::Ended) {
            let waited = self.waiting_since.take().map_or(Duration::ZERO, |since| now.saturating_sub(since));
            let patience = self.patience.saturating_sub(waited) + PATIENCE_PER_BLOCK;
            self.patience = if is_verifying { patience } else { patience.min(PATIENCE) };
        }
        next
    }

    /// Returns whether the next block has been missing for longer than the download may keep the chain.
    pub fn is_late(&self, now: Duration) -> bool {
        self.waiting_since.is_some_and(|since| now >= since + self.patience)
    }

    fn next_available(&mut self, context: Context) -> NextBlock {
        if self.outcome.is_some() {
            return NextBlock::Ended;
        }
        if self.batches.front().is_some_and(|batch| batch.hashes.is_empty()) {
            let sender = self.batches.pop_front().and_then(|batch| batch.received);
            self.useful_peers.extend(sender.map(|(sender, _)| sender));
        }
        let Some(batch) = self.batches.front_mut() else {
            if self.hashes.is_empty() && self.next_hash_height > self.hash_limit() {
                return self.on_hashes_exhausted();
            }
            return NextBlock::Waiting;
        };
        let Some((from, _)) = batch.received else { return NextBlock::Waiting };
        let claimed_by = batch.hashes_from;
        match batch.next(context) {
            Some(block) => {
                self.agreeing.insert(from);
                self.check_link(block, claimed_by)
            }
            None => {
                self.remove_peer(from);
                if claimed_by == self.sync_peer {
                    self.agreeing.remove(&from);
                    self.disagreeing.insert(from);
                    // Most peers that supplied blocks have another chain.
                    let agreeing = self.agreeing.iter().filter(|node| **node != self.sync_peer).count();
                    if self.disagreeing.len() > agreeing + 1 {
                        self.outcome = Some(DownloadOutcome::SyncPeerMisbehaved(self.sync_peer));
                    }
                }
                NextBlock::Working
            }
        }
    }

    /// Checks that a block follows the previous one.
    fn check_link(&mut self, (block, hash): (Box<Block>, Hash256), claimed_by: Address) -> NextBlock {
        if block.previous_hash != self.last.hash {
            return self.end(DownloadOutcome::SyncPeerMisbehaved(claimed_by));
        }
        self.last = Checkpoint { height: block.height, hash };
        match &self.checkpoint {
            CheckpointState::Verifying(checkpoint, _)
                if checkpoint.height == block.height && checkpoint.hash != hash =>
            {
                self.end(DownloadOutcome::CheckpointMismatch(claimed_by, hash))
            }
            CheckpointState::Verifying(..) => NextBlock::Working,
            _ => NextBlock::Block(block),
        }
    }

    /// Handles the end of the hashes: all blocks were returned, or verified up to the checkpoint.
    fn on_hashes_exhausted(&mut self) -> NextBlock {
        let CheckpointState::Verifying(checkpoint, digests) = &mut self.checkpoint else {
            return self.end(DownloadOutcome::Done);
        };
        self.checkpoint = CheckpointState::Verified(*checkpoint, std::mem::take(digests), 0);
        self.last = self.base;
        self.patience = PATIENCE;
        self.next_hash_height = self.base.height.next();
        NextBlock::Working
    }

    fn end(&mut self, ending: DownloadOutcome) -> NextBlock {
        self.outcome = Some(ending);
        NextBlock::Ended
    }
}
