//! Block download of a chain that is far ahead: starts it, sends its requests, and updates the peers' experiences.

use std::time::Duration;

use super::calls::{Ended, Purpose};
use super::mishap::{Mishap, words};
use super::{Answered, Peers};
use crate::codec::Format;
use crate::model::{Address, Height};
use crate::peer::catch_up::{Ahead, Ask, AskId, CatchUp, Ending, Heard, Link, PIECE_TRANSACTIONS, Question};
use crate::peer::outside::{Now, Outside, OwnTip, Reply};
use crate::peer::schedule::Task;
use crate::peer::wire::{BlockList, ChainRequest, HashChain, Query};

/// Minimum number of blocks per request.
const LEAST_BLOCKS: i32 = 10;
/// JSON is decoded in one go, so JSON batches are smaller.
const JSON_PIECE_TRANSACTIONS: i32 = 200;
/// Interval between selections of further download peers.
const DRAW_EVERY: Duration = Duration::from_secs(10);

/// Running block download.
#[derive(Debug)]
pub struct CatchingUp {
    run: CatchUp,
    draw_at: Duration,
}

/// Progress of a block download, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// Last common block at the start.
    pub base: Link,
    /// Height at which the download ends.
    pub target: Height,
    /// Height below which blocks are covered by the trusted checkpoint.
    pub trusted_below: Height,
    /// Verified height and height of the trusted checkpoint, while the blocks up to the checkpoint are verified.
    pub followed: Option<(Height, Height)>,
}

impl Peers {
    /// Starts a block download from a sync peer.
    pub(super) fn begin_catching_up(&mut self, leader: Address, base: OwnTip, target: Height, now: Now) {
        let base = Link { height: base.height, hash: base.hash };
        let answer = self.settings.chain.max_blocks_per_sync();
        self.runs += 1;
        let run = CatchUp::new(self.runs, leader, (base, target), answer, self.settings.checkpoint);
        match run.proving() {
            Some((_, checkpoint)) => log::info!(
                "{target} blocks are there, {} here; they are followed up to {} first, for which --trust-below vouches",
                base.height,
                checkpoint.height
            ),
            None => log::info!("{target} blocks are there, {} here; the node catches up", base.height),
        }
        self.catching_up = Some(CatchingUp { run, draw_at: now.running });
    }

    /// Returns whether a block download is running.
    pub fn is_catching_up(&self) -> bool {
        self.catching_up.is_some()
    }

    /// Returns the progress of the block download, if one is running.
    pub fn outlook(&self) -> Option<Outlook> {
        let run = &self.catching_up.as_ref()?.run;
        let followed = run.proving().map(|(height, checkpoint)| (height, checkpoint.height));
        Some(Outlook { base: run.base(), target: run.target(), trusted_below: run.trusted_below(), followed })
    }

    /// Returns the next block to process, if a block download is running. After [`Ahead::Over`], and once all returned
    /// blocks are in the chain, the host calls [`Peers::caught_up`].
    pub fn next_block(&mut self, now: Now) -> Option<Ahead> {
        let run = &mut self.catching_up.as_mut()?.run;
        let next = run.next(self.settings.context);
        for node in run.take_helpful() {
            self.experiences.succeeded(node, now.time);
        }
        Some(next)
    }

    /// Ends the block download: all returned blocks are in the chain, or this node cannot continue (blames no peer).
    pub fn caught_up(&mut self, now: Now) {
        let Some(CatchingUp { run, .. }) = self.catching_up.take() else { return };
        match run.ending() {
            Some(Ending::Evil(leader)) => self.misled(leader, "what it says of its chain is not true", now),
            Some(Ending::OtherBlock(leader, hash)) => {
                self.misled(
                    leader,
                    &format!("its chain has another block than --trust-below vouches for: {hash}"),
                    now,
                );
            }
            Some(Ending::Stranded) => log::info!("nobody is left who has the chain that was followed"),
            Some(Ending::Done) | None => {}
        }
        let is_done = run.ending() == Some(Ending::Done);
        self.end_task(Task::Synchronisation, is_done, now);
        if is_done {
            self.synchronise_soon(now);
        }
    }

    /// Ends the block download because a block of the sync peer's chain is invalid.
    pub fn block_refused(&mut self, reason: &str, now: Now) {
        if let Some(CatchingUp { run, .. }) = self.catching_up.take() {
            self.misled(run.leader(), reason, now);
            self.end_task(Task::Synchronisation, false, now);
        }
    }

    fn misled(&mut self, leader: Address, reason: &str, now: Now) {
        log::warn!("the chain of {leader} is not followed: {}", words(reason));
        self.experiences.failed(leader, now.time);
    }

    /// Sends the due requests of the block download.
    pub(super) fn ask_ahead(&mut self, now: Now, outside: &mut impl Outside) {
        self.draw_workers(now, outside);
        while let Some(ask) = self.catching_up.as_mut().and_then(|catching_up| catching_up.run.ask(now.running)) {
            let is_sent = self.send_ahead(ask, outside);
            if let Some(CatchingUp { run, .. }) = self.catching_up.as_mut().filter(|_| !is_sent) {
                run.failed(ask.id, now.running);
            }
        }
    }

    fn draw_workers(&mut self, now: Now, outside: &mut impl Outside) {
        let is_due = |one: &CatchingUp| one.draw_at <= now.running && one.run.wants_workers();
        if !self.catching_up.as_ref().is_some_and(is_due) {
            return;
        }
        let drawn = self.draw_by(&self.selector, outside);
        if let Some(CatchingUp { run, draw_at }) = &mut self.catching_up {
            *draw_at = now.running + DRAW_EVERY;
            drawn.into_iter().for_each(|node| run.add_worker(node));
        }
    }

    fn send_ahead(&mut self, ask: Ask, outside: &mut impl Outside) -> bool {
        let Some(node) = self.nodes.get(&ask.whom).map(|node| node.about.info.clone()) else { return false };
        let transactions = match self.settings.format {
            Format::Binary => PIECE_TRANSACTIONS,
            Format::Json => JSON_PIECE_TRANSACTIONS,
        };
        let query = match ask.question {
            Question::HashesFrom(first) => Query::HashesFrom(first),
            Question::BlocksAfter(height) => {
                Query::BlocksAfter(ChainRequest::new(height, LEAST_BLOCKS, transactions, &self.settings.chain))
            }
        };
        self.ask(&node, &query, Purpose::Ahead(ask.id, ask.question), outside)
    }

    /// Returns the time of the next delayed request.
    pub(super) fn next_ask_due(&self) -> Option<Duration> {
        let CatchingUp { run, draw_at } = self.catching_up.as_ref()?;
        let draws = run.wants_workers().then_some(*draw_at);
        [draws, run.next_due()].into_iter().flatten().min()
    }

    /// Processes the answer to a request for hashes or blocks, or its failure.
    pub(super) fn ahead_ended(
        &mut self,
        id: AskId,
        question: Question,
        ended: Ended,
        reply: Reply,
        now: Now,
        outside: &mut impl Outside,
    ) {
        let (giver, endpoint) = (self.giver(&ended), ended.endpoint.clone());
        let heard = match question {
            Question::HashesFrom(_) => {
                self.read_answer(ended.proof, reply).map(|(HashChain(hashes), _)| Heard::Hashes(hashes))
            }
            Question::BlocksAfter(_) => self.open_blocks(ended, reply).map(Heard::Blocks),
        };
        if let Some(giver) = giver.filter(|_| heard.is_ok()) {
            self.has_given(&giver, &endpoint, now, outside);
        }
        let Some(CatchingUp { run, .. }) = &mut self.catching_up else { return };
        match heard {
            Ok(heard) => run.heard(id, heard),
            Err(Mishap { reason, .. }) => {
                log::debug!("no answer to {question:?}: {reason}");
                run.failed(id, now.running);
            }
        }
    }

    fn open_blocks(&self, ended: Ended, reply: Reply) -> Result<BlockList, Mishap> {
        let Answered { body, challenge, key, .. } = self.answered(ended.proof, reply)?;
        Ok(BlockList::open(self.settings.format, body, self.settings.context, &challenge, &key)?)
    }
}
