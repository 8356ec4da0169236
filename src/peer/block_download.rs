//! Block download from several peers, for a chain that is far ahead of ours.
//!
//! One peer, the sync peer, supplies the block hashes. Several peers supply the blocks, some batches ahead of the one
//! being processed, so that processing never waits for a single peer. Blocks are returned in order of height. Each must
//! have the hash that the sync peer supplied and follow the previous block, so only the sync peer determines the chain.
//! A majority of the peers that supply blocks can outvote a sync peer whose chain they do not have.
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

mod batch;
mod peers;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use self::batch::BlockBatch;
use self::peers::DownloadPeers;
use super::wire::BlockList;
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
/// Time after which the batch that blocks progress is also requested from a second peer.
pub const HEDGE_DELAY: Duration = Duration::from_secs(3);
/// Interval between selections of further download peers.
const SELECT_INTERVAL: Duration = Duration::from_secs(10);
/// Assumed bytes of a batch before the first has arrived.
const INITIAL_BATCH_BYTES: usize = 256 << 10;
/// Hash over all block hashes of one answer.
type Digest = Hash256;

/// Id of a request. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DownloadRequestId {
    /// Number of the download.
    pub download: u64,
    /// Number of the request within the download.
    pub request: u64,
}

/// Request to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DownloadRequest {
    /// Id of the request.
    pub id: DownloadRequestId,
    /// Peer to query.
    pub peer: Address,
    /// Requested data.
    pub query: DownloadQuery,
}

/// Kind of requested data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DownloadQuery {
    /// Hashes of the peer's blocks from a height on.
    HashesFrom(Height),
    /// The peer's blocks after a height, with at most [`MAX_BATCH_TRANSACTIONS`] transactions.
    BlocksAfter(Height),
}

/// Answer of a peer.
#[derive(Debug)]
pub enum DownloadAnswer {
    /// Block hashes.
    Hashes(Vec<Hash256>),
    /// Blocks.
    Blocks(BlockList),
}

/// Height and hash of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRef {
    /// Height of the block.
    pub height: Height,
    /// Hash of the block.
    pub hash: Hash256,
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

/// Result of a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DownloadOutcome {
    /// All blocks were returned.
    Done,
    /// The sync peer's hashes do not form a chain, or most other peers do not have that chain.
    SyncPeerMisbehaved(Address),
    /// The chain of this peer has a block of this hash at the height of the trusted checkpoint.
    CheckpointMismatch(Address, Hash256),
    /// No download peer is left.
    NoPeersLeft,
}

/// State of the trusted checkpoint.
#[derive(Debug)]
enum CheckpointState {
    NoCheckpoint,
    /// The hashes are followed up to the checkpoint; holds one digest per answer so far.
    Verifying(Checkpoint, Vec<Digest>),
    /// The hashes with these digests lead to the checkpoint; holds the number of digests that were compared again.
    Verified(Checkpoint, Vec<Digest>, usize),
}

/// Request in flight.
#[derive(Debug)]
struct InFlight {
    peer: Address,
    query: DownloadQuery,
    sent_at: Duration,
}

/// Download of one chain.
#[derive(Debug)]
pub struct BlockDownload {
    id: u64,
    sync_peer: Address,
    base: BlockRef,
    target: Height,
    /// Maximum number of hashes in an answer.
    max_hashes: usize,
    checkpoint: CheckpointState,
    /// Hashes without a batch, and the next height for which to request a hash.
    hashes: VecDeque<Hash256>,
    next_hash_height: Height,
    batches: VecDeque<BlockBatch>,
    peers: DownloadPeers,
    in_flight: BTreeMap<DownloadRequestId, InFlight>,
    request_count: u64,
    /// When further download peers are selected, if there is room.
    select_at: Duration,
    /// Time of the last call of [`BlockDownload::next_request`].
    last_poll: Duration,
    /// The last block that was returned, or that was verified on the way to the checkpoint.
    last: BlockRef,
    /// Running averages of the blocks and bytes in an answer.
    usual_blocks: usize,
    usual_bytes: usize,
    /// Peers that supplied blocks of the sync peer's chain, and peers that supplied others.
    agreeing: BTreeSet<Address>,
    disagreeing: BTreeSet<Address>,
    useful_peers: Vec<Address>,
    outcome: Option<DownloadOutcome>,
}

impl BlockDownload {
    /// Starts a download after `base`, our tip, of the sync peer's chain up to `target` at least. `run` must be unique;
    /// `answer` is the maximum number of hashes in an answer. A checkpoint counts only if it lies above `base` and up
    /// to `target`.
    pub fn new(
        run: u64,
        leader: Address,
        (base, target): (BlockRef, Height),
        answer: u64,
        checkpoint: Option<Checkpoint>,
    ) -> BlockDownload {
        let checkpoint = checkpoint.filter(|checkpoint| checkpoint.height > base.height && checkpoint.height <= target);
        let answer = usize::try_from(answer).unwrap_or(usize::MAX).max(1);
        let mut download_peers = DownloadPeers::default();
        download_peers.add(leader);
        BlockDownload {
            id: run,
            sync_peer: leader,
            base,
            target,
            max_hashes: answer,
            checkpoint: checkpoint
                .map_or(CheckpointState::NoCheckpoint, |checkpoint| CheckpointState::Verifying(checkpoint, Vec::new())),
            hashes: VecDeque::new(),
            next_hash_height: base.height.next(),
            batches: VecDeque::new(),
            peers: download_peers,
            in_flight: BTreeMap::new(),
            request_count: 0,
            select_at: Duration::ZERO,
            last_poll: Duration::ZERO,
            last: base,
            usual_blocks: answer,
            usual_bytes: INITIAL_BATCH_BYTES,
            agreeing: BTreeSet::new(),
            disagreeing: BTreeSet::new(),
            useful_peers: Vec::new(),
            outcome: None,
        }
    }

    /// Returns the sync peer.
    pub fn sync_peer(&self) -> Address {
        self.sync_peer
    }

    /// Returns our tip at the start of the download.
    pub fn base(&self) -> BlockRef {
        self.base
    }

    /// Returns the last height of the sync peer's chain at the start of the download.
    pub fn target(&self) -> Height {
        self.target
    }

    /// Returns the verified height and the checkpoint while the blocks up to the checkpoint are verified.
    pub fn verifying(&self) -> Option<(Height, Checkpoint)> {
        match self.checkpoint {
            CheckpointState::Verifying(checkpoint, _) => Some((self.last.height, checkpoint)),
            _ => None,
        }
    }

    /// Returns the height below which blocks are known to lead to the trusted checkpoint.
    pub fn trusted_below(&self) -> Height {
        match self.checkpoint {
            CheckpointState::Verified(checkpoint, ..) => checkpoint.height,
            _ => Height(0),
        }
    }

    /// Returns the result, if the download has ended.
    pub fn outcome(&self) -> Option<DownloadOutcome> {
        self.outcome
    }

    /// Takes the peers that supplied a useful batch, one entry per batch.
    pub fn take_useful_peers(&mut self) -> Vec<Address> {
        std::mem::take(&mut self.useful_peers)
    }

    /// Adds newly selected download peers, as far as there is room.
    pub fn add_peers(&mut self, nodes: Vec<Address>, now: Duration) {
        self.select_at = now + SELECT_INTERVAL;
        nodes.into_iter().for_each(|node| self.peers.add(node));
    }

    /// Adds a download peer.
    #[cfg(test)]
    pub fn add_peer(&mut self, node: Address) {
        self.peers.add(node);
    }

    /// Returns whether further download peers are to be selected.
    pub fn wants_peers(&self, now: Duration) -> bool {
        self.peers.len() < MAX_DOWNLOAD_PEERS && self.select_at <= now
    }

    /// Returns the next request to send, if any; `now` is the time since the start of the node.
    pub fn next_request(&mut self, now: Duration) -> Option<DownloadRequest> {
        self.last_poll = now;
        if self.outcome.is_some() || self.in_flight.len() >= MAX_IN_FLIGHT {
            return None;
        }
        if !self.peers.has(&self.sync_peer) {
            let Some(sync_peer) = self.peers.any() else {
                self.outcome = Some(DownloadOutcome::NoPeersLeft);
                return None;
            };
            self.change_sync_peer(sync_peer);
        }
        let (whom, question) = self.request_hashes(now).or_else(|| self.request_blocks(now))?;
        self.request_count += 1;
        let id = DownloadRequestId { download: self.id, request: self.request_count };
        self.peers.on_request(&whom);
        self.in_flight.insert(id, InFlight { peer: whom, query: question, sent_at: now });
        Some(DownloadRequest { id, peer: whom, query: question })
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

    fn request_hashes(&self, now: Duration) -> Option<(Address, DownloadQuery)> {
        let is_asked = self.in_flight.values().any(|asked| matches!(asked.query, DownloadQuery::HashesFrom(_)));
        let is_wanted = self.next_hash_height <= self.hash_limit() && self.hashes.len() < MAX_PENDING_HASHES;
        let may_ask = is_wanted && !is_asked && self.peers.is_ready(&self.sync_peer, now);
        may_ask.then_some((self.sync_peer, DownloadQuery::HashesFrom(self.next_hash_height)))
    }

    fn request_blocks(&mut self, now: Duration) -> Option<(Address, DownloadQuery)> {
        self.cut_batches(MAX_IN_FLIGHT);
        let asked_blocks = self.in_flight.values().filter(|asked| matches!(asked.query, DownloadQuery::BlocksAfter(_)));
        let expected = asked_blocks.count().saturating_add(1).saturating_mul(self.usual_bytes);
        let held: usize = self.batches.iter().map(BlockBatch::held_bytes).sum();
        let has_room = held.saturating_add(expected) <= MAX_BUFFERED_BYTES;
        for (place, piece) in self.batches.iter().enumerate().filter(|(_, piece)| !piece.is_received()) {
            // The batch that blocks progress is requested in any case.
            let is_awaited = place == 0;
            if !is_awaited && !has_room {
                return None;
            }
            let asked: Vec<_> = self.in_flight.values().filter(|asked| asked.query == piece.query()).collect();
            let is_late =
                is_awaited && asked.len() == 1 && asked.iter().all(|asked| now >= asked.sent_at + HEDGE_DELAY);
            if is_late || asked.is_empty() {
                let whom = self.peers.choose(now, |worker| asked.iter().all(|asked| asked.peer != *worker));
                if whom.is_some() {
                    return whom.map(|whom| (whom, piece.query()));
                }
            }
        }
        None
    }

    /// Cuts hashes into batches until `most` of them wait for blocks.
    fn cut_batches(&mut self, most: usize) {
        let wanted = self.usual_blocks;
        let is_last = most == usize::MAX || self.next_hash_height > self.hash_limit();
        while self.batches.iter().filter(|piece| !piece.is_received()).count() < most
            && !self.hashes.is_empty()
            && (self.hashes.len() >= wanted || is_last)
        {
            let first = Height(self.next_hash_height.0 - self.hashes.len() as u64);
            let hashes = self.hashes.drain(..wanted.min(self.hashes.len())).collect();
            self.batches.push_back(BlockBatch::new(first, hashes, self.sync_peer));
        }
    }

    /// Returns the time at which a delayed request becomes possible or peers are selected, if no answer arrives before.
    pub fn next_due(&self) -> Option<Duration> {
        let hedges = self.in_flight.values().map(|asked| asked.sent_at + HEDGE_DELAY);
        let delayed = hedges.chain(self.peers.retry_times()).filter(|due| *due > self.last_poll);
        let selection = (self.peers.len() < MAX_DOWNLOAD_PEERS).then_some(self.select_at);
        delayed.chain(selection).min()
    }

    /// Processes an answer.
    pub fn on_answer(&mut self, id: DownloadRequestId, received: DownloadAnswer) {
        let Some(InFlight { peer: whom, query: question, .. }) = self.in_flight.remove(&id) else { return };
        self.peers.on_answer(&whom);
        match received {
            DownloadAnswer::Hashes(hashes)
                if question == DownloadQuery::HashesFrom(self.next_hash_height) && whom == self.sync_peer =>
            {
                self.on_hashes(hashes);
            }
            DownloadAnswer::Hashes(_) => {}
            DownloadAnswer::Blocks(blocks) => self.on_blocks(whom, question, blocks),
        }
    }

    fn on_hashes(&mut self, mut hashes: Vec<Hash256>) {
        if hashes.len() > self.max_hashes {
            self.outcome = Some(DownloadOutcome::SyncPeerMisbehaved(self.sync_peer));
            return;
        }
        let left =
            usize::try_from((self.hash_limit().0 + 1).saturating_sub(self.next_hash_height.0)).unwrap_or(usize::MAX);
        let expected = left.min(self.max_hashes);
        hashes.truncate(expected);
        // The peer's chain has become shorter, or differs from the proven one.
        if hashes.len() < expected || !self.record_or_check_hashes(&hashes) {
            let sync_peer = self.sync_peer;
            return self.peers.remove(&sync_peer);
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

    fn on_blocks(&mut self, whom: Address, question: DownloadQuery, blocks: BlockList) {
        let Some(place) = self.batches.iter().position(|piece| piece.query() == question) else { return };
        let (received, bytes) = (blocks.left(), blocks.held_bytes());
        let Some(piece) = self.batches.get_mut(place).filter(|piece| !piece.is_received()) else { return };
        if received == 0 {
            // The peer's chain ends below.
            return self.peers.remove(&whom);
        }
        if let Some(rest) = piece.receive(whom, blocks) {
            self.batches.insert(place + 1, rest);
        }
        // Slightly less than the usual number, so that answers are seldom short.
        let usual = usize::midpoint(self.usual_blocks, received) * 15 / 16;
        self.usual_blocks = if received < self.max_hashes { usual.max(1) } else { self.max_hashes };
        self.usual_bytes = usize::midpoint(self.usual_bytes, bytes);
    }

    /// Handles a failed request.
    pub fn on_failure(&mut self, id: DownloadRequestId, now: Duration) {
        if let Some(asked) = self.in_flight.remove(&id) {
            self.peers.on_failure(&asked.peer, now);
        }
    }

    /// Returns the next block or the state of the download.
    pub fn next(&mut self, context: Context) -> NextBlock {
        if self.outcome.is_some() {
            return NextBlock::Ended;
        }
        if self.batches.front().is_some_and(BlockBatch::is_consumed) {
            self.useful_peers.extend(self.batches.pop_front().and_then(|piece| piece.sender()));
        }
        let Some(piece) = self.batches.front_mut() else {
            if self.hashes.is_empty() && self.next_hash_height > self.hash_limit() {
                return self.on_hashes_exhausted();
            }
            return NextBlock::Waiting;
        };
        let Some(from) = piece.sender() else { return NextBlock::Waiting };
        let claimed_by = piece.hashes_from();
        match piece.next(context) {
            Some(block) => {
                self.agreeing.insert(from);
                self.check_link(block, claimed_by)
            }
            None => {
                self.peers.remove(&from);
                if claimed_by == self.sync_peer {
                    self.agreeing.remove(&from);
                    self.disagreeing.insert(from);
                    self.count_votes();
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
        self.last = BlockRef { height: block.height, hash };
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
        self.next_hash_height = self.base.height.next();
        NextBlock::Working
    }

    /// Ends the download if most peers that supplied blocks have another chain than the sync peer.
    fn count_votes(&mut self) {
        let agreeing = self.agreeing.iter().filter(|node| **node != self.sync_peer).count();
        if self.disagreeing.len() > agreeing + 1 {
            self.outcome = Some(DownloadOutcome::SyncPeerMisbehaved(self.sync_peer));
        }
    }

    fn end(&mut self, ending: DownloadOutcome) -> NextBlock {
        self.outcome = Some(ending);
        NextBlock::Ended
    }

    /// Returns the requests in flight, the bytes of waiting blocks and the number of waiting hashes.
    #[cfg(test)]
    pub fn load(&self) -> (usize, usize, usize) {
        (self.in_flight.len(), self.batches.iter().map(BlockBatch::held_bytes).sum(), self.hashes.len())
    }
}
