//! The nemesis block, for a node that has nothing yet: known nodes are asked for it, one after the other.
//!
//! It does not matter who gives it. The block is held against what the settings say of it, so that an answer needs no
//! proof of its own, and nodes whose keys are not known can be asked as well.

use std::collections::BTreeMap;
use std::time::Duration;

use super::machine::mishap::Mishap;
use super::outside::{CallId, Reply};
use super::wire::{Endpoint, Outgoing, nemesis_request};
use crate::chain::{BlockError, authentic_nemesis_block};
use crate::codec::{Context, Form, Format};
use crate::model::{Amount, Block, Body, Hash256, Network};

/// Nodes whose answers are waited for at once. Each of these answers takes memory up to the limit of a nemesis block.
pub const AT_ONCE: usize = 4;
/// How long a node is waited for before the next one is asked as well.
pub const HURRY: Duration = Duration::from_secs(2);
/// How long all rest once everybody was asked in vain; each time twice as long.
pub const FIRST_REST: Duration = Duration::from_secs(5);
/// How long they rest at most.
pub const LONGEST_REST: Duration = Duration::from_secs(300);

/// In which format it is asked for, whatever others are asked in: it is the shortest.
pub const FORMAT: Format = Format::Binary;

/// Asks known nodes in rounds. The first block that is right ends it, once it has been taken in.
pub struct NemesisSearch {
    network: Network,
    /// The hash of the block, if it is known.
    hash: Option<Hash256>,
    known: Vec<Endpoint>,
    /// The node to be asked next; those before it were asked in this round.
    next: usize,
    /// When it is asked.
    due: Duration,
    /// Nodes that were asked and have not answered.
    waiting: BTreeMap<CallId, usize>,
    /// The node whose block is being taken in.
    giver: Option<usize>,
    rest: Duration,
}

impl NemesisSearch {
    /// Begins to ask these nodes for the nemesis block of a network.
    pub fn new(network: Network, hash: Option<Hash256>, known: Vec<Endpoint>, now: Duration) -> NemesisSearch {
        NemesisSearch {
            network,
            hash,
            known,
            next: 0,
            due: now,
            waiting: BTreeMap::new(),
            giver: None,
            rest: FIRST_REST,
        }
    }

    /// When the next node is to be asked; `None` while nothing is done before something else happens.
    pub fn next_due(&self) -> Option<Duration> {
        let may_ask = self.next < self.known.len() && self.waiting.len() < AT_ONCE && self.giver.is_none();
        may_ask.then_some(self.due)
    }

    /// Asks whoever is due.
    pub fn turn(&mut self, now: Duration, mut send: impl FnMut(&Endpoint, Outgoing) -> CallId) {
        while self.next_due().is_some_and(|due| due <= now)
            && let Some(node) = self.known.get(self.next)
        {
            self.waiting.insert(send(node, nemesis_request(FORMAT)), self.next);
            self.next += 1;
            self.due = now + HURRY;
        }
    }

    /// Takes what came of a request: a block that is to be taken in, if it is one that may be right.
    pub fn ended(&mut self, call: CallId, reply: Reply, now: Duration) -> Option<Vec<u8>> {
        let index = self.waiting.remove(&call)?;
        let name = self.known.get(index).map(Endpoint::to_string).unwrap_or_default();
        match self.block_in(reply) {
            // Nobody needs a second one.
            Ok(_) if self.giver.is_some() => {}
            Ok(block) => {
                log::info!("{name} has sent a nemesis block of {}, hash {}", self.network.name, block.hash());
                self.giver = Some(index);
                return Some(block.to_bytes(Form::Verifiable));
            }
            Err(Unfit::Nothing(mishap)) => log::info!("{name} sends no nemesis block: {mishap}"),
            Err(Unfit::Other(reason)) => self.tell_other(&name, &reason),
        }
        self.go_on(now);
        None
    }

    /// The block that was handed out last is not right after all.
    pub fn refused(&mut self, reason: &str, now: Duration) {
        if let Some(node) = self.giver.take().and_then(|index| self.known.get(index)) {
            self.tell_other(&node.to_string(), reason);
            self.go_on(now);
        }
    }

    /// Requests that nobody needs to answer any more.
    pub fn outstanding(&self) -> impl Iterator<Item = CallId> {
        self.waiting.keys().copied()
    }

    fn tell_other(&self, node: &str, reason: &str) {
        log::warn!("{node} sends something else than the nemesis block of {}: {reason}", self.network.name);
    }

    /// A node was of no use: the next one is asked at once, or all of them again after a rest.
    fn go_on(&mut self, now: Duration) {
        self.due = now;
        let is_over = self.next >= self.known.len() && self.waiting.is_empty() && self.giver.is_none();
        if is_over {
            log::warn!(
                "no known node ({}) has sent the nemesis block of {}; asking again in {} s",
                self.known.len(),
                self.network.name,
                self.rest.as_secs()
            );
            self.next = 0;
            self.due = now + self.rest;
            self.rest = (self.rest * 2).min(LONGEST_REST);
        }
    }

    fn block_in(&self, reply: Reply) -> Result<Block, Unfit> {
        let context = Context::of(&self.network);
        let body = match reply {
            Reply::Answer { body, .. } => body,
            other => return Err(Unfit::Nothing(Mishap::of(other, FORMAT, context))),
        };
        let block = authentic_nemesis_block(&body, &self.network, self.hash).map_err(|error| match error {
            // What exactly cannot be read in it says little to people.
            BlockError::Unreadable(_) => Unfit::Other("it is no block of this network".to_owned()),
            other => Unfit::Other(other.to_string()),
        })?;
        match handed_out(&block) {
            Some(amount) if amount == self.network.total_amount => Ok(block),
            _ => Err(Unfit::Other("it does not hand out what nem.network.totalAmount says".to_owned())),
        }
    }
}

/// Why an answer is of no use.
enum Unfit {
    /// There is no block in it.
    Nothing(Mishap),
    /// It is another block, or none.
    Other(String),
}

/// What the transfers of a block move; `None` if there is not so much.
fn handed_out(block: &Block) -> Option<Amount> {
    let amount = |body: &Body| match body {
        Body::Transfer(transfer) => transfer.amount.0,
        _ => 0,
    };
    let mut amounts = block.transactions.iter().map(|transaction| amount(&transaction.body));
    amounts.try_fold(0_u64, |sum, amount| sum.checked_add(amount)).map(Amount)
}

#[cfg(test)]
mod tests;
