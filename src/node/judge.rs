//! Processing of blocks from peers: blocks that this node pulled, and blocks that peers push.
//!
//! One candidate branch is processed at a time, in small steps. It holds the right to change the chain from its first
//! undone or applied block to its end. Either the whole branch enters the chain or nothing does.

use std::collections::VecDeque;
use std::net::IpAddr;

use crate::chain::{ChainPart, PartOutcome, PartProgress, RollbackError, Switch, check_pushed, pushed_part};
use crate::codec::{Context, Form, ReadError};
use crate::crypto::Verifier;
use crate::model::{Address, Block, Height, Network, Timestamp};
use crate::peer::nodes::host;
use crate::peer::outside::Pulled;
use crate::peer::{Load, Pusher};
use crate::pool::{Confirmed, ContentHash, MAX_ANSWERS, PushMemory};
use crate::rules::{Exception, Refusal, ValidationResult};
use crate::store::{Store, StoreError, stored_header, tip};

#[cfg(test)]
mod tests;

/// Limits of the queue of pushed blocks: blocks and bytes. Beyond them the newest block of the host with the most
/// blocks is dropped, if that host has at least two more than the current sender; otherwise the new block is dropped.
const MAX_WAITING: usize = 16;
const MAX_WAITING_BYTES: usize = 4 << 20;
/// Seconds for which the result of a pushed block is remembered.
const MEMORY: i32 = 6_000;

/// Source of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// A peer that this node requested them from.
    Pulled(Address),
    /// A peer that pushed one.
    Pushed(Pusher),
}

/// Immediate result of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The block is queued.
    Waits,
    /// The block was rejected before processing, with this result.
    Ended(ValidationResult),
    /// The block is queued or was seen before, or the queue is full.
    Passed,
    /// The node has not joined its network and accepts no blocks.
    Early,
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
pub struct Judged {
    /// The source of the blocks.
    pub sender: Sender,
    /// The result.
    pub outcome: Outcome,
    /// The chain update, if the blocks changed our chain.
    pub switch: Option<Switch>,
    /// The block to relay, if it was pushed and accepted.
    pub accepted: Option<Box<Block>>,
}

/// The block processor.
pub struct Judge<'s> {
    store: &'s Store,
    network: &'s Network,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    work: Work<'s>,
    /// The peer whose blocks were dropped because the store failed.
    dropped: Option<Address>,
    memory: PushMemory,
    verifier: Verifier,
}

/// A queued pushed block.
struct Waiting {
    block: PushedBlock,
    by: Pusher,
    bytes: usize,
}

/// A pushed block and its key in the memory of results.
struct PushedBlock {
    block: Box<Block>,
    hash: ContentHash,
}

enum Work<'s> {
    Nothing,
    /// Pulled blocks that are being decoded, and the blocks decoded so far.
    Reading(Box<Pulled>, Vec<Block>),
    /// A candidate branch in validation, its source, and the block if it was pushed.
    Judging(Box<ChainPart<'s>>, Sender, Option<PushedBlock>),
}

impl<'s> Judge<'s> {
    /// Creates an idle block processor.
    pub fn new(store: &'s Store, network: &'s Network) -> Judge<'s> {
        let (memory, verifier) = (PushMemory::of_seconds(MEMORY), Verifier::default());
        Judge {
            store,
            network,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            work: Work::Nothing,
            dropped: None,
            memory,
            verifier,
        }
    }

    /// Usage of the queue and of the memory of results.
    pub fn loads(&self) -> [Load; 3] {
        [
            Load::new("pushed blocks that wait", self.waiting.len(), MAX_WAITING),
            Load::new("bytes of pushed blocks", self.waiting_bytes, MAX_WAITING_BYTES),
            Load::new("answers to blocks", self.memory.len(), MAX_ANSWERS),
        ]
    }

    /// Returns whether there are blocks to process.
    pub fn has_work(&self) -> bool {
        !matches!(self.work, Work::Nothing) || !self.waiting.is_empty()
    }

    /// Returns whether a branch is in validation; nothing else may change the chain meanwhile.
    pub fn holds_chain(&self) -> bool {
        matches!(self.work, Work::Judging(..))
    }

    /// Returns whether pulled blocks can be accepted: nothing is in progress.
    pub fn may_pull(&self) -> bool {
        matches!(self.work, Work::Nothing)
    }

    /// Accepts pulled blocks if the processor is free; they go before all queued pushed blocks.
    pub fn pull(&mut self, pulled: Pulled) {
        if self.may_pull() {
            self.work = Work::Reading(Box::new(pulled), Vec::new());
        }
    }

    /// Queues a block of this network that a peer pushed. A block that was seen before or does not extend our tip is
    /// not queued. A node that has not joined its network rejects the block but remembers it.
    pub fn push(
        &mut self,
        block: Block,
        by: Pusher,
        confirmed: &Confirmed<'_>,
        is_booted: bool,
    ) -> Result<Pushed, StoreError> {
        let bytes = block.to_bytes(Form::Verifiable);
        let (hash, bytes) = (ContentHash::of(&bytes), bytes.len());
        let is_waiting = self.waiting.iter().any(|waiting| waiting.block.hash == hash);
        if is_waiting || self.memory.answer(&hash, confirmed.now).is_some() {
            return Ok(Pushed::Passed);
        }
        if !is_booted {
            self.memory.remember(hash, confirmed.now);
            return Ok(Pushed::Early);
        }
        match check_pushed(&block, confirmed.snapshot, self.network, &mut self.verifier) {
            Ok(()) => {}
            Err(Refusal::Store(error)) => return Err(error),
            Err(Refusal::Result(result)) => {
                self.memory.remember(hash, confirmed.now);
                self.memory.set(&hash, result);
                return Ok(Pushed::Ended(result));
            }
            Err(Refusal::Exception(_)) => {
                self.memory.remember(hash, confirmed.now);
                return Ok(Pushed::Ended(ValidationResult::FailureChainInvalid));
            }
        }
        if !self.make_room(host(by.from), bytes) {
            return Ok(Pushed::Passed);
        }
        self.waiting_bytes += bytes;
        self.waiting.push_back(Waiting { block: PushedBlock { block: Box::new(block), hash }, by, bytes });
        Ok(Pushed::Waits)
    }

    /// Makes room for a pushed block of this size. Returns whether there is room. A block that finds no room or is
    /// dropped is not remembered: it may be pushed again.
    fn make_room(&mut self, pusher: IpAddr, bytes: usize) -> bool {
        while self.waiting.len() >= MAX_WAITING || self.waiting_bytes + bytes > MAX_WAITING_BYTES {
            let count = |from| self.waiting.iter().filter(|waiting| host(waiting.by.from) == from).count();
            let counts = self.waiting.iter().map(|waiting| count(host(waiting.by.from)));
            let largest = counts.enumerate().max_by_key(|(_, count)| *count);
            let Some((newest, _)) = largest.filter(|(_, most)| *most > count(pusher) + 1) else { return false };
            let dropped = self.waiting.remove(newest);
            self.waiting_bytes -= dropped.map_or(0, |dropped| dropped.bytes);
        }
        true
    }

    /// Performs one step; `now` is network time. Returns the processed blocks once their result is known. If the store
    /// fails, the current blocks are dropped, since peers will send them again; [`Judge::take_dropped`] returns their
    /// source.
    pub fn step(&mut self, now: Timestamp) -> Result<Option<Judged>, StoreError> {
        let work = std::mem::replace(&mut self.work, Work::Nothing);
        let pulled_from = match &work {
            Work::Reading(pulled, _) => Some(pulled.from),
            Work::Judging(_, Sender::Pulled(from), _) => Some(*from),
            _ => None,
        };
        let result = match work {
            Work::Nothing => self.begin_pushed(now),
            Work::Reading(pulled, read) => self.read(pulled, read),
            Work::Judging(part, sender, pushed) => self.judge(part, sender, pushed, now),
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

    fn begin_pushed(&mut self, now: Timestamp) -> Result<Option<Judged>, StoreError> {
        let Some(Waiting { block, by, bytes }) = self.waiting.pop_front() else { return Ok(None) };
        self.waiting_bytes -= bytes;
        self.memory.remember(block.hash, now);
        let sender = Sender::Pushed(by);
        match pushed_part(self.store, self.network, (*block.block).clone()) {
            Ok(part) => {
                self.work = Work::Judging(part, sender, Some(block));
                Ok(None)
            }
            Err(Refusal::Store(error)) => Err(error),
            Err(Refusal::Result(result)) => Ok(Some(self.pushed_ended(sender, block.hash, Ok(result)))),
            Err(Refusal::Exception(exception)) => Ok(Some(self.pushed_ended(sender, block.hash, Err(&exception)))),
        }
    }

    /// Decodes one block. When all are decoded and our tip is still the compared one, validation starts.
    fn read(&mut self, mut pulled: Box<Pulled>, mut read: Vec<Block>) -> Result<Option<Judged>, StoreError> {
        let sender = Sender::Pulled(pulled.from);
        match pulled.blocks.next(Context::of(self.network)) {
            // Any number of blocks above the sync limit is too many.
            Some(Ok(block)) if read.len() as u64 <= self.network.chain.max_blocks_per_sync() => {
                // The peer may have adopted our chain since the comparison. Common blocks are skipped, so that no block
                // is published twice.
                match read.is_empty() && self.has(&block, pulled.common.next())? {
                    true => pulled.common = pulled.common.next(),
                    false => read.push(block),
                }
                self.work = Work::Reading(pulled, read);
                return Ok(None);
            }
            Some(Err(error)) => return Ok(Some(Judged::of(sender, Outcome::Unreadable(error)))),
            _ => {}
        }
        let Pulled { common, base, .. } = *pulled;
        let last = tip(&self.store.snapshot()?)?.ok_or(StoreError::Empty)?;
        if last.hash != base {
            return Ok(Some(Judged::of(sender, Outcome::Result(ValidationResult::Neutral))));
        }
        match ChainPart::new(self.store, self.network, common, read) {
            Ok(part) => {
                self.work = Work::Judging(Box::new(part), sender, None);
                Ok(None)
            }
            Err(RollbackError::Store(error)) => Err(error),
            // The branch cannot be applied to our chain; the peer is not blamed.
            Err(RollbackError::NotBelow { .. }) => {
                Ok(Some(Judged::of(sender, Outcome::Result(ValidationResult::Neutral))))
            }
            Err(RollbackError::TooDeep { .. }) => Ok(Some(Judged::of(sender, Outcome::TooDeep))),
        }
    }

    /// Returns whether our block at a height is this one.
    fn has(&self, block: &Block, height: Height) -> Result<bool, StoreError> {
        let ours = stored_header(&self.store.snapshot()?, height)?;
        Ok(ours.is_some_and(|ours| ours.hash == block.hash()))
    }

    fn judge(
        &mut self,
        part: Box<ChainPart<'s>>,
        sender: Sender,
        pushed: Option<PushedBlock>,
        now: Timestamp,
    ) -> Result<Option<Judged>, StoreError> {
        let outcome = match part.step(now)? {
            PartProgress::Working(part) => {
                self.work = Work::Judging(part, sender, pushed);
                return Ok(None);
            }
            PartProgress::Done(outcome) => outcome,
        };
        let mut judged = match &pushed {
            Some(block) => self.pushed_ended(sender, block.hash, outcome.of_push()),
            None => Judged::of(sender, Outcome::of(outcome.of_synchronisation())),
        };
        let PartOutcome { switch, .. } = outcome;
        judged.accepted = pushed.filter(|_| switch.is_some()).map(|pushed| pushed.block);
        judged.switch = switch;
        Ok(Some(judged))
    }

    fn pushed_ended(
        &mut self,
        sender: Sender,
        hash: ContentHash,
        result: Result<ValidationResult, &Exception>,
    ) -> Judged {
        if let Ok(result) = result {
            self.memory.set(&hash, result);
        }
        Judged::of(sender, Outcome::of(result))
    }
}

impl Outcome {
    fn of(result: Result<ValidationResult, &Exception>) -> Outcome {
        match result {
            Ok(result) => Outcome::Result(result),
            Err(exception) => Outcome::Exception(exception.clone()),
        }
    }
}

impl Judged {
    fn of(sender: Sender, outcome: Outcome) -> Judged {
        Judged { sender, outcome, switch: None, accepted: None }
    }
}
