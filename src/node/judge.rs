//! Blocks of other nodes on their way into the chain: those that were pulled from one, and those that are pushed.
//!
//! They are judged one lot after the other, each in small pieces. A lot holds the right to change the chain from its
//! first block that is undone or put on to its end, and either all of it comes into the chain or nothing.

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

/// Pushed blocks that may wait, and their bytes. Beyond them the host with most of them loses its newest, if it has two
/// more than the one that pushes now.
const MAX_WAITING: usize = 16;
const MAX_WAITING_BYTES: usize = 4 << 20;
/// Seconds for which it is remembered what became of a pushed block.
const MEMORY: i32 = 6_000;

/// Whom blocks come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// A node that was asked for them.
    Pulled(Address),
    /// A node that has pushed one.
    Pushed(Pusher),
}

/// What becomes of a block that is pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It is judged soon.
    Waits,
    /// This is the result, without judging it.
    Ended(ValidationResult),
    /// The result was given to the same block before, or there is no room.
    Passed,
    /// The node has not joined its network, and takes none.
    Early,
}

/// What became of blocks.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The result of the protocol.
    Result(ValidationResult),
    /// They are wrong in a way for which NIS1 has a text instead of a result.
    Exception(Exception),
    /// They would undo more of our blocks than may be undone, of which nobody is blamed.
    TooDeep,
    /// They cannot be read, of which nobody is blamed: an answer may have been cut short.
    Unreadable(ReadError),
}

/// Blocks that were judged.
#[derive(Debug)]
pub struct Judged {
    /// Whom they come from.
    pub sender: Sender,
    /// What became of them.
    pub outcome: Outcome,
    /// What our chain has become, if they have changed it.
    pub switch: Option<Switch>,
    /// The block, if it was pushed and has come into the chain, so that it can be passed on.
    pub accepted: Option<Box<Block>>,
}

/// Judges blocks.
pub struct Judge<'s> {
    store: &'s Store,
    network: &'s Network,
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    work: Work<'s>,
    /// The node whose blocks were dropped because the store has failed.
    dropped: Option<Address>,
    memory: PushMemory,
    verifier: Verifier,
}

/// A pushed block that waits.
struct Waiting {
    block: PushedBlock,
    by: Pusher,
    bytes: usize,
}

/// A pushed block, and what its result is remembered by.
struct PushedBlock {
    block: Box<Block>,
    hash: ContentHash,
}

enum Work<'s> {
    Nothing,
    /// Blocks that were pulled are read, and those that were.
    Reading(Box<Pulled>, Vec<Block>),
    /// They are judged; a block that was pushed.
    Judging(Box<ChainPart<'s>>, Sender, Option<PushedBlock>),
}

impl<'s> Judge<'s> {
    /// One that has nothing to do.
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

    /// How much of pushed blocks is held.
    pub fn loads(&self) -> [Load; 3] {
        [
            Load::new("pushed blocks that wait", self.waiting.len(), MAX_WAITING),
            Load::new("bytes of pushed blocks", self.waiting_bytes, MAX_WAITING_BYTES),
            Load::new("answers to blocks", self.memory.len(), MAX_ANSWERS),
        ]
    }

    /// Whether there is something to judge.
    pub fn has_work(&self) -> bool {
        !matches!(self.work, Work::Nothing) || !self.waiting.is_empty()
    }

    /// Whether blocks are in hand that nobody else must change the chain under.
    pub fn holds_chain(&self) -> bool {
        matches!(self.work, Work::Judging(..))
    }

    /// Whether blocks that were pulled can be taken: nothing is in hand.
    pub fn may_pull(&self) -> bool {
        matches!(self.work, Work::Nothing)
    }

    /// Takes blocks that were pulled, if it may, before all that are pushed.
    pub fn pull(&mut self, pulled: Pulled) {
        if self.may_pull() {
            self.work = Work::Reading(Box::new(pulled), Vec::new());
        }
    }

    /// Takes a block of this network that a node has pushed. One that has come before, or does not follow the end of our
    /// chain, is not judged. A node that has not joined its network takes none, but remembers that it has come.
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

    /// Makes room for a block of so many bytes that a host has pushed. Whether there is room. One that finds none, or loses
    /// its place, is not remembered: it may come again.
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

    /// Does one piece of work; `now` is network time. What became of blocks, if that is clear now. If the store fails,
    /// the blocks in hand are dropped: they will come again. [`Judge::take_dropped`] tells whose they were.
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

    /// The node whose pulled blocks were dropped because the store has failed, told once.
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

    /// Reads one block. Once all are read, and our chain is still the one that they were compared with, they are judged.
    fn read(&mut self, mut pulled: Box<Pulled>, mut read: Vec<Block>) -> Result<Option<Judged>, StoreError> {
        let sender = Sender::Pulled(pulled.from);
        match pulled.blocks.next(Context::of(self.network)) {
            // More blocks than a node may send are too many, however many they are.
            Some(Ok(block)) if read.len() as u64 <= self.network.chain.max_blocks_per_sync() => {
                // The other node may have come over to our chain since they were compared. What both have is left alone:
                // nobody is to be told of a block twice.
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
            // The other chain is too different to be followed, of which nobody is blamed.
            Err(RollbackError::NotBelow { .. }) => {
                Ok(Some(Judged::of(sender, Outcome::Result(ValidationResult::Neutral))))
            }
            Err(RollbackError::TooDeep { .. }) => Ok(Some(Judged::of(sender, Outcome::TooDeep))),
        }
    }

    /// Whether a block is ours at a height.
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
