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
//! | hashes without a batch | answers of the sync peer | [`HASHES_AHEAD`] and one answer |
//! | received blocks not yet returned | answers | [`AHEAD_BYTES`] and the requests in flight |
//! | requests in flight | batches | [`MAX_ASKED`], [`MAX_ASKED_OF_ONE`] |
//! | download peers | selections | [`MAX_WORKERS`] |
//! | digests, with a checkpoint | height of the checkpoint | 32 bytes per answer of the sync peer |

mod piece;
mod workers;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use self::piece::Piece;
use self::workers::Workers;
use super::wire::BlockList;
use crate::codec::Context;
use crate::crypto::hash::keccak256;
use crate::model::{Address, Block, Checkpoint, Hash256, Height};

/// Maximum number of download peers.
pub const MAX_WORKERS: usize = 8;
/// Maximum number of requests in flight.
pub const MAX_ASKED: usize = 6;
/// Maximum number of requests in flight to one peer.
pub const MAX_ASKED_OF_ONE: usize = 3;
/// Maximum bytes of received blocks that wait, as long as answers have the usual size.
pub const AHEAD_BYTES: usize = 2 << 20;
/// Maximum number of transactions in a batch, which bounds its bytes.
pub const PIECE_TRANSACTIONS: i32 = 1_000;
/// Number of hashes without a batch from which on no more are requested.
pub const HASHES_AHEAD: usize = 2_000;
/// Time after which the batch that blocks progress is also requested from a second peer.
pub const HEDGE: Duration = Duration::from_secs(3);
/// Assumed bytes of a batch before the first has arrived.
const FIRST_PIECE_BYTES: usize = 256 << 10;
/// Hash over all block hashes of one answer.
type Digest = Hash256;

/// Id of a request. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId {
    /// Number of the download.
    pub run: u64,
    /// Number of the request within the download.
    pub ask: u64,
}

/// Request to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Id of the request.
    pub id: AskId,
    /// Peer to query.
    pub whom: Address,
    /// Requested data.
    pub question: Question,
}

/// Kind of requested data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Hashes of the peer's blocks from a height on.
    HashesFrom(Height),
    /// The peer's blocks after a height, with at most [`PIECE_TRANSACTIONS`] transactions.
    BlocksAfter(Height),
}

/// Answer of a peer.
#[derive(Debug)]
pub enum Heard {
    /// Block hashes.
    Hashes(Vec<Hash256>),
    /// Blocks.
    Blocks(BlockList),
}

/// Height and hash of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Height of the block.
    pub height: Height,
    /// Hash of the block.
    pub hash: Hash256,
}

/// Result of [`CatchUp::next`].
#[derive(Debug)]
pub enum Ahead {
    /// The next block.
    Block(Box<Block>),
    /// Some work was done; there is more to do before the next block.
    Working,
    /// The next block has not arrived.
    Waiting,
    /// The download has ended.
    Over,
}

/// Result of a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All blocks were returned.
    Done,
    /// The sync peer's hashes do not form a chain, or most other peers do not have that chain.
    Evil(Address),
    /// The chain of this peer has a block of this hash at the height of the trusted checkpoint.
    OtherBlock(Address, Hash256),
    /// No download peer is left.
    Stranded,
}

/// State of the trusted checkpoint.
#[derive(Debug)]
enum Vouched {
    Nothing,
    /// The hashes are followed up to the checkpoint; holds one digest per answer so far.
    Proving(Checkpoint, Vec<Digest>),
    /// The hashes with these digests lead to the checkpoint; holds the number of digests that were compared again.
    Proven(Checkpoint, Vec<Digest>, usize),
}

/// Request in flight.
#[derive(Debug)]
struct Asked {
    whom: Address,
    question: Question,
    at: Duration,
}

/// Download of one chain.
#[derive(Debug)]
pub struct CatchUp {
    run: u64,
    leader: Address,
    base: Link,
    target: Height,
    /// Maximum number of hashes in an answer.
    answer: usize,
    vouched: Vouched,
    /// Hashes without a batch, and the next height for which to request a hash.
    claims: VecDeque<Hash256>,
    unclaimed: Height,
    pieces: VecDeque<Piece>,
    workers: Workers,
    under_way: BTreeMap<AskId, Asked>,
    asks: u64,
    /// Time of the last call of [`CatchUp::ask`].
    asked_at: Duration,
    /// The last block that was returned, or that was verified on the way to the checkpoint.
    last: Link,
    /// Running averages of the blocks and bytes in an answer.
    usual_blocks: usize,
    usual_bytes: usize,
    /// Peers that supplied blocks of the sync peer's chain, and peers that supplied others.
    agreeing: BTreeSet<Address>,
    disagreeing: BTreeSet<Address>,
    helpful: Vec<Address>,
    ending: Option<Ending>,
}

impl CatchUp {
    /// Starts a download after `base`, our tip, of the sync peer's chain up to `target` at least. `run` must be unique;
    /// `answer` is the maximum number of hashes in an answer. A checkpoint counts only if it lies above `base` and up
    /// to `target`.
    pub fn new(
        run: u64,
        leader: Address,
        (base, target): (Link, Height),
        answer: u64,
        checkpoint: Option<Checkpoint>,
    ) -> CatchUp {
        let checkpoint = checkpoint.filter(|checkpoint| checkpoint.height > base.height && checkpoint.height <= target);
        let answer = usize::try_from(answer).unwrap_or(usize::MAX).max(1);
        let mut workers = Workers::default();
        workers.add(leader);
        CatchUp {
            run,
            leader,
            base,
            target,
            answer,
            vouched: checkpoint.map_or(Vouched::Nothing, |checkpoint| Vouched::Proving(checkpoint, Vec::new())),
            claims: VecDeque::new(),
            unclaimed: base.height.next(),
            pieces: VecDeque::new(),
            workers,
            under_way: BTreeMap::new(),
            asks: 0,
            asked_at: Duration::ZERO,
            last: base,
            usual_blocks: answer,
            usual_bytes: FIRST_PIECE_BYTES,
            agreeing: BTreeSet::new(),
            disagreeing: BTreeSet::new(),
            helpful: Vec::new(),
            ending: None,
        }
    }

    /// Returns the sync peer.
    pub fn leader(&self) -> Address {
        self.leader
    }

    /// Returns our tip at the start of the download.
    pub fn base(&self) -> Link {
        self.base
    }

    /// Returns the last height of the sync peer's chain at the start of the download.
    pub fn target(&self) -> Height {
        self.target
    }

    /// Returns the verified height and the checkpoint while the blocks up to the checkpoint are verified.
    pub fn proving(&self) -> Option<(Height, Checkpoint)> {
        match self.vouched {
            Vouched::Proving(checkpoint, _) => Some((self.last.height, checkpoint)),
            _ => None,
        }
    }

    /// Returns the height below which blocks are known to lead to the trusted checkpoint.
    pub fn trusted_below(&self) -> Height {
        match self.vouched {
            Vouched::Proven(checkpoint, ..) => checkpoint.height,
            _ => Height(0),
        }
    }

    /// Returns the result, if the download has ended.
    pub fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// Takes the peers that supplied a useful batch, one entry per batch.
    pub fn take_helpful(&mut self) -> Vec<Address> {
        std::mem::take(&mut self.helpful)
    }

    /// Adds a download peer.
    pub fn add_worker(&mut self, node: Address) {
        self.workers.add(node);
    }

    /// Returns whether there is room for more download peers.
    pub fn wants_workers(&self) -> bool {
        self.workers.len() < MAX_WORKERS
    }

    /// Returns the next request to send, if any; `now` is the time since the start of the node.
    pub fn ask(&mut self, now: Duration) -> Option<Ask> {
        self.asked_at = now;
        if self.ending.is_some() || self.under_way.len() >= MAX_ASKED {
            return None;
        }
        if !self.workers.has(&self.leader) {
            let Some(leader) = self.workers.any() else {
                self.ending = Some(Ending::Stranded);
                return None;
            };
            self.change_leader(leader);
        }
        let (whom, question) = self.ask_leader(now).or_else(|| self.ask_worker(now))?;
        self.asks += 1;
        let id = AskId { run: self.run, ask: self.asks };
        self.workers.asked(&whom);
        self.under_way.insert(id, Asked { whom, question, at: now });
        Some(Ask { id, whom, question })
    }

    /// Replaces the sync peer. Discards the hashes of the former one, unless a checkpoint proves them or will.
    fn change_leader(&mut self, leader: Address) {
        if matches!(self.vouched, Vouched::Nothing) {
            self.claims.clear();
            self.pieces.clear();
            self.unclaimed = self.last.height.next();
        } else {
            self.cut_pieces(usize::MAX);
        }
        self.agreeing.clear();
        self.disagreeing.clear();
        self.leader = leader;
    }

    /// Returns the last height for which a hash may be requested now.
    fn limit(&self) -> Height {
        match &self.vouched {
            Vouched::Proving(checkpoint, _) => checkpoint.height,
            Vouched::Proven(checkpoint, ..) if self.unclaimed <= checkpoint.height => checkpoint.height,
            _ => self.target,
        }
    }

    fn ask_leader(&self, now: Duration) -> Option<(Address, Question)> {
        let is_asked = self.under_way.values().any(|asked| matches!(asked.question, Question::HashesFrom(_)));
        let is_wanted = self.unclaimed <= self.limit() && self.claims.len() < HASHES_AHEAD;
        let may_ask = is_wanted && !is_asked && self.workers.is_ready(&self.leader, now);
        may_ask.then_some((self.leader, Question::HashesFrom(self.unclaimed)))
    }

    fn ask_worker(&mut self, now: Duration) -> Option<(Address, Question)> {
        self.cut_pieces(MAX_ASKED);
        let asked_blocks = self.under_way.values().filter(|asked| matches!(asked.question, Question::BlocksAfter(_)));
        let expected = asked_blocks.count().saturating_add(1).saturating_mul(self.usual_bytes);
        let held: usize = self.pieces.iter().map(Piece::held_bytes).sum();
        let has_room = held.saturating_add(expected) <= AHEAD_BYTES;
        for (place, piece) in self.pieces.iter().enumerate().filter(|(_, piece)| !piece.is_heard()) {
            // The batch that blocks progress is requested in any case.
            let is_awaited = place == 0;
            if !is_awaited && !has_room {
                return None;
            }
            let asked: Vec<_> = self.under_way.values().filter(|asked| asked.question == piece.question()).collect();
            let is_late = is_awaited && asked.len() == 1 && asked.iter().all(|asked| now >= asked.at + HEDGE);
            if is_late || asked.is_empty() {
                let whom = self.workers.choose(now, |worker| asked.iter().all(|asked| asked.whom != *worker));
                if whom.is_some() {
                    return whom.map(|whom| (whom, piece.question()));
                }
            }
        }
        None
    }

    /// Cuts hashes into batches until `most` of them wait for blocks.
    fn cut_pieces(&mut self, most: usize) {
        let wanted = self.usual_blocks;
        let is_last = most == usize::MAX || self.unclaimed > self.limit();
        while self.pieces.iter().filter(|piece| !piece.is_heard()).count() < most
            && !self.claims.is_empty()
            && (self.claims.len() >= wanted || is_last)
        {
            let first = Height(self.unclaimed.0 - self.claims.len() as u64);
            let hashes = self.claims.drain(..wanted.min(self.claims.len())).collect();
            self.pieces.push_back(Piece::new(first, hashes, self.leader));
        }
    }

    /// Returns the time at which a delayed request becomes possible, if no answer arrives before.
    pub fn next_due(&self) -> Option<Duration> {
        let hedges = self.under_way.values().map(|asked| asked.at + HEDGE);
        hedges.chain(self.workers.rests()).filter(|due| *due > self.asked_at).min()
    }

    /// Processes an answer.
    pub fn heard(&mut self, id: AskId, heard: Heard) {
        let Some(Asked { whom, question, .. }) = self.under_way.remove(&id) else { return };
        self.workers.answered(&whom);
        match heard {
            Heard::Hashes(hashes) if question == Question::HashesFrom(self.unclaimed) && whom == self.leader => {
                self.heard_hashes(hashes);
            }
            Heard::Hashes(_) => {}
            Heard::Blocks(blocks) => self.heard_blocks(whom, question, blocks),
        }
    }

    fn heard_hashes(&mut self, mut hashes: Vec<Hash256>) {
        if hashes.len() > self.answer {
            self.ending = Some(Ending::Evil(self.leader));
            return;
        }
        let left = usize::try_from((self.limit().0 + 1).saturating_sub(self.unclaimed.0)).unwrap_or(usize::MAX);
        let expected = left.min(self.answer);
        hashes.truncate(expected);
        // The peer's chain has become shorter, or differs from the proven one.
        if hashes.len() < expected || !self.note_claims(&hashes) {
            let leader = self.leader;
            return self.workers.remove(&leader);
        }
        self.unclaimed = Height(self.unclaimed.0 + hashes.len() as u64);
        self.claims.extend(hashes);
    }

    /// Records the digest of an answer, or compares it with the recorded one. Returns whether the hashes may be right.
    fn note_claims(&mut self, hashes: &[Hash256]) -> bool {
        let digest = || Hash256(keccak256(&hashes.iter().flat_map(|hash| hash.0).collect::<Vec<_>>()));
        match &mut self.vouched {
            Vouched::Proving(_, digests) => digests.push(digest()),
            Vouched::Proven(_, digests, claimed) => {
                if digests.get(*claimed).is_some_and(|proven| *proven != digest()) {
                    return false;
                }
                *claimed += 1;
            }
            Vouched::Nothing => {}
        }
        true
    }

    fn heard_blocks(&mut self, whom: Address, question: Question, blocks: BlockList) {
        let Some(place) = self.pieces.iter().position(|piece| piece.question() == question) else { return };
        let (heard, bytes) = (blocks.left(), blocks.held_bytes());
        let Some(piece) = self.pieces.get_mut(place).filter(|piece| !piece.is_heard()) else { return };
        if heard == 0 {
            // The peer's chain ends below.
            return self.workers.remove(&whom);
        }
        if let Some(rest) = piece.hear(whom, blocks) {
            self.pieces.insert(place + 1, rest);
        }
        // Slightly less than the usual number, so that answers are seldom short.
        let usual = usize::midpoint(self.usual_blocks, heard) * 15 / 16;
        self.usual_blocks = if heard < self.answer { usual.max(1) } else { self.answer };
        self.usual_bytes = usize::midpoint(self.usual_bytes, bytes);
    }

    /// Handles a failed request.
    pub fn failed(&mut self, id: AskId, now: Duration) {
        if let Some(asked) = self.under_way.remove(&id) {
            self.workers.failed(&asked.whom, now);
        }
    }

    /// Returns the next block or the state of the download.
    pub fn next(&mut self, context: Context) -> Ahead {
        if self.ending.is_some() {
            return Ahead::Over;
        }
        if self.pieces.front().is_some_and(Piece::is_through) {
            self.helpful.extend(self.pieces.pop_front().and_then(|piece| piece.from()));
        }
        let Some(piece) = self.pieces.front_mut() else {
            if self.claims.is_empty() && self.unclaimed > self.limit() {
                return self.end_of_claims();
            }
            return Ahead::Waiting;
        };
        let Some(from) = piece.from() else { return Ahead::Waiting };
        let claimed_by = piece.claimed_by();
        match piece.next(context) {
            Some(block) => {
                self.agreeing.insert(from);
                self.follow(block, claimed_by)
            }
            None => {
                self.workers.remove(&from);
                if claimed_by == self.leader {
                    self.agreeing.remove(&from);
                    self.disagreeing.insert(from);
                    self.count_votes();
                }
                Ahead::Working
            }
        }
    }

    /// Checks that a block follows the previous one.
    fn follow(&mut self, (block, hash): (Box<Block>, Hash256), claimed_by: Address) -> Ahead {
        if block.previous_hash != self.last.hash {
            return self.end(Ending::Evil(claimed_by));
        }
        self.last = Link { height: block.height, hash };
        match &self.vouched {
            Vouched::Proving(checkpoint, _) if checkpoint.height == block.height && checkpoint.hash != hash => {
                self.end(Ending::OtherBlock(claimed_by, hash))
            }
            Vouched::Proving(..) => Ahead::Working,
            _ => Ahead::Block(block),
        }
    }

    /// Handles the end of the hashes: all blocks were returned, or verified up to the checkpoint.
    fn end_of_claims(&mut self) -> Ahead {
        let Vouched::Proving(checkpoint, digests) = &mut self.vouched else { return self.end(Ending::Done) };
        self.vouched = Vouched::Proven(*checkpoint, std::mem::take(digests), 0);
        self.last = self.base;
        self.unclaimed = self.base.height.next();
        Ahead::Working
    }

    /// Ends the download if most peers that supplied blocks have another chain than the sync peer.
    fn count_votes(&mut self) {
        let agreeing = self.agreeing.iter().filter(|node| **node != self.leader).count();
        if self.disagreeing.len() > agreeing + 1 {
            self.ending = Some(Ending::Evil(self.leader));
        }
    }

    fn end(&mut self, ending: Ending) -> Ahead {
        self.ending = Some(ending);
        Ahead::Over
    }

    /// Returns the requests in flight, the bytes of waiting blocks and the number of waiting hashes.
    #[cfg(test)]
    pub fn load(&self) -> (usize, usize, usize) {
        (self.under_way.len(), self.pieces.iter().map(Piece::held_bytes).sum(), self.claims.len())
    }
}
