//! Catching up with a chain that is far ahead of ours.
//!
//! One node, the leader, is asked for the hashes of its blocks, and several nodes for the blocks that have them, some
//! pieces ahead of the one that is taken in, so that nobody waits for anybody. Blocks are handed out in the order of their
//! heights. Each must have the hash that was claimed for it and follow the one before it, so that nobody but the leader
//! decides which chain it is; the nodes that give blocks outvote a leader whose chain most of them do not have.
//!
//! Where the operator vouches for a block, the blocks up to it are fetched twice: first to see that they lead to it, of
//! which a hash of every few hundred claims is kept, and then to be taken in without looking at their signatures.
//!
//! | what grows | by | limit |
//! |---|---|---|
//! | hashes that were claimed | answers of the leader | [`HASHES_AHEAD`] and an answer |
//! | blocks that were heard and not handed out | answers | [`AHEAD_BYTES`] and what is under way |
//! | requests under way | pieces | [`MAX_ASKED`], [`MAX_ASKED_OF_ONE`] |
//! | nodes that are asked | draws | [`MAX_WORKERS`] |
//! | hashes of claims, where a block is vouched for | heights up to it | 32 bytes for an answer of the leader |

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

/// Most nodes that are asked.
pub const MAX_WORKERS: usize = 8;
/// Most requests under way.
pub const MAX_ASKED: usize = 6;
/// Most requests under way to one node.
pub const MAX_ASKED_OF_ONE: usize = 3;
/// Bytes of blocks that may wait to be handed out, so long as answers are as long as they usually are.
pub const AHEAD_BYTES: usize = 2 << 20;
/// Transactions of a piece, which bound its bytes.
pub const PIECE_TRANSACTIONS: i32 = 1_000;
/// Hashes that are claimed ahead of the pieces.
pub const HASHES_AHEAD: usize = 2_000;
/// Time after which a piece that everything waits for is asked of somebody else too.
pub const HEDGE: Duration = Duration::from_secs(3);
/// Bytes of a piece, as long as none has come.
const FIRST_PIECE_BYTES: usize = 256 << 10;
/// Hashes over all claims of an answer stand for them.
type Digest = Hash256;

/// Number of a request. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId {
    /// Number of the run.
    pub run: u64,
    /// Number of the request in it.
    pub ask: u64,
}

/// What a node is to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Its number.
    pub id: AskId,
    /// Who is asked.
    pub whom: Address,
    /// What.
    pub question: Question,
}

/// What a node is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Hashes of its blocks from a height on.
    HashesFrom(Height),
    /// Its blocks after a height, with [`PIECE_TRANSACTIONS`] transactions at most.
    BlocksAfter(Height),
}

/// What a node has answered.
#[derive(Debug)]
pub enum Heard {
    /// Hashes.
    Hashes(Vec<Hash256>),
    /// Blocks.
    Blocks(BlockList),
}

/// A block, by height and hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its height.
    pub height: Height,
    /// Its hash.
    pub hash: Hash256,
}

/// The next block.
#[derive(Debug)]
pub enum Ahead {
    /// Here it is.
    Block(Box<Block>),
    /// Some work was done on the way to it, and there is more.
    Working,
    /// It has not come yet.
    Waiting,
    /// There is none.
    Over,
}

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All blocks were handed out.
    Done,
    /// The claims of the leader are not those of a chain, or of one that most others do not have.
    Evil(Address),
    /// Its chain has another block than the operator vouches for.
    OtherBlock(Address, Hash256),
    /// Nobody is left who could be asked.
    Stranded,
}

/// Whether the operator vouches for a block, and what is known of the way to it.
#[derive(Debug)]
enum Vouched {
    Nothing,
    /// Claims are followed to the block; what was claimed so far.
    Proving(Checkpoint, Vec<Digest>),
    /// They lead to it, if they are these; how many of them were claimed again.
    Proven(Checkpoint, Vec<Digest>, usize),
}

/// What was asked.
#[derive(Debug)]
struct Asked {
    whom: Address,
    question: Question,
    at: Duration,
}

/// A run.
#[derive(Debug)]
pub struct CatchUp {
    run: u64,
    leader: Address,
    base: Link,
    target: Height,
    /// Hashes in an answer.
    answer: usize,
    vouched: Vouched,
    /// Claims that no piece has yet, and the height of the first that is still to be asked for.
    claims: VecDeque<Hash256>,
    unclaimed: Height,
    pieces: VecDeque<Piece>,
    workers: Workers,
    under_way: BTreeMap<AskId, Asked>,
    asks: u64,
    /// When it was last looked what is to be asked.
    asked_at: Duration,
    /// The last block that was handed out, or that is known to lead to the one that is vouched for.
    last: Link,
    /// Blocks in an answer, and its bytes, as they usually are.
    usual_blocks: usize,
    usual_bytes: usize,
    /// Who has given blocks of the leader's chain, and who of another.
    agreeing: BTreeSet<Address>,
    disagreeing: BTreeSet<Address>,
    helpful: Vec<Address>,
    ending: Option<Ending>,
}

impl CatchUp {
    /// Begins a run of a number that no other has, behind our last block: the leader's chain goes on from there up to the
    /// target at least. It gives so many hashes at a time. A block that the operator vouches for counts if it is between
    /// the two.
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

    /// The node whose chain is followed.
    pub fn leader(&self) -> Address {
        self.leader
    }

    /// The block that the first one follows.
    pub fn base(&self) -> Link {
        self.base
    }

    /// The last height of the leader's chain, when it began.
    pub fn target(&self) -> Height {
        self.target
    }

    /// The height that is reached on the way to the block that the operator vouches for, as long as nothing is handed out.
    pub fn proving(&self) -> Option<(Height, Checkpoint)> {
        match self.vouched {
            Vouched::Proving(checkpoint, _) => Some((self.last.height, checkpoint)),
            _ => None,
        }
    }

    /// The height below which blocks are known to lead to the one that is vouched for.
    pub fn trusted_below(&self) -> Height {
        match self.vouched {
            Vouched::Proven(checkpoint, ..) => checkpoint.height,
            _ => Height(0),
        }
    }

    /// How it has ended, if it has.
    pub fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// Nodes whose blocks were of use, told once for each piece.
    pub fn take_helpful(&mut self) -> Vec<Address> {
        std::mem::take(&mut self.helpful)
    }

    /// Names further nodes that may be asked.
    pub fn add_worker(&mut self, node: Address) {
        self.workers.add(node);
    }

    /// Whether more nodes would be of use.
    pub fn wants_workers(&self) -> bool {
        self.workers.len() < MAX_WORKERS
    }

    /// The next request that is to be sent, if one is; `now` is the time since the start of the node.
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

    /// Another node leads from now on. What the former one has claimed is forgotten, unless it is known or still to be seen
    /// whether it leads to the block that is vouched for.
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

    /// The last height that may be claimed now.
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
            // What everything waits for is asked for in any case.
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

    /// Makes pieces of claims, until so many of them wait.
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

    /// When there is something to be asked for that could not be asked before, unless something is heard first.
    pub fn next_due(&self) -> Option<Duration> {
        let hedges = self.under_way.values().map(|asked| asked.at + HEDGE);
        hedges.chain(self.workers.rests()).filter(|due| *due > self.asked_at).min()
    }

    /// A node has answered.
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
        // Its chain has become shorter, or another than that which was proven.
        if hashes.len() < expected || !self.note_claims(&hashes) {
            let leader = self.leader;
            return self.workers.remove(&leader);
        }
        self.unclaimed = Height(self.unclaimed.0 + hashes.len() as u64);
        self.claims.extend(hashes);
    }

    /// Keeps what stands for claims, or compares them with what is kept. Returns whether they may be right.
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
            // Its chain ends below.
            return self.workers.remove(&whom);
        }
        if let Some(rest) = piece.hear(whom, blocks) {
            self.pieces.insert(place + 1, rest);
        }
        // A little less than what usually comes, so that what comes is seldom too little.
        let usual = usize::midpoint(self.usual_blocks, heard) * 15 / 16;
        self.usual_blocks = if heard < self.answer { usual.max(1) } else { self.answer };
        self.usual_bytes = usize::midpoint(self.usual_bytes, bytes);
    }

    /// A request has failed.
    pub fn failed(&mut self, id: AskId, now: Duration) {
        if let Some(asked) = self.under_way.remove(&id) {
            self.workers.failed(&asked.whom, now);
        }
    }

    /// The next block, or what there is instead.
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

    /// Looks whether a block that was claimed follows the one before it.
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

    /// All that was claimed was handed out, or led to the block that is vouched for.
    fn end_of_claims(&mut self) -> Ahead {
        let Vouched::Proving(checkpoint, digests) = &mut self.vouched else { return self.end(Ending::Done) };
        self.vouched = Vouched::Proven(*checkpoint, std::mem::take(digests), 0);
        self.last = self.base;
        self.unclaimed = self.base.height.next();
        Ahead::Working
    }

    /// Ends it if most of those who have given blocks have another chain than the leader.
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

    /// Requests under way, bytes of blocks that wait, and hashes that wait.
    #[cfg(test)]
    pub fn load(&self) -> (usize, usize, usize) {
        (self.under_way.len(), self.pieces.iter().map(Piece::held_bytes).sum(), self.claims.len())
    }
}
